"""`python -m gputui.cli` is `gputui`."""

from gputui.cli.main import run

run()
