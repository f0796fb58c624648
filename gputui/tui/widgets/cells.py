"""A row of a table as cells of a fixed width, and columns that give way in a fixed order when room is short."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from gputui.tui import bars
from gputui.tui.text import fit
from gputui.tui.theme import Look

GAP = 2


@dataclass(frozen=True, slots=True)
class Column:
    """`width` cells at least, up to `grows` more where there is room; `keep`: the higher, the later it gives way."""

    id: str
    title: str
    width: int
    keep: int
    grows: int = 0
    right: bool = False
    wide: int = 0
    """Only shown where there are this many cells: the others grow first."""
    sort: str = ""
    """What the daemon calls it when it sorts by it; empty: it does not."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A column and the width it got."""

    column: Column
    width: int


def place(columns: Sequence[Column], room: int) -> tuple[Placed, ...]:
    """The columns that fit into `room` cells; what is left over goes to those that grow, in proportion."""
    kept = [column for column in columns if room >= column.wide]
    while len(kept) > 1 and _needed(kept) > room:
        kept.remove(min(kept, key=lambda column: column.keep))
    left = max(0, room - _needed(kept))
    total = sum(column.grows for column in kept)
    grown: list[Placed] = []
    given = 0
    for column in kept:
        share = min(column.grows, left * column.grows // total if total else 0)
        given += share
        grown.append(Placed(column, min(column.width, room) + share))
    rest = left - given
    # the last growing column takes what rounding left
    for index in range(len(grown) - 1, -1, -1):
        if grown[index].column.grows:
            grown[index] = Placed(grown[index].column, grown[index].width + rest)
            break
    return tuple(grown)


def _needed(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + GAP * (len(columns) - 1)


def text(value: str, width: int, style: Style, right: bool = False) -> list[Segment]:
    """One cell of text."""
    return [Segment(fit(value, width, right=right), style)]


def bar(fraction: float | None, width: int, style: Style, look: Look) -> list[Segment]:
    """One bar with its track; None (nobody knows) is a dashed line, never an empty bar."""
    if fraction is None:
        return [Segment(("?" if look.plain else "╌") * width, look.dim)]
    drawn = bars.bar(fraction, width, look.plain)
    filled = drawn.rstrip(" ")
    track = look.track if look.track.bgcolor else Style.null()
    return [Segment(filled, style + track), Segment(drawn[len(filled) :], track)]


def join(cells: Sequence[Sequence[Segment]], lead: str, width: int, over: Style | None) -> Strip:
    """Cells side by side after `lead`, exactly `width` wide, with `over` laid on top (the cursor)."""
    segments = [Segment(lead)]
    for index, cell in enumerate(cells):
        if index:
            segments.append(Segment(" " * GAP))
        segments.extend(cell)
    strip = Strip(segments).adjust_cell_length(width)
    if over is None:
        return strip
    if over.color is not None:
        # 16 colours: no background leaves all the others readable
        return Strip([Segment(part, over) for part, _, _ in strip], width)
    return Strip([Segment(part, (style or Style.null()) + over) for part, style, _ in strip], width)


def changes(old: Strip | None, new: Strip) -> list[tuple[int, int]]:
    """Where `new` looks different from what is on screen: (from, to) in cells. Only this crosses a slow line again."""
    if old is None or old.cell_length != new.cell_length:
        return [(0, new.cell_length)]
    before = set(_placed(old))
    spans: list[tuple[int, int]] = []
    for at, segment in _placed(new):
        if (at, segment) in before:
            continue
        end = at + segment.cell_length
        if spans and spans[-1][1] == at:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((at, end))
    return spans


def _placed(strip: Strip) -> Iterator[tuple[int, Segment]]:
    at = 0
    for segment in strip:
        yield at, segment
        at += segment.cell_length
