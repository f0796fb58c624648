"""`daemon`: run it in the foreground, start it, stop it, ask it."""

import os
import sys
import time
from pathlib import Path
from typing import Annotated

from gputui import format as fmt
from gputui import paths
from gputui.cli.app import Command, Json, Socket, client, new_app, option
from gputui.cli.output import print_json, say
from gputui.client import ClientError
from gputui.protocol import DaemonStatus, ErrorCode

app = new_app()
daemon = new_app(help="The daemon that keeps the queue and runs the jobs.", no_args_is_help=True)
app.add_typer(daemon, name="daemon")

StateDir = Annotated[str | None, option("--state", "DIR", "The state folder.")]
STOP_S = 30.0


@daemon.command()
def run(state: StateDir = None, socket: Socket = None) -> None:
    """Run the daemon in the foreground, until Ctrl-C or TERM.

    Running jobs go on without it.
    """
    command = [sys.executable, "-P", "-m", "gputui.daemon"]
    if state is not None:
        command += ["--state", str(Path(state).absolute())]
    if socket is not None:
        command += ["--socket", str(Path(socket).absolute())]
    from gputui.client.start import environment

    sys.stdout.flush()
    os.execve(sys.executable, command, environment())  # noqa: S606 - the same interpreter, no shell


@daemon.command(cls=Command)
def start(state: StateDir = None, json: Json = False, socket: Socket = None) -> None:
    """Start the user daemon unless one answers."""
    from gputui.client import ensure_daemon

    found = ensure_daemon(Path(socket) if socket else None, Path(state) if state else None)
    with client(str(found), start=False) as connection:
        _show(connection.status(), json=json)


@daemon.command(cls=Command)
def stop(json: Json = False, socket: Socket = None) -> None:
    """Stop the daemon; running jobs go on.

    The next daemon finds them.
    """
    with client(socket, start=False) as connection:
        path = connection.socket_path
        reply = connection.stop_daemon()
    deadline = time.monotonic() + STOP_S
    while paths.answers(path):
        if time.monotonic() > deadline:
            raise ClientError(
                ErrorCode.WRONG_STATE, f"The daemon at {path} still answers {STOP_S:g}s after it was asked."
            )
        time.sleep(0.02)
    if json:
        print_json(reply)
    else:
        say(reply["message"])


@daemon.command(cls=Command)
def status(json: Json = False, socket: Socket = None) -> None:
    """What the daemon says of itself.

    Exit code 3 when there is none; starts nothing.
    """
    with client(socket, start=False) as connection:
        _show(connection.status(), json=json)


def _show(found: DaemonStatus, *, json: bool) -> None:
    if json:
        print_json(found)
        return
    up = fmt.duration(found["uptime"])
    say(f"gputui {found['version']}, pid {found['pid']}, up {up}, as {found['user']}")
    say(f"  {found['gpus']} GPUs, {found['running']} jobs running, {found['queued']} queued")
    say(f"  socket {found['socket']}")
    say(f"  store {found['store']}")
    frozen = found["frozen"]
    if frozen:
        say(f"  frozen by {frozen['by']} since {fmt.full_time(frozen['since'])}: {fmt.clean(frozen['reason'])}")
    for sentence in found["attention"]:
        say(f"  ▲ {fmt.clean(sentence)}")
