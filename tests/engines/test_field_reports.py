"""What went wrong elsewhere in running jobs, one test per report, named by repository and number."""

import os
import signal
import sys

from gputui.engines import logs
from gputui.engines.engine import EndReason, Found
from gputui.engines.rundir import RunDir
from gputui.engines.supervision import procs
from gputui.engines.supervision.logwriter import segments
from tests.engines.conftest import Lab, script


async def test_nukesor_pueue_372_kill_reaches_the_grandchildren_of_a_shell(lab: Lab) -> None:
    engine = await lab.engine()
    spec = lab.spec("sh", "-c", "sh -c 'sh -c \"sleep 600; true\"; true'; true")
    await engine.start(spec)
    await lab.until(lambda: len(engine.pids(spec.run_id)) == 4, "the shells and their sleep")
    grandchildren = engine.pids(spec.run_id)
    await engine.stop(spec.run_id, 10)
    await lab.end_of(spec.run_id)
    assert all((now := procs.stat(pid)) is None or now.dead for pid in grandchildren)


async def test_justanhduc_task_spooler_68_a_restart_adopts_what_runs(lab: Lab) -> None:
    engine = await lab.engine()
    specs = [lab.spec(*script(f"trap 'exit {number}' TERM; sleep 600 & wait")) for number in range(1, 9)]
    for spec in specs:
        await engine.start(spec)
    await lab.until(lambda: len(lab.began) == len(specs), "all to begin")
    began = dict(lab.began)
    for _ in range(3):
        await lab.close(engine)
        engine = await lab.engine()
        lab.began.clear()
        for spec in specs:
            assert await engine.recover(spec.run_id) is Found.RUNNING
        assert lab.began == began
    for spec in specs:
        await lab.until(lambda run_id=spec.run_id: len(engine.pids(run_id)) == 2, "its trap to be set")
        await engine.stop(spec.run_id, 20)
    assert [(await lab.end_of(spec.run_id)).exit_code for spec in specs] == list(range(1, 9))


async def test_skypilot_7847_a_recycled_pid_after_a_reboot_is_not_ours(lab: Lab) -> None:
    engine = await lab.engine()
    spec = lab.spec("true")
    run_dir = RunDir(engine.run_dir(spec.run_id))
    run_dir.create(spec, "/nowhere")
    now = procs.stat(os.getpid())
    assert now is not None
    # same pid and even the same start time: only the boot differs
    record = f'{{"pid":{os.getpid()},"start_time":{now.start_time},"boot_id":"the boot before"}}'
    (run_dir.path / "claim").write_text(record)
    (run_dir.path / "pid").write_text(record)
    assert await engine.recover(spec.run_id) is Found.LOST
    assert lab.ends[spec.run_id].reason is EndReason.LOST
    assert engine.pids(spec.run_id) == ()
    await engine.stop(spec.run_id, 0)  # were it taken for ours, this test would not reach its end
    await lab.until(lambda: not engine._endings, "the stop to be done")


async def test_skypilot_5911_orphans_are_reaped_while_the_job_runs(lab: Lab) -> None:
    engine = await lab.engine()
    spawn = "for i in $(seq 300); do (true & ) ; done; echo spawned; exec sleep 600"
    spec = lab.spec("sh", "-c", spawn)
    await engine.start(spec)
    await lab.until(lambda: logs.read(engine.run_dir(spec.run_id), 0, 99).data == b"spawned\n", "its orphans")
    supervisor = RunDir(engine.run_dir(spec.run_id)).supervisor()
    assert supervisor is not None
    top = lab.began[spec.run_id].pid
    await lab.until(lambda: procs.children(supervisor.pid) == [top], "all orphans to be reaped")
    await engine.stop(spec.run_id, 5)
    await lab.end_of(spec.run_id)


async def test_skypilot_5911_ended_supervisors_are_no_zombies(lab: Lab) -> None:
    engine = await lab.engine()
    for _ in range(20):
        await lab.run(engine, "true")
    assert engine._launcher.server_pid is not None
    await lab.until(lambda: procs.children(engine._launcher.server_pid or 0) == [], "them to be collected")


async def test_nukesor_pueue_297_the_daemons_environment_does_not_leak_into_jobs(lab: Lab) -> None:
    os.environ["SECRET_OF_THE_DAEMON"] = "1"
    try:
        engine = await lab.engine()
        spec, _ = await lab.run(engine, "env", "-0")
    finally:
        del os.environ["SECRET_OF_THE_DAEMON"]
    seen = dict(line.split(b"=", 1) for line in logs.read(engine.run_dir(spec.run_id), 0, 99999).data.split(b"\0")[:-1])
    assert seen == spec.env


async def test_skypilot_7716_output_is_capped_and_the_reader_is_told(lab: Lab) -> None:
    engine = await lab.engine()
    spec, _ = await lab.run(engine, *script("head -c 20000000 /dev/zero; echo end"), log_cap=1_000_000)
    run_dir = engine.run_dir(spec.run_id)
    assert sum(size for _, size in segments(str(run_dir / "log"))) <= 1_000_000
    tail = logs.read(run_dir, -4, 100)
    assert (tail.data, tail.written) == (b"end\n", 20_000_004)
    after_head = logs.read(run_dir, 250_000, 10)
    assert after_head.gap > 18_000_000


async def test_nukesor_pueue_158_arguments_are_not_parsed_again(lab: Lab) -> None:
    engine = await lab.engine()
    words = ["&", "a b", "it's", '"quoted"', "$HOME", "*", "a;b", "x>y", "new\nline", "\\", ""]
    spec, _ = await lab.run(engine, sys.executable, "-c", "import sys; print(sys.argv[1:])", *words)
    assert logs.read(engine.run_dir(spec.run_id), 0, 9999).data == f"{words}\n".encode()


async def test_dstack_893_an_abort_is_not_over_before_its_processes_are(lab: Lab) -> None:
    engine = await lab.engine()
    spec = lab.spec(*script("trap '' TERM; (trap '' TERM; echo up; sleep 600; sleep 600) & wait"))
    await engine.start(spec)
    await lab.until(lambda: logs.read(engine.run_dir(spec.run_id), 0, 9).data == b"up\n", "its processes")
    alive_at_end: list[list[int]] = []
    told = engine._on_end

    def on_end(run_id: str, end: object) -> None:
        alive_at_end.append(procs.with_environment(b"GPUTUI_RUN_ID", run_id.encode()))
        told(run_id, end)  # type: ignore[arg-type]

    engine._on_end = on_end
    await engine.stop(spec.run_id, 0.3)
    assert (await lab.end_of(spec.run_id)).signal == signal.SIGKILL
    assert alive_at_end == [[]]


async def test_nukesor_pueue_302_a_stale_record_after_a_crash_hinders_nothing(lab: Lab) -> None:
    """What holds a run is the kernel's lock, which ends with its holder, never a file that stays behind."""
    engine = await lab.engine()
    spec = lab.spec("sleep", "600")
    await engine.start(spec)
    await lab.until(lambda: spec.run_id in lab.began, "its beginning")
    supervisor = RunDir(engine.run_dir(spec.run_id)).supervisor()
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    os.kill(lab.began[spec.run_id].pid, signal.SIGKILL)
    assert (await lab.end_of(spec.run_id)).reason is EndReason.LOST
    assert RunDir(engine.run_dir(spec.run_id)).look() is Found.LOST
