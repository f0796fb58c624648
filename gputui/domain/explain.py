"""Why a waiting job waits: a true obstacle, so that without it the job starts or meets another. Computed when asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from gputui.domain.gpu import GpuState, GpuView
from gputui.domain.job import Demand, Gate, QueuedJob
from gputui.domain.placement import Sweep
from gputui.domain.pool import GpuPool, bits, can_be_reached, is_short
from gputui.domain.reason import Reason, Wait, gib, listed
from gputui.domain.scheduler import Scheduler

_NAMED = 3
"""How many obstacles of a kind a reason names."""


@dataclass(frozen=True, slots=True)
class Holding:
    """Who holds a GPU."""

    who: str
    """'#412', or 'python (wang)' for a foreign process."""
    expected: datetime | None = None
    """When it is expected to end."""


@dataclass(frozen=True, slots=True)
class DatasetFact:
    """How a dataset stands."""

    phrase: str
    """'67 %', 'cannot be read: timed out'."""
    ready: bool = False
    expected: datetime | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What reasons name beyond what the scheduler knows. Whatever is missing is left out of the sentence."""

    gpu_names: Mapping[str, str] = field(default_factory=dict)
    """UUID → 'GPU 3'."""
    holders: Mapping[str, Sequence[Holding]] = field(default_factory=dict)
    """UUID → its holders."""
    datasets: Mapping[str, DatasetFact] = field(default_factory=dict)
    holds: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """Job → one phrase per hold: 'held by li: wait for the review'."""
    retries: Mapping[int, tuple[datetime | None, str]] = field(default_factory=dict)
    """Job → when its back-off ends, and after what it is tried again: 'exit 9'."""
    frozen: str = ""
    """'frozen by li: moving racks' while everything automatic is stopped."""
    paused: str = ""
    """Why no run is started now though nothing is frozen: '/data is full'."""


@dataclass(frozen=True, slots=True)
class _Obstacle:
    """What keeps one or more GPUs from a job."""

    kind: str
    what: str
    expected: datetime | None = None


def explain(scheduler: Scheduler, job_id: int, facts: Facts) -> Reason:
    """Say why a waiting job has not started. Raises KeyError when it is not waiting."""
    job = scheduler.get(job_id)
    if job is None:
        raise KeyError(job_id)
    if waits := _gates(job, facts):
        return Reason("; ".join(wait.what for wait in waits), tuple(waits))
    if facts.frozen:
        return Reason(facts.frozen, (Wait("frozen", facts.frozen),))
    if facts.paused:
        return Reason(facts.paused, (Wait("disk", facts.paused),))
    return _Explainer(scheduler, job, facts).reason()


def _gates(job: QueuedJob, facts: Facts) -> list[Wait]:
    waits: list[Wait] = []
    if job.gates & Gate.HOLD:
        phrases = facts.holds.get(job.id) or [f"held: {hold}" for hold in sorted(job.holds)] or ["held"]
        waits += [Wait("hold", phrase) for phrase in phrases]
    if job.gates & (Gate.DATA | Gate.DATA_UNKNOWN):
        known = [(name, facts.datasets.get(name)) for name in job.datasets]
        missing = [
            Wait("data", f"data: {name} {fact.phrase}", fact.expected)
            if fact is not None
            else Wait("data", f"data: {name} is unknown")
            for name, fact in known
            if fact is None or not fact.ready
        ]
        waits += missing or [Wait("data", "data: not checked yet")]
    if job.gates & Gate.BACKOFF:
        until, after = facts.retries.get(job.id, (None, ""))
        waits.append(Wait("backoff", f"a retry waits for its time{after and f', after: {after}'}", until))
    return waits


