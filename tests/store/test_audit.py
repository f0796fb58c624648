"""The audit log only grows, and its chain shows what was done to it behind the daemon's back."""

import hashlib
import json
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from gputui.store import audit
from gputui.store.db import Store
from tests.store.conftest import AT


def append(store: Store, **changes: Any) -> int:
    values: dict[str, Any] = {"at": AT, "uid": 1000, "who": "ann", "session_token": "t", "act": "job.move"}
    values |= {"subject": "job 7", "before": {"position": 9}, "after": {"position": 1}, "reason": "urgent"}
    with store.write() as session:
        return audit.append(session, **{**values, **changes})


def verdict(store: Store) -> audit.Verdict:
    with store.read() as session:
        return audit.verify(session)


def tamper(path: Path, *statements: str) -> None:
    """Change the file as someone with an SQLite shell would, guards taken down first."""
    other = sqlite3.connect(path)
    for name in ("audit_no_update", "audit_no_delete", "audit_in_sequence"):
        other.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        assert other.execute(statement).rowcount == 1
    other.commit()
    other.close()


def test_an_empty_log_is_whole(store: Store) -> None:
    assert verdict(store) == (True, 0, "", "")


def test_rows_say_who_before_and_after(store: Store) -> None:
    assert [append(store), append(store, subject="GPU-a", before=None, after={}), append(store, at=AT)] == [1, 2, 3]
    with store.read() as session:
        third, second, first = audit.rows(session)
        assert [row.seq for row in audit.rows(session, limit=1)] == [3]
        assert [row.seq for row in audit.rows(session, subject="job 7")] == [3, 1]
    assert (first.at, first.uid, first.who, first.session, first.act) == (AT, 1000, "ann", "t", "job.move")
    assert (audit.loads(first.before), audit.loads(first.after)) == ({"position": 9}, {"position": 1})
    assert (audit.loads(second.before), audit.loads(second.after)) == (None, {})
    assert (first.prev_hash, second.prev_hash, third.prev_hash) == ("", first.hash, second.hash)
    assert verdict(store) == (True, 3, third.hash, "")


def test_the_hash_can_be_checked_by_anyone(store: Store) -> None:
    append(store)
    text = json.dumps(
        [
            "2026-11-30T12:00:00+00:00", 1, 1000, "ann", "t", "job.move", "job 7",
            '{"position":9}', '{"position":1}', "urgent", "",
        ]
    )  # fmt: skip
    assert verdict(store).head == hashlib.sha256(text.encode()).hexdigest()


def test_any_text_and_zone_keeps_the_chain_whole(store: Store) -> None:
    append(store, who="\udcff", subject="\ud800", reason="caf\u00e9 \U0001f600", after={"argv": ["\udcff", 0.1, 2**70]})
    append(store, at=(AT + timedelta(microseconds=5)).astimezone())
    assert verdict(store)[:2] == (True, 2)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET who = 'bob' WHERE seq = 1",
        "DELETE FROM audit WHERE seq = 1",
        "INSERT OR REPLACE INTO audit SELECT seq, at, uid, 'bob', session, act, subject, before, after, reason, "
        "prev_hash, hash FROM audit WHERE seq = 1",
        "INSERT INTO audit SELECT seq + 5, at, uid, 'bob', session, act, subject, before, after, reason, "
        "prev_hash, hash FROM audit WHERE seq = 2",
        "REPLACE INTO audit (seq, at, uid, who, session, act, subject, reason, prev_hash, hash) "
        "VALUES (2, '', 1, 'bob', '', '', '', '', '', '')",
    ],
)
def test_the_log_only_grows(store: Store, statement: str) -> None:
    append(store)
    append(store)
    with pytest.raises(DBAPIError, match="the audit log only grows"), store.write() as session:
        session.connection().exec_driver_sql(statement)
    with store.read() as session:
        assert [row.who for row in audit.rows(session)] == ["ann", "ann"]


@pytest.mark.parametrize(
    ("statement", "rows", "problem"),
    [
        ("UPDATE audit SET who = 'bob' WHERE seq = 2", 1, "Row 2 of the audit log was changed after it was written."),
        ("UPDATE audit SET after = NULL WHERE seq = 3", 2, "Row 3 of the audit log was changed after it was written."),
        ("DELETE FROM audit WHERE seq = 2", 1, "Row 2 of the audit log is missing."),
        ("DELETE FROM audit WHERE seq = 1", 0, "Row 1 of the audit log is missing."),
        (
            "UPDATE audit SET prev_hash = '' WHERE seq = 3",
            2,
            "Row 3 of the audit log does not follow the one before it.",
        ),
    ],
)
def test_the_chain_shows_what_was_done_to_it(store: Store, path: Path, statement: str, rows: int, problem: str) -> None:
    for _ in range(4):
        append(store)
    tamper(path, statement)
    found = verdict(store)
    assert (found.ok, found.rows, found.problem) == (False, rows, problem)


def test_a_cut_tail_shows_in_the_head_alone(store: Store, path: Path) -> None:
    append(store)
    append(store)
    before = verdict(store)
    tamper(path, "DELETE FROM audit WHERE seq = 2")
    after = verdict(store)
    assert after.ok
    assert (before.rows, after.rows) == (2, 1)
    assert before.head != after.head


def test_a_row_goes_with_its_transaction(store: Store) -> None:
    def failing_act() -> None:
        with store.write() as session:
            audit.append(session, at=AT, uid=1, who="ann", session_token="", act="x", subject="y")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing_act()
    assert append(store) == 1


def test_secrets_are_not_written(store: Store, path: Path) -> None:
    append(
        store,
        after={
            "env": {"TOKEN": "s3cret"},
            "target": "json://ann:s3cret@host/x",
            "more": [{"environment": {"KEY": "s3cret"}}, "http://s3cret@host"],
            "name": "a@b",
        },
        reason="see https://s3cret@host",
    )
    with store.read() as session:
        (row,) = audit.rows(session)
    assert audit.loads(row.after) == {
        "env": {"TOKEN": "(hidden)"},
        "target": "json://(hidden)@host/x",
        "more": [{"environment": {"KEY": "(hidden)"}}, "http://(hidden)@host"],
        "name": "a@b",
    }
    assert row.reason == "see https://(hidden)@host"
    assert all(b"s3cret" not in file.read_bytes() for file in path.parent.iterdir())


def test_a_chain_goes_on_after_reopening(store: Store, path: Path) -> None:
    append(store)
    with Store.open(path, "host-2") as other:
        other.take_leadership(AT)
        assert append(other) == 2
        assert verdict(other)[:2] == (True, 2)
