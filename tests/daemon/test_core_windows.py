"""Windows on the queue, lists, waiting for jobs."""

import asyncio
from pathlib import Path

import pytest

from gputui.daemon.memory import DatasetNote
from gputui.daemon.services import windows
from gputui.daemon.services.windows import View
from gputui.domain.errors import InputError, Refused
from gputui.domain.lifecycle import JobState
from gputui.tui.widgets.queue_columns import VIEWS
from tests.support.core import ENV, ME, Core, core


async def filled(daemon: Core) -> list[int]:
    """Twelve waiting jobs: four of each class, the classes taking turns."""
    await daemon.services.freezer.freeze(ME, "a test looks at the queue")
    items = [
        {"argv": ["true"], "name": f"n{n}", "class": ("filler", "core", "normal")[n % 3], "project": f"p{n % 2}"}
        for n in range(12)
    ]
    return (await daemon.services.submit.submit(ME, items, "/", ENV))["job_ids"]


async def test_a_window_shows_rows_around_its_anchor(home: Path) -> None:
    async with core(home) as daemon:
        ids = await filled(daemon)
        order = [*ids[1::3], *ids[2::3], *ids[0::3]]
        window = daemon.services.windows.window

        whole = await window(View(), after=100)
        assert ([row["id"] for row in whole["jobs"]], whole["total"], whole["first"]) == (order, 12, 0)
        assert [row["position"] for row in whole["jobs"]] == list(range(1, 13))
        assert whole["counts"] == {"core": 4, "normal": 4, "filler": 4, "queued": 12}

        around = await window(View(), anchor=order[5], before=2, after=1)
        assert ([row["id"] for row in around["jobs"]], around["first"]) == (order[3:7], 3)
        gone = await window(View(), anchor=999, first=10, before=0, after=5)
        assert ([row["id"] for row in gone["jobs"]], gone["first"]) == (order[10:], 10)

        filtered = await window(View(text="CORE p1"), after=10)
        assert [row["id"] for row in filtered["jobs"]] == [job for job in ids[1::3] if (job - ids[0]) % 2 == 1]
        others = await window(View(text="core", invert=True), after=20)
        assert [row["id"] for row in others["jobs"]] == order[4:]
        by_name = await window(View(sort="name", reverse=True), after=0)
        assert [row["name"] for row in by_name["jobs"]] == ["n9"]

        await daemon.services.jobs.cancel(ME, [order[0]])
        everything = await window(View(scope="all"), first=10, after=10)
        assert ([row["id"] for row in everything["jobs"]], everything["total"]) == ([order[11], order[0]], 12)
        assert everything["version"] > whole["version"]
        with pytest.raises(InputError, match="scope is 'past'"):
            await window(View(scope="past"))


async def test_a_list_takes_states_projects_and_owners(home: Path) -> None:
    async with core(home) as daemon:
        ids = await filled(daemon)
        await daemon.services.jobs.cancel(ME, ids[:2])
        listed = await daemon.services.windows.jobs(project="p1", limit=2, offset=1)
        assert listed["total"] == 6
        assert len(listed["jobs"]) == 2
        ended = await daemon.services.windows.jobs(states=[JobState.CANCELLED])
        assert {row["id"] for row in ended["jobs"]} == set(ids[:2])
        assert (await daemon.services.windows.jobs(owner="nobody"))["total"] == 0


async def test_waiting_ends_with_the_last_of_the_jobs_or_the_time(home: Path) -> None:
    async with core(home) as daemon:
        short = await daemon.submit("true")
        long = await daemon.submit("sleep", "600")
        reply = await daemon.services.jobs.wait([short], 60)
        assert [row["state"] for row in reply["jobs"]] == ["succeeded"]
        reply = await daemon.services.jobs.wait([short, long], 0.1)
        assert reply["jobs"][0]["state"] == "succeeded"
        waiting = asyncio.create_task(daemon.services.jobs.wait([long], 60))
        await daemon.services.jobs.cancel(ME, [long])
        assert [row["state"] for row in (await waiting)["jobs"]] == ["cancelled"]
        with pytest.raises(Refused, match="There is no job #999"):
            await daemon.services.jobs.wait([999], 60)


async def test_ended_jobs_are_counted_by_state_from_the_first_window_on(home: Path) -> None:
    async with core(home) as daemon:
        counts = daemon.services.windows.counts
        good, bad = await daemon.submit("true"), await daemon.submit("false")
        await daemon.ended(good, bad)
        assert counts() == {"succeeded": 1, "failed": 1}
        await daemon.services.freezer.freeze(ME, "a test looks at the queue")
        waiting = await daemon.submit("true")
        await daemon.services.jobs.cancel(ME, [waiting])
        assert counts() == {"succeeded": 1, "failed": 1, "cancelled": 1}
        await daemon.services.undo.undo(ME)
        await daemon.services.jobs.requeue(ME, [bad])
        assert counts() == {"succeeded": 1, "normal": 2, "queued": 2}
        await daemon.services.undo.undo(ME)
        await daemon.close()
        await daemon.open()
        assert daemon.services.windows.counts() == {"succeeded": 1, "failed": 1, "normal": 1, "queued": 1}


