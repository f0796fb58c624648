"""Starting runs: from the decision to the job's first instruction, and from an end to the next start.

`python bench/bench_start.py [--runs N] [--busy]`. The job is a static binary or shell that stamps the monotonic clock
(`--busy` burns all cores meanwhile). Figures in milliseconds, run directory and fsyncs included.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

from gputui.engines.engine import Began, RunEnd, RunSpec
from gputui.engines.local import LocalEngine

STAMP = r"""
#include <stdio.h>
#include <time.h>
int main(int argc, char **argv) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    FILE *f = fopen(argv[1], "a");
    fprintf(f, "%lld.%09ld\n", (long long)t.tv_sec, t.tv_nsec);
    return fclose(f);
}
"""


def compile_stamp(folder: Path) -> Path:
    """A program that appends the time of its first instruction to a file."""
    (folder / "stamp.c").write_text(STAMP)
    subprocess.run(["cc", "-O2", "-static", "-o", folder / "stamp", folder / "stamp.c"], check=True)
    return folder / "stamp"


async def measure(folder: Path, stamp: Path, runs: int, *, cold: bool) -> tuple[list[float], list[float]]:
    """(decision → first instruction, end told → next first instruction), both in ms."""
    stamps = folder / f"stamps-{cold}"
    ended: asyncio.Queue[float] = asyncio.Queue()

    def on_end(_run_id: str, end: RunEnd) -> None:
        if end.exit_code != 0:
            sys.exit(f"a run failed: {end}")
        ended.put_nowait(time.monotonic())

    def on_began(_run_id: str, _began: Began) -> None:
        pass

    engine = LocalEngine(folder / "runs", folder / "locks")
    await engine.open(on_began, on_end)
    decided, told = [], []
    for number in range(runs + 5):
        run_id = str(uuid.uuid4())
        argv = (os.fsencode(stamp), os.fsencode(stamps))
        decided.append(time.monotonic())
        if cold:
            engine._launcher.close()
            engine._launcher.open = lambda: None  # type: ignore[method-assign]
        await engine.start(RunSpec(run_id, number, 1, argv, b"/", {b"GPUTUI_RUN_ID": run_id.encode()}, ("GPU-bench",)))
        told.append(await ended.get())
        await engine.forget(run_id)
    await engine.close()
    first = [float(line) for line in stamps.read_text().split()]
    starts = [(at - since) * 1000 for at, since in zip(first, decided, strict=True)][5:]
    nexts = [(at - since) * 1000 for at, since in zip(first[1:], first[:-1], strict=True)][5:]
    return starts, nexts


def line(name: str, values: list[float]) -> str:
    p95 = statistics.quantiles(values, n=20)[-1]
    return f"{name:<46} p50 {statistics.median(values):6.2f}   p95 {p95:6.2f}   n {len(values)}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--busy", action="store_true")
    options = parser.parse_args()
    burners = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1) if options.busy
    ]
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            stamp = compile_stamp(folder)
            starts, nexts = asyncio.run(measure(folder, stamp, options.runs, cold=False))
            print(line("fork server: decision to first instruction, ms", starts))
            print(line("fork server: one job's start to the next's, ms", nexts))
            starts, _ = asyncio.run(measure(folder, stamp, max(options.runs // 5, 20), cold=True))
            print(line("cold: decision to first instruction, ms", starts))
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


if __name__ == "__main__":
    main()
