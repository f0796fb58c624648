"""Windows on the queue, lists, waiting for jobs."""

import asyncio
from pathlib import Path

import pytest

from gputui.daemon.services.windows import View
from gputui.domain.errors import InputError, Refused
from gputui.domain.lifecycle import JobState
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
