"""Why a job waits, or how it ended: one sentence for people and a list for scripts. And the words both are made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Wait:
    """One thing a job waits for, or one cause of its end."""

    kind: str
    """As `protocol.WaitsFor.kind`."""
    what: str
    expected: datetime | None = None
    """When it is expected, as far as durations are known; the sentence leaves times to whoever shows it."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One sentence, without its final stop and without times of day, and what it is about."""

    sentence: str
    waits_for: tuple[Wait, ...] = ()

    @property
    def expected(self) -> datetime | None:
        """When all of it is expected to be over; None as long as that is unknown for any of it."""
        times = [wait.expected for wait in self.waits_for]
        known = [time for time in times if time is not None]
        return max(known) if known and len(known) == len(times) else None


def size(count: int) -> str:
    """Return bytes in words: '12 GiB', '0.4 GiB', '300 MiB'."""
    return f"{gib(count)} GiB" if count >= (1 << 30) // 10 else f"{count / (1 << 20):.0f} MiB"


def gib(count: int) -> str:
    """Return bytes as a number of GiB with at most one decimal: '12', '0.4', '79.6'."""
    return f"{count / (1 << 30):.1f}".removesuffix(".0")


def listed(words: Sequence[str], most: int = 3) -> str:
    """Return 'a', 'a and b', 'a, b and c', 'a, b, c and 4 more'."""
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


def counted(count: int, noun: str) -> str:
    """Return '1 process', '2 processes'."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}es" if noun.endswith("s") else f"{count} {noun}s"
