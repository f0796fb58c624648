"""A run gets exactly what its spec says, and its end is told as it was."""

import json
import os
import signal
import sys
from datetime import UTC, datetime

import pytest

from gputui.engines import logs
from gputui.engines.engine import EndReason
from gputui.engines.rundir import RunDir
from tests.engines.conftest import Lab, script

REPORT = """
import json, os, sys
with open(sys.argv[1], "w") as file:
    json.dump({
        "argv": [os.fsencode(a).hex() for a in sys.argv[2:]],
        "env": {k.hex(): v.hex() for k, v in os.environb.items()},
        "cwd": os.getcwdb().hex(),
        "stdin": os.path.samestat(os.fstat(0), os.stat("/dev/null")),
        "fds": {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                if os.path.exists(f"/proc/self/fd/{fd}")},
        "leads": os.getsid(0) == os.getpid() == os.getpgid(0),
        "ignored": [l for l in open("/proc/self/status") if l.startswith(("SigIgn", "SigBlk"))],
    }, file)
"""
# python itself ignores SIGPIPE and SIGXFSZ, so the mask is read by a program that changes nothing
READ_MASKS = "grep -E '^Sig(Ign|Blk)' /proc/self/status"
OF_THE_C_LIBRARY = 1 << 31 | 1 << 32
"""Signals 32 and 33, which no program can set through it and which `make` leaves ignored in its children."""


async def test_exit_codes_and_signals_are_told_as_they_were(lab: Lab) -> None:
    engine = await lab.engine()
    before = datetime.now(UTC)
    spec, end = await lab.run(engine, *script("exit 3"))
    assert (end.reason, end.exit_code, end.signal) == (EndReason.EXITED, 3, None)
    assert end.started_at is not None
    assert end.ended_at is not None
    assert before <= end.started_at <= end.ended_at <= datetime.now(UTC)
    assert end.duration is not None
    assert end.duration >= 0
    assert not end.oom_killed
    assert lab.told == [("began", spec.run_id), ("end", spec.run_id)]
    _, end = await lab.run(engine, "true")
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    _, end = await lab.run(engine, *script("kill -SEGV $$"))
    assert (end.reason, end.exit_code, end.signal) == (EndReason.SIGNALLED, None, signal.SIGSEGV)


async def test_began_names_the_top_process(lab: Lab) -> None:
    engine = await lab.engine()
    spec = lab.spec(*script("echo $$; exec sleep 60"))
    await engine.start(spec)
    await lab.until(lambda: spec.run_id in lab.began, "its beginning")
    assert engine.pids(spec.run_id) == (lab.began[spec.run_id].pid,)
    await engine.stop(spec.run_id, 10)
    end = await lab.end_of(spec.run_id)
    assert (end.reason, end.signal) == (EndReason.SIGNALLED, signal.SIGTERM)
    assert logs.read(engine.run_dir(spec.run_id), 0, 100).data == b"%d\n" % lab.began[spec.run_id].pid
    assert engine.pids(spec.run_id) == ()


async def test_argv_environment_and_directory_arrive_as_bytes(lab: Lab) -> None:
    engine = await lab.engine()
    folder = lab.folder / "caf\udce9 d'ir"
    folder.mkdir()
    target = lab.folder / "report.json"
    argv = [b"", b"a b", b"it's", b'"', b"&;|$(x)`y`", b"two\nlines", b"\xff\xfe\x80", "ü字🚀".encode()]
    argv += [b"%d" % number for number in range(2000)]
    env = {b"PLAIN": b"1", b"BYTES": b"\xff\x01\n", b"EMPTY": b"", b"\xfe": b"name too"}
    spec, end = await lab.run(engine, sys.executable, "-c", REPORT, str(target), *argv, env=env, cwd=bytes(folder))
    assert end.exit_code == 0, logs.read(engine.run_dir(spec.run_id), 0, 9999).data
    seen = json.loads(target.read_text())
    assert [bytes.fromhex(word) for word in seen["argv"]] == argv
    got = {bytes.fromhex(name): bytes.fromhex(value) for name, value in seen["env"].items()}
    got.pop(b"LC_CTYPE", None)  # Python sets it for itself
    assert got == spec.env
    assert bytes.fromhex(seen["cwd"]) == bytes(folder)
    assert seen["stdin"]
    assert seen["leads"]


async def test_a_job_gets_no_descriptor_but_its_own_and_the_locks(lab: Lab) -> None:
    engine = await lab.engine()
    target = lab.folder / "report.json"
    with (lab.folder / "of the daemon").open("w") as ours:
        os.set_inheritable(ours.fileno(), True)
        spec, _ = await lab.run(engine, sys.executable, "-c", REPORT, str(target), gpu_uuids=("GPU-1",))
    run_dir = engine.run_dir(spec.run_id)
    seen = json.loads(target.read_text())["fds"]
    links = [link for link in seen.values() if not link.startswith("/proc/")]
    locks = [str(run_dir / "lock"), str(lab.folder / "locks" / "gputui-GPU-1.lock")]
    assert sorted(links) == sorted(["/dev/null", str(run_dir / "output"), str(run_dir / "output"), *locks, str(target)])


