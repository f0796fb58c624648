"""The screen: its first frame beside a bare Textual app's, and how soon a key shows in it."""

import random
import time

from bench.figures import Counts, Figure, p50, p95
from bench.place import GPUTUI, PYTHON, ROOT, daemon, place
from bench.processes import family, rss
from bench.submits import GPUS, queue_of
from bench.terminal import Terminal

GPU_ROW = rb"a10-24g"
QUEUE_ROW = rb"\x1b\[(?:1[4-9]|2\d|3[0-8]);\d+H"
"""Something is written among the jobs: with 50 lines they stand there, and nothing moves in them while nothing happens.
"""
KEYS = (b"j", b"j", b"j", b"k", b"j", b"\x04", b"k", b"j", b"\x04", b"j", b"k", b"\x15")


def first_frames(counts: Counts) -> list[Figure]:
    """From exec to the first GPU row, and to a bare Textual app's only line, in turns."""
    ours: list[float] = []
    bare: list[float] = []
    bare_app = [*PYTHON, str(ROOT / "bench" / "bare_textual.py")]
    with place() as where, daemon(where, GPUS) as running:
        queue_of(running.client, 20)
        for _ in range(counts.frames):
            ours.append(_first(GPUTUI, running.env, GPU_ROW))
            bare.append(_first(bare_app, where.env, rb"READY"))
    return [
        Figure(
            "first frame with data, daemon running", p50(ours[1:]) * 1000, "ms", 1.5, p50(bare[1:]) * 1000,
            "bare Textual app", detail={"ours_ms": _ms(ours), "bare_ms": _ms(bare)},
        )
    ]  # fmt: skip


def _first(command: list[str], env: dict[str, str], pattern: bytes) -> float:
    with Terminal(command, env) as terminal:
        return terminal.wait_for(pattern) - terminal.began


def keys(counts: Counts) -> list[Figure]:
    """From a key handed to the terminal until the jobs are painted; the screen's memory after that."""
    chance = random.Random(3)
    waits: list[float] = []
    with place() as where, daemon(where, GPUS) as running:
        queue_of(running.client, counts.queued)
        running.until(8)
        with Terminal(GPUTUI, running.env) as terminal:
            terminal.wait_for(GPU_ROW)
            terminal.wait_for(rb"sweep-")
            terminal.settle(0.4, 3)
            for number in range(counts.keys):
                mark = terminal.mark()
                pressed = terminal.send(KEYS[number % len(KEYS)])
                waits.append(terminal.wait_for(QUEUE_ROW, mark) - pressed)
                time.sleep(chance.uniform(0.1, 0.4))
            memory = rss(terminal.process.pid)
            processes = len(family(terminal.process.pid))
    detail = {"queued": counts.queued, "waits_ms": _ms(waits)}
    return [
        Figure(f"key to paint, {counts.queued:,} queued, p50", p50(waits) * 1000, "ms", detail=detail),
        Figure(f"key to paint, {counts.queued:,} queued, p95", p95(waits) * 1000, "ms", 50),
        Figure("screen process, RSS", memory, "MiB", 80, detail={"processes": processes}),
    ]


def measure(counts: Counts) -> list[Figure]:
    """Both."""
    return first_frames(counts) + keys(counts)


def _ms(seconds: list[float]) -> list[float]:
    return [round(one * 1000, 2) for one in seconds]
