"""The job table: a window by job id that never jumps, moves that show at once, questions that bind their target."""

import asyncio
from typing import Any

from gputui.client import ClientError
from tests.support.counts import count
from tests.tui.conftest import ids_on_screen, screen
from tests.tui.fake import WAITING, FakeBackend, job


async def test_the_cursor_stays_on_its_job_while_others_come_and_go() -> None:
    async with screen() as shown:
        await shown.press("j", "j", "j")
        jobs = shown.main.jobs
        assert jobs.cursor_id == 423
        for step in range(count(10, 200)):
            if step % 3:
                shown.backend.jobs.insert(4, job(9000 + step, f"new-{step}", priority=9))
            else:
                shown.backend.jobs = [row for row in shown.backend.jobs if row["id"] not in (420, 500 + step)]
            shown.backend.announce()
            await shown.until(lambda: jobs.version == shown.backend.version)
            assert jobs.cursor_id == 423
            row = jobs.current
            assert row is not None
            assert row["position"] == jobs.cursor + 1
            assert "▸" in shown.row("#423 embed-v3  ")


async def test_a_scrolled_window_keeps_its_rows_in_place_when_rows_above_leave() -> None:
    async with screen() as shown:
        await shown.press("G")
        await shown.until(lambda: shown.main.jobs.cursor_id == 529)
        await shown.press("k", "k", "k", "k")
        jobs = shown.main.jobs
        line, key = jobs.cursor - jobs.top, jobs.cursor_id
        shown.backend.jobs = [row for row in shown.backend.jobs if row["id"] not in (420, 431, 422)]
        shown.backend.announce()
        await shown.until(lambda: jobs.version == shown.backend.version)
        assert (jobs.cursor - jobs.top, jobs.cursor_id) == (line, key)


async def test_a_job_that_starts_under_the_cursor_says_where_it_went() -> None:
    async with screen() as shown:
        shown.backend.change(420, state="running", position=None)
        shown.backend.announce()
        await shown.until("#420 pretrain-13b is running now; 2 shows it.")
        assert shown.main.jobs.cursor_id == 431


async def test_a_hundred_thousand_rows_scroll_by_windows() -> None:
    backend = FakeBackend(waiting=count(5_000, 100_000))
    total = count(5_000, 100_000)
    async with screen(backend) as shown:
        jobs = shown.main.jobs
        assert jobs.total == total
        await shown.press("G")
        await shown.until(lambda: jobs.cursor == total - 1 and jobs.cursor_id is not None)
        assert f"{total:,} of {total:,}" in shown.text()
        for _ in range(5):
            await shown.press("ctrl+u")
        await shown.until(lambda: None not in ids_on_screen(shown))
        await shown.press("g")
        await shown.until(lambda: jobs.cursor_id == 420)
        assert max(len(call[1]) for call in shown.calls("window")) < 12
        assert len(jobs.rows) < 8 * jobs.page


# --- moves


async def test_a_move_shows_before_the_daemon_answered() -> None:
    async with screen() as shown:
        shown.backend.gate = asyncio.Event()
        await shown.press("j", "K")
        assert ids_on_screen(shown)[:2] == [431, 420]
        assert shown.main.jobs.cursor_id == 431
        await shown.until(lambda: shown.calls("move") == [("move", 431, {"to": "before", "id": 420, "version": 1})])
        shown.backend.gate.set()
        await shown.until("#431 dpo-7b is now at 1 (the rules say 7).")
        assert ids_on_screen(shown)[:2] == [431, 420]


async def test_a_refused_move_is_taken_back() -> None:
    async with screen() as shown:
        shown.backend.refuse = ClientError("changed", "Job #431 changed since it was drawn: it is held now.")
        await shown.press("j", "J")
        await shown.until("Not moved: Job #431 changed since it was drawn: it is held now.")
        await shown.until(lambda: ids_on_screen(shown)[:3] == [420, 431, 422])
        assert shown.main.jobs.cursor_id == 431


async def test_a_burst_of_moves_ends_where_the_screen_says() -> None:
    async with screen() as shown:
        shown.backend.gate = asyncio.Event()
        await shown.press("J", "J", "J")
        assert ids_on_screen(shown)[:4] == [431, 422, 423, 420]
        shown.backend.gate.set()
        await shown.until(lambda: shown.backend.find(420)["position"] == 4)
        await shown.until(lambda: shown.main.acts.moving is None)
        assert len(shown.calls("move")) == 2
        assert [row["id"] for row in shown.backend.jobs if row["state"] in WAITING][:4] == [431, 422, 423, 420]


