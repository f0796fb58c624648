"""Reports from users of other queues that concern order and placement: the right behaviour here.

The rest of `queue_issues.tsv` is about processes, stores and daemons, and is tested in their rooms.
"""

from dataclasses import replace

from gputui.domain.explain import Facts, Holding, explain
from gputui.domain.gpu import GpuState
from gputui.domain.job import Demand
from gputui.domain.release import Grant, Sample, Verdict, judge
from gputui.domain.scheduler import Start
from tests.domain.worlds import GIB, commit, gpu, job, scheduler

H100 = frozenset({"h100-80g"})
L40S = frozenset({"l40s-48g"})


def test_kueue_8309_a_blocked_head_does_not_block_jobs_for_another_model() -> None:
    gpus = [gpu("H0", state=GpuState.BUSY)] + [gpu(f"L{at}", "l40s-48g") for at in range(40)]
    jobs = [job(1, demand=Demand(1, H100)), *(job(at, demand=Demand(1, L40S)) for at in range(2, 42))]
    jobs.append(job(42, demand=Demand(1, H100)))
    starts = scheduler(jobs, gpus).plan().starts
    assert [start.job_id for start in starts] == list(range(2, 42))


def test_kueue_8309_but_it_holds_back_those_that_want_the_same() -> None:
    gpus = [gpu("H0", state=GpuState.BUSY), gpu("H1")]
    world = scheduler([job(1, demand=Demand(2, H100)), job(2, demand=Demand(1, H100)), job(3)], gpus)
    assert world.plan().starts == ()


def test_gflow_208_a_job_fits_into_what_a_foreign_server_leaves_or_not_at_all() -> None:
    held = int(21.3 * GIB)
    total = 96 * GIB
    view = gpu("G0", memory_total=total, memory_free=total - held, foreign_memory=held, state=GpuState.FOREIGN)
    world = scheduler([job(1, demand=Demand(1, memory=82 * GIB)), job(2, demand=Demand(1, memory=70 * GIB))], [view])
    assert world.plan().starts == (Start(2, ("G0",)),)
    world.remove(2)
    reason = explain(world, 1, Facts({"G0": "GPU 0"}, {"G0": [Holding("python (wang)")]}))
    assert reason.sentence == "1 GPU: GPU 0 has 74.7 of 82 GiB free: python (wang) holds the rest"
    assert reason.waits_for[0].kind == "memory"


def test_gflow_208_a_job_that_declared_nothing_takes_no_gpu_with_a_foreign_server() -> None:
    world = scheduler([job(1)], [gpu("G0", state=GpuState.FOREIGN, foreign_memory=2 * GIB)])
    assert world.plan().starts == ()
    world.set_gpu(gpu("G0", foreign_memory=GIB // 3))
    assert world.plan().starts == (Start(1, ("G0",)),), "a desktop is tolerated"


def test_task_spooler_59_memory_is_promised_at_the_start_not_once_allocated() -> None:
    """Twenty jobs of 20 GiB at once on one 80 GiB card that still reads as empty: no more than fit are started."""
    demand = Demand(1, memory=20 * GIB, share=True)
    world = scheduler([job(at, demand=demand) for at in range(1, 21)], [gpu("G0", memory_free=79 * GIB)])
    plan = world.plan()
    assert [start.job_id for start in plan.starts] == [1, 2, 3]
    commit(world, plan)
    assert world.plan().starts == (), "nothing is allocated yet, everything is promised"
    loaded = replace(world.pool.get("G0"), memory_free=39 * GIB, promised=20 * GIB)
    world.set_gpu(loaded)
    assert world.plan().starts == (), "two have loaded, the third still may"


def test_task_spooler_59_an_unshared_run_keeps_its_gpu_while_it_has_allocated_nothing() -> None:
    world = scheduler([job(1), job(2)], [gpu("G0")])
    commit(world, world.plan())
    assert world.pool.get("G0").memory_free == gpu("G0").memory_free
    assert world.plan().starts == ()


def test_pueue_185_a_move_changes_places_and_never_ids() -> None:
    world = scheduler([job(1), job(2), job(3)])
    for id_, key in world.move(3, "before", ref=1).items():
        world.replace(replace(world.get(id_) or job(id_), move_key=key))
    assert world.window(0, 3) == [3, 1, 2]
    for id_ in (1, 2, 3):
        found = world.get(id_)
        assert found is not None
        assert (found.id, found.submitted_seq) == (id_, id_)


def test_dstack_893_a_gpu_whose_run_ended_is_given_away_only_once_it_is_proven_free() -> None:
    world = scheduler([job(1)], [gpu("G0", state=GpuState.RELEASING)])
    assert world.plan().starts == ()
    left = [Sample(at * 0.02, 1, 60 * GIB) for at in range(3)]
    assert judge(Grant(GIB // 2), left, ended_at=0, now=1).verdict is Verdict.WAIT
    assert judge(Grant(GIB // 2), left, ended_at=0, now=31).verdict is Verdict.QUARANTINE
    world.set_gpu(gpu("G0", state=GpuState.QUARANTINED, schedulable=False))
    assert world.plan().starts == ()
    gone = [Sample(at * 0.02, 0, GIB // 2) for at in range(3)]
    assert judge(Grant(GIB // 2), gone, ended_at=0, now=1).verdict is Verdict.FREE


def test_slurm_10933_a_grant_names_uuids_whatever_the_order_of_the_cards() -> None:
    shuffled = [gpu("GPU-c"), gpu("GPU-a"), gpu("GPU-b")]
    world = scheduler([job(1, demand=Demand(3))], shuffled)
    assert set(world.plan().starts[0].gpu_uuids) == {"GPU-a", "GPU-b", "GPU-c"}
