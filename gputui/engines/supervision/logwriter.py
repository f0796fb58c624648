"""A run's output on its way to disk: a fixed head and a ring of tail segments, capped in total.

Segments are files named by the absolute offset of their first byte. The head keeps the beginning for good; of the tail
the last two segments stay. What could not be written (disk full) is counted and leaves a hole between two segments.
"""

import contextlib
import os
import time

SMALLEST_CAP = 64 * 1024
RETRY_S = 0.5
"""After a failed write, output is dropped for this long before the disk is tried again."""


def segment_name(offset: int) -> str:
    return f"{offset:020d}"


def segments(folder: str) -> list[tuple[int, int]]:
    """(start offset, size in bytes) of each segment on disk, in order."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for name in sorted(os.listdir(folder)):
            if name.isdigit():
                with contextlib.suppress(FileNotFoundError):  # the ring moved on
                    found.append((int(name), os.stat(f"{folder}/{name}").st_size))
    return found


class LogWriter:
    """Appends bytes; never raises for a full disk, never uses more than `cap` bytes of disk (at least 64 KiB)."""

    def __init__(self, folder: str, cap: int) -> None:
        cap = max(cap, SMALLEST_CAP)
        self._folder = folder
        self._head_size = cap // 4
        self._tail_size = (cap - self._head_size) // 2
        self._fd = -1
        self._size = 0
        self._limit = 0
        self._retry_at = 0.0
        self.lost = 0
        """Bytes that never reached the disk."""
        self.error = ""
        """Why they did not, as a phrase: 'no space left on device'."""
        os.makedirs(folder, mode=0o700, exist_ok=True)
        on_disk = segments(folder)
        self.written = on_disk[-1][0] + on_disk[-1][1] if on_disk else 0
        """Bytes the job wrote so far, lost ones included."""
        self._starts = [start for start, _ in on_disk]

    def write(self, data: memoryview) -> None:
        while data:
            if self._size >= self._limit and time.monotonic() < self._retry_at:
                self._skip(len(data))
                return
            try:
                if self._size >= self._limit:
                    self._next_segment()
                done = os.write(self._fd, data[: self._limit - self._size])
            except OSError as problem:
                self.error = (problem.strerror or str(problem)).lower()
                self._retry_at = time.monotonic() + RETRY_S
                self._skip(len(data))
                return
            self._size += done
            self.written += done
            data = data[done:]

    def describe_loss(self) -> str:
        """One phrase for people; empty when nothing was lost."""
        return f"{self.error}: {self.lost} bytes of output were lost" if self.lost else ""

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _next_segment(self) -> None:
        self.close()
        if len(self._starts) > 2:  # the head and two of the tail: the older one makes room
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._folder}/{segment_name(self._starts[1])}")
            del self._starts[1]
        name = f"{self._folder}/{segment_name(self.written)}"
        self._fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._starts.append(self.written)
        self._size = 0
        self._limit = self._tail_size if len(self._starts) > 1 else self._head_size

    def _skip(self, count: int) -> None:
        """Go on without `count` bytes: the job must not wait for the disk."""
        if self._fd >= 0 and self._size == 0:
            with contextlib.suppress(OSError):
                os.unlink(f"{self._folder}/{segment_name(self._starts.pop())}")
        self.close()
        self.lost += count
        self.written += count
        self._size = self._limit = 0  # offsets inside a segment are contiguous: what comes next needs a new one
