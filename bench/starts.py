"""From a GPU freed to the next job's first instruction, beside task-spooler, with few and with many jobs queued.

The job is a small static program that stamps its first and last moment. Three parts make up the way from one job's
last moment to the next one's first: until sampling begins (the end is noticed and committed), the evidence (three
samples 20 ms apart, which task-spooler does without), and from the evidence to the next exec.
"""

import subprocess
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from bench import peers
from bench.figures import Counts, Figure, p50, p95
from bench.place import Place, compile_c, daemon, place
from bench.submits import ENV

GPUS = "1xh100-80g,1xl40s-48g"
LIMIT = 3.0


def measure(counts: Counts) -> list[Figure]:
    """One round per depth, each between two rounds of task-spooler."""
    figures: list[Figure] = []
    tsp = peers.task_spooler()
    with place() as where:
        stamp = compile_c("stamp.c", where.folder, "stamp")
        spooled = _spooler(tsp, where, stamp, counts.handoffs) if tsp else []
        for depth in counts.depths:
            found = _handoffs(where, stamp, depth, counts.handoffs)
            if tsp:
                again = _spooler(tsp, where, stamp, counts.handoffs)
                figures += _figures(depth, found, spooled + again)
                spooled = again
            else:
                figures += _figures(depth, found, [])
    return figures


def _figures(depth: int, found: dict[str, list[float]], spooled: list[float]) -> list[Figure]:
    peer = p50(spooled) * 1000 if spooled else None
    given, rest, whole = found["given"], found["rest"], found["whole"]
    detail = {name: {"p50_ms": p50(values) * 1000, "p95_ms": p95(values) * 1000} for name, values in found.items()}
    if spooled:
        detail["task-spooler"] = {"p50_ms": p50(spooled) * 1000, "p95_ms": p95(spooled) * 1000}
    name = f"freed → next exec, {depth:,} queued, p50"
    return [
        Figure(f"{name}: evidence given → exec", p50(given) * 1000, "ms", LIMIT, peer, "task-spooler", detail=detail),
        Figure(f"{name}: all but the evidence", p50(rest) * 1000, "ms", None, peer, "task-spooler"),
        Figure(f"{name}: the whole way", p50(whole) * 1000, "ms", None, peer, "task-spooler"),
    ]


def _handoffs(where: Place, stamp: Path, depth: int, count: int) -> dict[str, list[float]]:
    """Seconds of each part, `count` times; `depth` jobs of many lanes wait behind for a GPU that stays taken."""
    stamps, evidence = where.folder / f"stamps-{depth}", where.folder / f"evidence-{depth}"
    with daemon(where, GPUS, module="bench.traced_daemon", env={"BENCH_EVIDENCE": str(evidence)}) as running:
        holder = {"argv": ["sleep", "3600"], "gpu_type": "l40s-48g"}
        running.client.submit({"jobs": [holder], "cwd": "/", "env": ENV})
        running.until(1)
        running.client.submit_bulk(_waiting(depth), "/", ENV)
        mine = {"argv": [str(stamp), str(stamps)], "gpu_type": "h100-80g", "class": "core"}
        running.client.submit({"jobs": [mine] * (count + 1), "cwd": "/", "env": ENV})
        times = _stamps(stamps, count + 1)
    samplings = [tuple(map(float, line.split())) for line in evidence.read_text().splitlines()][:count]
    parts: dict[str, list[float]] = {"noticed": [], "evidence": [], "given": [], "rest": [], "whole": []}
    for (_, ended), (began, proven), (following, _) in zip(times[:-1], samplings, times[1:], strict=True):
        assert ended < began < proven < following
        parts["noticed"].append(began - ended)
        parts["evidence"].append(proven - began)
        parts["given"].append(following - proven)
        parts["whole"].append(following - ended)
        parts["rest"].append(following - ended - (proven - began))
    return {name: values[2:] for name, values in parts.items()}


def _waiting(depth: int) -> Iterator[dict[str, object]]:
    for number in range(depth):
        yield {
            "argv": ["sleep", "1"],
            "name": f"waiting-{number}",
            "class": ("core", "normal", "filler")[number % 3],
            "gpu_type": "l40s-48g",
            "gpu_memory": f"{1 + number % 40}GiB",
        }


def _spooler(tsp: str, where: Place, stamp: Path, count: int) -> list[float]:
    """Seconds from one job's last moment to the next one's first."""
    stamps = where.folder / "stamps-tsp"
    stamps.unlink(missing_ok=True)
    env = {**where.env, "TS_SOCKET": str(where.folder / "tsp.sock"), "TMPDIR": str(where.folder), "TS_MAXFINISHED": "5"}

    def spool(*arguments: str) -> None:
        subprocess.run([tsp, *arguments], env=env, check=True, stdout=subprocess.DEVNULL)

    spool("-S", "1")
    try:
        # everything is queued before the first may start, as in the other daemon
        spool("-n", "sleep", f"{0.5 + count * 0.01:.1f}")
        for _ in range(count + 1):
            spool("-n", str(stamp), str(stamps))
        times = _stamps(stamps, count + 1)
    finally:
        spool("-K")
    return [following - ended for (_, ended), (following, _) in pairwise(times)][2:]


def _stamps(file: Path, count: int) -> list[tuple[float, float]]:
    """First and last moment of `count` jobs, once they are all there."""
    deadline = time.monotonic() + 30 + count
    while True:
        lines = file.read_bytes().splitlines() if file.exists() else []
        if len(lines) >= count:
            return [(float(first), float(last)) for first, last in (line.split() for line in lines)]
        if time.monotonic() > deadline:
            raise TimeoutError(f"only {len(lines)} of {count} jobs ran")
        time.sleep(0.1)
