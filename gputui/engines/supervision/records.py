"""The files of a run directory, read and written.

Bytes cross JSON as UTF-8 with lone surrogates for what is not UTF-8 (`surrogateescape`), so they come back unharmed.
"""

import json
import os

from gputui.engines.supervision.procs import read_bytes

LAYOUT = 1
EXIT_ROOM = 4096
"""Bytes set aside for the exit record before a run starts, so that a full disk cannot swallow its end."""

Record = dict[str, object]


def to_text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def to_bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")


def dump(record: Record) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"


def load(path: str) -> Record | None:
    """The record in `path`; None when there is none or it is not whole."""
    try:
        found = json.loads(read_bytes(path))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync_dir(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write(path: str, data: bytes, *, sync: bool = False) -> None:
    """Put `data` in place whole or not at all; with `sync` it survives a power cut. Raises OSError."""
    temporary = path + ".new"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_all(fd, data)
        if sync:
            os.fsync(fd)
    except BaseException:
        os.unlink(temporary)
        raise
    finally:
        os.close(fd)
    os.rename(temporary, path)
    if sync:
        sync_dir(os.path.dirname(path))


def touch(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def identity(record: Record | None) -> tuple[int, int, str] | None:
    """pid, start time and boot id of a `claim` or `pid` record."""
    if record is None:
        return None
    pid, start_time, boot = record.get("pid"), record.get("start_time"), record.get("boot_id")
    if isinstance(pid, int) and isinstance(start_time, int) and isinstance(boot, str):
        return pid, start_time, boot
    return None


def reserve_exit(run_dir: str) -> int:
    """Set room aside for the exit record; a descriptor for `commit_exit`. Raises OSError on a full disk."""
    fd = os.open(f"{run_dir}/exit.new", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, EXIT_ROOM)  # plain writes may find the disk full only when they are synced
    except BaseException:
        os.close(fd)
        raise
    return fd


def commit_exit(run_dir: str, fd: int, record: Record) -> None:
    """Write the end of a run into the room set aside, whole and synced."""
    data = dump(record)
    if len(data) > EXIT_ROOM:
        data = dump({**record, "error": str(record.get("error", ""))[:300], "log_error": ""})
    os.pwrite(fd, data.ljust(EXIT_ROOM), 0)
    os.fsync(fd)
    os.close(fd)
    os.rename(f"{run_dir}/exit.new", f"{run_dir}/exit")
    sync_dir(run_dir)
