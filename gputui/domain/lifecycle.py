"""The life of a job: one table of allowed transitions. Everything that changes a state asks this table."""

from collections.abc import Mapping
from enum import StrEnum

from gputui.domain.errors import Refused


class JobState(StrEnum):
    """Where a job stands."""

    HELD = "held"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    CHECKPOINTING = "checkpointing"
    STOPPING = "stopping"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"


class Hold(StrEnum):
    """A reason for which a job may not start although nothing else stands in its way."""

    USER = "user"
    DATA = "data"
    QUOTA = "quota"
    REVIEW = "review"
    MAINTENANCE = "maintenance"


WAITING = frozenset({JobState.HELD, JobState.QUEUED})
ACTIVE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.CHECKPOINTING, JobState.STOPPING, JobState.SUSPENDED})
ENDED = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.LOST})

TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    JobState.HELD: frozenset({JobState.QUEUED, JobState.CANCELLED}),
    JobState.QUEUED: frozenset({JobState.HELD, JobState.STARTING, JobState.CANCELLED}),
    # back to queued: the run never executed (revoked), or its start failed in a way worth another try
    JobState.STARTING: frozenset(
        {JobState.RUNNING, JobState.QUEUED, JobState.HELD, JobState.STOPPING}
        | {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.LOST}
    ),
    JobState.RUNNING: frozenset(
        {JobState.CHECKPOINTING, JobState.STOPPING, JobState.SUSPENDED, JobState.QUEUED, JobState.HELD}
        | {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.LOST}
    ),
    JobState.CHECKPOINTING: frozenset(
        {JobState.RUNNING, JobState.STOPPING, JobState.QUEUED, JobState.HELD}
        | {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.LOST}
    ),
    JobState.STOPPING: frozenset(
        {JobState.QUEUED, JobState.HELD} | {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.LOST}
    ),
    JobState.SUSPENDED: frozenset(
        {JobState.RUNNING, JobState.STOPPING, JobState.FAILED, JobState.CANCELLED, JobState.LOST}
    ),
    # an ended job is run again only by an explicit requeue
    JobState.SUCCEEDED: frozenset({JobState.QUEUED, JobState.HELD}),
    JobState.FAILED: frozenset({JobState.QUEUED, JobState.HELD}),
    JobState.CANCELLED: frozenset({JobState.QUEUED, JobState.HELD}),
    JobState.LOST: frozenset({JobState.QUEUED, JobState.HELD}),
}


def check(job_id: int, before: JobState, after: JobState, *, undo: bool = False) -> None:
    """Raise `Refused` unless the table allows `before` → `after`, or an undo of a requeue gives the end back."""
    if after not in TRANSITIONS[before] and not (undo and before in WAITING and after in ENDED):
        raise Refused("wrong_state", f"Job #{job_id} is {before}; it cannot become {after}.")
