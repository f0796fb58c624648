"""A run is executed at most once, whoever dies at whichever step, and its end is told exactly once."""

import asyncio
import os
import random
import signal
from pathlib import Path

import pytest

from gputui.engines.engine import EndReason, Found, RunSpec
from gputui.engines.rundir import RunDir
from gputui.engines.supervision import procs
from tests.engines.conftest import Lab, script
from tests.support.counts import count

NEVER_BEGAN = ("start", "locked", "gpus-locked", "claimed", "forked", "recorded")
BEGAN = ("opened", "executed", "ended")
BY_THE_CHILD = ("gated", "before-exec")
BY_THE_FORK_SERVER = ("zygote-asked", "zygote-forked")


def once(lab: Lab, name: str, *more: str, **fields: object) -> tuple[RunSpec, Path]:
    """A spec that appends one line to a file each time it is executed."""
    counter = lab.folder / f"ran-{name}"
    return lab.spec(*script(f"echo $GPUTUI_RUN_ID >> {counter}", *more), **fields), counter  # type: ignore[arg-type]


def times_run(counter: Path) -> int:
    return len(counter.read_text().splitlines()) if counter.exists() else 0


@pytest.mark.parametrize("adopted", [False, True])
@pytest.mark.parametrize("step", [*NEVER_BEGAN, *BEGAN, *BY_THE_CHILD, "exit-written", *BY_THE_FORK_SERVER])
async def test_a_crash_at_any_step(lab: Lab, monkeypatch: pytest.MonkeyPatch, step: str, adopted: bool) -> None:
    monkeypatch.setenv("GPUTUI_TEST_CRASH", step)
    spec, counter = once(lab, step, "exit 3", gpu_uuids=("GPU-1",))
    engine = await lab.engine()
    await engine.start(spec)
    if adopted:
        await lab.close(engine)
        monkeypatch.delenv("GPUTUI_TEST_CRASH")
        # a daemon that comes back sooner may revoke what has not begun; twice, as a fork can slip by one look
        await lab.until(lambda: not lab.alive() and not lab.alive(), "the run's processes to be gone")
        found = await (await lab.engine()).recover(spec.run_id)
    else:
        end = await lab.end_of(spec.run_id)
        assert end.reason is not EndReason.SIGNALLED
        found = RunDir(engine.run_dir(spec.run_id)).look()
    if step in NEVER_BEGAN:
        assert (found, times_run(counter)) == (Found.NEVER_BEGAN, 0)
        assert (engine.run_dir(spec.run_id) / "revoked").exists()
    elif step in BEGAN:
        await lab.until(lambda: times_run(counter) == 1, "its line")
        assert found is Found.LOST
    elif step in BY_THE_CHILD:
        assert (found, times_run(counter)) == (Found.FINISHED, 0)
        assert lab.ends[spec.run_id].reason is EndReason.NOEXEC
    elif step != "zygote-asked" or not adopted:
        assert (found, times_run(counter)) == (Found.FINISHED, 1)
        assert lab.ends[spec.run_id].exit_code == 3


async def test_what_is_found_after_a_restart(lab: Lab) -> None:
    """The table of 'Exactly once, in steps', row by row."""
    engine = await lab.engine()
    assert await engine.recover("no-such-run") is Found.MISSING
    # the intent and the spec, and no supervisor ever
    spec = lab.spec("true")
    RunDir(engine.run_dir(spec.run_id)).create(spec, str(lab.folder / "locks"))
    assert await engine.recover(spec.run_id) is Found.NEVER_BEGAN
    # running: adopted, told that it began, and its end later
    spec = lab.spec("sleep", "600")
    await engine.start(spec)
    await lab.until(lambda: spec.run_id in lab.began, "its beginning")
    began = lab.began.pop(spec.run_id)
    await lab.close(engine)
    engine = await lab.engine()
    assert await engine.recover(spec.run_id) is Found.RUNNING
    assert lab.began[spec.run_id] == began
    assert not await engine.revoke(spec.run_id)
    os.kill(began.pid, signal.SIGINT)
    assert (await lab.end_of(spec.run_id)).signal == signal.SIGINT
    # finished while no daemon was there: told at once
    lab.ends.clear()
    assert await engine.recover(spec.run_id) is Found.FINISHED
    assert lab.ends[spec.run_id].signal == signal.SIGINT


@pytest.mark.parametrize("then", ["revoked", "revoked and forgotten"])
async def test_a_supervisor_that_comes_late_does_not_begin(lab: Lab, then: str) -> None:
    engine = await lab.engine()
    spec, counter = once(lab, "late")
    run_dir = engine.run_dir(spec.run_id)
    RunDir(run_dir).create(spec, str(lab.folder / "locks"))
    assert await engine.revoke(spec.run_id)
    if then == "revoked and forgotten":
        await engine.forget(spec.run_id)
    fd = await engine._launcher.start(run_dir)
    if fd is not None:
        os.close(fd)
    await lab.until(lambda: len(lab.alive()) == 1, "all but the fork server to be gone")
    assert times_run(counter) == 0
    assert not (run_dir / "claim").exists()


