"""One row per GPU: what it is, how busy, since when, held by whom."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from gputui.protocol import GpuRow
from gputui.tui import bars, theme
from gputui.tui.text import GIB, clean, cut, fit, gib, since
from gputui.tui.text import width as cells_of
from gputui.tui.theme import Look
from gputui.tui.widgets import cells
from gputui.tui.widgets.cells import Column, Placed
from gputui.tui.widgets.line_table import LineTable

BLOCK = 58
"""Cells a row needs at least where rows stand side by side."""
LONGEST_TYPE = 16
_COLUMNS = (
    Column("index", "", 2, 100, right=True),
    Column("type", "type", 9, 95, grows=3),
    Column("util_bar", "util", 4, 50, grows=24),
    Column("util", "", 4, 90, right=True),
    Column("memory_bar", "memory", 6, 45, grows=20),
    Column("memory", "", 8, 85, right=True),
    Column("spark", "1 min", 15, 20),
    Column("temperature", "°C", 3, 40, right=True),
    Column("power", "W", 4, 30, right=True, wide=90),
    Column("clock", "MHz", 4, 10, right=True, wide=150),
    Column("fan", "fan", 4, 5, right=True, wide=160),
    Column("holder", "held by", 16, 99, grows=34),
)


def family(gpus: Sequence[GpuRow]) -> list[GpuRow]:
    """GPUs by index, each MIG instance below the GPU it is cut from."""
    parents = [gpu for gpu in gpus if not gpu["mig_parent"]]
    rows: list[GpuRow] = []
    for parent in sorted(parents, key=lambda gpu: gpu["index"]):
        rows.append(parent)
        rows.extend(gpu for gpu in gpus if gpu["mig_parent"] == parent["uuid"])
    known = {row["uuid"] for row in rows}
    rows.extend(gpu for gpu in gpus if gpu["uuid"] not in known)
    return rows


def label(gpu: GpuRow, gpus: Sequence[GpuRow]) -> str:
    """How people name a GPU on this screen: its index, a MIG instance by its parent's too ('5.1')."""
    if not gpu["mig_parent"]:
        return str(gpu["index"])
    siblings = [other for other in gpus if other["mig_parent"] == gpu["mig_parent"]]
    parent = next((str(other["index"]) for other in gpus if other["uuid"] == gpu["mig_parent"]), "?")
    return f"{parent}.{siblings.index(gpu)}"


