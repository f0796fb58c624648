"""What is kept no longer."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from gputui.domain.retention import Kept, overdue

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
MONTH = timedelta(days=30)


def ended(days: float, size: int) -> Kept:
    return Kept(NOW - timedelta(days=days), size)


def test_what_is_old_goes_however_small_it_is() -> None:
    things = {"new": ended(29.9, 10), "old": ended(30.1, 0)}
    assert overdue(things, NOW, MONTH, 100) == ["old"]


def test_the_newest_are_kept_as_long_as_they_fit_together() -> None:
    things = {"a": ended(3, 40), "b": ended(1, 50), "c": ended(2, 10), "d": ended(4, 1)}
    assert overdue(things, NOW, MONTH, 101) == []
    assert overdue(things, NOW, MONTH, 100) == ["d"]
    assert overdue(things, NOW, MONTH, 60) == ["a", "d"]
    assert overdue(things, NOW, MONTH, 0) == ["b", "c", "a", "d"]


@given(st.lists(st.tuples(st.floats(0, 60), st.integers(0, 100))), st.integers(0, 500))
def test_what_stays_fits_and_nothing_that_went_is_newer(found: list[tuple[float, int]], total: int) -> None:
    things = {str(n): ended(*one) for n, one in enumerate(found)}
    gone = set(overdue(things, NOW, MONTH, total))
    stays = things.keys() - gone
    assert sum(things[name].size for name in stays) <= total
    assert all(things[name].ended_at >= NOW - MONTH for name in stays)
    assert all(things[old].ended_at <= things[new].ended_at for old in gone for new in stays)
