"""Caps Lock: a burst of different shifted keys is asked about, not obeyed."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from gputui.tui.keymap import BY_ID

if TYPE_CHECKING:
    from textual.timer import Timer

    from gputui.tui.screens.main import MainScreen

WAIT_S = 0.2
"""An act waits this long for a second shifted letter; a person who means it does not notice."""
BURST_S = 0.8
_STEPS = ("move_up", "move_down")
_AT_ONCE = (*_STEPS, "move_to", "cancel", "cordon")
"""Repeated in a row, or asking something before they do anything."""


class Burst:
    """Shifted letters pressed lately. Repeats of one key are work; different ones in a row are Caps Lock."""

    def __init__(self) -> None:
        self._last = ""
        self._last_at = 0.0
        self._act: Callable[[], None] | None = None
        self._timer: Timer | None = None
        self._asking = False

    def other(self) -> None:
        """A key that is no act came: what waited was meant, and comes first."""
        self._last = ""
        self._flush()

    def press(self, screen: "MainScreen", name: str, act: Callable[[], None]) -> None:
        """Run `act`, the command `name` bound to its target, now or in a moment; or ask."""
        key = BY_ID[name].keys
        if len(key) > 1 or not key.isupper():
            self.other()
            act()
            return
        if self._asking:
            return
        now = time.monotonic()
        before, recent = self._last, now - self._last_at < BURST_S
        self._last, self._last_at = name, now
        if before and before != name and recent and {before, name} != set(_STEPS):
            self._drop()
            self._asking = True
            screen.work(self._ask(screen, name, act))
        elif name in _AT_ONCE:
            act()
        else:
            self._flush()
            self._act = act
            self._timer = screen.set_timer(WAIT_S, self._flush)

    def _drop(self) -> None:
        if self._timer:
            self._timer.stop()
        self._timer = self._act = None

    def _flush(self) -> None:
        act = self._act
        self._drop()
        if act:
            act()

    async def _ask(self, screen: "MainScreen", name: str, act: Callable[[], None]) -> None:
        self._last = ""
        label = BY_ID[name].label
        question = "Several shifted keys in a row: is Caps Lock on?"
        try:
            meant = await screen.confirm(question, [f"The last one means “{label}”; it was not done."], f"Do “{label}”")
        finally:
            self._asking = False
        if meant:
            act()
