"""One lock per GPU UUID for the whole machine, so that daemons of several users never run two jobs on one GPU.

The lock is a `flock` on a file in a world-writable sticky folder; it is exclusive for a run that has the GPU to itself
and shared for runs that share it. It is inherited by the job, so it outlives a supervisor that was killed.
"""

import contextlib
import errno
import fcntl
import os
import stat
import time

ENVIRONMENT = "GPUTUI_LOCK_DIR"
PATIENCE_S = 2.0
"""How long taking a lock is tried: `locked` holds one for a moment to see whether it is free."""


class Locked(OSError):  # noqa: N818 - an answer, not a fault
    """Another run, perhaps of another user, has the GPU."""


def default_folder() -> str:
    """`$GPUTUI_LOCK_DIR`, else `/run/lock`, else `/tmp/gputui-locks`."""
    if chosen := os.environ.get(ENVIRONMENT):
        return chosen
    return "/run/lock" if _usable("/run/lock") else "/tmp/gputui-locks"  # noqa: S108 - made sticky and checked


def prepare(folder: str) -> None:
    """Make the folder where it is missing. Raises OSError when somebody has put something else there."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)
        os.chmod(folder, 0o1777)  # noqa: S103 - for all users, as /tmp
    if not _usable(folder):
        raise OSError(errno.EPERM, "not a folder that is mine or sticky and writable", folder)


def _usable(folder: str) -> bool:
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    sticky = bool(found.st_mode & stat.S_ISVTX) or not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and sticky and os.access(folder, os.W_OK | os.X_OK)


def acquire(folder: str, uuid: str, *, share: bool) -> int:
    """A descriptor that holds the GPU's lock until it and its copies are closed. Raises Locked, OSError."""
    kind = fcntl.LOCK_SH if share else fcntl.LOCK_EX
    deadline = time.monotonic() + PATIENCE_S
    while True:
        fd = _open(_path(folder, uuid))
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            if time.monotonic() > deadline:
                raise Locked(errno.EBUSY, f"{uuid} is in use by another program that takes gputui's locks") from None
            time.sleep(0.01)
            continue
        if _still_there(fd, _path(folder, uuid)):
            return fd
        os.close(fd)  # its file was removed meanwhile: a lock that nobody else would see


def locked(folder: str, uuids: list[str]) -> set[str]:
    """Those of `uuids` that some run on this machine has locked, mine included."""
    found = set()
    for uuid in uuids:
        try:
            fd = _open(_path(folder, uuid), create=False)
        except FileNotFoundError:
            continue
        except OSError:
            found.add(uuid)  # cannot tell, and unknown is never free
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            found.add(uuid)
        finally:
            os.close(fd)
    return found


def _path(folder: str, uuid: str) -> str:
    if not uuid or not all(c.isalnum() or c in "-_." for c in uuid):
        raise OSError(errno.EINVAL, "not a GPU's UUID", uuid)
    return f"{folder}/gputui-{uuid}.lock"


def _open(path: str, *, create: bool = True) -> int:
    """Open a lock file that any user may have made.

    Never with O_CREAT on one that exists: `fs.protected_regular` forbids that for others' files in a sticky folder.
    Read-only is enough for `flock`, so the files need not be writable by others.
    """
    while True:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            if not create:
                raise
        else:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                return fd
            os.close(fd)
            raise OSError(errno.EINVAL, "not a regular file", path)
        with contextlib.suppress(FileExistsError):
            fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            os.fchmod(fd, 0o644)  # whatever the umask is: others must be able to open it
            return fd


def _still_there(fd: int, path: str) -> bool:
    try:
        mine, there = os.fstat(fd), os.lstat(path)
    except OSError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)
