"""Job rows of the protocol: what memory knows, what the store holds, and why each waits."""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlmodel import Session

from gputui.daemon.context import Context
from gputui.daemon.services.why import Why
from gputui.domain.errors import Refused
from gputui.domain.failure import signal_name
from gputui.domain.lifecycle import ENDED, WAITING, JobState
from gputui.domain.reason import Reason
from gputui.protocol import ErrorCode, JobRow, RunRow
from gputui.store import jobs, runs
from gputui.store.tables import Job, Run, RunState

MOST_CACHED = 1000


@dataclass(frozen=True, slots=True)
class Stored:
    """What the store holds of a job."""

    job: Job
    datasets: tuple[str, ...]
    last: Run | None


class Rows:
    """The service. Keeps what the store said of recent rows, by version."""

    def __init__(self, ctx: Context, why: Why) -> None:
        self._ctx = ctx
        self._why = why
        self._cache: OrderedDict[int, Stored] = OrderedDict()

    async def of(self, ids: Sequence[int]) -> list[JobRow]:
        """The rows of these jobs, in this order. Raises `Refused` for one that never was."""
        stored = await self._stored(ids)
        reasons = self._why.waiting(ids, {job_id: one.job for job_id, one in stored.items()})
        return [self._row(stored[job_id], reasons.get(job_id)) for job_id in ids]

    async def show(self, job_id: int) -> JobRow:
        """One job with its runs."""
        (row,) = await self.of([job_id])
        found = await self._ctx.read(lambda session: runs.runs_of(session, job_id))
        row["runs"] = [run_row(run, row["state"]) for run in found]
        return row

    async def why_waiting(self, job_id: int) -> Reason:
        """Why one waiting job waits."""
        stored = await self._stored([job_id])
        return self._why.waiting([job_id], {job_id: stored[job_id].job})[job_id]

    def on_gpus(self, uuids: Collection[str]) -> str:
        """' on GPU 3'."""
        return self._why.on_gpus(uuids)

    async def _stored(self, ids: Iterable[int]) -> Mapping[int, Stored]:
        wanted = list(dict.fromkeys(ids))
        found: dict[int, Stored] = {}
        for job_id in wanted:
            cached = self._cache.get(job_id)
            note = self._ctx.memory.note(job_id)
            if cached is not None and (cached.job.version == note.version if note else self._settled(cached.job)):
                self._cache.move_to_end(job_id)
                found[job_id] = cached
        missing = [job_id for job_id in wanted if job_id not in found]
        if missing:
            fresh = await self._ctx.read(lambda session: _load(session, missing))
            for job_id in missing:
                if job_id not in fresh:
                    raise Refused(ErrorCode.NOT_FOUND, f"There is no job #{job_id}.")
            found.update(fresh)
            self._cache.update(fresh)
            while len(self._cache) > MOST_CACHED:
                self._cache.popitem(last=False)
        return found

    def _settled(self, job: Job) -> bool:
        """Whether a row that was kept of a job that has ended by now is its last."""
        return job.state in ENDED and job.id not in self._ctx.memory.revived

    def _row(self, stored: Stored, reason: Reason | None) -> JobRow:
        memory, job = self._ctx.memory, stored.job
        waiting = memory.scheduler.get(job.id)
        run = memory.run_of.get(job.id)
        note = memory.note(job.id)
        state = note.state if note else job.state
        uuids: tuple[str, ...] = run.gpu_uuids if run else ()
        if not uuids and state in ENDED and stored.last:
            uuids = stored.last.gpu_uuids
        started = run.started_at if run else job.started_at
        return {
            "id": job.id,
            "name": job.name,
            "state": state.value,
            "owner": job.owner,
            "project": job.project,
            "class": job.priority_class,
            "priority": job.priority,
            "position": memory.scheduler.position(job.id) if waiting else None,
            "baseline_position": memory.scheduler.baseline_position(job.id) if waiting else None,
            "readiness": memory.readiness(stored.datasets),
            "gpus": job.gpus,
            "gpu_types": sorted(job.gpu_types),
            "gpu_memory": job.gpu_memory or None,
            "duration": job.duration,
            "submitted_at": job.submitted_at.isoformat(),
            "expected_start": _iso(reason.expected) if reason else None,
            "reason": reason.sentence if reason else self._active_or_ended(state, uuids, job),
            "argv": [_text(word) for word in job.argv],
            "cwd": _text(job.cwd),
            "holds": sorted(hold.value for hold in job.holds),
            "share": job.share,
            "datasets": list(stored.datasets),
            "started_at": _iso(started),
            "ended_at": _iso(job.ended_at),
            "elapsed": self._elapsed(job, state),
            "gpu_uuids": list(uuids),
            "moved": waiting is not None and waiting.move_key is not None,
            "version": note.version if note else job.version,
            "attempt": job.attempt,
            "exit_code": job.exit_code if state in ENDED else None,
        }

    def _active_or_ended(self, state: JobState, uuids: Collection[str], job: Job) -> str:
        if state in ENDED or state in WAITING:
            return job.end_reason
        run = self._ctx.memory.run_of.get(job.id)
        why = f": {run.intent.value.replace('_', ' ')}" if run and run.intent else ""
        return f"{state}{self._why.on_gpus(uuids)}{why}"

    def _elapsed(self, job: Job, state: JobState) -> float | None:
        run = self._ctx.memory.run_of.get(job.id)
        if run is not None:
            return max(0.0, self._ctx.clock.monotonic() - run.began_at) if run.began_at is not None else None
        if state in ENDED and job.started_at and job.ended_at:
            return max(0.0, (job.ended_at - job.started_at).total_seconds())
        return None


def run_row(run: Run, job_state: str) -> RunRow:
    """One run; one under way is in its job's state."""
    state = run.end_reason or "ended" if run.state is RunState.ENDED else job_state
    return {
        "attempt": run.attempt,
        "state": state,
        "gpu_uuids": list(run.gpu_uuids),
        "started_at": _iso(run.started_at),
        "ended_at": _iso(run.ended_at),
        "exit_code": run.exit_code,
        "signal": signal_name(run.signal) if run.signal is not None else None,
        "end_reason": run.end_reason if run.state is RunState.ENDED else None,
        "resumed_from": run.resumed_from,
        "checkpoint": run.checkpoint,
        "log": run.log_dir,
        "run_id": run.run_id,
    }


def _load(session: Session, ids: Sequence[int]) -> dict[int, Stored]:
    found = jobs.get_many(session, ids)
    inputs = jobs.datasets_of(session, ids)
    last = runs.latest(session, [job.id for job in found.values() if job.attempt])
    return {job_id: Stored(job, inputs.get(job_id, ()), last.get(job_id)) for job_id, job in found.items()}


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _iso(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
