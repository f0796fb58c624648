"""`gputui shell`: the run belongs to the caller's terminal, and is followed and ended as any other."""

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator

import pytest

from gputui.engines.engine import EndReason, RunSpec
from gputui.engines.launcher import supervisor_argv
from gputui.engines.local import LocalEngine
from gputui.engines.supervision import gpulock, procs
from tests.engines.conftest import MARK, Lab, script


class Terminal:
    """A pseudo terminal with a shell on it that starts the supervisor as its foreground child."""

    def __init__(self) -> None:
        self.ours, self.theirs = os.openpty()
        os.set_blocking(self.ours, False)
        self.shown = b""
        self.shell: subprocess.Popen[bytes] | None = None

    def start(self, lab: Lab, engine: LocalEngine, spec: RunSpec, then: str = "echo code $?") -> None:
        command = shlex.join(supervisor_argv(engine.run_dir(spec.run_id), "--interactive"))
        self.shell = subprocess.Popen(
            ["setsid", "--ctty", "sh", "-c", f"{command}; {then}"],
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            env={"PATH": "/usr/bin:/bin", MARK: lab.mark},
        )

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def shows(self, text: bytes) -> bool:
        with contextlib.suppress(OSError):  # nothing there yet, or hung up
            self.shown += os.read(self.ours, 65536)
        return text in self.shown

    def hang_up(self) -> None:
        for fd in (self.ours, self.theirs):
            os.close(fd)
        self.ours = self.theirs = -1

    def close(self) -> None:
        if self.ours >= 0:
            self.hang_up()
        if self.shell:
            self.shell.kill()
            self.shell.wait()


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.close()


async def test_it_has_the_terminal_and_gives_it_back(lab: Lab, terminal: Terminal) -> None:
    engine = await lab.engine()
    ask = script("tty; read answer; echo it was $answer; exit 5")
    spec = lab.spec(*ask, interactive=True, gpu_uuids=("GPU-1",))
    await engine.start(spec)
    await asyncio.sleep(0)
    assert lab.told == []
    terminal.start(lab, engine, spec, "echo code $?; read more; echo and $more")
    await lab.until(lambda: terminal.shows(b"/dev/pts/"), "the job on the terminal")
    await lab.until(lambda: spec.run_id in lab.began, "its beginning")
    assert engine.pids(spec.run_id) == (lab.began[spec.run_id].pid,)
    assert gpulock.locked(str(lab.folder / "locks"), ["GPU-1"]) == {"GPU-1"}
    terminal.type(b"forty two\n")
    end = await lab.end_of(spec.run_id)
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 5)
    await lab.until(lambda: terminal.shows(b"it was forty two\r\ncode 5\r\n"), "its exit code in the shell")
    terminal.type(b"the shell reads again\n")
    await lab.until(lambda: terminal.shows(b"and the shell reads again"), "the shell")
    assert not (engine.run_dir(spec.run_id) / "log").exists()


async def test_ctrl_c_is_for_the_job_alone(lab: Lab, terminal: Terminal) -> None:
    engine = await lab.engine()
    spec = lab.spec(*script("trap 'exit 44' INT; echo up; while :; do sleep 0.05; done"), interactive=True)
    await engine.start(spec)
    terminal.start(lab, engine, spec)
    await lab.until(lambda: terminal.shows(b"up"), "the job")
    terminal.type(b"\x03")
    assert (await lab.end_of(spec.run_id)).exit_code == 44
    await lab.until(lambda: terminal.shows(b"code 44"), "its exit code")


async def test_ctrl_z_stops_it_with_its_caller_and_fg_continues_it(lab: Lab, terminal: Terminal) -> None:
    engine = await lab.engine()
    spec = lab.spec(*script("echo up; read answer; exit $answer"), interactive=True)
    await engine.start(spec)
    terminal.start(lab, engine, spec)
    await lab.until(lambda: terminal.shows(b"up"), "the job")
    await lab.until(lambda: spec.run_id in lab.began, "its beginning")
    assert terminal.shell
    group = terminal.shell.pid

    def stopped(pid: int) -> bool:
        return (now := procs.stat(pid)) is not None and now.state == b"T"

    terminal.type(b"\x1a")
    await lab.until(lambda: stopped(group) and stopped(lab.began[spec.run_id].pid), "both to stop")
    os.killpg(group, signal.SIGCONT)  # what `fg` does in a shell with job control
    await lab.until(lambda: not stopped(lab.began[spec.run_id].pid), "the job to go on")
    terminal.type(b"6\n")
    assert (await lab.end_of(spec.run_id)).exit_code == 6


async def test_it_ends_when_the_terminal_hangs_up(lab: Lab, terminal: Terminal) -> None:
    engine = await lab.engine()
    stubborn = script("trap 'echo' HUP; trap 'exit 12' TERM; echo up; while :; do sleep 0.05; done")
    spec = lab.spec(*stubborn, interactive=True, grace=20.0)
    await engine.start(spec)
    terminal.start(lab, engine, spec)
    await lab.until(lambda: terminal.shows(b"up"), "the job")
    terminal.hang_up()
    end = await lab.end_of(spec.run_id)
    assert end.exit_code == 12


async def test_it_can_be_stopped_by_the_daemon(lab: Lab, terminal: Terminal) -> None:
    engine = await lab.engine()
    spec = lab.spec("sleep", "600", interactive=True)
    await engine.start(spec)
    terminal.start(lab, engine, spec)
    await lab.until(lambda: spec.run_id in lab.began, "its beginning")
    await engine.stop(spec.run_id, 10)
    assert (await lab.end_of(spec.run_id)).signal == signal.SIGTERM
    await lab.until(lambda: terminal.shows(b"code 143"), "its exit code")


async def test_one_that_nobody_began_can_be_revoked(lab: Lab, terminal: Terminal) -> None:
    engine = await lab.engine()
    spec = lab.spec("echo", "ran", interactive=True)
    await engine.start(spec)
    assert await engine.revoke(spec.run_id)
    terminal.start(lab, engine, spec)
    await lab.until(lambda: terminal.shows(b"code 1"), "the refusal")
    assert terminal.shown.replace(b"\r", b"") == b"gputui: it was revoked before it began\ncode 1\n"
    assert lab.told == []


async def test_a_gpu_that_somebody_locked_is_said_at_both_ends(lab: Lab, terminal: Terminal) -> None:
    engine = await lab.engine()
    folder = str(lab.folder / "locks")
    gpulock.prepare(folder)
    held = gpulock.acquire(folder, "GPU-1", share=False)
    spec = lab.spec("echo", "ran", interactive=True, gpu_uuids=("GPU-1",))
    await engine.start(spec)
    terminal.start(lab, engine, spec)
    end = await lab.end_of(spec.run_id)
    os.close(held)
    assert end.reason is EndReason.REVOKED
    assert end.error == "GPU-1 is in use by another program that takes gputui's locks"
    await lab.until(lambda: terminal.shows(b"code 1"), "the refusal")
    assert b"gputui: GPU-1 is in use" in terminal.shown


async def test_what_cannot_be_executed_is_said_on_the_terminal(lab: Lab, terminal: Terminal) -> None:
    engine = await lab.engine()
    spec = lab.spec("nosuch", interactive=True)
    await engine.start(spec)
    terminal.start(lab, engine, spec)
    assert (await lab.end_of(spec.run_id)).reason is EndReason.NOEXEC
    await lab.until(lambda: terminal.shows(b"gputui: cannot run nosuch: no such file\r\ncode 127"), "the sentence")
