"""`submit`: one job from the command line, or many from a file, all or nothing."""

import os
from pathlib import Path
from typing import Annotated

import typer

from gputui.cli.app import Command, Json, Socket, client, new_app, option, refuse
from gputui.cli.output import note, print_json, say
from gputui.domain.errors import InputError
from gputui.protocol import SubmitReply, SubmitRequest

app = new_app()


@app.command(cls=Command, context_settings={"allow_interspersed_args": False})
def submit(
    argv: Annotated[
        list[str] | None, typer.Argument(metavar="[--] ARGV...", help="The program and its arguments, run as they are.")
    ] = None,
    *,
    file: Annotated[
        str | None, option("--file", "PATH", "Many jobs: .jsonl, .toml or .csv; '-' is JSON lines.")
    ] = None,
    name: Annotated[str | None, option("--name", "TEXT", "What people call it.")] = None,
    project: Annotated[str | None, option("--project", "TEXT", "Whose account it is.")] = None,
    class_: Annotated[str | None, option("--class", "CLASS", "core, normal or filler.")] = None,
    priority: Annotated[str | None, option("--priority", "N", "Order inside the class; more is earlier.")] = None,
    gpus: Annotated[str | None, option("--gpus", "N", "How many GPUs, all at once; 1 by default.")] = None,
    gpu_type: Annotated[str | None, option("--gpu-type", "T[,T]", "GPU types that will do, as in h100-80g.")] = None,
    gpu_memory: Annotated[str | None, option("--gpu-memory", "SIZE", "Free memory on each GPU, as in 40GiB.")] = None,
    share: Annotated[bool, typer.Option("--share", help="May live beside other sharing jobs on a GPU.")] = False,
    duration: Annotated[str | None, option("--duration", "D", "How long you think it runs, as in 1h30m.")] = None,
    time_limit: Annotated[str | None, option("--time-limit", "D", "Stop it after this long.")] = None,
    dataset: Annotated[list[str] | None, option("--dataset", "NAME", "Wait for this dataset; repeatable.")] = None,
    hold: Annotated[bool, typer.Option("--hold", help="Do not start it before it is released.")] = False,
    retries: Annotated[str | None, option("--retries", "N", "Run it again after a failure, N times at most.")] = None,
    checkpoint: Annotated[str | None, option("--checkpoint", "GLOB", "What it saves and resumes from.")] = None,
    grace: Annotated[str | None, option("--grace", "D", "Time between TERM and KILL.")] = None,
    env: Annotated[list[str] | None, option("--env", "K=V", "Set a variable; repeatable.")] = None,
    cwd: Annotated[str | None, option("--cwd", "DIR", "Run it there; here by default.")] = None,
    shell: Annotated[bool, typer.Option("--shell", help="ARGV is one command line for /bin/sh.")] = False,
    json: Json = False,
    socket: Socket = None,
) -> None:
    """Queue a job, or a file of jobs.

    The words after the options are run as they are, in this directory and with this environment.
    """
    given: dict[str, object | None] = {
        "name": name,
        "project": project,
        "class": class_,
        "priority": priority,
        "gpus": gpus,
        "gpu_type": gpu_type,
        "gpu_memory": gpu_memory,
        "share": share or None,
        "duration": duration,
        "time_limit": time_limit,
        "datasets": dataset or None,
        "hold": hold or None,
        "retries": retries,
        "checkpoint": checkpoint,
        "grace": grace,
        "env": read_settings(env or []) or None,
        "shell": shell or None,
    }
    job = {field: value for field, value in given.items() if value is not None}
    if file is not None:
        if argv or job:
            raise refuse(
                "With --file everything about the jobs stands in the file: leave the other options out.", "file"
            )
        reply = _submit_file(file, cwd, socket)
    elif not argv:
        raise refuse("Nothing to run: write the program and its arguments after --.", "argv")
    else:
        request: SubmitRequest = {"jobs": [{"argv": argv, **job}], "cwd": directory(cwd), "env": dict(os.environ)}
        with client(socket) as daemon:
            reply = daemon.submit(request)
    show_submitted(reply, json=json)


def read_settings(words: list[str]) -> dict[str, str]:
    """K=V words as a mapping. Raises `InputError`."""
    settings = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise InputError("--env", key or word, "write NAME=VALUE")
        settings[key] = value
    return settings


def directory(word: str | None) -> str:
    """Where the job runs, absolute. Raises `ClientError` when our own directory is gone."""
    try:
        return str(Path(word or "").absolute())
    except FileNotFoundError:
        raise refuse("This directory was removed: change to one that exists, or name it with --cwd.", "cwd") from None


def show_submitted(reply: SubmitReply, *, json: bool) -> None:
    """The new jobs' numbers."""
    if json:
        print_json(reply)
        return
    for warning in reply["warnings"]:
        note(warning)
    ids = reply["job_ids"]
    say(f"Submitted #{ids[0]}." if len(ids) == 1 else f"Submitted {len(ids)} jobs: {_ranges(ids)}.")


def _submit_file(file: str, cwd: str | None, socket: str | None) -> SubmitReply:
    from gputui.cli.jobfile import read_jobs

    with client(socket) as daemon:
        return daemon.submit_bulk(read_jobs(file), directory(cwd), dict(os.environ))


def _ranges(ids: list[int]) -> str:
    """[1, 2, 3, 7] as '#1 to #3, #7'."""
    if not ids:
        return "none"
    spans: list[list[int]] = []
    for number in sorted(ids):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"#{first}" if first == last else f"#{first} to #{last}" for first, last in spans)
