"""Every key of the keymap, on a running screen."""

import asyncio
from pathlib import Path

import pytest
from textual.events import Key

from gputui.client import ClientError
from gputui.tui import edit
from gputui.tui.keymap import KEYS
from gputui.tui.settings import Settings, load
from gputui.tui.widgets.dialogs import Prompt
from tests.tui.conftest import screen
from tests.tui.fake import FakeBackend


async def test_cursor_keys() -> None:
    async with screen() as shown:
        jobs = shown.main.jobs
        assert jobs.cursor_id == 420
        for keys, expected in (
            (["j"], 431),
            (["down"], 422),
            (["k"], 431),
            (["up"], 420),
            (["up"], 420),
        ):
            await shown.press(*keys)
            assert jobs.cursor_id == expected
        half = jobs.page // 2
        await shown.press("ctrl+d")
        assert jobs.cursor == half
        await shown.press("ctrl+u")
        assert jobs.cursor == 0
        await shown.press("G")
        await shown.until(lambda: jobs.cursor_id == 529)
        await shown.press("g")
        await shown.until(lambda: jobs.cursor_id == 420)


async def test_views_show_running_and_ended_jobs() -> None:
    async with screen() as shown:
        assert "1 Queue 37" in shown.text()
        assert "2 Running 4" in shown.text()
        await shown.press("2")
        await shown.until("● running")
        assert "#412" in shown.text()
        assert "0,1" in shown.row("● running")
        await shown.press("3")
        await shown.until("✗ failed")
        assert "exit 1: CUDA out of memory" in shown.text()
        await shown.press("4")
        await shown.until(lambda: shown.main.jobs.total == 45)
        await shown.press("1")
        await shown.until(lambda: shown.main.jobs.total == 37)


async def test_tab_goes_to_the_gpus_and_the_detail_follows() -> None:
    async with screen() as shown:
        await shown.press("tab", "down", "down", "down", "down")
        await shown.until("31337")
        assert "foreign" in shown.text()
        assert "D drain" in shown.lines()[-1]
        assert "K up" not in shown.lines()[-1]
        await shown.press("tab")
        assert "K up" in shown.lines()[-1]


async def test_enter_describes_with_absolute_times() -> None:
    async with screen() as shown:
        await shown.press("enter")
        await shown.until("2026-11-30 09:02:31 UTC")
        assert "python train.py --config pretrain-13b.yaml" in shown.text()
        await shown.press("escape", "tab", "d")
        await shown.until("NVIDIA H100 80GB HBM3")


async def test_why_names_what_it_waits_for() -> None:
    async with screen() as shown:
        await shown.press("w")
        await shown.until("2 of 4 h100-80g: GPUs 0 and 1 come free when #412 ends")
        assert "2026-11-30 16:38:31 UTC" in shown.text()
        await shown.press("q")
        assert shown.app.screen is shown.main


async def test_logs_follow_what_is_written() -> None:
    async with screen() as shown:
        await shown.press("2")
        await shown.until("● running")
        await shown.press("l")
        await shown.until("step 399 loss")
        shown.backend.logs[412] += b"step 400 \x1b[31mred\x1b[0m\nprogress 1\rprogress 2\n"
        await shown.until("step 400 red")
        assert "progress 2" in shown.text()
        assert "progress 1" not in shown.text()
        await shown.press("g")
        await shown.until("step 0 loss")
        await shown.press("G")
        await shown.until("progress 2")
        await shown.press("escape")
        assert shown.app.screen is shown.main


async def test_filter_inverse_filter_and_clear() -> None:
    async with screen() as shown:
        await shown.press("slash", *"embed", "enter")
        await shown.until(lambda: shown.main.jobs.total == 1)
        assert "only “embed”" in shown.text()
        await shown.press("escape")
        await shown.until(lambda: shown.main.jobs.total == 37)
        await shown.press("slash", "exclamation_mark", *"embed", "enter")
        await shown.until(lambda: shown.main.jobs.total == 36)
        await shown.press("slash")
        await shown.press("escape")
        assert shown.main.jobs.view.filter == "embed"


