"""What is written of a run: its beginning, its end, and what becomes of its job. For use inside a transaction."""

import os
import time
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session

from gputui.daemon.memory import ActiveRun
from gputui.daemon.services.outcome import Outcome, Past, decide
from gputui.domain.job import Demand
from gputui.domain.lifecycle import ENDED, JobState
from gputui.engines.engine import Began, EndReason, RunEnd
from gputui.store import jobs, runs
from gputui.store.tables import Job, Run, RunState

_TICKS = os.sysconf("SC_CLK_TCK")


def active_run(job: Job, run: Run, monotonic: float) -> ActiveRun:
    """A run that was granted, as memory keeps it."""
    return ActiveRun(
        run_id=run.run_id,
        job_id=job.id,
        attempt=run.attempt,
        gpu_uuids=run.gpu_uuids,
        demand=Demand(job.gpus, frozenset(job.gpu_types), job.gpu_memory, job.share),
        grace=job.grace,
        time_limit=job.time_limit,
        interactive=job.interactive,
        granted_at=run.granted_at,
        granted_mono=monotonic,
        memory_at_grant=run.memory_at_grant,
        started_at=run.started_at,
        duration=job.duration,
    )


def store_began(session: Session, run: ActiveRun, began: Began, now: datetime, *, final: bool) -> None:
    """Its program runs; `final`: its end is known too, and is stored next."""
    started = now - timedelta(seconds=age(began.start_time))
    state: dict[str, Any] = {} if run.intent else {"state": RunState.RUNNING}
    runs.update_run(
        session, run.run_id, pid=began.pid, start_time=began.start_time, boot_id=began.boot_id, started_at=started,
        **state,
    )  # fmt: skip
    columns: dict[str, Any] = {} if run.intent or final else {"state": JobState.RUNNING}
    jobs.update_job(session, run.job_id, None, started_at=started, **columns)


def store_end(session: Session, run: ActiveRun, end: RunEnd, now: datetime) -> Outcome:
    """It is over: what becomes of its job."""
    past = [
        Past(one.end_reason or "", one.exit_code, one.signal, _lasted(one))
        for one in runs.runs_of(session, run.job_id)
        if one.attempt < run.attempt
    ]
    job = jobs.get(session, run.job_id)
    outcome = decide(end, run.intent, job.retries, past)
    at = end.ended_at or now
    started = end.started_at or run.started_at
    columns: dict[str, Any] = {} if started is None else {"started_at": started}
    if not holds_gpus(run, end):
        columns["released_at"] = at
    runs.update_run(
        session, run.run_id, state=RunState.ENDED, ended_at=at, exit_code=end.exit_code, signal=end.signal,
        end_reason=outcome.end_reason, error=end.error or end.log_error, **columns,
    )  # fmt: skip
    over = outcome.state in ENDED
    jobs.update_job(
        session, run.job_id, state=outcome.state, end_reason=outcome.sentence, exit_code=end.exit_code,
        ended_at=at if over else None, started_at=started if over else None, holds=outcome.holds,
        hold_reason=outcome.sentence if outcome.holds else "",
        not_before=now + timedelta(seconds=outcome.delay) if outcome.delay else None,
    )  # fmt: skip
    return outcome


def holds_gpus(run: ActiveRun, end: RunEnd) -> bool:
    """Whether its GPUs must be proven free: not when it has none, or never executed anything."""
    return bool(run.gpu_uuids) and end.reason not in {EndReason.REVOKED, EndReason.NOEXEC}


def age(start_time: int) -> float:
    """Seconds since a process started, by the clock its start time is on."""
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - start_time / _TICKS)


def _lasted(run: Run) -> float | None:
    if run.started_at is None or run.ended_at is None:
        return None
    return max(0.0, (run.ended_at - run.started_at).total_seconds())
