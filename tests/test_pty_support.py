"""The pty harness itself: it must see a terminal left dirty, or its other findings mean nothing."""

import re
import signal
import sys

import pytest

from tests.support.pty import PROMPT, Terminal, left_on

DIRTY = "\x1b[?1049h\x1b[?25l\x1b[?1003h\x1b[?2004h\x1b[>1u"
CLEAN = "\x1b[<u\x1b[?2004l\x1b[?1003l\x1b[?25h\x1b[?1049l"


def program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_modes_left_on_are_named():
    assert left_on(DIRTY.encode()) == ["alternate screen", "bracketed paste", "cursor", "kitty keyboard", "mouse"]
    assert left_on((DIRTY + CLEAN).encode()) == []


def test_a_raw_terminal_left_behind_is_seen():
    with Terminal(program("import tty; tty.setraw(0)")) as terminal:
        assert terminal.exit_code() == 0
        assert terminal.not_restored() == ["line discipline"]


def test_the_picture_keys_size_and_exit_code():
    text = (
        "import shutil, signal, sys\n"
        "def show(*_): print('size', *shutil.get_terminal_size(), flush=True)\n"
        "signal.signal(signal.SIGWINCH, show)\n"
        "show()\n"
        "sys.stdout.write('\\x1b[>1u\\x1b[?2026$p\\x1bPtmux;x\\x1b\\\\\\x1b[31m训练\\x1b[0m\\n'); sys.stdout.flush()\n"
        "line = input()\n"
        "while not line: line = input()\n"
        "sys.exit(int(line))\n"
    )
    with Terminal(program(text), rows=20, columns=80) as terminal:
        picture = terminal.wait_for("训")
        assert "size 80 20" in picture
        assert "tmux" not in picture
        terminal.resize(12, 40)
        terminal.wait_for("size 40 12")
        terminal.send("7", "enter")
        assert terminal.exit_code() == 7


def test_an_end_by_signal_counts_as_a_shell_counts():
    with Terminal(program("print('up', flush=True); import time; time.sleep(60)")) as terminal:
        terminal.wait_for("up")
        terminal.kill(signal.SIGTERM)
        assert terminal.exit_code() == 143
        assert terminal.not_restored() == []


def test_a_hangup_reaches_the_program():
    with Terminal(program("print('up', flush=True); import time; time.sleep(60)")) as terminal:
        terminal.wait_for("up")
        terminal.hang_up()
        assert terminal.exit_code() == 129


def test_a_shell_with_job_control(tmp_path):
    loud = tmp_path / "loud.py"
    loud.write_text("print('up', flush=True)\nwhile True: print(input().upper(), flush=True)\n")
    with Terminal.shell(tmp_path) as terminal:
        terminal.command(f"{sys.executable} {loud}")
        terminal.wait_for("\nup")  # what is typed earlier, bash would read in its own mode
        terminal.send("hello", "enter")
        terminal.wait_for("HELLO")
        terminal.send("^z")
        terminal.wait_for("Stopped")
        terminal.command("fg")
        terminal.wait_for(re.compile(r"^/.*loud.py$", re.MULTILINE))
        terminal.send("again", "enter")
        terminal.wait_for("AGAIN")
        terminal.send("^c")
        terminal.wait_for(lambda picture: picture.rstrip().endswith(PROMPT))


def test_a_missing_picture_fails_with_what_there_is():
    with Terminal(program("print('only this', flush=True); input()")) as terminal:
        terminal.wait_for("only this")
        with pytest.raises(AssertionError, match="only this"):
            terminal.wait_for("something else", deadline=0.1)
