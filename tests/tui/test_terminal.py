"""The screen on a real terminal: signals, Ctrl-Z, sizes, kinds of terminals, and its end."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pty import PROMPT, Terminal

os.environ["TZ"] = "UTC"
PROGRAM = [sys.executable, "-m", "tests.tui.program"]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def shown() -> Iterator[Terminal]:
    with Terminal(PROGRAM, cwd=ROOT) as terminal:
        terminal.wait_for("#420 pretrain-13b")
        yield terminal


def test_q_restores_the_terminal(shown: Terminal) -> None:
    shown.send("q")
    assert shown.exit_code() == 0
    assert shown.not_restored() == []


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGQUIT, 131)],
)
def test_signals_restore_the_terminal_and_give_their_code(shown: Terminal, number: signal.Signals, code: int) -> None:
    shown.kill(number)
    assert shown.exit_code() == code
    assert shown.not_restored() == []


def test_ctrl_c_twice_quits(shown: Terminal) -> None:
    shown.send("^c")
    shown.wait_for("Press ^c again to quit. Jobs go on running.")
    shown.send("^c")
    assert shown.exit_code() == 0
    assert shown.not_restored() == []


def test_resize_follows_the_window_whatever_the_environment_says() -> None:
    with Terminal(PROGRAM, cwd=ROOT, rows=24, columns=80, env={"TEXTUAL_FPS": "30"}) as terminal:
        terminal.wait_for("#420")
        for rows, columns in ((60, 200), (12, 40), (40, 120)):
            terminal.resize(rows, columns)
            # the lowest line has the keys, and nothing is left of the old size
            terminal.wait_for(lambda picture, rows=rows: "? help" in (picture.split("\n") + [""] * rows)[rows - 1])
            assert "#420" in terminal.text()


def test_columns_and_lines_of_the_environment_are_ignored() -> None:
    argv = ["env", "COLUMNS=80", "LINES=24", *PROGRAM]
    with Terminal(argv, cwd=ROOT, rows=40, columns=120) as terminal:
        terminal.wait_for(lambda picture: "? help" in (picture.split("\n") + [""] * 40)[39])


@pytest.mark.parametrize("term", ["dumb", "screen", "xterm", "tmux-256color", "linux"])
def test_every_terminal_shows_the_screen_and_gets_its_modes_back(term: str) -> None:
    with Terminal(PROGRAM, cwd=ROOT, term=term, env={"COLORTERM": ""}) as terminal:
        picture = terminal.wait_for("#420 pretrain-13b")
        assert "h100-80g" in picture
        assert (">" if term in ("dumb", "linux") else "▸") in picture
        terminal.send("j")
        terminal.wait_for("#431 dpo-7b · core · li")
        terminal.send("q")
        assert terminal.exit_code() == 0
        assert terminal.not_restored() == []


def test_ctrl_z_and_fg_paint_everything_anew(tmp_path: Path) -> None:
    with Terminal.shell(tmp_path, rows=40, columns=120) as shell:
        shell.command(f"cd {ROOT}")
        shell.command(" ".join(PROGRAM))
        shell.wait_for("#420 pretrain-13b")
        shell.send("^z")
        shell.wait_for(re.compile(r"Stopped"))
        shell.command("echo us''able")
        shell.wait_for("usable")
        shell.command("fg")
        picture = shell.wait_for("#420 pretrain-13b")
        assert "▸" in picture
        shell.wait_for("? help")
        shell.send("j")
        shell.wait_for("#431 dpo-7b · core · li")
        before = len(shell.raw)
        shell.send("q")
        shell.wait_for_bytes(PROMPT.encode(), after=before)
        shell.command("echo ended:$?")
        shell.wait_for("ended:0")


def test_ctrl_z_without_a_shell_is_ignored(shown: Terminal) -> None:
    """The program leads its own session here: a stop would be for good."""
    shown.send("^z")
    shown.wait_for("There is no shell to go back to here.")
    shown.send("q")
    assert shown.exit_code() == 0


def test_a_crash_restores_the_terminal_and_says_one_sentence(tmp_path: Path) -> None:
    with Terminal([*PROGRAM, "--crash"], cwd=ROOT, env={"XDG_STATE_HOME": str(tmp_path)}) as terminal:
        assert terminal.exit_code() == 1
        assert terminal.not_restored() == []
        words = " ".join(terminal.text().split())
        assert "The screen stopped over a fault of its own" in words
        assert "Traceback" not in words
        [log] = tmp_path.rglob("screen.log")
        assert "Traceback" in log.read_text()


def test_a_lost_terminal_ends_the_program_within_a_second() -> None:
    """SIGHUP is ignored and the pty is closed: only the end of input tells."""
    argv = [
        sys.executable,
        "-c",
        f"import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv({sys.executable!r}, {PROGRAM!r})",
    ]
    with Terminal(argv, cwd=ROOT) as terminal:
        terminal.wait_for("#420 pretrain-13b")
        before = time.monotonic()
        terminal.hang_up()
        code = terminal.process.wait(10)
        assert code == 129
        assert time.monotonic() - before < 5


def test_without_a_terminal_it_says_what_to_use() -> None:
    code = "import sys; from gputui.tui.app import run; sys.exit(run())"
    done = subprocess.run(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, check=False, cwd=ROOT
    )
    assert done.returncode == 2
    assert b"needs a terminal" in done.stderr


def test_mouse_is_off_until_asked_for(shown: Terminal) -> None:
    assert b"\x1b[?1000h" not in shown.raw
    shown.send("m")
    shown.wait_for("hold Shift (or Option) to select text")
    shown.wait_for_bytes(b"\x1b[?1000h")
    shown.send("q")
    shown.exit_code()
    assert shown.not_restored() == []


def test_edit_gives_the_terminal_to_the_editor(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\necho EDITING; read answer; sed -i 's/^priority = 0/priority = 7/' \"$1\"\n")
    editor.chmod(0o755)
    with Terminal(PROGRAM, cwd=ROOT, env={"EDITOR": str(editor), "VISUAL": ""}) as terminal:
        terminal.wait_for("#420 pretrain-13b")
        terminal.send("E")
        terminal.wait_for("EDITING")
        terminal.send("enter")
        terminal.wait_for("#420 changed: priority.")
        terminal.send("q")
        assert terminal.exit_code() == 0


def test_an_idle_screen_writes_little(shown: Terminal) -> None:
    """The same readings each second: of 4,800 cells only the clock changes."""
    shown.wait_for("? help")
    for _ in range(30):  # the first frames may still be under way on a busy machine
        before = len(shown.raw)
        shown.wait_for_bytes(b"UTC", after=before)
        shown.wait_for_bytes(b"UTC", after=len(shown.raw))
        written = shown.raw[before:]
        if len(written) < 400:
            break
    assert len(written) < 400


def test_the_screen_loads_nothing_of_the_daemon() -> None:
    code = "import sys, gputui.tui.app; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=ROOT, text=True)
    loaded = set(done.stdout.split())
    for name in ("sqlalchemy", "sqlmodel", "fastapi", "apprise", "pydantic", "httpx", "gputui.daemon", "gputui.store"):
        assert name not in loaded
    for late in ("gputui.tui.widgets.help", "gputui.tui.widgets.dialogs", "gputui.tui.widgets.log_view"):
        assert late not in loaded


def test_monitor_shows_simulated_gpus() -> None:
    code = "import sys; from gputui.tui.app import run_monitor; sys.exit(run_monitor())"
    with Terminal([sys.executable, "-c", code], cwd=ROOT, env={"GPUTUI_SIMULATED_GPUS": "2xh100-80g"}) as terminal:
        picture = terminal.wait_for(re.compile(r"2 GPUs"))
        assert "Queue" not in picture
        assert os.path.exists(f"/proc/{terminal.process.pid}")
        terminal.send("q")
        assert terminal.exit_code() == 0
        assert terminal.not_restored() == []
