"""Caps Lock: a burst of different shifted keys is asked about, not obeyed."""

import time
from typing import TYPE_CHECKING

from gputui.tui.keymap import BY_ID

if TYPE_CHECKING:
    from textual.timer import Timer

    from gputui.tui.screens.main import MainScreen

WAIT_S = 0.2
"""An act waits this long for a second shifted letter; a person who means it does not notice."""
BURST_S = 0.8
_AT_ONCE = ("move_up", "move_down")


class Burst:
    """Shifted letters pressed lately. Repeats of one key are work; different ones in a row are Caps Lock."""

    def __init__(self) -> None:
        self._last = ""
        self._last_at = 0.0
        self._waiting: Timer | None = None
        self._asking = False

    def clear(self) -> None:
        """Another key came between."""
        self._last = ""

    def press(self, screen: "MainScreen", name: str) -> None:
        """Run the command `name`, now or in a moment, or ask."""
        key = BY_ID[name].keys
        if len(key) > 1 or not key.isupper():
            screen.act(name)
            return
        if self._asking:
            return
        now = time.monotonic()
        before, recent = self._last, now - self._last_at < BURST_S
        self._last, self._last_at = name, now
        if before and before != name and recent and {before, name} != set(_AT_ONCE):
            if self._waiting:
                self._waiting.stop()
                self._waiting = None
            self._asking = True
            screen.work(self._ask(screen, name))
        elif name in _AT_ONCE:
            screen.act(name)
        else:
            self._waiting = screen.set_timer(WAIT_S, lambda: self._obey(screen, name))

    def _obey(self, screen: "MainScreen", name: str) -> None:
        self._waiting = None
        screen.act(name)

    async def _ask(self, screen: "MainScreen", name: str) -> None:
        self._last = ""
        try:
            label = BY_ID[name].label
            question = "Several shifted keys in a row: is Caps Lock on?"
            meant = await screen.confirm(
                question, [f"Nothing was done since; the last key means “{label}”."], f"Do “{label}”"
            )
        finally:
            self._asking = False
        if meant:
            screen.act(name)
