"""The job table: a window on the daemon's view, its cursor and marks kept by job id."""

from datetime import datetime

from rich.segment import Segment
from rich.style import Style
from textual.message import Message
from textual.strip import Strip

from gputui.protocol import JobRow, WindowReply
from gputui.tui.backend import View
from gputui.tui.theme import Look
from gputui.tui.widgets import cells, queue_columns
from gputui.tui.widgets.cells import Placed
from gputui.tui.widgets.line_table import LineTable

_CACHE = 2000
"""Strips kept at most; far more than any screen shows."""
LOADING_S = 0.3
"""A view whose rows have not come within this long says that it loads."""


class QueueTable(LineTable):
    """Rows that were not fetched yet are drawn as dots, and fetched; rows that did not change are not drawn again."""

    class Wanted(Message):
        """Rows near the window are missing."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, QueueTable.Wanted)

    class Left(Message):
        """The job under the cursor is no longer in this view."""

        def __init__(self, job_id: int) -> None:
            self.job_id = job_id
            super().__init__()

    def __init__(self, look: Look, *, id: str = "jobs") -> None:  # noqa: A002 - Textual's name
        super().__init__(look, id=id)
        self.view = View()
        self.total = 0
        self.version = -1
        self.rows: dict[int, JobRow] = {}
        """The rows fetched, by index in the view."""
        self.cursor_id: int | None = None
        self.marks: dict[int, int] = {}
        """Marked job ids, with the version of the row when it was marked."""
        self.range_from: int | None = None
        """Index where a range mark began."""
        self.empty: list[str] = ["loading …"]
        """What an empty view says."""
        self.context = queue_columns.Context(look, datetime.now().astimezone(), {})
        self._placed: tuple[tuple[int, str, int], tuple[Placed, ...]] = ((-1, "", 0), ())
        self._strips: dict[int, tuple[JobRow, object, object, str, Strip]] = {}
        self._ticks: dict[int, str] = {}

    @property
    def count(self) -> int:
        return self.total

    def key(self, index: int) -> int | None:
        row = self.rows.get(index)
        return row["id"] if row else None

    @property
    def current(self) -> JobRow | None:
        """The job under the cursor; None while it is being fetched, or when there is none."""
        row = self.rows.get(self.cursor)
        return row if row and row["id"] == self.cursor_id else None

    def find(self, job_id: int) -> int | None:
        """The index of a fetched job."""
        return next((index for index, row in self.rows.items() if row["id"] == job_id), None)

    # --- the window

    def reset(self, view: View) -> None:
        """Show another view; the old rows go, since they are not of it. The cursor stays on its job if it is there."""
        self.view = view
        self.total, self.version, self.rows = 0, -1, {}
        self.cursor = self.top = 0
        self.range_from = None
        self.empty = ["loading …"]
        # the picture stays until the rows come, which is at once as a rule: no flicker
        self.set_timer(LOADING_S, self.refresh)

    def take(self, reply: WindowReply, empty: list[str]) -> None:
        """Take a window that the daemon sent. The cursor stays on its job, and its job on its line where it can."""
        old_rows, old_total, old_top, old_cursor, old_id = self.rows, self.total, self.top, self.cursor, self.cursor_id
        first = reply["first"]
        by_id = {row["id"]: row for row in old_rows.values()}
        self.rows = {}
        for offset, row in enumerate(reply["jobs"]):
            known = by_id.get(row["id"])
            # the same object as before when nothing changed: its strip is still good
            self.rows[first + offset] = known if known == row else row
        fresh = self.version < 0
        self.total, self.version, self.empty = reply["total"], reply["version"], empty
        found = self.find(old_id) if old_id is not None else None
        if found is not None:
            self.cursor = found
            if old_top > 0:
                self.top = max(0, old_top + found - old_cursor)
        else:
            self.cursor = max(0, min(self.cursor, self.total - 1))
            if old_id is not None and not fresh and (self.cursor in self.rows or not self.total):
                self.post_message(self.Left(old_id))
            if self.cursor in self.rows or not self.total:
                self.cursor_id = self.key(self.cursor)
        self.scroll_into_view()
        self._redraw(old_rows, old_total, old_top, old_cursor)
        if self.cursor_id != old_id or self.rows.get(self.cursor) != old_rows.get(old_cursor):
            self.post_message(self.CursorMoved(self))
        if self.missing():
            self.post_message(self.Wanted())

    def _redraw(self, old_rows: dict[int, JobRow], old_total: int, old_top: int, old_cursor: int) -> None:
        if self.top != old_top or self.total == 0 or old_total == 0:
            self.refresh()
            return
        for index in range(self.top, self.top + self.page):
            moved = (index == old_cursor) != (index == self.cursor)
            if moved or self.rows.get(index) is not old_rows.get(index) or (index < self.total) != (index < old_total):
                self.refresh_row(index)

    def missing(self) -> bool:
        """Whether a row on screen, or within a page of it, was not fetched."""
        first, last = max(0, self.top - self.page), min(self.total, self.top + 2 * self.page)
        return any(index not in self.rows for index in range(first, last))

    def moved(self) -> None:
        row = self.rows.get(self.cursor)
        self.cursor_id = row["id"] if row else None
        if self.range_from is not None:
            self.refresh()
        if self.missing():
            self.post_message(self.Wanted())

    def go_to(self, job_id: int) -> bool:
        """Put the cursor on a job that was fetched."""
        index = self.find(job_id)
        if index is None:
            return False
        self.move_cursor(index)
        return True

    # --- a move shows before the daemon answered

    def swap(self, index: int, other: int) -> None:
        """Exchange two neighbours on screen, positions too; the cursor goes along with its job."""
        one, two = self.rows[index], self.rows[other]
        changed_one, changed_two = one.copy(), two.copy()
        changed_one["position"], changed_two["position"] = two["position"], one["position"]
        changed_one["moved"] = True
        self.rows[other], self.rows[index] = changed_one, changed_two
        if self.cursor_id == one["id"]:
            self.cursor = other
        top = self.top
        self.scroll_into_view()
        if self.top != top:
            self.refresh()
        self.refresh_row(index)
        self.refresh_row(other)

    # --- marks

    def toggle_mark(self) -> None:
        """Mark the row under the cursor, or take its mark away."""
        job = self.current
        if job is None:
            return
        if self.marks.pop(job["id"], None) is None:
            self.marks[job["id"]] = job["version"]
        self.refresh_row(self.cursor)

    def clear_marks(self) -> bool:
        """Take all marks away; whether there were any."""
        had = bool(self.marks) or self.range_from is not None
        self.marks, self.range_from = {}, None
        if had:
            self.refresh()
        return had

    # --- drawing

    def tick(self, now: datetime) -> None:
        """Draw anew the rows in which time alone changed something."""
        self.context.now = now
        shown: dict[int, str] = {}
        for index in range(self.top, min(self.total, self.top + self.page)):
            row = self.rows.get(index)
            if row is None:
                continue
            shown[row["id"]] = queue_columns.ticks(row, now)
            if self._ticks.get(row["id"], shown[row["id"]]) != shown[row["id"]]:
                self.refresh_row(index)
        self._ticks = shown

    def _place(self, width: int) -> tuple[Placed, ...]:
        digits = max(4, len(str(self.total)))
        signature = (width, self.view.scope, digits)
        if self._placed[0] != signature:
            placed = queue_columns.columns(self.view.scope, width - 2 - (digits - 4))
            self._placed = (
                signature,
                tuple(Placed(one.column, digits) if one.column.id == "position" else one for one in placed),
            )
        return self._placed[1]

    def header(self, width: int) -> Strip:
        row = []
        for placed in self._place(width):
            title, style = placed.column.title, self.look.dim
            if self.view.sort and placed.column.sort == self.view.sort:
                arrows = ("v", "^") if self.look.plain else ("▾", "▴")
                title, style = arrows[self.view.reverse] + title, self.look.key
            row.append(cells.text(title, placed.width, style, placed.column.right))
        return cells.join(row, "  ", width, None)

    def over(self, index: int) -> Style | None:
        if self.range_from is not None and min(self.range_from, self.cursor) <= index <= max(
            self.range_from, self.cursor
        ):
            return self.look.cursor
        return super().over(index)

    def row(self, index: int, width: int, over: Style | None) -> Strip:
        job = self.rows.get(index)
        if job is None:
            dots = [cells.text("…", placed.width, self.look.dim) for placed in self._place(width)]
            return cells.join(dots, "  ", width, over)
        placed = self._place(width)
        pointer, mark = (">", "*") if self.look.plain else ("▸", "◈")
        lead = (pointer if index == self.cursor else " ") + (mark if job["id"] in self.marks else " ")
        stamp = lead + queue_columns.ticks(job, self.context.now)
        cached = self._strips.get(job["id"])
        if cached and cached[0] is job and cached[1] is placed and cached[2] is over and cached[3] == stamp:
            return cached[4]
        strip = cells.join([queue_columns.cell(job, one, self.context) for one in placed], lead, width, over)
        if len(self._strips) >= _CACHE:
            self._strips.clear()
        self._strips[job["id"]] = (job, placed, over, stamp, strip)
        return strip

    def nothing(self, line: int, width: int) -> Strip:
        if self.total or not 0 <= line < len(self.empty):
            return Strip.blank(width)
        style = self.look.strong if line == 0 else self.look.text
        return Strip([Segment("  " + self.empty[line], style)]).adjust_cell_length(width)
