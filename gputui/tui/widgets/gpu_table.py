"""One row per GPU: what it is, how busy, since when, held by whom."""

from collections.abc import Sequence
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

TWO_COLUMNS_FROM = 170
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
        self._placed: tuple[int, tuple[Placed, ...]] = (-1, ())

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
    def doubled(self) -> bool:
        """Whether rows stand in two columns: wide screens with more GPUs than lines."""
        return self.size.width >= TWO_COLUMNS_FROM and self.count > self._lines

    @property
    def _lines(self) -> int:
        return max(1, self.size.height - self.head)

    @property
    def page(self) -> int:
        return self._lines * 2 if self.doubled else self._lines

    def line(self, y: int) -> Strip:
        if not self.doubled:
            return super().line(y)
        half = self.size.width // 2
        if y < self.head:
            return Strip.join([self.header(half), self.header(self.size.width - half)])
        index = self.top + y - self.head
        halves = [
            self.row(at, width, self.over(at)) if at < self.count else Strip.blank(width)
            for at, width in ((index, half), (index + self._lines, self.size.width - half))
        ]
        return Strip.join(halves)

    def y_of(self, index: int) -> int:
        return (index - self.top) % self._lines + self.head if self.doubled else super().y_of(index)

    def nothing(self, line: int, width: int) -> Strip:
        if self.gpus or not 0 <= line < len(self.problem):
            return Strip.blank(width)
        style = self.look.attention if line == 0 else self.look.text
        return Strip([Segment("  " + self.problem[line], style)]).adjust_cell_length(width)

    def _place(self, width: int) -> tuple[Placed, ...]:
        if self._placed[0] != width:
            self._placed = (width, cells.place(_COLUMNS, width - 2))
        return self._placed[1]

    def header(self, width: int) -> Strip:
        row = [
            cells.text(placed.column.title, placed.width, self.look.dim, placed.column.right)
            for placed in self._place(width)
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
        why = clean(gpu["why"])
        if not who:
            return [
                Segment(mark, paint),
                *cells.text(why or gpu["state"], width - 2, paint if why else look.dim, right),
            ]
        tail = " ".join(
            part for part in (clean(gpu["held_user"]), _extra(gpu), since(gpu["held_since"], self.now)) if part
        )
        if why and state != "busy":
            tail = f"{why} {since(gpu['held_since'], self.now)}" if state == "foreign" else why
            if state == "foreign" and gpu["held_user"]:
                tail = f"{clean(gpu['held_user'])} {tail}"
        room = width - 2
        tail = cut(tail, max(0, room - min(cells_of(who), max(8, room // 2)) - 1))
        return [
            Segment(mark, paint),
            Segment(fit(who, room - cells_of(tail) - 1), look.strong),
            Segment(" " + tail, look.dim if state == "busy" else paint),
        ]


def _extra(gpu: GpuRow) -> str:
    return "foreign" if gpu["state"] == "foreign" and not gpu["why"] else ""


def shown_state(gpu: GpuRow) -> str:
    """The state for glyph and colour: a cordon shows through, since it needs a person to end it."""
    return "cordoned" if gpu["cordon"] and gpu["state"] in ("free", "busy") else gpu["state"]


def _load(look: Look, gpu: GpuRow) -> Style:
    return theme.style(look, gpu["state"]) if gpu["state"] not in ("free", "unknown") else look.waiting