async def test_signals_are_neither_ignored_nor_blocked(lab: Lab) -> None:
    engine = await lab.engine()
    spec, _ = await lab.run(engine, *script(READ_MASKS))
    words = logs.read(engine.run_dir(spec.run_id), 0, 999).data.split()
    assert words[::2] == [b"SigBlk:", b"SigIgn:"]
    assert [int(mask, 16) & ~OF_THE_C_LIBRARY for mask in words[1::2]] == [0, 0]


@pytest.mark.parametrize(
    ("argv", "cwd", "sentence"),
    [
        (("train.py",), b"/", "cannot run train.py: no such file"),
        (("/no/such/train.py",), b"/", "cannot run /no/such/train.py: no such file"),
        (("/etc/passwd",), b"/", "cannot run /etc/passwd: permission denied"),
        (("true",), b"/gone/for good", "cannot enter the directory /gone/for good: no such directory"),
        (("true",), b"/etc/passwd", "cannot enter the directory /etc/passwd: not a directory"),
        (
            ("true", "x" * 200_000),
            b"/",
            "cannot run true: its arguments and environment are larger than Linux takes at once",
        ),
    ],
)
async def test_what_cannot_be_executed_says_why(lab: Lab, argv: tuple[str, ...], cwd: bytes, sentence: str) -> None:
    engine = await lab.engine()
    spec, end = await lab.run(engine, *argv, cwd=cwd)
    assert (end.reason, end.error) == (EndReason.NOEXEC, sentence)
    assert spec.run_id not in lab.began


async def test_a_script_whose_interpreter_is_missing_says_so(lab: Lab) -> None:
    path = lab.folder / "run.sh"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    _, end = await lab.run(await lab.engine(), str(path))
    assert end.error == f"cannot run {path}: the interpreter that its first line names is missing"


async def test_a_run_ends_with_its_last_process(lab: Lab) -> None:
    engine = await lab.engine()
    fifo = lab.folder / "go"
    os.mkfifo(fifo)
    spec = lab.spec(*script(f"(cat {fifo}; echo late) & exit 7"))
    await engine.start(spec)
    await lab.until(lambda: spec.run_id in lab.began, "its beginning")
    top = lab.began[spec.run_id].pid
    await lab.until(lambda: engine.pids(spec.run_id) and top not in engine.pids(spec.run_id), "the top process to end")
    assert spec.run_id not in lab.ends
    fifo.write_text("")
    end = await lab.end_of(spec.run_id)
    assert end.exit_code == 7
    assert logs.read(engine.run_dir(spec.run_id), 0, 99).data == b"late\n"


async def test_what_is_forgotten_in_the_background_is_ended_after_a_while(lab: Lab) -> None:
    engine = await lab.engine()
    _, end = await lab.run(engine, *script("setsid sleep 600 &", "sleep 601 & exit 0"))
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    assert end.duration is not None
    assert end.duration >= 5


async def test_forget_keeps_the_log_and_its_end(lab: Lab) -> None:
    engine = await lab.engine()
    spec, _ = await lab.run(engine, *script("echo kept"))
    await engine.forget(spec.run_id)
    run_dir = engine.run_dir(spec.run_id)
    assert sorted(path.name for path in run_dir.iterdir()) == ["exit", "log"]
    part = logs.read(run_dir, 0, 100)
    assert (part.data, part.ended, part.written) == (b"kept\n", True, 5)
    await engine.forget(spec.run_id)


async def test_starting_a_run_twice_is_refused(lab: Lab) -> None:
    engine = await lab.engine()
    spec, _ = await lab.run(engine, "true")
    with pytest.raises(FileExistsError):
        await engine.start(spec)


async def test_without_inotify_runs_are_followed_all_the_same(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> None:
        raise OSError(24, "inotify_init1")

    monkeypatch.setattr("gputui.engines.local.DirectoryWatch", none_left)
    engine = await lab.engine()
    spec, end = await lab.run(engine, *script("sleep 0.4; exit 5"))
    assert end.exit_code == 5
    assert lab.told == [("began", spec.run_id), ("end", spec.run_id)]


async def test_the_fork_server_is_replaced_when_it_dies(lab: Lab) -> None:
    engine = await lab.engine()
    spec = lab.spec("sleep", "600")
    await engine.start(spec)
    await lab.until(lambda: spec.run_id in lab.began, "its beginning")
    server = engine._launcher.server_pid
    assert server is not None
    os.kill(server, signal.SIGKILL)
    for code in (4, 5):
        _, end = await lab.run(engine, *script(f"exit {code}"))
        assert end.exit_code == code
    assert engine._launcher.server_pid not in (None, server)
    assert spec.run_id not in lab.ends
    await engine.stop(spec.run_id, 5)
    assert (await lab.end_of(spec.run_id)).signal == signal.SIGTERM
    assert RunDir(engine.run_dir(spec.run_id)).is_over()
