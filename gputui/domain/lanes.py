"""Lanes: the startable jobs of (nearly) the same demand, in order. The pass looks at lane heads, not at jobs.

Memory is bucketed, four buckets to a doubling, so that jobs which each ask for a size of their own make few lanes; what
a job really asks for is checked when it is placed.
"""

from typing import Any

from sortedcontainers import SortedDict, SortedList

from gputui.domain.job import Demand

LaneKey = tuple[int, frozenset[str], int, bool]


def bucket(memory: int) -> int:
    """Return the bucket of `memory` bytes: the two bits after its highest one, and its magnitude."""
    magnitude = memory.bit_length()
    return magnitude * 4 + ((memory >> (magnitude - 3)) & 3 if magnitude > 2 else 0)


def lane_key(demand: Demand) -> LaneKey:
    """Return the key of the lane jobs of `demand` belong to."""
    return demand.gpus, demand.types, bucket(demand.memory), demand.share


class Lane:
    """The startable jobs of one lane: their entries in order, and their demands by memory."""

    __slots__ = ("_demands", "_smallest", "entries")

    def __init__(self) -> None:
        self.entries: Any = SortedList()
        self._demands: Any = SortedDict()
        self._smallest: Demand | None = None

    def add(self, demand: Demand, *entries: int) -> None:
        """Put the entries of jobs of one demand in their places."""
        if len(entries) == 1:
            self.entries.add(entries[0])
        else:
            self.entries.update(entries)
        self._demands[demand.memory] = self._demands.get(demand.memory, 0) + len(entries)
        if self._smallest is None or demand.memory < self._smallest.memory:
            self._smallest = demand

    def remove(self, demand: Demand, entry: int) -> None:
        """Take a job's entry out. Raises ValueError when it is not here."""
        self.entries.remove(entry)
        left = self._demands[demand.memory] - 1
        if left:
            self._demands[demand.memory] = left
            return
        del self._demands[demand.memory]
        if self._demands:
            memory = self._demands.peekitem(0)[0]
            self._smallest = Demand(demand.gpus, demand.types, memory, demand.share)
        else:
            self._smallest = None

    @property
    def smallest(self) -> Demand:
        """The demand with the least memory in the lane. What cannot start for it cannot start for any other."""
        assert self._smallest is not None, "an empty lane is dropped"
        return self._smallest
