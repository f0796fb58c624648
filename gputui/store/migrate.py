"""Bringing the schema up to date with Alembic, without its command line or a configuration file.

Alembic is imported only when there is something to apply: it costs a daemon's start 0.1 s and 11 MiB.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from gputui.store.problems import StoreProblem

if TYPE_CHECKING:
    from alembic.config import Config

_FOLDER = Path(__file__).parent / "migrations"
_VERSION = sa.table("alembic_version", sa.column("version_num"))


def revisions() -> list[str]:
    """The revisions of this program, oldest first. A file is named `<revision>_<what>.py`, revisions are numbered."""
    return sorted(file.name.partition("_")[0] for file in (_FOLDER / "versions").glob("[0-9]*_*.py"))


def config(connection: Connection) -> "Config":
    """Alembic's settings for the migrations of this package, to run on `connection`."""
    from alembic.config import Config

    settings = Config()
    settings.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    settings.attributes["connection"] = connection
    return settings


def to_head(engine: Engine, where: str) -> None:
    """Apply what is missing, all or nothing. Raises `StoreProblem` for a newer store or another program's database."""
    known = revisions()
    with engine.connect() as connection:
        tables = sa.inspect(connection).get_table_names()
        current = None
        if _VERSION.name in tables:
            current = connection.execute(sa.select(_VERSION.c.version_num)).scalar_one_or_none()
        if current is None and set(tables) - {_VERSION.name}:
            raise StoreProblem(f"{where} is a database, but not a gputui store.", "Name another file or database.")
        if current is not None and current not in known:
            raise StoreProblem(
                f"The store {where} was made by a newer gputui (schema {current}).",
                "Install that version again, or restore the backup made before it.",
            )
        if current != known[-1]:
            connection.rollback()
            _upgrade(connection)


def _upgrade(connection: Connection) -> None:
    from alembic import command

    sqlite = connection.dialect.name == "sqlite"
    if sqlite:  # a batch migration recreates tables that others refer to; only outside a transaction can this be set
        _pragma(connection, "foreign_keys=OFF")
    try:
        with connection.begin():
            command.upgrade(config(connection), "head")
            if sqlite and connection.exec_driver_sql("PRAGMA foreign_key_check").first() is not None:
                raise StoreProblem(
                    "The store has rows that refer to rows that are gone; it was left as it was.",
                    "Restore it from a backup.",
                )
    finally:
        if sqlite:
            _pragma(connection, "foreign_keys=ON")


def _pragma(connection: Connection, text: str) -> None:
    driver = connection.connection.dbapi_connection
    assert driver is not None
    driver.cursor().execute(f"PRAGMA {text}")
