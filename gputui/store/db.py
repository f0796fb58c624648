"""Opening the store, and its transactions: one writer that checks its epoch, readers beside it.

SQLite by default (WAL, full sync, foreign keys), another database by URL. The daemon is the only writer.
"""

import contextlib
import os
import platform
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlmodel import Session, SQLModel

from gputui.filesystem import MOUNTINFO, network_filesystem
from gputui.store import migrate
from gputui.store.problems import Deposed, StoreProblem, explain, lost, outdated
from gputui.store.tables import Host, Leader

BUSY_TIMEOUT_MS = 5000
LONGEST_PATH = 500
"""Bytes. SQLite stops at 512, with what it appends for its journals."""
MARKER_SUFFIX = ".exists"
"""Beside the store: a file that says a store was here and how far it had come, so that its loss is noticed."""
_EPOCH_WORD = "Epoch: "


class Store:
    """An open store. `write()` is serialised among threads and not reentrant; `read()` may run beside it."""

    def __init__(self, writer: Engine, reader: Engine, host_id: str, where: str, path: Path | None) -> None:
        self.host_id = host_id
        self.where = where
        """What people may see: the path, or the URL without its password."""
        self.path = path
        self.epoch = 0
        """0 until `take_leadership`."""
        self._identity = _identity(path) if path else None
        self._writer = writer
        self._reader = reader
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path_or_url: Path | str, host_id: str, *, mountinfo: Path = MOUNTINFO) -> "Store":
        """Open the store, make it when there never was one, and bring its schema up to date.

        Raises `StoreProblem`: on a network file system, gone although it was there, damaged, newer than this program,
        not gputui's, or not reachable.
        """
        url = _url(path_or_url)
        where = url.render_as_string(hide_password=True)
        if url.get_backend_name() != "sqlite":
            return cls._connect(url, host_id, where, None)
        if not url.database or url.database == ":memory:":
            raise StoreProblem("A store in memory would lose the queue.", "Name a file.")
        path = Path(url.database).absolute()
        where = str(path)
        if len(os.fsencode(path)) > LONGEST_PATH:
            raise StoreProblem(
                f"The path of the store is longer than the {LONGEST_PATH} bytes that SQLite takes: {where}.",
                "Put the state folder less deep (XDG_STATE_HOME).",
            )
        kind = network_filesystem(path, mountinfo)
        if kind is not None:
            raise StoreProblem(
                f"The store {path} lies on a network file system ({kind}), where SQLite can lose data.",
                "Put the state folder on a local disk (XDG_STATE_HOME), or use PostgreSQL.",
            )
        marker = path.with_name(path.name + MARKER_SUFFIX)
        try:
            _prepare(path, marker)
            store = cls._connect(URL.create("sqlite", database=str(path)), host_id, where, path)
            try:
                _mark(marker, None)
            except BaseException:
                store.close()
                raise
        except OSError as error:
            raise StoreProblem(
                f"The store {path} can't be opened: {error.strerror}.",
                "Check the owner and the mode of the file and its folder, and the free space.",
            ) from error
        return store

    @classmethod
    def _connect(cls, url: URL, host_id: str, where: str, path: Path | None) -> "Store":
        writer, reader = _engine(url, write=True), _engine(url, write=False)
        try:
            with _explained(where):
                if path is not None:
                    _check_whole(writer, where)
                migrate.to_head(writer, where)
        except BaseException:
            writer.dispose()
            raise
        return cls(writer, reader, host_id, where, path)

    def take_leadership(self, at: datetime | None = None) -> int:
        """Become the one daemon that may write; every earlier one is refused from now on. Returns the new epoch.

        Raises `StoreProblem`, also for a copy of the store that is older than what was here.
        """
        at = at or datetime.now(UTC)
        marker = self.path and self.path.with_name(self.path.name + MARKER_SUFFIX)
        reached = _marked_epoch(marker) if marker else 0
        with self._lock, self._transaction(self._writer) as session:
            host = session.get(Host, self.host_id)
            if host is None:
                session.add(Host(id=self.host_id, name=platform.node(), first_seen=at, last_seen=at))
            else:
                host.name, host.last_seen = platform.node(), at
            session.flush()
            leader = session.get(Leader, 1, with_for_update=True)
            if leader is None:
                leader = Leader(epoch=0, host_id=self.host_id, taken_at=at)
                session.add(leader)
            if self.path and marker and leader.epoch < reached:
                raise outdated(self.path, marker)
            leader.epoch, leader.host_id, leader.taken_at = leader.epoch + 1, self.host_id, at
            session.commit()
            self.epoch = leader.epoch
        if marker:
            with contextlib.suppress(OSError):  # a store that is newer than its marker is no harm
                _mark(marker, self.epoch)
        return self.epoch

    @contextlib.contextmanager
    def write(self) -> Iterator[Session]:
        """One write transaction: committed when the block ends, rolled back when it raises.

        Raises `Deposed` when another daemon took over, another `StoreProblem` when the store can't be written.
        """
        if not self.epoch:
            raise RuntimeError("take_leadership() comes before write()")
        with self._lock:
            if self.path is not None and _identity(self.path) != self._identity:
                raise StoreProblem(
                    f"The store {self.path} was removed or replaced while the daemon ran.",
                    "Put it back and start the daemon again.",
                )
            with self._transaction(self._writer) as session:
                epoch = session.execute(_EPOCH).scalar_one()
                if epoch != self.epoch:
                    raise Deposed(self.epoch, epoch)
                yield session
                session.commit()

    @contextlib.contextmanager
    def read(self) -> Iterator[Session]:
        """A consistent view of what is committed. Raises `StoreProblem` when the store can't be read."""
        with self._transaction(self._reader) as session:
            yield session

    @contextlib.contextmanager
    def _transaction(self, engine: Engine) -> Iterator[Session]:
        with _explained(self.where), Session(engine, expire_on_commit=False) as session:
            yield session

    def close(self) -> None:
        """Close every connection; SQLite folds its log into the file."""
        self._reader.dispose()
        with self._lock:
            self._writer.dispose()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


