"""Partial updates that write only the cells that look different from what the terminal shows.

Textual repaints a changed widget or line as a whole, together with all that stands left of it: on a slow line most of
what a monitor would write.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from rich.cells import cell_len
from rich.console import Console
from rich.control import Control
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
from textual.strip import Strip

Cell = tuple[str, Style | None]

INSIDE = ""
"""The text of a cell that belongs to the one left of it."""
BRIDGED = 3
"""So many equal cells between different ones are written too: to move the cursor costs more."""


class Line:
    """What the cells of a line show; None where that is not known."""

    __slots__ = ("_cells", "_unread")

    def __init__(self) -> None:
        self._cells: list[Cell | None] = []
        self._unread: list[tuple[int, Strip]] = []
        """Written as they were, and taken apart only when they are compared: the first frames are in a hurry."""

    def unknown(self, start: int, end: int) -> bool:
        """Whether nothing is known of the cells from `start` to `end`."""
        return not self._cells and all(end <= at or at + strip.cell_length <= start for at, strip in self._unread)

    def shows(self, start: int, strip: Strip) -> bool:
        """Whether exactly this was written there, and nothing on the line since."""
        return bool(self._unread) and (start, strip) in self._unread

    def put(self, start: int, strip: Strip) -> None:
        """`strip` was written at cell `start`."""
        self._unread.append((start, strip))

    def cells(self) -> list[Cell | None]:
        """All cells known so far, for reading and changing."""
        for start, strip in self._unread:
            found = list(_cells(strip))
            self.reach(start + len(found))
            self._cells[start : start + len(found)] = found
        self._unread.clear()
        return self._cells

    def reach(self, length: int) -> None:
        """Have at least so many cells."""
        self._cells += [None] * (length - len(self._cells))


Shown = dict[int, Line]
"""By line of the terminal."""


class NarrowUpdate(ChopsUpdate):
    """Writes what differs from `shown` in the changed spans, and remembers it there."""

    def __init__(self, update: ChopsUpdate, shown: Shown) -> None:
        super().__init__(update.chops, update.spans, update.chop_ends)
        self._shown = shown

    def render_segments(self, console: Console) -> str:
        """Bytes for the terminal."""
        written: list[str] = []
        for y, left, right in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is None or x >= right or end <= left:
                    continue
                start = max(x, left)
                part = strip.crop(start - x, min(end, right) - x)
                line = self._shown.setdefault(y, Line())
                if line.shows(start, part):
                    continue
                if line.unknown(start, start + part.cell_length):
                    written += Control.move_to(start, y).segment.text, part.render(console)
                    line.put(start, part)
                    continue
                shown, cells = line.cells(), list(_cells(part))
                line.reach(start + len(cells))
                for first, last in _runs(shown[start : start + len(cells)], cells):
                    written.append(Control.move_to(start + first, y).segment.text)
                    written.append(_strip(cells[first:last]).render(console))
                shown[start : start + len(cells)] = cells
        return "".join(written)


class NarrowCompositor(Compositor):
    """A compositor whose partial updates are narrow."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: Shown = {}

    def forget(self) -> None:
        """Something else drew on the terminal: what it shows is not known."""
        self._shown.clear()

    def render_full_update(self, simplify: bool = False) -> LayoutUpdate:
        """The whole screen, whatever the terminal shows."""
        self.forget()
        return super().render_full_update(simplify)

    def render_partial_update(self) -> ChopsUpdate | None:
        """The dirty spans, if any."""
        update = super().render_partial_update()
        return NarrowUpdate(update, self._shown) if update else None


def _cells(strip: Strip) -> Iterator[Cell]:
    """One entry per cell; text with wide or combining characters stays in one piece, at its first cell."""
    for text, style, _ in strip:
        style = None if style is None else _one(style)  # noqa: PLW2901
        width = len(text) if text.isascii() else cell_len(text)
        if width == len(text):
            yield from ((character, style) for character in text)
        elif width:
            yield text, style
            yield from ((INSIDE, style) for _ in range(width - 1))


@lru_cache(maxsize=1024)
def _one(style: Style) -> Style | None:
    """One object for equal styles, so that cells are compared fast; None for the terminal's own look.

    Every piece is written with a reset behind it, so text in the terminal's own look needs no codes.
    """
    colours = (style.color, style.bgcolor)
    plain = not style._set_attributes and not style.link and all(one is None or one.is_default for one in colours)
    return None if plain else style


def _runs(old: list[Cell | None], new: list[Cell]) -> Iterable[tuple[int, int]]:
    """Where `new` differs from `old`: (from, to) in cells, never cutting a piece of text."""
    runs: list[list[int]] = []
    for at, cell in enumerate(new):
        if old[at] == cell:
            continue
        first, last = at, at + 1
        while first > 0 and new[first][0] == INSIDE:
            first -= 1
        while last < len(new) and new[last][0] == INSIDE:
            last += 1
        if runs and first - runs[-1][1] <= BRIDGED:
            runs[-1][1] = last
        else:
            runs.append([first, last])
    return [(first, last) for first, last in runs]


def _strip(cells: list[Cell]) -> Strip:
    """The cells as text, as few pieces as there are styles."""
    pieces: list[tuple[list[str], Style | None]] = []
    for text, style in cells:
        if pieces and pieces[-1][1] is style:
            pieces[-1][0].append(text)
        else:
            pieces.append(([text], style))
    return Strip([Segment("".join(texts), style) for texts, style in pieces])
