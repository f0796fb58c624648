"""What the daemon costs while it has nothing to do but watch: all GPUs taken, a long queue behind them."""

import time

import psutil

from bench.figures import Counts, Figure
from bench.place import daemon, place
from bench.processes import cpu_seconds, pss, rss
from bench.submits import GPUS, queue_of

SETTLE_SECONDS = 5.0


def measure(counts: Counts) -> list[Figure]:
    """CPU and memory of the daemon, its reader and one supervisor."""
    with place() as where, daemon(where, GPUS) as running:
        queue_of(running.client, counts.queued)
        running.until(8)
        time.sleep(SETTLE_SECONDS)
        pid = running.process.pid
        children = {child.pid: " ".join(child.cmdline()) for child in psutil.Process(pid).children()}
        (reader,) = [child for child, command in children.items() if "gputui.gpus.reader" in command]
        before, began = (cpu_seconds(pid), cpu_seconds(reader)), time.monotonic()
        time.sleep(counts.idle_seconds)
        lasted = time.monotonic() - began
        own, of_reader = (
            (cpu_seconds(one) - earlier) / lasted * 100 for one, earlier in zip((pid, reader), before, strict=True)
        )
        memory, reader_memory = rss(pid), rss(reader)
        held = [gpu["processes"][0]["pid"] for gpu in running.client.gpus()["gpus"] if gpu["processes"]]
        supervisors = {psutil.Process(job).ppid() for job in held}
        shares = [pss(supervisor) for supervisor in supervisors]
    return [
        Figure(f"daemon idle, {counts.queued:,} queued: CPU", own, "% of a core", 1.0),
        Figure(f"daemon idle, {counts.queued:,} queued: RSS", memory, "MiB", 200),
        Figure("its reader: CPU", of_reader, "% of a core"),
        Figure("its reader: RSS", reader_memory, "MiB"),
        Figure(f"a supervisor ({len(shares)} live): PSS", sum(shares) / len(shares), "MiB", detail={"each": shares}),
    ]
