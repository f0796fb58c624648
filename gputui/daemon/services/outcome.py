"""What becomes of a job when a run of it ends: pure, so that every case is a line in a table of tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gputui.domain.failure import signal_name
from gputui.domain.lifecycle import Hold, JobState
from gputui.engines.engine import EndReason, RunEnd

REQUEUE_CODE = 75
"""The exit code (EX_TEMPFAIL) by which a job asks to be run again."""
MOST_LOSSES = 2
"""How often a job whose run was lost to a reboot is queued again by itself."""
FAST_SECONDS = 10.0
"""A run that fails sooner than this has hardly begun."""
MOST_FAST_FAILURES = 3
"""So many fast failures in a row, each for the same cause, and the job is held."""
FIRST_BACKOFF = 5.0
LONGEST_BACKOFF = 600.0


class Intent(StrEnum):
    """Why the daemon stops a run; kept in the run's row, so that a restart still knows."""

    CANCELLED = "cancelled"
    TIME_LIMIT = "time_limit"
    REQUEUED = "requeued"


@dataclass(frozen=True, slots=True)
class Past:
    """How an earlier run of the same job ended."""

    end_reason: str
    exit_code: int | None
    signal: int | None
    seconds: float | None
    """From its start to its end; None when it never began."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is written: the job's next state, why, and the run's end in one word."""

    state: JobState
    end_reason: str
    """Of the run: a value of EndReason or Intent, or `oom`."""
    sentence: str
    """Of the job, for people."""
    holds: frozenset[Hold] = frozenset()
    delay: float = 0.0
    """Seconds for which a queued job waits before it may start again."""


def decide(end: RunEnd, intent: Intent | None, retries: int, past: Sequence[Past]) -> Outcome:
    """What becomes of the job. `past`: its earlier runs, oldest first; `retries`: how many failures are tried again."""
    said = sentence(end)
    reason = end.reason.value
    if end.oom_killed:
        reason = "oom"
    if intent is Intent.CANCELLED:
        return Outcome(JobState.CANCELLED, intent.value, "cancelled")
    if end.reason is EndReason.GONE:  # it may run on unseen, and must not run twice
        return Outcome(JobState.LOST, reason, said)
    if end.reason is EndReason.REVOKED:
        # with an error the start itself failed (disk full, no memory): not at once again
        return Outcome(JobState.QUEUED, reason, end.error, delay=FIRST_BACKOFF if end.error else 0.0)
    if intent is Intent.REQUEUED:
        return Outcome(JobState.QUEUED, intent.value, "")
    if intent is Intent.TIME_LIMIT:
        return Outcome(JobState.FAILED, intent.value, "stopped at its time limit")
    if end.reason is EndReason.LOST:
        losses = 1 + sum(run.end_reason == EndReason.LOST for run in past)
        # a supervisor that was killed, perhaps by the job itself, is no reason to run the job once more
        if end.rebooted and losses <= MOST_LOSSES:
            return Outcome(JobState.QUEUED, reason, said)
        return Outcome(JobState.LOST, reason, f"{said}; {losses} runs of it were lost" if losses > 1 else said)
    if end.exit_code == 0:
        return Outcome(JobState.SUCCEEDED, reason, said)
    here = Past(reason, end.exit_code, end.signal, end.duration)
    alike = _fast_alike((*past, here))
    if end.exit_code == REQUEUE_CODE:
        return Outcome(JobState.QUEUED, reason, "asked to be run again (exit 75)", delay=_backoff(alike - 1))
    failures = 1 + sum(_failed(run) for run in past)
    if failures > retries:
        return Outcome(JobState.FAILED, reason, said)
    if alike >= MOST_FAST_FAILURES:
        held = f"held after {alike} fast failures alike: {said}"
        return Outcome(JobState.HELD, reason, held, frozenset({Hold.REVIEW}))
    return Outcome(JobState.QUEUED, reason, said, delay=_backoff(failures))


def sentence(end: RunEnd) -> str:
    """How a run ended, for people."""
    if end.oom_killed:
        return "killed: out of host memory"
    if end.error:
        return end.error
    match end.reason:
        case EndReason.EXITED:
            return "done" if end.exit_code == 0 else f"exit {end.exit_code}"
        case EndReason.SIGNALLED:
            return f"ended by {'a signal' if end.signal is None else signal_name(end.signal)}"
        case EndReason.NOEXEC:
            return "its program could not be run"
        case EndReason.LOST:
            return "its end was not seen"
        case EndReason.GONE:
            return "its run directory is gone; whether it still runs is unknown"
        case EndReason.REVOKED:
            return "it never began"


def _failed(run: Past) -> bool:
    if run.end_reason in {EndReason.LOST, EndReason.GONE, EndReason.REVOKED, *Intent}:
        return False
    return run.exit_code not in {0, REQUEUE_CODE}


def _fast_alike(runs: Sequence[Past]) -> int:
    """How many of the latest runs ended fast and just like the last one."""
    last = runs[-1]
    count = 0
    for run in reversed(runs):
        if run.end_reason == EndReason.REVOKED:
            continue
        fast = run.seconds is None or run.seconds < FAST_SECONDS
        if not fast or (run.end_reason, run.exit_code, run.signal) != (last.end_reason, last.exit_code, last.signal):
            break
        count += 1
    return count


def _backoff(failures: int) -> float:
    return 0.0 if failures <= 0 else min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** (failures - 1))
