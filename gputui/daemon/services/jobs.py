"""What people do with jobs: submit, edit, hold, release, cancel, requeue, start now, wait."""

import asyncio
from collections.abc import Mapping, Sequence

from gputui.daemon.context import Caller, Context
from gputui.daemon.services import edits
from gputui.daemon.services.changes import Changes, Columns, Plan, named
from gputui.daemon.services.gpus import Gpus
from gputui.daemon.services.outcome import Intent
from gputui.daemon.services.rows import Rows
from gputui.daemon.services.runs import Runs
from gputui.domain.errors import InputError, Refused
from gputui.domain.job import Gate
from gputui.domain.lifecycle import ENDED, WAITING, Hold, JobState
from gputui.domain.scheduler import Start
from gputui.engines.launcher import supervisor_argv
from gputui.protocol import ActReply, ErrorCode, InteractiveGrant, JobsReply
from gputui.store import jobs
from gputui.store.tables import Job

LONGEST_WAIT = 60.0
"""Seconds that one call may wait."""
LIFTED = frozenset({Hold.USER, Hold.REVIEW, Hold.MAINTENANCE})
"""Holds that a person may lift."""


class Jobs:
    """The service."""

    def __init__(self, ctx: Context, changes: Changes, runs: Runs, gpus: Gpus, rows: Rows) -> None:
        self._ctx = ctx
        self._changes = changes
        self._runs = runs
        self._gpus = gpus
        self._rows = rows

    # --- Acts on jobs that wait -------------------------------------------------------------------------------------

    async def edit(self, caller: Caller, job_id: int, fields: Mapping[str, object], version: int | None = None) -> None:
        """Change what a job asks for; of an active one only what still matters. Raises `InputError`, `Refused`."""
        types = self._ctx.memory.types()
        if not fields:
            raise InputError("job", {}, "name at least one field to change")

        def plan(job: Job) -> Columns:
            return edits.columns(job, fields, types)

        expected = None if version is None else {job_id: version}
        changed = await self._changes.apply(caller, "job.edit", [job_id], plan, expected=expected)
        run = self._ctx.memory.run_of.get(job_id)
        for one in changed:
            if run is not None:
                run.grace = one.after.get("grace", run.grace)
                run.time_limit = one.after.get("time_limit", run.time_limit)
                run.duration = one.after.get("duration", run.duration)

    async def hold(
        self, caller: Caller, ids: Sequence[int], versions: Mapping[int, int] | None = None, reason: str = ""
    ) -> ActReply:
        """Keep waiting jobs from starting. Raises `Refused` unless all of them wait."""
        said = f"held by {caller.user}" + (f": {reason}" if reason else "")

        def plan(job: Job) -> Columns:
            if job.state not in WAITING:
                raise Refused(ErrorCode.WRONG_STATE, f"Job #{job.id} is {job.state}; only waiting jobs can be held.")
            if Hold.USER in job.holds:
                return {}
            return {"holds": job.holds | {Hold.USER}, "state": JobState.HELD, "hold_reason": said}

        changed = await self._changes.apply(caller, "job.hold", ids, plan, expected=versions, reason=reason)
        return _reply("Held", [one.job_id for one in changed], "Held already")

    async def release(
        self, caller: Caller, ids: Sequence[int], versions: Mapping[int, int] | None = None, reason: str = ""
    ) -> ActReply:
        """Lift the holds that a person may lift, and end a retry's wait. Raises `Refused` for what is not held."""

        def plan(job: Job) -> Columns:
            if job.state not in WAITING or not (job.holds & LIFTED or job.not_before):
                raise Refused(ErrorCode.WRONG_STATE, f"Job #{job.id} is {job.state}; nothing about it is held.")
            left = job.holds - LIFTED
            state = JobState.HELD if left else JobState.QUEUED
            return {"holds": left, "state": state, "hold_reason": "", "not_before": None}

        changed = await self._changes.apply(caller, "job.release", ids, plan, expected=versions, reason=reason)
        return _reply("Released", [one.job_id for one in changed], "Not held")

    # --- Acts on any job --------------------------------------------------------------------------------------------

    async def cancel(
        self, caller: Caller, ids: Sequence[int], versions: Mapping[int, int] | None = None, reason: str = ""
    ) -> ActReply:
        """End jobs: waiting ones at once, active ones by TERM, grace, KILL. Those that ended already are left alone.

        Raises `Refused` when there is nothing left to cancel.
        """
        at = self._ctx.clock.now()
        sentence = f"cancelled by {caller.user}" + (f": {reason}" if reason else "")

        def plan(job: Job) -> Columns:
            if job.state not in WAITING:
                return {}
            return {"state": JobState.CANCELLED, "ended_at": at, "end_reason": sentence}

        done = await self._both(
            caller, "job.cancel", ids, plan, intent=Intent.CANCELLED, versions=versions, reason=reason
        )
        return _reply("Cancelled", done, "")

    async def requeue(
        self, caller: Caller, ids: Sequence[int], versions: Mapping[int, int] | None = None, reason: str = ""
    ) -> ActReply:
        """Queue ended jobs again; stop active ones and queue them again. Raises `Refused` when none is either."""

        def plan(job: Job) -> Columns:
            if job.state not in ENDED:
                return {}
            return {
                "state": JobState.QUEUED, "holds": frozenset(), "hold_reason": "", "ended_at": None, "exit_code": None,
                "end_reason": "", "not_before": None, "move_key": None, "moved_by": "",
            }  # fmt: skip

        done = await self._both(
            caller, "job.requeue", ids, plan, intent=Intent.REQUEUED, versions=versions, reason=reason
        )
        return _reply("Queued again", done, "")

    async def _both(
        self,
        caller: Caller,
        act: str,
        ids: Sequence[int],
        plan: Plan,
        *,
        intent: Intent,
        versions: Mapping[int, int] | None,
        reason: str,
    ) -> list[int]:
        """One act on rows at rest and on active runs, under one lock."""
        memory = self._ctx.memory

        async def work() -> list[int]:
            changed = await self._changes.locked(caller, act, ids, plan, expected=versions, reason=reason)
            active = [job_id for job_id in dict.fromkeys(ids) if (run := memory.run_of.get(job_id)) and run.stoppable]
            if not changed and not active:
                raise Refused(ErrorCode.WRONG_STATE, await self._nothing_to_do(act, ids))
            await self._runs.stop(caller, active, intent, reason)
            return [*(one.job_id for one in changed), *active]

        return await self._ctx.act(work)

    async def _nothing_to_do(self, act: str, ids: Sequence[int]) -> str:
        verb = act.removeprefix("job.")
        if len(ids) > 1:
            return f"None of these {len(ids)} jobs is there to {verb}."
        job = await self._ctx.read(lambda session: jobs.get(session, ids[0]))
        return f"Job #{job.id} is {job.state}; there is nothing to {verb}."

    async def start(
        self,
        caller: Caller,
        job_id: int,
        *,
        gpus: Sequence[str] | None = None,
        ignore_data: bool = False,
        reason: str = "",
        version: int | None = None,
    ) -> ActReply:
        """Start a waiting job ahead of the queue, also while frozen. Raises `Refused`: held, not ready, no GPU fits."""
        if ignore_data and not reason.strip():
            raise InputError("reason", reason, "say why its data may be ignored; it goes into the audit log")
        return await self._ctx.act(
            lambda: self._start(
                caller, job_id, gpus, vouch=reason if ignore_data else None, reason=reason, version=version
            )
        )

    async def _start(
        self,
        caller: Caller,
        job_id: int,
        gpus: Sequence[str] | None,
        *,
        vouch: str | None,
        reason: str,
        version: int | None,
    ) -> ActReply:
        memory = self._ctx.memory
        job = memory.waiting(job_id)
        note = memory.notes[job_id]
        if version is not None and version != note.version:
            raise Refused(ErrorCode.CHANGED, f"Job #{job_id} changed since it was shown. Look at it again.")
        if job.holds:
            raise Refused(ErrorCode.WRONG_STATE, f"Job #{job_id} is held; release it first.")
        if job.gates & (Gate.DATA | Gate.DATA_UNKNOWN) and vouch is None:
            why = (await self._rows.why_waiting(job_id)).sentence
            raise Refused(
                ErrorCode.NOT_READY, f"Job #{job_id} is not ready ({why}); --ignore-data --reason vouches for it."
            )
        if paused := memory.paused:
            raise Refused(ErrorCode.NO_GPU, f"Nothing starts now: {paused}.")
        for uuid in gpus or ():
            if memory.gpus.get(uuid) is None:
                raise Refused(ErrorCode.NOT_FOUND, f"There is no GPU {uuid}; 'gputui gpus' lists them.")
        if gpus and len(set(gpus)) != job.demand.gpus:
            raise InputError("gpus", list(gpus), f"job #{job_id} wants {job.demand.gpus}")
        self._gpus.look_at_locks()
        chosen = memory.scheduler.fits(job_id, gpus or None)
        if chosen is None:
            if vouch is None:
                raise Refused(ErrorCode.NO_GPU, f"No GPU fits job #{job_id} now: {await self._no_gpu(job_id, gpus)}.")
            await self._changes.locked(caller, "job.start", [job_id], lambda _: {"vouched": vouch}, reason=reason)
            return {"message": f"Vouched for the data of #{job_id}; it starts once its GPUs are free.", "ids": [job_id]}
        await self._runs.grant([Start(job_id, chosen)], caller, reason, vouch)
        return {"message": f"Starting #{job_id}{self._rows.on_gpus(chosen)}.", "ids": [job_id]}

    async def _no_gpu(self, job_id: int, gpus: Sequence[str] | None) -> str:
        if gpus:
            said = []
            for uuid in gpus:
                entry = self._ctx.memory.gpus.ensure(uuid)
                now = self._ctx.clock.monotonic()
                said.append(f"GPU {entry.label} {entry.why(now) or f'is {entry.state(now)}'}")
            return ", ".join(said)
        return (await self._rows.why_waiting(job_id)).sentence

    # --- Interactive, waiting ---------------------------------------------------------------------------------------

    async def grant(self, caller: Caller, job_id: int) -> InteractiveGrant:
        """What the client of an interactive job runs; `supervisor` is empty until it was granted its GPUs."""
        row = await self._ctx.read(lambda session: jobs.get(session, job_id))
        if not row.interactive:
            raise Refused(ErrorCode.WRONG_STATE, f"Job #{job_id} is not interactive.")
        if row.owner_uid != caller.uid:
            raise Refused(ErrorCode.NOT_ALLOWED, f"Job #{job_id} belongs to {row.owner}.")
        run = self._ctx.memory.run_of.get(job_id)
        if run is not None and not run.launched and run.stoppable:
            return {"state": JobState.QUEUED.value, "run_dir": "", "supervisor": []}  # granted, a moment too early
        if run is None or run.began_at is not None or not run.stoppable:
            note = self._ctx.memory.note(job_id)
            return {"state": (note.state if note else row.state).value, "run_dir": "", "supervisor": []}
        folder = self._ctx.engine.run_dir(run.run_id)
        return {
            "state": JobState.STARTING.value,
            "run_dir": str(folder),
            "supervisor": supervisor_argv(folder, "--interactive"),
        }

    async def wait(self, ids: Sequence[int], timeout: float) -> JobsReply:  # noqa: ASYNC109 - the caller's own limit
        """These jobs, once all have ended or the time is up. Raises `Refused` for one that never was."""
        memory = self._ctx.memory
        deadline = self._ctx.clock.monotonic() + max(0.0, min(timeout, LONGEST_WAIT))
        while any(job_id in memory.notes for job_id in ids):
            left = deadline - self._ctx.clock.monotonic()
            try:
                async with asyncio.timeout(left):
                    await memory.ended.wait()
            except TimeoutError:
                break
        rows = await self._rows.of(ids)
        return {"total": len(rows), "jobs": rows}


def _reply(verb: str, ids: Sequence[int], otherwise: str) -> ActReply:
    return {"message": f"{verb} {named(ids)}." if ids else f"{otherwise}: nothing changed.", "ids": list(ids)}
