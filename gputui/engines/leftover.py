"""Processes of a run whose supervisor is gone: found by what marks them as the run's, and ended in its place."""

import asyncio
import signal

from gputui.engines.rundir import RunDir
from gputui.engines.supervision import cgroup, procs

KILL_EVERY_S = 0.05


def pids(run_id: str, run: RunDir) -> tuple[int, ...]:
    """The run's top process with its descendants, its cgroup, and whatever has its run id in its environment."""
    found: set[int] = set()
    if group := run.cgroup():
        found.update(cgroup.pids(group))
    top = run.top()
    if top and procs.is_same(top.pid, top.start_time, top.boot_id):
        found.add(top.pid)
        found.update(procs.descendants(top.pid))
    found.update(procs.with_environment(b"GPUTUI_RUN_ID", run_id.encode()))
    return tuple(sorted(found))


async def end(run_id: str, run: RunDir, grace: float) -> None:
    """TERM, `grace` seconds, then KILL until none is left."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + grace
    left = _signal(run_id, run, signal.SIGTERM)
    while left:
        await asyncio.sleep(KILL_EVERY_S)
        left = _signal(run_id, run, signal.SIGKILL) if loop.time() >= deadline else len(pids(run_id, run))


def _signal(run_id: str, run: RunDir, number: int) -> int:
    found = pids(run_id, run)
    for pid in found:
        now = procs.stat(pid)
        if now is not None:
            procs.send(pid, now.start_time, number)
    return len(found)
