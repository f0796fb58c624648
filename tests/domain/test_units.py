"""Sizes, durations and times as people write them."""

import math
from datetime import UTC, datetime

import pytest

from gputui.domain.errors import InputError
from gputui.domain.units import parse_duration, parse_size, parse_time


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("40GiB", 42949672960), ("40G", 42949672960), ("40g", 42949672960), ("40GB", 40_000_000_000),
        ("1.5GiB", 1610612736), ("512M", 536870912), ("1 TiB", 1 << 40), ("1KB", 1000), ("17", 17), ("17B", 17),
        (17, 17), (0, 0), (" 8GiB ", 8 << 30), ("0.1KB", 100),
    ],
)  # fmt: skip
def test_sizes(text: object, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize(
    "value",
    ["", "GiB", "-1", "-1GiB", "1e3", "4 0G", "40XB", "nan", "inf", "1,5G", True, 1.5, None, -1, 2**63, "9999999T", [],
     "٣GiB", "9" * 5000],
)  # fmt: skip
def test_what_is_no_size(value: object) -> None:
    with pytest.raises(InputError, match=r"^gpu_memory is .+: ") as refused:
        parse_size(value, "gpu_memory")
    assert refused.value.field == "gpu_memory"
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1h30m", 5400.0), ("2d", 172800.0), ("90", 90.0), (90, 90.0), (1.5, 1.5), ("1.5h", 5400.0), ("500ms", 0.5),
        ("1d 2h 3m 4s", 93784.0), ("1w", 604800.0), ("0", 0.0), ("5M", 300.0),
    ],
)  # fmt: skip
def test_durations(text: object, expected: float) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "value", ["", "h", "-1h", "1x", "nan", "inf", math.nan, math.inf, -1, -0.5, True, None, 10**400, "1h30", "1e9", [],
              "9" * 400]
)  # fmt: skip
def test_what_is_no_duration(value: object) -> None:
    with pytest.raises(InputError, match=r"^grace is "):
        parse_duration(value, "grace")


def test_times_need_their_zone() -> None:
    assert parse_time("2026-05-01T18:00+08:00") == datetime(2026, 5, 1, 10, tzinfo=UTC)
    assert parse_time("2026-05-01T10:00Z") == datetime(2026, 5, 1, 10, tzinfo=UTC)
    for value in ("2026-05-01T18:00", "tomorrow", "", 5, None, "9999-12-31T23:59:59-01:00", "0001-01-01T00:00+01:00"):
        with pytest.raises(InputError, match=r"^until is "):
            parse_time(value, "until")
