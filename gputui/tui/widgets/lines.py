"""A few lines of styled text, drawn anew only where they changed."""

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from gputui.tui.text import width
from gputui.tui.widgets.cells import changes

Line = list[tuple[str, Style]]


def cells_of(line: Line) -> int:
    """How wide it is."""
    return sum(width(text) for text, _ in line)


class Lines(Widget):
    """Shows what it is given; never wraps."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.lines: list[Line] = []
        self._drawn: dict[int, Strip] = {}

    def set(self, lines: Sequence[Line]) -> None:
        """Show these lines."""
        old, self.lines = self.lines, list(lines)
        for y in range(max(len(old), len(self.lines))):
            if y >= len(old) or y >= len(self.lines) or old[y] != self.lines[y]:
                for left, right in changes(self._drawn.get(y), self.line(y)):
                    self.refresh(Region(left, y, right - left, 1))

    def line(self, y: int) -> Strip:
        """Line `y`, as wide as the widget."""
        parts = self.lines[y] if y < len(self.lines) else []
        strip = Strip([Segment(text, style) for text, style in parts])
        if strip.cell_length > self.size.width > 1:
            strip = Strip([*strip.crop(0, self.size.width - 1), Segment("…", parts[-1][1])])
        return strip.adjust_cell_length(self.size.width).apply_style(self.rich_style)

    def render_line(self, y: int) -> Strip:
        strip = self._drawn[y] = self.line(y)
        return strip