# held until the transaction ends, where the database has row locks: a take-over waits for writes under way
_EPOCH = sa.select(SQLModel.metadata.tables["leader"].c.epoch).with_for_update(read=True)


@contextlib.contextmanager
def _explained(where: str) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        problem = explain(error, where)
        if problem is None:
            raise
        raise problem from error


def _url(path_or_url: Path | str) -> URL:
    if isinstance(path_or_url, Path) or "://" not in path_or_url:
        return URL.create("sqlite", database=str(path_or_url))
    try:
        url = make_url(path_or_url)
    except ArgumentError as error:
        raise StoreProblem("The address of the store is not a URL.", "Write a path, or postgresql://...") from error
    return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url


def _engine(url: URL, *, write: bool) -> Engine:
    # one writer connection: two of them could corrupt a log that both reset (SQLite before 3.51.3)
    pool = {"pool_size": 1, "max_overflow": 0} if write else {"pool_size": 4, "max_overflow": 4}
    try:
        engine = sa.create_engine(url, hide_parameters=True, **pool)  # values may be secrets: never in an error
    except (ImportError, ArgumentError) as error:
        raise StoreProblem(
            f"This installation cannot use {url.drivername} databases.", "Install gputui[postgresql]."
        ) from error
    if url.get_backend_name() == "sqlite":
        event.listen(engine, "connect", _pragmas if write else _reader_pragmas)
        event.listen(engine, "begin", _begin_immediate if write else _begin)
    return engine


def _pragmas(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where `_begin*` says, not where the driver guesses
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={BUSY_TIMEOUT_MS}"):
        connection.execute(f"PRAGMA {pragma}").close()


def _reader_pragmas(connection: Any, record: object) -> None:
    _pragmas(connection, record)
    connection.execute("PRAGMA query_only=ON").close()


def _begin_immediate(connection: Connection) -> None:
    # a transaction that starts as a read and then writes fails at once, whatever the timeout
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _prepare(path: Path, marker: Path) -> None:
    """Folder and file with their modes; a lost store is refused."""
    size = path.stat().st_size if path.exists() else 0
    if size == 0 and marker.exists():
        raise lost(path, marker)
    if not path.parent.exists():
        path.parent.mkdir(parents=True, mode=0o700)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    path.chmod(0o600)


def _mark(marker: Path, epoch: int | None) -> None:
    """Say that a store is here; None: only if nothing says so yet."""
    if epoch is None and marker.exists():
        return
    text = (
        f"A gputui store lies beside this file. Remove both to begin with an empty queue.\n{_EPOCH_WORD}{epoch or 0}\n"
    )
    fresh = marker.with_name(f"{marker.name}.new")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, text.encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    fresh.rename(marker)
    folder = os.open(marker.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _marked_epoch(marker: Path) -> int:
    """How often a daemon had taken the store over when it was last marked; 0 when that is not known."""
    try:
        last = marker.read_text("utf-8", "replace").splitlines()[-1]
    except (OSError, IndexError):
        return 0
    word = last.removeprefix(_EPOCH_WORD)
    return int(word) if word.isascii() and word.isdigit() and len(word) < 20 else 0


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _check_whole(engine: Engine, where: str) -> None:
    with engine.connect() as connection:
        verdict = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
    if verdict != "ok":
        raise StoreProblem(
            f"The store {where} is damaged: {str(verdict).splitlines()[-1]}.",
            "Stop the daemon and restore the store from a backup.",
        )
