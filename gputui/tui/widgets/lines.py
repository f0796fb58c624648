"""A few lines of styled text, drawn anew only where they changed."""

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

Line = list[tuple[str, Style]]


class Lines(Widget):
    """Shows what it is given; never wraps."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.lines: list[Line] = []

    def set(self, lines: Sequence[Line]) -> None:
        """Show these lines."""
        old, self.lines = self.lines, list(lines)
        for y in range(max(len(old), len(self.lines))):
            if y >= len(old) or y >= len(self.lines) or old[y] != self.lines[y]:
                self.refresh(Region(0, y, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        if y >= len(self.lines):
            return Strip.blank(self.size.width, self.rich_style)
        strip = Strip([Segment(text, style) for text, style in self.lines[y]])
        return strip.adjust_cell_length(self.size.width).apply_style(self.rich_style)
