"""GPUs as the scheduler sees them, and the normalised names of GPU types."""

from dataclasses import dataclass
from enum import StrEnum


class GpuState(StrEnum):
    """What a GPU is to the queue; one word for people and scripts."""

    FREE = "free"
    BUSY = "busy"
    FOREIGN = "foreign"
    """Held by a process that no run of ours owns, or locked by another daemon."""
    RELEASING = "releasing"
    """The run ended; its memory is not proven back yet."""
    QUARANTINED = "quarantined"
    LOST = "lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class GpuType:
    """A normalised model: `h100-80g`. `rank` orders types by how big they are (placement takes the smallest)."""

    name: str
    memory: int
    rank: int
    price_per_hour: float | None = None


@dataclass(frozen=True, slots=True)
class GpuView:
    """One GPU at one moment, for placement. Memory in bytes; None is unknown, and unknown never fits."""

    uuid: str
    type: str
    rank: int
    node: str
    memory_total: int
    memory_free: int | None
    """Free now by the last reading."""
    foreign_memory: int = 0
    """Held by foreign processes now, within `memory_total - memory_free`."""
    promised: int = 0
    """Declared by sharing runs granted here that have not allocated it yet."""
    state: GpuState = GpuState.FREE
    schedulable: bool = True
    """False: cordoned, draining, quarantined, lost, locked by another daemon, or its reading is unknown or stale."""
    shared_runs: int = 0
    """How many sharing runs live here; an unshared run takes the whole GPU."""
    why: str = ""
    """When not schedulable: the reason, as a phrase ('cordoned: fan')."""
