"""The checks of `doctor`. Each looks at one thing, changes nothing, and says one sentence and, if need be, a remedy."""

import locale
import os
import pwd
import re
import shutil
import sqlite3
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gputui import format as fmt
from gputui import paths
from gputui.filesystem import network_filesystem

DISK_LOW = 512 * 1024**2
DISK_SCARCE = 4 * 1024**3
LOGIND = (Path("/usr/lib/systemd/logind.conf.d"), Path("/etc/systemd/logind.conf"), Path("/etc/systemd/logind.conf.d"))
LINGER = Path("/var/lib/systemd/linger")
CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Check:
    """What one look found."""

    name: str
    verdict: Literal["ok", "warn", "bad"]
    sentence: str
    remedy: str = ""


def run_checks(socket: str | None) -> list[Check]:
    """Every check, in the order in which one would look. One that fails itself says so and stops no other."""
    looks: list[tuple[str, Callable[[], Check]]] = [
        ("python", python),
        ("sqlite", lambda: sqlite(sqlite3.sqlite_version_info)),
        ("gpus", gpus),
        ("state", state),
        ("disk", disk),
        ("daemon", lambda: daemon(Path(socket) if socket else None)),
        ("terminal", lambda: terminal(dict(os.environ))),
        ("logout", lambda: logout(LOGIND, LINGER)),
        ("cgroups", lambda: cgroups(CGROUPS)),
    ]
    return [_guarded(name, look) for name, look in looks]


def _guarded(name: str, look: Callable[[], Check]) -> Check:
    try:
        return look()
    except Exception as error:  # noqa: BLE001 - the other checks matter the more
        return Check(name, "warn", f"Could not be checked: {type(error).__name__}: {error}.")


def python() -> Check:
    """The interpreter."""
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("python", "ok", f"Python {version} at {sys.executable}.")


def sqlite(version: tuple[int, ...]) -> Check:
    """SQLite before 3.51.3 (3.50.7, 3.44.6) can corrupt a write-ahead log that several connections reset."""
    shown = ".".join(map(str, version))
    mended = version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)
    if mended:
        return Check("sqlite", "ok", f"SQLite {shown}.")
    return Check(
        "sqlite",
        "warn",
        f"SQLite {shown} can damage its log when several programs write to one store; the daemon alone writes to it.",
        "Do not open the store with other programs while the daemon runs; SQLite 3.51.3 mends it.",
    )


def gpus() -> Check:
    """What the driver gives."""
    from gputui.gpus.handle import read_once

    simulated = os.environ.get("GPUTUI_SIMULATED_GPUS") or None
    snapshot = read_once(simulated)
    if snapshot.problem is not None:
        return Check("gpus", "warn", snapshot.problem.sentence, snapshot.problem.remedy)
    lost = [gpu.uuid for gpu in snapshot.gpus if gpu.lost]
    if lost:
        return Check(
            "gpus", "warn", f"Lost: {', '.join(lost)}.", "Look at 'dmesg' for its Xid; a reset or reboot helps."
        )
    driver = f", driver {snapshot.driver}" if snapshot.driver and simulated is None else ""
    return Check("gpus", "ok", f"{len(snapshot.gpus)} GPUs ({snapshot.source}{driver}).")


