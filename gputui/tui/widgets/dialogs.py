"""Questions: a confirmation that names what it is about, and a line to type."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

MOST_NAMED = 8


class Confirm(ModalScreen[bool]):
    """Asks before an act. The way back has the focus, so that a key too many does nothing.

    It is called “Back” and not “Cancel”, which is an act here.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n,q", "answer(False)", show=False),
        Binding("y", "answer(True)", show=False),
        Binding("left,right,h,l,tab", "app.focus_next", show=False),
    ]

    def __init__(self, question: str, names: Sequence[str], yes: str) -> None:
        super().__init__()
        self.question = question
        self.names = list(names)
        self.yes = yes

    def compose(self) -> ComposeResult:
        shown = self.names[:MOST_NAMED]
        if len(self.names) > MOST_NAMED:
            shown.append(f"and {len(self.names) - MOST_NAMED} more")
        with Vertical(id="dialog"):
            yield Static(Text(self.question, style="bold"), id="question")
            for name in shown:
                yield Static(Text("  " + name, no_wrap=True, overflow="ellipsis"), classes="name")
            with Horizontal(id="buttons"):
                yield Button(Content("Back (esc)"), id="no")
                yield Button(Content(f"{self.yes} (y)"), id="yes")

    def on_mount(self) -> None:
        self.query_one("#no", Button).focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


class Prompt(ModalScreen[str | None]):
    """One line at the bottom: a reason, a place, a filter, a command. Escape gives None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False, priority=True)]

    def __init__(
        self,
        label: str,
        value: str = "",
        hint: str = "",
        history: Sequence[str] = (),
        typed: Callable[[str], None] | None = None,
    ) -> None:
        """`typed` is called with what stands there whenever that changes."""
        super().__init__()
        self.typed = typed
        self.label = label
        self.value = value
        self.hint = hint
        self.history = [*history, ""]
        self.at = len(self.history) - 1

    def compose(self) -> ComposeResult:
        with Horizontal(id="prompt"):
            yield Static(Text(f" {self.label} ", style="bold"), id="label")
            yield Input(self.value, placeholder=self.hint, id="answer", compact=True)

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    async def on_key(self, event: Key) -> None:
        """Take what was typed before the line had the focus: what it gets itself never comes here."""
        answer = self.query_one(Input)
        if event.key == "enter":
            event.stop()
            await answer.action_submit()
        elif event.is_printable and event.character:
            event.stop()
            answer.insert_text_at_cursor(event.character)

    def on_input_changed(self, event: Input.Changed) -> None:
        if self.typed and event.value != self.value:
            self.value = event.value
            self.typed(event.value.strip())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())

    def key_up(self) -> None:
        self._recall(-1)

    def key_down(self) -> None:
        self._recall(1)

    def _recall(self, step: int) -> None:
        if len(self.history) > 1:
            self.at = max(0, min(self.at + step, len(self.history) - 1))
            self.query_one(Input).value = self.history[self.at]

    def action_leave(self) -> None:
        self.dismiss(None)
