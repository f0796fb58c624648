"""`wait`: until jobs have ended; 0 when all succeeded."""

from typing import Annotated

import typer

from gputui.cli.app import Command, JobIds, Json, Socket, client, job_ids, new_app
from gputui.cli.output import note, print_json, say
from gputui.domain.units import parse_duration

app = new_app()


@app.command(cls=Command)
def wait(
    ids: JobIds,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="D", help="Give up after this long, as in 90 or 1h30m.")
    ] = None,
    json: Json = False,
    socket: Socket = None,
) -> None:
    """Wait until jobs have ended; 0 when all succeeded."""
    seconds = None if timeout is None else parse_duration(timeout, "--timeout")
    with client(socket) as daemon:
        reply = daemon.wait(job_ids(ids), seconds)
    if json:
        print_json(reply)
    else:
        for job in reply["jobs"]:
            code = job["exit_code"]
            say(f"#{job['id']} {job['state']}" + (f", exit code {code}" if code else ""))
        going = [f"#{job['id']}" for job in reply["jobs"] if job["ended_at"] is None]
        if going:
            note(f"Not ended after {timeout}: {', '.join(going)}.")
    raise typer.Exit(0 if all(job["state"] == "succeeded" for job in reply["jobs"]) else 1)
