"""One daemon per store: a lock beside it, held for life and let go by the kernel."""

import fcntl
import json
import os
import time
from pathlib import Path

from gputui import paths


class Busy(Exception):  # noqa: N818 - an answer to whoever starts a second daemon
    """Another daemon holds the lock; the message is one sentence for people."""


class StoreLock:
    """The exclusive lock of a state folder. It lies beside the store, since a runtime folder vanishes at logout."""

    def __init__(self, state: Path) -> None:
        self.path = state / paths.LOCK_NAME
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self, *, standby: bool = False, poll: float = 0.2) -> None:
        """Take the lock or raise `Busy`; with `standby` wait for it, however long that takes.

        The wait polls, so that a signal ends it at once and a dead holder is followed within `poll` seconds.
        """
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not standby:
                    holder = paths.lock_note(self.path).get("pid")
                    whose = f"pid {holder}" if isinstance(holder, int) else "another process"
                    raise Busy(
                        f"A daemon ({whose}) already keeps {self.path.parent}; "
                        "stop it with 'gputui daemon stop', or wait in line with --standby."
                    ) from None
                time.sleep(poll)
            else:
                return

    def note(self, socket: Path) -> None:
        """Write who holds it and where it listens. For people and clients; the lock itself is the evidence."""
        text = json.dumps({"pid": os.getpid(), "socket": str(socket)}).encode()
        os.pwrite(self._fd, text, 0)
        os.ftruncate(self._fd, len(text))

    def close(self) -> None:
        """Let it go. The file stays: removing it would let two daemons hold two different files."""
        os.ftruncate(self._fd, 0)
        os.close(self._fd)
