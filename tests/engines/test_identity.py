"""A process is pid, start time and boot id: what only shares the number is neither adopted nor signalled."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from gputui.engines.engine import EndReason, Found
from gputui.engines.rundir import RunDir
from gputui.engines.supervision import procs
from tests.engines.conftest import Lab


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process of this user that no run owns; it must live through the test."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    alive = process.poll() is None
    process.kill()
    process.wait()
    assert alive, "a stranger was signalled"


def record_run(lab: Lab, run_dir: RunDir, pid: int, start_time: int, boot: str) -> None:
    """The directory of a run that began, with all its processes gone."""
    identity = json.dumps({"pid": pid, "start_time": start_time, "boot_id": boot})
    for name in ("claim", "pid"):
        (run_dir.path / name).write_text(identity)
    (run_dir.path / "began").touch()


@pytest.mark.parametrize("changed", ["start time", "boot id"])
async def test_a_recycled_pid_is_not_adopted_and_not_signalled(
    lab: Lab, stranger: subprocess.Popen[bytes], changed: str
) -> None:
    engine = await lab.engine()
    spec = lab.spec("true")
    run_dir = RunDir(engine.run_dir(spec.run_id))
    run_dir.create(spec, "/nowhere")
    now = procs.stat(stranger.pid)
    assert now is not None
    start_time = now.start_time - (100 if changed == "start time" else 0)
    boot = procs.boot_id() if changed == "start time" else "11111111-2222-3333-4444-555555555555"
    record_run(lab, run_dir, stranger.pid, start_time, boot)
    assert await engine.recover(spec.run_id) is Found.LOST
    assert engine.pids(spec.run_id) == ()
    await engine.stop(spec.run_id, 0)
    await lab.until(lambda: not engine._endings, "the stop to be done")
    end = lab.ends[spec.run_id]
    assert end.reason is EndReason.LOST
    restarted = "the machine was restarted while it ran"
    assert end.error == (restarted if changed == "boot id" else "its supervisor was killed")


def test_identity_of_a_live_process(stranger: subprocess.Popen[bytes]) -> None:
    now = procs.stat(stranger.pid)
    assert now is not None
    assert now.ppid == os.getpid()
    assert procs.is_same(stranger.pid, now.start_time, procs.boot_id())
    assert not procs.is_same(stranger.pid, now.start_time + 1, procs.boot_id())
    assert not procs.is_same(stranger.pid, now.start_time, "another boot")
    assert not procs.send(stranger.pid, now.start_time + 1, signal.SIGKILL)


def test_a_zombie_is_dead() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    now = procs.stat(pid)
    assert now is not None
    assert now.dead
    assert not procs.is_same(pid, now.start_time, procs.boot_id())
    assert pid not in procs.descendants(os.getpid())
    os.waitpid(pid, 0)
    assert procs.stat(pid) is None


def test_a_name_with_brackets_and_spaces_is_read_over() -> None:
    fields = " ".join(["S", "7", "0", "0", "0", "0", "9", *map(str, range(10, 60))])
    found = procs.Stat(f"42 (a) b (c)) {fields}".encode())
    assert (found.state, found.ppid, found.flags, found.start_time) == (b"S", 7, 9, 22)
