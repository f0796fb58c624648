"""Migrations: from nothing to the tables as the program sees them, back, and what a batch migration drops."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable
from sqlmodel import SQLModel

from gputui.store import migrate
from gputui.store.db import Store
from tests.store.conftest import HOST

TABLES = {
    "audit", "dataset", "environment", "gpu", "gpu_minute", "host", "job", "job_dataset", "leader", "meta", "run",
    "setting_version",
}  # fmt: skip
BATCH = """
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0002", "0001", None, None

def upgrade():
    with op.batch_alter_table("audit", recreate="always") as batch:
        batch.alter_column("act", type_=sa.Text())
"""


@pytest.fixture
def connection(path: Path) -> Iterator[sa.Connection]:
    Store.open(path, HOST).close()
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.connect() as opened:
        yield opened
    engine.dispose()


def triggers(connection: sa.Connection) -> set[str]:
    return set(connection.execute(sa.text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).scalars())


def test_the_schema_is_what_the_tables_say(connection: sa.Connection) -> None:
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    assert compare_metadata(context, SQLModel.metadata) == []
    assert set(sa.inspect(connection).get_table_names()) == TABLES | {"alembic_version"}


def test_down_to_nothing_and_up_again(connection: sa.Connection) -> None:
    command.downgrade(migrate.config(connection), "base")
    assert sa.inspect(connection).get_table_names() == ["alembic_version"]
    assert triggers(connection) == set()
    command.upgrade(migrate.config(connection), "head")
    sa.inspect(connection).clear_cache()
    assert set(sa.inspect(connection).get_table_names()) == TABLES | {"alembic_version"}
    assert len(triggers(connection)) == 3


@pytest.mark.parametrize("table", sorted(TABLES))
def test_no_table_needs_sqlite(table: str) -> None:
    assert str(CreateTable(SQLModel.metadata.tables[table]).compile(dialect=postgresql.dialect())).strip()


def test_there_is_one_line_of_revisions_and_every_step_goes_back(connection: sa.Connection) -> None:
    script = ScriptDirectory.from_config(migrate.config(connection))
    assert [revision.revision for revision in script.walk_revisions()][::-1] == migrate.revisions()
    assert script.get_heads() == migrate.revisions()[-1:]
    for revision in script.walk_revisions():
        assert callable(revision.module.upgrade)
        assert callable(revision.module.downgrade)


def test_a_batch_migration_does_not_lose_the_guards(connection: sa.Connection, home: Path) -> None:
    folder = home / "migrations"
    shutil.copytree(Path(migrate.__file__).parent / "migrations", folder)
    (folder / "versions" / "0002_batch.py").write_text(BATCH)
    before = triggers(connection)
    settings = migrate.config(connection)
    settings.set_main_option("script_location", str(folder))
    command.upgrade(settings, "head")
    assert triggers(connection) == before == {"audit_no_update", "audit_no_delete", "audit_in_sequence"}


def test_a_failing_migration_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_connection: sa.Connection) -> None:
        raise RuntimeError("halfway")

    with monkeypatch.context() as patch:
        patch.setattr("gputui.store.guards.put_guards", fail)
        with pytest.raises(RuntimeError, match="halfway"):
            Store.open(path, HOST)
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        assert sa.inspect(connection).get_table_names() == []
    engine.dispose()
    Store.open(path, HOST).close()


def test_a_store_that_is_up_to_date_opens_without_alembic(path: Path) -> None:
    Store.open(path, HOST).close()
    code = "import sys; from gputui.store.db import Store; Store.open(sys.argv[1], 'h').close()"
    code += "; print('alembic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_new_revision_imports_what_its_columns_need(connection: sa.Connection, home: Path) -> None:
    folder = home / "migrations"
    shutil.copytree(Path(migrate.__file__).parent / "migrations", folder)
    settings = migrate.config(connection)
    settings.set_main_option("script_location", str(folder))
    made = command.revision(settings, message="more", rev_id="0002", autogenerate=True)
    text = Path(made.path).read_text()
    assert "import sqlmodel\n" in text
    compile(text, made.path, "exec")
    command.upgrade(settings, "head")
    assert MigrationContext.configure(connection).get_current_revision() == "0002"