async def test_sorts_put_classes_by_rank_and_say_what_cannot_be_sorted_here(home: Path) -> None:
    async with core(home) as daemon:
        ids = await filled(daemon)
        await daemon.services.moves.move(ME, ids[0], "top")
        window = daemon.services.windows.window

        async def sorted_by(sort: str, **how: object) -> list[int]:
            return [row["id"] for row in (await window(View(sort=sort, **how)))["jobs"]]  # type: ignore[arg-type]

        assert await sorted_by("class") == [*ids[1::3], *ids[2::3], *ids[0::3]]
        assert await sorted_by("class", reverse=True) == [*ids[1::3], *ids[2::3], *ids[0::3]][::-1]
        assert await sorted_by("position") == [ids[0], *ids[1::3], *ids[2::3], *ids[3::3]]
        assert await sorted_by("submitted") == ids
        with pytest.raises(InputError, match="sort is 'elapsed': here, write one of position, id"):
            await window(View(sort="elapsed"))
        with pytest.raises(InputError, match="sort is 'readiness'"):
            await window(View(scope="all", sort="readiness"))
        for scope, columns in VIEWS.items():
            for column in columns:
                await window(View(scope, sort=column.sort))  # whatever the screen offers is taken
        unfiltered = await window(View(text=" ", invert=True))
        assert unfiltered["total"] == 12, "there is nothing to leave out"


async def test_a_job_that_is_ready_comes_before_one_that_is_not(home: Path) -> None:
    async with core(home) as daemon:
        await daemon.services.freezer.freeze(ME, "a test looks at the queue")
        daemon.ctx.memory.set_dataset("half", DatasetNote(ready=False, readiness=0.5))
        ids = [await daemon.submit("true", datasets=names) for names in (["never"], ["half"], [])]
        by_readiness = await daemon.services.windows.window(View(sort="readiness"))
        assert [row["readiness"] for row in by_readiness["jobs"]] == [0.5, 1.0, None]
        assert [row["id"] for row in by_readiness["jobs"]] == [ids[1], ids[2], ids[0]]


async def test_a_window_on_ended_jobs_has_anchors_sorts_and_filters_too(home: Path) -> None:
    async with core(home) as daemon:
        good, bad = await daemon.submit("true", name="b"), await daemon.submit("false", name="a", **{"class": "core"})
        await daemon.ended(good, bad)
        await daemon.services.freezer.freeze(ME, "a test looks at the queue")
        waiting = await daemon.submit("true", name="c")
        gone = await daemon.submit("true", name="d", **{"class": "filler"})
        await daemon.services.jobs.cancel(ME, [gone])
        window = daemon.services.windows.window

        async def ids(scope: str = "ended", **how: object) -> list[int]:
            return [row["id"] for row in (await window(View(scope, **how)))["jobs"]]  # type: ignore[arg-type]

        assert (await ids())[0] == gone
        assert (await ids(reverse=True))[-1] == gone
        assert await ids(sort="class") == [bad, good, gone]
        assert await ids(sort="name", reverse=True) == [gone, good, bad]
        assert await ids(text="failed") == [bad]
        assert await ids(text="failed", invert=True, sort="id") == [good, gone]
        assert await ids("all", sort="name") == [waiting, bad, good, gone]

        around = await window(View("ended", sort="name"), anchor=good, before=0, after=0)
        assert (around["first"], [row["id"] for row in around["jobs"]]) == (1, [good])
        around = await window(View("all", sort="name"), anchor=bad, before=1, after=0)
        assert (around["first"], [row["id"] for row in around["jobs"]]) == (0, [waiting, bad])
        elsewhere = await window(View("ended", text="failed"), anchor=good, first=0, after=5)
        assert [row["id"] for row in elsewhere["jobs"]] == [bad]


async def test_a_look_through_many_jobs_lets_others_have_their_turn(home: Path) -> None:
    async with core(home) as daemon:
        await daemon.services.freezer.freeze(ME, "a test looks at the queue")
        jobs = [{"argv": ["true"], "name": f"n{n}"} for n in range(2 * windows.PIECE + 1)]
        ids = (await daemon.services.submit.submit(ME, jobs, "/", ENV))["job_ids"]
        looking = asyncio.create_task(daemon.services.windows.window(View(text="n4", sort="name"), after=0))
        await asyncio.sleep(0)
        turns = 0
        while not looking.done():
            # the last job leaves in the middle of the look: that must not trouble it
            if not turns:
                daemon.ctx.memory.drop(ids[-1])
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 2
        found = await looking
        assert found["total"] == sum("n4" in f"n{n}" for n in range(2 * windows.PIECE))
