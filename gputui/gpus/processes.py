"""Who a pid is, by /proc: start time, owner, command, container. Each field fails alone; zombies are dead."""

import os
import pwd
import re
from dataclasses import dataclass
from pathlib import Path

COMMAND_LIMIT = 200
"""Characters of a command line kept for show."""

_CONTAINER = re.compile(r"(?:^|[/\-:])([0-9a-f]{64})(?:\.scope)?(?:/|$)", re.MULTILINE)
_FIRST_NAMESPACE = "pid:[4026531836]"
"""The kernel gives the machine's own pid namespace this number."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcStat:
    """One look at /proc/PID/stat of a process that is not a zombie."""

    start_time: int
    """Clock ticks since boot."""
    cpu: float
    """Seconds of CPU used by the process itself."""
    cpu_reaped: float
    """Seconds of CPU used by the children it waited for."""
    comm: str


@dataclass(frozen=True, slots=True)
class Who:
    """What does not change while a process runs one program."""

    start_time: int
    comm: str
    uid: int | None
    user: str
    command: str
    container: str


def read_stat(pid: int) -> ProcStat | None:
    """The live process `pid` in this /proc; None when there is none, it is a zombie, or it cannot be read."""
    if pid <= 0:
        return None
    data = _read(f"/proc/{pid}/stat")
    # the name may hold anything, parentheses and newlines included: fields begin after the last ")"
    end = data.rfind(b")")
    rest = data[end + 2 :].split()
    if end < 0 or len(rest) < 20 or rest[0] in (b"Z", b"X", b"x"):
        return None
    return ProcStat(
        start_time=int(rest[19]),
        cpu=(int(rest[11]) + int(rest[12])) / _TICKS,
        cpu_reaped=(int(rest[13]) + int(rest[14])) / _TICKS,
        comm=data[data.find(b"(") + 1 : end].decode("utf-8", "replace"),
    )


class ProcessTable:
    """Looks pids up, and remembers what does not change by pid and start time."""

    def __init__(self) -> None:
        self._who: dict[int, Who] = {}
        self._users: dict[int, str] = {}
        self._stats: dict[int, ProcStat | None] = {}
        self.namespaced = _in_child_namespace()
        """Whether this process lives in a pid namespace of a container."""

    def begin(self) -> None:
        """A new round of lookups begins: each process is read once in it, however many GPUs it is on."""
        self._stats.clear()

    def stat(self, pid: int) -> ProcStat | None:
        """`read_stat`, once per round."""
        if pid not in self._stats:
            self._stats[pid] = read_stat(pid)
        return self._stats[pid]

    def who(self, pid: int, stat: ProcStat) -> Who:
        """Owner, command and container of the process that `stat` was read from."""
        known = self._who.get(pid)
        # a program that was just being exec'd had no command line yet: what shows its name only is looked at again
        fresh = known is not None and (known.start_time, known.comm) == (stat.start_time, stat.comm)
        if known is None or not fresh or known.command == known.comm:
            known = self._who[pid] = self._look(pid, stat)
        return known

    def dead(self, pid: int) -> bool:
        """Whether a pid without a `stat` is one of ours that ended, rather than one this /proc cannot resolve."""
        return pid in self._who or os.path.exists(f"/proc/{pid}")  # noqa: PTH110 - there, yet no live process: a zombie

    def keep(self, pids: set[int]) -> None:
        """Forget every pid that is not in `pids`."""
        if len(self._who) > len(pids):
            self._who = {pid: who for pid, who in self._who.items() if pid in pids}

    def _look(self, pid: int, stat: ProcStat) -> Who:
        try:
            uid: int | None = os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116 - called for every process
        except OSError:
            uid = None
        command = _read(f"/proc/{pid}/cmdline").rstrip(b"\0").replace(b"\0", b" ")
        found = _CONTAINER.search(_read(f"/proc/{pid}/cgroup").decode("ascii", "replace"))
        return Who(
            start_time=stat.start_time,
            comm=stat.comm,
            uid=uid,
            user="?" if uid is None else self._user(uid),
            command=command.decode("utf-8", "replace")[:COMMAND_LIMIT] or stat.comm or "?",
            container=found.group(1)[:12] if found else "",
        )

    def _user(self, uid: int) -> str:
        name = self._users.get(uid)
        if name is None:
            try:
                name = pwd.getpwuid(uid).pw_name
            except (KeyError, OSError):  # a uid of another user namespace or a directory that does not answer
                name = str(uid)
            self._users[uid] = name
        return name


def _in_child_namespace() -> bool:
    try:
        return str(Path("/proc/self/ns/pid").readlink()) != _FIRST_NAMESPACE
    except OSError:
        return False


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, 65536)
    except OSError:  # the process ended between open and read
        return b""
    finally:
        os.close(fd)
