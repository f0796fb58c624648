"""The scheduler's memory and its pass: which waiting jobs start now, on which GPUs, and which of them block others.

The rule of a pass, job by job in queue order: a job starts on GPUs that fit now; if it cannot, every GPU it could run
on once runs of ours end is withheld from the jobs behind it; if there are not enough such GPUs at all, it holds back
nobody. Lanes and sets of bits only make that rule fast.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import Any, Final

from sortedcontainers import SortedList

from gputui.domain.gpu import GpuView
from gputui.domain.job import Demand, QueuedJob
from gputui.domain.lanes import Lane, LaneKey, lane_key
from gputui.domain.moves import Moves
from gputui.domain.order import baseline_key, effective_key
from gputui.domain.placement import Board, Sweep
from gputui.domain.pool import GpuPool

_ID_BITS: Final = 40
_ID_MASK: Final = (1 << _ID_BITS) - 1


@dataclass(frozen=True, slots=True)
class Start:
    """A job that may start now, and the GPUs it gets."""

    job_id: int
    gpu_uuids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Blocked:
    """The first job of a lane that does not fit now."""

    job_id: int
    demand: Demand
    holds_back: bool
    """What it waits for is withheld from the jobs behind it. False: there are not enough such GPUs at all."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one pass decided."""

    starts: tuple[Start, ...]
    blocked: tuple[Blocked, ...]
    """In queue order; incomplete when the pass ended at its limit."""


