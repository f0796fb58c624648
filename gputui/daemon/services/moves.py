"""An operator's moves of waiting jobs, each an absolute place beside the neighbour it was moved to."""

from sqlmodel import Session

from gputui.daemon.context import Caller, Context
from gputui.daemon.services.changes import Changes, Columns
from gputui.protocol import MoveReply
from gputui.store import jobs
from gputui.store.tables import Job


class Moves:
    """Where a job stands, changed by hand."""

    def __init__(self, ctx: Context, changes: Changes) -> None:
        self._ctx = ctx
        self._changes = changes

    async def move(
        self, caller: Caller, job_id: int, to: str, *, n: int = 1, ref: int | None = None, version: int | None = None
    ) -> MoveReply:
        """Move a waiting job. Raises `Refused` (it does not wait, or changed since), `InputError`."""
        return await self._ctx.act(lambda: self._move(caller, job_id, to, n=n, ref=ref, version=version))

    async def _move(
        self, caller: Caller, job_id: int, to: str, *, n: int, ref: int | None, version: int | None
    ) -> MoveReply:
        memory = self._ctx.memory
        memory.waiting(job_id)
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

        before = {"position": memory.scheduler.position(job_id), "moved": memory.waiting(job_id).move_key is not None}
        after = {"to": to, **({"n": n} if to in {"up", "down"} else {}), **({} if ref is None else {"id": ref})}
        await self._changes.locked(
            caller, "job.move", [job_id], plan, expected=expected, also=spread, words=(before, after)
        )
        for other, key in aside.items():
            memory.move(other, key)
        return {
            "position": memory.scheduler.position(job_id),
            "baseline_position": memory.scheduler.baseline_position(job_id),
            "passed_hidden": 0,
        }