async def test_the_filter_follows_what_is_typed_and_escape_brings_back_what_was() -> None:
    async with screen() as shown:
        await shown.press("j", "j", "slash", *"code")
        await shown.until("only “code”")
        await shown.press("escape")
        await shown.until(lambda: shown.main.jobs.total == 37)
        assert not shown.main.jobs.view.filter
        assert shown.main.jobs.cursor_id == 422


async def test_the_cursor_stays_on_its_job_when_a_filter_comes_and_goes() -> None:
    async with screen() as shown:
        await shown.press("slash", *"sft", "enter")
        await shown.until(lambda: shown.main.jobs.total and shown.main.jobs.total < 37)
        here = shown.main.jobs.cursor_id
        assert here != 420
        await shown.press("escape")
        await shown.until(lambda: shown.main.jobs.total == 37)
        assert shown.main.jobs.cursor_id == here
        assert not shown.flash


async def test_filter_that_finds_nothing_says_how_to_end_it() -> None:
    async with screen() as shown:
        await shown.press("slash", *"zzz", "enter")
        await shown.until("Nothing here with “zzz”.")
        assert "esc clears the filter." in shown.text()


async def test_sort_and_reverse_and_moves_refused_meanwhile() -> None:
    async with screen() as shown:
        await shown.press("greater_than_sign")
        await shown.until(lambda: shown.main.jobs.view.sort == "class" and shown.main.jobs.total == 37)
        assert "▾class" in shown.text()
        await shown.press("r")
        await shown.until("▴class")
        await shown.press("K")
        assert "esc ends a sort" in shown.flash
        assert not shown.calls("move")
        await shown.press("less_than_sign")
        assert shown.main.jobs.view.sort == ""


async def test_marks_and_range() -> None:
    async with screen() as shown:
        await shown.press("space", "space")
        assert list(shown.main.jobs.marks) == [420, 431]
        assert "2 marked" in shown.text()
        await shown.press("escape")
        assert not shown.main.jobs.marks
        await shown.press("g", "v", "j", "j", "v")
        await shown.until(lambda: list(shown.main.jobs.marks) == [420, 431, 422])
        await shown.press("H")
        await shown.until("Hold 3 jobs?")
        await shown.press("y")
        await shown.until(lambda: shown.calls("hold") == [("hold", (420, 431, 422), {420: 1, 431: 1, 422: 1}, "")])
        await shown.until(lambda: not shown.main.jobs.marks)


@pytest.mark.parametrize(
    ("key", "at", "verb", "job"),
    [("H", [], "hold", 420), ("L", ["j"] * 5, "release", 418), ("Q", ["3"], "requeue", 411)],
)
async def test_acts_that_need_no_question(key: str, at: list[str], verb: str, job: int) -> None:
    async with screen() as shown:
        await shown.press(*at)
        await shown.until(lambda: shown.main.jobs.cursor_id == job)
        await shown.press(key)
        await shown.until(lambda: shown.calls(verb) == [(verb, (job,), {job: 1}, "")])
        await shown.until(lambda: f"#{job}" in shown.flash)


async def test_start_and_its_message() -> None:
    async with screen() as shown:
        await shown.press("j", "S")
        await shown.until("Job #431 starts on GPU 3.")
        assert shown.calls("start") == [("start", 431, {"version": 1})]


def test_the_editor_shows_sizes_and_durations_as_people_type_them() -> None:
    job = FakeBackend().jobs[0].copy()
    job["gpu_memory"], job["duration"] = 60 << 30, 9045.0
    text = edit.as_toml(job)
    assert 'gpu_memory = "60GiB"' in text
    assert 'duration = "2h30m45s"' in text
    assert edit.changes(job, text) == {}
    assert edit.changes(job, text.replace("60GiB", "1.5GiB")) == {"gpu_memory": "1.5GiB"}
    job["gpu_memory"], job["duration"] = 1001, 0.5
    assert edit.changes(job, edit.as_toml(job)) == {}


