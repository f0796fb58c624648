"""Exactly once: real jobs under a daemon that is killed at random moments, with delays injected between the steps."""

import contextlib
import os
import random
import signal
import time
from pathlib import Path

from tests.support.counts import count
from tests.support.daemon import Daemon, daemon, until

JOB = 'echo "start $GPUTUI_JOB_ID $CUDA_VISIBLE_DEVICES" >> "$0"; sleep 0.$(($1 % 4)); ' \
    'echo "end $GPUTUI_JOB_ID $CUDA_VISIBLE_DEVICES" >> "$0"; exit $(($1 % 4))'  # fmt: skip


def test_each_job_runs_exactly_once_while_the_daemon_is_killed(home: Path) -> None:
    jobs, kills = count(60, 300), count(5, 20)
    diary = home / "diary"
    with daemon(home, gpus="8", env={"GPUTUI_TEST_DELAYS": "30"}) as killed:
        with killed.client() as client:
            wanted = [{"argv": ["/bin/sh", "-c", JOB, str(diary), str(n)]} for n in range(jobs)]
            ids = client.submit({"jobs": wanted, "cwd": str(home), "env": {"PATH": "/usr/bin:/bin"}})["job_ids"]
        hit = 0
        for _ in range(kills):
            time.sleep(random.uniform(0.0, 0.5))
            killed.stop(signal.SIGKILL)
            hit += not diary.exists() or diary.read_text().count("end") < jobs
            killed.start()
        assert hit > kills / 2, "the jobs were over before the storm was"
        with killed.client() as client:
            until(lambda: over(killed), 240, 0.2)
            rows = client.jobs(limit=jobs)["jobs"]
        codes = {row["id"]: row["exit_code"] for row in rows}
        assert codes == {job_id: n % 4 for n, job_id in enumerate(ids)}, killed.log()[-3000:]
        assert {row["state"] for row in rows} == {"succeeded", "failed"}
    until(lambda: not at_work_in(killed.state))

    lines = [line.split() for line in diary.read_text().splitlines()]
    assert sorted(int(number) for word, number, _ in lines if word == "start") == ids
    assert sorted(int(number) for word, number, _ in lines if word == "end") == ids
    holder: dict[str, str] = {}
    for word, number, gpu in lines:
        if word == "start":
            assert gpu not in holder, f"GPU {gpu} was given to #{number} while #{holder[gpu]} had it"
            holder[gpu] = number
        else:
            assert holder.pop(gpu) == number
    assert holder == {}


def at_work_in(folder: Path) -> list[str]:
    """Processes that are told of a folder or have something in it open: daemons, supervisors and jobs."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with contextlib.suppress(OSError):
                told = [process.joinpath(name).read_bytes() for name in ("cmdline", "environ")]
                opened = [os.fsencode(link.readlink()) for link in process.joinpath("fd").iterdir()]
                if any(os.fsencode(folder) in text for text in (*told, *opened)):
                    found.append(f"{process.name} {told[0]!r}")
    return found


def over(found: Daemon) -> bool:
    """Whether nothing waits or runs any more."""
    with found.client() as client:
        status = client.status()
    return not status["queued"] and not status["running"]
