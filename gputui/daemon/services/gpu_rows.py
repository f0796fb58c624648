"""GPU rows of the protocol, from memory and the latest snapshot."""

import os
import shlex
from datetime import datetime

from gputui.daemon.context import Context
from gputui.daemon.gpu_table import Entry
from gputui.format import moment
from gputui.gpus import rows
from gputui.gpus.reading import HostReading, Snapshot
from gputui.protocol import Cordon, GpuRow, GpusReply


def reply(ctx: Context, snapshot: Snapshot | None) -> GpusReply:
    """All GPUs and the host."""
    now = ctx.clock.monotonic()
    entries = sorted(ctx.memory.gpus, key=lambda entry: (entry.reading.index if entry.reading else 1 << 20, entry.uuid))
    return {
        "sampled_at": (snapshot.sampled_at if snapshot else ctx.clock.now()).isoformat(),
        "age": max(0.0, now - snapshot.monotonic) if snapshot else 0.0,
        "source": snapshot.source if snapshot else "none",
        "driver": snapshot.driver if snapshot else "",
        "problem": rows.problem_row(snapshot.problem if snapshot else None),
        "host": rows.host_row(snapshot.host if snapshot else HostReading(), list(ctx.memory.cpu_history)),
        "gpus": [row(ctx, entry, now) for entry in entries if entry.reading is not None],
    }


def row(ctx: Context, entry: Entry, now: float) -> GpuRow:
    """One GPU."""
    reading = entry.reading
    assert reading is not None, "only GPUs that were read are shown"
    runs = sorted(entry.runs.values(), key=lambda run: run.granted_at)
    foreign = max(entry.foreign, key=lambda process: rows.known(process.memory) or 0, default=None)
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
    shown = rows.gpu_row(reading, history=ctx.memory.last_minute.of(entry.uuid, now if stale else entry.read_at))
    if stale:
        shown["utilization"] = shown["memory_used"] = shown["temperature"] = None
        shown["power"] = shown["fan"] = shown["sm_clock"] = None
    shown["state"] = state.value
    shown["why"] = entry.why(now, _until(ctx, entry))
    shown["cordon"] = _cordon(entry)
    shown["processes"] = [rows.process_row(one, managed=one not in entry.foreign) for one in reading.processes or ()]
    shown["job_id"] = runs[0].job_id if runs else None
    shown["run_ids"] = [run.run_id for run in runs]
    shown["job_ids"] = [run.job_id for run in runs]
    shown["held_by"], shown["held_user"], shown["held_since"] = held_by, held_user, _iso(held_since)
    return shown


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
