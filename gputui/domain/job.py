"""What people want run: the job as asked for (`JobSpec`) and as the scheduler sees it (`QueuedJob`)."""

from dataclasses import dataclass, field
from enum import IntFlag

from gputui.domain.lifecycle import Hold

CLASSES = ("core", "normal", "filler")
"""Priority classes in their coarse order, the first ahead of the rest."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a job needs of the GPUs. Interned by the scheduler: equal demands form one lane."""

    gpus: int = 1
    """How many GPUs, all at once; 0 for a job that needs none."""
    types: frozenset[str] = frozenset()
    """GPU types that will do; empty: any."""
    memory: int = 0
    """Bytes needed on each GPU; 0: not declared, then only a GPU without a foreign holder will do."""
    share: bool = False
    """May live beside other sharing runs on one GPU, within its declared memory."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A validated request for a job. Byte strings are kept as bytes: argv is never decoded to be run."""

    argv: tuple[bytes, ...]
    cwd: bytes
    env: dict[bytes, bytes] = field(hash=False)
    """Captured at submit; plus --env settings. Stored once by hash, values never shown."""
    name: str = ""
    project: str = "default"
    priority_class: str = "normal"
    priority: int = 0
    demand: Demand = Demand()
    duration: float | None = None
    """The owner's estimate, seconds."""
    datasets: tuple[str, ...] = ()
    hold: bool = False
    retries: int = 0
    grace: float = 120.0
    """Seconds between TERM and KILL."""
    checkpoint: str = ""
    """Glob of what the job saves; relative ones are taken in GPUTUI_CHECKPOINT_DIR."""
    shell: bool = False
    """argv is one string for `/bin/sh -c`."""
    interactive: bool = False
    """The run belongs to the submitting client's terminal (`gputui shell`)."""
    time_limit: float | None = None
    """Seconds of running after which the run is stopped (`shell --for`)."""


class Gate(IntFlag):
    """What keeps a waiting job out of its lane. No bit set: it may start as soon as it fits."""

    NONE = 0
    HOLD = 1
    DATA = 2
    """A dataset is not ready."""
    DATA_UNKNOWN = 4
    """A dataset could not be probed."""
    BACKOFF = 8
    """A retry waits for its time."""


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A waiting job in the scheduler's memory; everything else about it stays in the store."""

    id: int
    priority_class: str
    priority: int
    submitted_seq: int
    """Grows with each submit: age without a clock, since age is equal and linear for all."""
    demand: Demand
    gates: Gate = Gate.NONE
    move_key: int | None = None
    """Where an operator's move put it, absolute; None: at its baseline."""
    holds: frozenset[Hold] = frozenset()
    datasets: tuple[str, ...] = ()
    duration: float | None = None
