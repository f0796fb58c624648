"""Jobs that have ended, which only the store holds: which of them, in which order."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlmodel import Session, SQLModel, select

from gputui.domain.job import CLASSES
from gputui.domain.lifecycle import ENDED, JobState
from gputui.store.tables import Job

_JOB = SQLModel.metadata.tables["job"]
_NEWEST = (_JOB.c.ended_at.desc(), _JOB.c.id.desc())
_SORTS: Mapping[str, sa.ColumnElement[Any]] = {
    "id": _JOB.c.id,
    "submitted": _JOB.c.id,
    "name": sa.func.lower(_JOB.c.name),
    "owner": _JOB.c.owner,
    "project": _JOB.c.project,
    "class": sa.case({name: rank for rank, name in enumerate(CLASSES)}, value=_JOB.c.priority_class),
    "state": _JOB.c.state,
    "priority": -_JOB.c.priority,
    "gpus": _JOB.c.gpus,
    "duration": _JOB.c.duration,
    "started": _JOB.c.started_at,
    "ended": _JOB.c.ended_at,
    "elapsed": sa.extract("epoch", _JOB.c.ended_at) - sa.extract("epoch", _JOB.c.started_at),
}


@dataclass(frozen=True, slots=True)
class Which:
    """Which ended jobs, in which order."""

    states: Collection[JobState] = ENDED
    owner: str | None = None
    project: str | None = None
    words: Sequence[str] = ()
    """Each must occur in number, name, owner, project, class or state, whatever its case."""
    invert: bool = False
    """Those in which some word does not occur."""
    sort: str = ""
    """What `_SORTS` names; empty: the newest end first."""
    reverse: bool = False


def page(session: Session, which: Which, offset: int = 0, limit: int = 100) -> list[Job]:
    """These jobs, in order."""
    query = select(Job).where(*_matches(which)).order_by(*_order(which))
    return list(session.exec(query.offset(offset).limit(limit)))


def count(session: Session, which: Which) -> int:
    """How many there are."""
    query = sa.select(sa.func.count()).select_from(_JOB).where(*_matches(which))
    return int(session.execute(query).scalar_one())


def place(session: Session, which: Which, job_id: int) -> int | None:
    """How many of them come before this one; None when it is not among them."""
    if session.execute(sa.select(_JOB.c.id).where(_JOB.c.id == job_id, *_matches(which))).first() is None:
        return None
    number = sa.func.row_number().over(order_by=_order(which)).label("number")
    numbered = sa.select(_JOB.c.id, number).where(*_matches(which)).subquery()
    found = session.execute(sa.select(numbered.c.number).where(numbered.c.id == job_id)).scalar_one()
    return int(found) - 1


def _matches(which: Which) -> list[sa.ColumnElement[bool]]:
    found: list[sa.ColumnElement[bool]] = [_JOB.c.state.in_(ENDED.intersection(which.states))]
    if which.owner is not None:
        found.append(_JOB.c.owner == which.owner)
    if which.project is not None:
        found.append(_JOB.c.project == which.project)
    if which.words:
        text = sa.and_(*(_occurs(word) for word in which.words))
        found.append(sa.not_(text) if which.invert else text)
    return found


def _occurs(word: str) -> sa.ColumnElement[bool]:
    number = sa.literal("#") + sa.cast(_JOB.c.id, sa.Text)
    state = sa.cast(_JOB.c.state, sa.Text)
    places = (number, _JOB.c.name, _JOB.c.owner, _JOB.c.project, _JOB.c.priority_class, state)
    return sa.or_(*(place.icontains(word, autoescape=True) for place in places))


def _order(which: Which) -> list[sa.ColumnElement[Any]]:
    """What is not known comes last, and equals in the order of their numbers; all the other way round in reverse."""
    if not which.sort:
        return [column.element.asc() for column in _NEWEST] if which.reverse else list(_NEWEST)
    column = _SORTS[which.sort]
    order = (column.is_(None), column, _JOB.c.id)
    return [part.desc() if which.reverse else part.asc() for part in order]
