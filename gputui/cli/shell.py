"""`shell`: an interactive run on this terminal."""

import os
import sys
import time
from typing import Annotated

import typer

from gputui.cli.app import Command, Json, Socket, client, new_app, option
from gputui.cli.output import note
from gputui.cli.submit import directory
from gputui.client import Client, ClientError
from gputui.format import clean
from gputui.protocol import ErrorCode, InteractiveGrant

app = new_app()

ASK_S = 0.25
WAITING = frozenset({"held", "queued"})


@app.command(cls=Command, context_settings={"allow_interspersed_args": False})
def shell(
    argv: Annotated[
        list[str] | None, typer.Argument(metavar="[--] ARGV...", help="What to run; your shell by default.")
    ] = None,
    *,
    gpus: Annotated[str | None, option("--gpus", "N", "How many GPUs; 1 by default.")] = None,
    for_: Annotated[str | None, option("--for", "D", "Stop it after this long, as in 2h.")] = None,
    gpu_type: Annotated[str | None, option("--gpu-type", "T[,T]", "GPU types that will do.")] = None,
    gpu_memory: Annotated[str | None, option("--gpu-memory", "SIZE", "Free memory on each GPU.")] = None,
    class_: Annotated[str | None, option("--class", "CLASS", "core, normal or filler.")] = None,
    project: Annotated[str | None, option("--project", "TEXT", "Whose account it is.")] = None,
    json: Json = False,  # noqa: ARG001 - the top level reads it for errors; what runs owns standard output
    socket: Socket = None,
) -> None:
    """Run a program with GPUs on this terminal.

    Ctrl-C while it waits for them gives up. Ends with the program's exit code.
    """
    command = argv or [os.environ.get("SHELL") or "/bin/sh"]
    given = {
        "gpus": gpus,
        "time_limit": for_,
        "duration": for_,
        "gpu_type": gpu_type,
        "gpu_memory": gpu_memory,
        "class": class_,
        "project": project,
    }
    job: dict[str, object] = {field: value for field, value in given.items() if value is not None}
    job |= {"argv": command, "interactive": True, "name": f"shell: {os.path.basename(command[0])}"}  # noqa: PTH119
    with client(socket) as daemon:
        reply = daemon.submit({"jobs": [job], "cwd": directory(None), "env": dict(os.environ)})
        number = reply["job_ids"][0]
        try:
            grant = _granted(daemon, number)
        except BaseException:
            daemon.cancel([number], "gave up waiting")
            raise
    note(f"#{number} runs here now.")
    # the supervisor takes this process's place, so that the shell's job control meets no one between
    os.execv(grant["supervisor"][0], grant["supervisor"])  # noqa: S606 - an argv list, no shell


def _granted(daemon: Client, number: int) -> InteractiveGrant:
    """Ask until the job has its GPUs, and say why it waits whenever that changes."""
    said = ""
    while True:
        grant = daemon.grant(number)
        if grant["supervisor"]:
            return grant
        if grant["state"] not in WAITING:
            raise ClientError(ErrorCode.WRONG_STATE, f"#{number} is {grant['state']}: it will not run here.")
        reason = daemon.why(number)["reason"]
        if reason != said:
            note(f"#{number} waits: {clean(reason)}" + (" (Ctrl-C gives up)" if not said else ""))
            said = reason
        sys.stdout.flush()
        time.sleep(ASK_S)
