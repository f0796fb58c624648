"""Datasets and the jobs that wait for them: real files, real prober, real jobs; only the socket is left out."""

import shutil
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gputui.daemon import probe
from gputui.daemon.context import StoreUnavailable
from gputui.daemon.prober import Prober
from gputui.daemon.services.datasets import Datasets
from gputui.domain.errors import Refused
from gputui.store import audit
from gputui.store.problems import StoreProblem
from tests.support.core import ME, OTHER, Core, core

HANGING = """
import sys, time
sys.path.insert(0, {folder!r})
import probe

def observe(request):
    if request["location"].startswith("/dead"):
        time.sleep(600)
    return probe.observe(request)

probe.serve(observe)
"""


@dataclass
class World:
    core: Core
    datasets: Datasets

    async def add(self, name: str, location: Path | str, **expects: Any) -> Any:
        return await self.datasets.add(ME, {"name": name, "location": str(location), **expects})

    async def needing(self, *names: str) -> int:
        return await self.core.submit("true", gpus=0, datasets=list(names))

    def known(self, name: str) -> tuple[bool, float | None]:
        note = self.core.ctx.memory.datasets[name]
        return note.ready, note.readiness

    async def why(self, job_id: int) -> str:
        return (await self.core.services.why.why(job_id))["reason"]


@pytest.fixture
async def world(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    # however slow the machine is: what is added was looked at
    monkeypatch.setattr("gputui.daemon.services.datasets.FIRST_LOOK_SECONDS", 60.0)
    script = home / "hanging.py"
    script.write_text(HANGING.format(folder=str(Path(probe.__file__).parent)))
    async with core(home, probe_deadline=2.0, probe_fast=0.1, probe_slow=0.3) as found:
        datasets = Datasets(found.ctx, found.services.undo, Prober([sys.executable, "-I", "-S", str(script)]))
        await datasets.open()
        yield World(found, datasets)
        await datasets.close()


async def test_a_dead_mount_is_unknown_and_only_its_own_jobs_wait(world: World, home: Path) -> None:
    (home / "alive").mkdir()
    dead = await world.add("dead", "/dead/share")
    assert (dead["readiness"], dead["ready"], dead["reason"]) == (None, False, "no answer within 2s")
    await world.add("alive", home / "alive")
    waiting, running = await world.needing("alive", "dead"), await world.needing("alive")
    (row,) = await world.core.ended(running)
    assert row["state"] == "succeeded"
    assert world.core.state(waiting) == "queued"
    shown = await world.core.row(waiting)
    assert shown["readiness"] is None
    assert "dead" in await world.why(waiting)


async def test_a_job_may_name_a_dataset_before_it_is_added(world: World, home: Path) -> None:
    job_id = await world.needing("later")
    assert "later" in await world.why(job_id)
    (home / "later").mkdir()
    assert (await world.add("later", home / "later"))["ready"]
    assert (await world.core.ended(job_id))[0]["state"] == "succeeded"


async def test_data_that_went_away_again_stops_the_next_job(world: World, home: Path) -> None:
    data = home / "input"
    data.mkdir()
    assert (await world.add("data", data))["ready"]
    shutil.rmtree(data)
    await world.core.until(lambda: world.known("data") == (False, 0.0))
    job_id = await world.needing("data")
    assert world.core.state(job_id) == "queued"
    data.mkdir()
    assert (await world.core.ended(job_id))[0]["state"] == "succeeded"


async def test_data_that_went_bad_is_known_even_when_the_store_is_away(
    world: World, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = home / "input"
    data.mkdir()
    await world.add("data", data)

    async def write(_work: object) -> None:
        raise StoreUnavailable(StoreProblem("The disk that holds the store is full.", "Free some space."))

    monkeypatch.setattr(world.core.ctx, "write", write)
    shutil.rmtree(data)
    await world.core.until(lambda: world.known("data") == (False, 0.0))
    monkeypatch.undo()


async def test_somebody_may_vouch_for_it_with_a_reason(world: World, home: Path) -> None:
    await world.add("data", home / "input", marker="_SUCCESS")
    job_id = await world.needing("data")
    with pytest.raises(Refused, match="ignore-data") as refused:
        await world.core.services.jobs.start(ME, job_id)
    assert refused.value.code == "not_ready"
    await world.core.services.jobs.start(ME, job_id, ignore_data=True, reason="the marker is broken")
    assert (await world.core.ended(job_id))[0]["state"] == "succeeded"
    rows = await world.core.ctx.read(lambda session: audit.rows(session, 10, f"job {job_id}"))
    assert "the marker is broken" in [row.reason for row in rows]


async def test_a_name_taken_is_refused_and_changes_nothing(world: World, home: Path) -> None:
    await world.add("data", home / "a")
    with pytest.raises(Refused, match="There is a dataset data already"):
        await world.add("data", home / "b")
    assert [row["location"] for row in world.datasets.rows()] == [str(home / "a")]


async def test_a_manifest_says_how_far_and_what_is_missing(world: World, home: Path) -> None:
    data = home / "input"
    data.mkdir()
    (data / "MANIFEST").write_text("100  a\n300  b\n")
    (data / "a").write_bytes(b"x" * 100)
    row = await world.add("data", data, manifest="MANIFEST")
    assert (row["readiness"], row["reason"]) == (0.25, "1 of 2 manifest files complete, first b")
    job_id = await world.needing("data")
    (data / "b").write_bytes(b"x" * 300)
    assert (await world.core.ended(job_id))[0]["state"] == "succeeded"


async def test_adding_and_removing_can_be_undone(world: World, home: Path) -> None:
    def names() -> list[str]:
        return [row["name"] for row in world.datasets.rows()]

    undo = world.core.services.undo
    await world.add("set", home / "input", marker="_SUCCESS")
    assert (await undo.undo(ME))["message"] == "Undone: added dataset set."
    assert names() == []
    await undo.redo(ME)
    assert world.datasets.rows()[0]["expects"] == ["marker _SUCCESS"]
    await world.datasets.remove(ME, "set")
    await undo.undo(ME)
    assert names() == ["set"]
    await world.datasets.remove(OTHER, "set")
    with pytest.raises(Refused, match="removed since") as refused:
        await undo.undo(ME)
    assert refused.value.code == "changed"
