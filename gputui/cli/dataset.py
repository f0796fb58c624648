"""`dataset`: named inputs, and how much of each is there."""

import os
from datetime import UTC, datetime
from typing import Annotated, cast

import typer

from gputui import format as fmt
from gputui.cli.app import Command, Json, Socket, client, new_app, option
from gputui.cli.output import note, print_json, say, show_table
from gputui.protocol import DatasetRequest, DatasetRow

app = new_app()
dataset = new_app(help="Named inputs that jobs wait for, and how much of each is there.", no_args_is_help=True)
app.add_typer(dataset, name="dataset")

Name = Annotated[str, typer.Argument(metavar="NAME")]


@dataset.command(cls=Command)
def add(
    name: Name,
    location: Annotated[str, typer.Argument(metavar="LOCATION", help="A path or a glob in quotes.")],
    *,
    exists: Annotated[bool, typer.Option("--exists", help="It is enough that it exists.")] = False,
    min_files: Annotated[str | None, option("--min-files", "N", "At least so many files.")] = None,
    min_size: Annotated[str | None, option("--min-size", "SIZE", "At least this much, as in 40GiB.")] = None,
    marker: Annotated[str | None, option("--marker", "FILE", "A file that is written last, as _SUCCESS.")] = None,
    manifest: Annotated[str | None, option("--manifest", "FILE", "A list of names and sizes.")] = None,
    settled: Annotated[str | None, option("--settled", "D", "No change for this long, as in 10m.")] = None,
    json: Json = False,
    socket: Socket = None,
) -> None:
    """Name an input and say when it counts as complete."""
    given = {
        "name": name,
        "location": _absolute(location),
        "exists": exists or None,
        "min_files": min_files,
        "min_size": min_size,
        "marker": marker,
        "manifest": manifest,
        "settled": settled,
    }
    request = cast(DatasetRequest, {field: value for field, value in given.items() if value is not None})
    with client(socket) as daemon:
        row = daemon.add_dataset(request)
    _answer(row, f"Added {row['name']}", json=json)


@dataset.command("list", cls=Command)
def list_(json: Json = False, socket: Socket = None) -> None:
    """Every dataset, how much of it is there, and when it will be complete."""
    with client(socket) as daemon:
        rows = daemon.datasets()
    if json:
        print_json({"datasets": rows})
        return
    if not rows:
        note("No dataset yet. Add one: gputui dataset add NAME /data/corpus --marker _SUCCESS")
        return
    now = datetime.now(UTC)
    show_table(
        ["name", "there", "files", "size", "rate", "complete", "jobs", "expects", "location", "reason"],
        [
            [
                row["name"],
                fmt.percent(row["readiness"]),
                fmt.UNKNOWN if row["files"] is None else str(row["files"]),
                fmt.size(row["size"]),
                fmt.rate(row["rate"]) if row["rate"] else "",
                "yes" if row["ready"] else (f"≈{fmt.moment(row['expected'], now)}" if row["expected"] else ""),
                str(row["waiting_jobs"]),
                ", ".join(row["expects"]),
                row["location"],
                row["reason"],
            ]
            for row in rows
        ],
        right=[1, 2, 3, 4, 6],
    )


@dataset.command(cls=Command)
def check(name: Name, json: Json = False, socket: Socket = None) -> None:
    """Look at a dataset now."""
    with client(socket) as daemon:
        row = daemon.check_dataset(name)
    _answer(row, row["name"], json=json)


@dataset.command(cls=Command)
def remove(name: Name, json: Json = False, socket: Socket = None) -> None:
    """Forget a dataset; its files stay."""
    with client(socket) as daemon:
        row = daemon.remove_dataset(name)
    if json:
        print_json(row)
    else:
        say(f"Removed {fmt.clean(name)}; its files stay.")


def _absolute(location: str) -> str:
    """A relative path is meant from here; a URL is left as it is."""
    return location if "://" in location else os.path.join(os.getcwd(), location)  # noqa: PTH109, PTH118 - keeps globs


def _answer(row: DatasetRow, start: str, *, json: bool) -> None:
    if json:
        print_json(row)
    else:
        say(f"{fmt.clean(start)}: {fmt.clean(row['reason'])}.")
