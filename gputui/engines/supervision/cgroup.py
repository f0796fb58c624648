"""A cgroup (version 2) per run, where one may be made: it ends everything in it with one write.

Looks below the supervisor's own cgroup only, in the unified or the hybrid mount. Without one, the walk over descendants
does the same more slowly.
"""

import contextlib
import os

from gputui.engines.supervision.procs import read_bytes


def _mount() -> str | None:
    try:
        lines = read_bytes("/proc/self/mounts").splitlines()
    except OSError:
        return None
    for line in lines:
        fields = line.split()
        if len(fields) > 2 and fields[2] == b"cgroup2":
            return os.fsdecode(fields[1])
    return None


def _own(mount: str) -> str | None:
    for line in read_bytes("/proc/self/cgroup").splitlines():
        if line.startswith(b"0::"):
            return mount + os.fsdecode(line[3:]).rstrip("/")
    return None


def path_for(name: str) -> str | None:
    """Where the cgroup `name` below our own would be; None without version 2."""
    try:
        mount = _mount()
        own = _own(mount) if mount else None
    except OSError:
        return None
    return f"{own}/{name}" if own is not None else None


def make(path: str) -> bool:
    """Make a cgroup; False where that is not allowed, or where it could not kill."""
    try:
        os.mkdir(path, 0o755)
    except OSError:
        return False
    if os.path.exists(f"{path}/cgroup.kill"):
        return True
    remove(path)
    return False


def _put(path: str, text: bytes) -> bool:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(fd, text)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def move(path: str, pid: int) -> bool:
    return _put(f"{path}/cgroup.procs", b"%d" % pid)


def kill(path: str) -> bool:
    """SIGKILL everything in it at once; False when that could not be asked."""
    return _put(f"{path}/cgroup.kill", b"1")


def pids(path: str) -> list[int]:
    try:
        return [int(pid) for pid in read_bytes(f"{path}/cgroup.procs").split()]
    except OSError:
        return []


def oom_kills(path: str) -> int:
    """How many processes the kernel ended in it for want of memory; 0 where the memory controller is not on."""
    with contextlib.suppress(OSError):
        for line in read_bytes(f"{path}/memory.events").splitlines():
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
    return 0


def remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(path)