class GpuTable(LineTable):
    """Readings arrive whole; only rows that look different are drawn anew."""

    def __init__(self, look: Look, *, id: str = "gpus") -> None:  # noqa: A002 - Textual's name
        super().__init__(look, id=id)
        self.gpus: list[GpuRow] = []
        self.problem: list[str] = []
        """Why there is no GPU, and what to do; shown where the rows would be."""
        self.now = datetime.now().astimezone()
        self._placed: tuple[tuple[int, int], tuple[Placed, ...]] = ((-1, 0), ())
        self._cut: frozenset[str] = frozenset()

    @property
    def count(self) -> int:
        return len(self.gpus)

    def key(self, index: int) -> str | None:
        return self.gpus[index]["uuid"] if 0 <= index < len(self.gpus) else None

    @property
    def current(self) -> GpuRow | None:
        """The GPU under the cursor."""
        return self.gpus[self.cursor] if 0 <= self.cursor < len(self.gpus) else None

    def set(self, gpus: Sequence[GpuRow], problem: Sequence[str], now: datetime) -> None:
        """Take new readings."""
        before, old_problem, key = self.gpus, self.problem, self.key(self.cursor)
        self.gpus, self.problem, self.now = family(gpus), list(problem), now
        self._cut = cut_into_instances(gpus)
        uuids = [gpu["uuid"] for gpu in self.gpus]
        if key in uuids and uuids.index(key) != self.cursor:
            self.cursor = uuids.index(key)
        self.cursor = max(0, min(self.cursor, len(uuids) - 1))
        if [gpu["uuid"] for gpu in before] != uuids or self.problem != old_problem:
            self.scroll_into_view()
            self.refresh()
            return
        for index in range(self.top, min(self.count, self.top + self.page)):
            self.refresh_row(index)

    # --- drawing

    @property
    def blocks(self) -> int:
        """How many rows stand side by side: more than one where there are more GPUs than lines, and room for them."""
        return max(1, min(-(-self.count // self._lines), self.size.width // BLOCK))

    def lines_wanted(self, most: int, width: int) -> int:
        """Lines that show the GPUs best when there are `most` of them, `width` wide: even blocks, none half empty."""
        if not self.count:
            return max(1, len(self.problem))
        blocks = max(1, min(-(-self.count // max(1, most)), width // BLOCK))
        return -(-self.count // blocks)

    @property
    def _lines(self) -> int:
        return max(1, self.size.height - self.head)

    @property
    def page(self) -> int:
        return self._lines * self.blocks

    def line(self, y: int) -> Strip:
        blocks = self.blocks
        if blocks == 1:
            return super().line(y)
        width = self.size.width // blocks
        widths = [width] * (blocks - 1) + [self.size.width - width * (blocks - 1)]
        if y < self.head:
            return Strip.join([self.header(one) for one in widths])
        first = self.top + y - self.head
        indexes = range(first, first + self._lines * blocks, self._lines)
        return Strip.join([
            self.row(at, one, self.over(at)) if at < self.count else Strip.blank(one)
            for at, one in zip(indexes, widths, strict=True)
        ])  # fmt: skip

    def y_of(self, index: int) -> int:
        return (index - self.top) % self._lines + self.head if self.blocks > 1 else super().y_of(index)

    def index_at(self, x: int, y: int) -> int:
        width = max(1, self.size.width // self.blocks)
        return super().index_at(x, y) + min(x // width, self.blocks - 1) * self._lines

    def standing(self) -> str:
        """'1–14 of 64' when not all rows are on screen."""
        last = min(self.count, self.top + self.page)
        return f"{self.top + 1}–{last} of {self.count}" if self.count > self.page else ""

    def nothing(self, line: int, width: int) -> Strip:
        if self.gpus or not 0 <= line < len(self.problem):
            return Strip.blank(width)
        style = self.look.attention if line == 0 else self.look.text
        return Strip([Segment("  " + self.problem[line], style)]).adjust_cell_length(width)

    def _place(self, width: int) -> tuple[Placed, ...]:
        longest = max((cells_of(gpu["type"]) + bool(gpu["mig_parent"]) for gpu in self.gpus), default=0)
        if self._placed[0] != (width, longest):
            columns = [
                replace(column, width=min(max(column.width, longest), LONGEST_TYPE)) if column.id == "type" else column
                for column in _COLUMNS
            ]
            self._placed = ((width, longest), cells.place(columns, width - 2))
        return self._placed[1]

    def header(self, width: int) -> Strip:
        placed = self._place(width)
        shown = {one.column.id for one in placed}
        # a number without its bar carries the title itself
        titles = {number: number for number in ("util", "memory") if f"{number}_bar" not in shown}
        row = [
            cells.text(titles.get(one.column.id, one.column.title), one.width, self.look.dim, one.column.right)
            for one in placed
        ]
        return cells.join(row, " ", width, None)

    def row(self, index: int, width: int, over: Style | None) -> Strip:
        gpu = self.gpus[index]
        row = [self.cell(gpu, placed) for placed in self._place(width)]
        lead = ">" if self.look.plain else "▸"
        return cells.join(row, lead if over and index == self.cursor else " ", width, over)

    def cell(self, gpu: GpuRow, placed: Placed) -> list[Segment]:
        """One cell of a GPU's row."""
        look, width, right = self.look, placed.width, placed.column.right
        match placed.column.id:
            case "index":
                name = "└" if gpu["mig_parent"] else str(gpu["index"])
                return cells.text("+" if look.plain and name == "└" else name, width, look.strong, True)
            case "type":
                return cells.text((" " if gpu["mig_parent"] else "") + gpu["type"], width, look.text)
            case "util_bar":
                return self._bar(gpu, "utilization", gpu["utilization"], 100, width)
            case "util":
                return self._number(gpu, "utilization", width, "%")
            case "memory_bar":
                return self._bar(gpu, "memory_used", gpu["memory_used"], gpu["memory_total"], width)
            case "memory":
                return self._memory(gpu, width)
            case "spark":
                return cells.text(bars.sparkline(gpu["history"], width, look.plain), width, _load(look, gpu))
            case "temperature":
                return self._number(gpu, "temperature", width)
            case "power":
                return self._number(gpu, "power", width)
            case "clock":
                return self._number(gpu, "sm_clock", width)
            case "fan":
                return self._number(gpu, "fan", width, "%")
            case _:
                return self._holder(gpu, width, right)

    def _number(self, gpu: GpuRow, field: str, width: int, unit: str = "") -> list[Segment]:
        value = gpu.get(field)
        if field in gpu["unsupported"]:
            return cells.text("N/A", width, self.look.dim, True)
        if not isinstance(value, int | float):
            return cells.text("?", width, self.look.attention, True)
        return cells.text(f"{value:.0f}{unit}", width, self.look.text if value else self.look.dim, True)

    def _memory(self, gpu: GpuRow, width: int) -> list[Segment]:
        used, total = gpu["memory_used"], gpu["memory_total"]
        if "memory_used" in gpu["unsupported"] and used is None:
            return cells.text("unified" if gpu["unified_memory"] else "N/A", width, self.look.dim, True)
        shown = f"{total / GIB:.0f}G" if total is not None else "?"
        if used is None:
            return cells.text(f"?/{shown}", width, self.look.attention, True)
        return cells.text(f"{gib(used)}/{shown}", width, self.look.text, True)

    def _bar(self, gpu: GpuRow, field: str, value: int | None, whole: int | None, width: int) -> list[Segment]:
        if field in gpu["unsupported"] and value is None:
            return cells.text("", width, self.look.dim)
        if value is None or not whole:
            return cells.bar(None, width, self.look.dim, self.look)
        return cells.bar(value / whole, width, _load(self.look, gpu), self.look)

    def _holder(self, gpu: GpuRow, width: int, right: bool) -> list[Segment]:
        look, state = self.look, shown_state(gpu)
        mark = theme.glyph(look, state) + " "
        paint = theme.style(look, state)
        who = clean(gpu["held_by"])
        if len(gpu["job_ids"]) > 1:
            who += f" +{len(gpu['job_ids']) - 1}"
        if gpu["uuid"] in self._cut and state == "free":
            # nothing to give away: its instances below are
            return cells.text("  " + clean(gpu["why"]), width, look.dim, right)
        if not who:
            return [Segment(mark, paint), *cells.text(_alone(gpu), width - 2, paint, right)]
        room = width - 2
        tail = self._tail(gpu, state, max(0, room - min(cells_of(who), max(8, room // 2)) - 1))
        return [
            Segment(mark, paint),
            Segment(fit(who, room - cells_of(tail) - 1), look.strong),
            Segment(" " + tail, look.dim if state == "busy" else paint),
        ]

    def _tail(self, gpu: GpuRow, state: str, room: int) -> str:
        """What stands behind the holder: user, what is special, since when; the last goes first where room is short."""
        why, age = clean(gpu["why"]), since(gpu["held_since"], self.now)
        if why and state not in ("busy", "idle", "foreign"):
            return cut(why, room)
        user, special = clean(gpu["held_user"]), (why or "foreign") if state == "foreign" else ""
        # the time tells how long it is held, not how long it is idle
        lead = "idle" if state == "idle" else ""
        for parts in ((user, special, age), (user, special), (special,)):
            told = " ".join(part for part in parts if part)
            tail = f"{lead} · {told}" if lead and told else lead or told
            if cells_of(tail) <= room:
                return tail
        return cut(lead or special, room)


def _alone(gpu: GpuRow) -> str:
    """State and cause of a GPU that nobody holds: 'free', 'lost: Xid 79', 'drained: fan'."""
    why = clean(gpu["why"])
    if why and gpu["state"] in ("lost", "quarantined") and gpu["state"] not in why.lower():
        return f"{gpu['state']}: {why}"
    return why or gpu["state"]


def cut_into_instances(gpus: Sequence[GpuRow]) -> frozenset[str]:
    """UUIDs of the GPUs that are no device to give away, since MIG instances are cut from them."""
    return frozenset(gpu["mig_parent"] for gpu in gpus if gpu["mig_parent"])


def shown_state(gpu: GpuRow) -> str:
    """The state for glyph and colour: a cordon shows through, since it needs a person to end it; so does idleness."""
    if gpu["cordon"] and gpu["state"] in ("free", "busy"):
        return "cordoned"
    return "idle" if idle(gpu) else gpu["state"]


def idle(gpu: GpuRow) -> bool:
    """Whether a run holds it and it did nothing for a whole minute; what nobody knows is not idle."""
    return gpu["state"] == "busy" and bool(gpu["history"]) and all(value == 0 for value in gpu["history"])


def _load(look: Look, gpu: GpuRow) -> Style:
    return theme.style(look, gpu["state"]) if gpu["state"] not in ("free", "unknown") else look.waiting
