"""Datasets in the store: where they are, what is expected of them, what the last probe saw."""

from typing import Any

import sqlalchemy as sa
from sqlmodel import Session, SQLModel, col, select

from gputui.domain.errors import Refused
from gputui.domain.lifecycle import WAITING
from gputui.store import rows
from gputui.store.tables import Dataset

_DATASET = SQLModel.metadata.tables["dataset"]
_JOB = SQLModel.metadata.tables["job"]
_JOB_DATASET = SQLModel.metadata.tables["job_dataset"]


def insert_dataset(session: Session, dataset: Dataset) -> None:
    """Store a new dataset. Raises `Refused` when the name is taken."""
    if session.get(Dataset, dataset.name) is not None:
        raise Refused("wrong_state", f"There is a dataset {dataset.name} already.")
    session.add(dataset)
    session.flush()


def get_dataset(session: Session, name: str) -> Dataset:
    """One dataset as it is in the store now. Raises `Refused` when there is none of that name."""
    dataset = session.get(Dataset, name, populate_existing=True)
    if dataset is None:
        raise Refused("not_found", f"There is no dataset {name}.")
    return dataset


def all_datasets(session: Session) -> list[Dataset]:
    """Every dataset, by name."""
    return list(session.exec(select(Dataset).order_by(col(Dataset.name))))


def update_dataset(session: Session, name: str, expect_version: int | None = None, **columns: Any) -> int:
    """Change columns; the new version. Raises `Refused`: `not_found`, or `changed` as `jobs.update_job` does."""
    return rows.change(
        session,
        table=_DATASET,
        key=_DATASET.c.name == name,
        what=f"dataset {name}",
        expect_version=expect_version,
        columns=columns,
    )


def delete_dataset(session: Session, name: str) -> None:
    """Remove a dataset; jobs keep its name. Raises `Refused` when there is none, or waiting jobs want it."""
    dataset = get_dataset(session, name)
    waiting = waiting_jobs(session).get(name, 0)
    if waiting:
        jobs = "1 waiting job needs" if waiting == 1 else f"{waiting} waiting jobs need"
        raise Refused("wrong_state", f"Dataset {name} stays: {jobs} it.")
    session.delete(dataset)
    session.flush()


def waiting_jobs(session: Session) -> dict[str, int]:
    """How many waiting jobs name each dataset; those that none names are absent."""
    query = (
        sa.select(_JOB_DATASET.c.dataset, sa.func.count())
        .join(_JOB, _JOB.c.id == _JOB_DATASET.c.job_id)
        .where(_JOB.c.state.in_(WAITING))
        .group_by(_JOB_DATASET.c.dataset)
    )
    return dict(session.execute(query).all())
