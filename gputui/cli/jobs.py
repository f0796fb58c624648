"""`jobs` lists; `job show`, `job why` and `job edit` look at one and change it."""

from datetime import UTC, datetime
from typing import Annotated

from gputui import format as fmt
from gputui.cli.app import Command, JobId, Json, Socket, client, job_id, new_app, option, refuse, whole_number
from gputui.cli.output import note, print_json, say, show_table
from gputui.protocol import JobRow, RunRow

app = new_app()
job = new_app(help="One job: show it, say why it waits or failed, edit it.", no_args_is_help=True)
app.add_typer(job, name="job")


@app.command(cls=Command)
def jobs(
    *,
    state: Annotated[list[str] | None, option("--state", "S", "Only in this state; repeatable.")] = None,
    project: Annotated[str | None, option("--project", "P", "Only of this project.")] = None,
    owner: Annotated[str | None, option("--owner", "U", "Only of this user.")] = None,
    filter_: Annotated[str | None, option("--filter", "TEXT", "Only where this text occurs.")] = None,
    limit: Annotated[str | None, option("--limit", "N", "At most so many.")] = None,
    json: Json = False,
    socket: Socket = None,
) -> None:
    """What runs, what waits and why, and what has ended.

    The waiting ones in queue order, the ended ones newest first.
    """
    number = None if limit is None else whole_number("--limit", limit)
    states = [part for word in state or [] for part in word.split(",") if part]
    with client(socket) as daemon:
        reply = daemon.jobs(state=states, project=project, owner=owner, filter=filter_, limit=number)
    if json:
        print_json(reply)
        return
    if not reply["jobs"]:
        note("No such job. Submit one: gputui submit --gpus 1 -- python train.py")
        return
    show_table(
        ["pos", "Δ", "id", "state", "class", "name", "owner", "data", "gpus", "time", "reason"],
        [_row(row) for row in reply["jobs"]],
        right=[0, 2, 7, 9],
    )
    hidden = reply["total"] - len(reply["jobs"])
    if hidden > 0:
        note(f"{hidden} more; --limit {reply['total']} shows all.")


@job.command(cls=Command)
def show(number: JobId, json: Json = False, socket: Socket = None) -> None:
    """All that is known of a job, with its runs."""
    with client(socket) as daemon:
        found = daemon.job(job_id(number))
    if json:
        print_json(found)
    else:
        _show(found)


@job.command(cls=Command)
def why(number: JobId, json: Json = False, socket: Socket = None) -> None:
    """Why a job waits, or why it failed."""
    with client(socket) as daemon:
        reply = daemon.why(job_id(number))
    if json:
        print_json(reply)
        return
    say(f"#{reply['job_id']}: {fmt.clean(reply['reason'])}")
    now = datetime.now(UTC)
    for thing in reply["waits_for"]:
        expected = f" (expected {fmt.moment(thing['expected'], now)})" if thing["expected"] else ""
        say(f"  {thing['kind']}: {fmt.clean(thing['what'])}{expected}")


@job.command(cls=Command)
def edit(
    number: JobId,
    *,
    name: Annotated[str | None, option("--name", "TEXT", "What people call it.")] = None,
    project: Annotated[str | None, option("--project", "TEXT", "Whose account it is.")] = None,
    class_: Annotated[str | None, option("--class", "CLASS", "core, normal or filler.")] = None,
    priority: Annotated[str | None, option("--priority", "N", "Order inside the class; more is earlier.")] = None,
    gpus: Annotated[str | None, option("--gpus", "N", "How many GPUs.")] = None,
    gpu_type: Annotated[str | None, option("--gpu-type", "T[,T]", "GPU types that will do; '' for any.")] = None,
    gpu_memory: Annotated[str | None, option("--gpu-memory", "SIZE", "Free memory on each GPU.")] = None,
    duration: Annotated[str | None, option("--duration", "D", "How long you think it runs.")] = None,
    time_limit: Annotated[str | None, option("--time-limit", "D", "Stop it after this long.")] = None,
    dataset: Annotated[list[str] | None, option("--dataset", "NAME", "Wait for these datasets instead.")] = None,
    retries: Annotated[str | None, option("--retries", "N", "How often it is run again after a failure.")] = None,
    checkpoint: Annotated[str | None, option("--checkpoint", "GLOB", "What it saves and resumes from.")] = None,
    grace: Annotated[str | None, option("--grace", "D", "Time between TERM and KILL.")] = None,
    json: Json = False,
    socket: Socket = None,
) -> None:
    """Change a waiting job."""
    given = {
        "name": name,
        "project": project,
        "class": class_,
        "priority": priority,
        "gpus": gpus,
        "gpu_type": gpu_type,
        "gpu_memory": gpu_memory,
        "duration": duration,
        "time_limit": time_limit,
        "datasets": dataset or None,
        "retries": retries,
        "checkpoint": checkpoint,
        "grace": grace,
    }
    changes = {field: value for field, value in given.items() if value is not None}
    if not changes:
        raise refuse("Say what to change, as in --priority 5; 'gputui job edit --help' lists the fields.")
    with client(socket) as daemon:
        row = daemon.edit(job_id(number), changes)
    if json:
        print_json(row)
    else:
        say(f"Changed {', '.join(changes)} of #{row['id']}.")


