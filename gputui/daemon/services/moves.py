"""An operator's moves of waiting jobs, each an absolute place beside the neighbour it was moved to."""

from collections.abc import Iterator
from itertools import islice

from sqlmodel import Session

from gputui.daemon.context import Caller, Context
from gputui.daemon.services.changes import Changes, Columns
from gputui.daemon.services.windows import View
from gputui.domain.errors import Refused
from gputui.protocol import ErrorCode, MoveReply
from gputui.store import jobs
from gputui.store.tables import Job

_AT_ONCE = 256


class Moves:
    """Where a job stands, changed by hand."""

    def __init__(self, ctx: Context, changes: Changes) -> None:
        self._ctx = ctx
        self._changes = changes

    async def move(
        self,
        caller: Caller,
        job_id: int,
        to: str,
        *,
        n: int = 1,
        ref: int | None = None,
        version: int | None = None,
        view: View = View(),  # noqa: B008 - frozen
    ) -> MoveReply:
        """Move a waiting job; `view`: whose filter the mover looks through.

        Raises `Refused` (it does not wait, changed since, or was passed by the filter's last job), `InputError`.
        """
        return await self._ctx.act(lambda: self._move(caller, job_id, to, n=n, ref=ref, version=version, view=view))

    async def _move(
        self, caller: Caller, job_id: int, to: str, *, n: int, ref: int | None, version: int | None, view: View
    ) -> MoveReply:
        memory = self._ctx.memory
        memory.waiting(job_id)
        here = memory.scheduler.position(job_id)
        if view.words and to in {"up", "down"} and n >= 1:
            to, ref = self._past_shown(job_id, to, n, view)
        keys = memory.scheduler.move(job_id, to, n, ref)
        aside = {other: key for other, key in keys.items() if other != job_id}
        expected = None if version is None else {job_id: version}

        def plan(_: Job) -> Columns:
            if job_id not in keys:
                return {}
            key = keys[job_id]
            return {"move_key": key, "moved_by": caller.user if key is not None else ""}

        def spread(session: Session) -> None:
            # neighbours that had to make room: their order does not change, so neither do their versions
            jobs.set_move_keys(session, aside)

        before = {"position": here, "moved": memory.waiting(job_id).move_key is not None}
        after = {"to": to, **({"n": n} if to in {"up", "down"} else {}), **({} if ref is None else {"id": ref})}
        await self._changes.locked(
            caller, "job.move", [job_id], plan, expected=expected, also=spread, words=(before, after)
        )
        for other, key in aside.items():
            memory.move(other, key)
        now = memory.scheduler.position(job_id)
        return {
            "position": now,
            "baseline_position": memory.scheduler.baseline_position(job_id),
            "passed_hidden": self._hidden(here, now, view),
        }

    def _past_shown(self, job_id: int, to: str, n: int, view: View) -> tuple[str, int]:
        """Past the `n`th neighbour that the filter shows, or the last one there is, as a move beside it."""
        memory, shows = self._ctx.memory, view.shows()
        neighbours = (other for other in self._from(job_id, to) if shows(memory.notes[other]))
        passed = list(islice(neighbours, n))
        if not passed:
            end = "first" if to == "up" else "last"
            raise Refused(ErrorCode.WRONG_STATE, f"Job #{job_id} is already the {end} that the filter shows.")
        return "before" if to == "up" else "after", passed[-1]

    def _from(self, job_id: int, to: str) -> Iterator[int]:
        """The jobs ahead of it (`up`) or behind it, the nearest first."""
        scheduler = self._ctx.memory.scheduler
        at = scheduler.position(job_id) - 1
        if to == "up":
            for end in range(at, 0, -_AT_ONCE):
                start = max(0, end - _AT_ONCE)
                yield from reversed(scheduler.window(start, end - start))
        else:
            for start in range(at + 1, len(scheduler), _AT_ONCE):
                yield from scheduler.window(start, _AT_ONCE)

    def _hidden(self, was: int, now: int, view: View) -> int:
        """How many jobs that the filter hides lie between two positions, of which the job left one for the other."""
        memory, shows = self._ctx.memory, view.shows()
        # the others between the two have each moved up or down by one
        first, count = (now, was - now) if now < was else (was - 1, now - was)
        return sum(not shows(memory.notes[other]) for other in memory.scheduler.window(first, count))
