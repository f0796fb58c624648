"""How fast the store is: bulk submit, loading the queue, one small transaction. Prints JSON.

python bench/bench_store.py [JOBS]
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from gputui.domain.job import Demand, JobSpec
from gputui.store import audit, jobs
from gputui.store.db import Store

COMMITS = 300


def specs(count: int) -> list[JobSpec]:
    """Jobs as a sweep submits them: one environment of 40 variables, a name and arguments each, an input each tenth."""
    env = {b"VARIABLE_%d" % n: b"value" * 8 for n in range(40)}
    demand = Demand(1, frozenset({"h100-80g"}), 40 << 30)
    return [
        JobSpec(
            argv=(b"python", b"train.py", b"--seed", b"%d" % n),
            cwd=b"/home/ann/project",
            env=env,
            name=f"sweep-{n}",
            demand=demand,
            duration=3600.0,
            datasets=("laion",) if n % 10 == 0 else (),
        )
        for n in range(count)
    ]


def timed(act: Callable[[], object]) -> float:
    """Seconds that `act` takes."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def main(count: int) -> dict[str, float]:
    """Figures of a store with `count` waiting jobs."""
    now = datetime.now(UTC)
    wanted = specs(count)
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "gputui.db", "bench") as store:
        store.take_leadership(now)

        def submit() -> None:
            with store.write() as session:
                jobs.insert_jobs(session, wanted, owner_uid=0, owner="ann", host_id="bench", at=now, first_seq=1)
                audit.append(session, at=now, uid=0, who="ann", session_token="", act="job.submit", subject="jobs")

        def load() -> None:
            with store.read() as session:
                assert sum(1 for _ in jobs.load_waiting(session)) == count

        def change() -> None:
            for n in range(COMMITS):
                with store.write() as session:
                    jobs.update_job(session, n % count + 1, priority=n)

        inserted, loaded, changed = timed(submit), timed(load), timed(change)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
    return {
        "jobs": count,
        "bulk_submit_jobs_per_s": round(count / inserted),
        "load_waiting_s": round(loaded, 3),
        "commit_ms": round(changed / COMMITS * 1000, 3),
        "bytes_per_job": round(size / count),
    }


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)))
