"""Jobs in the store: bulk insert, the scheduler's projection, changes guarded by the row's version."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlmodel import Session, SQLModel, col, select

from gputui.domain.errors import Refused
from gputui.domain.job import JobSpec
from gputui.domain.lifecycle import ACTIVE, WAITING, Hold, JobState
from gputui.store import environments, rows
from gputui.store.environments import environment
from gputui.store.tables import Job, JobDataset, Meta

__all__ = [
    "WaitingJob", "active", "counts", "datasets_of", "environment", "get", "get_many", "insert_jobs",
    "last_seq", "load_waiting", "set_datasets", "set_move_keys", "update_job", "update_jobs",
]  # fmt: skip

_JOB = SQLModel.metadata.tables["job"]
_JOB_DATASET = SQLModel.metadata.tables["job_dataset"]
_CHUNK = 500
"""Rows per statement: small pieces keep the garbage collector's work small."""
_IN_CHUNK = 500
_NEXT_ID = "next_job_id"


def insert_jobs(
    session: Session,
    specs: Sequence[JobSpec],
    *,
    owner_uid: int,
    owner: str,
    host_id: str,
    at: datetime,
    first_seq: int,
    states: Sequence[JobState] | None = None,
    holds: Sequence[frozenset[Hold]] | None = None,
    hold_reason: str = "",
) -> list[int]:
    """Insert jobs in the order given; their ids, which are consecutive and never used again.

    Job `n` gets `submitted_seq` `first_seq + n`. Without `holds`, a spec that asks to be held has the user's hold;
    without `states`, a job with a hold is held and any other queued.
    """
    if holds is None:
        user, none = frozenset({Hold.USER}), frozenset[Hold]()
        holds = [user if spec.hold else none for spec in specs]
    if states is None:
        states = [JobState.HELD if held else JobState.QUEUED for held in holds]
    hashes = environments.store(session, (spec.env for spec in specs))
    first_id = _take_ids(session, len(specs))
    common = _common(owner_uid, owner, host_id, at, hold_reason)
    for start in range(0, len(specs), _CHUNK):
        end = min(start + _CHUNK, len(specs))
        values = [
            {
                **common,
                "id": first_id + n,
                "submitted_seq": first_seq + n,
                "state": states[n],
                "holds": holds[n],
                "env_hash": hashes[n],
                **_asked(specs[n]),
            }
            for n in range(start, end)
        ]
        session.execute(sa.insert(_JOB), values)
        links = [
            {"job_id": first_id + n, "ordinal": ordinal, "dataset": dataset}
            for n in range(start, end)
            for ordinal, dataset in enumerate(specs[n].datasets)
        ]
        if links:
            session.execute(sa.insert(_JOB_DATASET), links)
    return list(range(first_id, first_id + len(specs)))


def _common(owner_uid: int, owner: str, host_id: str, at: datetime, hold_reason: str) -> dict[str, Any]:
    return {
        "owner_uid": owner_uid,
        "owner": owner,
        "host_id": host_id,
        "submitted_at": at,
        "hold_reason": hold_reason,
        "moved_by": "",
        "attempt": 0,
        "end_reason": "",
        "version": 1,
    }


def _asked(spec: JobSpec) -> dict[str, Any]:
    return {
        "argv": spec.argv,
        "cwd": spec.cwd,
        "name": spec.name,
        "project": spec.project,
        "priority_class": spec.priority_class,
        "priority": spec.priority,
        "gpus": spec.demand.gpus,
        "gpu_types": spec.demand.types,
        "gpu_memory": spec.demand.memory,
        "share": spec.demand.share,
        "duration": spec.duration,
        "retries": spec.retries,
        "grace": spec.grace,
        "checkpoint": spec.checkpoint,
        "shell": spec.shell,
        "interactive": spec.interactive,
        "time_limit": spec.time_limit,
    }


def _take_ids(session: Session, count: int) -> int:
    """Reserve `count` job numbers; the first of them."""
    row = session.get(Meta, _NEXT_ID)
    if row is None:
        row = Meta(key=_NEXT_ID, value="1")
        session.add(row)
    first = int(row.value)
    row.value = str(first + count)
    return first


def last_seq(session: Session) -> int:
    """The highest `submitted_seq` ever given; 0 when none was."""
    return int(session.execute(sa.select(sa.func.coalesce(sa.func.max(_JOB.c.submitted_seq), 0))).scalar_one())


class WaitingJob(NamedTuple):
    """What the scheduler keeps in memory of a waiting job; argv and environment stay in the store."""

    id: int
    state: JobState
    owner_uid: int
    owner: str
    name: str
    project: str
    priority_class: str
    priority: int
    submitted_seq: int
    gpus: int
    gpu_types: tuple[str, ...]
    gpu_memory: int
    share: bool
    duration: float | None
    holds: frozenset[Hold]
    move_key: int | None
    vouched: str | None
    not_before: datetime | None
    attempt: int
    version: int
    datasets: tuple[str, ...]


