"""A snapshot as the rows of the protocol, for the monitor that has no daemon to ask: it knows of no jobs."""

import time
from collections.abc import Callable
from typing import TypeVar

from gputui.domain.gpu import GpuState
from gputui.gpus.reading import GpuReading, HostReading, Missing, Problem, ProcessReading, Snapshot
from gputui.protocol import GpuProcess, GpuRow, GpusReply, HostRow, ProblemRow

_Value = TypeVar("_Value", int, float)
HistoryOf = Callable[[str], list[int | None]]
_IDLE_MEMORY = 1 << 30
"""Bytes that drivers and display servers keep on a GPU that nobody uses."""
_READINGS = (
    "utilization",
    "memory_used",
    "memory_total",
    "temperature",
    "power",
    "power_limit",
    "fan",
    "sm_clock",
)


def known(value: _Value | Missing) -> _Value | None:
    """The value, or None where there is none."""
    return None if isinstance(value, Missing) else value


def unsupported(gpu: GpuReading) -> list[str]:
    """Names of the readings that this GPU cannot give at all."""
    return [name for name in _READINGS if getattr(gpu, name) is Missing.UNSUPPORTED]


def state(gpu: GpuReading, problem: Problem | None) -> GpuState:
    """What a GPU is without knowledge of jobs: free on evidence only."""
    if gpu.lost:
        return GpuState.LOST
    if problem is not None or gpu.processes is None or gpu.memory_used is Missing.UNKNOWN:
        return GpuState.UNKNOWN
    if gpu.processes or (isinstance(gpu.memory_used, int) and gpu.memory_used > _IDLE_MEMORY):
        return GpuState.BUSY
    return GpuState.FREE


def process_row(process: ProcessReading, *, managed: bool = False) -> GpuProcess:
    """One process of a GPU."""
    row = GpuProcess(
        pid=process.pid,
        user=process.user,
        command=process.command,
        memory_used=known(process.memory),
        managed=managed,
        sm=known(process.sm),
    )
    if process.container:
        row["container"] = process.container
    return row


def host_row(host: HostReading, cpu_history: list[float | None] | None = None) -> HostRow:
    """The host line."""
    return HostRow(
        hostname=host.hostname,
        cpu_percent=known(host.cpu_percent),
        cpu_count=host.cpu_count,
        load_1m=known(host.load_1m),
        memory_used=known(host.memory_used),
        memory_total=known(host.memory_total),
        disks=list(host.disks),
        net_rx=known(host.net_rx),
        net_tx=known(host.net_tx),
        cpu_history=cpu_history or [],
    )


def problem_row(problem: Problem | None) -> ProblemRow | None:
    """The problem, if any."""
    if problem is None:
        return None
    return ProblemRow(code=problem.code, sentence=problem.sentence, remedy=problem.remedy)


def gpu_row(gpu: GpuReading, problem: Problem | None = None, history: list[int | None] | None = None) -> GpuRow:
    """One GPU and the processes on it."""
    processes = gpu.processes or ()
    largest = max(processes, key=lambda process: known(process.memory) or 0, default=None)
    return GpuRow(
        uuid=gpu.uuid,
        index=gpu.index,
        name=gpu.name,
        type=gpu.type,
        state=state(gpu, problem),
        utilization=known(gpu.utilization),
        memory_used=known(gpu.memory_used),
        memory_total=known(gpu.memory_total),
        temperature=known(gpu.temperature),
        power=known(gpu.power),
        job_id=None,
        processes=[process_row(process) for process in processes],
        unsupported=unsupported(gpu),
        power_limit=known(gpu.power_limit),
        fan=known(gpu.fan),
        sm_clock=known(gpu.sm_clock),
        throttle=list(gpu.throttle),
        mig_parent=gpu.mig_parent or None,
        unified_memory=gpu.unified_memory,
        why=_why(gpu, problem),
        cordon=None,
        run_ids=[],
        job_ids=[],
        held_by=largest.command if largest else "",
        held_user=largest.user if largest else "",
        held_since=None,
        warnings=list(gpu.warnings),
        history=history or [],
    )


def reply(snapshot: Snapshot, history: HistoryOf | None = None, cpu: list[float | None] | None = None) -> GpusReply:
    """The whole snapshot; `history` gives each GPU's last minute."""
    return GpusReply(
        sampled_at=snapshot.sampled_at.isoformat(),
        age=max(0.0, round(time.monotonic() - snapshot.monotonic, 3)),
        source=snapshot.source,
        driver=snapshot.driver,
        problem=problem_row(snapshot.problem),
        host=host_row(snapshot.host, cpu),
        gpus=[gpu_row(gpu, snapshot.problem, history and history(gpu.uuid)) for gpu in snapshot.gpus],
    )


def _why(gpu: GpuReading, problem: Problem | None) -> str:
    if gpu.lost:
        return gpu.lost
    if gpu.xid is not None:
        return f"Xid {gpu.xid}"
    if problem is not None:
        return "stale"
    if gpu.mig_enabled:
        return "cut into MIG instances"
    return ""
