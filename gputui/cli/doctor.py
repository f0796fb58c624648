"""`doctor`: what is wrong with this machine, and what to do about it."""

from typing import Annotated

import typer

from gputui import format as fmt
from gputui.cli.app import Command, Json, Socket, new_app
from gputui.cli.output import print_json, say

app = new_app()

MARKS = {"ok": "✓ ok  ", "warn": "▲ warn", "bad": "✗ bad "}


@app.command(cls=Command)
def doctor(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only what needs attention.")] = False,
    json: Json = False,
    socket: Socket = None,
) -> None:
    """What is wrong with this machine, and what to do about it.

    Exit code 1 when something keeps gputui from working.
    """
    from gputui.cli.checks import run_checks

    found = run_checks(socket)
    bad = any(check.verdict == "bad" for check in found)
    if json:
        checks = [
            {"name": check.name, "verdict": check.verdict, "sentence": check.sentence, "remedy": check.remedy}
            for check in found
        ]
        print_json({"ok": not bad, "checks": checks})
    else:
        for check in found:
            if quiet and check.verdict == "ok":
                continue
            say(f"{MARKS[check.verdict]}  {check.name:<9} {fmt.clean(check.sentence)}")
            if check.remedy:
                say(f"{'':19}{fmt.clean(check.remedy)}")
    raise typer.Exit(1 if bad else 0)
