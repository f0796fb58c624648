"""The GPUs as sets of bits: which a demand can reach, which are open now, which have the memory.

GPUs are numbered by how big they are, then by node, so that the lowest bit of a set is the smallest GPU that will do.
Sets are plain integers: a pass takes and withholds GPUs on copies and changes nothing here.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gputui.domain.gpu import GpuState, GpuView
from gputui.domain.job import Demand

FOREIGN_TOLERANCE: Final = 1 << 30
"""Bytes that foreign processes (a desktop) may hold on a GPU given to a job that declared no memory."""

_CACHED_REACHES: Final = 10_000
_REACHABLE: Final = frozenset({GpuState.FREE, GpuState.BUSY, GpuState.RELEASING, GpuState.FOREIGN})


def bits(mask: int) -> Iterator[int]:
    """Yield the positions of the bits set in `mask`, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


class Levels:
    """Sets of GPUs by a number of bytes: all that have at least so many."""

    __slots__ = ("_masks", "_values")

    def __init__(self, pairs: Iterable[tuple[int, int]]) -> None:
        self._values: list[int] = []
        self._masks: list[int] = []
        mask = 0
        for value, bit in sorted(pairs, reverse=True):
            mask |= 1 << bit
            if self._values and self._values[-1] == value:
                self._masks[-1] = mask
            else:
                self._values.append(value)
                self._masks.append(mask)
        self._values.reverse()
        self._masks.reverse()

    def at_least(self, value: int) -> int:
        """Return the set of those with `value` bytes or more."""
        at = bisect_left(self._values, value)
        return self._masks[at] if at < len(self._masks) else 0


@dataclass(frozen=True, slots=True)
class Kind:
    """GPUs of one type and memory."""

    mask: int
    nodes: tuple[int, ...]
    """The nodes they are on, each as the set of all its GPUs."""


def can_be_reached(gpu: GpuView, memory: int) -> bool:
    """Tell whether `gpu` would do for a run once no run of ours is left on it: what a blocked job waits for."""
    if not gpu.schedulable or gpu.state not in _REACHABLE:
        return False
    if memory:
        return gpu.memory_total - gpu.foreign_memory >= memory
    return gpu.state is not GpuState.FOREIGN and gpu.foreign_memory <= FOREIGN_TOLERANCE


def is_short(gpu: GpuView, memory: int) -> bool:
    """Tell whether no run of ours is on `gpu` and it has less than `memory` free all the same: no end will change that.

    Drivers keep some memory to themselves, and foreign processes more.
    """
    return _is_whole(gpu) and (gpu.memory_free or 0) < memory


