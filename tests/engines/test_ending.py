"""Stopping a run ends every process of it, whatever it ignores and wherever it hides, also after the daemon died."""

import errno
import os
import shutil
import signal
import sys

import pytest

from gputui.engines import logs
from gputui.engines.engine import EndReason, Found
from gputui.engines.local import LocalEngine
from gputui.engines.rundir import RunDir
from gputui.engines.supervision import procs
from tests.engines.conftest import Lab, script

HIDERS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
count = int(sys.argv[1])
done_r, done_w = os.pipe()
for _ in range(count):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(done_w, b"x")
            time.sleep(3600)
        os._exit(0)
    os.wait()
seen = 0
while seen < count:
    seen += len(os.read(done_r, count))
print("hidden", flush=True)
time.sleep(3600)
"""


@pytest.fixture(params=["cgroup", "walk"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to find all processes; without a delegated cgroup both are the walk."""
    if request.param == "walk":
        monkeypatch.setenv("GPUTUI_TEST_NO_CGROUP", "1")
    return str(request.param)


async def begun(lab: Lab, engine: LocalEngine, *argv: str, says: bytes = b"") -> str:
    """Start a run and wait until it has said `says`."""
    spec = lab.spec(*argv)
    await engine.start(spec)
    await lab.until(lambda: spec.run_id in lab.began, "its beginning")
    run_dir = engine.run_dir(spec.run_id)
    await lab.until(lambda: logs.read(run_dir, 0, 1000).data.startswith(says), "its first words")
    return spec.run_id


async def test_term_reaches_the_whole_process_group(lab: Lab) -> None:
    engine = await lab.engine()
    run_id = await begun(lab, engine, *script("sleep 600 & sleep 601 & trap 'exit 9' TERM; echo up; wait"), says=b"up")
    assert len(engine.pids(run_id)) == 3
    await engine.stop(run_id, 30)
    end = await lab.end_of(run_id)
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 9)
    assert engine.pids(run_id) == ()


async def test_a_job_may_use_its_grace(lab: Lab) -> None:
    engine = await lab.engine()
    save = script("trap 'sleep 0.5; echo saved; exit 75' TERM", "echo up; while :; do sleep 0.05; done")
    run_id = await begun(lab, engine, *save, says=b"up")
    await engine.stop(run_id, 60)
    assert (await lab.end_of(run_id)).exit_code == 75
    assert logs.read(engine.run_dir(run_id), 0, 99).data.endswith(b"saved\n")


async def test_fifty_hidden_grandchildren_that_ignore_term_are_gone(lab: Lab, way: str) -> None:
    engine = await lab.engine()
    run_id = await begun(lab, engine, sys.executable, "-c", HIDERS, "50", says=b"hidden")
    assert len(engine.pids(run_id)) == 51
    await engine.stop(run_id, 0.2)
    end = await lab.end_of(run_id)
    assert (end.reason, end.signal, end.oom_killed) == (EndReason.SIGNALLED, signal.SIGKILL, False)
    assert procs.with_environment(b"GPUTUI_RUN_ID", run_id.encode()) == []


async def test_a_stop_holds_although_the_daemon_dies_after_it(lab: Lab, way: str) -> None:
    engine = await lab.engine()
    run_id = await begun(lab, engine, sys.executable, "-c", HIDERS, "3", says=b"hidden")
    await engine.stop(run_id, 0.3)
    await lab.close(engine)
    await lab.until(lambda: not procs.with_environment(b"GPUTUI_RUN_ID", run_id.encode()), "its processes to end")
    await lab.until((engine.run_dir(run_id) / "exit").exists, "its exit record")
    assert await (await lab.engine()).recover(run_id) is Found.FINISHED
    assert lab.ends[run_id].signal == signal.SIGKILL


async def test_a_second_stop_hastens_the_first_and_sends_no_second_term(lab: Lab) -> None:
    engine = await lab.engine()
    run_id = await begun(
        lab, engine, *script("trap 'echo term' TERM; echo up; while :; do sleep 0.05; done"), says=b"up"
    )
    await engine.stop(run_id, 3600)
    await lab.until(lambda: b"term" in logs.read(engine.run_dir(run_id), 0, 99).data, "TERM")
    await engine.stop(run_id, 0.2)
    assert (await lab.end_of(run_id)).signal == signal.SIGKILL
    assert logs.read(engine.run_dir(run_id), 0, 99).data.count(b"term\n") == 1


async def test_a_stopped_process_still_gets_term(lab: Lab) -> None:
    engine = await lab.engine()
    run_id = await begun(lab, engine, *script("trap 'exit 8' TERM; echo up; kill -STOP $$; sleep 600"), says=b"up")
    top = lab.began[run_id].pid
    await lab.until(lambda: (now := procs.stat(top)) is not None and now.state == b"T", "it to stop")
    await engine.stop(run_id, 60)
    assert (await lab.end_of(run_id)).exit_code == 8


