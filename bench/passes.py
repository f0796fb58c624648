"""The scheduling pass at size, in a process of its own; see `bench_pass.py`."""

import json
import subprocess
import sys

from bench.figures import Counts, Figure
from bench.place import ROOT


def measure(counts: Counts) -> list[Figure]:
    """Build, full pass, one event."""
    size = ["--jobs", str(counts.pass_jobs), "--gpus", str(counts.pass_gpus)]
    command = [sys.executable, str(ROOT / "bench" / "bench_pass.py"), "--json", *size]
    rounds = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(3)]
    best = {name: min(one[name] for one in rounds) for name in rounds[0]}
    name = f"pass, {counts.pass_jobs:,} × {counts.pass_gpus:,}"
    return [
        Figure(f"{name}: build", best["build_ms"], "ms", 200, detail={"rounds": rounds}),
        Figure(f"{name}: full pass", best["full_pass_ms"], "ms", 50),
        Figure(f"{name}: one event, p95", best["event_p95_ms"], "ms", 2),
    ]
