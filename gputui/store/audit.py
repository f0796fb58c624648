"""The audit log: rows that can only be appended, each with the hash of the one before.

The chain shows edits. It does not show a tail that was cut off (compare the head with one written down elsewhere), and
whoever may rewrite the whole database may rewrite the whole chain: it has no key.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlmodel import Session, SQLModel, col, select

from gputui.store.columns import plain
from gputui.store.tables import Audit

_AUDIT = SQLModel.metadata.tables["audit"]
_HIDDEN = "(hidden)"
_FIRST = ""
"""What stands for the hash before the first row."""
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+(?=@)")


def append(
    session: Session,
    *,
    at: datetime,
    uid: int,
    who: str,
    session_token: str,
    act: str,
    subject: str,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    reason: str = "",
) -> int:
    """Append one row in the caller's transaction; its number. `before` and `after` are JSON, secrets are hidden."""
    head = session.execute(sa.select(_AUDIT.c.seq, _AUDIT.c.hash).order_by(_AUDIT.c.seq.desc()).limit(1)).first()
    seq, prev_hash = (head.seq + 1, head.hash) if head else (1, _FIRST)
    row = {
        "seq": seq,
        "at": at.astimezone(UTC),
        "uid": uid,
        "who": plain(who),
        "session": plain(session_token),
        "act": act,
        "subject": plain(subject),
        "before": _canonical(redact(before)),
        "after": _canonical(redact(after)),
        "reason": plain(_CREDENTIALS.sub(_HIDDEN, reason)),
        "prev_hash": prev_hash,
    }
    session.execute(sa.insert(_AUDIT), [{**row, "hash": _hash(row)}])
    return int(seq)


class Verdict(NamedTuple):
    """What a check of the chain found. `problem` is one sentence, empty when all is well; `head` the last hash."""

    ok: bool
    rows: int
    head: str
    problem: str


def verify(session: Session) -> Verdict:
    """Check every row against its hash, its number and the row before. Stops at the first that does not hold."""
    count, head = 0, _FIRST
    query = sa.select(_AUDIT).order_by(_AUDIT.c.seq).execution_options(yield_per=1000)
    for row in session.execute(query).mappings():
        if row["seq"] != count + 1:
            return Verdict(False, count, head, f"Row {count + 1} of the audit log is missing.")
        if row["prev_hash"] != head:
            return Verdict(False, count, head, f"Row {row['seq']} of the audit log does not follow the one before it.")
        if row["hash"] != _hash({**row}):
            return Verdict(False, count, head, f"Row {row['seq']} of the audit log was changed after it was written.")
        count, head = row["seq"], row["hash"]
    return Verdict(True, count, head, "")


def rows(session: Session, limit: int = 100, subject: str | None = None) -> list[Audit]:
    """The newest rows first, of one subject if given."""
    query = select(Audit)
    if subject is not None:
        query = query.where(col(Audit.subject) == plain(subject))
    return list(session.exec(query.order_by(col(Audit.seq).desc()).limit(limit)))


def loads(text: str | None) -> dict[str, Any] | None:
    """`before` or `after` of a row as values."""
    if text is None:
        return None
    value: dict[str, Any] = json.loads(text)
    return value


def redact(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A copy without secrets: of an `env` only the names, of a URL no credentials."""
    return None if values is None else {key: _redacted(key, value) for key, value in values.items()}


def _redacted(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        if key in {"env", "environment"}:
            return dict.fromkeys(value, _HIDDEN)
        return redact(value)
    if isinstance(value, str):
        return _CREDENTIALS.sub(_HIDDEN, value)
    if isinstance(value, list | tuple):
        return [_redacted(key, item) for item in value]
    return value


def _canonical(values: Mapping[str, Any] | None) -> str | None:
    """One text per value: hashed as stored, so that reading it back cannot change it. ASCII, for lone surrogates."""
    return None if values is None else json.dumps(values, sort_keys=True, separators=(",", ":"))


def _hash(row: Mapping[str, Any]) -> str:
    fields = ("seq", "uid", "who", "session", "act", "subject", "before", "after", "reason", "prev_hash")
    text = json.dumps([row["at"].astimezone(UTC).isoformat(), *(row[field] for field in fields)])
    return hashlib.sha256(text.encode()).hexdigest()
