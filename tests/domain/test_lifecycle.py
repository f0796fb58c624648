"""The table of transitions."""

import pytest

from gputui.domain.errors import Refused
from gputui.domain.lifecycle import ACTIVE, ENDED, TRANSITIONS, WAITING, JobState, check


def test_every_state_is_of_one_sort_and_in_the_table() -> None:
    assert set(JobState) == TRANSITIONS.keys()
    assert set(JobState) == WAITING | ACTIVE | ENDED
    assert len(JobState) == len(WAITING) + len(ACTIVE) + len(ENDED)


@pytest.mark.parametrize("before", JobState)
@pytest.mark.parametrize("after", JobState)
def test_the_check_asks_the_table(before: JobState, after: JobState) -> None:
    if after in TRANSITIONS[before]:
        check(7, before, after)
    else:
        with pytest.raises(Refused, match=f"Job #7 is {before}; it cannot become {after}") as refused:
            check(7, before, after)
        assert refused.value.code == "wrong_state"


def test_the_way_of_the_design() -> None:
    way = ["held", "queued", "starting", "running", "checkpointing", "stopping", "queued", "starting", "running"]
    for end in ENDED:
        for before, after in zip(way, [*way[1:], end], strict=True):
            check(1, JobState(before), JobState(after))
    check(1, JobState.RUNNING, JobState.SUSPENDED)
    check(1, JobState.SUSPENDED, JobState.RUNNING)


def test_nothing_runs_without_having_been_started() -> None:
    assert all(after not in TRANSITIONS[before] for before in WAITING for after in ACTIVE - {JobState.STARTING})
    assert JobState.STARTING not in TRANSITIONS[JobState.HELD], "a hold is released first"


def test_an_ended_job_only_goes_back_to_wait() -> None:
    assert all(TRANSITIONS[state] == WAITING for state in ENDED)


def test_every_state_can_be_left_and_reached() -> None:
    for state in JobState:
        assert TRANSITIONS[state]
        assert any(state in after for before, after in TRANSITIONS.items() if before is not state)


def test_only_an_undo_gives_an_ended_job_its_end_back() -> None:
    for state in ENDED:
        check(1, JobState.QUEUED, state, undo=True)
        assert state is JobState.CANCELLED or state not in TRANSITIONS[JobState.QUEUED]
    with pytest.raises(Refused):
        check(1, JobState.QUEUED, JobState.RUNNING, undo=True)
