"""`logs`: what a run wrote, as the bytes it wrote."""

import base64
import sys
import time
from typing import Annotated

import typer

from gputui import format as fmt
from gputui.cli.app import Command, JobId, Json, Socket, client, job_id, new_app, option, refuse, whole_number
from gputui.cli.output import note, print_json
from gputui.client import Client, ClientError
from gputui.protocol import ErrorCode, LogChunk

app = new_app()

PIECE = 256 * 1024
FOLLOW_S = 0.2


@app.command(cls=Command)
def logs(
    number: JobId,
    *,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run has ended.")] = False,
    run: Annotated[str | None, option("--run", "N", "Of this attempt; the latest by default.")] = None,
    json: Json = False,
    socket: Socket = None,
) -> None:
    """Print what a job wrote.

    Where the middle was not kept, a line says how much is missing.
    """
    if json and follow:
        raise refuse("--json prints one document, and --follow has no end: choose one.")
    attempt = None if run is None else whole_number("--run", run, 1)
    with client(socket) as daemon:
        if json:
            print_json(_whole(daemon, job_id(number), attempt))
        else:
            _print(daemon, job_id(number), attempt, follow)


def _whole(daemon: Client, number: int, attempt: int | None) -> dict[str, object]:
    """`text` (bytes that were not UTF-8 as lone surrogates), `gaps` [{offset, size}], `written`, `ended`."""
    text = bytearray()
    gaps = []
    offset = 0
    while True:
        chunk = daemon.log(number, run=attempt, offset=offset, limit=PIECE)
        if chunk["gap"]:
            gaps.append({"offset": chunk["offset"] - chunk["gap"], "size": chunk["gap"]})
        text += base64.b64decode(chunk["data"])
        if chunk["next_offset"] == offset or chunk["next_offset"] >= chunk["written"]:
            break
        offset = chunk["next_offset"]
    shown = bytes(text).decode("utf-8", "surrogateescape")
    return {"job_id": number, "text": shown, "gaps": gaps, "written": chunk["written"], "ended": chunk["ended"]}


def _print(daemon: Client, number: int, attempt: int | None, follow: bool) -> None:
    offset = 0
    waiting = False
    while True:
        try:
            chunk = daemon.log(number, run=attempt, offset=offset, limit=PIECE)
        except ClientError as error:
            if not follow or error.code != ErrorCode.WRONG_STATE:
                raise
            if not waiting:
                note(f"{error.message} Waiting for it to start.")
                waiting = True
            time.sleep(FOLLOW_S)
            continue
        _write(chunk)
        more = chunk["next_offset"] > offset and chunk["next_offset"] < chunk["written"]
        offset = chunk["next_offset"]
        if more:
            continue
        if not follow or chunk["ended"]:
            return
        time.sleep(FOLLOW_S)


def _write(chunk: LogChunk) -> None:
    if chunk["gap"]:
        sys.stdout.buffer.write(f"\n[gputui: {fmt.size(chunk['gap'])} not kept]\n".encode())
    sys.stdout.buffer.write(base64.b64decode(chunk["data"]))
    sys.stdout.buffer.flush()