async def test_under_a_filter_a_move_passes_the_visible_neighbour() -> None:
    async with screen() as shown:
        await shown.press("slash", *"wang", "enter")
        await shown.until(lambda: shown.main.jobs.total == 1)
        await shown.press("escape", "slash", *"zhou", "enter")
        await shown.until(lambda: shown.main.jobs.cursor_id == 423 and shown.main.jobs.total > 3)
        neighbour = ids_on_screen(shown)[1]
        waiting = [row["id"] for row in shown.backend.jobs if row["state"] in WAITING]
        hidden = waiting[waiting.index(423) + 1 : waiting.index(neighbour)]
        await shown.press("J")
        request = {"to": "after", "id": neighbour, "version": 1, "filter": "zhou", "invert": False}
        await shown.until(lambda: shown.calls("move") == [("move", 423, request)])
        await shown.until(lambda: shown.flash.endswith(f"It passed {len(hidden)} rows that the filter hides."))
        assert len(hidden) > 1


async def test_moves_at_the_ends_say_so() -> None:
    async with screen() as shown:
        await shown.press("K")
        assert shown.flash == "#420 is already first here."
        await shown.press("G")
        await shown.until(lambda: shown.main.jobs.cursor_id == 529)
        await shown.press("J")
        assert shown.flash == "#529 is already last here."


async def test_move_to_takes_places_as_people_write_them() -> None:
    places: dict[str, dict[str, Any]] = {
        "bottom": {"to": "bottom"},
        "t": {"to": "top"},
        "before #422": {"to": "before", "id": 422},
        "baseline": {"to": "baseline"},
    }
    for typed, wanted in places.items():
        async with screen() as shown:
            await shown.press("j", "M")
            await shown.until("Move #431 dpo-7b to:")
            shown.app.screen.query_one("#answer").value = typed  # type: ignore[attr-defined]
            await shown.press("enter")
            await shown.until(lambda wanted=wanted: shown.calls("move") == [("move", 431, {**wanted, "version": 1})])


async def test_move_to_a_position_and_to_nonsense() -> None:
    async with screen() as shown:
        await shown.press("M")
        await shown.press(*"4", "enter")
        await shown.until(lambda: shown.calls("move") == [("move", 420, {"to": "down", "n": 3, "version": 1})])
        await shown.press("M", *"nowhere", "enter")
        await shown.until("“nowhere” is no place")


# --- questions


async def test_enter_on_the_question_does_nothing_to_the_job() -> None:
    async with screen() as shown:
        await shown.press("X")
        await shown.until("Cancel this job?")
        await shown.press("enter")
        await shown.until("Nothing was cancelled.")
        assert not shown.calls("cancel")


async def test_an_act_on_a_row_that_changed_is_refused_with_what_changed() -> None:
    async with screen() as shown:
        await shown.press("X")
        await shown.until("Cancel this job?")
        shown.backend.change(420, state="running", position=None)
        await shown.press("y")
        await shown.until("Job #420 changed since it was drawn: it is running now.")


async def test_the_rows_stand_still_while_a_question_is_open() -> None:
    async with screen() as shown:
        await shown.press("X")
        await shown.until("Cancel this job?")
        before = ids_on_screen(shown)
        shown.backend.jobs = shown.backend.jobs[6:]
        shown.backend.announce("queue", "gpus")
        await asyncio.sleep(0.4)
        assert ids_on_screen(shown) == before
        await shown.press("escape")
        await shown.until(lambda: ids_on_screen(shown) != before)


# --- the daemon goes away


async def test_the_daemon_goes_away_and_comes_back() -> None:
    async with screen() as shown:
        shown.backend.leave()
        await shown.until("The daemon is away, trying again")
        assert "#420 pretrain-13b" in shown.text()
        await shown.press("H")
        await shown.until("The daemon does not answer.")
        shown.backend.change(420, name="renamed-13b")
        shown.backend.come_back()
        await shown.until("renamed-13b")
        assert "The daemon is away" not in shown.text()
