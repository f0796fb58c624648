"""Full disks, a lost store, failing and lost runs, restarts, reboots, reused pids: nothing is lost or doubled."""

import errno
import json
import os
import shutil
import signal
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gputui.daemon import loop
from gputui.daemon.services import outcome, runs
from gputui.domain.errors import Refused
from gputui.protocol import ErrorCode
from tests.support.core import ME, Core, core


async def test_a_full_disk_pauses_starts_and_recovers_by_itself(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = [1 << 20]
    usage = shutil.disk_usage(home)
    monkeypatch.setattr(loop.shutil, "disk_usage", lambda path: usage._replace(free=free[0]))
    async with core(home) as daemon:
        job = await daemon.submit("true")
        reason = (await daemon.row(job))["reason"]
        assert reason == f"the disk of {home}/state is full: 1 MiB left"
        assert any("Nothing starts" in sentence for sentence in daemon.ctx.attention.values())
        assert daemon.state(job) == "queued"
        free[0] = 1 << 40
        (row,) = await daemon.ended(job)
        assert row["state"] == "succeeded"
        assert not daemon.ctx.attention


async def test_an_end_is_recorded_once_the_store_is_back(home: Path) -> None:
    async with core(home) as daemon:
        job = await daemon.submit("/bin/sh", "-c", f"while [ ! -e {home}/go ]; do sleep 0.01; done; exit 7")
        await daemon.until(lambda: daemon.state(job) == "running")
        store = home / "state" / "gputui.db"
        store.rename(home / "hidden")
        (home / "go").touch()
        with pytest.raises(Refused, match="removed or replaced") as refused:
            await daemon.submit("true")
        assert refused.value.code == ErrorCode.STORE_UNAVAILABLE
        await daemon.until(lambda: "store" in daemon.ctx.attention)
        assert daemon.state(job) == "running"
        (home / "hidden").rename(store)
        (row,) = await daemon.ended(job)
        assert (row["state"], row["exit_code"]) == ("failed", 7)
        after = await daemon.submit("true")
        await daemon.ended(after)
        assert not daemon.ctx.attention


async def test_retries_wait_longer_each_time_and_three_fast_failures_hold(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcome, "FIRST_BACKOFF", 0.1)
    async with core(home) as daemon:
        job = await daemon.submit("/bin/sh", "-c", "exit 9", retries=10)
        await daemon.until(lambda: daemon.state(job) == "held")
        row = await daemon.row(job)
        assert (row["attempt"], row["holds"]) == (3, ["review"])
        assert row["reason"] == "held after 3 fast failures alike: exit 9"
        once = await daemon.submit("/bin/sh", "-c", "exit 9", retries=1)
        (row,) = await daemon.ended(once)
        assert (row["state"], row["attempt"], row["exit_code"]) == ("failed", 2, 9)


async def test_exit_75_asks_to_be_run_again(home: Path) -> None:
    async with core(home) as daemon:
        job = await daemon.submit("/bin/sh", "-c", '[ "$GPUTUI_ATTEMPT" = 2 ] || exit 75')
        (row,) = await daemon.ended(job)
        assert (row["state"], row["attempt"]) == ("succeeded", 2)


async def test_a_program_that_is_not_there_fails_with_that_reason(home: Path) -> None:
    async with core(home) as daemon:
        job = await daemon.submit("/no/such/program")
        (row,) = await daemon.ended(job)
        assert row["state"] == "failed"
        assert "/no/such/program" in (await daemon.services.why.why(job))["reason"]


async def test_a_time_limit_ends_a_run(home: Path) -> None:
    async with core(home) as daemon:
        job = await daemon.submit("sleep", "600", time_limit=0.2)
        (row,) = await daemon.ended(job)
        assert (row["state"], row["reason"]) == ("failed", "stopped at its time limit")


async def test_an_interactive_job_is_begun_by_its_client_or_cancelled(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with core(home) as daemon:
        job = await daemon.submit("/bin/sh", "-c", "exit 5", interactive=True)
        await daemon.until(lambda: daemon.state(job) == "starting")
        await daemon.until(lambda: daemon.ctx.memory.run_of[job].launched)
        grant = await daemon.services.jobs.grant(ME, job)
        assert grant["state"] == "starting"
        client = subprocess.Popen(grant["supervisor"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # noqa: ASYNC220
        (row,) = await daemon.ended(job)
        assert (row["state"], row["exit_code"]) == ("failed", 5)
        assert client.wait(60) == 5
        monkeypatch.setattr(runs, "INTERACTIVE_PATIENCE", 0.1)
        forgotten = await daemon.submit("true", interactive=True)
        (row,) = await daemon.ended(forgotten)
        assert row["state"] == "cancelled"


async def test_a_restart_adopts_what_runs(home: Path) -> None:
    daemon = Core(home)
    await daemon.open()
    running = await daemon.submit("/bin/sh", "-c", f"while [ ! -e {home}/go ]; do sleep 0.01; done; exit 4")
    cancelled = await daemon.submit("/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.05; done", grace=1)
    await daemon.until(lambda: daemon.state(running) == daemon.state(cancelled) == "running")
    await daemon.services.jobs.cancel(ME, [cancelled])
    await daemon.close()
    await daemon.open()
    assert daemon.state(running) == "running"
    (row,) = await daemon.ended(cancelled)
    assert (row["state"], row["attempt"]) == ("cancelled", 1)
    (home / "go").touch()
    (row,) = await daemon.ended(running)
    assert (row["state"], row["exit_code"], row["attempt"]) == ("failed", 4, 1)
    await daemon.end()


def pull_the_plug(daemon: Core, job: int, **changes: Any) -> None:
    """End a run's processes as a power cut does, and write `changes` into the record of its top process."""
    run = daemon.ctx.memory.run_of[job]
    folder = daemon.engine.run_dir(run.run_id)
    claim = json.loads((folder / "claim").read_bytes())
    record = json.loads((folder / "pid").read_bytes())
    for pid in (claim["pid"], record["pid"]):
        os.kill(pid, signal.SIGKILL)
    (folder / "pid").write_text(json.dumps({**record, **changes}))


async def test_after_a_reboot_a_lost_run_is_queued_again_twice_and_no_more(home: Path) -> None:
    daemon = Core(home)
    await daemon.open()
    job = await daemon.submit("/bin/sh", "-c", f"echo x >> {home}/began; exec sleep 600")
    for attempt in (1, 2, 3):
        await daemon.until(lambda attempt=attempt: daemon.state(job) == "running" and began(home) == attempt)
        assert (await daemon.row(job))["attempt"] == attempt
        await daemon.loop.close()
        pull_the_plug(daemon, job, boot_id="00000000-0000-0000-0000-000000000000")
        await daemon.reader.close()
        await daemon.ctx.close()
        daemon.ctx.store.close()
        await daemon.open()
    (row,) = await daemon.ended(job)
    assert (row["state"], row["attempt"], began(home)) == ("lost", 3, 3)
    assert "restarted" in (await daemon.services.why.why(job))["reason"]
    await daemon.end()


def began(home: Path) -> int:
    """How often the job began."""
    diary = home / "began"
    return diary.read_text().count("x") if diary.exists() else 0


async def test_a_pid_that_belongs_to_another_process_is_not_adopted_nor_signalled(home: Path) -> None:
    daemon = Core(home)
    await daemon.open()
    job = await daemon.submit("/bin/sh", "-c", f"echo x >> {home}/began; exec sleep 600", grace=0.1)
    await daemon.until(lambda: daemon.state(job) == "running" and began(home) == 1)
    with subprocess.Popen(["sleep", "1000"]) as innocent:  # noqa: ASYNC220
        try:
            await daemon.loop.close()
            pull_the_plug(daemon, job, pid=innocent.pid)
            await daemon.reader.close()
            await daemon.ctx.close()
            daemon.ctx.store.close()
            await daemon.open()
            (row,) = await daemon.ended(job)
            assert (row["state"], row["attempt"], began(home)) == ("lost", 1, 1)
            assert innocent.poll() is None
        finally:
            innocent.kill()
    await daemon.end()


async def test_a_store_without_room_says_so_and_goes_on_once_there_is(home: Path) -> None:
    async with core(home) as daemon:
        await daemon.submit("true")

        def room(pages: int) -> None:
            with daemon.ctx.store.write() as session:
                session.connection().exec_driver_sql(f"PRAGMA max_page_count={pages}")

        room(1)  # SQLite takes the present size for the least there can be
        large = "x" * 100_000
        with pytest.raises(Refused, match=r"The disk that holds the store is full.*Nothing was changed"):
            await daemon.submit("true", large)
        assert any("disk that holds the store is full" in sentence for sentence in daemon.ctx.attention.values())
        room(1 << 30)
        job = await daemon.submit("true", large)
        (row,) = await daemon.ended(job)
        assert row["state"] == "succeeded"
        assert not daemon.ctx.attention


async def test_a_run_that_cannot_be_stopped_yet_is_stopped_once_it_can(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "RETRY_DISK", 0.05)
    async with core(home) as daemon:
        job = await daemon.submit("sleep", "600")
        await daemon.until(lambda: daemon.state(job) == "running")
        stop, full = daemon.engine.stop, [True, True]

        async def reluctant(run_id: str, grace: float) -> None:
            if full:
                full.pop()
                raise OSError(errno.ENOSPC, "No space left on device")
            await stop(run_id, grace)

        monkeypatch.setattr(daemon.engine, "stop", reluctant)
        await daemon.services.jobs.cancel(ME, [job])
        said = f"The run of job #{job} cannot be ended yet: No space left on device. It is tried again."
        await daemon.until(lambda: said in daemon.ctx.attention.values())
        (row,) = await daemon.ended(job)
        assert row["state"] == "cancelled"
        await daemon.until(lambda: not daemon.ctx.attention)


async def test_a_run_whose_directory_vanished_is_lost_and_not_run_again(home: Path) -> None:
    async with core(home) as daemon:
        job = await daemon.submit(
            "/bin/sh", "-c", f"echo x >> {home}/began; while [ ! -e {home}/go ]; do sleep 0.01; done"
        )
        await daemon.until(lambda: daemon.state(job) == "running" and began(home) == 1)
        shutil.rmtree(daemon.engine.run_dir(daemon.ctx.memory.run_of[job].run_id))
        (home / "go").touch()
        (row,) = await daemon.ended(job)
        said = "its run directory is gone; whether it still runs is unknown"
        assert (row["state"], row["reason"], began(home)) == ("lost", said, 1)
        assert (await daemon.services.why.why(job))["reason"] == said


async def test_a_retry_says_what_it_is_for_and_a_cancelled_one_who_cancelled_it(home: Path) -> None:
    async with core(home) as daemon:
        job = await daemon.submit("/bin/sh", "-c", "exit 9", retries=3)
        await daemon.until(lambda: daemon.state(job) == "queued" and job in daemon.ctx.memory.backoff)
        assert (await daemon.services.why.why(job))["reason"] == "a retry waits for its time, after: exit 9"
        await daemon.services.jobs.cancel(ME, [job])
        assert (await daemon.services.why.why(job))["reason"] == "cancelled by li"


async def test_an_xid_explains_the_runs_of_its_time_only(home: Path) -> None:
    async with core(home, "1xh100-80g", interval=1000.0) as daemon:
        job = await daemon.submit("/bin/sh", "-c", "exit 1")
        await daemon.ended(job)
        (entry,) = daemon.ctx.memory.gpus
        entry.xid, now = 48, daemon.ctx.clock.now()
        for age, sentence in (
            (timedelta(), "exited with code 1: GPU 0 reported Xid 48 (double-bit ECC error) near its end"),
            (timedelta(hours=-1), "exited with code 1"),
            (timedelta(hours=1), "exited with code 1"),
        ):
            entry.xid_at = now + age
            assert (await daemon.services.why.why(job))["reason"] == sentence