async def test_a_run_is_revoked_or_it_begins_and_never_both(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTUI_TEST_DELAYS", "100")
    engine = await lab.engine()
    runs = [once(lab, f"late-{number}") for number in range(count(16, 200))]
    revoked = {}
    for spec, _ in runs:
        await engine.start(spec)
        revoked[spec.run_id] = await engine.revoke(spec.run_id)  # about every second one is still before its lock
        if revoked[spec.run_id]:
            await engine.forget(spec.run_id)
    for spec, _ in runs:
        if not revoked[spec.run_id]:
            await lab.end_of(spec.run_id)
    await lab.until(lambda: len(lab.alive()) == 1, "all but the fork server to be gone")
    for spec, counter in runs:
        assert times_run(counter) == (0 if revoked[spec.run_id] else 1)
        assert (spec.run_id in lab.ends) != revoked[spec.run_id]


async def test_two_supervisors_of_one_run(lab: Lab) -> None:
    engine = await lab.engine()
    spec, counter = once(lab, "twice", "sleep 0.3")
    await engine.start(spec)
    rivals = [await engine._launcher.start(engine.run_dir(spec.run_id)) for _ in range(3)]
    for fd in rivals:
        if fd is not None:
            os.close(fd)
    assert (await lab.end_of(spec.run_id)).exit_code == 0
    await lab.until(lambda: len(lab.alive()) == 1, "the rivals to give up")
    assert times_run(counter) == 1


async def test_a_killed_supervisor_leaves_the_job_alone_and_the_run_is_lost_when_it_ends(lab: Lab) -> None:
    engine = await lab.engine()
    gate = lab.folder / "gate"
    os.mkfifo(gate)
    spec = lab.spec(*script(f"cat {gate}", "exit 0"), gpu_uuids=("GPU-7",))
    await engine.start(spec)
    await lab.until(lambda: spec.run_id in lab.began, "its beginning")
    supervisor = RunDir(engine.run_dir(spec.run_id)).supervisor()
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    await lab.until(lambda: procs.stat(supervisor.pid) is None, "the supervisor's end")
    await lab.close(engine)
    engine = await lab.engine()
    assert await engine.recover(spec.run_id) is Found.RUNNING
    assert lab.began[spec.run_id].pid in engine.pids(spec.run_id)
    other = await lab.engine()
    assert other.locked_by_others(["GPU-7", "GPU-8"]) == {"GPU-7"}  # the job holds it still
    gate.write_text("")
    end = await lab.end_of(spec.run_id)
    assert (end.reason, end.error) == (EndReason.LOST, "its supervisor was killed")


async def test_storm(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick runs, daemons that come and go at random, fork servers killed, random delays between each two steps."""
    monkeypatch.setenv("GPUTUI_TEST_DELAYS", "15")
    dice = random.Random(7)
    total = count(60, 300)
    specs = {}
    for number in range(total):
        spec, _ = once(lab, "storm", f"exit {number % 200}", gpu_uuids=(f"GPU-{number % 8}",))
        specs[spec.run_id] = (spec, number % 200)
    waiting = list(specs)
    on_gpu: dict[str, str] = {}
    engine = await lab.engine()
    while len(lab.ends) < total:
        for gpu in [gpu for gpu, run_id in on_gpu.items() if run_id in lab.ends]:
            del on_gpu[gpu]
        for run_id in waiting[:16]:
            spec, _ = specs[run_id]
            if spec.gpu_uuids[0] not in on_gpu:
                waiting.remove(run_id)
                on_gpu[spec.gpu_uuids[0]] = run_id
                await engine.start(spec)
        act = dice.random()
        if act < 0.1:
            if server := engine._launcher.server_pid:  # none between one that died and the next start
                os.kill(server, signal.SIGKILL)
        elif act < 0.25:
            await lab.close(engine)
            engine = await lab.engine()
            for run_id in on_gpu.values():
                if run_id not in lab.ends:
                    found = await engine.recover(run_id)
                    if found is Found.NEVER_BEGAN:  # it may be started as another run; here: the same words
                        spec, code = specs.pop(run_id)
                        again, _ = once(lab, "storm", f"exit {code}", gpu_uuids=spec.gpu_uuids)
                        specs[again.run_id] = (again, code)
                        waiting.append(again.run_id)
            on_gpu = {gpu: run_id for gpu, run_id in on_gpu.items() if run_id in specs}
        await asyncio.sleep(dice.random() * 0.05)
    lines = (lab.folder / "ran-storm").read_text().splitlines()
    assert sorted(lines) == sorted(specs)
    for run_id, (_, code) in specs.items():
        assert (lab.ends[run_id].reason, lab.ends[run_id].exit_code) == (EndReason.EXITED, code)
