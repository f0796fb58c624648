"""What becomes of a job when a run of it ends, case by case."""

import pytest

from gputui.daemon.services.outcome import Intent, Past, decide
from gputui.domain.lifecycle import Hold, JobState
from gputui.engines.engine import EndReason, RunEnd


def exited(code: int, seconds: float = 100.0) -> RunEnd:
    return RunEnd(EndReason.EXITED, exit_code=code, duration=seconds)


def failed(code: int = 1, seconds: float = 100.0) -> Past:
    return Past("exited", code, None, seconds)


LOST = Past("lost", None, None, 100.0)
REBOOTED = RunEnd(EndReason.LOST, rebooted=True)


@pytest.mark.parametrize(
    ("end", "intent", "retries", "past", "state"),
    [
        (exited(0), None, 0, [], JobState.SUCCEEDED),
        (exited(1), None, 0, [], JobState.FAILED),
        (exited(1), None, 1, [], JobState.QUEUED),
        (exited(1), None, 1, [failed()], JobState.FAILED),
        (exited(75), None, 0, [], JobState.QUEUED),
        (exited(75), None, 0, [failed(75)] * 9, JobState.QUEUED),
        (RunEnd(EndReason.SIGNALLED, signal=9), None, 0, [], JobState.FAILED),
        (RunEnd(EndReason.NOEXEC, error="cannot run x: no such file"), None, 0, [], JobState.FAILED),
        (RunEnd(EndReason.REVOKED), None, 0, [], JobState.QUEUED),
        (RunEnd(EndReason.REVOKED), Intent.CANCELLED, 0, [], JobState.CANCELLED),
        (REBOOTED, None, 0, [], JobState.QUEUED),
        (REBOOTED, None, 0, [LOST], JobState.QUEUED),
        (REBOOTED, None, 0, [LOST, LOST], JobState.LOST),
        (REBOOTED, None, 0, [failed(), failed(75), LOST], JobState.QUEUED),
        (RunEnd(EndReason.LOST), None, 5, [], JobState.LOST),  # its supervisor was killed
        (RunEnd(EndReason.LOST), Intent.CANCELLED, 0, [], JobState.CANCELLED),
        (RunEnd(EndReason.GONE), None, 5, [], JobState.LOST),
        (RunEnd(EndReason.GONE), Intent.CANCELLED, 0, [], JobState.CANCELLED),
        (RunEnd(EndReason.GONE), Intent.REQUEUED, 0, [], JobState.LOST),
        (exited(0), Intent.CANCELLED, 0, [], JobState.CANCELLED),
        (RunEnd(EndReason.SIGNALLED, signal=15), Intent.TIME_LIMIT, 5, [], JobState.FAILED),
        (RunEnd(EndReason.SIGNALLED, signal=15), Intent.REQUEUED, 0, [], JobState.QUEUED),
    ],
)
def test_the_next_state(end: RunEnd, intent: Intent | None, retries: int, past: list[Past], state: JobState) -> None:
    assert decide(end, intent, retries, past).state is state


def test_three_fast_failures_alike_hold_the_job() -> None:
    fast = failed(1, 2.0)
    found = decide(exited(1, 2.0), None, 9, [fast, fast])
    assert (found.state, found.holds) == (JobState.HELD, {Hold.REVIEW})
    assert found.sentence == "held after 3 fast failures alike: exit 1"


@pytest.mark.parametrize(
    "past",
    [
        [failed(1, 2.0), failed(2, 2.0)],  # not alike
        [failed(1, 2.0), failed(1, 60.0)],  # not fast
        [failed(1, 2.0)],
    ],
)
def test_other_failures_do_not_hold_it(past: list[Past]) -> None:
    assert decide(exited(1, 2.0), None, 9, past).state is JobState.QUEUED


def test_retries_wait_twice_as_long_each_time_up_to_ten_minutes() -> None:
    waits = [decide(exited(1), None, 99, [failed()] * n).delay for n in range(9)]
    assert waits == [5, 10, 20, 40, 80, 160, 320, 600, 600]


def test_a_job_that_keeps_asking_for_a_rerun_at_once_waits_longer_each_time() -> None:
    fast = failed(75, 0.1)
    assert [decide(exited(75, 0.1), None, 0, [fast] * n).delay for n in range(4)] == [0, 5, 10, 20]
    assert decide(exited(75), None, 0, [failed(75)] * 5).delay == 0
