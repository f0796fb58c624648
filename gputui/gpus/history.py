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
    """One GPU over one minute. Of the known samples; None where there was none."""

    uuid: str
    minute: int
    """Minutes since the epoch (UTC)."""
    utilization: float | None
    utilization_max: int | None
    memory: float | None
    memory_max: int | None
    power: float | None


class _Known:
    """Mean and maximum of known values."""

    __slots__ = ("count", "most", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.most: Int = Missing.UNKNOWN

    def add(self, value: Float) -> None:
        if not isinstance(value, Missing):
            self.count += 1
            self.total += value
            self.most = int(value) if isinstance(self.most, Missing) else max(self.most, int(value))

    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def largest(self) -> int | None:
        return None if isinstance(self.most, Missing) else self.most


class LastMinute:
    """Utilization of each GPU by the monotonic clock. Feed it every snapshot once, and no stale one."""

    def __init__(self) -> None:
        self._slot: int | None = None
        self._now: dict[str, _Known] = {}
        self._past: dict[str, deque[int | None]] = {}

    def add(self, gpus: Iterable[GpuReading], monotonic: float) -> None:
        """Take in one snapshot read at `monotonic` (seconds)."""
        self._advance(int(monotonic // SLOT_SECONDS))
        for gpu in gpus:
            self._now.setdefault(gpu.uuid, _Known()).add(gpu.utilization)

    def of(self, uuid: str, monotonic: float) -> list[int | None]:
        """The minute up to `monotonic`: 15 values, oldest first, None where it is unknown."""
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


class _Minute:
    """One GPU in a minute that is not over."""

    __slots__ = ("memory", "power", "utilization")

    def __init__(self) -> None:
        self.utilization, self.memory, self.power = _Known(), _Known(), _Known()

    def add(self, gpu: GpuReading) -> None:
        self.utilization.add(gpu.utilization)
        self.memory.add(gpu.memory_used)
        self.power.add(gpu.power)


class Minutes:
    """The minute under way by the wall clock, and those that are over and not taken yet."""

    def __init__(self) -> None:
        self._minute: int | None = None
        self._now: dict[str, _Minute] = {}
        self._over: list[MinuteRollup] = []

    def add(self, gpus: Iterable[GpuReading], wall: float) -> None:
        """Take in one snapshot read at `wall` (seconds since the epoch)."""
        self._turn(wall)
        for gpu in gpus:
            self._now.setdefault(gpu.uuid, _Minute()).add(gpu)

    def take(self, wall: float) -> list[MinuteRollup]:
        """The minutes that are over at `wall`, each once. One that a clock set back goes through again comes again."""
        self._turn(wall)
        over, self._over = self._over, []
        return over

    def _turn(self, wall: float) -> None:
        minute = int(wall // _MINUTE)
        if self._minute is not None and minute != self._minute:
            for uuid, seen in self._now.items():
                self._over.append(
                    MinuteRollup(
                        uuid=uuid,
                        minute=self._minute,
                        utilization=seen.utilization.mean(),
                        utilization_max=seen.utilization.largest(),
                        memory=seen.memory.mean(),
                        memory_max=seen.memory.largest(),
                        power=seen.power.mean(),
                    )
                )
            self._now = {}
        self._minute = minute


def _rounded(known: _Known | None) -> int | None:
    value = known.mean() if known else None
    return None if value is None else round(value)
