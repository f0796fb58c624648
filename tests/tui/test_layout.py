"""What stands where, at every size, for every kind of GPU and name."""

import pytest
from rich.cells import cell_len

from gputui.tui import bars
from gputui.tui.text import clean, wrap
from tests.tui.conftest import screen
from tests.tui.fake import NOW, FakeBackend, gpu, held

SIZES = [(80, 24), (120, 40), (200, 60), (40, 12), (60, 18), (300, 80)]


@pytest.mark.parametrize("size", SIZES)
async def test_every_size_answers_the_main_questions(size: tuple[int, int]) -> None:
    async with screen(size=size) as shown:
        lines = shown.lines()
        assert len(lines) == size[1]
        assert {cell_len(line) for line in lines} == {size[0]}
        text = shown.text()
        for wanted in ("1 free", "h100-80g", "97%", "#412", "○ free", "#420", "Queue 37", "waits for", "? help"):
            assert wanted in text
        assert "2 more" in text


async def test_what_each_size_adds() -> None:
    wanted = {
        (80, 24): ("74.1/80G", "3h12", "C  #420"),
        (120, 40): ("1 min", "core", "estimate", "Δ", "664", "cpu", "14:02:31 UTC"),
        (200, 60): ("MHz", "project", "waiting", "/data 83%", "need attention"),
    }
    for size, words in wanted.items():
        async with screen(size=size) as shown:
            for word in words:
                assert word in shown.text(), (size, word)


async def test_bars_widen_with_the_screen() -> None:
    widths = []
    for size in ((80, 24), (120, 40), (200, 60)):
        async with screen(size=size) as shown:
            placed = {one.column.id: one.width for one in shown.main.gpus._place(shown.main.gpus.size.width)}
            widths.append((placed["util_bar"], placed["memory_bar"]))
    assert widths == sorted(widths)
    assert widths[0] < widths[1] < widths[2]


async def test_resizing_to_anything_and_back() -> None:
    async with screen() as shown:
        await shown.press("j", "j")
        for size in ((200, 60), (40, 12), (20, 5), (1, 1), (120, 40)):
            await shown.pilot.resize_terminal(*size)
            await shown.pilot.pause()
        await shown.until("#422")
        assert shown.main.jobs.cursor_id == 422


@pytest.mark.parametrize(
    ("gpus", "size", "blocks", "lines"), [(32, (200, 40), 3, 11), (16, (120, 40), 2, 8), (9, (120, 40), 1, 9)]
)
async def test_more_gpus_than_lines_stand_side_by_side(
    gpus: int, size: tuple[int, int], blocks: int, lines: int
) -> None:
    backend = FakeBackend()
    backend.rows = [gpu(number) for number in range(gpus)]
    async with screen(backend, size=size) as shown:
        assert (shown.main.gpus.blocks, shown.main.gpus._lines) == (blocks, lines)
        first = shown.row(" 0  h100-80g")
        assert first.count("h100-80g") + first.count("l40s-48g") == blocks
        assert f"of {gpus}" not in shown.text()


async def test_gpus_that_do_not_fit_are_counted() -> None:
    backend = FakeBackend()
    backend.rows = [gpu(number) for number in range(64)]
    async with screen(backend, size=(80, 24)) as shown:
        page = shown.main.gpus.page
        assert f"1–{page} of 64" in shown.text()
        await shown.press("tab", "G")
        await shown.until(f"{65 - page}–64 of 64")


async def test_a_filter_and_marks_show_at_every_size() -> None:
    for size in SIZES:
        async with screen(size=size) as shown:
            await shown.press("space", "slash", *"sft", "enter")
            await shown.until("only “sft”")
            assert "1 marked" in shown.text() or size[0] < 60


async def test_a_held_gpu_that_does_nothing_for_a_minute_is_idle() -> None:
    backend = FakeBackend()
    quiet = held(412, "sft-7b", "li", NOW.isoformat(), 0, 70)
    backend.rows = [
        gpu(0, **quiet | {"history": [0] * 15}),
        gpu(1, **quiet | {"history": [3] + [0] * 14}),
        gpu(2, **quiet | {"history": [None] + [0] * 14}),
        gpu(3),
    ]
    async with screen(backend) as shown:
        assert "◔ #412 sft-7b" in shown.row("0  h100-80g")
        assert "idle · li" in shown.row("0  h100-80g")
        assert "● #412 sft-7b" in shown.row("1  h100-80g")
        assert "● #412 sft-7b" in shown.row("2  h100-80g")
        assert "2 busy 1 idle 1 free" in shown.text()