def deviation(row: JobRow) -> str:
    """'▲5': five places ahead of where the rules put it; '' when it stands there."""
    if row["position"] is None or row["baseline_position"] is None:
        return ""
    ahead = row["baseline_position"] - row["position"]
    if not ahead:
        return ""
    return f"▲{ahead}" if ahead > 0 else f"▼{-ahead}"


def _row(row: JobRow) -> list[str]:
    types = ",".join(row["gpu_types"]) or "any"
    waiting = row["position"] is not None
    return [
        str(row["position"]) if waiting else "",
        deviation(row),
        f"#{row['id']}",
        row["state"],
        row["class"],
        row["name"],
        row["owner"],
        fmt.percent(row["readiness"]) if row["datasets"] else "",
        f"{row['gpus']}×{types}" if row["gpus"] else "none",
        _time(row["duration"] if waiting else row["elapsed"]),
        row["reason"],
    ]


def _time(seconds: float | None) -> str:
    """An estimate that was not given, or a run that never was, is nothing to show."""
    return "" if seconds is None else fmt.duration(seconds)


def _show(row: JobRow) -> None:
    import shlex

    facts = [
        ("state", row["state"]),
        ("reason", row["reason"]),
        ("owner", row["owner"]),
        ("project", row["project"]),
        ("class", f"{row['class']}, priority {row['priority']}"),
        ("gpus", f"{row['gpus']} × {', '.join(row['gpu_types']) or 'any type'}" + (", shared" if row["share"] else "")),
        ("gpu memory", fmt.size(row["gpu_memory"]) if row["gpu_memory"] else ""),
        ("on", ", ".join(row["gpu_uuids"])),
        ("datasets", ", ".join(row["datasets"])),
        ("readiness", fmt.percent(row["readiness"]) if row["datasets"] else ""),
        ("holds", ", ".join(row["holds"])),
        ("position", f"{row['position']} {deviation(row)}".rstrip() if row["position"] else ""),
        ("estimate", _time(row["duration"])),
        ("submitted", fmt.full_time(row["submitted_at"])),
        ("started", fmt.full_time(row["started_at"]) if row["started_at"] else ""),
        ("ended", fmt.full_time(row["ended_at"]) if row["ended_at"] else ""),
        ("directory", row["cwd"]),
        ("command", shlex.join(row["argv"])),
    ]
    say(f"#{row['id']} {fmt.clean(row['name'])}")
    for label, value in facts:
        if value:
            say(f"  {label:<11} {fmt.clean(value)}")
    runs = row.get("runs") or []
    if runs:
        say()
        show_table(
            ["run", "state", "started", "ended", "end", "log"],
            [
                [
                    str(run["attempt"]),
                    run["state"],
                    fmt.full_time(run["started_at"]) if run["started_at"] else "",
                    fmt.full_time(run["ended_at"]) if run["ended_at"] else "",
                    _end(run),
                    run["log"],
                ]
                for run in runs
            ],
            right=[0],
        )


def _end(run: RunRow) -> str:
    how = run["signal"] or (f"exit code {run['exit_code']}" if run["exit_code"] is not None else "")
    return ", ".join(filter(None, [how, run["end_reason"]]))