async def test_running_jobs_say_when_they_end() -> None:
    async with screen() as shown:
        await shown.press("2")
        await shown.until("left")
        assert "ends ≈" in shown.row("running    #412")


async def test_start_without_data_asks_for_a_reason() -> None:
    async with screen() as shown:
        shown.backend.refuse = ClientError("not_ready", "corpus-zh is 67 % there.")
        await shown.press("j", "j", "S")
        await shown.until("#422 is not ready; start without its data? Reason:")
        await shown.press(*"checked", "enter")
        await shown.until(lambda: len(shown.calls("start")) == 2)
        assert shown.calls("start")[1] == ("start", 422, {"version": 1, "ignore_data": True, "reason": "checked"})


async def test_cordon_drain_and_uncordon() -> None:
    async with screen() as shown:
        await shown.press("tab", "D")
        await shown.until("Drain GPU 0 (h100-80g)")
        await shown.press(*"fan", "enter")
        uuid = shown.main.gpus.key(0)
        await shown.until(lambda: shown.calls("cordon") == [("cordon", uuid, {"reason": "fan", "drain": True})])
        await shown.press("G", "k", "D")
        await shown.until(lambda: [call[1] for call in shown.calls("uncordon")] == [shown.main.gpus.key(6)])


async def test_freeze_needs_a_reason_and_shows_a_banner() -> None:
    async with screen() as shown:
        await shown.press("exclamation_mark")
        await shown.until("Freeze: nothing starts by itself. Reason:")
        await shown.press("enter")
        await shown.until("Not frozen: a reason is needed.")
        await shown.press("exclamation_mark", *"upgrade", "enter")
        await shown.until("Frozen by li: upgrade. Nothing starts by itself; ! thaws.")
        await shown.press("exclamation_mark")
        await shown.until("frozen by li: upgrade")
        await shown.press("y")
        await shown.until(lambda: shown.calls("thaw"))


async def test_undo_and_redo() -> None:
    async with screen() as shown:
        await shown.press("z")
        await shown.until("Undone: the move of #431.")
        await shown.press("ctrl+y")
        await shown.until("Done again: the move of #431.")


async def test_copy_says_what_it_did() -> None:
    async with screen() as shown:
        sent: list[str] = []
        shown.main.write = sent.append  # type: ignore[method-assign]
        await shown.press("y")
        assert sent == ["\x1b]52;c;NDIw\x07"]
        assert "420" in shown.flash
        assert "OSC 52" in shown.flash


async def test_frozen_picture_stays_and_goes_on() -> None:
    async with screen() as shown:
        await shown.press("p")
        await shown.until("The picture is paused; p goes on.")
        shown.backend.change(420, name="renamed")
        shown.backend.announce("queue", "gpus")
        for _ in range(20):
            await asyncio.sleep(0.02)
        assert "pretrain-13b" in shown.text()
        await shown.press("p")
        await shown.until("renamed")


async def test_command_line() -> None:
    async with screen() as shown:
        await shown.press("colon", *"goto 412", "enter")
        await shown.until(lambda: shown.main.jobs.cursor_id == 412)
        assert shown.main.jobs.view.scope == "active"
        await shown.press("colon", *"frobnicate", "enter")
        await shown.until("There is no command “frobnicate”")
        await shown.press("colon", *"hold 420 431", "enter")
        await shown.until("Hold 2 jobs?")
        await shown.press("y")
        await shown.until(lambda: shown.calls("hold") == [("hold", (420, 431), {420: 1, 431: 1}, "")])
        await shown.press("colon", "q", "enter")
        await shown.until(lambda: shown.app.return_code == 0 and shown.app._exit)


async def test_palette_finds_commands() -> None:
    async with screen() as shown:
        await shown.press("ctrl+p")
        await shown.until("Search")
        await shown.press(*"describe")
        await shown.until("everything about the row")
        await shown.press("escape")


