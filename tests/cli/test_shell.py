"""`gputui shell`: an interactive run on the caller's terminal."""

import sys

from tests.support.daemon import until
from tests.support.pty import PROMPT, Terminal

SHELL = [sys.executable, "-P", "-m", "gputui.cli", "shell"]


def test_a_program_runs_on_this_terminal_with_its_gpu_and_gives_its_exit_code(daemon):
    script = "stty size; echo gpu $CUDA_VISIBLE_DEVICES; read line; echo said $line; exit 7"
    with Terminal([*SHELL, "--gpus", "1", "--for", "2h", "--", "sh", "-c", script], rows=20, columns=70) as terminal:
        terminal.wait_for("20 70")
        terminal.wait_for("gpu GPU-")
        with daemon.client() as client:
            until(lambda: client.jobs(state=["running"])["total"] == 1)
            (job,) = client.jobs(state=["running"])["jobs"]
            assert (job["gpus"], len(job["gpu_uuids"])) == (1, 1)
        terminal.send("hello", "enter")
        terminal.wait_for("said hello")
        assert terminal.exit_code() == 7
        assert terminal.not_restored() == []
    with daemon.client() as client:
        until(lambda: client.job(job["id"])["state"] == "failed")
        assert client.job(job["id"])["exit_code"] == 7


def test_it_says_why_it_waits_and_ctrl_c_gives_up(daemon):
    with Terminal([*SHELL, "--gpus", "9"], columns=160) as terminal:
        terminal.wait_for("asks for 9 GPUs")
        terminal.send("^c")
        assert terminal.exit_code() == 130
    with daemon.client() as client:
        until(lambda: client.jobs()["jobs"][0]["state"] == "cancelled")


def test_job_control_meets_the_program_itself(daemon, tmp_path):
    with Terminal.shell(tmp_path) as terminal:
        program = tmp_path / "program.py"
        program.write_text(
            "import os, signal, sys\n"
            # not by print: the stop may have come in the middle of one
            "signal.signal(signal.SIGCONT, lambda *_: os.write(1, b'back\\n'))\n"
            "print('up', flush=True)\n"
            "for line in sys.stdin: print('got', line, end='', flush=True)\n"
        )
        terminal.command(" ".join([*SHELL, "--", sys.executable, str(program)]))
        terminal.wait_for("\nup")
        terminal.send("^z")
        terminal.wait_for("Stopped")
        terminal.command("echo us''able")
        terminal.wait_for("usable")
        terminal.command("fg")
        terminal.wait_for("back")
        terminal.send("again", "enter")
        terminal.wait_for("got again")
        start = len(terminal.raw)
        terminal.send("^d")
        terminal.wait_for_bytes(PROMPT.encode(), after=start)
    with daemon.client() as client:
        until(lambda: client.jobs()["jobs"][0]["state"] == "succeeded")
