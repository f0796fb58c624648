"""Bringing the schema up to date with Alembic, without its command line or a configuration file."""

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection, Engine

from gputui.store.problems import StoreProblem

_FOLDER = Path(__file__).parent / "migrations"


def config(connection: Connection | None = None) -> Config:
    """Alembic's settings for the migrations of this package, to run on `connection`."""
    settings = Config()
    settings.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    settings.attributes["connection"] = connection
    return settings


def to_head(engine: Engine, where: str) -> None:
    """Apply what is missing, all or nothing. Raises `StoreProblem` for a newer store or another program's database."""
    with engine.connect() as connection:
        script = ScriptDirectory.from_config(config())
        current = MigrationContext.configure(connection).get_current_revision()
        known = {revision.revision for revision in script.walk_revisions()}
        if current is None and sa.inspect(connection).get_table_names():
            raise StoreProblem(f"{where} is a database, but not a gputui store.", "Name another file or database.")
        if current is not None and current not in known:
            raise StoreProblem(
                f"The store {where} was made by a newer gputui (schema {current}).",
                "Install that version again, or restore the backup made before it.",
            )
        if current == script.get_current_head():
            return
        connection.rollback()
        _upgrade(connection)


def _upgrade(connection: Connection) -> None:
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
