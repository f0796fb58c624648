"""A real store in a fresh folder, and short ways to put jobs into it."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gputui.domain.job import JobSpec
from gputui.store import jobs
from gputui.store.db import Store

HOST = "host-1"
AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)

Submit = Callable[..., list[int]]


def spec(**changes: object) -> JobSpec:
    """A small job; `changes` are fields of `JobSpec`."""
    values: dict[str, object] = {"argv": (b"python", b"train.py"), "cwd": b"/home/ann", "env": {b"PATH": b"/usr/bin"}}
    return JobSpec(**{**values, **changes})  # type: ignore[arg-type]


@pytest.fixture
def path(home: Path) -> Path:
    return home / "state" / "gputui" / "gputui.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store.open(path, HOST) as opened:
        opened.take_leadership(AT)
        yield opened


@pytest.fixture
def submit(store: Store) -> Submit:
    def insert(specs: Sequence[JobSpec], **more: object) -> list[int]:
        values: dict[str, object] = {"owner_uid": 1000, "owner": "ann", "host_id": HOST, "at": AT, "first_seq": 1}
        with store.write() as session:
            return jobs.insert_jobs(session, specs, **{**values, **more})  # type: ignore[arg-type]

    return insert
