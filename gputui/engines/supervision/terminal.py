"""The terminal of an interactive run: given to the job, taken back at its end, handed to the shell on Ctrl-Z."""

import contextlib
import os
import signal


class Terminal:
    """Standard input, when it is a terminal; otherwise nothing here has an effect beyond the job's process group."""

    def __init__(self) -> None:
        self._is_one = os.isatty(0)
        self._before: int | None = None
        with contextlib.suppress(OSError):
            self._before = os.tcgetpgrp(0) if self._is_one else None

    def own_group(self) -> None:
        """In the child: a process group of its own, before it can do anything."""
        os.setpgid(0, 0)

    def give_to(self, pid: int) -> None:
        """In the supervisor: the same once more (whoever comes first), then the foreground."""
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        self._foreground(pid)

    def take_back(self) -> None:
        if self._before is not None:
            self._foreground(self._before)

    def suspend(self) -> None:
        """The job was stopped from the keyboard: stop with our caller, so that the shell above it goes on."""
        if self._is_one:
            self.take_back()
            os.kill(0, signal.SIGSTOP)

    def resume(self, pid: int) -> None:
        """The shell has continued us: the job goes on too, in the foreground if that is where we were put."""
        with contextlib.suppress(OSError):
            if self._is_one and os.tcgetpgrp(0) == os.getpgrp():
                self._foreground(pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGCONT)

    def _foreground(self, group: int) -> None:
        if self._is_one:
            with contextlib.suppress(OSError):
                os.tcsetpgrp(0, group)