_PROJECTION = [_JOB.c[name] for name in WaitingJob._fields if name != "datasets"]


def load_waiting(session: Session) -> Iterator[WaitingJob]:
    """Every held and queued job, in order of id."""
    waiting = _JOB.c.state.in_(WAITING)
    links = (
        sa.select(_JOB_DATASET.c.job_id, _JOB_DATASET.c.dataset)
        .join(_JOB, _JOB.c.id == _JOB_DATASET.c.job_id)
        .where(waiting)
        .order_by(_JOB_DATASET.c.job_id, _JOB_DATASET.c.ordinal)
    )
    datasets = _grouped((job_id, dataset) for job_id, dataset in session.execute(links))
    query = sa.select(*_PROJECTION).where(waiting).order_by(_JOB.c.id)
    for row in session.execute(query.execution_options(yield_per=_CHUNK)):
        yield WaitingJob(*(*row, datasets.get(row[0], ())))


def _grouped(links: Iterable[tuple[int, str]]) -> dict[int, tuple[str, ...]]:
    found: dict[int, tuple[str, ...]] = {}
    interned: dict[tuple[str, ...], tuple[str, ...]] = {}  # most jobs name the same few inputs
    for job_id, dataset in links:
        names = (*found.get(job_id, ()), dataset)
        found[job_id] = interned.setdefault(names, names)
    return found


def active(session: Session) -> list[Job]:
    """Jobs that hold GPUs or are about to, in order of id."""
    return list(session.exec(select(Job).where(col(Job.state).in_(ACTIVE)).order_by(col(Job.id))))


def get(session: Session, job_id: int) -> Job:
    """One job as it is in the store now. Raises `Refused` when there is none of that number."""
    job = session.get(Job, job_id, populate_existing=True)
    if job is None:
        raise Refused("not_found", f"There is no job #{job_id}.")
    return job


def get_many(session: Session, job_ids: Iterable[int]) -> dict[int, Job]:
    """Jobs by number; those that do not exist are absent."""
    found: dict[int, Job] = {}
    for part in _parts(list(job_ids)):
        query = select(Job).where(col(Job.id).in_(part)).execution_options(populate_existing=True)
        found.update((job.id, job) for job in session.exec(query))
    return found


def datasets_of(session: Session, job_ids: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """The inputs of these jobs in the order given; jobs without any are absent."""
    found: dict[int, tuple[str, ...]] = {}
    for part in _parts(list(job_ids)):
        query = (
            select(JobDataset.job_id, JobDataset.dataset)
            .where(col(JobDataset.job_id).in_(part))
            .order_by(col(JobDataset.job_id), col(JobDataset.ordinal))
        )
        found.update(_grouped(session.exec(query)))
    return found


def set_datasets(session: Session, job_id: int, datasets: Sequence[str]) -> None:
    """Replace a job's inputs; call it beside `update_job`, which counts the version."""
    session.execute(sa.delete(_JOB_DATASET).where(_JOB_DATASET.c.job_id == job_id))
    if datasets:
        links = [{"job_id": job_id, "ordinal": n, "dataset": name} for n, name in enumerate(datasets)]
        session.execute(sa.insert(_JOB_DATASET), links)


def update_job(session: Session, job_id: int, expect_version: int | None = None, **columns: Any) -> int:
    """Change columns of one job; its new version. Objects loaded before keep their old values.

    Raises `Refused`: `not_found`, or `changed` when the job's version is not `expect_version`.
    """
    return rows.change(
        session,
        table=_JOB,
        key=_JOB.c.id == job_id,
        what=f"job #{job_id}",
        expect_version=expect_version,
        columns=columns,
    )


def update_jobs(session: Session, job_ids: Iterable[int], **columns: Any) -> None:
    """Set the same columns of many jobs, each of which gets its next version."""
    for part in _parts(list(job_ids)):
        session.execute(sa.update(_JOB).where(_JOB.c.id.in_(part)).values(**columns, version=_JOB.c.version + 1))


def set_move_keys(session: Session, keys: Mapping[int, int | None]) -> None:
    """Give jobs new positions of their own without counting a version: rebalancing changes no order."""
    if keys:
        query = sa.update(_JOB).where(_JOB.c.id == sa.bindparam("job")).values(move_key=sa.bindparam("key"))
        session.connection().execute(query, [{"job": job_id, "key": key} for job_id, key in keys.items()])


def counts(session: Session) -> dict[JobState, int]:
    """How many jobs are in each state; states without a job are absent."""
    query = sa.select(_JOB.c.state, sa.func.count()).group_by(_JOB.c.state)
    return dict(session.execute(query).all())


def _parts(job_ids: list[int]) -> Iterator[list[int]]:
    """Pieces that fit into one statement's parameters."""
    for start in range(0, len(job_ids), _IN_CHUNK):
        yield job_ids[start : start + _IN_CHUNK]
