"""Run by Alembic: applies migrations on the connection that `gputui.store.migrate` hands over."""

from alembic import context
from sqlmodel import SQLModel

import gputui.store.tables  # noqa: F401 - fills the metadata
from gputui.store.guards import put_guards

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=SQLModel.metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
context.run_migrations()
# a batch migration recreates its table without the triggers
if connection.dialect.has_table(connection, "audit"):
    put_guards(connection)
