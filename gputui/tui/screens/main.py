"""The main screen: GPUs, jobs, details, and the keys."""

import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any

from textual.app import ComposeResult
from textual.screen import Screen
from textual.timer import Timer

from gputui.client import ClientError
from gputui.protocol import DaemonStatus, GpusReply
from gputui.tui import keymap
from gputui.tui.acts import Acts
from gputui.tui.backend import Backend, View
from gputui.tui.capslock import Burst
from gputui.tui.feed import Feed
from gputui.tui.keymap import BY_ID, Where
from gputui.tui.screens import layout, looking
from gputui.tui.spans import NarrowCompositor
from gputui.tui.text import clean, duration, fit
from gputui.tui.theme import Look
from gputui.tui.widgets import detail, footer, host_line
from gputui.tui.widgets.gpu_table import GpuTable, label
from gputui.tui.widgets.line_table import LineTable
from gputui.tui.widgets.lines import Line, Lines, cells_of
from gputui.tui.widgets.queue_table import QueueTable

FLASH_S = 6.0
DETAIL_S = 0.08
"""The cursor rests this long before details are asked for."""
TAIL_LINES = 40
STALE_S = 5.0
"""Readings older than this are called old."""


class MainScreen(Screen[None]):
    """Draws what the feed brings; asks before acts; never rebuilds a widget."""

    BINDINGS = keymap.bindings()
    AUTO_FOCUS = ""  # None would be the first panel

    def __init__(
        self, backend: Backend, look: Look, *, readonly: bool, monitor: bool, clock: Callable[[], datetime]
    ) -> None:
        super().__init__()
        self._compositor = self._narrow = NarrowCompositor()
        self.backend = backend
        self.look = look
        self.readonly = readonly
        self.monitor = monitor
        self.clock = clock
        self.gpus = GpuTable(look)
        self.jobs = QueueTable(look)
        self.host = Lines(id="host")
        self.banner = Lines(id="banner")
        self.detail = Lines(id="detail")
        self.foot = Lines(id="foot")
        self.acts = Acts(self)
        self.feed = Feed(self)
        self.burst = Burst()
        self.details = detail.Details()
        self.reply: GpusReply | None = None
        self.reply_at = 0.0
        self.status: DaemonStatus | None = None
        self.away = ""
        """Why the daemon does not answer; empty: it does."""
        self.counts: dict[str, int] = {}
        self.paused = False
        """The picture is paused by `p`."""
        self.asking = 0
        """Questions open: the rows they name stand still."""
        self.faces: dict[str, str] = {}
        """How remapped keys are written."""
        self._flash: tuple[str, bool, float] = ("", True, 0.0)
        self._detail_timer: Timer | None = None
        self._labels: dict[str, str] = {}
        self.jobs.context.now = clock()

    def compose(self) -> ComposeResult:
        yield self.host
        yield self.banner
        yield self.gpus
        yield self.jobs
        yield self.detail
        yield self.foot

    def on_mount(self) -> None:
        (self.gpus if self.monitor else self.jobs).focus()
        self.run_worker(self.feed.follow(), group="feed")
        if not self.monitor:
            self.run_worker(self.feed.windows(), group="windows")
        self.set_interval(1.0, self._tick)
        self.redraw()

    # --- what the feed brings

    @property
    def still(self) -> bool:
        """Whether rows must not change now."""
        return self.paused or self.asking > 0

    def show_gpus(self, reply: GpusReply) -> None:
        """Take readings."""
        self.reply, self.reply_at = reply, time.monotonic() - reply["age"]
        if not self.still:
            self._draw_gpus()

    def show_status(self, status: DaemonStatus) -> None:
        """Take what the daemon says of itself."""
        self.status = status
        self.redraw()

    def show_away(self, why: str) -> None:
        """The daemon is away, or (empty) back again."""
        if why and not self.away:
            self.away = why
        elif not why:
            if self.away:
                self.flash("The daemon is back; everything was asked anew.")
            self.away = ""
        self.redraw()

    def _draw_gpus(self) -> None:
        if self.reply is None:
            return
        now = self.clock()
        problem = self.reply["problem"]
        words = (
            [problem["sentence"], problem["remedy"]] if problem else ["No GPU was found.", "gputui doctor says why."]
        )
        before = len(self.gpus.gpus)
        self.gpus.set(self.reply["gpus"], words, now)
        self._labels = {gpu["uuid"]: label(gpu, self.gpus.gpus) for gpu in self.gpus.gpus}
        self.jobs.context.gpu_labels = self._labels
        if len(self.gpus.gpus) != before:
            self.share_out()
        self.redraw()

    def write(self, sequence: str) -> None:
        """Send bytes to the terminal that are no picture."""
        driver = self.app._driver
        if driver is not None:
            driver.write(sequence)

    def want_window(self) -> None:
        """Ask for the rows near the window."""
        self.feed.want(urgent=True)

    # --- drawing

    def _tick(self) -> None:
        now = self.clock()
        if self._flash[0] and time.monotonic() >= self._flash[2]:
            self._flash = ("", True, 0.0)
        if not self.still:
            self.jobs.tick(now)
        job = self.jobs.current
        if job and job["state"] in detail.ACTIVE and not self.still and int(time.monotonic()) % 2 == 0:
            self._ask_details()
        self.redraw()

    def redraw(self) -> None:
        """Lines and titles; each draws only what changed."""
        if not self.is_mounted:
            return
        width, now = self.size.width, self.clock()
        attention = len(self.status["attention"]) if self.status else 0
        role = "read-only" if self.readonly else "monitor" if self.monitor else ""
        gpus = self.gpus.gpus
        host = self.reply["host"] if self.reply else None
        self.host.set([host_line.host_line(host, gpus, attention, role, self.look, now, width)])
        banner = self._banner()
        self.banner.set([banner] if banner else [])
        if self.banner.display != bool(banner):
            self.banner.display = bool(banner)
            self.share_out()
        rows = self.gpus.standing()
        layout.titles(self, self.gpus, self._gpu_title(), [(rows, self.look.dim)] if rows else [])
        self._draw_job_titles()
        self._draw_detail()
        self._draw_foot()

    def _draw_job_titles(self) -> None:
        scope, width = self.jobs.view.scope, self.size.width
        tabs, room = looking.tabs(scope, self.counts, self.look, width), width - 6
        if not self.has_class("boxes"):
            # one border for both: a filter and marks must show, other views' names need not
            special = looking.special(self.jobs, self.look)
            if special and cells_of(tabs) + cells_of(special) + 3 * len(special) > room:
                tabs = looking.tabs(scope, self.counts, self.look, width, only_here=True)
            room -= cells_of(tabs)
        layout.titles(self, self.jobs, tabs, looking.standing(self.jobs, self.counts, self.look, room))

    def _gpu_title(self) -> Line:
        line: Line = [("GPUs", self.look.title)]
        if self.reply:
            age = time.monotonic() - self.reply_at
            if self.reply["source"] == "simulated":
                line.append((" · simulated", self.look.dim))
            if age > STALE_S:
                line.append((f" · readings are {duration(age)} old", self.look.attention))
        return line

    def _banner(self) -> Line:
        mark = " ! " if self.look.plain else " ▲ "
        sentences: list[str] = []
        if self.away:
            sentences.append(f"The daemon is away, trying again; the picture is the last one. {self.away}")
        if self.status and self.status["frozen"] and not self.away:
            frozen = self.status["frozen"]
            sentences.append(f"Frozen by {frozen['by']}: {frozen['reason']}. Nothing starts by itself; ! thaws.")
        if self.paused:
            sentences.append("The picture is paused; p goes on.")
        if self.reply and self.reply["problem"] and self.reply["gpus"]:
            problem = self.reply["problem"]
            sentences.append(f"{problem['sentence']} {problem['remedy']}")
        if self.status and not self.away:
            sentences += self.status["attention"]
        if not sentences:
            return []
        return [(fit(mark + "  ·  ".join(map(clean, sentences)), self.size.width), self.look.banner)]

    def _draw_detail(self) -> None:
        room, width = max(1, self.detail.size.height), max(20, self.detail.size.width)
        job, gpu = self.jobs.current, self.gpus.current
        if self.panel_is_jobs and job:
            layout.title(self.detail, [(detail.title(job), self.look.title)])
            lines = detail.job_lines(job, self.details, self._labels, self.look, self.clock(), width, room)
        elif not self.panel_is_jobs and gpu:
            layout.title(self.detail, [(f"GPU {label(gpu, self.gpus.gpus)} · {gpu['type']}", self.look.title)])
            lines = detail.gpu_lines(gpu, self.look, self.clock(), room)
        else:
            layout.title(self.detail, [])
            lines = []
        self.detail.set(lines)

    def _draw_foot(self) -> None:
        text, good, _ = self._flash
        if text:
            self.foot.set([footer.flash(text, good, self.look, self.size.width)])
            return
        row = self.jobs.current if self.panel_is_jobs else self.gpus.current
        panel = Where.JOBS if self.panel_is_jobs else Where.GPUS
        here = footer.Here(panel, row["state"] if row else None, self.readonly, self.monitor)
        self.foot.set([footer.keys(here, self.faces, self.look, self.size.width)])

    def flash(self, message: str, good: bool = True) -> None:
        """One line about what just happened, in place of the keys for a while."""
        self._flash = (clean(message), good, time.monotonic() + FLASH_S)
        if self.is_mounted:
            self._draw_foot()

    def share_out(self) -> None:
        """Share the lines out between the panels."""
        layout.arrange(self)

    def on_screen_suspend(self) -> None:
        self._narrow.forget()

    def on_screen_resume(self) -> None:
        self._narrow.forget()

    def on_resize(self) -> None:
        self.share_out()
        self.call_after_refresh(self.redraw)

    # --- the cursor

    @property
    def panel_is_jobs(self) -> bool:
        """Whether keys are about jobs (else about GPUs)."""
        return not self.monitor and not self.gpus.has_focus

    @property
    def table(self) -> LineTable:
        """The table that the cursor keys move in."""
        return self.jobs if self.panel_is_jobs else self.gpus

    def on_descendant_focus(self) -> None:
        self.redraw()

    def on_line_table_cursor_moved(self, _: LineTable.CursorMoved) -> None:
        self._draw_detail()
        self._draw_foot()
        if self._detail_timer:
            self._detail_timer.stop()
        self._detail_timer = self.set_timer(DETAIL_S, self._ask_details)

    def on_queue_table_wanted(self, _: QueueTable.Wanted) -> None:
        self.want_window()

    def on_queue_table_left(self, message: QueueTable.Left) -> None:
        self.work(looking.tell_where_it_went(self, message.job_id))

    def _ask_details(self) -> None:
        job = self.jobs.current
        if job and self.panel_is_jobs and not self.away:
            self.run_worker(self._fetch_details(job["id"], job["state"]), group="details", exclusive=True)

    async def _fetch_details(self, job_id: int, state: str) -> None:
        try:
            why = await self.backend.why(job_id)
            log: list[str] = []
            if state in detail.ACTIVE or state in detail.ENDED:
                chunk = await self.backend.log(job_id, offset=-4096, limit=4096)
                log = detail.tail(chunk["data"], TAIL_LINES)
        except ClientError:
            return  # the row tells the main thing; a job that just ended is no news
        self.details = detail.Details(job_id, why, log)
        self._draw_detail()

    # --- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action != "do":
            return True
        key = BY_ID[str(parameters[0])]
        return keymap.works(key, panel=Where.ANY, readonly=self.readonly, monitor=self.monitor)

    def action_do(self, name: str) -> None:
        """Run the command of a key."""
        key = BY_ID[name]
        panel = Where.JOBS if self.panel_is_jobs else Where.GPUS
        if not key.where & panel:
            other = "the jobs" if key.where & Where.JOBS else "the GPUs"
            self.flash(f"{key.label} works on {other}; tab goes there.", good=False)
            return
        if self._flash[0] and name != "quit":
            self._flash = ("", True, 0.0)
            self._draw_foot()
        if key.acts:
            self.burst.press(self, name, self.acts.bind(name))
        else:
            self.burst.other()
            looking.do(self, name)

    def work(self, doing: Coroutine[Any, Any, None]) -> None:
        """Do it beside the screen; a refusal becomes one line."""
        self.run_worker(self._told(doing))

    async def _told(self, doing: Coroutine[Any, Any, None]) -> None:
        try:
            await doing
        except ClientError as error:
            self.flash(error.message, good=False)
            self.want_window()

    async def confirm(self, question: str, names: Sequence[str], yes: str) -> bool:
        """Ask; the rows stand still meanwhile."""
        from gputui.tui.widgets.dialogs import Confirm

        return bool(await self._answer(Confirm(question, [clean(name) for name in names], yes)))

    async def ask(self, label: str, value: str = "", hint: str = "") -> str | None:
        """Ask for a line; None: they went back."""
        from gputui.tui.widgets.dialogs import Prompt

        answer = await self._answer(Prompt(clean(label), value, hint))
        return answer if isinstance(answer, str) else None

    async def _answer(self, question: Screen[Any]) -> object:
        self.asking += 1
        try:
            return await self.app.push_screen_wait(question)
        finally:
            self.asking -= 1
            if not self.still:
                self.go_on()

    def go_on(self) -> None:
        """Show what came while the picture stood still."""
        self._draw_gpus()
        self.want_window()
        self.redraw()

    def show_view(self, view: View) -> None:
        """Show other rows; the cursor stays on its job where that is among them."""
        self.jobs.reset(view)
        self.redraw()
        self.want_window()