async def test_a_gpu_cut_into_instances_is_not_counted_beside_them() -> None:
    backend = FakeBackend()
    whole = gpu(0, why="cut into MIG instances")
    parts = [gpu(0, uuid=f"MIG-{n}", type="h100-1g.10gb", mig_parent=whole["uuid"]) for n in range(2)]
    backend.rows = [whole, *parts, gpu(1, state="lost", why="Xid 79")]
    async with screen(backend) as shown:
        assert "3 GPUs · 2 free 1 lost" in shown.text()
        assert "○" not in shown.row("cut into MIG instances")
        assert "h100-1g.10gb" in shown.text()
        assert "✗ lost: Xid 79" in shown.text()


async def test_what_does_not_fit_behind_a_holder_is_left_out_whole() -> None:
    async with screen(size=(40, 12)) as shown:
        assert shown.row("0  h100-80g").rstrip().endswith(" li")


async def test_states_are_words_with_glyphs() -> None:
    backend = FakeBackend()
    cordon = {"reason": "fan", "by": "root", "since": "2026-11-30T12:00:00+00:00", "until": None, "drain": True}
    backend.rows = [
        gpu(0, state="releasing", why="releasing for 3s"),
        gpu(1, state="quarantined", why="quarantined: 12.0G did not come back"),
        gpu(2, state="lost", why="Xid 79 at 14:02"),
        gpu(3, cordon=cordon, why="cordoned: fan"),
        gpu(4, state="foreign", held_by="python", held_user="wang", held_since="2026-11-28T14:02:31+00:00"),
    ]
    async with screen(backend) as shown:
        text = shown.text()
        for words in ("◌ releasing for 3s", "▲ quarantined: 12.0G", "✗ lost: Xid 79 at 14:02", "▲ cordoned: fan"):
            assert words in text
        assert "◆ python" in text
        assert "wang foreign 2d" in text
        assert "1 lost" in text


async def test_the_moved_job_shows_by_how_much() -> None:
    async with screen() as shown:
        assert "▲5" in shown.row("#431 dpo-7b  ")


async def test_old_readings_say_how_old_they_are() -> None:
    async with screen() as shown:
        shown.main.reply_at -= 42
        shown.main.redraw()
        await shown.until("readings are 42s old")


async def test_the_banner_is_there_only_when_something_needs_a_person() -> None:
    backend = FakeBackend()
    backend.attention = []
    async with screen(backend) as shown:
        assert not shown.main.banner.display
        backend.attention = ["/data is 97 % full: starts wait."]
        backend.announce("status")
        await shown.until("/data is 97 % full: starts wait.")


async def test_the_monitor_shows_gpus_alone() -> None:
    async with screen(monitor=True) as shown:
        text = shown.text()
        assert "Queue" not in text
        assert "monitor" in text
        for key in ("K", "X", "colon", "2"):
            await shown.press(key)
        assert shown.app.screen is shown.main
        await shown.press("G", "enter")
        await shown.until("read at")


@pytest.mark.parametrize(
    ("fraction", "drawn"),
    [(0.0, "    "), (0.001, "▏   "), (0.5, "██  "), (0.53125, "██▏ "), (0.999, "███▉"), (1.0, "████"), (7.0, "████")],
)
def test_bars_in_eighths(fraction: float, drawn: str) -> None:
    assert bars.bar(fraction, 4) == drawn


def test_sparkline_tells_unknown_from_zero() -> None:
    assert bars.sparkline([None, 0, 50, 100], 5) == "  ▁▅█"


def test_clean_takes_what_a_terminal_would_obey() -> None:
    assert clean("a\x1b[31mb\x07c\u202ed\n") == "abcd "
    assert clean("\udcff") == "\ufffd"
    assert cell_len(clean("👩\u200d👧")) == 4


def test_wrap_counts_cells() -> None:
    assert wrap("训练 模型 done", 9, 2) == ["训练 模型", "done"]
    assert wrap("one two three", 7, 1) == ["one tw…"]
