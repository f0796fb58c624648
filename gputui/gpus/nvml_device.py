"""One GPU or MIG instance through NVML: each field fails alone, static ones are asked once, costly ones seldom."""

from datetime import UTC, datetime
from typing import Any

import psutil
import pynvml

from gputui.gpus.nvml_calls import ALL_ONES, GpuLost, Handle, ask, ask_int, ask_text
from gputui.gpus.nvml_processes import LAYOUT_WARNING, UNLISTED_WARNING, NvmlProcesses
from gputui.gpus.nvml_processes import total as total_of
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

_THROTTLE = {
    pynvml.nvmlClocksEventReasonSwPowerCap: "power cap",
    pynvml.nvmlClocksEventReasonHwSlowdown: "hardware slowdown",
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: "thermal",
    pynvml.nvmlClocksEventReasonHwThermalSlowdown: "thermal, hardware",
    pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "power brake",
}


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
        self._parent = parent
        self._lister = NvmlProcesses(table, instance=bool(parent))
        self.uuid = ask_text(pynvml.nvmlDeviceGetUUID, handle)
        if not self.uuid:
            raise GpuLost("the driver gives no UUID")
        self._name = ask_text(pynvml.nvmlDeviceGetName, handle) or "?"
        self._pci = self._read_pci()
        self._memory_v2 = True
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
        self._processes: tuple[ProcessReading, ...] | None = None

    @property
    def mig_enabled(self) -> bool:
        """A physical GPU that is cut into instances."""
        return self._mig

    @property
    def listed(self) -> set[int]:
        """Every pid of the last process list."""
        return self._lister.listed

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
            return self._lister.memory(self.handle) if self._unified else used
        except GpuLost:
            return Missing.UNKNOWN

    def _find_again(self, now: float) -> None:
        if self._find_at is None or now < self._find_at:
            self._find_at = self._find_at or now + LOST_EVERY
            raise GpuLost(self._lost)
        self._find_at = now + LOST_EVERY
        handle = ask(pynvml.nvmlDeviceGetHandleByUUID, self.uuid.encode())
        if isinstance(handle, Missing) or not handle or ask_text(pynvml.nvmlDeviceGetUUID, handle) != self.uuid:
            raise GpuLost(self._lost)
        self.handle, self._lost, self._lost_at = handle, "", ""

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
            self._processes = () if self._mig else self._lister.read(self.handle, self._total)
        total = self._total
        if self._unified and self._processes is not None:
            memory = total_of([process.memory for process in self._processes])
            if self._lister.unlisted:
                memory = Missing.UNSUPPORTED
            # what a program can get is what the host has left
            total = memory + psutil.virtual_memory().available if isinstance(memory, int) else memory
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
        if self._lister.garbled:
            warnings.append(LAYOUT_WARNING)
        if self._lister.unlisted:
            warnings.append(UNLISTED_WARNING)
        return tuple(warnings)

    def _read_utilization(self) -> Int:
        rates = ask(pynvml.nvmlDeviceGetUtilizationRates, self.handle)
        if isinstance(rates, Missing):
            return rates
        value = rates.gpu
        if value in ALL_ONES:
            return Missing.UNSUPPORTED
        return value if 0 <= value <= 100 else Missing.UNKNOWN

    def _read_memory(self) -> Int:
        info: Any = Missing.UNSUPPORTED
        if self._memory_v2:
            info = ask(pynvml.nvmlDeviceGetMemoryInfo, self.handle, pynvml.nvmlMemory_v2)
            self._memory_v2 = info is not Missing.UNSUPPORTED
        if info is Missing.UNSUPPORTED:
            info = ask(pynvml.nvmlDeviceGetMemoryInfo, self.handle)
        if not isinstance(info, Missing) and (info.total in ALL_ONES or info.used in ALL_ONES):
            info = Missing.UNSUPPORTED
        if info is Missing.UNSUPPORTED and isinstance(self._total, int):
            return Missing.UNKNOWN  # it has memory of its own, as it said before: the driver has a bad moment
        if isinstance(info, Missing):
            self._unified = self._unified or info is Missing.UNSUPPORTED
            return info
        total, used = info.total, info.used
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
        known = reasons if isinstance(reasons, int) and reasons not in ALL_ONES else 0
        self._throttle = tuple(name for bit, name in _THROTTLE.items() if known & bit)

    def _read_costly(self, instance: bool) -> None:
        self._fan = Missing.UNSUPPORTED
        if instance:
            return
        if not self._unified:
            self._fan = ask_int(pynvml.nvmlDeviceGetFanSpeed, self.handle, most=200)
        self._lister.read_seldom(self.handle, self._total)