def state() -> Check:
    """The state folder: ours alone, writable, on a local file system."""
    folder = paths.state_dir()
    place = _nearest(folder)
    kind = network_filesystem(folder)
    if kind is not None:
        return Check(
            "state",
            "bad",
            f"{folder} lies on a network file system ({kind}), where SQLite's locks cannot be trusted.",
            "Set XDG_STATE_HOME to a folder on a local disk.",
        )
    if not os.access(place, os.W_OK | os.X_OK):
        return Check("state", "bad", f"{place} cannot be written to.", f"Give yourself write permission on {place}.")
    if not folder.exists():
        return Check("state", "ok", f"{folder} will be made by the first daemon.")
    found = folder.stat()
    if found.st_uid != os.geteuid():
        return Check(
            "state", "bad", f"{folder} belongs to another user.", "Set XDG_STATE_HOME to a folder of your own."
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        return Check("state", "warn", f"{folder} can be read by others.", f"chmod 700 {folder}")
    return Check("state", "ok", f"{folder} is ours alone.")


def disk() -> Check:
    """Room beside the state folder: nothing is started when it is low."""
    place = _nearest(paths.state_dir())
    free = shutil.disk_usage(place).free
    sentence = f"{fmt.size(free)} free at {place}."
    if free < DISK_LOW:
        return Check("disk", "bad", sentence, f"No job starts below {fmt.size(DISK_LOW)}: make room.")
    if free < DISK_SCARCE:
        return Check("disk", "warn", sentence, f"No job starts below {fmt.size(DISK_LOW)}: make room in time.")
    return Check("disk", "ok", sentence)


def daemon(socket: Path | None) -> Check:
    """Whether one answers, and whether its lock and socket belong together."""
    found = paths.find_socket(socket)
    if paths.answers(found):
        return Check("daemon", "ok", f"A daemon answers at {found}.")
    lock = paths.state_dir() / paths.LOCK_NAME
    if _is_locked(lock):
        holder = paths.lock_note(lock)
        return Check(
            "daemon",
            "bad",
            f"Process {holder.get('pid', '?')} holds {lock}, but nothing answers at {found}.",
            f"See {paths.state_dir() / paths.LOG_NAME}; 'kill {holder.get('pid', 'PID')}' ends it, and jobs run on.",
        )
    if found.exists() and not paths.trusted_socket(found):
        return Check("daemon", "bad", f"{found} is not a socket of yours or root's.", f"Have {found} removed.")
    return Check("daemon", "ok", "None runs; the first command starts one.")


def terminal(env: dict[str, str]) -> Check:
    """What the screen can count on."""
    term = env.get("TERM", "")
    if term in {"", "dumb"}:
        return Check(
            "terminal", "warn", f"TERM is '{term}': the screen cannot draw well.", "Set TERM, as in xterm-256color."
        )
    encoding = locale.getpreferredencoding(do_setlocale=False)
    if encoding.lower().replace("-", "") not in {"utf8", "utf"}:
        return Check(
            "terminal", "warn", f"The locale's encoding is {encoding}: names may show wrong.", "Set LANG=C.UTF-8."
        )
    few = "256 colours" if "256color" in term else "16 colours"
    colours = "true colour" if "COLORTERM" in env else few
    inside = " inside tmux" if "TMUX" in env else ""
    if "TMUX" in env and term == "screen":
        return Check(
            "terminal",
            "warn",
            "Inside tmux with TERM=screen: 16 colours only.",
            "Put 'set -g default-terminal tmux-256color' into ~/.tmux.conf.",
        )
    return Check("terminal", "ok", f"{term}{inside}, {colours}, {encoding}.")


def logout(settings: tuple[Path, ...], linger: Path) -> Check:
    """Whether a logout ends the daemon and the jobs of a user."""
    kills = False
    for place in settings:
        for file in sorted(place.glob("*.conf")) if place.is_dir() else [place]:
            try:
                text = file.read_text(errors="replace")
            except OSError:
                continue
            for value in re.findall(r"^\s*KillUserProcesses\s*=\s*(\S+)", text, re.MULTILINE):
                kills = value.lower() in {"yes", "true", "1", "on"}
    if not kills:
        return Check("logout", "ok", "Jobs survive a logout.")
    user = pwd.getpwuid(os.geteuid()).pw_name
    if os.geteuid() == 0 or (linger / user).exists():
        return Check("logout", "ok", "Jobs survive a logout, since this user lingers.")
    return Check(
        "logout",
        "warn",
        "A logout kills the daemon and every job (KillUserProcesses=yes).",
        f"Ask an administrator for 'loginctl enable-linger {user}'.",
    )


def cgroups(root: Path) -> Check:
    """Whether runs can be ended by cgroup, which is quick and lets nothing escape."""
    base = next((place for place in (root, root / "unified") if (place / "cgroup.controllers").exists()), None)
    if base is None:
        return Check("cgroups", "ok", "No cgroup v2: runs are ended by walking their processes.")
    own = re.search(r"^0::(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    place = base / (own[1].lstrip("/") if own else "")
    if os.access(place, os.W_OK):
        return Check("cgroups", "ok", "Runs are ended by cgroup.")
    return Check("cgroups", "ok", "cgroup v2 is not delegated to you: runs are ended by walking their processes.")


def _nearest(path: Path) -> Path:
    """`path`, or the nearest folder above it that exists."""
    while not path.exists():
        path = path.parent
    return path


def _is_locked(lock: Path) -> bool:
    """Whether a process holds it. Asks the kernel's list: trying the lock could get in the way of a daemon's start."""
    try:
        inode = lock.stat().st_ino
        held = Path("/proc/locks").read_text()
    except OSError:
        return False
    return re.search(rf"FLOCK .* [0-9a-f]+:[0-9a-f]+:{inode} ", held) is not None
