"""Readings rolled up by the minute, for the store."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from gputui.daemon.gpu_table import Entry
from gputui.store.tables import GpuMinute


@dataclass(slots=True)
class _Sums:
    utilization: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    power: list[float] = field(default_factory=list)


class Minutes:
    """The minute under way, and those that are full and not stored yet."""

    def __init__(self) -> None:
        self._minute: datetime | None = None
        self._sums: dict[str, _Sums] = {}
        self._full: list[GpuMinute] = []

    def add(self, entries: Iterable[Entry], now: datetime) -> None:
        """Take in one reading of each GPU."""
        self._turn(now)
        for entry in entries:
            reading = entry.reading
            if reading is None or entry.lost:
                continue
            sums = self._sums.setdefault(entry.uuid, _Sums())
            if isinstance(reading.utilization, int):
                sums.utilization.append(reading.utilization)
            if isinstance(reading.memory_used, int):
                sums.memory.append(reading.memory_used)
            if isinstance(reading.power, float | int):
                sums.power.append(reading.power)

    def full(self, now: datetime) -> list[GpuMinute]:
        """The minutes that ended since the last call."""
        self._turn(now)
        full, self._full = self._full, []
        return full

    def _turn(self, now: datetime) -> None:
        minute = now.replace(second=0, microsecond=0)
        if self._minute is not None and minute != self._minute:
            for uuid, sums in self._sums.items():
                self._full.append(
                    GpuMinute(
                        gpu_uuid=uuid,
                        minute=self._minute,
                        utilization_mean=_mean(sums.utilization),
                        utilization_max=max(sums.utilization, default=None),
                        memory_mean=int(sum(sums.memory) / len(sums.memory)) if sums.memory else None,
                        memory_max=max(sums.memory, default=None),
                        power_mean=_mean(sums.power),
                    )
                )
            self._sums = {}
        self._minute = minute


def _mean(values: list[int] | list[float]) -> float | None:
    return sum(values) / len(values) if values else None
