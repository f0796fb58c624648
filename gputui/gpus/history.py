"""What is remembered of each GPU: its last minute for the screen, and whole minutes for the store."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from gputui.gpus.reading import Float, GpuReading, Int, Missing

SLOTS = 15
SLOT_SECONDS = 4.0
_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class MinuteRollup:
    """One GPU over one minute. Means of the known samples; None where there was none."""

    uuid: str
    minute: int
    """Minutes since the epoch (UTC)."""
    samples: int
    """How many readings there were, known or not."""
    utilization: float | None
    utilization_known: int
    """How many of them had a known utilization."""
    utilization_max: int | None
    memory_used_max: int | None
    power: float | None
    temperature_max: int | None


class _Mean:
    """A mean of known values."""

    __slots__ = ("count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0

    def add(self, value: Float) -> None:
        if not isinstance(value, Missing):
            self.count += 1
            self.total += value

    def value(self) -> float | None:
        return self.total / self.count if self.count else None


class _Minute:
    """A minute that is not over."""

    __slots__ = ("memory", "minute", "most", "power", "samples", "temperature", "utilization")

    def __init__(self, minute: int) -> None:
        self.minute = minute
        self.samples = 0
        self.utilization, self.power = _Mean(), _Mean()
        self.most: int | None = None
        self.memory: int | None = None
        self.temperature: int | None = None

    def add(self, gpu: GpuReading) -> None:
        self.samples += 1
        self.utilization.add(gpu.utilization)
        self.power.add(gpu.power)
        self.most = _larger(self.most, gpu.utilization)
        self.memory = _larger(self.memory, gpu.memory_used)
        self.temperature = _larger(self.temperature, gpu.temperature)

    def rollup(self, uuid: str) -> MinuteRollup:
        return MinuteRollup(
            uuid=uuid,
            minute=self.minute,
            samples=self.samples,
            utilization=self.utilization.value(),
            utilization_known=self.utilization.count,
            utilization_max=self.most,
            memory_used_max=self.memory,
            power=self.power.value(),
            temperature_max=self.temperature,
        )


class History:
    """Feed it every snapshot once. Slots follow the monotonic clock, minutes the wall clock."""

    def __init__(self) -> None:
        self._slot: int | None = None
        self._now: dict[str, _Mean] = {}
        self._past: dict[str, deque[int | None]] = {}
        self._minutes: dict[str, _Minute] = {}

    def add(self, gpus: Iterable[GpuReading], monotonic: float, wall: float) -> list[MinuteRollup]:
        """Take in one snapshot read at `monotonic` (seconds) and `wall` (seconds since the epoch).

        Returns the minutes that ended with it, one per GPU. A stale snapshot is not to be fed in again.
        """
        self._advance(int(monotonic // SLOT_SECONDS))
        minute = int(wall // _MINUTE)
        ended: list[MinuteRollup] = []
        for gpu in gpus:
            self._now.setdefault(gpu.uuid, _Mean()).add(gpu.utilization)
            current = self._minutes.get(gpu.uuid)
            # a clock set back goes on in the minute it was in: a minute is never reported twice
            if current is None or minute > current.minute:
                if current is not None:
                    ended.append(current.rollup(gpu.uuid))
                current = self._minutes[gpu.uuid] = _Minute(minute)
            current.add(gpu)
        return ended

    def last_minute(self, uuid: str, monotonic: float) -> list[int | None]:
        """Utilization of the last minute up to `monotonic`: 15 values, oldest first, None where it is unknown."""
        slot = int(monotonic // SLOT_SECONDS)
        past = list(self._past.get(uuid, ()))
        if self._slot is not None:
            past += [_rounded(self._now.get(uuid))] + [None] * min(SLOTS, max(0, slot - self._slot))
        return ([None] * SLOTS + past)[-SLOTS:]

    def _advance(self, slot: int) -> None:
        if self._slot is not None and slot > self._slot:
            gap = [None] * min(SLOTS, slot - self._slot - 1)
            for uuid in self._past.keys() | self._now.keys():
                ring = self._past.setdefault(uuid, deque(maxlen=SLOTS))
                ring.append(_rounded(self._now.get(uuid)))
                ring.extend(gap)
            self._now = {}
        if self._slot is None or slot > self._slot:
            self._slot = slot


def _rounded(mean: _Mean | None) -> int | None:
    value = mean.value() if mean else None
    return None if value is None else round(value)


def _larger(most: int | None, value: Int) -> int | None:
    if isinstance(value, Missing):
        return most
    return value if most is None else max(most, value)