async def test_a_run_stopped_before_it_began_is_revoked(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTUI_TEST_DELAYS", "50")
    engine = await lab.engine()
    target = lab.folder / "ran"
    spec = lab.spec("touch", str(target))
    run_dir = engine.run_dir(spec.run_id)
    RunDir(run_dir).create(spec, str(lab.folder / "locks"))
    RunDir(run_dir).ask_to_stop(5)
    fd = await engine._launcher.start(run_dir)
    assert fd is not None
    os.close(fd)
    await lab.until((run_dir / "exit").exists, "its exit record")
    assert await engine.recover(spec.run_id) is Found.FINISHED
    assert (lab.ends[spec.run_id].reason, target.exists()) == (EndReason.REVOKED, False)
    assert lab.ends[spec.run_id].error == "it was stopped before it began"


async def test_term_to_the_supervisor_ends_the_job(lab: Lab) -> None:
    engine = await lab.engine()
    run_id = await begun(lab, engine, "sleep", "600")
    supervisor = RunDir(engine.run_dir(run_id)).supervisor()
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGHUP)  # a logout is none of a detached run's business
    os.kill(supervisor.pid, signal.SIGTERM)
    assert (await lab.end_of(run_id)).signal == signal.SIGTERM


@pytest.mark.parametrize("daemon_dies", [False, True])
async def test_a_run_whose_supervisor_was_killed_can_be_stopped(lab: Lab, way: str, daemon_dies: bool) -> None:
    engine = await lab.engine()
    run_id = await begun(lab, engine, sys.executable, "-c", HIDERS, "5", says=b"hidden")
    supervisor = RunDir(engine.run_dir(run_id)).supervisor()
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    await lab.until(lambda: procs.stat(supervisor.pid) is None, "the supervisor's end")
    assert len(engine.pids(run_id)) == 6
    await engine.stop(run_id, 0.3)
    if daemon_dies:
        await lab.close(engine)
        engine = await lab.engine()
        assert await engine.recover(run_id) is Found.RUNNING
    assert (await lab.end_of(run_id)).reason is EndReason.LOST
    await lab.until(lambda: engine.pids(run_id) == (), "what was left behind to end")
    await engine.forget(run_id)


async def test_what_a_lost_run_left_behind_is_seen_and_can_be_ended(lab: Lab) -> None:
    engine = await lab.engine()
    run_id = await begun(lab, engine, sys.executable, "-c", HIDERS, "4", says=b"hidden")
    supervisor, top = RunDir(engine.run_dir(run_id)).supervisor(), lab.began[run_id].pid
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    os.kill(top, signal.SIGKILL)  # the others still hold the lock
    await lab.until(lambda: len(engine.pids(run_id)) == 4, "four to be left")
    assert run_id not in lab.ends
    await engine.stop(run_id, 0.1)
    assert (await lab.end_of(run_id)).reason is EndReason.LOST
    await lab.until(lambda: engine.pids(run_id) == (), "them to end")


async def test_closing_the_engine_leaves_runs_alone(lab: Lab) -> None:
    engine = await lab.engine()
    run_id = await begun(lab, engine, "sleep", "600")
    await lab.close(engine)
    assert procs.with_environment(b"GPUTUI_RUN_ID", run_id.encode()) == [lab.began[run_id].pid]
    engine = await lab.engine()
    assert await engine.recover(run_id) is Found.RUNNING
    await engine.stop(run_id, 5)
    assert (await lab.end_of(run_id)).signal == signal.SIGTERM


async def test_a_run_is_stopped_without_a_file_when_none_can_be_written(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await lab.engine()
    run_id = await begun(lab, engine, *script("trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done"), says=b"up")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(RunDir, "ask_to_stop", full)
    await engine.stop(run_id, 30)
    assert (await lab.end_of(run_id)).exit_code == 9


@pytest.mark.parametrize("lost", ["the directory", "its records"])
async def test_a_run_whose_files_vanished_is_stopped_and_not_taken_for_one_that_never_began(
    lab: Lab, lost: str
) -> None:
    engine = await lab.engine()
    run_id = await begun(lab, engine, *script("trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done"), says=b"up")
    run_dir = engine.run_dir(run_id)
    if lost == "the directory":
        shutil.rmtree(run_dir)
        assert engine.pids(run_id)
        await engine.stop(run_id, 30)
    else:
        supervisor = RunDir(run_dir).supervisor()
        assert supervisor is not None
        for name in ("pid", "lock", "began"):
            (run_dir / name).unlink()
        os.kill(supervisor.pid, signal.SIGKILL)
    assert (await lab.end_of(run_id)).reason is EndReason.GONE
    for pid in procs.with_environment(b"GPUTUI_RUN_ID", run_id.encode()):
        os.kill(pid, signal.SIGKILL)


async def test_runs_start_again_in_a_folder_that_was_cleaned_away(lab: Lab) -> None:
    engine = await lab.engine()
    shutil.rmtree(lab.folder / "runs")
    _, end = await lab.run(engine, *script("exit 3"))
    assert end.exit_code == 3
