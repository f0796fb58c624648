"""Reading a run's output: by absolute offset, while it grows or after it ended, with what the cap dropped as a gap."""

import os
from dataclasses import dataclass
from pathlib import Path

from gputui.engines.rundir import RunDir
from gputui.engines.supervision import records
from gputui.engines.supervision.logwriter import segment_name, segments


@dataclass(frozen=True, slots=True)
class LogPart:
    """A stretch of output. All offsets and counts in bytes since the run's start."""

    data: bytes
    offset: int
    """Where reading began, resolved when it was asked for from the end."""
    gap: int
    """Bytes between `offset` and the data that are not kept: over the cap, or lost to a full disk."""
    next_offset: int
    """Where to go on: `offset + gap + len(data)`."""
    written: int
    """All the job has written so far, kept or not."""
    ended: bool
    """Nothing will be added. `ended and next_offset == written` is the end of the output."""


def read(run_dir: Path, offset: int, limit: int) -> LogPart:
    """At most `limit` bytes from `offset` on; a negative `offset` counts from the end. A missing log is empty.

    Raises OSError when the log is there and cannot be read.
    """
    folder = str(run_dir / "log")
    # in this order: what is complete when the end is known is really complete
    run = RunDir(run_dir)
    ended = run.is_over()
    while True:
        on_disk = segments(folder)
        end = on_disk[-1][0] + on_disk[-1][1] if on_disk else 0
        total = (records.load(str(run_dir / "exit")) or {}).get("log_written")
        written = max(end, total) if ended and isinstance(total, int) else end
        start = max(0, written + offset) if offset < 0 else offset
        try:
            data, gap = _collect(folder, on_disk, start, limit)
        except FileNotFoundError:  # the ring moved on between the two looks
            continue
        if not data and ended:
            gap = max(0, written - start)
        return LogPart(data, start, gap, start + gap + len(data), written, ended)


def _collect(folder: str, on_disk: list[tuple[int, int]], start: int, limit: int) -> tuple[bytes, int]:
    """Contiguous bytes from the first kept one at or after `start`, and how many lie between."""
    parts: list[bytes] = []
    at = start
    gap = 0
    for first, size in on_disk:
        if first + size <= at:
            continue
        if first > at:
            if parts:
                break
            gap = first - start
            at = first
        parts.append(_read_segment(folder, first, at - first, min(limit, first + size - at)))
        at += len(parts[-1])
        limit -= len(parts[-1])
        if limit <= 0:
            break
    return b"".join(parts), gap


def _read_segment(folder: str, first: int, skip: int, count: int) -> bytes:
    fd = os.open(f"{folder}/{segment_name(first)}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, count, skip)
    finally:
        os.close(fd)
