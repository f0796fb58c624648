"""A waiting job's fields as TOML in the person's editor."""

import json
import os
import shlex
import subprocess
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from gputui.protocol import JobRow

FIELDS = ("name", "project", "class", "priority", "gpus", "gpu_types", "gpu_memory", "duration", "datasets", "share")
_AS_SUBMITTED = {"gpu_types": "gpu_type"}
"""Fields that a submitted job spells otherwise."""


class NotEdited(Exception):  # noqa: N818 - an answer, not a fault
    """Nothing was changed; the message says why."""


def as_toml(job: JobRow) -> str:
    """What the editor shows."""
    lines = [f"# Job #{job['id']}. Save and leave to change it; leave without saving to keep it as it is."]
    for field in FIELDS:
        value = _typed(field, job.get(field))
        # JSON strings, numbers, booleans and lists of strings are TOML too
        lines.append(f"# {field} =" if value is None else f"{field} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"


def _typed(field: str, value: object) -> object:
    """A value as people type it, and exactly it: '60GiB', '2m30s'; what has no such form stays a number."""
    if not isinstance(value, int | float) or not value or value % 1:
        return value
    if field == "gpu_memory":
        for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20)):
            if value % size == 0:
                return f"{value // size:.0f}{unit}"
    if field == "duration":
        minutes, seconds = divmod(int(value), 60)
        hours, minutes = divmod(minutes, 60)
        return "".join(f"{n}{unit}" for n, unit in ((hours, "h"), (minutes, "m"), (seconds, "s")) if n)
    return value


def changes(job: JobRow, text: str) -> dict[str, Any]:
    """The fields that differ, named as a submitted job names them. Raises `NotEdited` for what is no TOML."""
    try:
        edited = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NotEdited(f"Nothing changed, the text is not TOML: {error}.") from error
    unknown = sorted(set(edited) - set(FIELDS))
    if unknown:
        raise NotEdited(f"Nothing changed: a job has no field {unknown[0]}; there are {', '.join(FIELDS)}.")
    before = tomllib.loads(as_toml(job))
    return {
        _AS_SUBMITTED.get(field, field): edited.get(field)
        for field in FIELDS
        if edited.get(field) != before.get(field)
    }  # fmt: skip


def in_editor(job: JobRow) -> dict[str, Any]:
    """Run $VISUAL, $EDITOR or vi on it and return what changed. The terminal must be the editor's meanwhile."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    before = as_toml(job)
    with tempfile.TemporaryDirectory(prefix="gputui-") as folder:
        path = Path(folder) / f"job-{job['id']}.toml"
        path.write_text(before, "utf-8")
        try:
            status = subprocess.run([*editor, str(path)], check=False).returncode
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise NotEdited(f"Nothing changed, {editor[0]} did not work: {error}.") from error
    if status:
        raise NotEdited(f"Nothing changed: {editor[0]} ended with status {status}.")
    return {} if text == before else changes(job, text)
