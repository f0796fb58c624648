"""The local engine: runs as detached supervisors on this machine, followed by pidfd and inotify."""

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from gputui.engines import cgroup, gpulock, procs
from gputui.engines.engine import Found, OnBegan, OnEnd, RunSpec
from gputui.engines.launcher import Launcher
from gputui.engines.rundir import RunDir
from gputui.engines.watch import DirectoryWatch

LOOK_AGAIN_S = 0.25
"""How often a run is looked at whose lock is held although its supervisor is gone or not known."""
KILL_EVERY_S = 0.05


@dataclass(slots=True)
class _Followed:
    """A run whose end is still to be told."""

    dir: RunDir
    pidfd: int | None = None
    began_told: bool = False
    timer: asyncio.TimerHandle | None = None
    ending: asyncio.Task[None] | None = None
    """Ends the run in place of a supervisor that was killed."""


class LocalEngine:
    """`Engine` for this machine. `runs_root` holds the run directories; `locks_root` the machine's GPU locks."""

    def __init__(self, runs_root: Path, locks_root: Path | None = None) -> None:
        self._root = runs_root
        self._locks = str(locks_root) if locks_root else gpulock.default_folder()
        self._launcher = Launcher()
        self._runs: dict[str, _Followed] = {}

    async def open(self, on_began: OnBegan, on_end: OnEnd) -> None:
        """Start the fork server. Raises OSError when the folder for runs cannot be made."""
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._on_began, self._on_end = on_began, on_end
        self._watch = DirectoryWatch(self._on_file)
        self._launcher.open()

    async def start(self, spec: RunSpec) -> None:
        """See `Engine.start`. Raises FileExistsError when this run was started before."""
        run = RunDir(self.run_dir(spec.run_id))
        run.create(spec, self._locks)
        followed = self._follow(spec.run_id, run)
        if spec.interactive:
            return
        try:
            fd = await self._launcher.start(run.path)
        except OSError:
            self._unfollow(spec.run_id)
            raise
        self._attach(spec.run_id, followed, fd)

    async def recover(self, run_id: str) -> Found:
        run = RunDir(self.run_dir(run_id))
        found = run.look()
        if found is Found.RUNNING:
            self._follow(run_id, run)
            self._look(run_id)
        elif found in (Found.FINISHED, Found.LOST):
            self._follow(run_id, run)
            self._tell_end(run_id, found)
        return found

    async def revoke(self, run_id: str) -> bool:
        found = RunDir(self.run_dir(run_id)).look()
        if found is Found.NEVER_BEGAN:
            self._unfollow(run_id)
        return found in (Found.NEVER_BEGAN, Found.MISSING)

    async def stop(self, run_id: str, grace: float) -> None:
        run = RunDir(self.run_dir(run_id))
        run.ask_to_stop(grace)
        self._pass_on_stop(run_id, run)

    def pids(self, run_id: str) -> tuple[int, ...]:
        run = RunDir(self.run_dir(run_id))
        supervisor = run.supervisor()
        if supervisor and procs.is_same(supervisor.pid, supervisor.start_time, supervisor.boot_id):
            return tuple(procs.descendants(supervisor.pid))
        return tuple(_left_behind(run_id, run))

    def run_dir(self, run_id: str) -> Path:
        return self._root / run_id

    async def forget(self, run_id: str) -> None:
        self._unfollow(run_id)
        RunDir(self.run_dir(run_id)).forget()

    async def close(self) -> None:
        for run_id in list(self._runs):
            self._unfollow(run_id)
        self._watch.close()
        self._launcher.close()

    def locked_by_others(self, uuids: list[str]) -> set[str]:
        """GPUs that a run of somebody else has locked: another user's daemon, or another one of mine."""
        mine: set[str] = set()
        for followed in self._runs.values():
            mine |= followed.dir.gpu_uuids()
        return gpulock.locked(self._locks, [uuid for uuid in uuids if uuid not in mine])

    # following

    def _follow(self, run_id: str, run: RunDir) -> _Followed:
        followed = self._runs.get(run_id)
        if followed is None:
            followed = self._runs[run_id] = _Followed(run)
            self._watch.add(run_id, os.fsencode(run.path))
        return followed

    def _unfollow(self, run_id: str) -> None:
        followed = self._runs.pop(run_id, None)
        if followed is None:
            return
        self._watch.remove(run_id)
        self._detach(followed)
        if followed.timer:
            followed.timer.cancel()
        if followed.ending:
            followed.ending.cancel()

    def _attach(self, run_id: str, followed: _Followed, fd: int | None) -> None:
        """Follow the supervisor by its pidfd; with None look at once, since it is over."""
        if self._runs.get(run_id) is not followed or followed.pidfd is not None:
            if fd is not None:
                os.close(fd)
            return
        if fd is None:
            self._look(run_id)
            return
        followed.pidfd = fd
        asyncio.get_running_loop().add_reader(fd, self._supervisor_gone, run_id)

    def _detach(self, followed: _Followed) -> None:
        if followed.pidfd is not None:
            asyncio.get_running_loop().remove_reader(followed.pidfd)
            os.close(followed.pidfd)
            followed.pidfd = None

    def _supervisor_gone(self, run_id: str) -> None:
        self._launcher.collect()
        self._detach(self._runs[run_id])
        self._look(run_id)

    def _on_file(self, run_id: str, name: str) -> None:
        if name in ("began", "exit", "claim"):
            self._look(run_id)

    def _look(self, run_id: str) -> None:
        """See where a followed run stands, and tell what is new."""
        followed = self._runs.get(run_id)
        if followed is None:
            return
        self._tell_began(run_id, followed)
        if followed.pidfd is not None or followed.dir.is_interactive():
            # its supervisor lives, or a client may still start it: only a record can be news
            found = Found.FINISHED if (followed.dir.path / "exit").exists() else Found.RUNNING
        else:
            found = followed.dir.look()
        if found is not Found.RUNNING:
            self._tell_end(run_id, found)
            return
        if followed.pidfd is None:
            self._find_supervisor(run_id, followed)

    def _find_supervisor(self, run_id: str, followed: _Followed) -> None:
        claimed = followed.dir.supervisor()
        fd = procs.open_pidfd(claimed.pid, claimed.start_time, claimed.boot_id) if claimed else None
        if fd is not None:
            self._attach(run_id, followed, fd)
            return
        if claimed is not None and followed.dir.stop_grace() is not None:
            self._pass_on_stop(run_id, followed.dir)
        if followed.timer:
            followed.timer.cancel()
        followed.timer = asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._look, run_id)

    def _tell_began(self, run_id: str, followed: _Followed) -> None:
        if followed.began_told:
            return
        began = followed.dir.began()
        if began is not None:
            followed.began_told = True
            self._on_began(run_id, began)

    def _tell_end(self, run_id: str, found: Found) -> None:
        followed = self._runs[run_id]
        self._tell_began(run_id, followed)
        end = followed.dir.end(found)
        self._unfollow(run_id)
        self._on_end(run_id, end)

    # ending

    def _pass_on_stop(self, run_id: str, run: RunDir) -> None:
        """Wake the supervisor, which reads `stop`; in place of one that was killed, end the run ourselves."""
        supervisor = run.supervisor()
        if supervisor is None:
            return  # it looks for `stop` after its claim and before the gate
        fd = procs.open_pidfd(supervisor.pid, supervisor.start_time, supervisor.boot_id)
        if fd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGUSR1)
            os.close(fd)
            return
        followed = self._runs.get(run_id)
        if followed is not None and followed.ending is None:
            followed.ending = asyncio.get_running_loop().create_task(_end_left_behind(run_id, run))


