"""The demo's datasets and jobs: enough of each kind that every state shows within the first minute."""

import sys
from pathlib import Path

from gputui.client import Client, ClientError

PROGRAMS = Path(__file__).parent / "programs"
GPUS = "4xh100-80g,2xl40s-48g,2xa10-24g"
FOREIGN_GPU = 5
FOREIGN_MEMORY = 40 * 1024**3
"""Leaves less than any job asks for."""
CORDONED_GPU = 7

Job = dict[str, object]


def trainer(name: str, seconds: float, *, load: float = 0.9, fail_at: float | None = None) -> Job:
    """A training that declares its checkpoints."""
    argv = [sys.executable, str(PROGRAMS / "trainer.py"), "--seconds", f"{seconds:g}", "--load", f"{load:g}"]
    if fail_at is not None:
        argv += ["--fail-at", f"{fail_at:g}"]
    return {"argv": argv, "name": name, "duration": seconds, "checkpoint": "step-*.ckpt", "grace": 10}


def sleeper(name: str, seconds: float, *, stubborn: bool = False) -> Job:
    """A job that holds its GPU idle."""
    argv = [sys.executable, str(PROGRAMS / "sleeper.py"), "--seconds", f"{seconds:g}"]
    return {"argv": [*argv, "--stubborn"] if stubborn else argv, "name": name, "duration": seconds, "grace": 8}


def h100(gpus: int = 1, memory: str = "60GiB") -> Job:
    """The demand of a large job."""
    return {"gpus": gpus, "gpu_type": "h100-80g", "gpu_memory": memory}


L40S: Job = {"gpus": 1, "gpu_type": "l40s-48g", "gpu_memory": "40GiB"}
A10: Job = {"gpus": 1, "gpu_type": "a10-24g", "gpu_memory": "16GiB"}
SMALL: Job = {"gpus": 1, "gpu_type": "a10-24g,l40s-48g", "gpu_memory": "12GiB", "class": "filler"}

STUBBORN = "serve-old"
STUBBORN_RUNS_S = 8
CANCELLED = "never-mind"
FAVOURITE = "sweep lr=3e-4"


def first_jobs() -> list[Job]:
    """What is queued at the start, in this order."""
    core: Job = {"class": "core"}
    sweep = [
        trainer(f"sweep lr={rate}", 35, load=0.7) | SMALL | _of("search") for rate in ("1e-3", "6e-4", "3e-4", "1e-4")
    ]
    return [
        trainer("tokenizer-check", 8, load=0.6) | A10 | core | _of("base"),
        trainer("config-typo", 30, fail_at=6) | A10 | core | _of("align"),
        sleeper(STUBBORN, 600, stubborn=True) | A10 | core | _of("search"),
        trainer("pretrain-1b", 1500) | h100(2, "70GiB") | core | _of("base"),
        trainer("sft-7b", 240, load=0.85) | h100() | _of("align"),
        sleeper("eval-server", 420) | h100(1, "30GiB") | _of("align"),
        trainer("embed-v3", 90, load=0.5) | L40S | _of("search"),
        trainer("sft-代码-7b", 120) | h100() | {"datasets": ["corpus-zh"]} | _of("align"),
        trainer("vision-13b", 3600) | h100(2) | core | {"datasets": ["images"]} | _of("vision"),
        trainer("dpo-7b", 300) | h100(4) | {"priority": -1} | _of("align"),
        trainer("ablation-lr", 60) | h100() | {"hold": True} | _of("base"),
        trainer(CANCELLED, 60) | SMALL | _of("search"),
        *sweep,
        trainer("tokens-stats", 25, load=0.4) | SMALL | {"datasets": ["tokens"]} | _of("base"),
    ]


def _of(project: str) -> Job:
    return {"project": project}


def next_job(number: int) -> Job:
    """One more job for a queue that got short; the cycle has a failing one in it."""
    cycle = number % 5
    if cycle == 3:
        return trainer(f"sft-7b-r{number}", 150, load=0.85) | h100() | _of("align")
    if cycle == 4:
        return trainer(f"merge-{number}", 40, fail_at=9) | SMALL | _of("align")
    return trainer(f"sweep seed={number}", 30 + 10 * cycle, load=0.7) | SMALL | _of("search")


def add_datasets(daemon: Client, data: Path) -> None:
    """Three inputs: one there, one half an hour away, one that is complete in a minute and a half."""
    daemon.add_dataset({"name": "tokens", "location": str(data / "tokens"), "min_files": 4, "marker": "_SUCCESS"})
    daemon.add_dataset(
        {"name": "corpus-zh", "location": str(data / "corpus-zh"), "min_files": 90, "marker": "_SUCCESS"}
    )
    daemon.add_dataset({"name": "images", "location": str(data / "images"), "min_size": "128MiB"})


def arrange(daemon: Client) -> None:
    """Submit the first jobs and do what an operator would: cordon a GPU, move, cancel."""
    gpus = daemon.gpus()["gpus"]
    daemon.cordon(gpus[CORDONED_GPU]["uuid"], "fan fails at full load")
    jobs = first_jobs()
    ids = daemon.submit({"jobs": jobs})["job_ids"]
    number = {job["name"]: job_id for job, job_id in zip(jobs, ids, strict=True)}
    daemon.move(number[FAVOURITE], {"to": "up", "n": 3})
    daemon.cancel([number[CANCELLED]], "started with the wrong config")


def cancel_stubborn(daemon: Client) -> None:
    """Once it has run for a while, ask the job that takes its time to stop, so that `stopping` can be seen."""
    for job in daemon.jobs(state=["running"])["jobs"]:
        if job["name"] == STUBBORN and (job["elapsed"] or 0) >= STUBBORN_RUNS_S:
            daemon.cancel([job["id"]], "replaced by a newer one")


def top_up(daemon: Client, number: int) -> int:
    """Keep the queue from running dry; returns how many jobs were made so far."""
    waiting = daemon.jobs(state=["queued"])
    if waiting["total"] >= 7:
        return number
    try:
        daemon.submit({"jobs": [next_job(number)]})
    except ClientError:
        return number
    return number + 1
