"""Small random worlds of GPUs and jobs, and the scheduling rule written down slowly, job by job, to compare with."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

from hypothesis import strategies as st

from gputui.domain.gpu import GpuState, GpuView
from gputui.domain.job import CLASSES, Demand, Gate, QueuedJob
from gputui.domain.scheduler import Plan, Scheduler, Start

GIB = 1 << 30
TYPES = {"l40s-48g": (46044, 45 * GIB), "a100-40g": (50039, 40 * GIB), "h100-80g": (80079, 80 * GIB)}
NODES = ("node-a", "node-b", "node-c")


def gpu(uuid: str = "G0", type_: str = "h100-80g", node: str = "node-a", **changes: object) -> GpuView:
    """A free GPU with all but half a GiB of its memory free."""
    rank, total = TYPES[type_]
    view = GpuView(uuid, type_, rank, node, total, total - GIB // 2)
    return replace(view, **changes)  # type: ignore[arg-type]


def job(id_: int, **changes: object) -> QueuedJob:
    """A normal job for one GPU of any type, submitted in the order of its id."""
    return replace(QueuedJob(id_, "normal", 0, id_, Demand()), **changes)  # type: ignore[arg-type]


def scheduler(jobs: Iterable[QueuedJob] = (), gpus: Iterable[GpuView] = ()) -> Scheduler:
    """A fresh scheduler of these."""
    made = Scheduler()
    for one in gpus:
        made.set_gpu(one)
    made.add_all(jobs)
    return made


def busy(view: GpuView, demand: Demand) -> GpuView:
    """The GPU once a run of `demand` was granted it and has not allocated yet."""
    if demand.share and demand.memory:
        promised = view.promised + demand.memory
        return replace(view, state=GpuState.BUSY, shared_runs=view.shared_runs + 1, promised=promised)
    return replace(view, state=GpuState.BUSY)


def commit(world: Scheduler, plan: Plan) -> None:
    """What the daemon does with a plan."""
    for start in plan.starts:
        demand = world.remove(start.job_id).demand
        for uuid in start.gpu_uuids:
            world.set_gpu(busy(world.pool.get(uuid), demand))


# --- Strategies ---------------------------------------------------------------------------------------------------


@st.composite
def gpu_views(draw: st.DrawFn, uuid: str) -> GpuView:
    """A GPU in any state, its readings consistent with it. Its type and node follow from its number."""
    number = int(uuid[1:])
    name = tuple(TYPES)[number % 3]
    rank, total = TYPES[name]
    state = draw(st.sampled_from([GpuState.FREE] * 5 + list(GpuState)))
    foreign = draw(st.sampled_from([0, 0, 0, GIB // 2, 10 * GIB, 38 * GIB]))
    if state is GpuState.FOREIGN:
        foreign = max(foreign, GIB // 4)
    shared = draw(st.integers(0, 2)) if state is GpuState.BUSY else 0
    free = draw(st.one_of(st.none(), st.just(total - foreign), st.sampled_from([0, 5 * GIB, 30 * GIB])))
    return GpuView(
        uuid, name, rank, NODES[number // 4 % 3], total, None if free is None else min(free, total - foreign), foreign,
        promised=draw(st.sampled_from([0, 4 * GIB])) if shared else 0, state=state, shared_runs=shared,
        schedulable=draw(st.sampled_from([True, True, True, False])),
    )  # fmt: skip


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    """Any demand, small enough to fit often; memories close together fall into one bucket."""
    gpus = draw(st.sampled_from([0, 1, 1, 1, 2, 3]))
    types = frozenset(draw(st.sets(st.sampled_from([*TYPES, "v100-32g"]), max_size=2)))
    memory = draw(st.sampled_from([0, 0, 4, 5, 36, 39, 42, 44, 46, 79, 90])) * GIB
    return Demand(gpus, types, memory, bool(memory) and draw(st.booleans()))


@st.composite
def jobs(draw: st.DrawFn, id_: int) -> QueuedJob:
    """A waiting job; some are gated."""
    gates = draw(st.sampled_from([Gate.NONE] * 5 + [Gate.HOLD, Gate.DATA, Gate.DATA_UNKNOWN | Gate.BACKOFF]))
    return QueuedJob(id_, draw(st.sampled_from(CLASSES)), draw(st.integers(-1, 1)), id_, draw(demands()), gates)


def gpu_lists(most: int = 9) -> st.SearchStrategy[list[GpuView]]:
    """Up to `most` GPUs."""
    return st.integers(1, most).flatmap(
        lambda count: st.tuples(*(gpu_views(f"G{at}") for at in range(count))).map(list)
    )


def job_lists(most: int = 12) -> st.SearchStrategy[list[QueuedJob]]:
    """Up to `most` jobs."""
    return st.integers(0, most).flatmap(lambda count: st.tuples(*(jobs(at) for at in range(1, count + 1))).map(list))


# --- The rule, slowly ---------------------------------------------------------------------------------------------


def in_order(waiting: Iterable[QueuedJob]) -> list[QueuedJob]:
    """Unmoved jobs by class, readiness, priority and age."""

    def place(one: QueuedJob) -> tuple[int, bool, int, int]:
        unready = bool(one.gates & (Gate.DATA | Gate.DATA_UNKNOWN))
        return CLASSES.index(one.priority_class), unready, -one.priority, one.submitted_seq

    return sorted(waiting, key=place)


def fits(view: GpuView, demand: Demand) -> bool:
    """Whether this GPU can take a run now."""
    if not view.schedulable:
        return False
    if demand.memory and view.memory_free is None:
        return False
    if demand.share and demand.memory:
        with_sharing = view.state is GpuState.BUSY and view.shared_runs > 0
        room = (view.memory_free or 0) - view.promised
        return (with_sharing or view.state in {GpuState.FREE, GpuState.FOREIGN}) and room >= demand.memory
    if view.shared_runs:
        return False
    if demand.memory:
        return view.state in {GpuState.FREE, GpuState.FOREIGN} and (view.memory_free or 0) >= demand.memory
    return view.state is GpuState.FREE and view.foreign_memory <= GIB


def would_do(view: GpuView, demand: Demand) -> bool:
    """Whether this GPU could take a run once no run of ours is on it."""
    if demand.types and view.type not in demand.types:
        return False
    if not view.schedulable or view.state in {GpuState.LOST, GpuState.UNKNOWN, GpuState.QUARANTINED}:
        return False
    if demand.memory:
        ours = view.shared_runs or view.state not in {GpuState.FREE, GpuState.FOREIGN}
        if not ours and view.memory_free is not None and view.memory_free < demand.memory:
            return False
        return view.memory_total - view.foreign_memory >= demand.memory
    return view.state is not GpuState.FOREIGN and view.foreign_memory <= GIB


def reachable(gpus: Sequence[GpuView], demand: Demand) -> set[str]:
    """The GPUs a blocked job waits for: those that would do, on nodes that have enough of them."""
    found = [view for view in gpus if would_do(view, demand)]
    per_node = {node: sum(view.node == node for view in found) for node in NODES}
    return {view.uuid for view in found if per_node[view.node] >= demand.gpus}


def best(gpus: Sequence[GpuView], candidates: Sequence[GpuView], demand: Demand) -> tuple[str, ...] | None:
    """Of all sets of GPUs on one node, the best: one type before a mix, small before big, full nodes before empty."""
    numbered = sorted(gpus, key=lambda view: (view.rank, view.memory_total, view.type, view.node))
    number = {view.uuid: at for at, view in enumerate(numbered)}

    def spotless(view: GpuView) -> bool:
        return not view.foreign_memory and view.state is not GpuState.FOREIGN

    def is_open(view: GpuView) -> bool:
        if not view.schedulable or (view.shared_runs and view.memory_free is None):
            return False
        if view.shared_runs:
            return view.state in {GpuState.FREE, GpuState.BUSY}
        return fits(view, Demand()) or (
            view.state in {GpuState.FREE, GpuState.FOREIGN} and view.memory_free is not None
        )

    def openings(node: str) -> int:
        return sum(view.node == node and is_open(view) for view in gpus)

    def score(chosen: tuple[GpuView, ...]) -> tuple[object, ...]:
        kinds = {(view.rank, view.memory_total, view.type) for view in chosen}
        tier = 2
        if all(map(spotless, chosen)):
            tier = 0 if demand.share and all(view.shared_runs for view in chosen) else 1
        each = sorted(
            (not spotless(view), (view.memory_free or 0) - view.promised if demand.share else 0, number[view.uuid])
            for view in chosen
        )
        node = chosen[0].node
        if len(kinds) == 1:
            return 0, kinds.pop(), tier, openings(node), node, each
        return 1, (), 0, openings(node), node, each

    sets = [
        chosen
        for chosen in combinations(sorted(candidates, key=lambda view: number[view.uuid]), demand.gpus)
        if len({view.node for view in chosen}) == 1
    ]
    return tuple(view.uuid for view in min(sets, key=score)) if sets else None


def slow_plan(waiting: Iterable[QueuedJob], gpus: Sequence[GpuView]) -> list[Start]:
    """The rule of a pass: job by job, GPU by GPU."""
    now = {view.uuid: view for view in gpus}
    withheld: set[str] = set()
    starts = []
    for one in in_order(waiting):
        demand = one.demand
        if one.gates:
            continue
        if not demand.gpus:
            starts.append(Start(one.id, ()))
            continue
        reach = reachable(gpus, demand)
        candidates = [view for view in now.values() if view.uuid in reach - withheld and fits(view, demand)]
        chosen = best(list(now.values()), candidates, demand)
        if chosen is None:
            withheld |= reach
            continue
        starts.append(Start(one.id, chosen))
        for uuid in chosen:
            now[uuid] = busy(now[uuid], demand)
    return starts
