"""`audit`: who changed what, when, and whether the log is whole."""

import json as jsonlib
from typing import Annotated

import typer

from gputui import format as fmt
from gputui.cli.app import Command, Json, Socket, client, new_app, whole_number
from gputui.cli.output import print_json, say, show_table

app = new_app()
audit = new_app(help="Who changed what, and whether the log is whole.", no_args_is_help=True)
app.add_typer(audit, name="audit")


@audit.command("list", cls=Command)
def list_(
    limit: Annotated[str, typer.Option("--limit", metavar="N", help="How many rows.")] = "50",
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="TEXT", help="Of one job ('#12'), GPU or dataset only.")
    ] = None,
    json: Json = False,
    socket: Socket = None,
) -> None:
    """The newest changes, newest first."""
    with client(socket) as daemon:
        rows = daemon.audit(limit=whole_number("--limit", limit, 1), subject=subject)
    if json:
        print_json({"rows": rows})
        return
    show_table(
        ["seq", "at", "who", "act", "subject", "change"],
        [
            [
                str(row["seq"]),
                fmt.full_time(row["at"]),
                row["who"],
                row["act"],
                row["subject"],
                _change(row["before"], row["after"], row["reason"]),
            ]
            for row in rows
        ],
        right=[0],
    )


@audit.command(cls=Command)
def verify(json: Json = False, socket: Socket = None) -> None:
    """Check the chain of hashes; exit code 1 when the log was changed."""
    with client(socket) as daemon:
        found = daemon.verify_audit()
    if json:
        print_json(found)
    elif found["ok"]:
        say(f"The audit log is whole: {found['rows']} rows, head {found['head']}.")
    else:
        say(f"The audit log is not whole: {found['problem']}")
    raise typer.Exit(0 if found["ok"] else 1)


def _change(before: dict[str, object] | None, after: dict[str, object] | None, reason: str) -> str:
    """'position 5 → 1 (urgent)': what became of each field."""
    old, new = before or {}, after or {}
    changes = []
    for field in dict.fromkeys([*old, *new]):
        if field not in old:
            changes.append(f"{field} {_shown(new[field])}")
        elif old[field] != new.get(field):
            changes.append(f"{field} {_shown(old[field])} → {_shown(new.get(field))}")
    text = ", ".join(changes)
    return f"{text} ({reason})" if text and reason else text or reason


def _shown(value: object) -> str:
    return value if isinstance(value, str) else jsonlib.dumps(value)
