"""How the lines of the terminal are shared out: boxes where there is room, a rule with a title where there is not."""

from typing import TYPE_CHECKING

from rich.text import Text
from textual.content import Content
from textual.widget import Widget

from gputui.tui.widgets.lines import Line

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

BOXES_FROM = (100, 30)
"""Columns and rows from which panels have boxes."""
TITLES_FROM = 18
"""Rows from which the detail pane has a title."""


def arrange(screen: "MainScreen") -> None:
    """Set heights for the present size: all GPUs if half of the screen holds them, the rest to the queue."""
    width, height = screen.size
    if not width or not height:
        return
    boxes = width >= BOXES_FROM[0] and height >= BOXES_FROM[1]
    screen.set_class(boxes, "boxes")
    screen.set_class(height < TITLES_FROM, "tiny")
    screen.gpus.headed = screen.jobs.headed = height >= TITLES_FROM
    chrome = 2 if boxes else 1
    room = height - 2 - (1 if screen.banner.display else 0)
    inner = _detail_lines(height, boxes)
    detail = inner + (chrome if height >= TITLES_FROM else 0)
    half = (room - detail) // 2 + (1 if height < 30 else 2)
    most = max(4, room - detail) if screen.monitor else max(chrome + 3, half)
    around = screen.gpus.head + chrome
    inside = width - (2 if boxes else 0)
    gpus = min(most, screen.gpus.lines_wanted(most - around, inside) + around)
    screen.gpus.styles.height = gpus
    screen.detail.styles.height = max(detail, room - gpus) if screen.monitor else detail
    screen.jobs.display = not screen.monitor


def _detail_lines(height: int, boxes: bool) -> int:
    """Lines inside the detail pane: one on small screens."""
    if not boxes:
        return 1 if height < 28 else 3
    return max(4, min(16, (height - 16) // 4))


def title(widget: Widget, line: Line) -> None:
    """The title in the upper border; set only when it changed, since that repaints the border."""
    content = _content(line)
    if getattr(widget, "_gputui_title", None) != line:
        widget._gputui_title = line  # type: ignore[attr-defined]
        widget.border_title = content


def subtitle(widget: Widget, line: Line) -> None:
    """The same at the lower border."""
    if getattr(widget, "_gputui_subtitle", None) != line:
        widget._gputui_subtitle = line  # type: ignore[attr-defined]
        widget.border_subtitle = _content(line)


def titles(screen: "MainScreen", widget: Widget, name: Line, standing: Line) -> None:
    """What a panel is and how it stands; without a lower border both in the upper one."""
    boxes = screen.has_class("boxes")
    title(widget, name if boxes or not standing else [*name, ("  ", screen.look.dim), *standing])
    subtitle(widget, standing if boxes else [])


def _content(line: Line) -> Content:
    return Content.from_rich_text(Text.assemble(*line))