async def test_help_lists_every_key_that_exists() -> None:
    async with screen(size=(120, 70)) as shown:
        await shown.press("question_mark")
        await shown.until("gputui: keys")
        for key in KEYS:
            assert key.help in shown.text()
        for later in ("preempt", "checkpoint and go on", "reclaim", "acknowledge"):
            assert later not in shown.text()
        await shown.press("q")
        assert shown.app.screen is shown.main


async def test_q_quits_at_the_root() -> None:
    async with screen() as shown:
        await shown.press("q")
        assert shown.app._exit


async def test_readonly_hides_every_act() -> None:
    async with screen(readonly=True, size=(120, 70)) as shown:
        assert "read-only" in shown.text()
        for key in ("K", "J", "M", "S", "H", "L", "X", "Q", "E", "z", "ctrl+y", "exclamation_mark"):
            await shown.press(key)
        await shown.press("tab", "D")
        await shown.pilot.pause(0.3)
        assert shown.app.screen is shown.main
        reads = {"window", "gpus", "status", "events", "why", "log", "job"}
        assert {call[0] for call in shown.backend.calls} <= reads
        await shown.press("question_mark")
        await shown.until("gputui: keys")
        for key in KEYS:
            assert (key.help in shown.text()) == (not key.acts)


async def test_keys_can_be_remapped() -> None:
    async with screen(settings=Settings(keys={"hold": "T"})) as shown:
        assert "T hold" in shown.lines()[-1]
        await shown.press("H")
        await shown.press("T")
        await shown.until(lambda: len(shown.calls("hold")) == 1)


def test_settings_say_what_they_do_not_understand(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    assert load(path) == Settings()
    path.write_text('[keys]\nhold = "T"\n[screen]\nlook = "ansi"\n[daemon]\nother = 1\n')
    assert load(path) == Settings("ansi", {"hold": "T"})
    for text, wanted in (
        ("[keys]\nfly = 'F'\n", "keys.fly"),
        ("[keys]\nhold = 7\n", "keys.hold is 7"),
        ("[screen]\nlook = 'pink'\n", "screen.look is 'pink'"),
        ("keys = 1\n", "sections"),
        ("[keys\n", "cannot be read"),
    ):
        path.write_text(text)
        assert wanted in load(path).problem


async def test_every_key_is_bound_once_and_never_to_a_reserved_one() -> None:
    bound = [part for key in KEYS for part in key.keys.split(",")]
    assert len(bound) == len(set(bound))
    assert not {"ctrl+b", "ctrl+a", "ctrl+q", "ctrl+s", "ctrl+j"} & set(bound)


async def test_an_act_is_on_the_row_where_its_key_was_pressed() -> None:
    """The act waits a moment for Caps Lock; the cursor may be elsewhere by then."""
    async with screen() as shown:
        await shown.press("H", "j", "j")
        await shown.until(lambda: shown.calls("hold") == [("hold", (420,), {420: 1}, "")])


async def test_keys_for_the_other_panel_say_so() -> None:
    async with screen() as shown:
        await shown.press("D")
        assert "tab goes there" in shown.flash


async def test_empty_queue_teaches_to_submit() -> None:
    backend = FakeBackend()
    backend.jobs = []
    async with screen(backend) as shown:
        await shown.until("gputui submit --gpus 1 -- python train.py")
        await shown.press("K", "d")
        await shown.until("No job is under the cursor.")


async def test_no_gpu_shows_the_problem_and_the_remedy() -> None:
    backend = FakeBackend()
    backend.rows = []
    backend.problem = {"code": "driver_missing", "sentence": "No NVIDIA driver.", "remedy": "Install it, then reboot."}
    async with screen(backend) as shown:
        await shown.until("No NVIDIA driver.")
        assert "Install it, then reboot." in shown.text()
        assert "#420" in shown.text()


async def test_what_is_typed_before_the_line_has_the_focus_counts() -> None:
    async with screen() as shown:
        answers: list[str | None] = []
        prompt = Prompt(":")
        shown.app.push_screen(prompt, answers.append)
        for key in (Key("h", "h"), Key("i", "i"), Key("enter", "\r")):
            prompt.post_message(key)
        await shown.until(lambda: answers == ["hi"])
