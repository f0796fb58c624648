"""The output of a job, followed: the end first, earlier parts when one goes there."""

import base64
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget

from gputui import format as plain
from gputui.client import ClientError
from gputui.tui.text import clean, cut
from gputui.tui.theme import Look

if TYPE_CHECKING:
    from gputui.protocol import JobRow
    from gputui.tui.backend import Backend

CHUNK = 128 * 1024
MOST_LINES = 50_000
POLL_S = 0.5


class LogLines(Widget):
    """Lines from `top` on."""

    def __init__(self, look: Look) -> None:
        super().__init__(id="log")
        self.look = look
        self.lines: list[str] = []
        self.top = 0
        self.side = 0
        """Cells scrolled to the right."""

    @property
    def last_top(self) -> int:
        return max(0, len(self.lines) - self.size.height)

    def go(self, top: int) -> None:
        top = max(0, min(top, self.last_top))
        if top != self.top:
            self.top = top
            self.refresh()

    def render_line(self, y: int) -> Strip:
        index = self.top + y
        width = self.size.width
        if index >= len(self.lines):
            return Strip.blank(width, self.rich_style)
        line = clean(self.lines[index].expandtabs())
        shown = Strip([Segment(line, self.look.text)])
        return shown.crop(self.side, self.side + width).adjust_cell_length(width).apply_style(self.rich_style)


class LogView(ModalScreen[None]):
    """Follows until one scrolls up; `f` or `G` follows again."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,l", "app.pop_screen", show=False),
        Binding("j,down", "move(1)", show=False),
        Binding("k,up", "move(-1)", show=False),
        Binding("ctrl+d,pagedown,space", "page(1)", show=False),
        Binding("ctrl+u,pageup", "page(-1)", show=False),
        Binding("g,home", "first", show=False),
        Binding("G,end,f", "follow", show=False),
        Binding("right", "sideways(20)", show=False),
        Binding("left", "sideways(-20)", show=False),
    ]

    def __init__(self, backend: "Backend", job: "JobRow", look: Look) -> None:
        super().__init__()
        self.backend = backend
        self.job = job
        self.look = look
        self.following = True
        self.ended = False
        self._start = 0
        self._next: int | None = None
        self._partial = b""
        self._fetching = False
        self._problem = ""

    def compose(self) -> ComposeResult:
        yield LogLines(self.look)

    def on_mount(self) -> None:
        self.view = self.query_one(LogLines)
        self.view.border_title = Content(cut(f"log of #{self.job['id']} {clean(self.job['name'])}", 60))
        self.set_interval(POLL_S, self._poll)
        self._poll()

    def _poll(self) -> None:
        if not self._fetching and not self.ended:
            self._fetching = True
            self.run_worker(self._more())

    async def _more(self) -> None:
        try:
            offset = -CHUNK if self._next is None else self._next
            chunk = await self.backend.log(self.job["id"], offset=offset, limit=CHUNK)
            self._problem = ""
        except ClientError as error:
            self._problem = error.message
            self._status()
            return
        finally:
            self._fetching = False
        if self._next is None:
            self._start = chunk["offset"]
        if chunk["gap"]:
            self.view.lines.append(f"… {plain.size(chunk['gap'])} of output were not kept …")
        data = self._partial + base64.b64decode(chunk["data"])
        *whole, self._partial = data.split(b"\n")
        self.view.lines += [_shown(line) for line in whole]
        self._next = chunk["next_offset"]
        if chunk["ended"] and chunk["next_offset"] >= chunk["written"]:
            self.ended = True
            if self._partial:
                self.view.lines.append(_shown(self._partial))
        del self.view.lines[: max(0, len(self.view.lines) - MOST_LINES)]
        if self.following:
            self.view.top = self.view.last_top
        self.view.refresh()
        self._status()
        if not self.ended and chunk["next_offset"] < chunk["written"]:
            self._poll()

    async def _earlier(self) -> None:
        """Fetch the part ahead of what is here."""
        start = max(0, self._start - CHUNK)
        try:
            chunk = await self.backend.log(self.job["id"], offset=start, limit=self._start - start)
        except ClientError as error:
            self._problem = error.message
            return self._status()
        finally:
            self._fetching = False
        lines = [_shown(line) for line in base64.b64decode(chunk["data"]).split(b"\n")]
        if self.view.lines and lines:
            lines[-1] += self.view.lines.pop(0)
        if chunk["gap"]:
            lines.insert(0, f"… {plain.size(chunk['gap'])} of output were not kept …")
        self.view.lines[:0] = lines
        self._start = start
        self.view.top = max(0, len(lines) - 1)
        self.view.refresh()
        return self._status()

    def _status(self) -> None:
        state = "the end" if self.ended else "following" if self.following else "paused, G follows"
        nothing = "" if self.view.lines or self._partial else " · nothing written yet"
        words = self._problem or f"{len(self.view.lines)} lines · {state}{nothing}"
        self.view.border_subtitle = Content(f"{words} · esc goes back")

    def action_move(self, rows: int) -> None:
        self._go(self.view.top + rows)

    def action_page(self, pages: int) -> None:
        self._go(self.view.top + pages * max(1, self.view.size.height - 2))

    def action_first(self) -> None:
        self._go(0)

    def action_follow(self) -> None:
        self.following = True
        self.view.go(self.view.last_top)
        self._status()

    def action_sideways(self, cells: int) -> None:
        self.view.side = max(0, self.view.side + cells)
        self.view.refresh()

    def _go(self, top: int) -> None:
        self.view.go(top)
        self.following = self.view.top >= self.view.last_top
        if top <= 0 and self._start > 0 and not self._fetching:
            self._fetching = True
            self.run_worker(self._earlier())
        self._status()


def _shown(line: bytes) -> str:
    """A line as a terminal leaves it: what a carriage return overwrote is gone."""
    return line.rstrip(b"\r").rsplit(b"\r", 1)[-1].decode("utf-8", "replace")
