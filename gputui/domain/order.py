"""Where a waiting job stands: one integer per job, smaller is earlier, independent of time.

A baseline key packs class, readiness, -priority and submit sequence, with room below and above it for moved jobs:

    class (8 bits) · not ready (1) · limit - priority (33) · sequence (48) · room (64, the baseline in its middle)

A moved job's key lies in the room of the job it was moved next to, so that no later arrival comes between the two, or
in a room of its own below 0 (top) or above every baseline (bottom).
"""

from collections.abc import Sequence
from typing import Final

from gputui.domain.job import CLASSES, Gate, QueuedJob

PRIORITY_LIMIT: Final = 2**31
"""Priorities lie strictly between -PRIORITY_LIMIT and PRIORITY_LIMIT."""

_ROOM_BITS: Final = 64
_ROOM: Final = 1 << _ROOM_BITS
_MIDDLE: Final = _ROOM >> 1
_SEQUENCE_BITS: Final = 48
_PRIORITY_BITS: Final = 33
_PRIORITY_SHIFT: Final = _SEQUENCE_BITS + _ROOM_BITS
_GATE_SHIFT: Final = _PRIORITY_SHIFT + _PRIORITY_BITS
_CLASS_SHIFT: Final = _GATE_SHIFT + 1
CEILING: Final = 1 << (_CLASS_SHIFT + 8)
"""Baselines lie from 0 up to here; keys of jobs moved to the top or bottom lie outside."""

_UNREADY: Final = int(Gate.DATA | Gate.DATA_UNKNOWN)
_CLASS_PART: Final = {name: rank << _CLASS_SHIFT for rank, name in enumerate(CLASSES)}


def baseline_key(job: QueuedJob) -> int:
    """Where the rules put `job`. A hold or a retry's back-off keeps its place; a dataset that is not ready does not."""
    return (
        _CLASS_PART[job.priority_class]
        + ((1 << _GATE_SHIFT) if int(job.gates) & _UNREADY else 0)
        + ((PRIORITY_LIMIT - job.priority) << _PRIORITY_SHIFT)
        + (job.submitted_seq << _ROOM_BITS)
        + _MIDDLE
    )


def effective_key(job: QueuedJob) -> int:
    """Where `job` stands: where an operator put it, else its baseline."""
    return baseline_key(job) if job.move_key is None else job.move_key


def top_key(first: int | None) -> int:
    """Return a key ahead of `first` (the earliest key there is) and of every baseline to come."""
    lowest = 0 if first is None else min(first, 0)
    return (((lowest >> _ROOM_BITS) - 1) << _ROOM_BITS) + _MIDDLE


def bottom_key(last: int | None) -> int:
    """Return a key behind `last` (the latest key there is) and behind every baseline to come."""
    highest = CEILING if last is None else max(last, CEILING)
    return (((highest >> _ROOM_BITS) + 1) << _ROOM_BITS) + _MIDDLE


def room_of(key: int) -> tuple[int, int]:
    """Return the bounds (first, one past the last) of the room `key` lies in."""
    start = key >> _ROOM_BITS << _ROOM_BITS
    return start, start + _ROOM


def half_of(key: int, *, below: bool) -> tuple[int, int]:
    """Return the open bounds of the half of its room in which keys just below (or above) `key` lie.

    The middle, where a baseline sits, belongs to neither half.
    """
    start, end = room_of(key)
    middle = start + _MIDDLE
    if key < middle or (below and key == middle):
        return start - 1, middle
    return middle, end


def key_before(reference: int, previous: int | None) -> int | None:
    """Return a key just ahead of `reference` and behind `previous`, or None when the gap has ended."""
    low = room_of(reference)[0] - 1
    if previous is not None and previous > low:
        low = previous
    return (low + reference) // 2 if reference - low > 1 else None


def key_after(reference: int, following: int | None) -> int | None:
    """Return a key just behind `reference` and ahead of `following`, or None when the gap has ended."""
    high = room_of(reference)[1]
    if following is not None and following < high:
        high = following
    return (reference + high) // 2 if high - reference > 1 else None


def spread(count: int, low: int, high: int) -> Sequence[int]:
    """Return `count` ascending keys, evenly spaced strictly between `low` and `high`."""
    step = (high - low) // (count + 1)
    return range(low + step, low + step * count + 1, step)
