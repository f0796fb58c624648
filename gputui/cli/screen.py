"""Plain `gputui`: the screen."""

import gc
import sys
from pathlib import Path

from gputui.cli.app import refuse
from gputui.client import ensure_daemon


def open_screen(socket: str | None, *, readonly: bool = False) -> int:
    """Start a user daemon if none answers, and open the screen on it. Returns the exit code."""
    if not has_terminal():
        raise refuse("The screen needs a terminal; in a script use 'gputui gpus' and 'gputui jobs'.")
    path = ensure_daemon(Path(socket) if socket else None)
    gc.disable()  # until the screen is loaded: a tenth of the time to the first frame
    from gputui.tui.app import run

    return run(str(path), readonly)


def has_terminal() -> bool:
    """Whether a person sits at both ends."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty())