class _Explainer:
    """The reason of one job that nothing but GPUs and order keeps waiting."""

    def __init__(self, scheduler: Scheduler, job: QueuedJob, facts: Facts) -> None:
        self._sweep: Sweep = scheduler.sweep_to(job.id)
        self._pool: GpuPool = scheduler.pool
        self._demand: Demand = job.demand
        self._facts = facts

    def reason(self) -> Reason:
        if not self._demand.gpus:
            return Reason("about to start")
        reach = self._pool.waits_for(self._demand)
        if not reach:
            return self._never() or self._out_of_service()
        board = self._sweep.board
        open_to_all = board.fitting(self._demand, reach)
        if board.choose(self._demand, open_to_all & ~self._sweep.withheld):
            return Reason("about to start")
        if board.choose(self._demand, open_to_all):
            return self._behind(open_to_all)
        if self._most_on_a_node(reach & ~self._sweep.withheld) < self._demand.gpus:
            return self._behind(reach)
        return self._taken(reach & ~self._sweep.withheld)

    # --- Order ------------------------------------------------------------------------------------------------------

    def _behind(self, wanted: int) -> Reason:
        """Jobs ahead wait for GPUs that this one wants too."""
        ahead = [job_id for job_id, mask in self._sweep.withheld_for if mask & wanted][:_NAMED]
        waits = tuple(Wait("order", f"behind #{job_id}") for job_id in ahead)
        return Reason(waits[0].what, waits)

    # --- GPUs that runs hold ----------------------------------------------------------------------------------------

    def _taken(self, reach: int) -> Reason:
        """There are enough GPUs, but too few of them are open now."""
        fit = self._sweep.board.fitting(self._demand, reach)
        node = self._best_node(fit, reach)
        have = (fit & node).bit_count()
        missing = self._demand.gpus - have
        obstacles = [self._obstacle(bit) for bit in bits(reach & node & ~fit)]
        obstacles.sort(key=_soonest_first)
        named = list(dict.fromkeys(obstacles[:missing]))
        return self._need(missing, have, [Wait(one.kind, one.what, one.expected) for one in named])

    def _need(self, missing: int, have: int, waits: Sequence[Wait]) -> Reason:
        what = f"{missing} {'more ' if have else ''}{self._type_words(missing)}"
        return Reason(f"{what}: {listed([wait.what for wait in waits])}", tuple(waits))

    def _obstacle(self, bit: int) -> _Obstacle:
        """What keeps this GPU, which would do, from the job now."""
        gpu = self._pool.gpus[bit]
        for job_id, mask in self._sweep.taken_by:
            if mask >> bit & 1:
                return _Obstacle("order", f"#{job_id} starts first")
        holders = self._facts.holders.get(gpu.uuid, ())
        name = self._name(gpu)
        memory = self._demand.memory
        if gpu.state is GpuState.RELEASING:
            return _Obstacle("gpus", f"{name} {gpu.why or 'is being released'}")
        if gpu.state is GpuState.BUSY and not (self._demand.share and gpu.shared_runs):
            if not holders:
                return _Obstacle("gpus", f"{name} is busy")
            ends = [holder.expected for holder in holders]
            known = [end for end in ends if end is not None]
            words = listed([holder.who for holder in holders])
            what = f"{words} ends" if len(holders) == 1 else f"{words} on {name}"
            return _Obstacle("gpus", what, max(known) if len(known) == len(ends) else None)
        if gpu.memory_free is None:
            return _Obstacle("memory", f"the free memory of {name} cannot be read")
        return self._short_of_memory(
            gpu, max(gpu.memory_free - gpu.promised, 0) if self._demand.share else None, memory
        )

    def _short_of_memory(self, gpu: GpuView, free: int | None, wanted: int) -> _Obstacle:
        left = free if free is not None else gpu.memory_free or 0
        holders = self._facts.holders.get(gpu.uuid, ())
        rest = (
            f": {listed([one.who for one in holders])} hold{'s' if len(holders) == 1 else ''} the rest"
            if holders
            else ""
        )
        return _Obstacle("memory", f"{self._name(gpu)} has {gib(left)} of {gib(wanted)} GiB free{rest}")

    # --- GPUs that are not there ------------------------------------------------------------------------------------

    def _never(self) -> Reason | None:
        """Even with every GPU in service and empty, the job would not fit."""
        demand = self._demand
        of_types = self._pool.of_types(demand.types)
        types = self._type_words(2)
        if not of_types:
            there = "no GPUs" if not len(self._pool) else f"no {self._type_words(1)}"
            return _never_fits(f"this host has {there}")
        big = self._big_enough()
        if not big:
            largest = max(self._pool.gpus[bit].memory_total for bit in bits(of_types))
            return _never_fits(f"asks for {gib(demand.memory)} GiB on each GPU, the largest has {gib(largest)} GiB")
        most = self._most_on_a_node(big)
        if most < demand.gpus:
            where = "this host has" if len(self._pool.nodes) == 1 else "the largest node has"
            memory = f" with {gib(demand.memory)} GiB" if big != of_types else ""
            return _never_fits(f"asks for {demand.gpus} {types}{memory}, {where} {most}")
        return None

    def _out_of_service(self) -> Reason:
        """There would be enough GPUs, were not some of them out of service or held by foreign processes."""
        demand = self._demand
        big = self._big_enough()
        in_service = sum(1 << bit for bit in bits(big) if self._would_do(self._pool.gpus[bit]))
        node = self._best_node(in_service, big)
        have = (in_service & node).bit_count()
        missing = demand.gpus - have
        absent = [self._pool.gpus[bit] for bit in bits(big & node & ~in_service)]
        waits = [self._absence(gpu) for gpu in absent]
        return self._need(missing, have, waits[: max(missing, _NAMED)])

    def _would_do(self, gpu: GpuView) -> bool:
        return can_be_reached(gpu, self._demand.memory) and not is_short(gpu, self._demand.memory)

    def _absence(self, gpu: GpuView) -> Wait:
        name = self._name(gpu)
        if not gpu.schedulable or gpu.state in {GpuState.LOST, GpuState.UNKNOWN, GpuState.QUARANTINED}:
            bad = gpu.state in {GpuState.LOST, GpuState.UNKNOWN, GpuState.QUARANTINED}
            if not gpu.why:
                return Wait("gpus", f"{name} is {gpu.state if bad else 'out of service'}")
            if gpu.why.startswith(("cordoned", "drained")):
                return Wait("cordon", f"{name} {gpu.why}")
            return Wait("gpus", f"{name}: {gpu.why}")
        if self._demand.memory:
            free = gpu.memory_free if gpu.memory_free is not None else 0
            short = self._short_of_memory(gpu, free, self._demand.memory)
            return Wait(short.kind, short.what)
        holders = self._facts.holders.get(gpu.uuid, ())
        who = listed([one.who for one in holders]) or "a foreign process"
        return Wait("gpus", f"{name} is held by {who}")

    # --- Words and sets ---------------------------------------------------------------------------------------------

    def _name(self, gpu: GpuView) -> str:
        return self._facts.gpu_names.get(gpu.uuid, gpu.uuid)

    def _type_words(self, count: int) -> str:
        if not self._demand.types:
            return "GPU" if count == 1 else "GPUs"
        return " or ".join(sorted(self._demand.types))

    def _big_enough(self) -> int:
        of_types = self._pool.of_types(self._demand.types)
        return sum(1 << bit for bit in bits(of_types) if self._pool.gpus[bit].memory_total >= self._demand.memory)

    def _most_on_a_node(self, mask: int) -> int:
        return max(((mask & node).bit_count() for node in self._pool.nodes), default=0)

    def _best_node(self, have: int, could: int) -> int:
        """The node nearest to what the job wants, among those that could have enough."""
        enough = [node for node in self._pool.nodes if (could & node).bit_count() >= self._demand.gpus]
        return max(enough, key=lambda node: ((have & node).bit_count(), (could & node).bit_count()))


def _never_fits(what: str) -> Reason:
    return Reason(f"never fits: {what}", (Wait("never_fits", what),))


def _soonest_first(obstacle: _Obstacle) -> tuple[bool, float]:
    return obstacle.expected is None, obstacle.expected.timestamp() if obstacle.expected else 0.0
