"""Drives the NVML stub: builds the library, and sets GPUs, readings, faults and events while programs use it."""

import ctypes
import mmap
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

HERE = Path(__file__).parent
FUNCTIONS = tuple(re.findall(r"^F\((\w+)\)", (HERE / "functions.def").read_text(), re.MULTILINE))

NOT_SUPPORTED = 3
NO_PERMISSION = 4
DRIVER_NOT_LOADED = 9
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
VERSION_MISMATCH = 18
UNKNOWN = 999

ANY = 0xFFFFFFFF
NOT_AVAILABLE = 0xFFFFFFFFFFFFFFFF
"""What NVML says for 64-bit values it does not have."""
XID_EVENT = 8
GIB = 1 << 30

_DEVICES, _PROCESSES, _SAMPLES, _FAULTS, _EVENTS = 64, 64, 128, 256, 64


class Process(ctypes.Structure):
    """One entry of a GPU's process lists; `kind` 0 compute, 1 graphics, 2 MPS."""

    _fields_ = [("memory", ctypes.c_uint64)] + [
        (name, ctypes.c_uint32) for name in ("pid", "kind", "gpu_instance", "compute_instance")
    ]


class Sample(ctypes.Structure):
    """One entry of the process utilization list; `timestamp` in microseconds, 0 for now."""

    _fields_ = [("timestamp", ctypes.c_uint64)] + [
        (name, ctypes.c_uint32) for name in ("pid", "sm", "memory", "encoder", "decoder", "unused")
    ]


class Device(ctypes.Structure):
    """A GPU, or a MIG instance of one. Power in milliwatts, memory in bytes."""

    _fields_ = [
        *((n, ctypes.c_uint64) for n in ("memory_total", "memory_used", "memory_reserved", "throttle", "ecc_errors")),
        ("parent", ctypes.c_int32),
        *((n, ctypes.c_uint32) for n in ("lost", "mig_mode", "gpu_instance", "compute_instance")),
        *((n, ctypes.c_uint32) for n in ("utilization", "memory_utilization", "encoder", "decoder")),
        *((n, ctypes.c_uint32) for n in ("temperature", "power", "power_limit", "fan")),
        ("clocks", ctypes.c_uint32 * 4),
        ("max_clocks", ctypes.c_uint32 * 4),
        *((n, ctypes.c_uint32) for n in ("persistence", "pci_bus", "process_count", "sample_count")),
        ("name", ctypes.c_char * 96),
        ("uuid", ctypes.c_char * 96),
        ("processes", Process * _PROCESSES),
        ("samples", Sample * _SAMPLES),
    ]

    def set_processes(self, *entries: tuple[int, int], kind: int = 0) -> None:
        """Replace the processes: (pid, bytes) each."""
        self.process_count = 0
        for i, (pid, memory) in enumerate(entries):
            self.processes[i] = Process(memory=memory, pid=pid, kind=kind, gpu_instance=ANY, compute_instance=ANY)
        self.process_count = len(entries)

    def set_samples(self, *entries: tuple[int, int, int]) -> None:
        """Replace the process utilization samples: (pid, SM percent, timestamp) each."""
        self.sample_count = 0
        for i, (pid, sm, timestamp) in enumerate(entries):
            self.samples[i] = Sample(timestamp=timestamp, pid=pid, sm=sm)
        self.sample_count = len(entries)


class _Fault(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint32) for n in ("active", "function", "device", "error", "delay_us", "hang")]


class _Event(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("device", ctypes.c_uint32), ("type", ctypes.c_uint32)]


class _Control(ctypes.Structure):
    _fields_ = [
        *((n, ctypes.c_uint32) for n in ("size", "init_error", "device_count", "process_stride")),
        *((n, ctypes.c_uint32) for n in ("fault_count", "event_count", "initialized", "unused")),
        ("driver", ctypes.c_char * 80),
        ("calls", ctypes.c_uint64 * len(FUNCTIONS)),
        ("faults", _Fault * _FAULTS),
        ("events", _Event * _EVENTS),
        ("devices", Device * _DEVICES),
    ]


