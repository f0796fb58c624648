"""`move` and `start`: where a job stands in the queue, and starting it ahead of it."""

import re
from typing import Annotated, Any

import typer

from gputui.cli.app import Command, JobId, Json, Reason, Socket, Yes, client, job_id, new_app, refuse, whole_number
from gputui.cli.output import confirm, note, print_json, say, show_act
from gputui.client import Client
from gputui.protocol import JobRow, MoveRequest, StartRequest

app = new_app()


class MoveCommand(Command):
    """`--up` and `--down` may stand without their number."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """`--up` becomes `--up 1` unless a number follows that is not the job's own."""
        whole = [*args]
        for index in range(len(whole) - 1, -1, -1):
            if whole[index] in {"--up", "--down"}:
                following = whole[index + 1] if index + 1 < len(whole) else ""
                others = whole[:index] + whole[index + 2 :]
                if not (following.isdecimal() and any(re.fullmatch("#?[0-9]+", word) for word in others)):
                    whole.insert(index + 1, "1")
        return super().parse_args(ctx, whole)


@app.command(cls=MoveCommand)
def move(
    job: JobId,
    *,
    top: Annotated[bool, typer.Option("--top", help="To the front of the queue.")] = False,
    bottom: Annotated[bool, typer.Option("--bottom", help="To its end.")] = False,
    up: Annotated[str | None, typer.Option("--up", metavar="[N]", help="N places forward; 1 by default.")] = None,
    down: Annotated[str | None, typer.Option("--down", metavar="[N]", help="N places back; 1 by default.")] = None,
    before: Annotated[str | None, typer.Option("--before", metavar="ID", help="Right ahead of that job.")] = None,
    after: Annotated[str | None, typer.Option("--after", metavar="ID", help="Right behind that job.")] = None,
    baseline: Annotated[bool, typer.Option("--baseline", help="Back to where the rules put it.")] = False,
    json: Json = False,
    socket: Socket = None,
) -> None:
    """Move a waiting job in the queue."""
    ways: list[MoveRequest] = []
    for chosen, name in ((top, "top"), (bottom, "bottom"), (baseline, "baseline")):
        if chosen:
            ways.append({"to": name})
    for places, name in ((up, "up"), (down, "down")):
        if places is not None:
            ways.append({"to": name, "n": whole_number(f"--{name}", places, 1)})
    for other, name in ((before, "before"), (after, "after")):
        if other is not None:
            ways.append({"to": name, "id": job_id(other)})
    if len(ways) != 1:
        raise refuse("Say where to with one of --top, --bottom, --up, --down, --before, --after and --baseline.")
    number = job_id(job)
    with client(socket) as daemon:
        reply = daemon.move(number, ways[0])
    if json:
        print_json(reply)
        return
    deviation = reply["baseline_position"] - reply["position"]
    place = f"#{number} is at position {reply['position']}"
    if deviation:
        place += f", {abs(deviation)} {'ahead of' if deviation > 0 else 'behind'} where the rules put it"
    say(f"{place}.")


@app.command(cls=Command)
def start(
    job: JobId,
    *,
    gpu: Annotated[
        list[str] | None, typer.Option("--gpu", metavar="UUID", help="On this GPU; may be given several times.")
    ] = None,
    ignore_data: Annotated[
        bool, typer.Option("--ignore-data", help="Although its data are not ready; needs --reason.")
    ] = False,
    reason: Reason = "",
    yes: Yes = False,
    json: Json = False,
    socket: Socket = None,
) -> None:
    """Start a job now, ahead of the queue.

    Says what that displaces, and asks.
    """
    number = job_id(job)
    if ignore_data and not reason.strip():
        raise refuse("--ignore-data needs --reason TEXT: whoever starts without data vouches for it.", "reason")
    with client(socket) as daemon:
        row = daemon.job(number)
        question = _displaces(row, ignore_data)
        if question and not yes and not confirm(question):
            note("Nothing was started.")
            raise typer.Exit(1)
        request: StartRequest = {"version": row["version"]}
        if gpu:
            request["gpus"] = _whole_uuids(daemon, gpu)
        if ignore_data:
            request["ignore_data"] = True
        if reason:
            request["reason"] = reason
        show_act(daemon.start(number, request), json=json)


def _whole_uuids(daemon: Client, words: list[str]) -> list[str]:
    from gputui.cli.gpus import whole_uuid

    return [whole_uuid(daemon, word) for word in words]


def _displaces(row: JobRow, ignore_data: bool) -> str:
    """The question to ask first, or '' when nobody is passed over and no data are missing."""
    passed = (row["position"] or 1) - 1
    parts = []
    if passed:
        parts.append(f"ahead of {passed} waiting job{'s' if passed > 1 else ''}")
    if ignore_data:
        parts.append("without waiting for its data")
    return f"Start #{row['id']} now, {' and '.join(parts)}?" if parts else ""
