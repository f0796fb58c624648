"""Editing a job: the fields as people write them, checked as at submit, become columns of its row."""

from collections.abc import Collection, Mapping
from typing import Any

from gputui.domain.errors import InputError, Refused
from gputui.domain.jobspec import FIELDS, parse_job
from gputui.domain.lifecycle import ENDED, WAITING
from gputui.protocol import ErrorCode
from gputui.store.tables import Job

COLUMN = {
    "name": "name",
    "project": "project",
    "class": "priority_class",
    "priority": "priority",
    "gpus": "gpus",
    "gpu_type": "gpu_types",
    "gpu_memory": "gpu_memory",
    "share": "share",
    "duration": "duration",
    "datasets": "datasets",
    "retries": "retries",
    "grace": "grace",
    "checkpoint": "checkpoint",
    "time_limit": "time_limit",
}
"""What can be changed, and where it is kept."""
WHILE_ACTIVE = frozenset({"name", "project", "duration", "retries", "grace", "time_limit"})
"""What still matters once a run holds its GPUs."""


def columns(job: Job, fields: Mapping[str, object], known_types: Collection[str]) -> dict[str, Any]:
    """The columns that change. Raises `InputError` for a bad field, `Refused` for a state that does not allow it."""
    for field in fields:
        if field not in COLUMN:
            there = field in FIELDS
            remedy = "this cannot be changed; submit the job anew" if there else f"write one of {', '.join(COLUMN)}"
            raise InputError("job", field, remedy)
        if job.state in ENDED or (job.state not in WAITING and field not in WHILE_ACTIVE):
            raise Refused(ErrorCode.WRONG_STATE, f"Job #{job.id} is {job.state}; its {field} is settled.")
    present: dict[str, object] = {
        "argv": ["-"],
        "name": job.name,
        "gpus": job.gpus,
        "gpu_memory": job.gpu_memory,
        "share": job.share,
    }
    if "gpu_type" not in fields:
        known_types = ()
        present["gpu_type"] = list(job.gpu_types)
    spec = parse_job({**present, **fields}, cwd="/", env={}, known_types=known_types)
    demand = spec.demand
    values: dict[str, Any] = {
        "name": spec.name,
        "project": spec.project,
        "priority_class": spec.priority_class,
        "priority": spec.priority,
        "duration": spec.duration,
        "datasets": spec.datasets,
        "retries": spec.retries,
        "grace": spec.grace,
        "checkpoint": spec.checkpoint,
        "time_limit": spec.time_limit,
    }
    wanted = {name: values[name] for field in fields if (name := COLUMN[field]) in values}
    if fields.keys() & {"gpus", "gpu_type", "gpu_memory", "share"}:
        wanted |= {
            "gpus": demand.gpus,
            "gpu_types": tuple(sorted(demand.types)),
            "gpu_memory": demand.memory,
            "share": demand.share,
        }
    return {name: value for name, value in wanted.items() if name == "datasets" or getattr(job, name) != value}
