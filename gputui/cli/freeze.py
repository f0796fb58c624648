"""`freeze` and `thaw`: stop everything automatic, and let it go on."""

from typing import Annotated

import typer

from gputui.cli.app import Command, Json, Socket, client, new_app
from gputui.cli.output import show_act

app = new_app()

RequiredReason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; everybody sees it.")]


@app.command(cls=Command)
def freeze(reason: RequiredReason, json: Json = False, socket: Socket = None) -> None:
    """Stop everything automatic; running jobs go on."""
    with client(socket) as daemon:
        show_act(daemon.freeze(reason), json=json)


@app.command(cls=Command)
def thaw(reason: RequiredReason, json: Json = False, socket: Socket = None) -> None:
    """Let everything automatic go on."""
    with client(socket) as daemon:
        show_act(daemon.thaw(reason), json=json)
