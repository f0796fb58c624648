"""What people do with waiting jobs: order, moves, holds, edits, undo, and what the audit log says of it."""

from pathlib import Path

import pytest

from gputui.daemon.services.windows import View
from gputui.domain.errors import InputError, Refused
from gputui.protocol import ErrorCode
from tests.support.core import ENV, ME, OTHER, Core, core


async def frozen(daemon: Core) -> None:
    """Nothing starts: what waits stays."""
    await daemon.services.freezer.freeze(OTHER, "a test looks at the queue")


def order(daemon: Core) -> list[int]:
    return daemon.ctx.memory.scheduler.window(0, 100)


async def audit(daemon: Core, act: str) -> list[tuple[str, dict[str, object], dict[str, object]]]:
    from gputui.store import audit as log

    rows = await daemon.ctx.read(lambda session: log.rows(session, 100))
    return [(row.who, log.loads(row.before) or {}, log.loads(row.after) or {}) for row in rows if row.act == act]


async def test_a_move_shows_survives_and_goes_back(home: Path) -> None:
    async with core(home) as daemon:
        await frozen(daemon)
        core_job = await daemon.submit("true", **{"class": "core"})
        normal = await daemon.submit("true")
        filler = await daemon.submit("true", **{"class": "filler"})
        assert order(daemon) == [core_job, normal, filler]

        reply = await daemon.services.moves.move(ME, filler, "top")
        assert (reply["position"], reply["baseline_position"]) == (1, 3)
        row = await daemon.row(filler)
        assert (row["position"], row["baseline_position"], row["moved"]) == (1, 3, True)

        later = await daemon.submit("true", **{"class": "core", "priority": 9})
        await daemon.services.jobs.cancel(ME, [core_job])
        assert order(daemon) == [filler, later, normal]

        reply = await daemon.services.moves.move(ME, filler, "baseline")
        assert (reply["position"], reply["baseline_position"]) == (3, 3)
        assert order(daemon) == [later, normal, filler]
        rows = await audit(daemon, "job.move")
        assert rows == [
            ("li", {"position": 1, "moved": True}, {"to": "baseline"}),
            ("li", {"position": 3, "moved": False}, {"to": "top"}),
        ]


async def test_undo_takes_back_my_last_act_and_redo_does_it_again(home: Path) -> None:
    async with core(home) as daemon:
        await frozen(daemon)
        first, second = await daemon.submit("true"), await daemon.submit("true")
        await daemon.services.moves.move(ME, second, "top")
        await daemon.services.jobs.hold(ME, [first], reason="wait for the review")
        assert (await daemon.row(first))["reason"] == "held by li: wait for the review"
        assert (await daemon.row(first))["holds"] == ["user"]

        assert (await daemon.services.undo.undo(ME))["message"] == f"Undone: held #{first}."
        assert daemon.state(first) == "queued"
        await daemon.services.undo.undo(ME)
        assert order(daemon) == [first, second]
        await daemon.services.undo.redo(ME)
        assert order(daemon) == [second, first]
        await daemon.services.undo.redo(ME)
        assert daemon.state(first) == "held"
        with pytest.raises(Refused, match="Nothing was undone"):
            await daemon.services.undo.redo(ME)


async def test_undo_is_refused_after_someone_elses_act(home: Path) -> None:
    async with core(home) as daemon:
        await frozen(daemon)
        first, second = await daemon.submit("true"), await daemon.submit("true")
        await daemon.services.moves.move(ME, second, "top")
        await daemon.services.jobs.hold(OTHER, [second])
        with pytest.raises(Refused, match=f"Job #{second} changed since it was shown: wang held it") as refused:
            await daemon.services.undo.undo(ME)
        assert refused.value.code == ErrorCode.CHANGED
        assert order(daemon) == [second, first]
        with pytest.raises(Refused, match="nothing in this session"):
            await daemon.services.undo.undo(type(ME)(ME.uid, ME.user, "another screen"))


async def test_undo_of_a_cancel_and_of_a_submit(home: Path) -> None:
    async with core(home) as daemon:
        await frozen(daemon)
        job = await daemon.submit("true")
        await daemon.services.jobs.cancel(ME, [job])
        assert daemon.state(job) == "ended"
        await daemon.services.undo.undo(ME)
        assert daemon.state(job) == "queued"
        await daemon.services.undo.undo(ME)  # the submit
        row = await daemon.row(job)
        assert (row["state"], row["reason"]) == ("cancelled", "submit undone by li")
        await daemon.services.undo.redo(ME)
        assert daemon.state(job) == "queued"


async def test_an_act_on_a_row_that_changed_is_refused(home: Path) -> None:
    async with core(home) as daemon:
        await frozen(daemon)
        job = await daemon.submit("true")
        seen = (await daemon.row(job))["version"]
        await daemon.services.jobs.edit(OTHER, job, {"priority": 5})
        for act in (
            daemon.services.jobs.edit(ME, job, {"priority": 1}, version=seen),
            daemon.services.moves.move(ME, job, "top", version=seen),
            daemon.services.jobs.hold(ME, [job], {job: seen}),
            daemon.services.jobs.cancel(ME, [job], {job: seen}),
        ):
            with pytest.raises(Refused, match="wang edited it"):
                await act
        row = await daemon.row(job)
        assert (row["priority"], row["state"]) == (5, "queued")


