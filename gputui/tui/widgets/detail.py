"""The pane below: everything that decides about the job or GPU under the cursor."""

import base64
from dataclasses import dataclass, field
from datetime import datetime

from gputui import format as plain
from gputui.protocol import GpuRow, JobRow, WhyReply
from gputui.tui import theme
from gputui.tui.bars import bar
from gputui.tui.text import approximately, clean, command, cut, duration, gib, since, wrap
from gputui.tui.theme import Look
from gputui.tui.widgets import queue_columns
from gputui.tui.widgets.gpu_table import shown_state
from gputui.tui.widgets.lines import Line

ACTIVE = ("starting", "running", "checkpointing", "stopping", "suspended")
ENDED = ("succeeded", "failed", "cancelled", "lost")


@dataclass(slots=True)
class Details:
    """What was asked about the job under the cursor, beyond its row."""

    job_id: int = -1
    why: WhyReply | None = None
    log: list[str] = field(default_factory=list)


def title(job: JobRow) -> str:
    """'#420 pretrain-13b · core · chen · project base'."""
    return (
        f"#{job['id']} {clean(job['name'])} · {job['class']} · {clean(job['owner'])} · project {clean(job['project'])}"
    )


def job_lines(  # noqa: PLR0917 - what one pane is about
    job: JobRow, details: Details, labels: dict[str, str], look: Look, now: datetime, width: int, room: int
) -> list[Line]:
    """At most `room` lines: why first, then numbers, command, and the end of the log."""
    why = details.why if details.why and details.why["job_id"] == job["id"] else None
    lines: list[Line] = [*_why(job, why, look, now, width, max(1, room - 2))]
    for fact in (
        _facts(job, labels, look, now),
        _run(job, look, now),
        [("command  ", look.dim), (command(job["argv"]), look.text)],
    ):
        lines += [fact] if fact else []
    log = details.log if details.job_id == job["id"] else []
    left = room - len(lines)
    if log and left > 0:
        for index, text in enumerate(log[-left:]):
            lines.append(
                [("log      " if not index else "         ", look.dim), (cut(clean(text), width - 9), look.text)]
            )
    return lines[:room]


def _why(  # noqa: PLR0917
    job: JobRow, why: WhyReply | None, look: Look, now: datetime, width: int, room: int
) -> list[Line]:
    words = {"queued": "waits for", "held": "held"}.get(job["state"], job["state"])
    head = f"{theme.glyph(look, job['state'])} {words}: "
    reason = clean(why["reason"] if why else job["reason"]) or "nothing; it starts as soon as the next pass runs"
    if job["state"] not in ("queued", "held") and not (why["reason"] if why else job["reason"]):
        head, reason = f"{theme.glyph(look, job['state'])} {job['state']}", ""
    # 'running: running on GPU 3' says it twice
    sentence = reason.removeprefix(f"{job['state']} ")
    expected = approximately(job["expected_start"], now) if job["state"] == "queued" else ""
    if expected and "≈" not in reason:
        sentence += f" · expected to start {expected}"
    wrapped = wrap(head + sentence, width, min(2, room))
    paint = theme.style(look, job["state"])
    lines: list[Line] = [[(wrapped[0][: len(head)], paint), (wrapped[0][len(head) :], look.strong)]]
    lines += [[(text, look.strong)] for text in wrapped[1:]]
    for item in (why["waits_for"] if why else [])[: max(0, room - len(lines) - 1)]:
        when = approximately(item["expected"], now)
        what = clean(item["what"])
        if what != reason:
            lines.append(
                [
                    (f"  {item['kind'] + ' ':<9}", look.dim),
                    (what, look.text),
                    (f"  {when}" if when else "", look.waiting),
                ]
            )
    return lines


def _facts(job: JobRow, labels: dict[str, str], look: Look, now: datetime) -> Line:
    memory = f" of ≥{plain.size(job['gpu_memory'])}" if job["gpu_memory"] else ""
    line: Line = [
        ("needs    ", look.dim),
        (queue_columns.demand(job) + memory + (" shared" if job["share"] else ""), look.text),
    ]
    if job["state"] in ("queued", "held"):
        line += [("   estimate ", look.dim), (duration(job["duration"]) if job["duration"] else "none", look.text)]
    if job["gpu_uuids"]:
        line += [
            ("   on GPU ", look.dim),
            (", ".join(labels.get(uuid, uuid) for uuid in job["gpu_uuids"]), look.strong),
        ]
    if job["datasets"]:
        ready = "unknown" if job["readiness"] is None else plain.percent(job["readiness"]) + " there"
        line += [("   data ", look.dim), (f"{', '.join(map(clean, job['datasets']))} ({ready})", look.text)]
    moved = queue_columns.deviation(job)
    if moved and job["position"] is not None:
        line += [
            ("   moved ", look.dim),
            (f"{'up' if moved > 0 else 'down'} {abs(moved)} from {job['baseline_position']}", look.waiting),
        ]
    if job["holds"]:
        line += [("   holds ", look.dim), (", ".join(job["holds"]), look.attention)]
    line += [("   submitted ", look.dim), (f"{since(job['submitted_at'], now)} ago", look.text)]
    if job["priority"]:
        line += [("   priority ", look.dim), (str(job["priority"]), look.text)]
    return line


