"""A trainer in miniature: logs a falling loss, saves checkpoints, resumes from one, and saves once more on TERM.

It works a little and sleeps the rest of each step, as its load says; 0.1 core shows as a fully busy GPU.
"""

import argparse
import json
import math
import os
import random
import signal
import sys
import time
from pathlib import Path

FULL_LOAD = 0.1
SLICE_S = 0.1


def main() -> int:
    """Train; the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60, help="how long the whole training takes")
    parser.add_argument("--load", type=float, default=0.9, help="0 to 1: how busy the GPU shows")
    parser.add_argument("--save-every", type=float, default=10, help="seconds between checkpoints")
    parser.add_argument("--fail-at", type=float, help="run out of memory after so many seconds")
    options = parser.parse_args()

    folder = Path(os.environ.get("GPUTUI_CHECKPOINT_DIR") or ".")
    done = _resumed(os.environ.get("GPUTUI_RESUME_FROM", ""))
    total = round(options.seconds / SLICE_S)
    every = max(1, round(options.save_every / SLICE_S))
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    print(f"step {done} of {total}, GPUs {os.environ.get('CUDA_VISIBLE_DEVICES') or 'none'}", flush=True)
    for step in range(done + 1, total + 1):
        began = time.monotonic()
        _work(options.load * FULL_LOAD * SLICE_S)
        if step % 10 == 0:
            loss = 1.7 + 2.4 * math.exp(-3 * step / total) + random.gauss(0, 0.02)
            print(f"step {step}/{total}  loss {loss:.3f}  lr {3e-4 * (1 - step / total):.2e}", flush=True)
        if options.fail_at is not None and step * SLICE_S >= options.fail_at:
            print("RuntimeError: CUDA error: out of memory while allocating 2.31 GiB", file=sys.stderr, flush=True)
            return 1
        if step % every == 0 or stopping:
            _save(folder, step)
        if stopping:
            print("asked to stop: saved, bye", flush=True)
            return 0
        time.sleep(max(0.0, SLICE_S - (time.monotonic() - began)))
    print("done", flush=True)
    return 0


def _work(seconds: float) -> None:
    """Use the processor for so long."""
    end = time.process_time() + seconds
    value = 0.5
    while time.process_time() < end:
        for _ in range(200):
            value = 3.9 * value * (1 - value)


def _save(folder: Path, step: int) -> None:
    """Write a checkpoint whole: under another name first, then renamed."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".step-{step:06}.tmp"
    unfinished.write_text(json.dumps({"step": step, "weights": [0.0] * 512}))
    unfinished.rename(folder / f"step-{step:06}.ckpt")
    for old in sorted(folder.glob("step-*.ckpt"))[:-3]:
        old.unlink()
    print(f"saved step-{step:06}.ckpt", flush=True)


def _resumed(checkpoint: str) -> int:
    if not checkpoint:
        return 0
    print(f"resuming from {checkpoint}", flush=True)
    return int(json.loads(Path(checkpoint).read_text())["step"])


if __name__ == "__main__":
    sys.exit(main())
