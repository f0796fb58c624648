"""Reads on where a killed supervisor stopped, until the run's lock is free: the job must not block in a write."""

import contextlib
import fcntl
import os
import select

from gputui.engines.supervision import records
from gputui.engines.supervision.logwriter import LogWriter

LOOK_EVERY_MS = 200
READ_SIZE = 256 * 1024


def drain(run_dir: str) -> int:
    """Returns at once when another process does so already."""
    spec = records.load(f"{run_dir}/spec.json")
    if spec is None:
        return 1
    try:
        guard = os.open(f"{run_dir}/drain", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        output = os.open(f"{run_dir}/output", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        lock = os.open(f"{run_dir}/lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return 1
    log = LogWriter(f"{run_dir}/log", int(str(spec["log_cap"])))
    poll = select.poll()
    poll.register(output, select.POLLIN)
    buffer = memoryview(bytearray(READ_SIZE))
    over = False
    while not over:
        if not poll.poll(LOOK_EVERY_MS):
            over = _is_free(lock)
        with contextlib.suppress(BlockingIOError):
            while count := os.readv(output, [buffer]):
                log.write(buffer[:count])
    log.close()
    return 0


def _is_free(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(lock, fcntl.LOCK_UN)
    return True
