"""Fault injection between the steps of a start and an end, for the tests that prove 'exactly once'.

`GPUTUI_TEST_DELAYS=N`: sleep a random time of up to N milliseconds at each step.
`GPUTUI_TEST_CRASH=STEP`: die of SIGKILL at that step. `GPUTUI_TEST_NO_CGROUP=1`: do as if cgroups were not delegated.
Read only by fork servers and supervisors; a test without delays between the steps proves nothing.
"""

import os
import signal
import time

_DELAY_MS = int(os.environ.get("GPUTUI_TEST_DELAYS", "0"))
_CRASH = os.environ.get("GPUTUI_TEST_CRASH", "")
NO_CGROUP = bool(os.environ.get("GPUTUI_TEST_NO_CGROUP"))


def step(name: str) -> None:
    """Say that a step was reached."""
    if _DELAY_MS:
        time.sleep(int.from_bytes(os.urandom(2), "little") / 65536 * _DELAY_MS / 1000)
    if name == _CRASH:
        os.kill(os.getpid(), signal.SIGKILL)