def _run(job: JobRow, look: Look, now: datetime) -> Line:
    took, wanted = queue_columns.elapsed(job, now), job["duration"]
    if job["state"] in ACTIVE and took is not None:
        line: Line = [("running  ", look.dim), (duration(took), look.strong)]
        if wanted:
            paint = look.attention if took > wanted else look.running
            line += [
                (" of ", look.dim),
                (f"{duration(wanted)} ", look.text),
                (bar(min(1, took / wanted), 12, look.plain), paint),
            ]
            left = wanted - took
            line += [(f" {duration(left)} left" if left >= 0 else f" {duration(-left)} over its estimate", look.dim)]
        if job["attempt"] > 1:
            line += [("   attempt ", look.dim), (str(job["attempt"]), look.attention)]
        return line
    if job["state"] in ENDED:
        line = [("ended    ", look.dim), (plain.moment(job["ended_at"], now), look.text)]
        if took is not None:
            line += [("   ran ", look.dim), (duration(took), look.text)]
        if job["exit_code"] is not None:
            line += [("   exit ", look.dim), (str(job["exit_code"]), look.lost if job["exit_code"] else look.text)]
        return line
    return []


def gpu_lines(gpu: GpuRow, look: Look, now: datetime, room: int) -> list[Line]:
    """At most `room` lines about a GPU: its state, what it does, its processes."""
    seen = shown_state(gpu)
    state = f"{theme.glyph(look, seen)} {'idle' if seen == 'idle' else gpu['state']}"
    lines: list[Line] = [[(state, theme.style(look, seen)), (_held(gpu, now), look.strong)]]
    if gpu["cordon"]:
        cordon = gpu["cordon"]
        verb = "draining" if cordon["drain"] and gpu["state"] == "busy" else "cordoned"
        until = f", until {plain.moment(cordon['until'], now)}" if cordon["until"] else ""
        words = f"{verb} by {clean(cordon['by'])} {since(cordon['since'], now)} ago: {clean(cordon['reason'])}{until}"
        lines.append([("cordon   ", look.dim), (words, look.attention), ("   D ends it", look.dim)])
    lines += [[("warning  ", look.dim), (clean(warning), look.attention)] for warning in gpu["warnings"]]
    facts = [clean(gpu["name"]), gpu["uuid"]]
    if gpu["power_limit"] is not None:
        facts.append(f"limit {gpu['power_limit']:.0f} W")
    if gpu["sm_clock"] is not None:
        facts.append(f"{gpu['sm_clock']} MHz")
    if gpu["throttle"]:
        facts.append("slowed by " + ", ".join(gpu["throttle"]))
    lines.append([("device   ", look.dim), ("   ".join(facts), look.text)])
    lines += _processes(gpu, look)
    return lines[:room]


def _held(gpu: GpuRow, now: datetime) -> str:
    """': #412 sft-7b of li for 3h12', and why the state is what it is."""
    holder = clean(gpu["held_by"])
    if holder and gpu["held_user"]:
        holder += f" of {clean(gpu['held_user'])}"
    if holder and gpu["held_since"]:
        holder += f" for {since(gpu['held_since'], now)}"
    words = " · ".join(part for part in (holder, clean(gpu["why"])) if part)
    return f": {words}" if words else ""


def _processes(gpu: GpuRow, look: Look) -> list[Line]:
    if not gpu["processes"]:
        return [[("process  ", look.dim), ("none seen", look.dim)]]
    lines: list[Line] = []
    for index, process in enumerate(gpu["processes"]):
        memory = "?" if process["memory_used"] is None else gib(process["memory_used"]) + "G"
        where = f" in {clean(process['container'])}" if process.get("container") else ""
        lines.append([
            ("process  " if not index else "         ", look.dim),
            (f"{process['pid']:>7}  {cut(clean(process['user']), 10):<10} {memory:>7}  ", look.text),
            ("" if process["managed"] else "foreign  ", look.attention),
            (clean(process["command"]) + where, look.strong),
        ])  # fmt: skip
    return lines


def tail(data: str, lines: int) -> list[str]:
    """The last `lines` lines of a log chunk's bytes, carriage returns taken as a terminal would."""
    text = base64.b64decode(data).decode("utf-8", "replace")
    rows = [row.rsplit("\r", 1)[-1] for row in text.rstrip("\r\n").replace("\r\n", "\n").split("\n")]
    return [row for row in rows if row.strip()][-lines:]
