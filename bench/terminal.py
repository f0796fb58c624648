"""A pty that only counts and stamps what a program writes: an emulator would take the cores that are measured."""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Self


class Terminal:
    """One program on a pty. Use as a context manager: its end ends the program."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], *, rows: int = 50, columns: int = 160) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
        self._chunks: list[tuple[float, bytes]] = []
        self._changed = threading.Condition()
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**env, "TERM": "xterm-256color"},
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - one system call, no lock
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join(5)
        os.close(self._master)

    def send(self, keys: bytes) -> float:
        """Press keys; the moment they were handed over."""
        at = time.monotonic()
        os.write(self._master, keys)
        return at

    def mark(self) -> int:
        """A place in what was written so far, for `wait_for` and `count`."""
        with self._changed:
            return len(self._chunks)

    def count(self, mark: int = 0) -> int:
        """Bytes written since `mark`."""
        with self._changed:
            return sum(len(data) for _, data in self._chunks[mark:])

    def wait_for(self, pattern: bytes, mark: int = 0, seconds: float = 30.0) -> float:
        """When what was written since `mark` first matched the pattern, on the monotonic clock. Raises TimeoutError."""
        wanted, written, end = re.compile(pattern), b"", time.monotonic() + seconds
        with self._changed:
            while True:
                for at, data in self._chunks[mark:]:
                    written += data
                    mark += 1
                    if wanted.search(written):
                        return at
                left = end - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise TimeoutError(f"{pattern!r} not within {seconds:g} s; the end was {written[-400:]!r}")

    def settle(self, quiet: float, seconds: float = 10.0) -> None:
        """Return once nothing was written for `quiet` seconds, or after `seconds`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            before = self.mark()
            time.sleep(quiet)
            if self.mark() == before:
                return

    def _read(self) -> None:
        while True:
            if not select.select([self._master], [], [], 1.0)[0]:
                if self.process.poll() is not None:
                    return
                continue
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:
                return
            at = time.monotonic()
            if not data:
                return
            with self._changed:
                self._chunks.append((at, data))
                self._changed.notify_all()


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
