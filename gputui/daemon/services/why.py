"""What reasons are made of: who holds which GPU, how datasets stand, what is frozen; and why a run ended."""

import asyncio
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from gputui.daemon.context import Context
from gputui.daemon.memory import ActiveRun
from gputui.daemon.services.gpu_rows import program
from gputui.domain.explain import DatasetFact, Facts, Holding, explain
from gputui.domain.failure import EndFacts, ForeignHolder, explain_end
from gputui.domain.job import Gate
from gputui.domain.lifecycle import ENDED, Hold, JobState
from gputui.domain.reason import Reason
from gputui.engines import logs
from gputui.format import percent
from gputui.protocol import WaitsFor, WhyReply
from gputui.store import audit, jobs, runs
from gputui.store.tables import Job, Run

TAIL_BYTES = 4096
NEAR_ITS_END = timedelta(seconds=30)
"""A GPU may report its fault so long after the run that had it ended of it."""


class Why:
    """The service."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    async def why(self, job_id: int) -> WhyReply:
        """Why a job waits, or how it ended. Raises `Refused` when there is none of that number."""
        job, last = await self._ctx.read(
            lambda session: (jobs.get(session, job_id), runs.latest(session, [job_id]).get(job_id))
        )
        if job_id in self._ctx.memory.scheduler:
            reason = self.waiting([job_id], {job_id: job})[job_id]
        elif job.state in ENDED:
            reason = await self._ended(job, last)
        else:
            return {"job_id": job_id, "reason": f"{job.state}{self._where(job_id)}", "waits_for": []}
        waits: list[WaitsFor] = [
            {"kind": wait.kind, "what": wait.what, "expected": wait.expected.isoformat() if wait.expected else None}
            for wait in reason.waits_for
        ]
        return {"job_id": job_id, "reason": reason.sentence, "waits_for": waits}

    def waiting(self, job_ids: Iterable[int], rows: dict[int, Job]) -> dict[int, Reason]:
        """Why each of these jobs waits; those that don't are left out."""
        scheduler = self._ctx.memory.scheduler
        wanted = [job_id for job_id in job_ids if job_id in scheduler]
        facts = self._facts(wanted, rows)
        return {job_id: explain(scheduler, job_id, facts) for job_id in wanted}

    def expected_end(self, run: ActiveRun) -> datetime | None:
        """When a run ends by its owner's estimate or its limit; None when neither says so, or it is past."""
        now = self._ctx.clock.now()
        known = [seconds for seconds in (run.duration, run.time_limit) if seconds is not None]
        if not known or run.began_at is None:
            return None
        left = min(known) - (self._ctx.clock.monotonic() - run.began_at)
        return now + timedelta(seconds=left) if left > 0 else None

    def on_gpus(self, uuids: Collection[str]) -> str:
        """' on GPU 3' or ' on GPUs 0 and 1'; empty for none."""
        if not uuids:
            return ""
        labels = [self._ctx.memory.gpus.ensure(uuid).label for uuid in uuids]
        if len(labels) == 1:
            return f" on GPU {labels[0]}"
        return f" on GPUs {', '.join(labels[:-1])} and {labels[-1]}"

    def _where(self, job_id: int) -> str:
        run = self._ctx.memory.run_of.get(job_id)
        return self.on_gpus(run.gpu_uuids) if run else ""

    def _facts(self, job_ids: Collection[int], rows: dict[int, Job]) -> Facts:
        memory = self._ctx.memory
        frozen = memory.frozen
        names, holders = {}, {}
        for entry in memory.gpus:
            names[entry.uuid] = f"GPU {entry.label}"
            held = [Holding(f"#{run.job_id}", self.expected_end(run)) for run in entry.runs.values()]
            held += [Holding(f"{program(process.command)} ({process.user})") for process in entry.foreign]
            holders[entry.uuid] = held
        needed = {name for job_id in job_ids if (job := memory.scheduler.get(job_id)) for name in job.datasets}
        return Facts(
            gpu_names=names,
            holders=holders,
            datasets={name: self._dataset(name) for name in needed},
            holds={job_id: _holds(row) for job_id in job_ids if (row := rows.get(job_id)) and row.holds},
            retries={
                job_id: (row.not_before, row.end_reason)
                for job_id in job_ids
                if (row := rows.get(job_id)) and self._backing_off(job_id)
            },
            frozen=f"frozen by {frozen.by}: {frozen.reason}" if frozen else "",
            paused=memory.paused or ("the store cannot be written" if "store" in self._ctx.attention else ""),
        )

    def _backing_off(self, job_id: int) -> bool:
        job = self._ctx.memory.scheduler.get(job_id)
        return job is not None and bool(job.gates & Gate.BACKOFF)

    def _dataset(self, name: str) -> DatasetFact:
        known = self._ctx.memory.datasets.get(name)
        if known is None:
            return DatasetFact("is not known; add it with 'gputui dataset add'")
        if known.readiness is None or known.ready or not known.readiness:
            return DatasetFact(known.reason, known.ready, known.expected)
        return DatasetFact(f"{percent(known.readiness)} ({known.reason})", known.ready, known.expected)

    async def _ended(self, job: Job, last: Run | None) -> Reason:
        waited = job.state is JobState.CANCELLED and last is not None and last.end_reason != "cancelled"
        if last is None or last.end_reason is None or waited:  # how an earlier run ended is not why
            return Reason(job.end_reason or str(job.state))
        by, note = await self._who_cancelled(job.id) if last.end_reason == "cancelled" else ("", "")
        tail = await asyncio.to_thread(self._tail, last.run_id)
        facts = EndFacts(
            end_reason="signalled" if last.end_reason == "oom" else last.end_reason,
            exit_code=last.exit_code,
            signal=last.signal,
            error=last.error,
            oom_killed=last.end_reason == "oom",
            log_error=last.error if last.end_reason in {"exited", "signalled"} else "",
            by=by,
            note=note or (last.error if last.end_reason == "lost" else ""),
            time_limit=job.time_limit if last.end_reason == "time_limit" else None,
            xids=self._xids(last),
            foreign=self._foreign(last),
            log_tail=tail,
        )
        reason = explain_end(facts)
        if job.end_reason.startswith("held after"):
            return Reason(job.end_reason, reason.waits_for)
        return reason

    def _xids(self, run: Run) -> list[tuple[str, int]]:
        """What its GPUs reported while it had them, or so soon after that its end may have been the first sign."""
        found = []
        for uuid in run.gpu_uuids:
            entry = self._ctx.memory.gpus.get(uuid)
            if entry is None or entry.xid is None or entry.xid_at is None:
                continue
            if run.granted_at <= entry.xid_at and (run.ended_at is None or entry.xid_at <= run.ended_at + NEAR_ITS_END):
                found.append((f"GPU {entry.label}", entry.xid))
        return found

    def _foreign(self, run: Run) -> list[ForeignHolder]:
        """Others on its GPUs now that were there before it ended."""
        found = []
        for uuid in run.gpu_uuids:
            entry = self._ctx.memory.gpus.get(uuid)
            for process in entry.foreign if entry else ():
                since = entry.held_since.get(process.pid) if entry else None
                if run.ended_at and since and since <= run.ended_at and isinstance(process.memory, int) and entry:
                    who = f"{program(process.command)} ({process.user})"
                    found.append(ForeignHolder(f"GPU {entry.label}", process.memory, who))
        return found

    async def _who_cancelled(self, job_id: int) -> tuple[str, str]:
        rows = await self._ctx.read(lambda session: audit.rows(session, 10, f"job {job_id}"))
        for row in rows:
            if row.act == "job.cancel":
                return row.who, row.reason
        return "", ""

    def _tail(self, run_id: str) -> str:
        try:
            part = logs.read(self._ctx.engine.run_dir(run_id), -TAIL_BYTES, TAIL_BYTES)
        except OSError:
            return ""
        return part.data.decode("utf-8", "replace")


def _holds(job: Job) -> list[str]:
    if job.hold_reason and job.holds & {Hold.USER, Hold.REVIEW}:
        return [job.hold_reason]
    return [f"held: {hold}" for hold in sorted(job.holds)]
