"""The demo without a screen: every state within the first minute, and nothing left at its end."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gputui.client import Client
from gputui.demo.sample import first_jobs
from tests.support.daemon import until

COMMAND = [sys.executable, "-P", "-m", "gputui.cli", "demo", "--headless"]


@contextmanager
def headless() -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    """A demo and its socket; ended at the end, if it still runs."""
    process = subprocess.Popen(COMMAND, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as said:
        try:
            yield process, Path(os.fsdecode(said.readline().rstrip(b"\n")))
        finally:
            process.terminate()
            process.wait(120)


@pytest.fixture
def demo(home: Path) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    with headless() as started:
        yield started


def test_every_state_shows_within_a_minute_and_nothing_is_left(demo, home):
    process, socket = demo
    seen: set[str] = set()
    wanted = {"held", "queued", "running", "stopping", "succeeded", "failed", "cancelled"}
    with Client(socket, start=False) as client:
        gpus = client.gpus()["gpus"]
        assert len(gpus) == 8
        assert len({gpu["type"] for gpu in gpus}) == 3

        def looked() -> bool:
            seen.update(job["state"] for job in client.jobs(limit=100)["jobs"])
            return wanted <= seen

        until(looked, seconds=180)
        states = {gpu["state"] for gpu in client.gpus()["gpus"]}
        assert states >= {"busy", "foreign"}
        assert any(gpu["cordon"] for gpu in client.gpus()["gpus"])
        (blocked,) = [job for job in client.jobs(limit=100)["jobs"] if job["name"] == "vision-13b"]
        assert "images" in blocked["reason"]
        assert 0 < blocked["readiness"] < 1
        until(lambda: max(gpu["utilization"] or 0 for gpu in client.gpus()["gpus"]) > 50, seconds=180)
        log = client.log(next(job["id"] for job in client.jobs(limit=100)["jobs"] if job["state"] == "failed"))
        assert log["written"] > 0
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert not socket.exists()
    assert [entry.name for entry in (home / "state" / "gputui-demo").iterdir()] == ["demo.lock"]
    assert list((home / "state").iterdir()) == [home / "state" / "gputui-demo"]
    assert not Path(os.environ["GPUTUI_LOCK_DIR"]).exists()  # its GPUs are nobody else's business


def test_a_daemon_killed_in_the_demo_comes_back_and_is_cleaned_up(demo):
    process, socket = demo
    with Client(socket, start=False) as client:
        first = client.status()["pid"]
    os.kill(first, signal.SIGKILL)

    def answers() -> bool:
        try:
            with Client(socket, start=False) as client:
                return client.status()["pid"] != first
        except Exception:  # noqa: BLE001 - not yet
            return False

    until(answers)
    process.terminate()
    assert process.wait(120) == 0


def test_a_second_demo_says_where_the_first_is(demo):
    _, socket = demo
    done = subprocess.run([*COMMAND, "--json"], capture_output=True, check=False)
    assert done.returncode == 1
    assert str(socket) in json.loads(done.stdout)["error"]["message"]


def test_a_demo_that_was_killed_is_cleared_away_by_the_next(home):
    with headless() as (process, socket):
        with Client(socket, start=False) as client:
            until(lambda: client.jobs(state=["running"])["total"] > 0)
        process.kill()
        process.wait()
    began = time.monotonic()
    with headless() as (process, again):
        assert again == socket
        with Client(socket, start=False) as client:
            assert client.status()["uptime"] <= time.monotonic() - began
            assert client.jobs(limit=100)["total"] == len(first_jobs())
        process.terminate()
        assert process.wait(120) == 0
