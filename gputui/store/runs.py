"""Runs in the store: the intent before anything starts, what became of it, and what a restart has to look at."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Session, SQLModel, col, select

from gputui.domain.errors import Refused
from gputui.store.tables import Run

_RUN = SQLModel.metadata.tables["run"]
_IN_CHUNK = 500


def insert_run(session: Session, run: Run) -> None:
    """Store a new run. A second run of the same job and attempt breaks a constraint."""
    session.add(run)
    session.flush()


def update_run(session: Session, run_id: str, **columns: Any) -> None:
    """Change columns of one run. Raises `Refused` when there is none of that id."""
    query = sa.update(_RUN).where(_RUN.c.run_id == run_id).values(**columns).returning(_RUN.c.run_id)
    if session.execute(query).first() is None:
        raise Refused("not_found", f"There is no run {run_id}.")


def get_run(session: Session, run_id: str) -> Run:
    """One run as it is in the store now. Raises `Refused` when there is none of that id."""
    run = session.get(Run, run_id, populate_existing=True)
    if run is None:
        raise Refused("not_found", f"There is no run {run_id}.")
    return run


def runs_of(session: Session, job_id: int) -> list[Run]:
    """All runs of a job, the first attempt first."""
    query = select(Run).where(col(Run.job_id) == job_id).order_by(col(Run.attempt))
    return list(session.exec(query.execution_options(populate_existing=True)))


def latest(session: Session, job_ids: Iterable[int]) -> dict[int, Run]:
    """The latest run of each job by the job's number; jobs that never ran are absent."""
    wanted = list(job_ids)
    found: dict[int, Run] = {}
    for start in range(0, len(wanted), _IN_CHUNK):
        part = col(Run.job_id).in_(wanted[start : start + _IN_CHUNK])
        query = select(Run).where(part).order_by(col(Run.attempt)).execution_options(populate_existing=True)
        found.update((run.job_id, run) for run in session.exec(query))
    return found


def open_runs(session: Session, host_id: str | None = None) -> list[Run]:
    """Runs whose GPUs are not released yet, the oldest grant first: what a restart must look at."""
    query = select(Run).where(col(Run.released_at).is_(None))
    if host_id is not None:
        query = query.where(col(Run.host_id) == host_id)
    return list(session.exec(query.order_by(col(Run.granted_at), col(Run.run_id))))


def ended_at(session: Session, run_ids: Iterable[str]) -> dict[str, datetime]:
    """When each of these runs ended; those that have not, or whose GPUs are not proven free, are absent."""
    wanted = list(run_ids)
    found: dict[str, datetime] = {}
    for start in range(0, len(wanted), _IN_CHUNK):
        part = _RUN.c.run_id.in_(wanted[start : start + _IN_CHUNK])
        query = sa.select(_RUN.c.run_id, _RUN.c.ended_at).where(
            part, _RUN.c.ended_at.is_not(None), _RUN.c.released_at.is_not(None)
        )
        found.update((run_id, at) for run_id, at in session.execute(query))
    return found


def release_run(session: Session, run_id: str, at: datetime) -> None:
    """Record that the run's GPUs are proven free. Raises `Refused` when there is none of that id."""
    update_run(session, run_id, released_at=at)
