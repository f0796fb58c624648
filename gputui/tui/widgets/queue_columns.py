"""Columns of the job table, view by view, and what stands in their cells."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from rich.segment import Segment
from rich.style import Style

from gputui import format as plain
from gputui.protocol import JobRow
from gputui.tui import theme
from gputui.tui.text import approximately, clean, cut, duration, parse_time, since
from gputui.tui.text import width as cells_of
from gputui.tui.theme import Look
from gputui.tui.widgets import cells
from gputui.tui.widgets.cells import Column, Placed

_POSITION = Column("position", "pos", 4, 90, right=True)
_CLASS = Column("class", "class", 6, 50, wide=90, sort="class")
_LETTER = Column("letter", "", 1, 89)
_JOB = Column("job", "job", 14, 100, grows=24, sort="name")
_OWNER = Column("owner", "owner", 7, 70, grows=4, sort="owner")
_GPUS = Column("gpus", "GPUs", 10, 85, grows=4, sort="gpus")
_PROJECT = Column("project", "project", 10, 10, wide=170, sort="project")
_STATE = Column("state", "state", 11, 95, sort="state")
_REASON = Column("reason", "waits for", 16, 99, grows=44)

VIEWS: dict[str, tuple[Column, ...]] = {
    "queue": (
        _POSITION,
        Column("moved", "Δ", 4, 45, wide=90),
        _CLASS,
        _JOB,
        _OWNER,
        Column("data", "data", 8, 80, grows=2, sort="readiness"),
        _GPUS,
        Column("estimate", "estimate", 8, 40, right=True, sort="duration"),
        _REASON,
        _PROJECT,
        Column("submitted", "waiting", 7, 12, right=True, wide=150, sort="submitted"),
    ),
    "active": (
        _STATE,
        _JOB,
        _OWNER,
        _CLASS,
        Column("on", "on GPU", 8, 85, grows=4),
        Column("elapsed", "elapsed", 8, 80, right=True, sort="elapsed"),
        Column("progress", "of estimate", 14, 60, grows=6),
        Column("reason", "what happens", 16, 98, grows=30),
        _PROJECT,
    ),
    "ended": (
        _STATE,
        _JOB,
        _OWNER,
        _CLASS,
        Column("ended", "ended", 12, 75, sort="ended"),
        Column("ran", "ran", 7, 70, right=True, sort="elapsed"),
        Column("exit", "exit", 4, 72, right=True),
        Column("reason", "how", 16, 98, grows=44),
        _PROJECT,
    ),
    "all": (
        _STATE,
        _POSITION,
        _CLASS,
        _JOB,
        _OWNER,
        _GPUS,
        Column("elapsed", "elapsed", 8, 60, right=True, sort="elapsed"),
        Column("reason", "waits for, or how it ended", 16, 98, grows=44),
        _PROJECT,
    ),
}


def columns(scope: str, width: int) -> tuple[Placed, ...]:
    """The columns of a view that fit; where the class is dropped its first letter remains."""
    wanted = VIEWS[scope]
    placed = cells.place(wanted, width)
    if _CLASS in wanted and all(one.column.id != "class" for one in placed):
        placed = cells.place([_LETTER if one is _CLASS else one for one in wanted], width)
    return placed


@dataclass(slots=True)
class Context:
    """What a cell needs beside its job."""

    look: Look
    now: datetime
    gpu_labels: Mapping[str, str]
    """UUID → the name of the GPU's row on this screen."""


def demand(job: JobRow) -> str:
    """What a job wants: '4×h100-80g', '1×any', 'none'."""
    return f"{job['gpus']}×{','.join(job['gpu_types']) or 'any'}" if job["gpus"] else "none"


def _demand(job: JobRow, width: int) -> str:
    """The same in `width` cells: of several types only the models where the whole names are too long."""
    whole = demand(job)
    if cells_of(whole) <= width or len(job["gpu_types"]) < 2:
        return whole
    return f"{job['gpus']}×{','.join(name.partition('-')[0] for name in job['gpu_types'])}"


def elapsed(job: JobRow, now: datetime) -> float | None:
    """Seconds the present or last run has taken."""
    began, ended = parse_time(job["started_at"]), parse_time(job["ended_at"])
    if began is None:
        return job["elapsed"]
    return ((ended or now) - began).total_seconds()


def ticks(job: JobRow, now: datetime) -> str:
    """The part of a row that changes with time alone."""
    if job["started_at"] and not job["ended_at"]:
        return duration(elapsed(job, now))
    return ""


def deviation(job: JobRow) -> int:
    """How many places an operator's moves carried it up (negative: down)."""
    position, baseline = job["position"], job["baseline_position"]
    return baseline - position if position is not None and baseline is not None else 0


