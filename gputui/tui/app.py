"""The Textual app: one main screen, the signals, and an end that always gives the terminal back."""

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.text import Text
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.theme import Theme

from gputui.tui import theme
from gputui.tui.screens.main import MainScreen
from gputui.tui.settings import Settings, load
from gputui.tui.style import CSS
from gputui.tui.terminal import TerminalDriver, drop_unwritable, leave

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gputui.tui.backend import Backend

CRASH_LOG = "screen.log"
TWICE_S = 2.0
_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


class GputuiApp(App[None]):
    """`backend` brings the data; the app never closes what it was given before the end."""

    CSS = CSS
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+underscore"  # the palette is on ^p of the main screen, remappable like all keys
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "help_quit", show=False, priority=True)]

    def __init__(
        self,
        backend: "Backend",
        *,
        readonly: bool = False,
        monitor: bool = False,
        settings: Settings | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(driver_class=TerminalDriver)
        self.backend = backend
        settings = settings or Settings()
        self.look = theme.choose(settings.look, self.console.color_system)
        self.crash = ""
        self._interrupted = float("-inf")
        self.register_theme(_textual_theme(self.look))
        self.theme = self.look.name
        self.main = MainScreen(backend, self.look, readonly=readonly, monitor=monitor, clock=clock)
        self.main.faces = settings.keys
        self.set_keymap(settings.keys)
        if settings.problem:
            self.main.flash(settings.problem, good=False)

    def get_default_screen(self) -> Screen[Any]:
        return self.main

    def on_mount(self) -> None:
        if self.is_headless:
            return
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, leave, self, 128 + number)

    async def on_unmount(self) -> None:
        await self.backend.close()

    def get_system_commands(self, screen: Screen[Any]) -> "Iterable[SystemCommand]":  # noqa: ARG002
        from gputui.tui.command import palette

        for name, words, meaning in palette():
            if self.main.check_action("do", (name,)) is True:
                yield SystemCommand(words, meaning, lambda name=name: self.main.action_do(name))

    def action_help_quit(self) -> None:
        """Ctrl-C twice quits, from anywhere; once it closes what is open and says so. It never touches a job."""
        now = time.monotonic()
        if now - self._interrupted < TWICE_S:
            self.exit(return_code=0)
            return
        self._interrupted = now
        if self.screen is not self.main:
            self.screen.dismiss()
        self.main.flash("Press ^c again to quit. Jobs go on running.")

    def action_suspend_process(self) -> None:
        """Ctrl-Z: to the shell; `fg` paints everything anew and asks for what changed."""
        if not isinstance(self._driver, TerminalDriver):
            return
        if not self._driver.stop_to_shell():
            self.main.flash("There is no shell to go back to here.", good=False)
            return
        for screen in self.screen_stack:
            screen.refresh(layout=True)
        self.main.go_on()

    def _fatal_error(self) -> None:
        """A fault of ours: the traceback into a file, one sentence for the person."""
        from rich.traceback import Traceback

        path = _crash_log()
        try:
            from rich.console import Console

            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(f"{datetime.now().astimezone().isoformat()}\n")
                Console(file=file, width=120).print(Traceback())
            where = f"; the details are in {path}"
        except OSError:
            where = ""
        self.crash = f"The screen stopped over a fault of its own{where}. Jobs go on; start it again with: gputui"
        self._exit_renderables = [Text(self.crash)]
        self._close_messages_no_wait()


def _crash_log() -> Path:
    from gputui import paths

    return paths.state_dir() / CRASH_LOG


def _textual_theme(look: theme.Look) -> Theme:
    """Textual's own widgets (dialogs, prompt, palette) in the colours of the look."""
    if look.ansi:
        from textual.theme import BUILTIN_THEMES

        return BUILTIN_THEMES[look.name]
    light = look is theme.LIGHT
    return Theme(
        name=look.name,
        dark=not light,
        primary="#0550ae" if light else "#6cb6ff",
        secondary="#656d76" if light else "#7d8794",
        accent="#0550ae" if light else "#6cb6ff",
        warning="#9a5b00" if light else "#f2b84b",
        error="#cf222e" if light else "#ff6b6b",
        success="#1a7f37" if light else "#7fd88f",
        foreground="#24292f" if light else "#d5dae1",
        background="#ffffff" if light else "#12161c",
        surface="#f6f8fa" if light else "#181d25",
        panel="#e4e8ed" if light else "#232a35",
    )


def _play(app: GputuiApp) -> int:
    """Run the app on this terminal and return the exit code."""
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
    gc.freeze()  # what was loaded stays: a collector that walks through it holds up the first frame by 30 ms
    gc.enable()
    app.run(mouse=False)
    drop_unwritable()
    return 1 if app.crash else int(app.return_code or 0)


def _terminal_here() -> bool:
    if sys.stdin.isatty() and sys.stderr.isatty():
        return True
    sys.stderr.write("The screen needs a terminal; use 'gputui jobs' or 'gputui monitor --once' in a pipe.\n")
    return False


def run(socket: str | None = None, readonly: bool = False) -> int:
    """The screen on the daemon at `socket` (None: the one that is found). Returns the exit code."""
    if not _terminal_here():
        return 2
    from gputui.client.aio import AsyncClient

    return _play(GputuiApp(AsyncClient(Path(socket) if socket else None), readonly=readonly, settings=load()))


def run_monitor() -> int:
    """GPUs and host alone, read by a reader process of its own; no daemon, no store. Returns the exit code."""
    if not _terminal_here():
        return 2
    from gputui.tui.monitor import MonitorBackend

    # its screen binds no key that asks for more than the monitor has
    return _play(GputuiApp(cast("Backend", MonitorBackend()), monitor=True, settings=load()))
