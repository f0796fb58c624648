"""GPU rows of the protocol, from memory and the latest snapshot."""

import os
import shlex
from datetime import datetime

from gputui.daemon.context import Context
from gputui.daemon.gpu_table import Entry
from gputui.format import moment
from gputui.gpus.reading import Float, HostReading, Int, Missing, ProcessReading, Snapshot
from gputui.protocol import Cordon, GpuProcess, GpuRow, GpusReply, HostRow

_FIELDS = (
    "utilization", "memory_used", "memory_total", "temperature", "power", "power_limit", "fan", "sm_clock",
)  # fmt: skip


def reply(ctx: Context, snapshot: Snapshot | None) -> GpusReply:
    """All GPUs and the host."""
    now = ctx.clock.monotonic()
    entries = sorted(ctx.memory.gpus, key=lambda entry: (entry.reading.index if entry.reading else 1 << 20, entry.uuid))
    problem = snapshot.problem if snapshot else None
    return {
        "sampled_at": (snapshot.sampled_at if snapshot else ctx.clock.now()).isoformat(),
        "age": max(0.0, now - snapshot.monotonic) if snapshot else 0.0,
        "source": snapshot.source if snapshot else "none",
        "driver": snapshot.driver if snapshot else "",
        "problem": {"code": problem.code, "sentence": problem.sentence, "remedy": problem.remedy} if problem else None,
        "host": host_row(snapshot.host if snapshot else HostReading(), list(ctx.memory.cpu_history)),
        "gpus": [row(ctx, entry, now) for entry in entries if entry.reading is not None],
    }


def row(ctx: Context, entry: Entry, now: float) -> GpuRow:
    """One GPU."""
    reading = entry.reading
    assert reading is not None, "only GPUs that were read are shown"
    unsupported = [name for name in _FIELDS if getattr(reading, name) is Missing.UNSUPPORTED]
    runs = sorted(entry.runs.values(), key=lambda run: run.granted_at)
    foreign = max(entry.foreign, key=lambda process: number(process.memory) or 0, default=None)
    state = entry.state(now)
    stale = not entry.fresh(now)
    held_by, held_user, held_since = "", "", None
    if runs:
        notes = [ctx.memory.notes[run.job_id] for run in runs]
        held_by = ", ".join(f"#{note.id} {note.name}".rstrip() for note in notes)
        held_user = ", ".join(dict.fromkeys(note.owner for note in notes))
        held_since = runs[0].started_at or runs[0].granted_at
    elif foreign is not None:
        held_by, held_user = program(foreign.command), foreign.user
        held_since = entry.held_since.get(foreign.pid)
    return {
        "uuid": entry.uuid,
        "index": reading.index,
        "name": reading.name,
        "type": reading.type,
        "state": state.value,
        "utilization": None if stale else number(reading.utilization),
        "memory_used": None if stale else number(reading.memory_used),
        "memory_total": number(reading.memory_total),
        "temperature": None if stale else number(reading.temperature),
        "power": None if stale else real(reading.power),
        "job_id": runs[0].job_id if runs else None,
        "processes": [process(one, managed=one not in entry.foreign) for one in reading.processes or ()],
        "unsupported": unsupported,
        "power_limit": real(reading.power_limit),
        "fan": None if stale else number(reading.fan),
        "sm_clock": None if stale else number(reading.sm_clock),
        "throttle": list(reading.throttle),
        "mig_parent": reading.mig_parent or None,
        "unified_memory": reading.unified_memory,
        "why": entry.why(now, _until(ctx, entry)),
        "cordon": _cordon(entry),
        "run_ids": [run.run_id for run in runs],
        "job_ids": [run.job_id for run in runs],
        "held_by": held_by,
        "held_user": held_user,
        "held_since": _iso(held_since),
        "warnings": list(reading.warnings),
        "history": entry.padded_history(),
    }


def process(reading: ProcessReading, *, managed: bool) -> GpuProcess:
    """One process on a GPU."""
    made: GpuProcess = {
        "pid": reading.pid,
        "user": reading.user,
        "command": reading.command,
        "memory_used": number(reading.memory),
        "managed": managed,
        "sm": number(reading.sm),
    }
    if reading.container:
        made["container"] = reading.container
    return made


def host_row(host: HostReading, history: list[float | None]) -> HostRow:
    """The machine."""
    return {
        "hostname": host.hostname,
        "cpu_percent": real(host.cpu_percent),
        "cpu_count": host.cpu_count,
        "load_1m": real(host.load_1m),
        "memory_used": number(host.memory_used),
        "memory_total": number(host.memory_total),
        "disks": list(host.disks),
        "net_rx": real(host.net_rx),
        "net_tx": real(host.net_tx),
        "cpu_history": history,
    }


def number(value: Int) -> int | None:
    """None for what is absent, whyever."""
    return value if isinstance(value, int) else None


def real(value: Float) -> float | None:
    """None for what is absent, whyever."""
    return None if isinstance(value, Missing) else value


def program(command: str) -> str:
    """What to call a process: the name of its program."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    return os.path.basename(words[0]) if words else "?"  # noqa: PTH119 - a name, not a path of ours


def _until(ctx: Context, entry: Entry) -> str:
    return moment(entry.cordon.until, ctx.clock.now()) if entry.cordon and entry.cordon.until else ""


def _cordon(entry: Entry) -> Cordon | None:
    state = entry.cordon
    if state is None:
        return None
    return {
        "reason": state.reason,
        "by": state.by,
        "since": state.since.isoformat(),
        "until": _iso(state.until),
        "drain": state.drain,
    }


def _iso(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