def cell(job: JobRow, placed: Placed, context: Context) -> list[Segment]:
    """One cell of a job's row."""
    look, width, right = context.look, placed.width, placed.column.right
    match placed.column.id:
        case "position":
            return cells.text("" if job["position"] is None else str(job["position"]), width, look.text, True)
        case "moved":
            moved = deviation(job)
            up, down = ("^", "v") if look.plain else ("▲", "▼")
            shown = "" if not moved else f"{up if moved > 0 else down}{abs(moved)}"
            return cells.text(shown, width, look.waiting if job["moved"] else look.dim)
        case "class":
            return cells.text(job["class"], width, _class_style(job, look))
        case "letter":
            return cells.text(job["class"][:1].upper(), width, _class_style(job, look))
        case "job":
            number = f"#{job['id']} "
            room = max(0, width - len(number))
            return [Segment(number[:width], look.dim), *cells.text(clean(job["name"]), room, look.strong)]
        case "owner":
            return cells.text(clean(job["owner"]), width, look.text)
        case "project":
            return cells.text(clean(job["project"]), width, look.dim)
        case "data":
            return _data(job, width, look)
        case "gpus":
            return cells.text(_demand(job, width), width, look.text)
        case "estimate":
            return cells.text("–" if job["duration"] is None else duration(job["duration"]), width, look.text, True)
        case "submitted":
            return cells.text(since(job["submitted_at"], context.now), width, look.dim, True)
        case "state":
            paint = theme.style(look, job["state"])
            return cells.text(f"{theme.glyph(look, job['state'])} {job['state']}", width, paint)
        case "on":
            names = [context.gpu_labels.get(uuid, "?") for uuid in job["gpu_uuids"]]
            return cells.text(",".join(names) or "–", width, look.text)
        case "elapsed":
            return cells.text(_or_dash(elapsed(job, context.now)), width, look.text, True)
        case "progress":
            return _progress(job, width, context)
        case "ended":
            ended = parse_time(job["ended_at"])
            return cells.text(plain.moment(ended, context.now), width, look.text)
        case "ran":
            return cells.text(_or_dash(elapsed(job, context.now)), width, look.text, True)
        case "exit":
            code = job["exit_code"]
            return cells.text("–" if code is None else str(code), width, look.lost if code else look.dim, True)
        case _:
            return _reason(job, width, right, context)


def _or_dash(seconds: float | None) -> str:
    return "–" if seconds is None else duration(seconds)


def _class_style(job: JobRow, look: Look) -> Style:
    return {"core": look.strong, "filler": look.dim}.get(job["class"], look.text)


def _data(job: JobRow, width: int, look: Look) -> list[Segment]:
    if not job["datasets"]:
        return cells.text("–", width, look.dim)
    if job["readiness"] is None:
        return cells.text("unknown", width, look.attention)
    left, right = ("[", "]") if look.plain else ("▕", "▏")
    paint = look.running if job["readiness"] >= 1 else look.waiting
    return [Segment(left, look.dim), *cells.bar(job["readiness"], width - 2, paint, look), Segment(right, look.dim)]


def _progress(job: JobRow, width: int, context: Context) -> list[Segment]:
    took, wanted = elapsed(job, context.now), job["duration"]
    if took is None or not wanted:
        return cells.text("no estimate" if not wanted else "–", width, context.look.dim)
    over = took > wanted
    words = f" {'over ' if over else ''}{duration(wanted)}"
    room = max(1, width - cells_of(words))
    paint = context.look.attention if over else context.look.running
    return [
        *cells.bar(min(1.0, took / wanted), room, paint, context.look),
        Segment(cut(words, width - room), context.look.dim),
    ]


def _outlook(job: JobRow, now: datetime) -> str:
    """When a run should end; on which GPUs it runs is told beside it."""
    took, wanted = elapsed(job, now), job["duration"]
    if took is None or not wanted:
        return ""
    left = wanted - took
    if left < 0:
        return f"over its estimate by {duration(-left)}"
    return f"ends ≈{plain.moment(now + timedelta(seconds=left), now)}, {duration(left)} left"


def _reason(job: JobRow, width: int, right: bool, context: Context) -> list[Segment]:
    look, words = context.look, clean(job["reason"])
    if job["state"] == "running":
        words = _outlook(job, context.now) or words
    expected = approximately(job["expected_start"], context.now) if job["state"] == "queued" else ""
    if expected and "≈" not in words:
        words = f"{words} {expected}" if words else f"starts {expected}"
    paint = look.text
    if job["state"] in ("held", "failed", "lost"):
        paint = theme.style(look, job["state"])
    elif words.startswith("starting"):
        paint = look.running
    return cells.text(words, width, paint, right)
