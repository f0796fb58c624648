"""The local engine: runs as detached supervisors on this machine, followed by pidfd and inotify."""

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from gputui.engines import leftover
from gputui.engines.engine import Found, OnBegan, OnEnd, RunSpec
from gputui.engines.launcher import Launcher
from gputui.engines.rundir import RunDir
from gputui.engines.supervision import gpulock, procs
from gputui.engines.watch import DirectoryWatch

LOOK_AGAIN_S = 0.25
"""How often a run is looked at that no event will tell of: its supervisor is gone or unknown and its lock is held."""


@dataclass(slots=True)
class _Followed:
    """A run whose end is still to be told."""

    dir: RunDir
    interactive: bool
    gpu_uuids: frozenset[str]
    watched: bool = False
    pidfd: int | None = None
    """Of its supervisor."""
    began_told: bool = False
    drained: bool = False
    timer: asyncio.TimerHandle | None = None


class LocalEngine:
    """`Engine` for this machine. `runs_root` holds the run directories, `locks_root` the machine-wide GPU locks."""

    def __init__(self, runs_root: Path, locks_root: Path | None = None) -> None:
        self._root = runs_root
        self._locks = str(locks_root) if locks_root else gpulock.default_folder()
        self._launcher = Launcher()
        self._watch: DirectoryWatch | None = None
        self._runs: dict[str, _Followed] = {}
        self._endings: dict[str, asyncio.Task[None]] = {}

    async def open(self, on_began: OnBegan, on_end: OnEnd) -> None:
        """Start the fork server. Raises OSError when the folder for runs cannot be made."""
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._on_began, self._on_end = on_began, on_end
        with contextlib.suppress(OSError):  # no inotify instance left: runs are looked at by the clock
            self._watch = DirectoryWatch(self._on_file)
        self._launcher.open()

    async def start(self, spec: RunSpec) -> None:
        """See `Engine.start`; what becomes of the run may be told before this returns.

        Raises FileExistsError when this run was started before.
        """
        run = RunDir(self.run_dir(spec.run_id))
        run.create(spec, self._locks)
        followed = self._follow(spec.run_id, run, spec.interactive, frozenset(spec.gpu_uuids))
        if spec.interactive:
            self._look_later(spec.run_id, followed)
            return
        try:
            fd = await self._launcher.start(run.path)
        except OSError:
            self._unfollow(spec.run_id)
            raise
        self._attach(spec.run_id, followed, fd)

    async def recover(self, run_id: str) -> Found:
        """See `Engine.recover`. `on_began` is told (again) for a run that began."""
        run = RunDir(self.run_dir(run_id))
        found = run.look()
        if found in (Found.MISSING, Found.NEVER_BEGAN):
            return found
        self._follow(run_id, run, run.is_interactive(), run.gpu_uuids())
        if found is Found.RUNNING:
            self._look(run_id)
        else:
            self._tell_end(run_id, found)
        return found

    async def revoke(self, run_id: str) -> bool:
        """See `Engine.revoke`. The end of a revoked run is not told."""
        found = RunDir(self.run_dir(run_id)).look()
        if found not in (Found.NEVER_BEGAN, Found.MISSING):
            return False
        self._unfollow(run_id)
        return True

    async def stop(self, run_id: str, grace: float) -> None:
        """See `Engine.stop`. Also ends what a lost run has left behind.

        Raises OSError when nobody can be told: no supervisor lives, and there is no room to leave word for a later one.
        """
        run = RunDir(self.run_dir(run_id))
        try:
            run.ask_to_stop(grace)
        except OSError:
            # disk full, directory gone: a supervisor obeys without a file too, with the grace it began with
            if not self._signal_supervisor(run_id, run, signal.SIGTERM):
                raise
        else:
            self._pass_on_stop(run_id, run)

    def pids(self, run_id: str) -> tuple[int, ...]:
        run = RunDir(self.run_dir(run_id))
        supervisor = run.supervisor()
        if supervisor and procs.is_same(supervisor.pid, supervisor.start_time, supervisor.boot_id):
            return tuple(procs.descendants(supervisor.pid))
        # before it began there is nothing to look for; with its directory gone that is not known
        return leftover.pids(run_id, run) if run.top() or not run.path.is_dir() else ()

    def run_dir(self, run_id: str) -> Path:
        return self._root / run_id

    async def forget(self, run_id: str) -> None:
        self._unfollow(run_id)
        RunDir(self.run_dir(run_id)).forget()

    async def close(self) -> None:
        for run_id in list(self._runs):
            self._unfollow(run_id)
        for task in self._endings.values():
            task.cancel()
        if self._watch:
            self._watch.close()
        self._launcher.close()

    def locked_by_others(self, uuids: list[str]) -> set[str]:
        """GPUs that a run of somebody else has locked: of another user's daemon, or of another one of mine."""
        mine = frozenset().union(*(followed.gpu_uuids for followed in self._runs.values()))
        return gpulock.locked(self._locks, [uuid for uuid in uuids if uuid not in mine])

    # following

    def _follow(self, run_id: str, run: RunDir, interactive: bool, gpu_uuids: frozenset[str]) -> _Followed:
        followed = self._runs.get(run_id)
        if followed is None:
            followed = self._runs[run_id] = _Followed(run, interactive, gpu_uuids)
            if self._watch:
                with contextlib.suppress(OSError):  # over the user's limit on watches
                    self._watch.add(run_id, os.fsencode(run.path))
                    followed.watched = True
        return followed

    def _unfollow(self, run_id: str) -> None:
        followed = self._runs.pop(run_id, None)
        if followed is None:
            return
        if self._watch:
            self._watch.remove(run_id)
        self._detach(followed)
        if followed.timer:
            followed.timer.cancel()

    def _attach(self, run_id: str, followed: _Followed, fd: int | None) -> None:
        """Follow the supervisor by its pidfd; None: it is over already."""
        if fd is not None and (self._runs.get(run_id) is not followed or followed.pidfd is not None):
            os.close(fd)
        elif fd is not None:
            followed.pidfd = fd
            asyncio.get_running_loop().add_reader(fd, self._supervisor_gone, run_id)
        if not followed.watched or fd is None:
            self._look(run_id)

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
        followed = self._runs.get(run_id)
        # a supervisor of our own making is known by its pidfd; who starts an interactive one is told by its claim
        if name in ("began", "exit") or (followed and followed.interactive and name in ("claim", "refused")):
            self._look(run_id)

    def _look(self, run_id: str) -> None:
        """See where a followed run stands, and tell what is new."""
        followed = self._runs.get(run_id)
        if followed is None:
            return
        self._tell_began(run_id, followed)
        waits_for_client = followed.interactive and not followed.dir.was_taken()
        # the lock has news only when no supervisor lives and none is to come
        try:
            found = followed.dir.look(try_lock=followed.pidfd is None and not waits_for_client)
        except OSError:  # it cannot be revoked while the disk is full
            self._look_later(run_id, followed)
            return
        if found is not Found.RUNNING:
            self._tell_end(run_id, found)
        elif followed.pidfd is None:
            if not waits_for_client:
                self._find_supervisor(run_id, followed)
            if followed.pidfd is None:
                self._look_later(run_id, followed)
        elif not followed.watched:
            self._look_later(run_id, followed)

    def _look_later(self, run_id: str, followed: _Followed) -> None:
        if followed.timer:
            followed.timer.cancel()
        followed.timer = asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._look, run_id)

    def _find_supervisor(self, run_id: str, followed: _Followed) -> None:
        claimed = followed.dir.supervisor()
        if claimed is None:
            return
        fd = procs.open_pidfd(claimed.pid, claimed.start_time, claimed.boot_id)
        if fd is not None:
            self._attach(run_id, followed, fd)
            return
        # it was killed, and the job goes on: two of its duties are ours now
        if not followed.drained and not followed.interactive:
            followed.drained = True
            self._launcher.drain(followed.dir.path)
        if followed.dir.stop_grace() is not None:
            self._pass_on_stop(run_id, followed.dir)

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
        if followed.began_told and found is Found.NEVER_BEGAN:
            found = Found.MISSING  # it did begin: someone took the files that say so
        end = followed.dir.end(found)
        self._unfollow(run_id)
        self._on_end(run_id, end)

    def _pass_on_stop(self, run_id: str, run: RunDir) -> None:
        """Wake the supervisor, which reads `stop`; in place of one that was killed, end the run ourselves."""
        if self._signal_supervisor(run_id, run, signal.SIGUSR1):
            return
        if run.supervisor() is None:
            return  # none yet: it looks for `stop` after its claim and before the gate
        if run_id not in self._endings:
            task = asyncio.get_running_loop().create_task(leftover.end(run_id, run, run.stop_grace() or 0.0))
            self._endings[run_id] = task
            task.add_done_callback(lambda _: self._endings.pop(run_id, None))

    def _signal_supervisor(self, run_id: str, run: RunDir, number: signal.Signals) -> bool:
        """Whether a supervisor that lives was sent it; it is known by our own pidfd or by its claim."""
        followed = self._runs.get(run_id)
        if followed is not None and followed.pidfd is not None:
            return _send(followed.pidfd, number)
        claimed = run.supervisor()
        fd = procs.open_pidfd(claimed.pid, claimed.start_time, claimed.boot_id) if claimed else None
        if fd is None:
            return False
        try:
            return _send(fd, number)
        finally:
            os.close(fd)


def _send(pidfd: int, number: signal.Signals) -> bool:
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    return True
