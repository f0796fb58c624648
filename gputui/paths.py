"""Where state, sockets and settings live. Standard library only: every command imports this."""

import json
import os
import re
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SYSTEM_SOCKET = Path("/run/gputui/gputui.sock")
SOCKET_VARIABLE = "GPUTUI_SOCKET"
STATE_VARIABLE = "GPUTUI_STATE"
LOCK_NAME = "daemon.lock"
LOG_NAME = "daemon.log"
_LONGEST_ADDRESS = 107
"""Bytes that fit into `sockaddr_un.sun_path` beside its final zero."""


class UnsafeFolder(Exception):  # noqa: N818 - says what is wrong, in the sentence it carries
    """A folder that must be ours alone is not; the message is one sentence with the remedy."""


def machine_id() -> str:
    """A name for this machine that survives reboots, so that homes shared between machines keep states apart."""
    for name in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            found = Path(name).read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if re.fullmatch(r"[0-9a-f]{32}", found):
            return found
    return re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname()) or "localhost"


def state_dir(explicit: Path | None = None) -> Path:
    """The state folder: `explicit`, `GPUTUI_STATE`, else `$XDG_STATE_HOME/gputui/<machine-id>`. Not created here."""
    named = explicit or os.environ.get(STATE_VARIABLE, "")
    if named:
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_STATE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return root / "gputui" / machine_id()


def settings_file() -> Path:
    """`$XDG_CONFIG_HOME/gputui/config.toml`; it need not exist."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".config"
    return root / "gputui" / "config.toml"


def private_dir(folder: Path) -> Path:
    """Make `folder` (0700) if need be; raise `UnsafeFolder` unless it is a real folder of ours that others can't enter.

    A folder of ours with too wide a mode is narrowed.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise UnsafeFolder(
            f"Cannot make the folder {folder}: {error.strerror}; name another one or mend its permissions."
        ) from error
    if folder.is_symlink() and folder.stat().st_uid == os.geteuid() == found.st_uid:
        found = folder.stat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise UnsafeFolder(f"{folder} belongs to someone else or is no folder; have it removed, then try again.")
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)
    return folder


def runtime_dir() -> Path:
    """The folder of the user daemon's socket; the one under /tmp is made 0700 by whoever binds there."""
    uid = os.geteuid()
    for candidate in (os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{uid}"):
        # after `su` the variable still names the other user's folder
        if candidate.startswith("/"):
            try:
                found = Path(candidate).stat()
            except OSError:
                continue
            if stat.S_ISDIR(found.st_mode) and found.st_uid == uid:
                return Path(candidate)
    return Path(f"/tmp/gputui-{uid}")  # noqa: S108 - made 0700, its owner checked


def user_socket() -> Path:
    """Where a user daemon binds unless told otherwise."""
    return runtime_dir() / "gputui.sock"


def find_socket(explicit: Path | None = None, state: Path | None = None) -> Path:
    """Where the daemon should be asked: `explicit`, `GPUTUI_SOCKET`, a system daemon that is there, the user's own.

    The socket that a running user daemon wrote into its lock file is the last resort: it may have been started with
    another `XDG_RUNTIME_DIR` than the caller has (cron, su), or moved to /tmp at a logout.
    """
    if explicit is not None:
        return explicit.absolute()
    named = os.environ.get(SOCKET_VARIABLE, "")
    if named:
        return Path(named).absolute()
    if SYSTEM_SOCKET.exists() and answers(SYSTEM_SOCKET):
        return SYSTEM_SOCKET
    own = user_socket()
    if not answers(own):
        recorded = lock_note(state_dir(state) / LOCK_NAME).get("socket")
        if isinstance(recorded, str) and trusted_socket(Path(recorded)) and answers(Path(recorded)):
            return Path(recorded)
    return own


def trusted_socket(path: Path) -> bool:
    """Whether `path` is a socket of root or ours: nobody else can have put a false daemon there."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid in (0, os.geteuid())


def answers(path: Path) -> bool:
    """Whether something accepts connections there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, address(path) as name:
        probe.settimeout(2)
        try:
            probe.connect(name)
        except OSError:
            return False
    return True


@contextmanager
def address(path: Path) -> Iterator[str]:
    """The name to bind or connect to for `path`, also when it is longer than a socket address may be."""
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def lock_note(lock: Path) -> dict[str, object]:
    """What the holder wrote into its lock file (`pid`, `socket`); empty when there is nothing to read."""
    try:
        note = json.loads(lock.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}
