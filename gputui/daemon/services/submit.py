"""Taking in new jobs: one or a hundred thousand, all or nothing, one audit row per batch."""

import asyncio
from collections.abc import Mapping, Sequence

from sqlmodel import Session

from gputui.daemon.context import Caller, Context
from gputui.daemon.services.changes import Changes, Columns
from gputui.daemon.services.undo import Undo, Undoable
from gputui.domain.errors import InputError, Refused
from gputui.domain.job import JobSpec
from gputui.domain.jobspec import JobParser
from gputui.domain.lifecycle import WAITING, Hold, JobState
from gputui.protocol import ErrorCode, SubmitReply
from gputui.store import audit, jobs
from gputui.store.jobs import WaitingJob
from gputui.store.tables import Job

PIECE = 1000
"""Jobs parsed or taken in at a time, so that the loop is never held up for long."""
MOST_NAMED = 1000
"""Jobs of a batch whose fields go into its audit row."""
MOST_UNDONE = 1000
"""A larger batch is not undone by one key."""


class Batch:
    """Jobs to be submitted together. Nothing happens before `commit`."""

    def __init__(self, submit: "Submit", caller: Caller, parser: JobParser) -> None:
        self._submit = submit
        self._caller = caller
        self._parser = parser
        self._specs: list[JobSpec] = []

    async def add(self, items: Sequence[Mapping[str, object]]) -> None:
        """Check some more jobs. Raises `InputError`; then the batch is of no use any more."""
        for start in range(0, len(items), PIECE):
            piece = items[start : start + PIECE]
            if len(piece) < 20:
                self._specs += self._parse(piece, len(self._specs))
            else:
                self._specs += await asyncio.to_thread(self._parse, piece, len(self._specs))

    async def commit(self) -> SubmitReply:
        """Store them all. Raises `InputError` when there are none."""
        return await self._submit.commit(self._caller, self._specs)

    def _parse(self, piece: Sequence[Mapping[str, object]], before: int) -> list[JobSpec]:
        specs: list[JobSpec] = []
        try:
            for item in piece:
                specs.append(self._parser.parse(item))  # noqa: PERF401 - its length says which one is wrong
        except InputError as error:
            at = before + len(specs) + 1
            if at == 1:
                raise
            raise InputError(f"job {at}: {error.field}", error.value, error.remedy) from None
        return specs


class Submit:
    """The service."""

    def __init__(self, ctx: Context, changes: Changes, undo: Undo) -> None:
        self._ctx = ctx
        self._changes = changes
        self._undo = undo

    def batch(self, caller: Caller, cwd: str, env: Mapping[str, str]) -> Batch:
        """Begin a batch with its common directory and environment. Raises `InputError`."""
        return Batch(self, caller, JobParser(cwd=cwd, env=env, known_types=self._ctx.memory.types()))

    async def submit(
        self, caller: Caller, items: Sequence[Mapping[str, object]], cwd: str, env: Mapping[str, str]
    ) -> SubmitReply:
        """Submit these jobs, all or none. Raises `InputError`."""
        batch = self.batch(caller, cwd, env)
        await batch.add(items)
        return await batch.commit()

    async def commit(self, caller: Caller, specs: Sequence[JobSpec]) -> SubmitReply:
        """Store checked jobs in one transaction, then take them into the queue."""
        if not specs:
            raise InputError("jobs", [], "name at least one job")
        ids = await self._ctx.act(lambda: self._commit(caller, specs))
        if len(ids) <= MOST_UNDONE:
            self._undo.remember(caller, self._undoable(ids))
        return {"job_ids": ids, "warnings": self._warnings(specs)}

    async def _commit(self, caller: Caller, specs: Sequence[JobSpec]) -> list[int]:
        ctx, memory = self._ctx, self._ctx.memory
        at, first_seq = ctx.clock.now(), memory.next_seq

        def work(session: Session) -> list[int]:
            ids = jobs.insert_jobs(
                session,
                specs,
                owner_uid=caller.uid,
                owner=caller.user,
                host_id=ctx.store.host_id,
                at=at,
                first_seq=first_seq,
                hold_reason=f"held by {caller.user}" if any(spec.hold for spec in specs) else "",
            )
            audit.append(
                session, at=at, uid=caller.uid, who=caller.user, session_token=caller.session, act="job.submit",
                subject=f"job {ids[0]}" if len(ids) == 1 else f"jobs {ids[0]} to {ids[-1]}",
                after={"count": len(ids), "names": sorted({spec.name for spec in specs[:MOST_NAMED]})},
            )  # fmt: skip
            return ids

        ids = await ctx.write(work)
        memory.next_seq += len(ids)
        for at_once in range(0, len(ids), PIECE):
            for n in range(at_once, min(at_once + PIECE, len(ids))):
                memory.add_waiting(_row(specs[n], ids[n], first_seq + n, caller))
            await asyncio.sleep(0)
        ctx.changed(ids)
        ctx.wake.set()
        return ids

    def _undoable(self, ids: Sequence[int]) -> Undoable:
        async def revert(caller: Caller) -> Undoable:
            at = self._ctx.clock.now()

            def plan(job: Job) -> Columns:
                if job.state not in WAITING:
                    raise Refused(ErrorCode.CHANGED, f"Job #{job.id} is {job.state} by now; cancel it instead.")
                return {"state": JobState.CANCELLED, "ended_at": at, "end_reason": f"submit undone by {caller.user}"}

            versions = dict.fromkeys(ids, 1)
            changed = await self._changes.apply(caller, "undo", ids, plan, expected=versions, remember=False)
            return self._changes.undoable("job.submit", changed)

        said = f"submitted {len(ids)} jobs" if len(ids) > 1 else f"submitted #{ids[0]}"
        return Undoable(said, tuple(ids), revert)

    def _warnings(self, specs: Sequence[JobSpec]) -> list[str]:
        memory = self._ctx.memory
        said = [
            f"There is no dataset {name} yet: until it is added, jobs that name it wait."
            for name in sorted({name for spec in specs for name in spec.datasets})
            if name not in memory.datasets
        ]
        if len(memory.gpus):
            memory.scheduler.pool.refresh()
            for demand in {spec.demand for spec in specs if spec.demand.gpus}:
                if not memory.scheduler.pool.reach(demand):
                    said.append("No GPUs here fit this now, even when all runs have ended: 'gputui job why' says why.")
                    break
        return said


def _row(spec: JobSpec, job_id: int, seq: int, caller: Caller) -> WaitingJob:
    return WaitingJob(
        id=job_id,
        state=JobState.HELD if spec.hold else JobState.QUEUED,
        owner_uid=caller.uid,
        owner=caller.user,
        name=spec.name,
        project=spec.project,
        priority_class=spec.priority_class,
        priority=spec.priority,
        submitted_seq=seq,
        gpus=spec.demand.gpus,
        gpu_types=tuple(spec.demand.types),
        gpu_memory=spec.demand.memory,
        share=spec.demand.share,
        duration=spec.duration,
        holds=_HELD if spec.hold else _FREE,
        move_key=None,
        vouched=None,
        not_before=None,
        attempt=0,
        version=1,
        datasets=spec.datasets,
    )


_HELD = frozenset({Hold.USER})
_FREE: frozenset[Hold] = frozenset()
