"""The pass: against the rule written slowly, and from scratch after every change."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gputui.domain.gpu import GpuState, GpuView
from gputui.domain.job import Demand, Gate, QueuedJob
from gputui.domain.scheduler import Start
from tests.domain import worlds
from tests.domain.worlds import GIB, commit, gpu, in_order, job, scheduler, slow_plan
from tests.support.counts import count

EXAMPLES = settings(max_examples=count(150, 1500), deadline=None)


@EXAMPLES
@given(worlds.job_lists(), worlds.gpu_lists())
def test_the_pass_is_the_rule(jobs: list[QueuedJob], gpus: list[GpuView]) -> None:
    assert list(scheduler(jobs, gpus).plan().starts) == slow_plan(jobs, gpus)


@EXAMPLES
@given(worlds.job_lists(), worlds.gpu_lists())
def test_a_plan_gives_no_gpu_to_two_unshared_runs_and_starts_nothing_gated(
    jobs: list[QueuedJob], gpus: list[GpuView]
) -> None:
    by_id = {one.id: one for one in jobs}
    views = {view.uuid: view for view in gpus}
    unshared: set[str] = set()
    shared: dict[str, int] = {}
    for start in scheduler(jobs, gpus).plan().starts:
        demand = by_id[start.job_id].demand
        assert not by_id[start.job_id].gates
        assert len(set(start.gpu_uuids)) == demand.gpus
        assert len({views[uuid].node for uuid in start.gpu_uuids}) <= 1
        for uuid in start.gpu_uuids:
            view = views[uuid]
            assert view.schedulable
            assert not demand.types or view.type in demand.types
            assert uuid not in unshared
            if demand.share:
                shared[uuid] = shared.get(uuid, 0) + demand.memory
                assert view.memory_free is not None
                assert shared[uuid] <= view.memory_free - view.promised
            else:
                assert uuid not in shared
                assert not view.shared_runs
                assert view.state in {GpuState.FREE, GpuState.FOREIGN}
                unshared.add(uuid)


@EXAMPLES
@given(worlds.job_lists(), worlds.gpu_lists())
def test_a_blocked_job_holds_back_only_jobs_that_want_what_it_waits_for(
    jobs: list[QueuedJob], gpus: list[GpuView]
) -> None:
    world = scheduler(jobs, gpus)
    commit(world, world.plan())
    left = [one for one in in_order(jobs) if one.id in world and not one.gates]
    for at, one in enumerate(left):
        chosen = world.fits(one.id)
        if chosen is None:
            continue
        wanted = worlds.reachable(gpus, one.demand)
        assert any(wanted & worlds.reachable(gpus, ahead.demand) for ahead in left[:at]), "it fits and nobody is ahead"


@EXAMPLES
@given(st.data(), worlds.job_lists(), worlds.gpu_lists())
def test_incremental_equals_from_scratch(data: st.DataObject, jobs: list[QueuedJob], gpus: list[GpuView]) -> None:
    world = scheduler(jobs, gpus)
    waiting = {one.id: one for one in jobs}
    known = {view.uuid: view for view in gpus}
    for step in range(data.draw(st.integers(1, 8))):
        act = data.draw(st.sampled_from(["add", "remove", "replace", "set_gpu", "drop_gpu", "commit", "look"]))
        if act == "add":
            new = data.draw(worlds.jobs(100 + step))
            world.add(new)
            waiting[new.id] = new
        elif act in {"remove", "replace"} and waiting:
            id_ = data.draw(st.sampled_from(sorted(waiting)))
            if act == "remove":
                assert world.remove(id_) == waiting.pop(id_)
            else:
                waiting[id_] = replace(data.draw(worlds.jobs(id_)), submitted_seq=waiting[id_].submitted_seq)
                world.replace(waiting[id_])
        elif act == "set_gpu":
            view = data.draw(worlds.gpu_views(f"G{data.draw(st.integers(0, 11))}"))
            world.set_gpu(view)
            known[view.uuid] = view
        elif act == "drop_gpu" and known:
            uuid = data.draw(st.sampled_from(sorted(known)))
            world.drop_gpu(uuid)
            del known[uuid]
        elif act == "commit":
            plan = world.plan()
            commit(world, plan)
            for start in plan.starts:
                del waiting[start.job_id]
                known |= {uuid: world.pool.get(uuid) for uuid in start.gpu_uuids}
        elif act == "look":
            assert world.plan() == world.plan(), "a plan changes nothing"
        assert world.plan() == scheduler(waiting.values(), list(known.values())).plan()
        assert list(world.plan().starts) == slow_plan(waiting.values(), list(known.values()))
        ids = [one.id for one in in_order(waiting.values())]
        assert world.window(0, len(ids) + 1) == ids
        assert [world.position(id_) for id_ in ids] == list(range(1, len(ids) + 1))


@EXAMPLES
@given(worlds.job_lists(), worlds.gpu_lists())
def test_a_limit_gives_the_first_starts(jobs: list[QueuedJob], gpus: list[GpuView]) -> None:
    world = scheduler(jobs, gpus)
    everything = world.plan().starts
    assert world.plan(limit=2).starts == everything[:2]
    assert world.plan(limit=0).starts == ()


def test_equals_start_in_the_order_of_their_submit() -> None:
    world = scheduler([job(id_) for id_ in (3, 1, 5, 4, 2)], [gpu("G0"), gpu("G1"), gpu("G2")])
    assert [start.job_id for start in world.plan().starts] == [1, 2, 3]


def test_class_then_readiness_then_priority_then_age() -> None:
    world = scheduler(
        [
            job(1, priority_class="filler", priority=9),
            job(2),
            job(3, priority=1),
            job(4, priority_class="core", gates=Gate.DATA, priority=9),
            job(5, priority_class="core"),
            job(6, gates=Gate.HOLD),
        ]
    )
    assert world.window(0, 10) == [5, 4, 3, 2, 6, 1]


def test_an_unready_core_job_starts_only_once_it_is_ready() -> None:
    world = scheduler(
        [job(1, priority_class="core"), job(2, priority_class="core", gates=Gate.DATA), job(3),
         job(4, priority_class="filler")]
    )  # fmt: skip
    order = []
    for freed in range(3):
        if freed == 2:
            world.replace(replace(world.get(2) or job(2), gates=Gate.NONE))
        world.set_gpu(gpu("G0"))
        plan = world.plan()
        order += [start.job_id for start in plan.starts]
        commit(world, plan)
    assert order == [1, 3, 2]


def test_the_smallest_adequate_gpu_is_taken() -> None:
    gpus = [gpu("G0", "h100-80g"), gpu("G1", "a100-40g"), gpu("G2", "l40s-48g")]
    world = scheduler([job(1, demand=Demand(1, memory=42 * GIB)), job(2), job(3)], gpus)
    assert world.plan().starts == (Start(1, ("G2",)), Start(2, ("G1",)), Start(3, ("G0",)))


def test_the_gpus_of_a_job_lie_on_one_node_and_the_fullest_node_is_filled_first() -> None:
    gpus = [gpu(f"A{at}", node="node-a") for at in range(4)] + [gpu(f"B{at}", node="node-b") for at in range(2)]
    world = scheduler([job(1), job(2, demand=Demand(4)), job(3, demand=Demand(2))], gpus)
    assert world.plan().starts == (Start(1, ("B0",)), Start(2, ("A0", "A1", "A2", "A3")))


def test_a_head_that_can_never_start_blocks_nobody() -> None:
    world = scheduler([job(1, demand=Demand(16)), job(2)], [gpu("G0")])
    assert world.plan().starts == (Start(2, ("G0",)),)
    assert not world.plan().blocked[0].holds_back


def test_a_head_whose_gpus_are_cordoned_blocks_nobody_until_they_are_back() -> None:
    world = scheduler(
        [job(1, demand=Demand(2)), job(2)], [gpu("G0"), gpu("G1", schedulable=False, state=GpuState.BUSY)]
    )
    assert world.plan().starts == (Start(2, ("G0",)),)
    world.set_gpu(gpu("G1", state=GpuState.BUSY))
    assert world.plan().starts == ()


def test_a_job_that_wants_what_the_driver_keeps_to_itself_blocks_nobody() -> None:
    """A GPU of 80 GiB whose driver takes half of one: a job for 79.8 GiB would wait for ever."""
    greedy = job(1, demand=Demand(1, memory=80 * GIB - GIB // 5))
    world = scheduler([greedy, job(2)], [gpu("G0")])
    assert world.plan().starts == (Start(2, ("G0",)),)


def test_sharing_runs_fill_a_gpu_up_to_its_memory_and_no_further() -> None:
    half = Demand(1, memory=35 * GIB, share=True)
    world = scheduler([job(1, demand=half), job(2, demand=half), job(3, demand=half)], [gpu("G0")])
    plan = world.plan()
    assert plan.starts == (Start(1, ("G0",)), Start(2, ("G0",)))
    commit(world, plan)
    assert world.plan().starts == ()


def test_a_gpu_of_unknown_memory_takes_no_job_that_declared_some() -> None:
    world = scheduler([job(1, demand=Demand(1, memory=GIB)), job(2)], [gpu("G0", memory_free=None)])
    assert world.plan().starts == (), "it would do for the first once it can be read"
    world.remove(1)
    assert world.plan().starts == (Start(2, ("G0",)),), "nothing else speaks against it"


def test_a_job_without_gpus_starts_at_once() -> None:
    world = scheduler([job(1, demand=Demand(8)), job(2, demand=Demand(0))], [])
    assert world.plan().starts == (Start(2, ()),)


def test_start_now_picks_among_the_named_gpus_alone() -> None:
    world = scheduler([job(1, gates=Gate.HOLD)], [gpu("G0"), gpu("G1"), gpu("G2", state=GpuState.BUSY)])
    assert world.fits(1) == ("G0",)
    assert world.fits(1, ["G1"]) == ("G1",)
    assert world.fits(1, ["G2"]) is None
    assert world.fits(1, ["no such"]) is None


def test_an_id_is_taken_in_once() -> None:
    world = scheduler([job(1)])
    for jobs in ([job(1)], [job(2), job(2)]):
        try:
            world.add_all(jobs)
        except ValueError:
            pass
        else:
            raise AssertionError("taken in twice")
    assert world.window(0, 9) == [1]
