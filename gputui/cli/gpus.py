"""`gpus`: every GPU, what it does and who holds it; and taking one out of the queue's hands."""

import re
from collections.abc import Callable
from datetime import datetime, time, timedelta
from typing import Annotated

import typer

from gputui import format as fmt
from gputui.cli.app import Command, Json, Reason, Socket, client, new_app, refuse
from gputui.cli.output import note, print_json, show_act, show_table
from gputui.client import Client, ClientError
from gputui.domain.units import parse_time
from gputui.protocol import ErrorCode, GpuRow, GpusReply

app = new_app()
gpus = new_app(help="Every GPU: load, memory, state, holder; cordon and drain.", invoke_without_command=True)
app.add_typer(gpus, name="gpus")

Uuid = Annotated[str, typer.Argument(metavar="UUID", help="A GPU's UUID, or enough of its beginning.")]
RequiredReason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; shown beside the GPU.")]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="When it ends by itself: 18:00, or 2026-05-01T18:00+08:00."),
]
_CLOCK = re.compile(r"\d\d:\d\d", re.ASCII)


@gpus.callback()
def list_(context: typer.Context, json: Json = False, socket: Socket = None) -> None:
    """Every GPU: load, memory, state, holder; cordon and drain."""
    if context.invoked_subcommand is not None:
        return
    with client(socket) as daemon:
        reply = daemon.gpus()
    if json:
        print_json(reply)
    else:
        _show(reply)


@gpus.command(cls=Command)
def cordon(uuid: Uuid, reason: RequiredReason, until: Until = None, json: Json = False, socket: Socket = None) -> None:
    """Give this GPU no new runs."""
    with client(socket) as daemon:
        show_act(daemon.cordon(whole_uuid(daemon, uuid), reason, until=_time(until)), json=json)


@gpus.command(cls=Command)
def drain(uuid: Uuid, reason: RequiredReason, until: Until = None, json: Json = False, socket: Socket = None) -> None:
    """Let the present run end, and give this GPU no new ones."""
    with client(socket) as daemon:
        show_act(daemon.cordon(whole_uuid(daemon, uuid), reason, until=_time(until), drain=True), json=json)


@gpus.command(cls=Command)
def uncordon(uuid: Uuid, reason: Reason = "", json: Json = False, socket: Socket = None) -> None:
    """Give this GPU runs again."""
    with client(socket) as daemon:
        show_act(daemon.uncordon(whole_uuid(daemon, uuid), reason), json=json)


@gpus.command(cls=Command)
def release(uuid: Uuid, reason: Reason = "", json: Json = False, socket: Socket = None) -> None:
    """End the quarantine of a GPU whose memory did not come back."""
    with client(socket) as daemon:
        show_act(daemon.release_gpu(whole_uuid(daemon, uuid), reason), json=json)


def whole_uuid(daemon: Client, word: str) -> str:
    """The UUID that `word` is, or begins. Raises `ClientError` when it is none's or several GPUs'."""
    known = [gpu["uuid"] for gpu in daemon.gpus()["gpus"]]
    if word in known:
        return word
    found = [uuid for uuid in known if word and uuid.lower().startswith(word.lower())]
    if len(found) == 1:
        return found[0]
    if found:
        raise refuse(f"{word} begins the UUIDs of {len(found)} GPUs: write more of it.", "UUID")
    raise ClientError(ErrorCode.NOT_FOUND, f"No GPU has the UUID {word}; 'gputui gpus' lists them.", "UUID")


def _time(word: str | None) -> str | None:
    """A time as people write it here: `18:00` is the next one, and without an offset it is this machine's."""
    if word is None:
        return None
    now = datetime.now().astimezone()
    try:
        if _CLOCK.fullmatch(word):
            day = now.date() + timedelta(days=time.fromisoformat(word) <= now.time())
            return datetime.combine(day, time.fromisoformat(word)).astimezone().isoformat()
        local = datetime.fromisoformat(word)
        return (local if local.tzinfo else local.astimezone()).isoformat()
    except (ValueError, OverflowError):
        return parse_time(word, "--until").isoformat()


def _show(reply: GpusReply) -> None:
    if reply["problem"]:
        note(f"{reply['problem']['sentence']} {reply['problem']['remedy']}".rstrip())
    if not reply["gpus"]:
        note("No GPU is known; 'gputui doctor' says what was found.")
        return
    show_table(
        ["", "type", "util", "memory", "°C", "W", "state", "held by", "uuid"],
        [
            [
                str(gpu["index"]),
                gpu["type"],
                _field(gpu, "utilization", lambda gpu: f"{gpu['utilization']}%", gpu["utilization"]),
                _field(gpu, "memory_used", lambda gpu: fmt.used_of(gpu["memory_used"], gpu["memory_total"]), 0),
                _field(gpu, "temperature", lambda gpu: str(gpu["temperature"]), gpu["temperature"]),
                _field(gpu, "power", lambda gpu: f"{gpu['power']:.0f}", gpu["power"]),
                gpu["state"] + (" (cordoned)" if gpu["cordon"] else ""),
                " ".join(filter(None, [gpu["held_by"], gpu["held_user"]])) or gpu["why"],
                gpu["uuid"],
            ]
            for gpu in reply["gpus"]
        ],
        right=[0, 2, 3, 4, 5],
    )


def _field(gpu: GpuRow, name: str, show: Callable[[GpuRow], str], value: object) -> str:
    """A reading, 'N/A' for what this GPU cannot report, '?' for what is unknown."""
    if name in gpu["unsupported"]:
        return fmt.UNSUPPORTED
    return fmt.UNKNOWN if value is None else show(gpu)
