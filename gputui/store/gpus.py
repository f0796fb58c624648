"""GPUs in the store: those seen, their cordons, and a month of minutes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlmodel import Session, SQLModel, col, select

from gputui.domain.errors import Refused
from gputui.store.tables import Gpu, GpuMinute

KEEP_MINUTES = timedelta(days=30)

_GPU = SQLModel.metadata.tables["gpu"]
_MINUTE = SQLModel.metadata.tables["gpu_minute"]


@dataclass(frozen=True, slots=True)
class SeenGpu:
    """A GPU as the driver names it now. Memory in bytes; None is unknown and leaves what was known."""

    uuid: str
    index: int
    name: str
    type: str
    memory_total: int | None
    mig_parent: str = ""


def see(session: Session, seen: Sequence[SeenGpu], *, host_id: str, at: datetime) -> None:
    """Remember these GPUs, and that they were there at `at`. Cordons and all else stay as they were."""
    known = {gpu.uuid: gpu for gpu in session.exec(select(Gpu).where(col(Gpu.host_id) == host_id))}
    for one in seen:
        gpu = known.get(one.uuid)
        if gpu is None:
            gpu = Gpu(uuid=one.uuid, host_id=host_id, index=one.index, type=one.type, first_seen=at, last_seen=at)
            session.add(gpu)
        gpu.index, gpu.name, gpu.type, gpu.mig_parent, gpu.last_seen = one.index, one.name, one.type, one.mig_parent, at
        if one.memory_total is not None:
            gpu.memory_total = one.memory_total
    session.flush()


def all_gpus(session: Session, host_id: str) -> list[Gpu]:
    """Every GPU ever seen on this host, by index."""
    query = select(Gpu).where(col(Gpu.host_id) == host_id).order_by(col(Gpu.index), col(Gpu.uuid))
    return list(session.exec(query.execution_options(populate_existing=True)))


def get_gpu(session: Session, uuid: str) -> Gpu:
    """One GPU as it is in the store now. Raises `Refused` when it was never seen."""
    gpu = session.get(Gpu, uuid, populate_existing=True)
    if gpu is None:
        raise Refused("not_found", f"There is no GPU {uuid}.")
    return gpu


def update_gpu(session: Session, uuid: str, **columns: Any) -> None:
    """Change columns of one GPU. Raises `Refused` when it was never seen."""
    query = sa.update(_GPU).where(_GPU.c.uuid == uuid).values(**columns).returning(_GPU.c.uuid)
    if session.execute(query).first() is None:
        raise Refused("not_found", f"There is no GPU {uuid}.")


def cordon(
    session: Session, uuid: str, *, reason: str, by: str, since: datetime, until: datetime | None, drain: bool
) -> None:
    """Take no new run on a GPU until `until` (None: until someone lifts it)."""
    update_gpu(
        session,
        uuid,
        cordon_reason=reason,
        cordon_by=by,
        cordon_since=since,
        cordon_until=until,
        drain=drain,
    )


def uncordon(session: Session, uuid: str) -> None:
    """Lift a cordon."""
    update_gpu(session, uuid, cordon_reason=None, cordon_by="", cordon_since=None, cordon_until=None, drain=False)


def insert_minutes(session: Session, minutes: Sequence[GpuMinute]) -> None:
    """Store roll-ups; one for a minute that is there already (a restart within it) takes its place."""
    if not minutes:
        return
    connection = session.connection()
    same = (_MINUTE.c.gpu_uuid == sa.bindparam("uuid")) & (_MINUTE.c.minute == sa.bindparam("at"))
    connection.execute(sa.delete(_MINUTE).where(same), [{"uuid": row.gpu_uuid, "at": row.minute} for row in minutes])
    connection.execute(sa.insert(_MINUTE), [row.model_dump() for row in minutes])


def prune_minutes(session: Session, now: datetime, keep: timedelta = KEEP_MINUTES) -> int:
    """Delete roll-ups older than `keep`; how many went."""
    gone = session.connection().execute(sa.delete(_MINUTE).where(_MINUTE.c.minute < now - keep))
    return gone.rowcount


def minutes(session: Session, uuid: str, since: datetime, until: datetime) -> list[GpuMinute]:
    """Roll-ups of one GPU from `since` up to before `until`, oldest first. Minutes nobody saw are absent."""
    query = (
        select(GpuMinute)
        .where(col(GpuMinute.gpu_uuid) == uuid, col(GpuMinute.minute) >= since, col(GpuMinute.minute) < until)
        .order_by(col(GpuMinute.minute))
    )
    return list(session.exec(query))
