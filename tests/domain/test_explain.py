"""Why a job waits: the words, and that each reason is a true obstacle."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings

from gputui.domain.explain import DatasetFact, Facts, Holding, explain
from gputui.domain.gpu import GpuState, GpuView
from gputui.domain.job import Demand, Gate, QueuedJob
from gputui.domain.lifecycle import Hold
from gputui.domain.reason import Reason, Wait
from gputui.domain.scheduler import Scheduler
from tests.domain import worlds
from tests.domain.worlds import GIB, gpu, job, scheduler
from tests.support.counts import count

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
H100 = frozenset({"h100-80g"})
NAMES = {f"G{at}": f"GPU {at}" for at in range(20)}


def in_hours(hours: float) -> datetime:
    return NOW + timedelta(hours=hours)


def test_gpus_that_runs_hold_are_named_with_their_expected_end() -> None:
    gpus = [gpu(f"G{at}", state=GpuState.BUSY) for at in range(2)] + [gpu("G2"), gpu("G3")]
    world = scheduler([job(420, demand=Demand(4, H100))], gpus)
    holders = {uuid: [Holding("#412", in_hours(2))] for uuid in ("G0", "G1")}
    assert explain(world, 420, Facts(NAMES, holders)) == Reason(
        "2 more h100-80g: #412 ends", (Wait("gpus", "#412 ends", in_hours(2)),)
    )


def test_the_runs_that_end_first_are_named_and_the_latest_of_them_counts() -> None:
    gpus = [gpu(f"G{at}", state=GpuState.BUSY) for at in range(4)]
    world = scheduler([job(9, demand=Demand(2))], gpus)
    holders = {f"G{at}": [Holding(f"#{at}", None if at == 3 else in_hours(3 - at))] for at in range(4)}
    reason = explain(world, 9, Facts(NAMES, holders))
    assert reason.sentence == "2 GPUs: #2 ends and #1 ends"
    assert reason.expected == in_hours(2)


def test_an_unknown_end_makes_the_whole_unknown() -> None:
    world = scheduler([job(9)], [gpu("G0", state=GpuState.BUSY)])
    reason = explain(world, 9, Facts(NAMES, {"G0": [Holding("#1")]}))
    assert (reason.sentence, reason.expected) == ("1 GPU: #1 ends", None)


def test_a_job_behind_another_names_it() -> None:
    gpus = [gpu("G0"), gpu("G1", state=GpuState.BUSY)]
    world = scheduler([job(423, demand=Demand(2)), job(424)], gpus)
    assert explain(world, 424, Facts(NAMES)) == Reason("behind #423", (Wait("order", "behind #423"),))


def test_a_job_that_the_pass_starts_says_so() -> None:
    world = scheduler([job(1), job(2, demand=Demand(0)), job(3)], [gpu("G0")])
    assert explain(world, 1, Facts()).sentence == "about to start"
    assert explain(world, 2, Facts()).sentence == "about to start"
    assert explain(world, 3, Facts(NAMES)).sentence == "1 GPU: #1 starts first"


def test_unready_data_says_which_how_far_and_when() -> None:
    world = scheduler([job(1, gates=Gate.DATA | Gate.DATA_UNKNOWN, datasets=("corpus-zh", "imagenet", "laion"))])
    facts = Facts(
        datasets={
            "corpus-zh": DatasetFact("67 %", expected=in_hours(1)),
            "imagenet": DatasetFact("complete", ready=True),
        }
    )
    assert explain(world, 1, facts) == Reason(
        "data: corpus-zh 67 %; data: laion is unknown",
        (Wait("data", "data: corpus-zh 67 %", in_hours(1)), Wait("data", "data: laion is unknown")),
    )


def test_holds_and_back_off() -> None:
    world = scheduler(
        [
            job(1, gates=Gate.HOLD, holds=frozenset({Hold.USER, Hold.QUOTA})),
            job(2, gates=Gate.HOLD),
            job(3, gates=Gate.BACKOFF),
        ]
    )
    assert explain(world, 1, Facts()).sentence == "held: quota; held: user"
    assert explain(world, 2, Facts(holds={2: ["held by li: wait for the review"]})).sentence == (
        "held by li: wait for the review"
    )
    retried = explain(world, 3, Facts(retries={3: (in_hours(1), "exit 9")}))
    assert (retried.sentence, retried.expected) == ("a retry waits for its time, after: exit 9", in_hours(1))
    assert explain(world, 3, Facts()).sentence == "a retry waits for its time"


def test_a_freeze_and_a_full_disk_are_named() -> None:
    world = scheduler([job(1)], [gpu("G0")])
    assert explain(world, 1, Facts(frozen="frozen by li: moving racks")).sentence == "frozen by li: moving racks"
    assert explain(world, 1, Facts(paused="/data is full")).waits_for == (Wait("disk", "/data is full"),)


@pytest.mark.parametrize(
    ("demand", "sentence"),
    [
        (Demand(16), "never fits: asks for 16 GPUs, this host has 2"),
        (Demand(1, frozenset({"v100-32g"})), "never fits: this host has no v100-32g"),
        (Demand(1, memory=90 * GIB), "never fits: asks for 90 GiB on each GPU, the largest has 80 GiB"),
        (Demand(2, memory=60 * GIB), "never fits: asks for 2 GPUs with 60 GiB, this host has 1"),
    ],
)
def test_what_can_never_fit_says_so(demand: Demand, sentence: str) -> None:
    world = scheduler([job(1, demand=demand)], [gpu("G0"), gpu("G1", "l40s-48g")])
    reason = explain(world, 1, Facts(NAMES))
    assert reason.sentence == sentence
    assert reason.waits_for[0].kind == "never_fits"


def test_a_cordon_is_named_with_its_reason() -> None:
    world = scheduler([job(1, demand=Demand(2))], [gpu("G0"), gpu("G1", schedulable=False, why="cordoned: fan")])
    assert explain(world, 1, Facts(NAMES)) == Reason(
        "1 more GPU: GPU 1 cordoned: fan", (Wait("cordon", "GPU 1 cordoned: fan"),)
    )


def test_a_lost_gpu_and_one_being_released_are_named_with_their_reason() -> None:
    lost = gpu("G0", state=GpuState.LOST, schedulable=False, why="Xid 79")
    assert explain(scheduler([job(1)], [lost]), 1, Facts(NAMES)).sentence == "1 GPU: GPU 0: Xid 79"
    assert explain(scheduler([job(1)], [replace(lost, why="")]), 1, Facts(NAMES)).sentence == "1 GPU: GPU 0 is lost"
    releasing = gpu("G0", state=GpuState.RELEASING, why="releasing 3s")
    assert explain(scheduler([job(1)], [releasing]), 1, Facts(NAMES)).sentence == "1 GPU: GPU 0 releasing 3s"


def test_no_gpu_at_all() -> None:
    assert explain(scheduler([job(1)]), 1, Facts()).sentence == "never fits: this host has no GPUs"


def test_a_job_that_does_not_wait_has_no_reason_to() -> None:
    with pytest.raises(KeyError):
        explain(scheduler(), 1, Facts())


# --- Truth ----------------------------------------------------------------------------------------------------------


def healthy(view: GpuView) -> GpuView:
    """The GPU in service, empty and readable."""
    return replace(
        view, state=GpuState.FREE, schedulable=True, memory_free=view.memory_total, foreign_memory=0, promised=0,
        shared_runs=0,
    )  # fmt: skip


def remove_obstacle(world: Scheduler, wait: Wait) -> None:
    """Take away what a reason names."""
    if wait.kind == "order":
        world.remove(int(re.search(r"#(\d+)", wait.what)[1]))  # type: ignore[index]
        return
    uuids = set(re.findall(r"\bG\d+\b", wait.what))
    assert len(uuids) == 1, f"{wait.what!r} names one GPU"
    world.set_gpu(healthy(world.pool.get(uuids.pop())))


@settings(max_examples=count(100, 1000), deadline=None)
@given(worlds.job_lists(), worlds.gpu_lists())
def test_without_what_a_reason_names_the_job_starts_or_names_another(
    jobs: list[QueuedJob], gpus: list[GpuView]
) -> None:
    facts = Facts(holders={view.uuid: [Holding(f"run-on-{view.uuid}")] for view in gpus})
    for one in jobs:
        world = scheduler((replace(other, gates=Gate.NONE) if other.id == one.id else other for other in jobs), gpus)
        reason = explain(world, one.id, facts)
        for _ in range(len(jobs) + 2 * len(gpus) + 1):
            starts = {start.job_id for start in world.plan().starts}
            if reason.sentence == "about to start":
                assert one.id in starts
                break
            assert one.id not in starts, "a job that starts has no reason to wait"
            if reason.waits_for[0].kind == "never_fits":
                everything = [healthy(view) for view in gpus]
                assert not scheduler([replace(one, gates=Gate.NONE)], everything).plan().starts
                break
            remove_obstacle(world, reason.waits_for[0])
            after = explain(world, one.id, facts)
            assert after != reason
            reason = after
        else:
            raise AssertionError("it never starts although every obstacle named was removed")
