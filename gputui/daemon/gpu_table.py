"""The GPUs as the daemon knows them: the latest readings merged with runs, cordons, locks and quarantines."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from gputui.domain.gpu import GpuState, GpuView
from gputui.domain.gputype import normalise
from gputui.gpus.reading import GpuReading, HostReading, Int, Missing, ProcessReading

if TYPE_CHECKING:
    from gputui.daemon.memory import ActiveRun

STALE_AFTER = 5.0
"""Seconds after which a reading says nothing any more about now."""
DESKTOP = "graphics"
_TOLERANCE = 1 << 30
"""Used bytes that may be the driver's own on a GPU where no process is seen."""


@dataclass(frozen=True, slots=True)
class CordonState:
    """Takes no new run."""

    reason: str
    by: str
    since: datetime
    until: datetime | None = None
    drain: bool = False


@dataclass(slots=True)
class Entry:
    """Everything known of one GPU."""

    uuid: str
    reading: GpuReading | None = None
    read_at: float = float("-inf")
    """Monotonic time of the reading."""
    cordon: CordonState | None = None
    quarantine: str = ""
    lost: str = ""
    locked: str = ""
    """Why another program has it, when it holds the machine's lock on it or Slurm does; else empty."""
    runs: dict[str, "ActiveRun"] = field(default_factory=dict)
    releasing: dict[str, float] = field(default_factory=dict)
    """Ended runs whose memory is not proven back, by run id, with the monotonic time of their end."""
    foreign: tuple[ProcessReading, ...] = ()
    """Processes of the reading that no run of ours owns."""
    held_since: dict[int, datetime] = field(default_factory=dict)
    """When each foreign pid was first seen."""
    proved_at: float = float("-inf")
    """Monotonic time of the last evidence about its memory; older readings don't count against it."""
    allocated: dict[str, int] = field(default_factory=dict)
    """Bytes that each run's processes hold by the reading."""
    xid: int | None = None
    """The fatal Xid that was dealt with."""
    xid_at: datetime | None = None
    """When it was first seen."""
    version: int = 0
    """Of its cordon, for undo."""

    @property
    def label(self) -> str:
        """What people call it: its index, or its UUID while that is unknown."""
        return str(self.reading.index) if self.reading else self.uuid

    def observe(self, reading: GpuReading, at: float) -> None:
        """Take a new reading."""
        if at < self.proved_at and self.reading is not None:
            reading = replace(reading, memory_used=self.reading.memory_used)
        self.reading, self.read_at = reading, at

    def prove(self, used: Int, at: float) -> None:
        """Take a single reading of its used memory, newer than the last full one."""
        self.proved_at = at
        if self.reading is not None:
            self.reading = replace(self.reading, memory_used=used)

    def fresh(self, now: float) -> bool:
        """Whether the reading still says something about now."""
        return self.reading is not None and now - self.read_at <= STALE_AFTER

    def state(self, now: float) -> GpuState:
        """One word for it. What is known for certain (ours runs there) comes before what is read."""
        if self.lost:
            return GpuState.LOST
        if self.quarantine:
            return GpuState.QUARANTINED
        if self.runs:
            return GpuState.BUSY
        if self.releasing:
            return GpuState.RELEASING
        if self.locked:
            return GpuState.FOREIGN
        if self.reading is None or not self.fresh(now) or self.reading.memory_used is Missing.UNKNOWN:
            return GpuState.UNKNOWN
        if any(process.kind != DESKTOP for process in self.foreign) or self.foreign_memory() > _TOLERANCE:
            return GpuState.FOREIGN
        return GpuState.FREE

    def foreign_memory(self) -> int:
        """Bytes held by others. What nobody visible holds counts, where no run of ours explains it."""
        seen = sum(process.memory for process in self.foreign if isinstance(process.memory, int))
        if self.runs or self.releasing or self.reading is None or not isinstance(self.reading.memory_used, int):
            return seen
        hidden = self.reading.memory_used - seen
        return self.reading.memory_used if hidden > _TOLERANCE else seen

    def why(self, now: float, cordon_until: str = "") -> str:
        """Why it is not simply free or busy, as a phrase; `cordon_until` as people read it."""
        if self.lost:
            return self.lost
        if self.quarantine:
            return self.quarantine
        if self.cordon:
            until = f", until {cordon_until}" if cordon_until else ""
            return f"{'drained' if self.cordon.drain else 'cordoned'}: {self.cordon.reason}{until}"
        if self.locked and not self.runs:
            return self.locked
        if self.releasing and not self.runs:
            return f"releasing {now - min(self.releasing.values()):.0f}s"
        if self.reading is None:
            return "no reading yet"
        if not self.fresh(now):
            return f"no reading for {now - self.read_at:.0f}s"
        if self.reading.mig_enabled:
            return "cut into MIG instances"
        if self.reading.memory_used is Missing.UNKNOWN:
            return "its used memory cannot be read"
        return ""

    def view(self, now: float, node: str, host: HostReading) -> GpuView:
        """What placement sees."""
        reading = self.reading
        total, used = _memory(reading, host)
        state = self.state(now)
        blocked = bool(self.cordon or self.quarantine or self.lost or self.locked)
        known = reading is not None and self.fresh(now) and used is not Missing.UNKNOWN and not reading.mig_enabled
        sharing = [run for run in self.runs.values() if run.demand.share]
        return GpuView(
            uuid=self.uuid,
            type=reading.type if reading else "?",
            rank=_type(reading.name, total if isinstance(total, int) else 0).rank if reading else 0,
            node=node,
            memory_total=total if isinstance(total, int) else 0,
            memory_free=_free(total, used) if known else None,
            foreign_memory=self.foreign_memory(),
            promised=sum(max(0, run.demand.memory - self.allocated.get(run.run_id, 0)) for run in sharing),
            state=state,
            schedulable=known and not blocked,
            shared_runs=len(sharing),
            why=self.why(now),
        )


_type = lru_cache(maxsize=256)(normalise)


def _memory(reading: GpuReading | None, host: HostReading) -> tuple[Int, Int]:
    """Bytes in all and in use; of the host where GPU and host share their memory."""
    if reading is None:
        return Missing.UNKNOWN, Missing.UNKNOWN
    if reading.unified_memory:
        return host.memory_total, host.memory_used
    return reading.memory_total, reading.memory_used


def _free(total: Int, used: Int) -> int:
    """Bytes free; 0 where the GPU cannot say: a run that declares its memory never fits there."""
    return max(0, total - used) if isinstance(total, int) and isinstance(used, int) else 0


class GpuTable:
    """All GPUs by UUID, in the order of their indexes."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)

    def get(self, uuid: str) -> Entry | None:
        """The GPU of this UUID, or None."""
        return self.entries.get(uuid)

    def adopt(self, entry: Entry) -> Entry:
        """Take in a GPU; one that is known already only gains its cordon and quarantine."""
        known = self.entries.setdefault(entry.uuid, entry)
        if known is not entry:
            known.cordon, known.quarantine = entry.cordon, entry.quarantine
        return known

    def ensure(self, uuid: str) -> Entry:
        """The GPU of this UUID, known from now on."""
        return self.entries.setdefault(uuid, Entry(uuid))
