"""The processes of one GPU or MIG instance through NVML, checked before they are believed."""

import time
from typing import Any

import pynvml

from gputui.gpus.nvml_calls import Handle, ask
from gputui.gpus.processes import ProcessTable, ProcStat
from gputui.gpus.reading import Int, Missing, ProcessReading

_LISTS = {
    "compute": "nvmlDeviceGetComputeRunningProcesses",
    "graphics": "nvmlDeviceGetGraphicsRunningProcesses",
    "mps": "nvmlDeviceGetMPSComputeRunningProcesses",
}
LAYOUT_WARNING = "processes unknown: driver and library disagree about their layout"
UNLISTED_WARNING = "processes unsupported: this driver lists none"
_LARGEST_PID = 1 << 22
_CLOCK_TOLERANCE = 60.0
"""Seconds by which the driver's time stamps may be ahead; those beyond are garbage."""

_Row = tuple[int, Int, str]
"""pid, bytes, kind."""


class NvmlProcesses:
    """Lists a GPU's processes and says who they are."""

    def __init__(self, table: ProcessTable, *, instance: bool) -> None:
        """`instance`: of a MIG instance, which has no shares of its processes."""
        self._table = table
        self._instance = instance
        self._versions = dict.fromkeys(_LISTS, 3)
        self._seldom: list[_Row] = []
        self._newest_sample = 0
        self.garbled = False
        """The last list made no sense."""
        self.unlisted = False
        """This driver lists no processes: they are left out of the evidence, and memory alone tells."""
        self.listed: set[int] = set()
        """Every pid of the last list that made sense."""

    def read(self, handle: Handle, most: Int) -> tuple[ProcessReading, ...] | None:
        """The processes of this GPU, whose memory is `most` bytes; None when they are unknown."""
        listed = self._list(handle, "compute", most)
        if listed is None:
            return None
        merged: dict[int, tuple[Int, str]] = {}
        for pid, memory, kind in [*listed, *self._seldom]:
            if pid not in merged:
                merged[pid] = (memory, kind)
        self.listed = set(merged)
        shares = self._read_shares(handle, self.listed) if merged else {}
        stats = {pid: self._table.stat(pid) for pid in merged}
        absent = [pid for pid, stat in stats.items() if stat is None and not self._table.dead(pid)]
        # in a container NVML gives the host's pids: one that is nobody here says what all of them are
        foreign = self._table.namespaced and bool(absent)
        processes: list[ProcessReading] = []
        for pid, (memory, kind) in merged.items():
            sm = shares if isinstance(shares, Missing) else shares.get(pid, Missing.UNKNOWN)
            stat = stats[pid]
            if foreign or pid in absent:
                processes.append(ProcessReading(pid, None, memory, command=f"host pid {pid}", kind=kind, sm=sm))
            elif stat is not None:
                processes.append(self._process(pid, stat, memory, kind, sm))
        return tuple(processes)

    def read_seldom(self, handle: Handle, most: Int) -> None:
        """Read the lists that take milliseconds; `read` shows them until the next time."""
        self._seldom = [row for kind in ("graphics", "mps") for row in self._list(handle, kind, most) or ()]

    def memory(self, handle: Handle) -> Int:
        """Bytes held by all compute processes right now."""
        listed = self._list(handle, "compute", Missing.UNKNOWN)
        if self.unlisted:
            return Missing.UNSUPPORTED
        return Missing.UNKNOWN if listed is None else total([memory for _, memory, _ in listed])

    def _process(self, pid: int, stat: ProcStat, memory: Int, kind: str, sm: Int) -> ProcessReading:
        who = self._table.who(pid, stat)
        return ProcessReading(
            pid=pid,
            start_time=stat.start_time,
            memory=memory,
            user=who.user,
            uid=who.uid,
            command=who.command,
            kind=kind,
            sm=sm,
            cpu_seconds=stat.cpu,
            container=who.container,
        )

    def _read_shares(self, handle: Handle, pids: set[int]) -> dict[int, int] | Missing:
        """SM percent by pid: of listed pids, 0 to 100, and newer than the last look; everything else is noise."""
        samples: Any = Missing.UNSUPPORTED
        if not self._instance:
            samples = ask(pynvml.nvmlDeviceGetProcessUtilization, handle, self._newest_sample)
        if isinstance(samples, Missing):
            return samples
        newest: dict[int, tuple[int, int]] = {}
        latest = (time.time() + _CLOCK_TOLERANCE) * 1e6
        if self._newest_sample > latest:  # the clock was set back
            self._newest_sample = 0
        for sample in samples:
            good = sample.pid in pids and sample.smUtil <= 100 and self._newest_sample < sample.timeStamp <= latest
            if good and sample.timeStamp > newest.get(sample.pid, (0, 0))[0]:
                newest[sample.pid] = (sample.timeStamp, sample.smUtil)
        self._newest_sample = max([self._newest_sample, *(stamp for stamp, _ in newest.values())])
        return {pid: share for pid, (_, share) in newest.items()}

    def _list(self, handle: Handle, kind: str, most: Int) -> list[_Row] | None:
        """(pid, bytes, kind) of each process of one list; None when it is unknown or makes no sense."""
        version = self._versions[kind]
        rows = self._list_by(handle, kind, version)
        if version == 3 and (rows is Missing.UNSUPPORTED or (isinstance(rows, list) and not _sane(rows, most))):
            # some drivers fill another structure than the one that belongs to this function; the older one is right
            older = self._list_by(handle, kind, 2)
            if isinstance(older, list) and _sane(older, most):
                self._versions[kind] = 2
                rows = older
        if kind == "compute":
            self.unlisted = rows is Missing.UNSUPPORTED
            self.garbled = isinstance(rows, list) and not _sane(rows, most)
        if rows is Missing.UNSUPPORTED:
            return []
        return rows if isinstance(rows, list) and _sane(rows, most) else None

    @staticmethod
    def _list_by(handle: Handle, kind: str, version: int) -> list[_Row] | Missing:
        found = ask(getattr(pynvml, f"{_LISTS[kind]}_v{version}"), handle)
        if isinstance(found, Missing):
            return found
        rows: list[_Row] = []
        for entry in found:
            memory = entry.usedGpuMemory
            rows.append((entry.pid, Missing.UNSUPPORTED if memory is None else memory, kind))
        return rows


def total(parts: list[Int]) -> Int:
    """The sum; missing when any part is."""
    result = 0
    for part in parts:
        if isinstance(part, Missing):
            return part
        result += part
    return result


def _sane(rows: list[_Row], most: Int) -> bool:
    limit = most if isinstance(most, int) else 1 << 50
    return all(0 < pid <= _LARGEST_PID and (isinstance(memory, Missing) or memory <= limit) for pid, memory, _ in rows)
