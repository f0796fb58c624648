"""One GPU or MIG instance through NVML: each field fails alone, static ones are asked once, costly ones seldom."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import psutil
import pynvml

from gputui.gpus.processes import ProcessTable
from gputui.gpus.reading import Float, GpuReading, Int, Missing, ProcessReading
from gputui.gpus.types import gpu_type

PROCESSES_EVERY = 2.0
SLOW_EVERY = 5.0
COSTLY_EVERY = 10.0
"""Seconds between readings that take milliseconds each: fan, graphics and MPS processes."""
LOST_EVERY = 30.0
"""Seconds between attempts to reach a lost GPU again."""
_SLACK = 0.3
"""A tier is due this many seconds early, since reads come about once per second and not on the dot."""

_LOST = {
    pynvml.NVML_ERROR_GPU_IS_LOST: "fell off the bus",
    pynvml.NVML_ERROR_GPU_NOT_FOUND: "not found",
    pynvml.NVML_ERROR_RESET_REQUIRED: "needs a reset",
}
_UNSUPPORTED = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    }
)
_ALL_ONES = frozenset({0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})
_LARGEST_PID = 1 << 22
_THROTTLE = {
    pynvml.nvmlClocksEventReasonSwPowerCap: "power cap",
    pynvml.nvmlClocksEventReasonHwSlowdown: "hardware slowdown",
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: "thermal",
    pynvml.nvmlClocksEventReasonHwThermalSlowdown: "thermal, hardware",
    pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "power brake",
}
_LISTS = {
    "compute": "nvmlDeviceGetComputeRunningProcesses",
    "graphics": "nvmlDeviceGetGraphicsRunningProcesses",
    "mps": "nvmlDeviceGetMPSComputeRunningProcesses",
}
_LAYOUT_WARNING = "processes unknown: driver and library disagree about their layout"

Handle = object


class GpuLost(Exception):  # noqa: N818 - a state of the GPU, not of the program
    """The driver no longer reaches this GPU."""


class _Tier:
    """Says when its fields are to be read again."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._next = float("-inf")

    def due(self, now: float) -> bool:
        if now < self._next - _SLACK:
            return False
        self._next = now + self._period
        return True


def ask(function: Callable[..., Any], *args: object) -> Any:  # pynvml has no types
    """The answer of an NVML function, or a Missing. Raises GpuLost."""
    try:
        return function(*args)
    except pynvml.NVMLError as error:
        if error.value in _LOST:
            raise GpuLost(_LOST[error.value]) from None
        return Missing.UNSUPPORTED if error.value in _UNSUPPORTED else Missing.UNKNOWN


def ask_int(function: Callable[..., object], *args: object, most: int | None = None) -> Int:
    """An integer answer; all-ones values are unsupported, values above `most` are unknown."""
    value = ask(function, *args)
    if isinstance(value, Missing):
        return value
    if not isinstance(value, int) or value in _ALL_ONES:
        return Missing.UNSUPPORTED
    return value if value >= 0 and (most is None or value <= most) else Missing.UNKNOWN


def ask_text(function: Callable[..., object], *args: object) -> str:
    """A text answer; empty when there is none."""
    value = ask(function, *args)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


def _watts(value: Int) -> Float:
    return value if isinstance(value, Missing) else value / 1000


