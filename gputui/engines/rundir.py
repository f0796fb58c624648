"""What a run directory says: the daemon's side of the files that supervisors write."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gputui.engines.engine import Began, EndReason, Found, RunEnd, RunSpec
from gputui.engines.supervision import cgroup, procs, records

_KEPT = ("exit", "log")
"""What `forget` leaves: the log's readers need both."""


@dataclass(frozen=True, slots=True)
class Process:
    """A recorded process. Only `procs.open_pidfd` may turn it into something that can be signalled."""

    pid: int
    start_time: int
    boot_id: str


class RunDir:
    """One run's directory. Every method reads the disk anew and raises no error for what is missing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, spec: RunSpec, locks_root: str) -> None:
        """Raises OSError, with nothing left behind; FileExistsError when the run was started before."""
        self.path.parent.mkdir(mode=0o700, exist_ok=True)  # a clean-up of old logs may have taken the whole folder
        self.path.mkdir(mode=0o700)
        try:
            (self.path / "lock").touch(mode=0o600)
            # not synced: without a `pid` record, which is, a run is known never to have begun
            records.write(str(self.path / "spec.json"), records.dump(_spec_record(spec, locks_root)))
        except OSError:
            self._remove_all()
            raise

    @contextlib.contextmanager
    def locked(self) -> Iterator[bool]:
        """Hold the run's lock inside; False when the run has it (or it is gone)."""
        try:
            fd = os.open(self.path / "lock", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            yield True
            return
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(fd)

    def look(self, *, try_lock: bool = True) -> Found:
        """The table of the design's 'Exactly once, in steps'. NEVER_BEGAN: `revoked` was written under the lock.

        Without `try_lock` a run that has no exit record is taken as running. Raises OSError when `revoked` cannot be
        written (disk full): then nothing is known and nothing may be started in its place.
        """
        if self._has("exit"):
            return Found.FINISHED
        if not try_lock:
            return Found.RUNNING
        if not self.path.is_dir():
            return Found.MISSING
        with self.locked() as free:
            if not free:
                return Found.RUNNING
            if self._has("exit"):
                return Found.FINISHED
            if not self._has("pid") or self._has("noexec"):
                records.write(str(self.path / "revoked"), b"", sync=True)
                return Found.NEVER_BEGAN
        return Found.LOST

    def was_taken(self) -> bool:
        """Whether a supervisor has claimed the run, or refused it."""
        return self._has("claim") or self._has("refused")

    def is_over(self) -> bool:
        """Whether nothing more will be written: it ended, was lost, was revoked or is forgotten."""
        if self._has("exit") or self._has("revoked") or not self._has("spec.json"):
            return True
        if not self._has("pid"):
            return False  # and its lock stays untouched: whoever starts or revokes it must not find it taken
        with self.locked() as free:
            return free

    def supervisor(self) -> Process | None:
        return _process(records.load(str(self.path / "claim")))

    def top(self) -> Process | None:
        return _process(records.load(str(self.path / "pid")))

    def cgroup(self) -> str | None:
        """Where its cgroup is, if it got one."""
        found = (records.load(str(self.path / "claim")) or {}).get("cgroup")
        return found if isinstance(found, str) else None

    def began(self) -> Began | None:
        """The job's top process, if exec is proved: by the supervisor's word, or by the kernel's flag."""
        top = self.top()
        if top is None:
            return None
        if not self._has("began"):
            now = procs.stat(top.pid)
            if now is None or now.start_time != top.start_time or now.flags & procs.PF_FORKNOEXEC:
                return None
        return Began(top.pid, top.start_time, top.boot_id)

    def end(self, found: Found) -> RunEnd:
        """How the run ended, given what `look` said (not RUNNING)."""
        if found is Found.FINISHED:
            return _run_end(records.load(str(self.path / "exit")) or {})
        if found is Found.LOST:
            rebooted = (top := self.top()) is not None and top.boot_id != procs.boot_id()
            error = "the machine was restarted while it ran" if rebooted else self._why_lost()
            return RunEnd(EndReason.LOST, error=error, rebooted=rebooted)
        if found is Found.MISSING:
            return RunEnd(EndReason.GONE)
        return RunEnd(EndReason.REVOKED, error=self._text("refused") or self._last_words())

    def gpu_uuids(self) -> frozenset[str]:
        found = (records.load(str(self.path / "spec.json")) or {}).get("gpu_uuids")
        return frozenset(map(str, found)) if isinstance(found, list) else frozenset()

    def is_interactive(self) -> bool:
        return bool((records.load(str(self.path / "spec.json")) or {}).get("interactive"))

    def stop_grace(self) -> float | None:
        """The grace, in seconds, of a stop that was asked for."""
        found = (records.load(str(self.path / "stop")) or {}).get("grace")
        return float(found) if isinstance(found, int | float) else None

    def ask_to_stop(self, grace: float) -> None:
        records.write(str(self.path / "stop"), records.dump({"grace": grace}), sync=True)

    def forget(self) -> None:
        """Remove all but the log and the exit record; the spec first, without which no late supervisor begins."""
        if group := self.cgroup():
            cgroup.remove(group)  # left by a supervisor that was killed
        with contextlib.suppress(FileNotFoundError):
            (self.path / "spec.json").unlink()
        with contextlib.suppress(FileNotFoundError):
            for entry in list(self.path.iterdir()):
                if entry.name not in _KEPT:
                    entry.unlink(missing_ok=True)

    def _remove_all(self) -> None:
        for entry in list(self.path.iterdir()):
            entry.unlink(missing_ok=True)
        self.path.rmdir()

    def _has(self, name: str) -> bool:
        return (self.path / name).exists()

    def _text(self, name: str) -> str:
        try:
            return (self.path / name).read_text("utf-8", "backslashreplace")
        except OSError:
            return ""

    def _why_lost(self) -> str:
        return self._last_words() or "its supervisor was killed"

    def _last_words(self) -> str:
        failure = self._text("failure").strip()
        return f"its supervisor failed: {failure.splitlines()[-1]}" if failure else ""


def _process(record: records.Record | None) -> Process | None:
    found = records.identity(record)
    return Process(*found) if found else None


def _spec_record(spec: RunSpec, locks_root: str) -> records.Record:
    return {
        "layout": records.LAYOUT,
        "run_id": spec.run_id,
        "job_id": spec.job_id,
        "attempt": spec.attempt,
        "argv": [records.to_text(part) for part in spec.argv],
        "cwd": records.to_text(spec.cwd),
        "env": {records.to_text(name): records.to_text(value) for name, value in spec.env.items()},
        "gpu_uuids": list(spec.gpu_uuids),
        "grace": spec.grace,
        "log_cap": spec.log_cap,
        "interactive": spec.interactive,
        "share": spec.share,
        "locks_root": locks_root,
    }


def _time(value: object) -> datetime | None:
    return datetime.fromtimestamp(value, UTC) if isinstance(value, int | float) else None


def _run_end(record: records.Record) -> RunEnd:
    code, number, duration = record.get("exit_code"), record.get("signal"), record.get("duration")
    return RunEnd(
        reason=EndReason(str(record.get("reason", EndReason.LOST))),
        exit_code=code if isinstance(code, int) else None,
        signal=number if isinstance(number, int) else None,
        started_at=_time(record.get("started_at")),
        ended_at=_time(record.get("ended_at")),
        duration=float(duration) if isinstance(duration, int | float) else None,
        error=str(record.get("error", "")),
        oom_killed=bool(record.get("oom_killed")),
        log_error=str(record.get("log_error", "")),
    )
