"""Which of the things that have ended are kept no longer: by age, and by what all of them take together."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Kept:
    """One thing that could go: when it ended, and its size in bytes."""

    ended_at: datetime
    size: int


def overdue(things: Mapping[str, Kept], now: datetime, age: timedelta, total: int) -> list[str]:
    """Those older than `age`, and the oldest of what takes more than `total` bytes together, the newest being kept."""
    gone = []
    room = total
    for name, kept in sorted(things.items(), key=lambda item: item[1].ended_at, reverse=True):
        room -= kept.size
        if room < 0 or now - kept.ended_at > age:
            gone.append(name)
    return gone
