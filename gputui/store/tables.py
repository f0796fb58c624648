"""The tables. Times are UTC-aware, durations seconds, memory bytes, power watts; null is unknown.

JSON columns are replaced whole: a change inside a loaded value would be lost in silence.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from gputui.domain.lifecycle import Hold, JobState
from gputui.store.columns import Argv, BigKey, Holds, Names, PathBytes, PlainText, words


class RunState(StrEnum):
    """Where a run stands."""

    GRANTED = "granted"
    """The intent is committed; the program is not known to have begun."""
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"
    """Its end is known; its GPUs are released once `released_at` is set."""


class Meta(SQLModel, table=True):
    """Facts about the store itself: its identity, the next job number."""

    __tablename__ = "meta"

    key: str = Field(primary_key=True)
    value: str = Field(sa_column=sa.Column(PlainText, nullable=False))


class Leader(SQLModel, table=True):
    """One row: the daemon that may write. The epoch grows by one with each take-over."""

    __tablename__ = "leader"

    id: int = Field(default=1, primary_key=True)
    epoch: int
    host_id: str = Field(foreign_key="host.id")
    taken_at: datetime


class Host(SQLModel, table=True):
    """A machine that has led this store or run its jobs."""

    __tablename__ = "host"

    id: str = Field(primary_key=True)
    name: str = Field(sa_column=sa.Column(PlainText, nullable=False))
    first_seen: datetime
    last_seen: datetime


class Environment(SQLModel, table=True):
    """A captured environment, stored once however many jobs share it. Its values are never shown."""

    __tablename__ = "environment"

    hash: str = Field(primary_key=True)
    """SHA-256 of `blob`."""
    blob: bytes
    """`NAME=value` entries in order of name, each ended by a NUL."""


class Job(SQLModel, table=True):
    """A job as asked for and where it stands."""

    __tablename__ = "job"
    __table_args__ = (sa.Index("ix_job_state_ended", "state", "ended_at", "id"),)

    id: int = Field(primary_key=True)
    host_id: str = Field(foreign_key="host.id")
    owner_uid: int = Field(sa_type=sa.BigInteger)
    owner: str = Field(sa_column=sa.Column(PlainText, nullable=False))

    argv: tuple[bytes, ...] = Field(sa_column=sa.Column(Argv, nullable=False))
    cwd: bytes
    env_hash: str = Field(foreign_key="environment.hash")
    name: str = Field(default="", sa_column=sa.Column(PlainText, nullable=False))
    project: str = Field(default="default", sa_column=sa.Column(PlainText, nullable=False))
    priority_class: str = Field(default="normal", max_length=32)
    priority: int = 0
    gpus: int = 1
    gpu_types: tuple[str, ...] = Field(default=(), sa_column=sa.Column(Names, nullable=False))
    gpu_memory: int = Field(default=0, sa_type=sa.BigInteger)
    """Bytes on each GPU; 0: not declared."""
    share: bool = False
    duration: float | None = None
    retries: int = 0
    grace: float = 120.0
    checkpoint: str = Field(default="", sa_column=sa.Column(PathBytes, nullable=False))
    shell: bool = False
    interactive: bool = False
    time_limit: float | None = None

    state: JobState = Field(default=JobState.QUEUED, sa_column=sa.Column(words(JobState), nullable=False))
    holds: frozenset[Hold] = Field(default=frozenset(), sa_column=sa.Column(Holds, nullable=False))
    hold_reason: str = Field(default="", sa_column=sa.Column(PlainText, nullable=False))
    move_key: int | None = Field(default=None, sa_column=sa.Column(BigKey))
    """Where an operator's move put it, absolute; null: at its baseline."""
    moved_by: str = Field(default="", sa_column=sa.Column(PlainText, nullable=False))
    vouched: str | None = Field(default=None, sa_column=sa.Column(PlainText))
    """The reason someone gave for starting it although its data is not ready; null: nobody vouched."""
    not_before: datetime | None = None
    """A retry waits until then."""
    attempt: int = 0
    """Runs granted so far."""
    submitted_seq: int = Field(sa_type=sa.BigInteger)
    submitted_at: datetime
    started_at: datetime | None = None
    """Start of the latest run."""
    ended_at: datetime | None = None
    exit_code: int | None = None
    end_reason: str = Field(default="", sa_column=sa.Column(PlainText, nullable=False))
    """Why it ended as it did, one sentence for people."""
    version: int = 1
    """Grows by one with each change of the row."""


class JobDataset(SQLModel, table=True):
    """A job's inputs in the order given. By name, so that an ended job keeps it when the dataset is removed."""

    __tablename__ = "job_dataset"

    job_id: int = Field(primary_key=True, foreign_key="job.id")
    ordinal: int = Field(primary_key=True)
    dataset: str = Field(sa_column=sa.Column(PlainText, nullable=False, index=True))


