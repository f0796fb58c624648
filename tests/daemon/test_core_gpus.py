"""GPUs as the queue sees them: foreign memory, cordons, lost and stale ones, evidence of release, other daemons."""

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gputui.daemon.services import owners
from gputui.domain.errors import InputError, Refused
from gputui.gpus.reading import Int
from gputui.store import gpus as table
from tests.support.core import ME, Core, core

GIB = 1 << 30


@contextmanager
def foreign(folder: Path, monkeypatch: pytest.MonkeyPatch, held: dict[int, int]) -> Iterator[int]:
    """One process that no run owns, holding GiB of GPUs by index; its pid."""
    with subprocess.Popen(["sleep", "1000"]) as holder:
        path = folder / "foreign.json"
        path.write_text(json.dumps({str(gpu): [{"pid": holder.pid, "memory": gib * GIB}] for gpu, gib in held.items()}))
        monkeypatch.setenv("GPUTUI_SIMULATED_FOREIGN", str(path))
        try:
            yield holder.pid
        finally:
            holder.kill()


async def test_a_job_lands_only_where_foreign_processes_leave_it_room(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with foreign(home, monkeypatch, {0: 60, 1: 30}):
        async with core(home, "2xh100-80g") as daemon:
            await daemon.until(lambda: daemon.gpu_state(0) == daemon.gpu_state(1) == "foreign")
            fits = await daemon.submit("true", gpu_memory="40GiB")
            too_big = await daemon.submit("true", gpu_memory="60GiB")
            undeclared = await daemon.submit("true")
            (row,) = await daemon.ended(fits)
            assert (row["state"], row["gpu_uuids"]) == ("succeeded", [daemon.uuid(1)])
            reason = (await daemon.row(too_big))["reason"]
            assert "GPU 0 has 20 of 60 GiB free: sleep" in reason, reason
            assert "held by sleep" in (await daemon.row(undeclared))["reason"]
            row = daemon.services.gpus.reply()["gpus"][0]
            assert (row["held_by"], row["job_id"], row["processes"][0]["managed"]) == ("sleep", None, False)


async def test_a_cordoned_gpu_takes_no_run_until_its_time_is_up(home: Path) -> None:
    async with core(home, "1xh100-80g") as daemon:
        with pytest.raises(InputError, match="still to come"):
            await daemon.services.gpus.cordon(ME, daemon.uuid(0), "fan", "2020-01-01T00:00+00:00")
        until = (daemon.ctx.clock.now() + timedelta(seconds=0.5)).isoformat()
        await daemon.services.gpus.cordon(ME, daemon.uuid(0), "fan", until)
        job = await daemon.submit("true")
        assert "GPU 0 cordoned: fan" in (await daemon.row(job))["reason"]
        row = daemon.services.gpus.reply()["gpus"][0]
        assert row["cordon"] is not None
        assert (row["state"], row["cordon"]["reason"]) == ("free", "fan")
        (ended,) = await daemon.ended(job)
        assert ended["state"] == "succeeded"
        with pytest.raises(Refused, match="is not cordoned"):
            await daemon.services.gpus.uncordon(ME, daemon.uuid(0))


async def test_a_cordon_survives_a_restart_and_is_undone(home: Path) -> None:
    daemon = Core(home, "1xh100-80g")
    await daemon.open()
    await daemon.services.gpus.cordon(ME, daemon.uuid(0), "fan", drain=True)
    await daemon.close()
    await daemon.open()
    assert daemon.services.gpus.reply()["gpus"][0]["why"] == "drained: fan"
    await daemon.services.gpus.uncordon(ME, daemon.uuid(0))
    await daemon.services.undo.undo(ME)
    assert daemon.services.gpus.reply()["gpus"][0]["why"] == "drained: fan"
    await daemon.services.undo.redo(ME)
    assert daemon.services.gpus.reply()["gpus"][0]["cordon"] is None
    await daemon.end()


async def test_a_fatal_xid_cordons_and_a_lost_gpu_keeps_its_row(home: Path) -> None:
    async with core(home, "2xh100-80g", interval=1000.0) as daemon:
        snapshot = daemon.reader.latest
        assert snapshot is not None
        first, second = snapshot.gpus
        lost = replace(second, lost="fell off the bus", xid=79)
        daemon.services.gpus.take(replace(snapshot, gpus=(replace(first, xid=48), lost)))
        await daemon.until(lambda: all(entry.cordon for entry in daemon.ctx.memory.gpus))
        rows = daemon.services.gpus.reply()["gpus"]
        assert [row["state"] for row in rows] == ["free", "lost"]
        assert rows[0]["why"].startswith("cordoned: Xid 48 at ")
        assert rows[1]["why"] == "fell off the bus"
        job = await daemon.submit("true")
        await asyncio.sleep(0)
        assert daemon.state(job) == "queued"
        assert any("GPU 1 is lost" in sentence for sentence in daemon.ctx.attention.values())


async def test_a_stale_reading_is_unknown_and_nothing_starts_on_it(home: Path) -> None:
    async with core(home, "1xh100-80g", interval=1000.0) as daemon:
        snapshot = daemon.reader.latest
        assert snapshot is not None
        daemon.services.gpus.take(replace(snapshot, monotonic=snapshot.monotonic - 60))
        row = daemon.services.gpus.reply()["gpus"][0]
        assert (row["state"], row["utilization"], row["memory_used"]) == ("unknown", None, None)
        job = await daemon.submit("true")
        assert "no reading for 6" in (await daemon.row(job))["reason"]
        daemon.services.gpus.take(replace(snapshot, monotonic=daemon.ctx.clock.monotonic()))
        (ended,) = await daemon.ended(job)
        assert ended["state"] == "succeeded"


async def test_a_gpu_whose_memory_does_not_come_back_is_quarantined(home: Path) -> None:
    async with core(home, "1xh100-80g", release_limit=0.2) as daemon:
        used: list[Int] = [9 * GIB]

        async def samples(uuid: str, n: int = 3, interval: float = 0.02) -> list[Int]:
            return used * n

        honest, daemon.reader.memory_samples = daemon.reader.memory_samples, samples  # type: ignore[method-assign]
        job = await daemon.submit("true")
        await daemon.ended(job)
        await daemon.until(lambda: daemon.gpu_state(0) == "quarantined")
        (row,) = daemon.services.gpus.reply()["gpus"]
        assert "9 GiB still used" in row["why"]
        assert any("GPU 0 is quarantined" in sentence for sentence in daemon.ctx.attention.values())
        waiting = await daemon.submit("true")
        assert "9 GiB still used" in (await daemon.row(waiting))["reason"]
        daemon.reader.memory_samples = honest  # type: ignore[method-assign]
        await daemon.services.gpus.release(ME, daemon.uuid(0), "looked at it")
        (ended,) = await daemon.ended(waiting)
        assert ended["state"] == "succeeded"
        assert not daemon.ctx.attention


async def test_two_daemons_never_run_two_jobs_on_one_gpu(home: Path) -> None:
    diary = home / "diary"
    script = 'echo start >> "$0"; sleep 0.05; echo end >> "$0"'
    first, second = Core(home / "a", "1xh100-80g"), Core(home / "b", "1xh100-80g")
    for daemon in (first, second):
        daemon.folder.mkdir()
        daemon.locks = home / "locks"
        await daemon.open()
    assert first.uuid(0) == second.uuid(0)
    jobs = [
        (daemon, await daemon.submit("/bin/sh", "-c", script, str(diary)))
        for _ in range(6)
        for daemon in (first, second)
    ]
    for daemon, job in jobs:
        (row,) = await daemon.ended(job)
        assert row["state"] == "succeeded", row["reason"]
    assert diary.read_text().split() == ["start", "end"] * len(jobs)
    sleeper = await first.submit("sleep", "600")
    await first.until(lambda: first.state(sleeper) == "running")
    await second.until(lambda: second.gpu_state(0) == "foreign")
    waiting = await second.submit("true")
    assert "in use by another gputui" in (await second.row(waiting))["reason"]
    await first.end()
    await second.ended(waiting)
    await second.end()


async def test_a_gpu_in_use_by_slurm_is_never_scheduled(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with foreign(home, monkeypatch, {0: 1}) as pid:
        monkeypatch.setattr(owners, "under_slurm", lambda other: other == pid)
        async with core(home, "1xh100-80g") as daemon:
            await daemon.until(lambda: daemon.gpu_state(0) == "foreign")
            job = await daemon.submit("true", gpu_memory="1GiB")
            assert "in use by a Slurm job" in (await daemon.row(job))["reason"]
            assert daemon.state(job) == "queued"
            os.kill(pid, 9)
            (row,) = await daemon.ended(job)
            assert row["state"] == "succeeded"


async def test_sharing_jobs_live_on_one_gpu_within_what_they_declared(home: Path) -> None:
    async with core(home, "1xh100-80g") as daemon:
        one = await daemon.submit("sleep", "600", gpu_memory="50GiB", share=True)
        two = await daemon.submit("sleep", "600", gpu_memory="25GiB", share=True)
        three = await daemon.submit("sleep", "600", gpu_memory="25GiB", share=True)
        await daemon.until(lambda: daemon.state(one) == daemon.state(two) == "running")
        assert daemon.services.gpus.reply()["gpus"][0]["job_ids"] == [one, two]
        assert daemon.state(three) == "queued"
        await daemon.services.jobs.cancel(ME, [two])
        await daemon.until(lambda: daemon.state(three) == "running")


async def test_minutes_are_stored_once_they_are_over_and_a_hung_driver_adds_nothing(home: Path) -> None:
    async with core(home, "1xh100-80g", interval=3600.0) as daemon:
        gpus, snapshot = daemon.services.gpus, daemon.reader.latest
        assert snapshot is not None
        (gpu,) = snapshot.gpus
        minute = snapshot.sampled_at.replace(second=0, microsecond=0) - timedelta(hours=1)
        for after, used, lately in ((1, 10, 20), (2, 30, 40), (2, 99, 99)):
            busy = replace(gpu, utilization=lately, memory_used=used)
            at = minute + timedelta(seconds=after)
            gpus.take(replace(snapshot, gpus=(busy,), monotonic=snapshot.monotonic + after, sampled_at=at))
        await gpus.tick()
        stored = await daemon.ctx.read(lambda session: table.minutes(session, gpu.uuid, minute, at))
        assert [(row.minute, row.utilization_mean, row.utilization_max, row.memory_mean) for row in stored] == [
            (minute, 30.0, 40.0, 20)
        ]
