"""All keys on one page, and any other text that wants a page."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from gputui.tui.keymap import KEYS
from gputui.tui.theme import Look


class Page(ModalScreen[None]):
    """Text over the main screen; scrolls like everything else."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark,f1,d,w", "app.pop_screen", show=False),
        Binding("j,down", "scroll(1)", show=False),
        Binding("k,up", "scroll(-1)", show=False),
        Binding("ctrl+d,pagedown,space", "scroll(10)", show=False),
        Binding("ctrl+u,pageup", "scroll(-10)", show=False),
        Binding("g,home", "scroll(-100000)", show=False),
        Binding("G,end", "scroll(100000)", show=False),
    ]

    def __init__(self, title: str, body: Text) -> None:
        super().__init__()
        self.page_title = title
        self.body = body

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="page") as box:
            box.border_title = Content(self.page_title)
            box.border_subtitle = Content("esc goes back")
            yield Static(self.body)

    def action_scroll(self, lines: int) -> None:
        self.query_one("#page").scroll_relative(y=lines, animate=False)


def help_text(look: Look, faces: dict[str, str], readonly: bool, monitor: bool) -> Text:
    """Every key that exists here, looks first, then acts."""
    text = Text()
    groups = [
        ("Looking around", [key for key in KEYS if not key.acts and not (monitor and key.daemon)]),
        ("Changing things", [key for key in KEYS if key.acts and not readonly and not monitor]),
    ]
    for title, keys in groups:
        if not keys:
            continue
        text.append(f"{title}\n", look.title)
        for key in keys:
            text.append(f"  {faces.get(key.id, key.face):<8} ", look.key)
            text.append(f"{key.help}\n", look.text)
        text.append("\n")
    if readonly:
        text.append("This screen is read-only: it shows no key that changes anything.\n\n", look.attention)
    text.append("Marks by glyph and colour\n", look.title)
    for glyph, style, words in (
        ("●", look.running, "runs"),
        ("○", look.waiting, "waits: a job for its turn, a free GPU for a job"),
        ("▲ ‖ ◆ ◔", look.attention, "wants a look: cordoned, held, foreign, idle (held, and 0% for a whole minute)"),
        ("✗", look.lost, "lost or failed"),
        ("C N F", look.strong, "priority class where room is short: core, normal, filler"),
    ):
        text.append(f"  {glyph:<8} ", style)
        text.append(f"{words}\n", look.text)
    text.append(
        "  ?        nobody knows right now      N/A  this GPU cannot tell      0%  measured, and zero\n", look.text
    )
    text.append("\nWith the mouse on, hold Shift (Option on a Mac) to select text as usual.", look.dim)
    return text
