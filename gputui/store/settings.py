"""Settings that acts change (the freeze among them): every version is kept, the highest is in force."""

from datetime import datetime
from typing import Any

from sqlmodel import Session, col, select

from gputui.store.tables import SettingVersion


def put(session: Session, key: str, value: Any, *, at: datetime, uid: int, who: str) -> int:
    """Store a new version of a setting (any JSON value; None: not set); its number, from 1."""
    newest = _newest(session, key)
    version = 1 if newest is None else newest.version + 1
    session.add(SettingVersion(key=key, version=version, value=value, at=at, uid=uid, who=who))
    session.flush()
    return version


def current(session: Session, key: str) -> Any:
    """The value in force, None when it was never set or was taken back."""
    newest = _newest(session, key)
    return None if newest is None else newest.value


def history(session: Session, key: str) -> list[SettingVersion]:
    """Every version, newest first."""
    query = select(SettingVersion).where(col(SettingVersion.key) == key).order_by(col(SettingVersion.version).desc())
    return list(session.exec(query))


def _newest(session: Session, key: str) -> SettingVersion | None:
    query = select(SettingVersion).where(col(SettingVersion.key) == key).order_by(col(SettingVersion.version).desc())
    return session.exec(query.limit(1)).first()
