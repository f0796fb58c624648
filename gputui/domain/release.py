"""When a GPU is free again after a run: on evidence, never on hope.

No process of the run is left, and used memory is back at what it was at the grant plus a tolerance, adjusted for what
other holders took or gave back meanwhile, in three samples in a row, 20 ms apart. Past a limit it is quarantined.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gputui.domain.reason import counted, size

SAMPLES: Final = 3
SPACING: Final = 0.02
"""Seconds between two samples that count as two."""
TOLERANCE: Final = 256 << 20
"""Bytes by which used memory may differ from the grant's: driver bookkeeping, rounding."""
DRIVER_RESERVE: Final = 1 << 30
"""Bytes a driver may hold by itself, when nobody knows what was used at the grant."""
LIMIT: Final = 30.0
"""Seconds after which a GPU that is not proven free is quarantined."""


class Verdict(StrEnum):
    """What the samples say."""

    FREE = "free"
    WAIT = "wait"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class Grant:
    """The GPU as it was when the run got it. Bytes; None is unknown."""

    memory_used: int | None
    others: int = 0
    """Held by foreign and sharing processes."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at the GPU after the run's end. Bytes; None is unknown."""

    at: float
    """Monotonic seconds."""
    processes_left: int | None
    """Living processes of the run, zombies not counted."""
    memory_used: int | None
    others: int | None = None
    """Held by foreign and sharing processes; None: as at the grant."""
    memory_supported: bool = True
    """False: this GPU can never tell its used memory (unified memory); then processes are the evidence."""


@dataclass(frozen=True, slots=True)
class Release:
    """The verdict, and why it is not `free` (empty when it is)."""

    verdict: Verdict
    reason: str = ""


def judge(
    grant: Grant,
    samples: Sequence[Sample],
    *,
    ended_at: float,
    now: float,
    tolerance: int = TOLERANCE,
    limit: float = LIMIT,
) -> Release:
    """Judge a GPU by the samples taken since its run ended, oldest first. Times are monotonic seconds."""
    doubt = "no sample since the end"
    good = 0
    last = float("inf")
    for sample in reversed(samples):
        doubt_here = _doubt(grant, sample, tolerance)
        if doubt_here:
            if not good:
                doubt = doubt_here
            break
        # a little early counts: timers are not that exact
        if last - sample.at >= SPACING * 0.9:
            good += 1
            last = sample.at
        if good == SAMPLES:
            return Release(Verdict.FREE)
    if good:
        doubt = f"{counted(good, 'good sample')} of {SAMPLES}"
    if now - ended_at >= limit:
        return Release(Verdict.QUARANTINE, f"not free {limit:.0f} s after the run ended: {doubt}")
    return Release(Verdict.WAIT, doubt)


def _doubt(grant: Grant, sample: Sample, tolerance: int) -> str:
    """Why this sample does not show a free GPU; empty when it does."""
    if sample.processes_left is None:
        return "the run's processes cannot be read"
    if sample.processes_left:
        return f"{counted(sample.processes_left, 'process')} of the run left"
    if not sample.memory_supported:
        return ""
    if sample.memory_used is None:
        return "used memory cannot be read"
    others = grant.others if sample.others is None else sample.others
    before = others + DRIVER_RESERVE if grant.memory_used is None else grant.memory_used + others - grant.others
    allowed = max(before, 0) + tolerance
    if sample.memory_used > allowed:
        return f"{size(sample.memory_used)} still used, at most {size(allowed)} expected"
    return ""
