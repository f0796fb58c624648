"""Submitting: a hundred thousand jobs at once, and one by a command beside a bare Typer command."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Counts, Figure, p50
from bench.place import GPUTUI, PYTHON, ROOT, daemon, place
from gputui.client import Client

GPUS = "5xh100-80g,2xl40s-48g,1xa10-24g"
TYPES = ("h100-80g", "h100-80g,l40s-48g", "")
ENV = {f"VARIABLE_{number}": "value" * 8 for number in range(40)}


def sweep(count: int) -> Iterator[dict[str, object]]:
    """Jobs as a sweep has them, of a few dozen lanes; those that start sleep."""
    for number in range(count):
        job: dict[str, object] = {
            "argv": ["sleep", "3600"],
            "name": f"sweep-{number}",
            "class": ("core", "normal", "filler")[number % 3],
            "gpus": 1 + number % 4,
            "gpu_memory": f"{1 + number % 16}GiB",
            "duration": "1h",
        }
        if wanted := TYPES[number % len(TYPES)]:
            job["gpu_type"] = wanted
        yield job


def queue_of(client: Client, count: int) -> None:
    """Fill a daemon: eight sleepers on one GPU each, and behind them `count` jobs that wait."""
    holders = [{"argv": ["sleep", "3600"], "name": f"holder-{n}", "class": "core", "priority": 9} for n in range(8)]
    client.submit({"jobs": holders, "cwd": "/", "env": ENV})
    client.submit_bulk(sweep(count), "/", ENV)


def bulk(counts: Counts) -> list[Figure]:
    """JSON lines into SQLite, by the command and straight through the client; frozen, so that nothing else happens."""
    with place() as where, daemon(where, GPUS) as running:
        running.client.freeze("a measurement")
        file = where.folder / "jobs.jsonl"
        file.write_text("".join(json.dumps(job) + "\n" for job in sweep(counts.bulk)))
        command = [*GPUTUI, "submit", "--file", str(file)]
        began = time.monotonic()
        subprocess.run(command, env=running.env, check=True, capture_output=True)
        by_command = counts.bulk / (time.monotonic() - began)
        jobs = list(sweep(counts.bulk))
        began = time.monotonic()
        running.client.submit_bulk(jobs, "/", ENV)
        by_client = counts.bulk / (time.monotonic() - began)
        assert running.client.status()["queued"] == 2 * counts.bulk
    name = f"bulk submit of {counts.bulk:,}"
    return [
        Figure(f"{name} by the command", by_command, "jobs/s", 20_000, at_least=True),
        Figure(f"{name} by the client", by_client, "jobs/s", 20_000, at_least=True),
    ]


def single(counts: Counts) -> list[Figure]:
    """One call of the command that submits, and of a bare Typer command, in turns."""
    ours: list[float] = []
    bare: list[float] = []
    with place() as where, daemon(where, GPUS) as running:
        running.client.freeze("a measurement")
        submit = [*GPUTUI, "submit", "--name", "one", "--", "sleep", "1"]
        typer = [*PYTHON, str(ROOT / "bench" / "bare_typer.py"), "--name", "one", "--", "sleep", "1"]
        for _ in range(counts.submits):
            ours.append(_lasts(submit, running.env, where.folder))
            bare.append(_lasts(typer, where.env, where.folder))
    return [
        Figure(
            "submit, one call of the command", p50(ours[1:]) * 1000, "ms", 2.0, p50(bare[1:]) * 1000, "bare Typer",
            detail={"ours_ms": ours, "bare_ms": bare},
        )
    ]  # fmt: skip


def measure(counts: Counts) -> list[Figure]:
    """Both."""
    return single(counts) + bulk(counts)


def _lasts(command: list[str], env: dict[str, str], folder: Path) -> float:
    began = time.monotonic()
    subprocess.run(command, env=env, cwd=folder, check=True, capture_output=True)
    return time.monotonic() - began
