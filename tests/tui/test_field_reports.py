"""What went wrong in other programs for the terminal, by the report that told it, and what happens here instead."""

import asyncio
import re
import signal
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from gputui.tui.terminal import clipboard
from tests.support.pty import PROMPT, Terminal
from tests.tui.conftest import PROGRAM, ROOT, Shown, ids_on_screen, screen
from tests.tui.fake import GIB, FakeBackend, gpu, job


def cells(shown: Shown, gpu_type: str) -> str:
    return shown.row(gpu_type)


def test_t01_a_lost_terminal_ends_the_program() -> None:
    """SIGHUP is ignored and the pty is closed: only the end of input tells."""
    argv = [
        sys.executable,
        "-c",
        f"import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv({sys.executable!r}, {PROGRAM!r})",
    ]
    with Terminal(argv, cwd=ROOT) as terminal:
        terminal.wait_for("#420 pretrain-13b")
        terminal.hang_up()
        assert terminal.exit_code() == 129


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGQUIT, 131)],
)
def test_t02_signals_restore_the_terminal_and_give_their_code(
    shown: Terminal, number: signal.Signals, code: int
) -> None:
    shown.kill(number)
    assert shown.exit_code() == code
    assert shown.not_restored() == []


def test_t03_ctrl_z_and_fg_paint_everything_anew(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("keys", [["q"], [":", "q", "enter"], ["^c", "^c"], ["?", "^c", "^c"]])
def test_t04_there_is_always_a_key_that_quits(shown: Terminal, keys: list[str]) -> None:
    for key in keys:
        shown.send(key)
    assert shown.exit_code() == 0
    assert shown.not_restored() == []


def test_t05_the_window_counts_and_not_columns_and_lines() -> None:
    argv = ["env", "COLUMNS=80", "LINES=24", *PROGRAM]
    with Terminal(argv, cwd=ROOT, rows=40, columns=120) as terminal:
        terminal.wait_for(lambda picture: "? help" in (picture.split("\n") + [""] * 40)[39])


@pytest.mark.parametrize("term", ["screen", "linux", "xterm"])
def test_t06_sixteen_colours_are_the_terminals_own(term: str) -> None:
    with Terminal(PROGRAM, cwd=ROOT, term=term, env={"COLORTERM": ""}) as terminal:
        terminal.wait_for("held by li")
        assert re.search(rb"\x1b\[[0-9;]*[34]8;[25];", terminal.raw) is None
        # never by colour alone
        for word in ("free", "foreign", "drained: fan"):
            assert word in terminal.text()


async def test_t07_a_tick_mounts_nothing_and_keeps_focus_cursor_and_scroll() -> None:
    async with screen() as shown:
        await shown.press("G")
        await shown.until(lambda: shown.main.jobs.cursor_id == 529)
        widgets = list(shown.main.query("*"))
        before = (shown.app.focused, shown.main.jobs.cursor_id, shown.main.jobs.top)
        shown.backend.announce("gpus", "status", "queue")
        await shown.until(lambda: shown.main.jobs.version == shown.backend.version)
        shown.main._tick()
        await shown.pilot.pause()
        assert list(shown.main.query("*")) == widgets
        assert (shown.app.focused, shown.main.jobs.cursor_id, shown.main.jobs.top) == before


def test_t08_mouse_is_off_until_asked_for(shown: Terminal) -> None:
    assert b"\x1b[?1000h" not in shown.raw
    shown.send("m")
    shown.wait_for("hold Shift (or Option) to select text")
    shown.wait_for_bytes(b"\x1b[?1000h")
    shown.send("q")
    shown.exit_code()
    assert shown.not_restored() == []


def test_t09_the_clipboard_crosses_tmux_and_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert clipboard("420") == "\x1b]52;c;NDIw\x07"
    monkeypatch.setenv("TERM", "screen-256color")
    assert clipboard("420") == "\x1bP\x1b]52;c;NDIw\x07\x1b\\"
    monkeypatch.setenv("TMUX", "/tmp/tmux-1000/default,1,0")
    assert clipboard("420") == "\x1bPtmux;\x1b\x1b]52;c;NDIw\x07\x1b\\"
    assert clipboard("x" * 56_244) is not None
    assert clipboard("x" * 56_245) is None


async def test_t10_the_question_keeps_its_job_when_the_queue_changes() -> None:
    async with screen() as shown:
        await shown.press("X")
        await shown.until("Cancel this job?")
        assert "#420 pretrain-13b · chen · queued" in shown.text()
        assert shown.app.focused is not None
        assert shown.app.focused.id == "no"
        shown.backend.jobs.insert(0, job(9000, "pushed-in", state="queued"))
        shown.backend.announce()
        await asyncio.sleep(0.3)
        await shown.press("y")
        await shown.until(lambda: shown.calls("cancel") == [("cancel", (420,), {420: 1}, "")])


async def test_t11_names_of_every_kind_align() -> None:
    async with screen() as shown:
        rows = [line for line in shown.lines() if "#5" in line or "#4" in line][8:]
        owners = set()
        for line in rows:
            if "×" in line:
                owners.add(cell_len(line[: line.index("×")]))
        assert len(owners) == 1
        text = shown.text()
        assert "[/x]" in text
        assert "badname" in text
        assert "\x1b" not in text


async def test_t12_a_refresh_repaints_only_the_row_that_changed() -> None:
    async with screen() as shown:
        jobs, drawn = shown.main.jobs, []
        original = jobs.render_line
        shown.backend.change(422, reason="data: corpus-zh 68 %")
        shown.backend.announce()
        jobs.render_line = lambda y: (drawn.append(y), original(y))[1]  # type: ignore[method-assign,func-returns-value]
        await shown.until("corpus-zh 68 %")
        assert set(drawn) == {3}


async def test_nvtop_256_unsupported_unknown_and_zero_look_different() -> None:
    backend = FakeBackend()
    backend.rows = [
        gpu(0, type="zero", utilization=0, memory_used=0),
        gpu(1, type="na", utilization=None, unsupported=["utilization"]),
        gpu(2, type="dark", utilization=None, state="unknown", why="not read for 12 s", memory_used=None),
        gpu(3, type="unified", memory_used=None, unsupported=["memory_used", "fan"], unified_memory=True, fan=None),
    ]
    async with screen(backend) as shown:
        assert " 0%" in cells(shown, " zero ")
        assert "0.0/80G" in cells(shown, " zero ")
        assert "N/A" in cells(shown, " na ")
        assert " 0%" not in cells(shown, " na ")
        unknown = cells(shown, " dark ")
        assert "?" in unknown
        assert "?/80G" in unknown
        assert "╌" in unknown
        assert "? not read for 12 s" in unknown
        assert "N/A" not in unknown
        assert "unified" in cells(shown, "unified ")


async def test_nvitop_5_mig_instances_stand_below_their_gpu() -> None:
    backend = FakeBackend()
    parent = gpu(0, type="a100-80g", utilization=None, unsupported=["utilization"], why="cut into MIG instances")
    child = {"mig_parent": parent["uuid"], "utilization": None, "unsupported": ["utilization", "power"], "power": None}
    backend.rows = [
        gpu(1),
        gpu(0, **child, type="1g.10gb", memory_total=10 * GIB) | {"uuid": "MIG-b"},
        parent,
    ]
    async with screen(backend) as shown:
        lines = [line for line in shown.lines() if "a100-80g" in line or "1g.10gb" in line or " h100-80g" in line]
        assert "a100-80g" in lines[0]
        assert "└" in lines[1]
        assert "1g.10gb" in lines[1]
        assert "N/A" in lines[1]


@pytest.mark.parametrize("gpus", [16, 17, 64])
async def test_btop_857_many_gpus_scroll_or_stand_in_two_columns(gpus: int) -> None:
    backend = FakeBackend()
    backend.rows = [gpu(number) for number in range(gpus)]
    for size in ((120, 40), (200, 60), (80, 24)):
        async with screen(backend, size=size) as shown:
            assert "#420" in shown.text()
            await shown.press("tab", "G")
            assert shown.main.gpus.cursor == gpus - 1
            row = next(line for line in shown.lines() if "▸" in line and "l40s-48g" in line)
            assert f"▸{gpus - 1:>2} " in row
    assert shown.main.gpus.count == gpus


@pytest.mark.parametrize("term", ["dumb", "screen", "xterm", "tmux-256color", "linux"])
def test_nvitop_97_every_terminal_shows_the_screen(term: str) -> None:
    with Terminal(PROGRAM, cwd=ROOT, term=term, env={"COLORTERM": ""}) as terminal:
        picture = terminal.wait_for("#420 pretrain-13b")
        assert "h100-80g" in picture
        assert (">" if term in ("dumb", "linux") else "▸") in picture
        terminal.send("j")
        terminal.wait_for("#431 dpo-7b · core · li")
        terminal.send("q")
        assert terminal.exit_code() == 0
        assert terminal.not_restored() == []


async def test_nvitop_40_caps_lock_is_asked_about_and_not_obeyed() -> None:
    async with screen() as shown:
        await shown.press("H", "L", "X")
        await shown.until("is Caps Lock on?")
        assert not shown.calls("hold")
        assert not shown.calls("release")
        assert not shown.calls("cancel")
        await shown.press("escape")
        await shown.press("j")
        await shown.press("H")
        await shown.until(lambda: len(shown.calls("hold")) == 1)


async def test_nvtop_139_slow_data_never_stops_the_keys() -> None:
    backend = FakeBackend(waiting=5_000)
    async with screen(backend) as shown:
        backend.window_gate = asyncio.Event()
        await shown.press("G")
        assert "…" in shown.lines()[20]
        await shown.press("tab", "j")
        assert shown.main.gpus.cursor == 1
        backend.window_gate.set()
        await shown.until(lambda: None not in ids_on_screen(shown))
