"""The screen in a real terminal: first frame, keys, sizes, signals, job control, and the terminal given back."""

import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, until
from tests.support.daemon import daemon as running_daemon
from tests.support.pty import PROMPT, Terminal

GPUS = "2xh100-80g,1xa10-24g"
WIDE = "训练-大模型"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon whose queue holds three jobs."""
    folder = tmp_path_factory.mktemp("screen")
    env = {
        "XDG_CONFIG_HOME": str(folder),
        "XDG_RUNTIME_DIR": str(folder),
        "HOME": str(folder),
    }
    with running_daemon(folder, gpus=GPUS, env=env) as found:
        with found.client() as client:
            until(lambda: client.gpus()["gpus"])
            names = ("first [/x] a[red]b", WIDE, "third")
            jobs = [{"argv": ["true"], "name": name, "hold": True} for name in names]
            client.submit({"jobs": jobs, "cwd": "/", "env": {}})
        yield found


def command(server: Daemon) -> list[str]:
    return [sys.executable, "-P", "-m", "gputui.cli", "--socket", str(server.socket)]


@pytest.fixture
def screen(server: Daemon) -> Iterator[Terminal]:
    """The screen at 120×40 once it shows GPUs and queue."""
    with Terminal(command(server)) as terminal:
        ready(terminal)
        yield terminal


def ready(terminal: Terminal) -> str:
    terminal.wait_for("a10-24g")
    return terminal.wait_for("third")


def escape(terminal: Terminal, shown: str) -> None:
    """Leave what shows this text. An escape with a key right behind it would be Alt with that key."""
    terminal.send("escape")
    terminal.wait_for(lambda picture: shown not in picture)


def shows(terminal: Terminal, name: str, wanted: str, *, absent: str = "") -> None:
    """Wait until the row of a job has some text, and lacks another."""

    def there(picture: str) -> bool:
        number = row_of(picture, name)
        row = picture.splitlines()[number]
        return number >= 0 and wanted in row and not (absent and absent in row)

    terminal.wait_for(there)


def row_of(picture: str, name: str) -> int:
    """The line that has the name; -1 while there is none."""
    return next((number for number, line in enumerate(picture.splitlines()) if name in line), -1)


def test_the_first_picture_has_gpus_and_queue_and_aligns(screen):
    picture = screen.wait_for(lambda picture: picture.count("h100-80g") == 2 and "third" in picture)
    assert "first [/x] a[red]b" in picture
    assert WIDE in picture
    # the column after the names starts at the same cell in every row
    rows = [line for line in picture.splitlines() if re.search(r"#[123] ", line) and "held by" in line]
    assert len(rows) >= 3
    from rich.cells import cell_len

    assert len({cell_len(row[: row.index("held by")]) for row in rows[:3]}) == 1


def test_quitting_by_q_by_command_and_by_ctrl_c_twice_restores_the_terminal(server):
    for keys in (["q"], [":", "q", "enter"], ["^c", "^c"]):
        with Terminal(command(server)) as terminal:
            ready(terminal)
            for key in keys:
                terminal.send(key)
                if key == ":":
                    terminal.wait_for("goto ID")
            assert terminal.exit_code() == 0
            assert terminal.not_restored() == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_restore_the_terminal_and_name_themselves(screen, number, code):
    screen.kill(number)
    assert screen.exit_code() == code
    assert screen.not_restored() == []


def test_a_lost_terminal_ends_the_screen(screen):
    screen.hang_up()
    assert screen.exit_code() in {1, 129}


def test_a_lost_terminal_without_a_hangup_ends_the_screen(server):
    # as over a dead SSH connection: HUP ignored, reads see the end of the terminal
    program = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    )
    with Terminal([sys.executable, "-c", program, *command(server)]) as terminal:
        ready(terminal)
        terminal.hang_up()
        assert terminal.exit_code() != 0


def test_every_size_shows_what_matters_and_leaves_no_rest(screen):
    whole = screen.text()
    for rows, columns in ((60, 200), (12, 40), (40, 120)):
        before = len(screen.raw)
        screen.resize(rows, columns)
        screen.wait_for_bytes(b"h100", after=before)
        picture = screen.wait_for("h100")
        assert all(len(line) <= columns for line in picture.splitlines())
    screen.wait_for(lambda picture: row_of(picture, "third") == row_of(whole, "third") and "a10-24g" in picture)


@pytest.mark.parametrize("term", ["dumb", "screen", "xterm", "tmux-256color", "linux"])
def test_every_terminal_type_shows_the_data_and_is_restored(server, term):
    with Terminal(command(server), term=term) as terminal:
        ready(terminal)
        terminal.send("q")
        assert terminal.exit_code() == 0
        assert terminal.not_restored() == []


def test_the_window_size_of_the_environment_does_not_bind(server):
    with Terminal(["env", "COLUMNS=80", "LINES=24", *command(server)], rows=30, columns=100) as terminal:
        ready(terminal)
        terminal.wait_for(lambda picture: max(map(len, picture.splitlines())) > 90)
        terminal.resize(40, 140)
        terminal.wait_for(lambda picture: max(map(len, picture.splitlines())) > 130)


def test_ctrl_z_gives_the_shell_back_and_fg_paints_the_present_size(server, tmp_path):
    with Terminal.shell(tmp_path) as terminal:
        terminal.command("stty -g")
        modes = terminal.wait_for(re.compile(r"^[0-9a-f]+(:[0-9a-f]+)+$", re.MULTILINE))
        (before,) = re.findall(r"^[0-9a-f:]{40,}$", modes, re.MULTILINE)
        terminal.command(" ".join(command(server)))
        ready(terminal)
        terminal.send("^z")
        terminal.wait_for("Stopped")
        terminal.command("clear; stty -g; echo shell $((6*7))")
        picture = terminal.wait_for("shell 42")
        assert before in picture
        terminal.resize(30, 100)
        start = len(terminal.raw)
        terminal.command("fg")
        terminal.wait_for_bytes(b"h100", after=start)
        terminal.wait_for(lambda picture: "third" in picture and all(len(line) <= 100 for line in picture.splitlines()))
        start = len(terminal.raw)
        terminal.send("q")
        terminal.wait_for_bytes(PROMPT.encode(), after=start)
        start = len(terminal.raw)
        terminal.command("echo code $?; stty -g")
        terminal.wait_for_bytes(before.encode() + b"\r\n" + PROMPT.encode(), after=start)
        assert b"code 0" in terminal.raw[start:]


def test_a_screen_without_a_shell_is_not_stopped_for_good(screen):
    # the leader of a session has no shell to give the terminal to: Ctrl-Z must not hang it
    screen.send("^z")
    screen.send("?")
    screen.wait_for("all keys")
    escape(screen, "all keys")
    screen.send("q")
    assert screen.exit_code() == 0


def test_the_keys_of_the_footer_do_what_they_say(server, tmp_path):
    with server.client() as client:
        ids = client.submit(
            {
                "jobs": [{"argv": ["sh", "-c", "echo said"], "name": f"keys-{n}", "gpus": 9} for n in "abc"],
                "cwd": "/",
                "env": {},
            }
        )["job_ids"]
        first, _, last = ids

        def position(job: int) -> int | None:
            return client.job(job)["position"]

        def state(job: int) -> str:
            return client.job(job)["state"]

        with Terminal(command(server), rows=40, columns=160) as terminal:
            ready(terminal)
            terminal.send("/")
            terminal.wait_for("text in a name")
            terminal.send("keys-", "enter")
            terminal.wait_for(lambda picture: "keys-c" in picture and "third" not in picture)
            terminal.send("g")
            shows(terminal, "keys-a", "▸")
            # each step waits for the row as the daemon has it: an act on a row that changed meanwhile is refused
            for key, said, mark in (
                ("J", "now at", "▼1"),
                ("K", "now at", ""),
                ("z", "Undone", "▼1"),
                ("^y", "Done", ""),
            ):
                terminal.send("y", key)  # only shifted keys in a row would look like Caps Lock
                terminal.wait_for(re.compile(f"✓ .*{said}"))
                shows(terminal, "keys-a", mark, absent="" if mark else "▼")
                assert (position(first) > position(ids[1])) is bool(mark)
            terminal.send("y", "H")
            shows(terminal, "keys-a", "held by")
            assert state(first) == "held"
            terminal.send("y", "L")
            shows(terminal, "keys-a", "never fits")
            assert state(first) == "queued"

            for key, wanted in (
                ("w", "why: #"),
                ("enter", "expected start"),
                ("l", "log of #"),
                ("X", "Cancel this job?"),
            ):
                terminal.send("y", key)
                terminal.wait_for(wanted)
                escape(terminal, wanted)
            assert state(first) == "queued"
            terminal.send("y", "S")
            terminal.wait_for(re.compile("▲ .*#"))
            terminal.send("tab")
            terminal.wait_for("D drain")
            terminal.send("D")
            terminal.wait_for("Reason:")
            escape(terminal, "Reason:")
            terminal.send(":")
            terminal.wait_for(lambda picture: picture.splitlines()[-1].strip().startswith(":"))
            terminal.send("escape")
            terminal.wait_for("D drain")
            terminal.send("?")
            terminal.wait_for("all keys")
            escape(terminal, "all keys")
            terminal.send("q")
            assert terminal.exit_code() == 0
            assert terminal.not_restored() == []
        client.cancel(ids)
        assert state(last) == "cancelled"


def test_a_daemon_that_was_killed_is_said_and_found_again(home: Path):
    with running_daemon(home, gpus=GPUS) as found:
        with found.client() as client:
            client.submit({"jobs": [{"argv": ["true"], "name": "third", "hold": True}], "cwd": "/", "env": {}})
        with Terminal(["env", "GPUTUI_SIMULATED_GPUS=" + GPUS, *command(found)]) as terminal:
            ready(terminal)
            found.stop(signal.SIGKILL)
            terminal.wait_for(re.compile("daemon", re.IGNORECASE))
            found.start()
            with found.client() as client:
                client.submit({"jobs": [{"argv": ["true"], "name": "after", "hold": True}], "cwd": "/", "env": {}})
            terminal.wait_for("after")
            terminal.send("q")
            assert terminal.exit_code() == 0
