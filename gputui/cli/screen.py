"""Plain `gputui`: the screen."""

import sys
from pathlib import Path

from gputui.cli.app import refuse
from gputui.client import ensure_daemon


def open_screen(socket: Path | None) -> int:
    """Start a user daemon if none answers, and open the screen on it. Returns the exit code."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty()):
        raise refuse("The screen needs a terminal; in a script use 'gputui gpus' and 'gputui jobs'.")
    path = ensure_daemon(socket)
    from gputui.tui.app import run_screen

    return run_screen(path)
