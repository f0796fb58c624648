"""Processes as the kernel tells of them: identity, descent, signals.

A process is its pid, its start time (clock ticks since boot) and the boot id; a zombie is dead.
"""

import ctypes
import os
import signal

PF_FORKNOEXEC = 0x40
"""Flag in `/proc/PID/stat`: forked, and has not reached exec yet."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class Stat:
    """The few fields of `/proc/PID/stat` that matter here."""

    __slots__ = ("flags", "ppid", "start_time", "state")

    def __init__(self, text: bytes) -> None:
        # the name (second field) may hold spaces and brackets, so count from its closing bracket
        fields = text[text.rindex(b")") + 2 :].split()
        self.state = fields[0]
        self.ppid = int(fields[1])
        self.flags = int(fields[6])
        self.start_time = int(fields[19])

    @property
    def dead(self) -> bool:
        return self.state in (b"Z", b"X")


def read_bytes(path: str) -> bytes:
    """A whole small file; raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(fd, 65536):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def stat(pid: int) -> Stat | None:
    """None: no such process, or this `/proc` cannot tell."""
    try:
        return Stat(read_bytes(f"/proc/{pid}/stat"))
    except (OSError, ValueError, IndexError):
        return None


def boot_id() -> str:
    """The kernel's id of this boot; empty where it has none."""
    try:
        return read_bytes("/proc/sys/kernel/random/boot_id").decode("ascii").strip()
    except OSError:
        return ""


def is_same(pid: int, start_time: int, boot: str) -> bool:
    """Whether `pid` still is the live process that was recorded."""
    now = stat(pid)
    return now is not None and not now.dead and now.start_time == start_time and boot == boot_id()


def open_pidfd(pid: int, start_time: int, boot: str) -> int | None:
    """A pidfd of exactly the recorded process, its identity checked after opening; None when it is gone."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return None
    if is_same(pid, start_time, boot):
        return fd
    os.close(fd)
    return None


def children(pid: int) -> list[int]:
    """The live and zombie children of all of `pid`'s threads."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += map(int, read_bytes(f"/proc/{pid}/task/{task}/children").split())
    except FileNotFoundError:
        if os.path.exists(f"/proc/{pid}/task") and not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
            return _children_by_scan(pid)  # a kernel without CONFIG_PROC_CHILDREN
    except OSError:
        pass
    return found


def _children_by_scan(parent: int) -> list[int]:
    return [pid for pid in all_pids() if (now := stat(pid)) is not None and now.ppid == parent]


def all_pids() -> list[int]:
    """Every process that this `/proc` shows."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def descendants(root: int) -> list[int]:
    """All live descendants of `root`, parents before children; zombies left out."""
    found: list[int] = []
    seen = {root}
    todo = children(root)
    while todo:
        pid = todo.pop()
        if pid in seen:
            continue
        seen.add(pid)
        now = stat(pid)
        if now is None:
            continue
        if not now.dead:
            found.append(pid)
        todo += children(pid)
    return found


def send(pid: int, start_time: int, number: int) -> bool:
    """Signal exactly this process; False when it is gone or may not be signalled."""
    fd = open_pidfd(pid, start_time, boot_id())
    if fd is None:
        return False
    try:
        signal.pidfd_send_signal(fd, number)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def signal_descendants(root: int, number: int) -> int:
    """Signal all live descendants of `root`; how many there were."""
    found = descendants(root)
    for pid in found:
        now = stat(pid)
        if now is not None and not now.dead:
            send(pid, now.start_time, number)
    return len(found)


def become_subreaper() -> None:
    """Make orphans below this process its children, so that waiting until ECHILD proves that none is left."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: int) -> None:
    """Get this signal when the process that started us ends."""
    _prctl(_PR_SET_PDEATHSIG, number)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value})")


def with_environment(name: bytes, value: bytes) -> list[int]:
    """Live processes of this user whose initial environment has `name=value`, newest last. Reads all of `/proc`."""
    wanted = b"\0" + name + b"=" + value + b"\0"
    found = []
    for pid in all_pids():
        if pid == os.getpid():
            continue
        try:
            environ = read_bytes(f"/proc/{pid}/environ")
        except OSError:
            continue
        if wanted in b"\0" + environ + b"\0":
            now = stat(pid)
            if now is not None and not now.dead:
                found.append(pid)
    return found
