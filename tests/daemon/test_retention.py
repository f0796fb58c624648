"""Logs of ended runs are not kept for ever; active runs and checkpoints are never touched."""

import os
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from gputui.daemon.context import Clock
from gputui.domain.errors import Refused
from gputui.protocol import ErrorCode
from gputui.store import audit
from tests.support.core import ME, Core, core
from tests.support.daemon import daemon as running_daemon

SAVES = 'echo said; echo saved > "$GPUTUI_CHECKPOINT_DIR/step"'


class Calendar(Clock):
    """A wall clock that can be set; durations stay true."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


async def text(daemon: Core, job: int, attempt: int | None = None) -> str:
    from base64 import b64decode

    from gputui.daemon.services.logs import Logs

    return b64decode((await Logs(daemon.ctx).read(job, attempt, 0, 1000))["data"]).decode()


async def released(daemon: Core, *jobs: int) -> None:
    await daemon.ended(*jobs)
    await daemon.until(lambda: not any(entry.releasing for entry in daemon.ctx.memory.gpus))
    await daemon.services.releases.flush()


async def test_skypilot_7716_old_logs_are_collected_and_their_readers_told(home: Path) -> None:
    clock = Calendar()
    async with core(home) as daemon:
        daemon.ctx.clock = clock
        job = await daemon.submit("sh", "-c", SAVES)
        await released(daemon, job)
        runs, running = home / "state" / "runs", await daemon.submit("sh", "-c", "echo on; exec sleep 600")
        await daemon.until(lambda: daemon.state(running) == "running")
        active = daemon.ctx.memory.run_of[running].run_id

        await daemon.services.retention.sweep()
        assert await text(daemon, job) == "said\n"

        clock.ahead = timedelta(days=31)
        await daemon.services.retention.sweep()
        assert [path.name for path in runs.iterdir()] == [active]
        with pytest.raises(
            Refused, match=rf"log of job #{job}, run 1, is no longer there: .* 30 days .* 20 GiB"
        ) as told:
            await text(daemon, job)
        assert told.value.code == ErrorCode.NOT_FOUND
        assert await text(daemon, running) == "on\n"
        saved = list((home / "state" / "checkpoints").rglob("step"))
        assert [path.read_text() for path in saved] == ["saved\n"]
        row = await daemon.ctx.read(lambda session: next(iter(audit.rows(session, 1))))
        assert (row.who, row.act, row.subject) == ("gputui", "log.collect", "1 run")

        await daemon.services.jobs.requeue(ME, [job])
        await released(daemon, job)
        assert await text(daemon, job) == "said\n"
        with pytest.raises(Refused, match="run 1, is no longer there"):
            await text(daemon, job, 1)


async def test_skypilot_7716_logs_beyond_the_total_go_the_oldest_first(home: Path) -> None:
    async with core(home, log_total="1MiB") as daemon:
        write = "head -c 400000 /dev/zero"
        jobs = []
        for _ in range(3):
            jobs.append(await daemon.submit("sh", "-c", write))
            await released(daemon, jobs[-1])
        await daemon.services.retention.sweep()
        with pytest.raises(Refused, match="no longer there"):
            await text(daemon, jobs[0])
        assert len(await text(daemon, jobs[1])) == len(await text(daemon, jobs[2])) > 0


async def test_a_run_whose_gpus_are_not_proven_free_keeps_its_directory(home: Path) -> None:
    clock = Calendar()
    async with core(home) as daemon:
        daemon.ctx.clock = clock
        job = await daemon.submit("true")
        await released(daemon, job)
        clock.ahead = timedelta(days=99)
        (folder,) = (home / "state" / "runs").iterdir()

        def hold(session: object) -> None:
            from gputui.store import runs

            runs.update_run(session, folder.name, released_at=None)  # type: ignore[arg-type]

        await daemon.ctx.act(lambda: daemon.ctx.write(hold))
        await daemon.services.retention.sweep()
        assert folder.exists()


async def test_a_clock_that_was_set_collects_nothing(home: Path) -> None:
    clock = Calendar()
    async with core(home) as daemon:
        daemon.ctx.clock = clock
        steady = daemon.services.retention._clock_is_steady
        assert steady()
        clock.ahead = timedelta(days=365)
        assert not steady()
        assert steady()


def test_skypilot_7716_the_command_tells_in_one_sentence(home: Path) -> None:
    path = {"PATH": os.environ["PATH"]}
    with running_daemon(home) as daemon:
        with daemon.client() as client:
            (job,) = client.submit({"jobs": [{"argv": ["echo", "said"]}], "cwd": "/", "env": path})["job_ids"]
            client.wait([job], timeout=30)
        shutil.rmtree(daemon.state / "runs")
        done = subprocess.run(
            [sys.executable, "-m", "gputui.cli", "--socket", str(daemon.socket), "logs", str(job)],
            capture_output=True, text=True, env=daemon.env, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"The log of job #{job}, run 1, is no longer there: logs are kept for 30 days")
        assert done.stderr.count("\n") == 1