class NvmlDevice:
    """A GPU with what is cached of it."""

    def __init__(self, handle: Handle, index: int, table: ProcessTable, parent: str = "") -> None:
        """Raises GpuLost when the driver does not even give its UUID."""
        if not handle:
            raise GpuLost("the driver gave no handle")
        self.handle = handle
        self._index = index
        self._table = table
        self._parent = parent
        self.uuid = ask_text(pynvml.nvmlDeviceGetUUID, handle)
        if not self.uuid:
            raise GpuLost("the driver gives no UUID")
        self._name = ask_text(pynvml.nvmlDeviceGetName, handle) or "?"
        self._pci = self._read_pci()
        self._memory_v2 = True
        self._list_version = dict.fromkeys(_LISTS, 3)
        self._total: Int = Missing.UNKNOWN
        self._unified = False
        self._read_memory()
        self._type = gpu_type(self._name, self._total if isinstance(self._total, int) and not self._unified else None)
        self._processes_tier, self._slow, self._costly = _Tier(PROCESSES_EVERY), _Tier(SLOW_EVERY), _Tier(COSTLY_EVERY)
        self._find_at: float | None = None
        self._lost = self._lost_at = ""
        self.xid: int | None = None
        self._mig = False
        self._temperature: Int = Missing.UNKNOWN
        self._power_limit: Float = Missing.UNKNOWN
        self._sm_clock: Int = Missing.UNKNOWN
        self._fan: Int = Missing.UNKNOWN
        self._throttle: tuple[str, ...] = ()
        self._persistent = True
        self._seldom: list[tuple[int, Int, str]] = []
        self._processes: tuple[ProcessReading, ...] | None = None
        self._garbled = False
        self._newest_sample = 0
        self.listed: set[int] = set()
        """Every pid of the last process list."""

    @property
    def mig_enabled(self) -> bool:
        """A physical GPU that is cut into instances."""
        return self._mig

    def lose(self, cause: str) -> None:
        """From now on this GPU is lost."""
        if not self._lost:
            self._find_at = None
            self._lost, self._lost_at = cause, datetime.now(UTC).isoformat(timespec="seconds")

    def read(self, now: float) -> GpuReading:
        """Read what is due; a lost GPU keeps its row."""
        try:
            if self._lost:
                self._find_again(now)
            return self._read(now)
        except GpuLost as lost:
            self.lose(str(lost))
        self._processes = None
        return GpuReading(
            uuid=self.uuid,
            index=self._index,
            name=self._name,
            type=self._type,
            memory_total=self._total,
            pci=self._pci,
            mig_parent=self._parent,
            mig_enabled=self._mig,
            unified_memory=self._unified,
            lost=self._lost,
            lost_at=self._lost_at,
            xid=self.xid,
        )

    def memory_used(self) -> Int:
        """Used bytes right now."""
        try:
            used = self._read_memory()
            if not self._unified:
                return used
            listed = self._list("compute")
        except GpuLost:
            return Missing.UNKNOWN
        return Missing.UNKNOWN if listed is None else _sum([memory for _, memory, _ in listed])

    def _find_again(self, now: float) -> None:
        if self._find_at is None or now < self._find_at:
            self._find_at = self._find_at or now + LOST_EVERY
            raise GpuLost(self._lost)
        self._find_at = now + LOST_EVERY
        handle = ask(pynvml.nvmlDeviceGetHandleByUUID, self.uuid.encode())
        if isinstance(handle, Missing) or not handle or ask_text(pynvml.nvmlDeviceGetUUID, handle) != self.uuid:
            raise GpuLost(self._lost)
        self.handle, self._lost, self._lost_at, self.xid = handle, "", "", None

    def _read(self, now: float) -> GpuReading:
        instance = bool(self._parent)
        if not instance and self._slow.due(now):
            self._read_slow()
        if self._costly.due(now):
            self._read_costly(instance)
        memory = self._read_memory()
        utilization: Int = Missing.UNSUPPORTED
        power: Float = Missing.UNSUPPORTED
        if not instance:
            power = _watts(ask_int(pynvml.nvmlDeviceGetPowerUsage, self.handle))
            utilization = Missing.UNSUPPORTED if self._mig else self._read_utilization()
        if self._processes_tier.due(now):
            self._processes = () if self._mig else self._read_processes()
        total = self._total
        if self._unified and self._processes is not None:
            memory = _sum([process.memory for process in self._processes])
            # what a program can get is what the host has left
            total = memory + psutil.virtual_memory().available if isinstance(memory, int) else Missing.UNKNOWN
        return GpuReading(
            uuid=self.uuid,
            index=self._index,
            name=self._name,
            type=self._type,
            memory_total=total,
            memory_used=memory,
            utilization=utilization,
            temperature=Missing.UNSUPPORTED if instance else self._temperature,
            power=power,
            power_limit=Missing.UNSUPPORTED if instance else self._power_limit,
            fan=self._fan,
            sm_clock=Missing.UNSUPPORTED if instance else self._sm_clock,
            throttle=self._throttle,
            processes=self._processes,
            pci=self._pci,
            mig_parent=self._parent,
            mig_enabled=self._mig,
            unified_memory=self._unified,
            xid=self.xid,
            warnings=self._warnings(),
        )

    def _warnings(self) -> tuple[str, ...]:
        warnings = [] if self._persistent else ["persistence mode is off: each first use of the GPU takes seconds"]
        if self._garbled:
            warnings.append(_LAYOUT_WARNING)
        return tuple(warnings)

    def _read_utilization(self) -> Int:
        rates = ask(pynvml.nvmlDeviceGetUtilizationRates, self.handle)
        if isinstance(rates, Missing):
            return rates
        value = rates.gpu
        if value in _ALL_ONES:
            return Missing.UNSUPPORTED
        return value if 0 <= value <= 100 else Missing.UNKNOWN

    def _read_memory(self) -> Int:
        info: Any = Missing.UNSUPPORTED
        if self._memory_v2:
            info = ask(pynvml.nvmlDeviceGetMemoryInfo, self.handle, pynvml.nvmlMemory_v2)
            self._memory_v2 = info is not Missing.UNSUPPORTED
        if info is Missing.UNSUPPORTED:
            info = ask(pynvml.nvmlDeviceGetMemoryInfo, self.handle)
        if isinstance(info, Missing):
            self._unified = self._unified or info is Missing.UNSUPPORTED
            return info
        total, used = info.total, info.used
        if total in _ALL_ONES or used in _ALL_ONES:
            self._unified = True
            return Missing.UNSUPPORTED
        self._unified = False
        self._total = total
        return used if used <= total else Missing.UNKNOWN

    def _read_pci(self) -> str:
        info = ask(pynvml.nvmlDeviceGetPciInfo_v3, self.handle)
        return "" if isinstance(info, Missing) else str(info.busId)

    def _read_slow(self) -> None:
        mode = ask(pynvml.nvmlDeviceGetMigMode, self.handle)
        if isinstance(mode, list):
            self._mig = mode[0] == 1
        self._temperature = ask_int(pynvml.nvmlDeviceGetTemperature, self.handle, 0, most=200)
        self._power_limit = _watts(ask_int(pynvml.nvmlDeviceGetEnforcedPowerLimit, self.handle))
        self._sm_clock = ask_int(pynvml.nvmlDeviceGetClockInfo, self.handle, pynvml.NVML_CLOCK_SM)
        self._persistent = ask(pynvml.nvmlDeviceGetPersistenceMode, self.handle) != 0
        reasons = ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons, self.handle)
        if reasons is Missing.UNSUPPORTED:  # what drivers before 535 call it
            reasons = ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, self.handle)
        known = reasons if isinstance(reasons, int) and reasons not in _ALL_ONES else 0
        self._throttle = tuple(name for bit, name in _THROTTLE.items() if known & bit)

    def _read_costly(self, instance: bool) -> None:
        self._fan = Missing.UNSUPPORTED
        self._seldom = []
        if instance or self._unified:
            return
        self._fan = ask_int(pynvml.nvmlDeviceGetFanSpeed, self.handle, most=200)
        for kind in ("graphics", "mps"):
            self._seldom += self._list(kind) or []

    def _list(self, kind: str) -> list[tuple[int, Int, str]] | None:
        """(pid, bytes, kind) of each process of one list; None when it is unknown or makes no sense."""
        version = self._list_version[kind]
        rows = self._list_by(kind, version)
        if version == 3 and (rows is Missing.UNSUPPORTED or (isinstance(rows, list) and not self._sane(rows))):
            # some drivers fill another structure than the one that belongs to this function; the older one is right
            older = self._list_by(kind, 2)
            if isinstance(older, list) and self._sane(older):
                self._list_version[kind] = 2
                rows = older
        if not isinstance(rows, list):
            return [] if rows is Missing.UNSUPPORTED and kind != "compute" else None
        if kind == "compute":
            self._garbled = not self._sane(rows)
        return rows if self._sane(rows) else None

    def _list_by(self, kind: str, version: int) -> list[tuple[int, Int, str]] | Missing:
        found = ask(getattr(pynvml, f"{_LISTS[kind]}_v{version}"), self.handle)
        if isinstance(found, Missing):
            return found
        rows: list[tuple[int, Int, str]] = []
        for entry in found:
            memory = entry.usedGpuMemory
            rows.append((entry.pid, Missing.UNSUPPORTED if memory is None else memory, kind))
        return rows

    def _sane(self, rows: list[tuple[int, Int, str]]) -> bool:
        most = self._total if isinstance(self._total, int) else 1 << 50
        return all(
            0 < pid <= _LARGEST_PID and (isinstance(memory, Missing) or memory <= most) for pid, memory, _ in rows
        )

    def _read_processes(self) -> tuple[ProcessReading, ...] | None:
        listed = self._list("compute")
        if listed is None:
            self.listed = set()
            return None
        merged: dict[int, tuple[Int, str]] = {}
        for pid, memory, kind in [*listed, *self._seldom]:
            if pid not in merged:
                merged[pid] = (memory, kind)
        self.listed = set(merged)
        shares = self._read_shares(self.listed) if merged else {}
        processes = (self._process(pid, memory, kind, shares) for pid, (memory, kind) in merged.items())
        return tuple(process for process in processes if process is not None)

    def _process(self, pid: int, memory: Int, kind: str, shares: dict[int, int] | Missing) -> ProcessReading | None:
        sm = shares if isinstance(shares, Missing) else shares.get(pid, Missing.UNKNOWN)
        stat = self._table.stat(pid)
        if stat is None:
            if self._table.dead(pid):
                return None
            return ProcessReading(pid, None, memory, command=f"host pid {pid}", kind=kind, sm=sm)
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

    def _read_shares(self, pids: set[int]) -> dict[int, int] | Missing:
        """SM percent by pid: of listed pids, 0 to 100, and newer than the last look; everything else is noise."""
        samples: Any = Missing.UNSUPPORTED
        if not self._parent:
            samples = ask(pynvml.nvmlDeviceGetProcessUtilization, self.handle, self._newest_sample)
        if isinstance(samples, Missing):
            return samples
        newest: dict[int, tuple[int, int]] = {}
        for sample in samples:
            good = sample.pid in pids and sample.smUtil <= 100 and sample.timeStamp > self._newest_sample
            if good and sample.timeStamp > newest.get(sample.pid, (0, 0))[0]:
                newest[sample.pid] = (sample.timeStamp, sample.smUtil)
        self._newest_sample = max([self._newest_sample, *(stamp for stamp, _ in newest.values())])
        return {pid: share for pid, (_, share) in newest.items()}


def _sum(parts: list[Int]) -> Int:
    total = 0
    for part in parts:
        if isinstance(part, Missing):
            return part
        total += part
    return total