class Run(SQLModel, table=True):
    """One attempt of a job on given GPUs."""

    __tablename__ = "run"
    __table_args__ = (
        sa.UniqueConstraint("job_id", "attempt", name="uq_run_job_attempt"),
        sa.Index("ix_run_released", "released_at"),
    )

    run_id: str = Field(primary_key=True)
    job_id: int = Field(foreign_key="job.id")
    host_id: str = Field(foreign_key="host.id")
    attempt: int
    state: RunState = Field(default=RunState.GRANTED, sa_column=sa.Column(words(RunState), nullable=False))
    gpu_uuids: tuple[str, ...] = Field(default=(), sa_column=sa.Column(Names, nullable=False))
    memory_at_grant: dict[str, int | None] = Field(default_factory=dict, sa_column=sa.Column(sa.JSON, nullable=False))
    """GPU UUID → bytes used just before the grant: what the GPU must fall back to. Null: unknown."""
    pid: int | None = None
    start_time: int | None = Field(default=None, sa_type=sa.BigInteger)
    """Clock ticks since boot, field 22 of /proc/PID/stat."""
    boot_id: str = ""
    granted_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    released_at: datetime | None = None
    """When its GPUs were proven free, or it turned out to hold none; null: it still counts as a holder."""
    exit_code: int | None = None
    signal: int | None = None
    end_reason: str | None = Field(default=None, sa_column=sa.Column(PlainText))
    error: str = Field(default="", sa_column=sa.Column(PlainText, nullable=False))
    resumed_from: str | None = Field(default=None, sa_column=sa.Column(PathBytes))
    checkpoint: str | None = Field(default=None, sa_column=sa.Column(PathBytes))
    log_dir: str = Field(default="", sa_column=sa.Column(PathBytes, nullable=False))


class Dataset(SQLModel, table=True):
    """A named input: where it is, what is expected of it, and what the last probe saw."""

    __tablename__ = "dataset"

    name: str = Field(sa_column=sa.Column(PlainText, primary_key=True))
    host_id: str = Field(foreign_key="host.id")
    location: str = Field(sa_column=sa.Column(PathBytes, nullable=False))
    owner_uid: int = Field(sa_type=sa.BigInteger)
    owner: str = Field(sa_column=sa.Column(PlainText, nullable=False))
    created_at: datetime

    exists: bool = True
    min_files: int | None = Field(default=None, sa_type=sa.BigInteger)
    min_size: int | None = Field(default=None, sa_type=sa.BigInteger)
    marker: str | None = Field(default=None, sa_column=sa.Column(PathBytes))
    manifest: str | None = Field(default=None, sa_column=sa.Column(PathBytes))
    settled: float | None = None
    """Seconds without a change."""

    readiness: float | None = None
    """0 to 1; null: unknown."""
    ready: bool = False
    files: int | None = Field(default=None, sa_type=sa.BigInteger)
    size: int | None = Field(default=None, sa_type=sa.BigInteger)
    rate: float | None = None
    """Bytes per second, seen lately."""
    expected: datetime | None = None
    reason: str = Field(default="", sa_column=sa.Column(PlainText, nullable=False))
    checked_at: datetime | None = None
    version: int = 1


class Gpu(SQLModel, table=True):
    """A GPU that was seen, and what must outlive a restart about it."""

    __tablename__ = "gpu"

    uuid: str = Field(primary_key=True)
    host_id: str = Field(foreign_key="host.id", index=True)
    index: int
    name: str = ""
    type: str
    memory_total: int | None = Field(default=None, sa_type=sa.BigInteger)
    mig_parent: str = ""
    baselines: dict[str, Any] | None = Field(default=None, sa_column=sa.Column(sa.JSON(none_as_null=True)))
    """What was learned of it at rest; null: nothing yet."""
    first_seen: datetime
    last_seen: datetime

    cordon_reason: str | None = Field(default=None, sa_column=sa.Column(PlainText))
    """Null: not cordoned."""
    cordon_by: str = Field(default="", sa_column=sa.Column(PlainText, nullable=False))
    cordon_since: datetime | None = None
    cordon_until: datetime | None = None
    drain: bool = False

    quarantine_reason: str | None = Field(default=None, sa_column=sa.Column(PlainText))
    """Null: not quarantined."""
    quarantine_since: datetime | None = None
    lost_cause: str | None = Field(default=None, sa_column=sa.Column(PlainText))
    """Null: not lost."""
    lost_since: datetime | None = None
    xid: int | None = None
    """The last fatal Xid seen."""


class GpuMinute(SQLModel, table=True):
    """One minute of a GPU's readings. Null: not one known sample in it."""

    __tablename__ = "gpu_minute"
    __table_args__ = (sa.Index("ix_gpu_minute_minute", "minute"), {"sqlite_with_rowid": False})

    gpu_uuid: str = Field(primary_key=True, foreign_key="gpu.uuid")
    minute: datetime = Field(primary_key=True)
    utilization_mean: float | None = None
    utilization_max: float | None = None
    memory_mean: int | None = Field(default=None, sa_type=sa.BigInteger)
    memory_max: int | None = Field(default=None, sa_type=sa.BigInteger)
    power_mean: float | None = None


class Audit(SQLModel, table=True):
    """One change of anything. Triggers let rows be appended in sequence and nothing else; see `gputui.store.audit`."""

    __tablename__ = "audit"

    seq: int = Field(sa_column=sa.Column(sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True))
    at: datetime
    uid: int = Field(sa_type=sa.BigInteger)
    who: str = Field(sa_column=sa.Column(PlainText, nullable=False))
    session: str
    act: str
    subject: str = Field(sa_column=sa.Column(PlainText, nullable=False, index=True))
    before: str | None = Field(default=None, sa_column=sa.Column(sa.Text))
    """Canonical JSON, as hashed."""
    after: str | None = Field(default=None, sa_column=sa.Column(sa.Text))
    reason: str = Field(default="", sa_column=sa.Column(PlainText, nullable=False))
    prev_hash: str
    hash: str


class SettingVersion(SQLModel, table=True):
    """One version of one setting; the highest is in force."""

    __tablename__ = "setting_version"

    key: str = Field(primary_key=True)
    version: int = Field(primary_key=True)
    value: Any = Field(default=None, sa_column=sa.Column(sa.JSON(none_as_null=True)))
    at: datetime
    uid: int = Field(sa_type=sa.BigInteger)
    who: str = Field(sa_column=sa.Column(PlainText, nullable=False))
