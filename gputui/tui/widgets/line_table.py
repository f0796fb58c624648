"""The one table of the screen: draws lines from a list, on demand, and keeps its cursor by key, never by index."""

from collections.abc import Hashable

from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gputui.tui.theme import Look
from gputui.tui.widgets.cells import changes


class LineTable(Widget, can_focus=True):
    """Subclasses say how many rows there are, what a row's key is, and draw rows. One header line on top."""

    class CursorMoved(Message):
        """The cursor went to another row (or its row changed hands)."""

        def __init__(self, table: "LineTable") -> None:
            self.table = table
            super().__init__()

        @property
        def control(self) -> "LineTable":
            return self.table

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, LineTable.CursorMoved) and message.table is self.table

    def __init__(self, look: Look, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.look = look
        self.cursor = 0
        """Index of the row under the cursor; follows its key whenever the rows change."""
        self.top = 0
        """Index of the first row on screen."""
        self.headed = True
        self._drawn: dict[int, Strip] = {}
        """Line → what is on screen there."""

    # --- what subclasses say

    @property
    def count(self) -> int:
        """Rows in all."""
        raise NotImplementedError

    def key(self, index: int) -> Hashable:
        """What the row is, whatever its index; None: not known yet."""
        raise NotImplementedError

    def header(self, width: int) -> Strip:
        raise NotImplementedError

    def row(self, index: int, width: int, over: Style | None) -> Strip:
        """The row, `over` laid on it where the cursor is."""
        raise NotImplementedError

    def nothing(self, line: int, width: int) -> Strip:  # noqa: ARG002 - for subclasses
        """What stands at `line` below the last row: an empty table says what to do."""
        return Strip.blank(width)

    def moved(self) -> None:
        """After the cursor or the window moved."""

    # --- drawing

    @property
    def head(self) -> int:
        """Lines of the header: none on very small screens."""
        return 1 if self.headed else 0

    @property
    def page(self) -> int:
        """Rows on screen."""
        return max(1, self.size.height - self.head)

    def render_line(self, y: int) -> Strip:
        strip = self._drawn[y] = self.line(y)
        # what a cell leaves open has the colours of the widget
        return strip.apply_style(self.rich_style)

    def line(self, y: int) -> Strip:
        """Line `y` of the widget."""
        width = self.size.width
        if y < self.head:
            return self.header(width)
        index = self.top + y - self.head
        if index >= self.count:
            return self.nothing(index - self.count, width)
        return self.row(index, width, self.over(index))

    def over(self, index: int) -> Style | None:
        """The style laid over a row."""
        if index != self.cursor:
            return None
        return self.look.cursor if self.has_focus else self.look.cursor_away

    def y_of(self, index: int) -> int:
        """The line where a row stands, on screen or not."""
        return index - self.top + self.head

    def index_at(self, x: int, y: int) -> int:  # noqa: ARG002 - for subclasses
        """The row that stands at a cell of the widget."""
        return self.top + y - self.head

    def refresh_row(self, index: int) -> None:
        """Draw what changed in one row, if it is on screen."""
        y = self.y_of(index)
        if self.head <= y < self.size.height and self.top <= index < self.top + self.page:
            for left, right in changes(self._drawn.get(y), self.line(y)):
                self.refresh(Region(left, y, right - left, 1))

    # --- moving

    def move_cursor(self, index: int) -> None:
        """Put the cursor on row `index` (the nearest there is) and scroll so that it shows."""
        before, top = self.cursor, self.top
        self.cursor = min(max(0, index), max(0, self.count - 1))
        self.scroll_into_view()
        if self.top != top:
            self.refresh()
        elif self.cursor != before:
            self.refresh_row(before)
            self.refresh_row(self.cursor)
        if self.cursor != before:
            self.post_message(self.CursorMoved(self))
        if self.cursor != before or self.top != top:
            self.moved()

    def scroll_into_view(self) -> None:
        """Move the window so little that the cursor is in it, and no room below the last row is wasted."""
        page = self.page
        self.top = min(max(self.top, self.cursor - page + 1), self.cursor)
        self.top = max(0, min(self.top, self.count - page))

    def scroll_rows(self, rows: int) -> None:
        """Scroll without leaving the cursor behind."""
        top = self.top
        self.top = max(0, min(self.top + rows, self.count - self.page))
        if self.top == top:
            return
        self.refresh()
        cursor = min(max(self.cursor, self.top), self.top + self.page - 1)
        if cursor != self.cursor:
            self.cursor = cursor
            self.post_message(self.CursorMoved(self))
        self.moved()

    def on_resize(self, _: events.Resize) -> None:
        self.scroll_into_view()
        self.refresh()
        self.moved()

    def on_focus(self) -> None:
        self.refresh_row(self.cursor)

    def on_blur(self) -> None:
        self.refresh_row(self.cursor)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_rows(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_rows(-3)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and offset.y >= self.head:
            self.move_cursor(self.index_at(offset.x, offset.y))
