"""Text for the screen, beyond `gputui.format`: widths that all terminals agree on, wrapping, short moments."""

import re
from datetime import UTC, datetime

from gputui import format as plain
from gputui.format import GIB, duration, fit, width

__all__ = [
    "GIB", "approximately", "clean", "command", "cut", "duration", "fit", "gib", "parse_time", "since", "width", "wrap",
]  # fmt: skip

# selectors, joiners and skin tones: terminals disagree about the width of what they make, and a row would shift
_JOINERS = re.compile("[\u00ad\u200c\u200d\ufe00-\ufe0f\U0001f3fb-\U0001f3ff\U000e0100-\U000e01ef]")


def clean(text: str) -> str:
    """`text` on one line without control characters, and without what makes its width uncertain."""
    if text.isascii() and text.isprintable():
        return text
    return _JOINERS.sub("", plain.clean(text))


def cut(text: str, cells: int) -> str:
    """At most `cells` cells of `text`, with an ellipsis where something is missing."""
    return text if width(text) <= cells else fit(text, cells).rstrip()


def wrap(text: str, cells: int, lines: int) -> list[str]:
    """`text` broken at spaces into at most `lines` lines of `cells` cells; the last one is cut."""
    rows: list[str] = []
    row = ""
    for word in text.split(" "):
        candidate = f"{row} {word}" if row else word
        if width(candidate) <= cells or not row:
            row = candidate
        else:
            rows.append(row)
            row = word
    rows.append(row)
    if len(rows) > lines:
        rows = [*rows[: lines - 1], " ".join(rows[lines - 1 :])]
    return [cut(row, cells) for row in rows]


def gib(amount: int) -> str:
    """Bytes as GiB: one decimal below 100, none above."""
    value = amount / GIB
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def parse_time(value: str | None) -> datetime | None:
    """An ISO 8601 time with offset; None for nothing and for what is no time."""
    try:
        found = datetime.fromisoformat(value) if value else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found and found.tzinfo is None else found


def since(value: str | None, now: datetime) -> str:
    """How long ago `value` was; empty when nobody knows."""
    found = parse_time(value)
    return duration((now - found).total_seconds()) if found else ""


def approximately(value: str | None, now: datetime) -> str:
    """An expected moment: '≈16:40'; empty when nobody knows."""
    found = parse_time(value)
    return f"≈{plain.moment(found, now)}" if found else ""


def command(argv: list[str]) -> str:
    """argv as a shell would take it, for show."""
    import shlex

    return clean(shlex.join(argv))