def build(folder: Path, absent: Sequence[str] = ()) -> Path:
    """Compile `libnvidia-ml.so.1` into `folder`; functions in `absent` are not exported, as in an old driver."""
    library = folder / "libnvidia-ml.so.1"
    source = HERE / "nvml_stub.c"
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    script = folder / "exports.map"
    hidden = "".join(f"{name}; " for name in absent)
    script.write_text(f"{{ global: nvml*; local: {hidden} *; }};")
    command += [f"-Wl,--version-script={script}", "-o", str(library), str(source)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return library


class NvmlStub:
    """A control file and the library that obeys it. Use as a context manager."""

    def __init__(
        self, folder: Path, gpus: int = 1, *, library: Path | None = None, name: str = "NVIDIA H100 80GB HBM3"
    ):
        """`gpus` H100s to begin with; `library` when it was built before."""
        self.folder = folder
        self.library = library or build(folder)
        self.path = folder / "nvml-control"
        with self.path.open("wb") as file:
            file.truncate(ctypes.sizeof(_Control))
        with self.path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), ctypes.sizeof(_Control))
        self.control = _Control.from_buffer(self._map)
        self.control.size = ctypes.sizeof(_Control)
        self.control.driver = b"580.95.05"
        for index in range(gpus):
            self._fill(self.control.devices[index], index, name)
        self.control.device_count = gpus

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear_faults()

    @property
    def env(self) -> dict[str, str]:
        """What a program's environment needs so that it finds this library."""
        return {"LD_LIBRARY_PATH": str(self.library.parent), "NVML_STUB_CONTROL": str(self.path)}

    def gpu(self, number: int) -> Device:
        """Device `number`: physical GPUs first, then MIG instances in the order they were added."""
        device: Device = self.control.devices[number]
        return device

    def uuid(self, number: int) -> str:
        """UUID of a device."""
        text: bytes = self.gpu(number).uuid
        return text.decode()

    def add_mig(self, parent: int, profile: str = "1g.10gb", memory: int = 10 * GIB) -> int:
        """Cut a MIG instance out of a GPU; its device number."""
        number: int = self.control.device_count
        device = self.gpu(number)
        parent_name: bytes = self.gpu(parent).name
        self._fill(device, number, f"{parent_name.decode()} MIG {profile}")
        device.uuid = f"MIG-{number:08d}-0000-4000-8000-{parent:012d}".encode()
        device.parent, device.memory_total, device.memory_used = parent, memory, 0
        device.gpu_instance, device.compute_instance = number, 0
        self.gpu(parent).mig_mode = 1
        self.control.device_count = number + 1
        return number

    def fail(self, function: str, error: int, gpu: int | None = None) -> int:
        """From now on `function` (of one GPU, or all) returns `error`; a number to `end` it with."""
        return self._fault(function, gpu, error=error)

    def delay(self, function: str, seconds: float, gpu: int | None = None) -> int:
        """Each call takes so much longer."""
        return self._fault(function, gpu, delay_us=int(seconds * 1e6))

    def hang(self, function: str = "*", gpu: int | None = None) -> int:
        """Calls do not return until this ends; `*` is every function."""
        return self._fault(function, gpu, hang=1)

    def end(self, fault: int) -> None:
        """End one fault."""
        self.control.faults[fault].active = 0

    def clear_faults(self) -> None:
        """End all faults."""
        for number in range(self.control.fault_count):
            self.end(number)

    def xid(self, gpu: int, code: int) -> None:
        """Raise an Xid event."""
        count: int = self.control.event_count
        self.control.events[count % _EVENTS] = _Event(data=code, device=gpu, type=XID_EVENT)
        self.control.event_count = count + 1

    def calls(self, function: str) -> int:
        """How often a function was called, by all programs together."""
        count: int = self.control.calls[FUNCTIONS.index(function)]
        return count

    def _fault(self, function: str, gpu: int | None, *, error: int = 0, delay_us: int = 0, hang: int = 0) -> int:
        number: int = self.control.fault_count
        self.control.faults[number] = _Fault(
            active=1,
            function=ANY if function == "*" else FUNCTIONS.index(function),
            device=ANY if gpu is None else gpu,
            error=error,
            delay_us=delay_us,
            hang=hang,
        )
        self.control.fault_count = number + 1
        return number

    @staticmethod
    def _fill(device: Device, index: int, name: str) -> None:
        device.parent = -1
        device.name = name.encode()
        device.uuid = f"GPU-{index:08d}-1111-4222-8333-{os.getpid():012d}".encode()
        device.memory_total, device.memory_used, device.memory_reserved = 80 * GIB, 0, GIB // 2
        device.temperature, device.power, device.power_limit, device.fan = 35, 70_000, 700_000, 30
        device.clocks = (ctypes.c_uint32 * 4)(1980, 1980, 2619, 1545)
        device.max_clocks = (ctypes.c_uint32 * 4)(1980, 1980, 2619, 1545)
        device.persistence, device.pci_bus = 1, 0x10 + index
