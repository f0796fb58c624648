"""Ending everything a run has started: TERM, grace, KILL until nothing is left.

All times are the monotonic clock's. What outlives the top process by itself gets `LINGER_S`, then TERM, and `LINGER_S`
later KILL, so that a run cannot hang for ever on a process that was forgotten in the background.
"""

import contextlib
import os
import signal
import time

from gputui.engines.supervision import cgroup, procs

LINGER_S = 5.0
KILL_EVERY_S = 0.02
KILL_RARELY_S = 1.0
"""Between two rounds of KILL once many were in vain: a process in an uninterruptible call dies when that ends."""
EAGER_ROUNDS = 250


class Ending:
    """When the processes of one run are to be signalled; `act` does it."""

    def __init__(self, top: int) -> None:
        self._top: int | None = top
        self._cgroup: str | None = None
        self._term_at: float | None = None
        self._kill_at: float | None = None
        self._rounds = 0

    def stop(self, grace: float) -> None:
        """TERM now to the top process's group, KILL to all after `grace` seconds. A second call only hastens KILL."""
        if self._kill_at is None:
            if self._top is None:
                self._term_at = time.monotonic()
            else:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._top, signal.SIGTERM)
                    os.killpg(self._top, signal.SIGCONT)  # a stopped process would sleep through it
        self._kill_by(time.monotonic() + max(grace, 0.0))

    def use_cgroup(self, path: str) -> None:
        """Most of the run's processes are in this cgroup."""
        self._cgroup = path

    def top_ended(self) -> None:
        """The top process was reaped: its number may belong to somebody else from now on."""
        self._top = None
        self._term_at = time.monotonic() + LINGER_S

    def next_act(self) -> float | None:
        """Seconds until `act` has something to do; None: never."""
        times = [at for at in (self._term_at, self._kill_at) if at is not None]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def act(self) -> None:
        now = time.monotonic()
        if self._term_at is not None and now >= self._term_at:
            self._term_at = None
            procs.signal_descendants(os.getpid(), signal.SIGTERM)
            self._kill_by(now + LINGER_S)
        if self._kill_at is not None and now >= self._kill_at:
            # the walk of the second round finds what is not in the cgroup
            if self._cgroup is None or not cgroup.kill(self._cgroup) or self._rounds:
                procs.signal_descendants(os.getpid(), signal.SIGKILL)
            self._rounds += 1
            self._kill_at = time.monotonic() + (KILL_EVERY_S if self._rounds < EAGER_ROUNDS else KILL_RARELY_S)

    def _kill_by(self, at: float) -> None:
        self._kill_at = at if self._kill_at is None else min(self._kill_at, at)
