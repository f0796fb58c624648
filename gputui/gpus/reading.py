"""What a reading is: values with two ways of being absent, GPUs, processes, the host, and the snapshot of all.

Absent values are never zero: `Missing.UNKNOWN` is a reading that failed or is stale, `Missing.UNSUPPORTED`
is one this GPU cannot give at all. Units: bytes, percent 0 to 100, watts, degrees Celsius, seconds, MHz.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Protocol


class Missing(Enum):
    """Why there is no value."""

    UNKNOWN = "unknown"
    UNSUPPORTED = "unsupported"


Int = int | Missing
Float = float | Missing


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """A process that holds memory on a GPU. Identity is pid + start time (+ boot id of this machine)."""

    pid: int
    start_time: float | None
    """Clock ticks since boot as in /proc/PID/stat, or None: this /proc cannot resolve the pid; never signal it."""
    memory: Int
    user: str = "?"
    uid: int | None = None
    command: str = "?"
    """argv joined for show, cut at 200 characters; environment never."""
    kind: str = "compute"
    """`compute`, `graphics` or `mps`."""
    sm: Int = Missing.UNKNOWN
    """Share of the GPU's SMs, percent."""
    cpu_seconds: float | None = None
    container: str = ""


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU at one moment. Every field fails alone."""

    uuid: str
    index: int
    name: str
    type: str
    """Normalised: `h100-80g`."""
    memory_total: Int
    memory_used: Int = Missing.UNKNOWN
    utilization: Int = Missing.UNKNOWN
    temperature: Int = Missing.UNKNOWN
    power: Float = Missing.UNKNOWN
    power_limit: Float = Missing.UNKNOWN
    fan: Int = Missing.UNKNOWN
    sm_clock: Int = Missing.UNKNOWN
    throttle: tuple[str, ...] = ()
    processes: tuple[ProcessReading, ...] | None = None
    """None: unknown."""
    pci: str = ""
    mig_parent: str = ""
    """UUID of the physical GPU when this is a MIG instance."""
    mig_enabled: bool = False
    """A physical GPU cut into MIG instances is shown, and never scheduled itself."""
    unified_memory: bool = False
    """GPU and host share memory (GB10, Tegra): memory is not the GPU's own."""
    lost: str = ""
    """Cause ('fell off the bus', 'Xid 79') when the driver no longer reaches it; the row stays."""
    lost_at: str = ""
    """When that was noticed, ISO 8601."""
    xid: int | None = None
    """The last fatal Xid seen."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostReading:
    """The machine around the GPUs, by psutil."""

    hostname: str = ""
    cpu_percent: Float = Missing.UNKNOWN
    cpu_count: int = 0
    load_1m: Float = Missing.UNKNOWN
    memory_used: Int = Missing.UNKNOWN
    memory_total: Int = Missing.UNKNOWN
    disks: tuple[tuple[str, int, int], ...] = ()
    """(mount point, bytes used, bytes in all) of the file systems that matter: state folder, `/`, big local ones."""
    net_rx: Float = Missing.UNKNOWN
    """Bytes per second."""
    net_tx: Float = Missing.UNKNOWN


@dataclass(frozen=True, slots=True)
class Problem:
    """Why NVML gives nothing, or gives less: a code, one sentence, and what to do about it."""

    code: str
    """`driver_missing`, `version_mismatch`, `no_permission`, `tegra`, `no_gpu`, `hung`, `reader_failed`."""
    sentence: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything read at one moment."""

    sampled_at: datetime
    """UTC, aware."""
    monotonic: float
    """CLOCK_MONOTONIC of the reader at the sample; its age is `time.monotonic() - monotonic`."""
    source: str
    """`nvml`, `simulated` or `none`."""
    gpus: tuple[GpuReading, ...] = ()
    host: HostReading = field(default_factory=HostReading)
    problem: Problem | None = None
    driver: str = ""


@dataclass(frozen=True, slots=True)
class Holder:
    """What the daemon tells a simulated source: these processes hold this much memory of a GPU."""

    pids: tuple[int, ...]
    memory: int


class Source(Protocol):
    """Where GPU readings come from; lives inside the reader process."""

    name: str

    def read(self, now: float) -> tuple[tuple[GpuReading, ...], Problem | None, str]:
        """Read whatever is due at monotonic `now`: GPUs, a problem, the driver's version."""
        ...

    def memory_used(self, uuid: str) -> Int:
        """One cheap reading of used bytes, for evidence that a GPU is free."""
        ...

    def set_holders(self, holders: dict[str, tuple[Holder, ...]]) -> None:
        """Simulated sources only; others ignore it."""
        ...

    def close(self) -> None: ...
