"""Sizes, durations, times and names as people read them, aligned by terminal cells. For commands and screen alike."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

UNKNOWN = "?"
UNSUPPORTED = "N/A"
GIB = 1024**3

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_ESCAPE_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor moves
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # titles, clipboard, device strings
    r"|\x1b[ -/]*[0-~]"
)
_LEAST_LAST = 24
"""Cells that the last column of a table keeps, if it needs them, while others are wide."""
_LEAST_COLUMN = 12
"""Cells below which no other column is cut."""
_LINE_BREAK = re.compile(r"[\t\n\v\f\r\x85\u2028\u2029]+")
_INVISIBLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f]"  # control characters
    r"|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # these change the direction of what follows
    r"|[\u200b\u2060\ufeff\ufff9-\ufffb]"
    r"|[\U000e0000-\U000e007f]"
)
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


def clean(text: str) -> str:
    """`text` on one line, without anything that moves a terminal's cursor, colours it or turns its direction.

    Bytes that were not UTF-8 show as U+FFFD. Markup is left as it is: it is only text.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _ESCAPE_SEQUENCE.sub("", text)
    text = _LINE_BREAK.sub(" ", text)
    text = _INVISIBLE.sub("", text)
    return _LONE_SURROGATE.sub("\ufffd", text)


def width(text: str) -> int:
    """Terminal cells that `text` takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # 2 ms, and most tables do without

    return cell_len(text)


def fit(text: str, cells: int, *, right: bool = False) -> str:
    """`text` padded, or cut with an ellipsis, to exactly `cells` terminal cells."""
    if cells <= 0:
        return ""
    taken = width(text)
    if taken > cells:
        if text.isascii():
            text, taken = text[: cells - 1] + "…", cells
        else:
            from rich.cells import set_cell_size

            # a wide character cut in half leaves a blank, which belongs after the ellipsis
            text = set_cell_size(text, cells - 1).rstrip(" ") + "…"
            taken = width(text)
    pad = " " * (cells - taken)
    return pad + text if right else text + pad


def size(count: float | None) -> str:
    """Bytes: '40 GiB', '1.5 TiB', '812 B'; '?' when unknown."""
    if count is None:
        return UNKNOWN
    value = float(count)
    for unit in _UNITS:
        if abs(value) < 1023.95 or unit == _UNITS[-1]:
            break
        value /= 1024
    shown = f"{value:.0f}" if unit == "B" or value >= 99.95 else f"{value:.1f}".removesuffix(".0")
    return f"{shown} {unit}"


def rate(count: float | None) -> str:
    """Bytes per second: '12 MiB/s'."""
    return UNKNOWN if count is None else f"{size(count)}/s"


def used_of(used: float | None, total: float | None) -> str:
    """Memory used of all, in GiB: '74.1/80G'; '?' for what is unknown."""
    left = UNKNOWN if used is None else f"{used / GIB:.1f}"
    right = UNKNOWN if total is None else f"{total / GIB:.0f}"
    return f"{left}/{right}G"


def duration(seconds: float | None) -> str:
    """'17s', '41m', '3h12', '2d 4h': the two units that matter; '?' when unknown, '0s' for what lies before zero."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    minutes = whole // 60
    if minutes < 60:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h{minutes:02}" if minutes else f"{hours}h"
    days, hours = divmod(hours, 24)
    return f"{days}d {hours}h" if hours else f"{days}d"


def percent(part: float | None) -> str:
    """A share of one, cut down so that '100 %' means all of it; '?' when unknown."""
    return UNKNOWN if part is None else f"{int(part * 100 + 1e-9)} %"


def local(moment: datetime | str) -> datetime:
    """An aware time (or its ISO 8601 text) in the zone of this machine."""
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    return moment.astimezone()


def moment(at: datetime | str | None, now: datetime) -> str:
    """A time near `now` (both aware) as one reads it: '16:40', 'Fri 18:00', '2026-12-24 18:00'; '?' when unknown."""
    if at is None:
        return UNKNOWN
    there, here = local(at), local(now)
    if there.date() == here.date():
        return f"{there:%H:%M}"
    if abs(there - here) < timedelta(days=6):
        return f"{there:%a %H:%M}"
    return f"{there:%Y-%m-%d %H:%M}"


def full_time(at: datetime | str | None) -> str:
    """A time in full, local, with its zone: '2026-11-30 14:02:31 CST'; '?' when unknown."""
    return UNKNOWN if at is None else f"{local(at):%Y-%m-%d %H:%M:%S %Z}"


def table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = (), limit: int | None = None
) -> list[str]:
    """Lines of a plain table, columns aligned by terminal cells and two blanks apart; every cell is cleaned.

    `right`: indexes of right-aligned columns. `limit`: no line is wider than this as long as columns can be cut: the
    last one, and of the others the widest, so that the last one keeps some room.
    """
    cells = [list(headers), *([clean(cell) for cell in row] for row in rows)]
    widths = [max(width(row[column]) for row in cells) for column in range(len(headers))]
    last = len(headers) - 1
    if limit is not None:
        room = limit - 2 * last
        while sum(widths[:last]) + min(widths[last], _LEAST_LAST) > room and max(widths[:last]) > _LEAST_COLUMN:
            widths[widths.index(max(widths[:last]))] -= 1
        widths[last] = min(widths[last], max(room - sum(widths[:last]), 8))
    rights = frozenset(right)
    lines = []
    for row in cells:
        shown = (fit(cell, widths[column], right=column in rights) for column, cell in enumerate(row))
        lines.append("  ".join(shown).rstrip())
    return lines
