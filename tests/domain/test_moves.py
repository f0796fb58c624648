"""An operator's moves: where they put a job, and what they survive."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputui.domain.errors import InputError, Refused
from gputui.domain.job import CLASSES, Gate, QueuedJob
from gputui.domain.scheduler import Scheduler
from tests.domain import worlds
from tests.domain.worlds import job, scheduler
from tests.support.counts import count

EXAMPLES = settings(max_examples=count(100, 1000), deadline=None)


def apply(world: Scheduler, keys: Mapping[int, int | None]) -> None:
    for id_, key in keys.items():
        waiting = world.get(id_)
        assert waiting is not None
        world.replace(replace(waiting, move_key=key))


def move(world: Scheduler, id_: int, to: str, n: int = 1, ref: int | None = None) -> None:
    apply(world, world.move(id_, to, n, ref))


def order(world: Scheduler) -> list[int]:
    return world.window(0, len(world))


def five() -> Scheduler:
    return scheduler(job(id_) for id_ in range(1, 6))


@pytest.mark.parametrize(
    ("to", "n", "ref", "expected"),
    [
        ("top", 1, None, [3, 1, 2, 4, 5]),
        ("bottom", 1, None, [1, 2, 4, 5, 3]),
        ("up", 1, None, [1, 3, 2, 4, 5]),
        ("up", 2, None, [3, 1, 2, 4, 5]),
        ("up", 99, None, [3, 1, 2, 4, 5]),
        ("down", 1, None, [1, 2, 4, 3, 5]),
        ("down", 99, None, [1, 2, 4, 5, 3]),
        ("before", 1, 1, [3, 1, 2, 4, 5]),
        ("before", 1, 4, [1, 2, 3, 4, 5]),
        ("after", 1, 1, [1, 3, 2, 4, 5]),
        ("after", 1, 5, [1, 2, 4, 5, 3]),
    ],
)
def test_a_move_puts_the_job_there(to: str, n: int, ref: int | None, expected: list[int]) -> None:
    world = five()
    move(world, 3, to, n, ref)
    assert order(world) == expected
    assert world.position(3) == expected.index(3) + 1
    assert world.baseline_position(3) == 3


@pytest.mark.parametrize("to", ["top", "bottom", "up", "down"])
def test_baseline_takes_a_move_back(to: str) -> None:
    world = five()
    move(world, 3, to)
    move(world, 3, "baseline")
    assert order(world) == [1, 2, 3, 4, 5]
    assert world.move(3, "baseline") == {}


@pytest.mark.parametrize(("to", "ref"), [("before", 3), ("after", 3)])
def test_a_move_survives_later_arrivals_and_its_neighbours_end(to: str, ref: int) -> None:
    world = five()
    world.add(job(9, priority_class="filler"))
    move(world, 9, to, ref=ref)
    expected = [1, 2, 9, 3, 4, 5] if to == "before" else [1, 2, 3, 9, 4, 5]
    assert order(world) == expected
    for late in range(10, 30):
        world.add(job(late, priority_class=CLASSES[late % 3], priority=late % 5 - 2))
    assert [id_ for id_ in order(world) if id_ < 10] == expected
    at = order(world).index(9)
    assert order(world)[at + 1 if to == "before" else at - 1] == ref, "nobody came between"
    world.remove(ref)
    expected.remove(ref)
    assert [id_ for id_ in order(world) if id_ < 10] == expected


def test_top_stays_top_and_bottom_stays_bottom() -> None:
    world = five()
    move(world, 5, "top")
    move(world, 1, "bottom")
    world.add(job(10, priority_class="core", priority=2**31 - 1))
    world.add(job(11, priority_class="filler", priority=1 - 2**31, gates=Gate.DATA))
    assert order(world) == [5, 10, 2, 3, 4, 11, 1]
    assert world.move(5, "top") == {}
    assert world.move(1, "bottom") == {}
    move(world, 4, "top")
    assert order(world)[:2] == [4, 5], "the last one moved to the top is first"


def test_the_first_by_the_rules_is_pinned_by_a_move_to_the_top() -> None:
    world = five()
    move(world, 1, "top")
    world.add(job(10, priority_class="core"))
    assert order(world)[0] == 1


def test_a_gap_that_ends_is_spread_anew_without_changing_the_order() -> None:
    world = five()
    moved = []
    for id_ in range(100, 300):
        world.add(job(id_, priority_class="filler"))
        move(world, id_, "before", ref=moved[-1] if moved else 3)
        moved.append(id_)
        assert order(world)[2 : 2 + len(moved)] == moved[::-1]
    assert order(world)[:2] == [1, 2]
    assert order(world)[2 + len(moved)] == 3


def test_many_moves_to_one_side_of_one_job() -> None:
    world = five()
    for id_ in range(100, 300):
        world.add(job(id_, priority_class="filler"))
        move(world, id_, "after", ref=3)
    assert order(world) == [1, 2, 3, *range(299, 99, -1), 4, 5]


@EXAMPLES
@given(st.data(), worlds.job_lists())
def test_moves_are_those_of_a_list(data: st.DataObject, jobs: list[QueuedJob]) -> None:
    world = scheduler(jobs)
    for id_ in range(50, 53):
        world.add(job(id_))
    for step in range(data.draw(st.integers(1, 12))):
        before = order(world)
        id_ = data.draw(st.sampled_from(before))
        to = data.draw(st.sampled_from(["top", "bottom", "up", "down", "before", "after"]))
        n = data.draw(st.integers(1, 5))
        others = [other for other in before if other != id_]
        ref = data.draw(st.sampled_from(others))
        at = before.index(id_)
        place = {
            "top": 0,
            "bottom": len(others),
            "up": max(at - n, 0),
            "down": min(at + n, len(others)),
            "before": others.index(ref),
            "after": others.index(ref) + 1,
        }[to]
        others.insert(place, id_)
        move(world, id_, to, n, ref)
        assert order(world) == others
        world.add(job(100 + step, priority_class=data.draw(st.sampled_from(CLASSES))))
        assert [one for one in order(world) if one != 100 + step] == others, "a later arrival moves nobody"
    ids = order(world)
    for id_ in ids:
        move(world, id_, "baseline")
    waiting = [world.get(id_) for id_ in ids]
    assert order(world) == [one.id for one in worlds.in_order(one for one in waiting if one)]


def test_what_cannot_be_is_refused() -> None:
    world = five()
    with pytest.raises(KeyError):
        world.move(99, "top")
    with pytest.raises(Refused, match=r"#99 is not waiting"):
        world.move(1, "before", ref=99)
    for to, n, ref in [
        ("sideways", 1, None),
        ("before", 1, None),
        ("after", 1, 1),
        ("up", 0, None),
        ("down", True, None),
    ]:
        with pytest.raises(InputError):
            world.move(1, to, n, ref)
