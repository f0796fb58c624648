"""The scheduling pass at size: build, full pass on free GPUs, and events (a GPU freed, then decided) on a full house.

python bench/bench_pass.py [--jobs N] [--gpus N] [--lanes N] [--distinct-memory] [--json]
"""

import argparse
import gc
import json
import random
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from gputui.domain.gpu import GpuState, GpuView
from gputui.domain.job import CLASSES, Demand, QueuedJob
from gputui.domain.scheduler import Plan, Scheduler

GIB = 1 << 30
TYPES = (("l40s-48g", 30, 45), ("a100-40g", 40, 40), ("a100-80g", 41, 80), ("h100-80g", 50, 80), ("h200-141g", 60, 141))


def make_demands(lanes: int, rng: random.Random) -> list[Demand]:
    """As many demands of different lanes: counts, type sets, memory, sharing."""
    demands: dict[tuple[object, ...], Demand] = {}
    names = [name for name, _, _ in TYPES]
    while len(demands) < lanes:
        types = frozenset(rng.sample(names, rng.choice((1, 1, 2, 3, 5))))
        memory = rng.choice((0, 0, 10, 20, 30, 38)) * GIB
        demand = Demand(rng.choice((1, 1, 1, 2, 4, 8)), types, memory, bool(memory) and rng.random() < 0.1)
        demands[demand.gpus, demand.types, demand.memory, demand.share] = demand
    return list(demands.values())


def make_jobs(count: int, demands: list[Demand], distinct_memory: bool, rng: random.Random) -> list[QueuedJob]:
    """Waiting jobs in order of submit."""
    jobs = []
    for number in range(1, count + 1):
        demand = rng.choice(demands)
        if distinct_memory and demand.memory:
            demand = replace(demand, memory=demand.memory - rng.randrange(GIB))
        jobs.append(QueuedJob(number, rng.choice(CLASSES), rng.randrange(-5, 6), number, demand))
    return jobs


def make_gpus(count: int) -> list[GpuView]:
    """Nodes of eight GPUs of one type each."""
    gpus = []
    for number in range(count):
        name, rank, memory = TYPES[number // 8 % len(TYPES)]
        total = memory * GIB
        gpus.append(GpuView(f"GPU-{number:04d}", name, rank, f"node{number // 8:03d}", total, total - GIB // 2))
    return gpus


def busy(gpu: GpuView, demand: Demand) -> GpuView:
    """The GPU once a run of `demand` holds it."""
    if demand.share:
        return replace(gpu, state=GpuState.BUSY, shared_runs=gpu.shared_runs + 1, promised=gpu.promised + demand.memory)
    return replace(gpu, state=GpuState.BUSY)


def apply(scheduler: Scheduler, plan: Plan) -> None:
    """What the daemon does once a plan is committed."""
    for start in plan.starts:
        demand = scheduler.remove(start.job_id).demand
        for uuid in start.gpu_uuids:
            scheduler.set_gpu(busy(scheduler.pool.get(uuid), demand))


def measure(jobs: int, gpus: int, lanes: int, events: int, distinct_memory: bool) -> dict[str, float]:
    """Run it all once; milliseconds. The `cpu` figures leave out what other programs took meanwhile."""
    rng = random.Random(20)
    waiting = make_jobs(jobs, make_demands(lanes, rng), distinct_memory, rng)
    all_gpus = make_gpus(gpus)
    free = {gpu.uuid: gpu for gpu in all_gpus}
    gc.collect()
    gc.freeze()

    began = time.perf_counter()
    scheduler = Scheduler()
    for gpu in all_gpus:
        scheduler.set_gpu(gpu)
    scheduler.add_all(waiting)
    build = time.perf_counter() - began

    gc.freeze()
    began = time.perf_counter()
    plan = scheduler.plan()
    full_pass = time.perf_counter() - began
    started = len(plan.starts)
    apply(scheduler, plan)

    began = time.perf_counter()
    scheduler.plan()
    idle_pass = time.perf_counter() - began

    times, cpu = [], []
    for _ in range(events):
        uuid = rng.choice(all_gpus).uuid
        began, cpu_began = time.perf_counter(), time.thread_time()
        scheduler.set_gpu(free[uuid])
        plan = scheduler.plan()
        times.append(time.perf_counter() - began)
        cpu.append(time.thread_time() - cpu_began)
        apply(scheduler, plan)

    began = time.perf_counter()
    for number in range(jobs + 1, jobs + 1001):
        scheduler.add(replace(waiting[0], id=number, submitted_seq=number))
    submit = (time.perf_counter() - began) / 1000
    began = time.perf_counter()
    for number in range(jobs + 1, jobs + 1001):
        scheduler.position(number)
    position = (time.perf_counter() - began) / 1000
    seconds = {
        "build": build, "full_pass": full_pass, "idle_pass": idle_pass,
        "event_p50": statistics.median(times), "event_p95": statistics.quantiles(times, n=20)[-1],
        "event_max": max(times), "event_cpu_p50": statistics.median(cpu),
        "event_cpu_p95": statistics.quantiles(cpu, n=20)[-1], "submit": submit, "position": position,
    }  # fmt: skip
    return {"started": float(started)} | {f"{name}_ms": round(value * 1000, 4) for name, value in seconds.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--gpus", type=int, default=1_000)
    parser.add_argument("--lanes", type=int, default=300)
    parser.add_argument("--events", type=int, default=1_000)
    parser.add_argument("--distinct-memory", action="store_true", help="each job asks for a size of its own")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = measure(args.jobs, args.gpus, args.lanes, args.events, args.distinct_memory)
    if args.json:
        print(json.dumps({"jobs": args.jobs, "gpus": args.gpus, "lanes": args.lanes} | figures))
    else:
        for name, value in figures.items():
            print(f"{name:>14}  {value:12.4f}")


if __name__ == "__main__":
    main()
