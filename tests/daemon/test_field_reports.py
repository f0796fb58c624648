"""What went wrong in other queues, line by line of the field reports on queues; what concerns the daemon."""

import fcntl
import os
import shutil
import sys
from datetime import datetime, timedelta
from pathlib import Path

import psutil
import pytest

from gputui.daemon.context import Clock
from gputui.gpus.reading import Int
from gputui.store.tables import Environment
from tests.support.core import ENV, ME, Core, core
from tests.support.counts import count
from tests.support.daemon import Daemon


async def test_pueue_573_an_environment_is_stored_once_and_a_row_per_job(home: Path) -> None:
    from sqlmodel import func, select

    async with core(home) as daemon:
        await daemon.services.freezer.freeze(ME, "a test counts")
        for _ in range(3):
            items = [{"argv": ["true"], "name": f"n{n}"} for n in range(200)]
            await daemon.services.submit.submit(ME, items, "/", ENV)
        stored = await daemon.ctx.read(
            lambda session: session.exec(select(func.count()).select_from(Environment)).one()
        )
        assert stored == 1


async def test_pueue_297_the_daemons_own_environment_does_not_leak(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAEMON_SECRET", "x")
    async with core(home) as daemon:
        job = await daemon.submit("/bin/sh", "-c", 'exit "${DAEMON_SECRET:+1}${DAEMON_SECRET:-0}"')
        (row,) = await daemon.ended(job)
        assert row["exit_code"] == 0


async def test_pueue_158_argv_arrives_unchanged(home: Path) -> None:
    program = "import os, sys; open(sys.argv[1], 'wb').write(b'\\0'.join(map(os.fsencode, sys.argv[2:])))"
    odd = ["a b", 'it\'s "so"', "&& rm -rf $HOME; `x`", "line\nbreak", "", os.fsdecode(b"\xff\xfe"), "字 🚀", "*"]
    words = odd + [f"argument-{n}" for n in range(2000)]
    async with core(home) as daemon:
        job = await daemon.submit(sys.executable, "-c", program, str(home / "seen"), *words)
        (row,) = await daemon.ended(job)
        assert row["state"] == "succeeded", row["reason"]
        assert row["argv"][4:] == words
    assert (home / "seen").read_bytes().split(b"\0") == [os.fsencode(word) for word in words]


async def test_pueue_185_ids_do_not_change_with_the_order(home: Path) -> None:
    async with core(home) as daemon:
        await daemon.services.freezer.freeze(ME, "a test moves jobs")
        first, second = await daemon.submit("true", name="first"), await daemon.submit("true", name="second")
        await daemon.services.moves.move(ME, second, "before", ref=first)
        rows = await daemon.services.rows.of([first, second])
        assert [(row["id"], row["name"], row["position"]) for row in rows] == [
            (first, "first", 2),
            (second, "second", 1),
        ]


async def test_skypilot_4552_and_5911_many_jobs_end_at_once_and_leave_no_zombies(home: Path) -> None:
    jobs, patience = count(60, 1000), count(120, 900)
    async with core(home) as daemon:
        with (home / "gate").open("w") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            argv = ["flock", "--shared", gate.name, "sh", "-c", "exit 3"]
            items = [{"argv": argv, "gpus": 0} for _ in range(jobs)]
            ids = (await daemon.services.submit.submit(ME, items, "/", ENV))["job_ids"]
            await daemon.until(lambda: all(daemon.state(job) == "running" for job in ids), patience)
        await daemon.until(lambda: not daemon.ctx.memory.notes, patience)
        rows = await daemon.services.rows.of(ids)
        assert {(row["state"], row["exit_code"], row["attempt"]) for row in rows} == {("failed", 3, 1)}
        mine = psutil.Process().children(recursive=True)
        assert not [child for child in mine if child.is_running() and child.status() == psutil.STATUS_ZOMBIE]


def test_slurm_17659_a_store_that_is_gone_is_never_an_empty_queue(home: Path) -> None:
    daemon = Daemon(home)
    daemon.start()
    daemon.stop()
    for part in (home / "state").glob("gputui.db*"):
        if not part.name.endswith(".exists"):
            part.unlink()
    process = daemon.start(check=False)
    assert daemon.ready_line(process) == ""
    assert daemon.stop() == 1
    assert "is gone or empty, although there was one" in daemon.log()


async def test_slurm_17659_a_run_whose_directory_is_gone_is_not_run_again(home: Path) -> None:
    daemon = Core(home)
    await daemon.open()
    job = await daemon.submit("/bin/sh", "-c", f"echo x >> {home}/began; exec sleep 600")
    await daemon.until(lambda: daemon.state(job) == "running")
    run = daemon.ctx.memory.run_of[job]
    pids = daemon.engine.pids(run.run_id)
    await daemon.close()
    shutil.rmtree(daemon.settings.state_dir / "runs")
    await daemon.open()
    (row,) = await daemon.ended(job)
    assert (row["state"], row["attempt"]) == ("lost", 1)
    assert row["reason"] == "its run directory is gone; whether it still runs is unknown"
    assert daemon.gpu_state(0) == "releasing"
    assert all(psutil.pid_exists(pid) for pid in pids)
    for pid in pids:
        psutil.Process(pid).kill()
    await daemon.until(lambda: daemon.gpu_state(0) == "free")
    assert (home / "began").read_text() == "x\n"
    await daemon.end()


class Jumping(Clock):
    """The date is set back and forth; durations are not."""

    jump = timedelta()

    def now(self) -> datetime:
        return super().now() + self.jump


async def test_pueue_673_a_date_that_jumps_ends_nothing_early_or_late(home: Path) -> None:
    daemon, clock = Core(home), Jumping()
    await daemon.open(clock)
    limited = await daemon.submit("sleep", "600", time_limit=3600)
    await daemon.until(lambda: daemon.state(limited) == "running")
    for jump in (timedelta(days=-400), timedelta(days=400)):
        clock.jump = jump
        await daemon.services.runs.look()
        assert daemon.state(limited) == "running"
        row = await daemon.row(limited)
        assert row["elapsed"] is not None
        assert 0 <= row["elapsed"] < 600
        short = await daemon.submit("sleep", "600", time_limit=0.1)
        (row,) = await daemon.ended(short)
        assert row["reason"] == "stopped at its time limit"
    await daemon.end()


async def test_dstack_893_a_gpu_is_not_free_before_its_memory_is(home: Path) -> None:
    async with core(home, "1xh100-80g") as daemon:
        used: list[Int] = [9 << 30]
        honest = daemon.reader.memory_samples

        async def samples(uuid: str, n: int = 3, interval: float = 0.02) -> list[Int]:
            return used * n if used else await honest(uuid, n, interval)

        daemon.reader.memory_samples = samples  # type: ignore[method-assign]
        first = await daemon.submit("true")
        await daemon.ended(first)
        second = await daemon.submit("true")
        assert daemon.gpu_state(0) == "releasing"
        reason = (await daemon.row(second))["reason"]
        used.clear()
        assert "releas" in reason
        (row,) = await daemon.ended(second)
        assert row["state"] == "succeeded"


async def test_task_spooler_59_memory_is_promised_before_it_is_allocated(home: Path) -> None:
    async with core(home, "1xh100-80g") as daemon:
        await daemon.services.freezer.freeze(ME, "so that all are there at once")
        ids = [await daemon.submit("sleep", "600", gpu_memory="30GiB", share=True) for _ in range(4)]
        await daemon.services.freezer.thaw(ME, "go")
        await daemon.until(lambda: daemon.state(ids[0]) == daemon.state(ids[1]) == "running")
        assert [daemon.state(job) for job in ids[2:]] == ["queued", "queued"]


async def test_kueue_8309_a_blocked_head_holds_back_only_what_wants_the_same(home: Path) -> None:
    async with core(home, "1xh100-80g,1xl40s-48g") as daemon:
        holder = await daemon.submit("sleep", "600", gpu_type="h100-80g")
        await daemon.until(lambda: daemon.state(holder) == "running")
        head = await daemon.submit("true", gpu_type="h100-80g", **{"class": "core"})
        other = await daemon.submit("true", gpu_type="l40s-48g", **{"class": "filler"})
        (row,) = await daemon.ended(other)
        assert (row["state"], daemon.state(head)) == ("succeeded", "queued")
