"""Which GPUs a job gets: those that fit now, the smallest adequate ones, all on one node, the fullest node first."""

from dataclasses import dataclass, field

from gputui.domain.job import Demand, QueuedJob
from gputui.domain.pool import GpuPool, bits


@dataclass(slots=True)
class Board:
    """What is still open in the course of one pass. Starts from the pool's sets and never changes the pool."""

    pool: GpuPool
    clean: int = field(init=False)
    whole: int = field(init=False)
    shared: int = field(init=False)
    sharing: int = field(init=False)
    promised: dict[int, int] = field(init=False, default_factory=dict)
    """Bytes promised in this pass, by bit, beyond what the views already say."""

    def __post_init__(self) -> None:
        self.clean = self.pool.clean
        self.whole = self.pool.whole
        self.shared = self.pool.shared
        self.sharing = self.pool.sharing

    def fitting(self, demand: Demand, within: int) -> int:
        """Return the GPUs of `within` that can take a run of `demand` now, each looked at for itself."""
        if not demand.memory:
            return self.clean & within
        if not demand.share:
            here = self.whole & within
            return here & self.pool.free_at_least(demand.memory) if here else 0
        fit = 0
        for bit in bits(self.shared & within):
            if self._room(bit) >= demand.memory:
                fit |= 1 << bit
        return fit

    def choose(self, demand: Demand, fit: int) -> int:
        """Return the GPUs of `fit` that `demand` gets, or 0 when no node has enough of them."""
        wanted = demand.gpus
        if fit.bit_count() < wanted:
            return 0
        for kind in self.pool.kinds:
            here = fit & kind.mask
            if here.bit_count() < wanted:
                continue
            for preferred in self._preferences(demand, here):
                if preferred.bit_count() >= wanted and (node := self._fullest(kind.nodes, preferred, wanted)):
                    return self._pick(demand, preferred & node, wanted)
        if wanted > 1 and (node := self._fullest(self.pool.nodes, fit, wanted)):
            return self._pick(demand, fit & node, wanted)
        return 0

    def take(self, demand: Demand, chosen: int) -> None:
        """Give `chosen` to a run of `demand` for the rest of the pass."""
        self.clean &= ~chosen
        self.whole &= ~chosen
        if demand.share and demand.memory:
            self.sharing |= chosen
            for bit in bits(chosen):
                self.promised[bit] = self.promised.get(bit, 0) + demand.memory
        else:
            self.shared &= ~chosen

    def _preferences(self, demand: Demand, fit: int) -> tuple[int, ...]:
        spotless = fit & self.pool.spotless
        if demand.share:
            return spotless & self.sharing, spotless, fit
        return spotless, fit

    def _fullest(self, nodes: tuple[int, ...], fit: int, wanted: int) -> int:
        best = 0
        fewest = len(self.pool.gpus) + 1
        for node in nodes:
            here = fit & node
            if here and here.bit_count() >= wanted:
                left = ((self.clean | self.shared) & node).bit_count()
                if left < fewest:
                    best, fewest = node, left
        return best

    def _pick(self, demand: Demand, fit: int, wanted: int) -> int:
        if demand.share:
            ranked = sorted(bits(fit), key=lambda bit: (not self.pool.spotless >> bit & 1, self._room(bit), bit))
        else:
            ranked = sorted(bits(fit), key=lambda bit: (not self.pool.spotless >> bit & 1, bit))
        return sum(1 << bit for bit in ranked[:wanted])

    def _room(self, bit: int) -> int:
        gpu = self.pool.gpus[bit]
        return (gpu.memory_free or 0) - gpu.promised - self.promised.get(bit, 0)


class Sweep:
    """One pass over jobs in queue order: what it has taken, what it withholds, and for whom."""

    __slots__ = ("board", "held_back", "taken_by", "withheld", "withheld_for")

    def __init__(self, pool: GpuPool) -> None:
        self.board = Board(pool)
        self.withheld = 0
        self.withheld_for: list[tuple[int, int]] = []
        """(job, the GPUs it waits for), in queue order."""
        self.taken_by: list[tuple[int, int]] = []
        """(job, the GPUs it starts on), in queue order."""
        self.held_back = False
        """Whether the job visited last has GPUs withheld for it."""

    def visit(self, job: QueuedJob) -> int | None:
        """Decide for the next job in queue order: the GPUs it starts on now (0 for a job that needs none), or None."""
        demand = job.demand
        if not demand.gpus:
            return 0
        reach = self.board.pool.waits_for(demand)
        self.held_back = reach != 0
        if not reach:
            return None
        fit = self.board.fitting(demand, reach & ~self.withheld)
        chosen = self.board.choose(demand, fit) if fit else 0
        if chosen:
            self.board.take(demand, chosen)
            self.taken_by.append((job.id, chosen))
            return chosen
        self.withheld |= reach
        self.withheld_for.append((job.id, reach))
        return None

    def closed_to(self, smallest: Demand) -> bool:
        """Tell whether no job of a lane, whose least demand is `smallest`, can start or withhold anything any more."""
        return not self.board.pool.waits_for(smallest) & ~self.withheld
