"""The screen on a real terminal: signals, Ctrl-Z, sizes, kinds of terminals, and its end."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.pty import Terminal
from tests.tui.conftest import PROGRAM, ROOT


def test_q_restores_the_terminal(shown: Terminal) -> None:
    shown.send("q")
    assert shown.exit_code() == 0
    assert shown.not_restored() == []


def test_ctrl_c_twice_quits(shown: Terminal) -> None:
    shown.send("^c")
    shown.wait_for("Press ^c again to quit. Jobs go on running.")
    shown.send("^c")
    assert shown.exit_code() == 0
    assert shown.not_restored() == []


def test_resize_follows_the_window_whatever_the_environment_says() -> None:
    # the emulator cannot cut a wide character in half
    with Terminal([*PROGRAM, "--ascii"], cwd=ROOT, rows=24, columns=80) as terminal:
        terminal.wait_for("#420")
        for rows, columns in ((60, 200), (12, 40), (40, 120)):
            terminal.resize(rows, columns)
            # the lowest line has the keys, and nothing is left of the old size
            terminal.wait_for(lambda picture, rows=rows: "? help" in (picture.split("\n") + [""] * rows)[rows - 1])
            assert "#420" in terminal.text()


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


def test_without_a_terminal_it_says_what_to_use() -> None:
    code = "import sys; from gputui.tui.app import run; sys.exit(run())"
    done = subprocess.run(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, check=False, cwd=ROOT
    )
    assert done.returncode == 2
    assert b"needs a terminal" in done.stderr


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


FRAME_END = b"\x1b[1;1H"
"""Textual puts the cursor there after each frame."""


def test_an_idle_screen_writes_little(shown: Terminal) -> None:
    """The same readings each second: of 4,800 cells only the clock changes."""
    shown.wait_for("? help")
    for _ in range(30):  # the first frames may still be under way on a busy machine
        before = len(shown.raw)
        shown.wait_for_bytes(FRAME_END, after=before)
        shown.wait_for_bytes(FRAME_END, after=len(shown.raw))
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
        terminal.send("q")
        assert terminal.exit_code() == 0
        assert terminal.not_restored() == []
