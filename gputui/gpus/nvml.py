"""GPUs through NVML. One nvmlInit per reader; handles are kept; Xids arrive through one event set."""

import ctypes
from typing import Any

import pynvml

from gputui.gpus.nvml_calls import GpuLost, ask, ask_text
from gputui.gpus.nvml_device import SLOW_EVERY, NvmlDevice
from gputui.gpus.problems import NO_PERMISSION, init_problem, is_tegra, no_gpu
from gputui.gpus.processes import ProcessTable
from gputui.gpus.reading import GpuReading, Holder, Int, Missing, Problem

FATAL_XIDS = frozenset({48, 79, 94, 95, 119, 120})
"""After these a GPU can't be trusted with a new run."""
_OFF_THE_BUS = 79
_FIRST_PAUSE = 5.0
_LONGEST_PAUSE = 60.0
_REOPEN_EVERY = 30.0
_MOST_EVENTS = 64


class NvmlSource:
    """A `Source` of the machine's NVIDIA GPUs."""

    name = "nvml"

    def __init__(self) -> None:
        self._table = ProcessTable()
        self._open = False
        self._driver = ""
        self._problem: Problem | None = None
        self._retry_at = float("-inf")
        self._pause = _FIRST_PAUSE
        self._slots: list[_Slot] = []
        self._events: Any = None

    def read(self, now: float) -> tuple[tuple[GpuReading, ...], Problem | None, str]:
        """Read what is due of every GPU, MIG instances right after their GPU."""
        if not self._open and now >= self._retry_at:
            self._start(now)
        if not self._open:
            return (), self._problem, ""
        self._table.begin()
        self._take_events()
        readings: list[GpuReading] = []
        listed: set[int] = set()
        for slot in self._slots:
            readings += slot.read(now)
            for device in slot.devices():
                listed |= device.listed
        self._table.keep(listed)
        problem = init_problem(NO_PERMISSION, "", tegra=False) if all(slot.forbidden for slot in self._slots) else None
        return tuple(readings), problem, self._driver

    def memory_used(self, uuid: str) -> Int:
        """Used bytes of a GPU right now."""
        for slot in self._slots:
            for device in slot.devices():
                if device.uuid == uuid:
                    return device.memory_used()
        return Missing.UNKNOWN

    def set_holders(self, holders: dict[str, tuple[Holder, ...]]) -> None:
        """Real GPUs know who holds them."""

    def close(self) -> None:
        """Give NVML back."""
        if self._open:
            self._open = False
            ask(pynvml.nvmlShutdown)

    def _start(self, now: float) -> None:
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            self._problem = init_problem(error.value, str(error), tegra=is_tegra())
        else:
            count = ask(pynvml.nvmlDeviceGetCount)
            if isinstance(count, int) and count > 0:
                self._driver = ask_text(pynvml.nvmlSystemGetDriverVersion)
                events = ask(pynvml.nvmlEventSetCreate)
                self._events = None if isinstance(events, Missing) else events
                self._slots = [_Slot(index, self._table, self._events) for index in range(count)]
                self._open, self._problem, self._pause = True, None, _FIRST_PAUSE
                return
            ask(pynvml.nvmlShutdown)
            self._problem = no_gpu()
        self._retry_at = now + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _take_events(self) -> None:
        for _ in range(_MOST_EVENTS if self._events else 0):
            try:
                event = pynvml.nvmlEventSetWait_v2(self._events, 0)
            except pynvml.NVMLError:  # a time-out when there is none; a lost GPU is found by its readings
                return
            xid = event.eventData
            if event.eventType != pynvml.nvmlEventTypeXidCriticalError or xid not in FATAL_XIDS or not event.device:
                continue
            for slot in self._slots:
                if slot.device and _address(slot.device.handle) == _address(event.device):
                    slot.device.xid = xid
                    if xid == _OFF_THE_BUS:
                        slot.device.lose(f"Xid {xid}")


class _Slot:
    """A place in the driver's list: the GPU there, or why it can't be opened, and its MIG instances."""

    def __init__(self, index: int, table: ProcessTable, events: object) -> None:
        self._index = index
        self._events = events
        self._table = table
        self.device: NvmlDevice | None = None
        self._instances: dict[str, NvmlDevice] = {}
        self.forbidden = False
        """Not for us: the container or job that we live in was given other GPUs."""
        self._lost = ""
        self._open_at = float("-inf")
        self._look_at = float("-inf")

    def devices(self) -> list[NvmlDevice]:
        """The GPU and its instances, as far as they are known."""
        return [self.device, *self._instances.values()] if self.device else []

    def open(self, now: float) -> None:
        """Get the GPU's handle, if it is time to try."""
        if self.device or now < self._open_at:
            return
        self._open_at = now + _REOPEN_EVERY
        self.forbidden = False
        try:
            handle = ask(self._get_handle)
            if isinstance(handle, Missing):
                raise GpuLost("cannot be opened")
            self.device = NvmlDevice(handle, self._index, self._table)
            if self._events:
                ask(pynvml.nvmlDeviceRegisterEvents, handle, pynvml.nvmlEventTypeXidCriticalError, self._events)
        except GpuLost as lost:
            self._lost = str(lost)

    def _get_handle(self) -> Any:
        try:
            return pynvml.nvmlDeviceGetHandleByIndex(self._index)
        except pynvml.NVMLError_NoPermission:
            self.forbidden = True
            raise

    def read(self, now: float) -> list[GpuReading]:
        """The rows of this place."""
        self.open(now)
        if self.forbidden:
            return []
        if not self.device:
            # its UUID is not known before it was reached once, and no other GPU may take its row
            uuid = f"unreachable-{self._index}"
            return [GpuReading(uuid, self._index, "?", "?", Missing.UNKNOWN, lost=self._lost)]
        parent = self.device.read(now)
        if parent.lost:
            for instance in self._instances.values():
                instance.lose(parent.lost)
        elif not self.device.mig_enabled:
            self._instances = {}
        elif now >= self._look_at:
            self._look_at = now + SLOW_EVERY
            self._find_instances(self.device)
        return [parent, *(instance.read(now) for instance in self._instances.values())]

    def _find_instances(self, parent: NvmlDevice) -> None:
        found: dict[str, NvmlDevice] = {}
        try:
            most = ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, parent.handle)
            for number in range(most if isinstance(most, int) else 0):
                handle = ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, parent.handle, number)
                if isinstance(handle, Missing) or not handle:
                    continue
                uuid = ask_text(pynvml.nvmlDeviceGetUUID, handle)
                known = self._instances.get(uuid) or NvmlDevice(handle, self._index, self._table, parent.uuid)
                known.handle = handle
                found[known.uuid] = known
        except GpuLost as lost:
            parent.lose(str(lost))
        self._instances = found


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
