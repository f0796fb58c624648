"""Whose the processes on a GPU are: a run's of ours, Slurm's, or somebody else's."""

from collections.abc import Iterable
from dataclasses import dataclass

from gputui.daemon.context import Context
from gputui.daemon.gpu_table import Entry
from gputui.engines.slurm import under_slurm
from gputui.gpus.processes import read_stat
from gputui.gpus.reading import ProcessReading

LOOKS = 5
"""How often the engine is asked about a process before it counts as somebody else's for good."""

Identity = tuple[int, float | None]


@dataclass(frozen=True, slots=True)
class _Owner:
    """Whose a process is."""

    run_id: str = ""
    """Of a run of ours; empty: of somebody else."""
    looks: int = 0


class Owners:
    """Remembers each process by pid and start time, for as long as readings name it."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._owner: dict[Identity, _Owner] = {}
        self._now: dict[Identity, _Owner] = {}
        self._slurm: dict[Identity, bool] = {}
        self._pids: dict[int, str] | None = None

    def begin(self) -> None:
        """A snapshot begins: what was asked of the engine before is asked anew, once, if need be."""
        self._now = {}
        self._pids = None

    def end(self) -> None:
        """A snapshot ends: processes it did not name are forgotten."""
        self._owner = self._now
        self._slurm = {key: found for key, found in self._slurm.items() if key in self._now}

    def split(
        self, entry: Entry, processes: Iterable[ProcessReading]
    ) -> tuple[tuple[ProcessReading, ...], dict[str, int]]:
        """Of the processes on a GPU: those that no run on it owns, and the bytes that each run's hold."""
        foreign: list[ProcessReading] = []
        held: dict[str, int] = {}
        for process in processes:
            owner = self.owner(process)
            if owner in entry.runs:
                held[owner] = held.get(owner, 0) + (process.memory if isinstance(process.memory, int) else 0)
            elif not (owner in entry.releasing or self._gone(process)):
                foreign.append(process)
        return tuple(foreign), held

    def owner(self, process: ProcessReading) -> str:
        """The run a process belongs to; empty for a foreign one."""
        key = (process.pid, process.start_time)
        if key in self._now:
            return self._now[key].run_id
        known = self._owner.get(key, _Owner())
        # nobody becomes a run's process later on; only the first looks may come before the run is known
        if not known.run_id and known.looks < LOOKS:
            known = _Owner(self._ask().get(process.pid, ""), known.looks + 1)
        self._now[key] = known
        return known.run_id

    def slurm(self, entry: Entry) -> str:
        """Why a GPU belongs to Slurm now; empty when it does not."""
        for process in entry.foreign:
            key = (process.pid, process.start_time)
            if key not in self._slurm:
                self._slurm[key] = under_slurm(process.pid)
            if self._slurm[key]:
                return "in use by a Slurm job"
        return ""

    def _ask(self) -> dict[int, str]:
        """The processes of all runs now."""
        if self._pids is None:
            engine = self._ctx.engine
            self._pids = {
                pid: run.run_id
                for run in self._ctx.memory.runs.values()
                if run.gpu_uuids and run.has_processes
                for pid in engine.pids(run.run_id)
            }
        return self._pids

    def _gone(self, process: ProcessReading) -> bool:
        """Whether it ended since the reading: so do the processes of a run that has just ended."""
        if process.start_time is None:
            return False  # this /proc does not know it, so it cannot say that it is gone
        now = read_stat(process.pid)
        return now is None or now.start_time != process.start_time
