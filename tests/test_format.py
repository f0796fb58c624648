"""Names, sizes, durations and tables as people read them."""

from datetime import UTC, datetime

import pytest
from rich.cells import cell_len

from gputui import format as fmt

GIB = 1024**3


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "?"), (-5, "0s"), (0, "0s"), (17.9, "17s"), (60, "1m"), (41 * 60 + 59, "41m"), (3600, "1h"),
        (3 * 3600 + 12 * 60, "3h12"), (3 * 3600 + 5 * 60, "3h05"), (6 * 3600, "6h"),
        (52 * 3600, "2d 4h"), (86400, "1d"),
    ],
)  # fmt: skip
def test_durations_have_the_two_units_that_matter(seconds, shown):
    assert fmt.duration(seconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (None, "?"), (0, "0 B"), (812, "812 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (40 * GIB, "40 GiB"),
        (1024 * GIB, "1 TiB"), (GIB - 1, "1 GiB"), (120.4 * GIB, "120 GiB"),
    ],
)  # fmt: skip
def test_sizes_are_binary_and_short(count, shown):
    assert fmt.size(count) == shown


def test_memory_used_of_all():
    assert fmt.used_of(74.1 * GIB, 79.6 * GIB) == "74.1/80G"
    assert fmt.used_of(None, 80 * GIB) == "?/80G"
    assert fmt.used_of(0, 80 * GIB) == "0.0/80G"


def test_percent_says_100_only_for_all_of_it():
    assert [fmt.percent(part) for part in (None, 0.0, 0.67, 0.999, 1.0)] == ["?", "0 %", "67 %", "99 %", "100 %"]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("train [/x] a[red]b", "train [/x] a[red]b"),
        ("a\x1b[31mred\x1b[0m", "ared"),
        ("a\x1b]0;title\x07b", "ab"),
        ("a\x1b]52;c;aGk=\x1b\\b", "ab"),
        ("two\nlines\tand more", "two lines and more"),
        ("bell\x07 c1\x9b31m", "bell c1"),
        ("evil\u202egnp.exe", "evilgnp.exe"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("sft-代码-7b", "sft-代码-7b"),
        (b"bad-\xff-name".decode("utf-8", "surrogateescape"), "bad-\ufffd-name"),
    ],
)
def test_names_lose_what_would_act_on_the_terminal_and_nothing_else(raw, shown):
    assert fmt.clean(raw) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "训练-大模型-日志",
        "e\u0301clair",
        "👍 run",
        "👨\u200d👩\u200d👧 family",
        "❤\ufe0f love",
        "混mix混mix",
    ],
)
@pytest.mark.parametrize("cells", [1, 2, 3, 7, 8, 30])
def test_fit_takes_exactly_the_cells_it_was_given(text, cells):
    assert cell_len(fmt.fit(text, cells)) == cells
    assert cell_len(fmt.fit(text, cells, right=True)) == cells


def test_fit_cuts_with_an_ellipsis_and_never_half_a_character():
    assert fmt.fit("训练-大模型-日志", 8) == "训练-大…"
    assert fmt.fit("训练-大模型-日志", 7) == "训练-… "
    assert fmt.fit("pretrain", 8) == "pretrain"
    assert fmt.fit("pretrain-13b", 8) == "pretrai…"
    assert fmt.fit("ab", 4, right=True) == "  ab"


def test_tables_align_by_cells_and_pipe_well():
    lines = fmt.table(["id", "name", "state"], [["#7", "训练", "running"], ["#12", "a\nb", "queued"]], right=[0])
    assert lines == [" id  name  state", " #7  训练  running", "#12  a b   queued"]


def test_tables_cut_their_last_column_to_the_limit():
    lines = fmt.table(["id", "reason"], [["#1", "behind #423, which waits for data"]], limit=20)
    assert lines[1] == "#1  behind #423, wh…"
    assert all(cell_len(line) <= 20 for line in lines)


def test_a_very_long_name_leaves_room_for_the_reason():
    lines = fmt.table(["id", "name", "reason"], [["#1", "漢" * 200, "behind #423, which waits for data"]], limit=80)
    assert all(cell_len(line) <= 80 for line in lines)
    assert lines[1].endswith("…   behind #423, which wait…")


def test_times_are_local_and_say_the_day_only_when_it_is_another(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        now = datetime(2026, 11, 30, 6, 2, 31, tzinfo=UTC)
        assert fmt.moment("2026-11-30T08:40:00+00:00", now) == "16:40"
        assert fmt.moment("2026-12-04T10:00:00+00:00", now) == "Fri 18:00"
        assert fmt.moment("2026-12-24T10:00:00+00:00", now) == "2026-12-24 18:00"
        assert fmt.moment(None, now) == "?"
        assert fmt.full_time(now) == "2026-11-30 14:02:31 CST"
    finally:
        monkeypatch.undo()
        time.tzset()
