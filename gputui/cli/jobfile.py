"""Files of jobs: JSON lines, TOML (`[[job]]` tables) or CSV (one row a job), read a piece at a time where they allow.

CSV: the header names the fields; an empty cell is a field not given; `argv` is one command line, quoted as for a shell;
`datasets` are parted by commas, `env` is `K=V K2=V2`.
"""

import csv
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from gputui.cli.app import refuse
from gputui.domain.errors import InputError

LONGEST_LINE = 1024 * 1024


def read_jobs(file: str) -> Iterator[dict[str, object]]:
    """One mapping per job. Raises `ClientError` that names the line for what cannot be read."""
    if file == "-":
        return _json_lines(sys.stdin.buffer, "standard input")
    readers = {".jsonl": _json_lines, ".ndjson": _json_lines, ".toml": _toml, ".csv": _csv}
    reader = readers.get(Path(file).suffix.lower())
    if reader is None:
        raise refuse(f"{file} ends neither in .jsonl, .toml nor .csv: that is how its format is known.", "file")
    try:
        opened = Path(file).open("rb")  # noqa: SIM115 - closed by the generator at its end
    except OSError as error:
        raise refuse(f"Cannot read {file}: {error.strerror}.", "file") from None
    return reader(opened, file)


def _json_lines(lines: IO[bytes], file: str) -> Iterator[dict[str, object]]:
    with lines:
        number = 0
        while line := lines.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise refuse(f"{file}, line {number}: it is longer than 1 MiB.", f"line {number}")
            if line.strip():
                yield _job(_parsed(line, file, number), file, f"line {number}")


def _parsed(line: bytes, file: str, number: int) -> object:
    try:
        return json.loads(line)
    except ValueError as error:
        problem = f"{file}, line {number}: this is not JSON ({error})."
        raise refuse(problem, f"line {number}") from None


def _toml(opened: IO[bytes], file: str) -> Iterator[dict[str, object]]:
    import tomllib

    with opened:
        try:
            document: dict[str, Any] = tomllib.load(opened)
        except ValueError as error:
            raise refuse(f"{file}: {error}.", "file") from None
    jobs = document.pop("job", None)
    if document or not isinstance(jobs, list):
        found = f"; it has {', '.join(document)}" if document else ""
        raise refuse(f"{file}: write each job as a [[job]] table, and nothing beside them{found}.", "file")
    for number, job in enumerate(jobs, 1):
        yield _job(job, file, f"job {number}")


def _csv(opened: IO[bytes], file: str) -> Iterator[dict[str, object]]:
    import io

    with io.TextIOWrapper(opened, "utf-8-sig", "surrogateescape", newline="") as text:
        rows = csv.reader(text, strict=True)
        try:
            header = next(rows, [])
            for row in rows:
                if row:
                    yield _csv_job(header, row, file, rows.line_num)
        except csv.Error as error:
            raise refuse(f"{file}, line {rows.line_num}: {error}.", f"line {rows.line_num}") from None


def _csv_job(header: list[str], row: list[str], file: str, number: int) -> dict[str, object]:
    where = f"{file}, line {number}"
    if len(row) != len(header):
        raise refuse(f"{where}: it has {len(row)} cells, the header {len(header)}.", f"line {number}")
    job: dict[str, object] = {field.strip(): cell for field, cell in zip(header, row, strict=True) if cell != ""}
    try:
        if "argv" in job and job.get("shell") not in {"true", "1", "yes"}:
            job["argv"] = shlex.split(str(job["argv"]))
        elif "argv" in job:
            job["argv"] = [job["argv"]]
        if "datasets" in job:
            job["datasets"] = [name.strip() for name in str(job["datasets"]).split(",")]
        if "env" in job:
            from gputui.cli.submit import read_settings

            job["env"] = read_settings(shlex.split(str(job["env"])))
    except InputError as error:
        raise refuse(f"{where}: {error.sentence}.", error.field) from None
    except ValueError as error:
        raise refuse(f"{where}: {error} in argv or env.", f"line {number}") from None
    return job


def _job(found: object, file: str, where: str) -> dict[str, object]:
    if not isinstance(found, dict):
        raise refuse(f'{file}, {where}: a job is a mapping such as {{"argv": ["python", "train.py"]}}.', where)
    return found