def _left_behind(run_id: str, run: RunDir) -> list[int]:
    """Live processes of a run whose supervisor is gone: its top process with descendants, and who has its run id."""
    found: set[int] = set()
    group = run.cgroup()
    if group:
        found.update(cgroup.pids(group))
    top = run.top()
    if top and procs.is_same(top.pid, top.start_time, top.boot_id):
        found.add(top.pid)
        found.update(procs.descendants(top.pid))
    found.update(procs.with_environment(b"GPUTUI_RUN_ID", run_id.encode()))
    return sorted(found)


def _signal_left_behind(run_id: str, run: RunDir, number: int) -> int:
    found = _left_behind(run_id, run)
    for pid in found:
        now = procs.stat(pid)
        if now is not None:
            procs.send(pid, now.start_time, number)
    return len(found)


async def _end_left_behind(run_id: str, run: RunDir) -> None:
    grace = run.stop_grace() or 0.0
    loop = asyncio.get_running_loop()
    deadline = loop.time() + grace
    left = _signal_left_behind(run_id, run, signal.SIGTERM)
    while left:
        await asyncio.sleep(KILL_EVERY_S)
        if loop.time() >= deadline:
            left = _signal_left_behind(run_id, run, signal.SIGKILL)
        else:
            left = len(_left_behind(run_id, run))
