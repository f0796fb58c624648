"""Why the store can't be used, for people: one sentence and what to do about it."""

import sqlite3
from pathlib import Path

from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError


class StoreProblem(Exception):  # noqa: N818 - the daemon goes on without the store
    """The store can't be used now. Running jobs are left alone; nothing was changed."""

    def __init__(self, sentence: str, remedy: str) -> None:
        self.sentence = sentence
        self.remedy = remedy
        super().__init__(f"{sentence} {remedy}")


class Deposed(StoreProblem):
    """Another daemon took over: this one may not write again."""

    def __init__(self, ours: int, theirs: int) -> None:
        super().__init__(
            f"Another daemon took over the store (epoch {theirs}; this one had {ours}).",
            "This daemon changes nothing any more; stop it.",
        )


_SQLITE = (
    ("SQLITE_FULL", "The disk that holds the store is full.", "Free some space there; the daemon goes on by itself."),
    ("SQLITE_BUSY", "The store is locked by another program.", "Close the program that has it open."),
    ("SQLITE_LOCKED", "The store is locked by another program.", "Close the program that has it open."),
    ("SQLITE_CORRUPT", "The store is damaged.", "Stop the daemon and restore the store from a backup."),
    ("SQLITE_NOTADB", "The store is not an SQLite database.", "Stop the daemon and restore the store from a backup."),
    ("SQLITE_READONLY", "The store can't be written.", "Check the owner and the mode of the file and its folder."),
    ("SQLITE_CANTOPEN", "The store can't be opened.", "Check the owner and the mode of the file and its folder."),
    ("SQLITE_IOERR", "The disk that holds the store failed.", "Check the disk, its mount and its free space."),
    ("SQLITE_PERM", "The store can't be opened.", "Check the owner and the mode of the file and its folder."),
)


def explain(error: DBAPIError, where: str) -> StoreProblem | None:
    """The problem behind a database error, or None when it is a fault of the program (a broken constraint)."""
    if isinstance(error.orig, sqlite3.Error):
        name = str(getattr(error.orig, "sqlite_errorname", ""))
        for prefix, sentence, remedy in _SQLITE:
            if name.startswith(prefix):
                return StoreProblem(f"{sentence} ({where})", remedy)
        return None
    if isinstance(error, OperationalError) and not isinstance(error, IntegrityError):
        return StoreProblem(
            f"The database does not answer. ({where})", "Check that it runs and that its address is right."
        )
    return None


def lost(path: Path, marker: Path) -> StoreProblem:
    """A store was here before and is not any more."""
    return StoreProblem(
        f"The store {path} is gone or empty, although there was one; jobs may be running.",
        f"Put it back from a backup, or remove {marker} to begin with an empty queue.",
    )


def outdated(path: Path, marker: Path) -> StoreProblem:
    """The store was newer before: what it calls queued may have run since."""
    return StoreProblem(
        f"The store {path} is an older copy than the one that was there; its jobs may have run since, or be running.",
        f"Put the newer one back, or remove {marker} to go on with this one.",
    )