class Scheduler:
    """Waiting jobs in order, and GPUs. Mutable, without I/O; for one thread."""

    def __init__(self) -> None:
        self.pool = GpuPool()
        self._jobs: dict[int, QueuedJob] = {}
        self._order: Any = SortedList()
        self._baseline: Any = SortedList()
        self._lanes: dict[LaneKey, Lane] = {}

    # --- Jobs -------------------------------------------------------------------------------------------------------

    def add(self, job: QueuedJob) -> None:
        """Take in a waiting job. Raises ValueError when its id is here already."""
        if job.id in self._jobs:
            raise ValueError(f"job {job.id} is waiting already")
        entry = _entry(effective_key(job), job.id)
        self._jobs[job.id] = job
        self._order.add(entry)
        self._baseline.add(entry if job.move_key is None else _entry(baseline_key(job), job.id))
        if not job.gates:
            self._lane(job.demand).add(job.demand, entry)

    def add_all(self, jobs: Iterable[QueuedJob]) -> None:
        """Take in many waiting jobs at once. Raises ValueError, before anything changed, when an id is not new."""
        new: dict[int, QueuedJob] = {}
        for job in jobs:
            if job.id in new or job.id in self._jobs:
                raise ValueError(f"job {job.id} is waiting already")
            new[job.id] = job
        order: list[int] = []
        baseline: list[int] = []
        startable: dict[Demand, list[int]] = {}
        for job in new.values():
            at_baseline = _entry(baseline_key(job), job.id)
            entry = at_baseline if job.move_key is None else _entry(job.move_key, job.id)
            order.append(entry)
            baseline.append(at_baseline)
            if not job.gates:
                startable.setdefault(job.demand, []).append(entry)
        self._jobs |= new
        self._order.update(order)
        self._baseline.update(baseline)
        for demand, entries in startable.items():
            self._lane(demand).add(demand, *entries)

    def remove(self, job_id: int) -> QueuedJob:
        """Let go of a job that starts or was cancelled. Raises KeyError."""
        job = self._jobs.pop(job_id)
        entry = _entry(effective_key(job), job_id)
        self._order.remove(entry)
        self._baseline.remove(entry if job.move_key is None else _entry(baseline_key(job), job_id))
        if not job.gates:
            self._leave_lane(entry, job.demand)
        return job

    def replace(self, job: QueuedJob) -> None:
        """Put a waiting job's new value in the place of the old one. Raises KeyError when it is not waiting."""
        if self._jobs[job.id] != job:
            self.remove(job.id)
            self.add(job)

    def get(self, job_id: int) -> QueuedJob | None:
        """Return the waiting job, or None."""
        return self._jobs.get(job_id)

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job_id: int) -> bool:
        return job_id in self._jobs

    def position(self, job_id: int) -> int:
        """Return the job's place among all waiting jobs, from 1. Raises KeyError."""
        return int(self._order.bisect_left(_entry(effective_key(self._jobs[job_id]), job_id))) + 1

    def baseline_position(self, job_id: int) -> int:
        """Return the place the rules alone would give the job, from 1. Raises KeyError."""
        return int(self._baseline.bisect_left(_entry(baseline_key(self._jobs[job_id]), job_id))) + 1

    def window(self, first: int, count: int) -> list[int]:
        """Return the ids of `count` jobs in queue order, from the 0-based place `first` on."""
        return [entry & _ID_MASK for entry in self._order.islice(max(first, 0), max(first, 0) + max(count, 0))]

    def move(self, job_id: int, to: str, n: int = 1, ref: int | None = None) -> dict[int, int | None]:
        """Return the move keys that put a job where an operator wants it; the caller applies them by `replace`.

        `to`: top, bottom, up, down (past `n` neighbours), before, after (the job `ref`), baseline. More than one key
        comes back when the room beside the neighbour had to be spread anew; none when the job stands there already.
        Raises KeyError (not waiting), Refused (`ref` is not waiting), InputError.
        """
        return Moves(self._order, self._jobs, _ID_BITS).find(self._jobs[job_id], to, n, ref)

    # --- GPUs -------------------------------------------------------------------------------------------------------

    def set_gpu(self, gpu: GpuView) -> bool:
        """Take a GPU's new view; False when nothing about it changed."""
        return self.pool.set(gpu)

    def drop_gpu(self, uuid: str) -> None:
        """Forget a GPU."""
        self.pool.drop(uuid)

    # --- Decisions --------------------------------------------------------------------------------------------------

    def plan(self, limit: int | None = None) -> Plan:
        """Decide what starts now, at most `limit` jobs. Changes nothing; the caller commits, removes and updates."""
        self.pool.refresh()
        sweep = Sweep(self.pool)
        starts: list[Start] = []
        blocked: list[Blocked] = []
        reported: set[int] = set()
        for job, lane, chosen in self._walk(sweep, None):
            if limit is not None and len(starts) >= limit:
                break
            if chosen is not None:
                starts.append(Start(job.id, self.pool.uuids(chosen)))
            elif lane not in reported:
                reported.add(lane)
                blocked.append(Blocked(job.id, job.demand, sweep.held_back))
        return Plan(tuple(starts), tuple(blocked))

    def sweep_to(self, job_id: int) -> Sweep:
        """Return the pass as it stands when this job's turn comes: what is taken, what is withheld and by whom.

        Raises KeyError when the job is not waiting.
        """
        self.pool.refresh()
        sweep = Sweep(self.pool)
        for _ in self._walk(sweep, _entry(effective_key(self._jobs[job_id]), job_id)):
            pass
        return sweep

    def fits(self, job_id: int, only_these_uuids: Collection[str] | None = None) -> tuple[str, ...] | None:
        """Return GPUs the job fits on now, whatever its gates and the queue say, or None. Raises KeyError."""
        self.pool.refresh()
        demand = self._jobs[job_id].demand
        if not demand.gpus:
            return ()
        board = Board(self.pool)
        within = self.pool.reach(demand)
        if only_these_uuids is not None:
            within &= self.pool.mask(only_these_uuids)
        chosen = board.choose(demand, board.fitting(demand, within))
        return self.pool.uuids(chosen) if chosen else None

    def _walk(self, sweep: Sweep, end: int | None) -> Iterator[tuple[QueuedJob, int, int | None]]:
        """Visit, in queue order up to the entry `end`, each job that can matter: (job, its lane's number, its GPUs)."""
        lanes = list(self._lanes.values())
        heads = [(lane.entries[0], at, 0) for at, lane in enumerate(lanes)]
        heapify(heads)
        while heads and (end is None or heads[0][0] < end):
            entry, at, depth = heads[0]
            lane = lanes[at]
            job = self._jobs[entry & _ID_MASK]
            chosen = sweep.visit(job)
            yield job, at, chosen
            depth += 1
            # a job that could not start leaves nothing for those behind it that want as much memory or more
            if depth < len(lane.entries) and (
                chosen is not None or (job.demand.memory > lane.smallest.memory and not sweep.closed_to(lane.smallest))
            ):
                heapreplace(heads, (lane.entries[depth], at, depth))
            else:
                heappop(heads)

    def _lane(self, demand: Demand) -> Lane:
        key = lane_key(demand)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane()
        return lane

    def _leave_lane(self, entry: int, demand: Demand) -> None:
        key = lane_key(demand)
        lane = self._lanes[key]
        lane.remove(demand, entry)
        if not lane.entries:
            del self._lanes[key]


def _entry(key: int, job_id: int) -> int:
    """A job's order key with its id below it: sorts by both, and tells the id."""
    return key << _ID_BITS | job_id
