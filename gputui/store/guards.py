"""Triggers that let the audit log only grow. A batch migration drops them, so every migration puts them back."""

from sqlalchemy import Connection

_SQLITE = (
    """CREATE TRIGGER IF NOT EXISTS audit_no_update BEFORE UPDATE ON audit
    BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END""",
    """CREATE TRIGGER IF NOT EXISTS audit_no_delete BEFORE DELETE ON audit
    BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END""",
    # INSERT OR REPLACE deletes the old row without firing the trigger above
    """CREATE TRIGGER IF NOT EXISTS audit_in_sequence BEFORE INSERT ON audit
    WHEN NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM audit)
    BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END""",
)

_POSTGRESQL = (
    """CREATE OR REPLACE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the audit log only grows'; END $$""",
    """CREATE OR REPLACE FUNCTION audit_in_sequence() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN
      IF NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM audit) THEN
        RAISE EXCEPTION 'the audit log only grows';
      END IF;
      RETURN NEW;
    END $$""",
    """CREATE OR REPLACE TRIGGER audit_no_update BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION audit_refuse()""",
    """CREATE OR REPLACE TRIGGER audit_no_truncate BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse()""",
    """CREATE OR REPLACE TRIGGER audit_in_sequence BEFORE INSERT ON audit
    FOR EACH ROW EXECUTE FUNCTION audit_in_sequence()""",
)


def put_guards(connection: Connection) -> None:
    """Create whichever trigger of the audit table is missing."""
    statements = _POSTGRESQL if connection.dialect.name == "postgresql" else _SQLITE
    for statement in statements:
        connection.exec_driver_sql(statement)