async def test_edit_checks_as_submit_does_and_is_audited(home: Path) -> None:
    async with core(home) as daemon:
        await frozen(daemon)
        job = await daemon.submit("true", name="a", env={"TOKEN": "secret"})
        await daemon.services.jobs.edit(ME, job, {"gpu_memory": "40GiB", "class": "core", "duration": "2h"})
        row = await daemon.row(job)
        assert (row["gpu_memory"], row["class"], row["duration"]) == (40 << 30, "core", 7200.0)
        with pytest.raises(InputError, match="gpus is 'many'"):
            await daemon.services.jobs.edit(ME, job, {"gpus": "many"})
        with pytest.raises(InputError, match="submit the job anew"):
            await daemon.services.jobs.edit(ME, job, {"argv": ["false"]})
        ((who, before, after),) = await audit(daemon, "job.edit")
        assert who == "li"
        assert before["priority_class"] == "normal"
        assert after["priority_class"] == "core"
        everything = await daemon.ctx.read(
            lambda session: str(session.connection().exec_driver_sql("select * from audit").all())
        )
        assert "secret" not in everything


async def test_a_batch_is_taken_in_whole_or_not_at_all(home: Path) -> None:
    async with core(home) as daemon:
        await frozen(daemon)
        good = [{"argv": ["true"], "name": f"n{n}"} for n in range(2500)]
        with pytest.raises(InputError, match="job 2501: gpus is -1"):
            await daemon.services.submit.submit(ME, [*good, {"argv": ["true"], "gpus": -1}], "/", ENV)
        assert len(daemon.ctx.memory.scheduler) == 0
        reply = await daemon.services.submit.submit(ME, good, "/", ENV)
        assert reply["job_ids"] == list(range(1, 2501))
        assert order(daemon) == list(range(1, 101))
        assert [after["count"] for _, _, after in await audit(daemon, "job.submit")] == [2500]


async def test_freeze_stops_starts_and_survives_a_restart(home: Path) -> None:
    daemon = Core(home)
    await daemon.open()
    await daemon.services.freezer.freeze(ME, "moving racks")
    job = await daemon.submit("true")
    assert (await daemon.row(job))["reason"] == "frozen by li: moving racks"
    await daemon.close()
    await daemon.open()
    row = daemon.services.freezer.row()
    assert row is not None
    assert (row["by"], row["reason"]) == ("li", "moving racks")
    assert daemon.state(job) == "queued"
    await daemon.services.freezer.thaw(ME, "done")
    (ended,) = await daemon.ended(job)
    assert ended["state"] == "succeeded"
    await daemon.end()


async def test_undo_of_a_requeue_gives_the_end_back(home: Path) -> None:
    async with core(home) as daemon:
        job = await daemon.submit("sh", "-c", "exit 3")
        (failed,) = await daemon.ended(job)
        await frozen(daemon)
        await daemon.services.jobs.requeue(ME, [job])
        assert (await daemon.row(job))["exit_code"] is None
        assert (await daemon.services.undo.undo(ME))["message"] == f"Undone: queued again #{job}."
        again = await daemon.row(job)
        told = ("state", "exit_code", "reason", "started_at", "ended_at", "attempt")
        assert {name: again[name] for name in told} == {name: failed[name] for name in told}
        await daemon.services.undo.redo(ME)
        assert daemon.state(job) == "queued"

        await daemon.services.jobs.edit(OTHER, job, {"name": "mine now"})
        with pytest.raises(Refused, match="changed since"):
            await daemon.services.undo.undo(ME)


async def test_a_job_that_ends_twice_shows_its_last_end(home: Path) -> None:
    async with core(home) as daemon:
        second = home / "second"
        job = await daemon.submit("sh", "-c", f"test -e {second} && exit 4; touch {second}; exit 3")
        assert [row["exit_code"] for row in await daemon.ended(job)] == [3]
        await daemon.services.jobs.requeue(ME, [job])
        assert [row["exit_code"] for row in await daemon.ended(job)] == [4]


async def test_under_a_filter_a_move_passes_the_visible_neighbour_and_tells_what_it_hides(home: Path) -> None:
    async with core(home) as daemon:
        await frozen(daemon)
        names = ["mine", "other", "other", "mine", "other", "mine"]
        a, x, y, b, z, c = [await daemon.submit("true", name=name) for name in names]
        move = daemon.services.moves.move
        mine, others = View(text="MINE"), View(text="mine", invert=True)

        reply = await move(ME, a, "down", view=mine)
        assert order(daemon) == [x, y, b, a, z, c]
        assert (reply["position"], reply["passed_hidden"]) == (4, 2)
        reply = await move(ME, c, "up", n=2, view=mine)
        assert order(daemon) == [x, y, c, b, a, z]
        assert (reply["position"], reply["passed_hidden"]) == (3, 1)
        reply = await move(ME, z, "up", n=9, view=others)
        assert order(daemon) == [z, x, y, c, b, a]
        assert (reply["position"], reply["passed_hidden"]) == (1, 3)
        reply = await move(ME, b, "before", ref=x, view=mine)
        assert order(daemon) == [z, b, x, y, c, a]
        assert reply["passed_hidden"] == 2
        assert (await move(ME, c, "up"))["passed_hidden"] == 0

        with pytest.raises(Refused, match=f"#{b} is already the first that the filter shows"):
            await move(ME, b, "up", view=mine)
        await daemon.services.undo.undo(ME)
        assert order(daemon) == [z, b, x, y, c, a]


async def test_a_move_far_through_hidden_jobs(home: Path) -> None:
    async with core(home) as daemon:
        await frozen(daemon)
        items = [{"argv": ["true"], "name": "mine" if n in {0, 699} else "other"} for n in range(700)]
        ids = (await daemon.services.submit.submit(ME, items, "/", ENV))["job_ids"]
        reply = await daemon.services.moves.move(ME, ids[-1], "up", view=View(text="mine"))
        assert (reply["position"], reply["passed_hidden"]) == (1, 698)
        reply = await daemon.services.moves.move(ME, ids[-1], "down", view=View(text="mine"))
        assert (reply["position"], reply["passed_hidden"]) == (2, 0)