class GpuPool:
    """All GPUs known, with their sets kept up to date."""

    def __init__(self) -> None:
        self._views: dict[str, GpuView] = {}
        self._bit: dict[str, int] = {}
        self.gpus: list[GpuView] = []
        """By bit; valid after `refresh`."""
        self.kinds: tuple[Kind, ...] = ()
        self.nodes: tuple[int, ...] = ()
        self.clean = 0
        """Open to a run that declared no memory."""
        self.whole = 0
        """Open to an unshared run that declared its memory, as far as it has that much."""
        self.shared = 0
        """Open to a sharing run, as far as it has that much."""
        self.spotless = 0
        """Without foreign memory."""
        self.sharing = 0
        """With a sharing run on it."""
        self._types: dict[str, int] = {}
        self._clean_reach = 0
        self._potential = Levels(())
        self._free: Levels | None = None
        self._reach: dict[Demand, tuple[int, int]] = {}
        """By demand: the GPUs that would do each for itself, and those of them on nodes with enough."""
        self._node: dict[str, int] = {}
        self._renumber = False
        self._regroup = False

    def __len__(self) -> int:
        return len(self._views)

    def __contains__(self, uuid: str) -> bool:
        return uuid in self._views

    def get(self, uuid: str) -> GpuView:
        """Return the GPU's last view. Raises KeyError."""
        return self._views[uuid]

    def all(self) -> Iterable[GpuView]:
        """Return every GPU, in the order in which they became known."""
        return self._views.values()

    def set(self, gpu: GpuView) -> bool:
        """Take a GPU's new view; False when nothing about it changed."""
        before = self._views.get(gpu.uuid)
        if before == gpu:
            return False
        self._views[gpu.uuid] = gpu
        if self._renumber or before is None or _place(before) != _place(gpu):
            self._renumber = True
            return True
        bit = self._bit[gpu.uuid]
        self.gpus[bit] = gpu
        self._set_bit(bit, gpu)
        self._free = None
        if _reach_of(before) != _reach_of(gpu):
            self._update_reaches(1 << bit, gpu)
        return True

    def drop(self, uuid: str) -> None:
        """Forget a GPU."""
        if self._views.pop(uuid, None) is not None:
            self._renumber = True

    def refresh(self) -> None:
        """Bring the sets up to date; called before they are read."""
        if self._renumber:
            self._number()

    def mask(self, uuids: Iterable[str]) -> int:
        """Return the set of these GPUs; unknown ones are left out."""
        mask = 0
        for uuid in uuids:
            bit = self._bit.get(uuid)
            if bit is not None:
                mask |= 1 << bit
        return mask

    def uuids(self, mask: int) -> tuple[str, ...]:
        """Return the UUIDs of a set of GPUs."""
        return tuple(self.gpus[bit].uuid for bit in bits(mask))

    def of_types(self, types: frozenset[str]) -> int:
        """Return all GPUs of these types (none named: of any)."""
        if not types:
            return (1 << len(self.gpus)) - 1
        mask = 0
        for name in types:
            mask |= self._types.get(name, 0)
        return mask

    def reach(self, demand: Demand) -> int:
        """Return the GPUs `demand` could run on once runs of ours leave them; 0 when no node has enough of them."""
        found = self._reach.get(demand)
        if found is None:
            if len(self._reach) >= _CACHED_REACHES:
                self._reach.clear()
            found = self._reach[demand] = self._find_reach(demand)
        return found[1]

    def waits_for(self, demand: Demand) -> int:
        """Return the part of `reach` that ends of our runs can open to `demand`, or that is open to it now."""
        mask = self.reach(demand)
        if demand.memory and (open_now := mask & self.whole):
            short = open_now & ~self.free_at_least(demand.memory)
            if short:
                return self._with_enough(mask & ~short, demand.gpus)
        return mask

    def free_at_least(self, memory: int) -> int:
        """Return the GPUs open to an unshared run that have `memory` bytes free now."""
        if self._free is None:
            self._free = Levels((self.gpus[bit].memory_free or 0, bit) for bit in bits(self.whole))
        return self._free.at_least(memory)

    def _find_reach(self, demand: Demand) -> tuple[int, int]:
        if self._regroup:
            self._group()
        each = self.of_types(demand.types)
        each &= self._potential.at_least(demand.memory) if demand.memory else self._clean_reach
        return each, self._with_enough(each, demand.gpus)

    def _with_enough(self, mask: int, gpus: int) -> int:
        """The GPUs of `mask` on nodes that have enough of them."""
        if gpus <= 1:
            return mask
        return sum(here for node in self.nodes if (here := mask & node).bit_count() >= gpus)

    def _update_reaches(self, one: int, gpu: GpuView) -> None:
        """Keep what was found true now that one GPU changed, instead of finding it all again."""
        self._regroup = True
        node = self._node[gpu.node]
        clean = can_be_reached(gpu, 0)
        for demand, (before, reach) in self._reach.items():
            if demand.types and gpu.type not in demand.types:
                continue
            each = _put(before, one, can_be_reached(gpu, demand.memory) if demand.memory else clean)
            if each != before:
                here = each & node
                enough = here.bit_count() >= demand.gpus
                self._reach[demand] = each, (reach & ~node) | (here if enough else 0)

    def _number(self) -> None:
        self.gpus = sorted(self._views.values(), key=_place)
        self._bit = {gpu.uuid: bit for bit, gpu in enumerate(self.gpus)}
        self._types = {}
        nodes = dict.fromkeys(sorted({gpu.node for gpu in self.gpus}), 0)
        kinds: dict[tuple[int, int, str], dict[str, int]] = {}
        for bit, gpu in enumerate(self.gpus):
            one = 1 << bit
            self._types[gpu.type] = self._types.get(gpu.type, 0) | one
            nodes[gpu.node] |= one
            by_node = kinds.setdefault(_place(gpu)[:3], {})
            by_node[gpu.node] = by_node.get(gpu.node, 0) | one
            self._set_bit(bit, gpu)
        self._node = nodes
        self.nodes = tuple(nodes.values())
        self.kinds = tuple(
            Kind(sum(by_node.values()), tuple(nodes[node] for node in by_node)) for by_node in kinds.values()
        )
        beyond = (1 << len(self.gpus)) - 1
        self.clean &= beyond
        self.whole &= beyond
        self.shared &= beyond
        self._free = None
        self._reach.clear()
        self._renumber = False
        self._regroup = True

    def _group(self) -> None:
        self._clean_reach = sum(1 << bit for bit, gpu in enumerate(self.gpus) if can_be_reached(gpu, 0))
        self._potential = Levels(
            (gpu.memory_total - gpu.foreign_memory, bit) for bit, gpu in enumerate(self.gpus) if can_be_reached(gpu, 1)
        )
        self._regroup = False

    def _set_bit(self, bit: int, gpu: GpuView) -> None:
        one = 1 << bit
        free = gpu.schedulable and not gpu.shared_runs and gpu.state is GpuState.FREE
        whole = _is_whole(gpu)
        sharing = (
            gpu.schedulable
            and gpu.shared_runs > 0
            and gpu.state in {GpuState.BUSY, GpuState.FREE}
            and gpu.memory_free is not None
        )
        self.clean = _put(self.clean, one, free and gpu.foreign_memory <= FOREIGN_TOLERANCE)
        self.whole = _put(self.whole, one, whole)
        self.shared = _put(self.shared, one, whole or sharing)
        self.spotless = _put(self.spotless, one, not gpu.foreign_memory and gpu.state is not GpuState.FOREIGN)
        self.sharing = _put(self.sharing, one, gpu.shared_runs > 0)


def _is_whole(gpu: GpuView) -> bool:
    if not gpu.schedulable or gpu.shared_runs or gpu.memory_free is None:
        return False
    return gpu.state is GpuState.FREE or gpu.state is GpuState.FOREIGN


def _put(mask: int, one: int, on: bool) -> int:
    return mask | one if on else mask & ~one


def _place(gpu: GpuView) -> tuple[int, int, str, str]:
    return gpu.rank, gpu.memory_total, gpu.type, gpu.node


def _reach_of(gpu: GpuView) -> tuple[bool, bool, int]:
    return can_be_reached(gpu, 0), can_be_reached(gpu, 1), gpu.foreign_memory
