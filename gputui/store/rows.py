"""Changes of one row that count its version, so that a stale act is refused instead of undoing someone else's."""

from typing import Any

import sqlalchemy as sa
from sqlmodel import Session

from gputui.domain.errors import Refused


def change(
    session: Session,
    *,
    table: sa.Table,
    key: sa.ColumnElement[bool],
    what: str,
    expect_version: int | None,
    columns: dict[str, Any],
) -> int:
    """Set `columns` of the row that `key` names, in a table with a `version`; the new version.

    Raises `Refused`: `not_found`, or `changed` when the row's version is not `expect_version`.
    """
    query = sa.update(table).where(key).values(**columns, version=table.c.version + 1).returning(table.c.version)
    if expect_version is not None:
        query = query.where(table.c.version == expect_version)
    version = session.execute(query).scalar_one_or_none()
    if version is None:
        if session.execute(sa.select(sa.literal(1)).where(key)).first() is None:
            raise Refused("not_found", f"There is no {what}.")
        raise Refused("changed", f"{what[0].upper()}{what[1:]} changed since it was shown; look at it again.")
    return int(version)
