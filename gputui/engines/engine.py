"""What every engine offers the daemon: start a run once, tell what becomes of it, end it, find it again.

Run directory of the local engine (`layout 1`), one per run, named by the run's UUID:
`spec.json` what to run · `lock` flock held by the supervisor for life (inherited by the gated child)
· `revoked` must not start any more · `claim` O_EXCL, a supervisor took it: JSON pid, start time, boot id, cgroup
· `refused` why a supervisor did not take it · `pid` the same of the job's topmost process, synced
· `noexec` the child never reached exec · `began` exec is proved · `stop` JSON grace, an end was asked for
· `exit` JSON, whole and synced: the end · `failure` last words of a supervisor that failed
· `output` FIFO of the job's output · `log/` its segments.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RunSpec:
    """All a supervisor needs. Bytes stay bytes."""

    run_id: str
    job_id: int
    attempt: int
    argv: tuple[bytes, ...]
    cwd: bytes
    env: dict[bytes, bytes] = field(hash=False)
    """Complete: captured, documented list, GPUTUI_* and CUDA_* already in it."""
    gpu_uuids: tuple[str, ...] = ()
    grace: float = 120.0
    log_cap: int = 64 * 1024 * 1024
    interactive: bool = False
    share: bool = False
    """Its GPUs may have other sharing runs on them; their machine-wide locks are taken as shared ones."""


class EndReason(StrEnum):
    """Why a run ended; the daemon adds what only it knows (cancelled, time limit)."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    NOEXEC = "noexec"
    """The program could not be executed (`error` says why): missing file, directory gone."""
    LOST = "lost"
    """It began, and its end was not seen: supervisor gone, reboot."""
    GONE = "gone"
    """Its run directory vanished: nobody can tell how it ended, nor whether it still runs."""
    REVOKED = "revoked"
    """It never began."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended."""

    reason: EndReason
    exit_code: int | None = None
    signal: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    duration: float | None = None
    """Seconds from exec to the end by the monotonic clock."""
    error: str = ""
    """One sentence for people: 'cannot run train.py: no such file'."""
    oom_killed: bool = False
    log_error: str = ""
    """Output lost on its way to disk ('disk full'), if any."""
    rebooted: bool = False
    """LOST, since the machine was restarted while it ran: nobody's fault, and nothing of it is left."""


class Found(StrEnum):
    """What a look at a run directory after a restart says; see 'Exactly once, in steps' in the design."""

    RUNNING = "running"
    FINISHED = "finished"
    NEVER_BEGAN = "never_began"
    LOST = "lost"
    MISSING = "missing"
    """No directory: nothing followed the commit of the intent, or someone took it away; the store knows which."""


@dataclass(frozen=True, slots=True)
class Began:
    """The job's program runs: the identity of its topmost process."""

    pid: int
    start_time: int
    boot_id: str


OnBegan = Callable[[str, Began], None]
"""(run_id, identity), called in the event loop's thread once exec is proved."""
OnEnd = Callable[[str, RunEnd], None]
"""(run_id, end), called in the event loop's thread exactly once per started or adopted run."""


class Engine(Protocol):
    """Both engines (`local`, later `slurm`) satisfy this. All methods are for one event loop."""

    async def open(self, on_began: OnBegan, on_end: OnEnd) -> None:
        """Get ready (the local engine starts its fork server)."""
        ...

    async def start(self, spec: RunSpec) -> None:
        """Write the spec and start a supervisor. Returns when the supervisor is on its way, not when it execs.

        Raises OSError when nothing was started (disk full, no memory): the caller revokes and requeues.
        An interactive spec is only written: the client starts the supervisor on its own terminal.
        """
        ...

    async def recover(self, run_id: str) -> Found:
        """Look at a run directory after a restart. RUNNING: adopted, its end will be told. FINISHED: told at once.

        NEVER_BEGAN: `revoked` was written under the lock first.
        """
        ...

    async def revoke(self, run_id: str) -> bool:
        """Forbid a run that has not begun; False when it has begun already."""
        ...

    async def stop(self, run_id: str, grace: float) -> None:
        """TERM to the run, `grace` seconds, KILL until no process is left. Returns at once; the end is told later."""
        ...

    def pids(self, run_id: str) -> tuple[int, ...]:
        """All live processes of a run now (session, reparented children, cgroup)."""
        ...

    def run_dir(self, run_id: str) -> Path: ...

    async def forget(self, run_id: str) -> None:
        """Its end is committed: what is needed only for recovery may go (the log stays)."""
        ...

    async def close(self) -> None:
        """Stop following. Runs go on."""
        ...
