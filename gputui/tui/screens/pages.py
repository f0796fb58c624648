"""Pages over the main screen: everything about a job, why it waits or failed, everything about a GPU."""

from typing import TYPE_CHECKING

from rich.text import Text

from gputui import format as plain
from gputui.protocol import GpuRow, JobRow
from gputui.tui.screens.looking import job_here
from gputui.tui.text import approximately, clean, command
from gputui.tui.theme import Look
from gputui.tui.widgets import detail, queue_columns
from gputui.tui.widgets.gpu_table import label
from gputui.tui.widgets.help import Page

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen


def _facts(facts: list[tuple[str, str]], look: Look) -> Text:
    text = Text()
    for name, value in facts:
        text.append(f"{name:<16}", look.dim)
        text.append(f"{value}\n", look.text)
    return text


async def job(screen: "MainScreen") -> None:
    """Everything about the job under the cursor."""
    here = await job_here(screen)
    if here is None:
        screen.flash("No job is under the cursor.", good=False)
        return
    row = await screen.backend.job(here["id"])
    body = _facts(_job_facts(row), screen.look)
    for run in row.get("runs", []):
        body.append(f"\nRun {run['attempt']}: {run['state']}\n", screen.look.title)
        ended = {
            "exit code": run["exit_code"],
            "signal": run["signal"],
            "ended because": run["end_reason"],
            "resumed from": run["resumed_from"],
            "checkpoint": run["checkpoint"],
        }
        facts = [("began", plain.full_time(run["started_at"]) if run["started_at"] else "–")]
        if run["ended_at"]:
            facts.append(("ended", plain.full_time(run["ended_at"])))
        facts += [(name, clean(str(value))) for name, value in ended.items() if value is not None]
        facts += [("GPUs", ", ".join(run["gpu_uuids"]) or "none"), ("log", clean(run["log"]))]
        body.append_text(_facts(facts, screen.look))
    screen.app.push_screen(Page(detail.title(row), body))


def _job_facts(row: JobRow) -> list[tuple[str, str]]:
    position = "–" if row["position"] is None else f"{row['position']} (the rules say {row['baseline_position']})"
    return [
        ("state", row["state"] + (f": {clean(row['reason'])}" if row["reason"] else "")),
        ("position", position),
        ("class", f"{row['class']}, priority {row['priority']}"),
        ("owner", f"{clean(row['owner'])}, project {clean(row['project'])}"),
        (
            "needs",
            queue_columns.demand(row) + (f" with {plain.size(row['gpu_memory'])} each" if row["gpu_memory"] else ""),
        ),
        ("estimate", plain.duration(row["duration"]) if row["duration"] else "none given"),
        ("datasets", ", ".join(map(clean, row["datasets"])) or "none"),
        ("readiness", "unknown" if row["readiness"] is None else plain.percent(row["readiness"])),
        ("holds", ", ".join(row["holds"]) or "none"),
        ("submitted", plain.full_time(row["submitted_at"])),
        ("expected start", plain.full_time(row["expected_start"]) if row["expected_start"] else "–"),
        ("command", command(row["argv"])),
        ("directory", clean(row["cwd"])),
    ]


async def why(screen: "MainScreen") -> None:
    """What the job waits for, or why it failed."""
    here = await job_here(screen)
    if here is None:
        screen.flash("No job is under the cursor.", good=False)
        return
    reply = await screen.backend.why(here["id"])
    now = screen.clock()
    body = Text()
    body.append(f"{clean(reply['reason']) or 'Nothing stands in its way.'}\n\n", screen.look.strong)
    for item in reply["waits_for"]:
        body.append(f"{item['kind']:<12}", screen.look.dim)
        body.append(clean(item["what"]), screen.look.text)
        if item["expected"]:
            exact = plain.full_time(item["expected"])
            body.append(f"\n{'':<12}{approximately(item['expected'], now)} ({exact})", screen.look.waiting)
        body.append("\n")
    screen.app.push_screen(Page(f"why: {detail.title(here)}", body))


def gpu(screen: "MainScreen") -> None:
    """Everything about the GPU under the cursor."""
    row = screen.gpus.current
    if row is None:
        screen.flash("No GPU is under the cursor.", good=False)
        return
    body = Text()
    for line in detail.gpu_lines(row, screen.look, screen.clock(), 1000):
        for words, style in line:
            body.append(words, style)
        body.append("\n")
    facts = [
        ("held by", clean(f"{row['held_by']} {row['held_user']}".strip()) or "nobody"),
        ("since", plain.full_time(row["held_since"]) if row["held_since"] else "–"),
        ("memory", f"{_shown(row, 'memory_used')} of {_shown(row, 'memory_total')}"),
        ("utilization", _shown(row, "utilization", " %")),
        ("temperature", _shown(row, "temperature", " °C")),
        ("power", _shown(row, "power", " W")),
        ("fan", _shown(row, "fan", " %")),
    ]
    if screen.reply:
        facts.append(("read at", plain.full_time(screen.reply["sampled_at"])))
    body.append("\n")
    body.append_text(_facts(facts, screen.look))
    name = label(row, screen.gpus.gpus)
    screen.app.push_screen(Page(f"GPU {name} · {row['type']}", body))


def _shown(row: GpuRow, field: str, unit: str = "") -> str:
    """A reading with its unit; without `unit` it is memory."""
    value = row.get(field)
    if not isinstance(value, int | float):
        return "N/A" if field in row["unsupported"] else "? (no reading)"
    return f"{value:.0f}{unit}" if unit else plain.size(int(value))
