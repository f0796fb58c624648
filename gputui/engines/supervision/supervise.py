"""What a supervisor does: the steps of 'exactly once', then follow the job until no process of it is left.

The order of the steps is the proof that a run begins at most once; each is named for the tests that break it there.
"""

import contextlib
import fcntl
import os
import select
import signal
import time
import traceback

from gputui.engines.supervision import cgroup, child, faults, gpulock, procs, records, tree
from gputui.engines.supervision.logwriter import LogWriter
from gputui.engines.supervision.terminal import Terminal

LOCK_PATIENCE_S = 2.0
"""The daemon holds the lock for an instant when it looks at a run; a rival supervisor holds it for good."""
PIPE_SIZE = 256 * 1024
SMALL_READ = 16 * 1024
NAP_S = 0.02
"""After a small read output may gather for so long: a tenth of the CPU time for a job that writes many short lines."""
WAKING = (signal.SIGCHLD, signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT)


class NotBegun(Exception):  # noqa: N818 - a refusal is an answer, not a fault
    """The run must not or cannot begin; nothing of it was executed."""


def supervise(run_dir: str, *, interactive: bool) -> int:
    """Run what `run_dir` says, once. Returns the exit code for an interactive caller."""
    run_dir = os.path.abspath(run_dir)
    try:
        return Supervision(run_dir, interactive=interactive).run()
    except Exception:  # noqa: BLE001 - its last words, for whoever asks why a run was lost
        with contextlib.suppress(OSError):
            records.write(f"{run_dir}/failure", traceback.format_exc().encode("utf-8", "backslashreplace"))
        return 1


class Supervision:
    """One run, from the lock to the exit record."""

    def __init__(self, run_dir: str, *, interactive: bool) -> None:
        self.dir = run_dir
        self.interactive = interactive
        self.terminal = Terminal() if interactive else None
        self.gpu_locks: list[int] = []
        self.output = -1
        self.log: LogWriter | None = None
        self.started_at: float | None = None
        self.started = 0.0
        self.status: int | None = None
        self.error = ""
        self.exec_failed = False
        self.grace = 0.0

    def run(self) -> int:
        self.waker = self._listen_to_signals()
        procs.become_subreaper()
        if self.interactive:
            procs.die_with_parent(signal.SIGHUP)
        faults.step("start")
        if not self._take_lock():
            return 1
        try:
            spec = self._read_spec()
            self._lock_gpus(spec)
            self._claim()
        except NotBegun as why:
            return self._say_not_begun(str(why))
        self.exit_fd = records.reserve_exit(self.dir)
        if not self.interactive:
            self._open_output(int(str(spec["log_cap"])))
        self._fork(spec)
        try:
            self._open_gate()
        except NotBegun as why:
            os.close(self.gate)
            os.waitpid(self.top, 0)
            return self._finish("revoked", str(why))
        return self._follow()

    # the steps before the gate opens

    def _listen_to_signals(self) -> int:
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self.caught: set[int] = set()
        for number in WAKING:
            signal.signal(number, lambda number, _frame: self.caught.add(number))
        if self.interactive:
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTOU, signal.SIGTTIN):
                signal.signal(number, signal.SIG_IGN)  # the keys are for the job
        return reader

    def _take_lock(self) -> bool:
        """Without O_CREAT: a directory that was forgotten meanwhile must not come back to life."""
        try:
            self.lock = os.open(f"{self.dir}/lock", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        deadline = time.monotonic() + LOCK_PATIENCE_S
        while True:
            try:
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.005)
            else:
                faults.step("locked")
                return True

    def _read_spec(self) -> records.Record:
        if os.path.exists(f"{self.dir}/revoked"):
            raise NotBegun("it was revoked before it began")
        if os.path.exists(f"{self.dir}/claim") or not os.path.exists(f"{self.dir}/spec.json"):
            raise NotBegun("")  # a rival had it, or it is forgotten already
        spec = records.load(f"{self.dir}/spec.json")
        if spec is None or spec.get("layout") != records.LAYOUT:
            raise NotBegun("its description cannot be read")
        self.spec = spec
        self.grace = float(str(spec["grace"]))
        return spec

    def _lock_gpus(self, spec: records.Record) -> None:
        uuids = spec["gpu_uuids"]
        assert isinstance(uuids, list)
        folder = str(spec["locks_root"])
        try:
            if uuids:
                gpulock.prepare(folder)
            for uuid in sorted(uuids):
                self.gpu_locks.append(gpulock.acquire(folder, uuid, share=bool(spec["share"])))
        except gpulock.Locked as held:
            raise NotBegun(held.strerror or "a GPU is locked") from None
        except OSError as problem:
            raise NotBegun(f"cannot lock a GPU in {folder}: {problem.strerror}") from None
        faults.step("gpus-locked")

    def _claim(self) -> None:
        own = procs.stat(os.getpid())
        assert own is not None
        try:
            fd = os.open(f"{self.dir}/claim", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            raise NotBegun("") from None  # another supervisor had it: its run is the run
        # with the cgroup that may follow, so that it can be found and removed if this process is killed
        self.cgroup = None if faults.NO_CGROUP else cgroup.path_for(f"gputui-{self.spec['run_id']}")
        record = {**self._identity(os.getpid(), own), "cgroup": self.cgroup}
        records.write_all(fd, records.dump(record))
        os.close(fd)
        faults.step("claimed")

    def _identity(self, pid: int, found: procs.Stat) -> records.Record:
        return {"pid": pid, "start_time": found.start_time, "boot_id": procs.boot_id()}

    def _open_output(self, cap: int) -> None:
        """A FIFO that the job holds open for reading too: the death of its reader is no SIGPIPE to it."""
        path = f"{self.dir}/output"
        os.mkfifo(path, 0o600)
        self.output = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # over the user's limit on pipe memory: the default size does
            fcntl.fcntl(self.output, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        self.log = LogWriter(f"{self.dir}/log", cap)
        self.buffer = memoryview(bytearray(PIPE_SIZE))

    def _fork(self, spec: records.Record) -> None:
        argv, env = spec["argv"], spec["env"]
        assert isinstance(argv, list)
        assert isinstance(env, dict)
        self.plan = plan = child.Plan(
            self.dir,
            [records.to_bytes(part) for part in argv],
            records.to_bytes(str(spec["cwd"])),
            {records.to_bytes(name): records.to_bytes(value) for name, value in env.items()},
        )
        plan.inherited = [self.lock, *self.gpu_locks]
        if not self.interactive:
            # its own open file, so that the job's is a blocking one
            plan.output = os.open(f"{self.dir}/output", os.O_RDWR | os.O_CLOEXEC)
        plan.gate, self.gate = os.pipe2(os.O_CLOEXEC)
        self.report, plan.report = os.pipe2(os.O_CLOEXEC)
        everything = signal.valid_signals()
        signal.pthread_sigmask(signal.SIG_BLOCK, everything)
        self.top = os.fork()
        if self.top == 0:
            os.close(self.gate)
            os.close(self.report)
            if self.terminal:
                self.terminal.own_group()
            child.become(plan)
        if self.terminal:
            self.terminal.give_to(self.top)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, everything)
        os.close(plan.gate)
        os.close(plan.report)
        if plan.output is not None:
            os.close(plan.output)
        faults.step("forked")

    def _open_gate(self) -> None:
        found = procs.stat(self.top)
        if found is None:
            raise NotBegun("its process vanished before it began")
        records.write(f"{self.dir}/pid", records.dump(self._identity(self.top, found)), sync=True)
        faults.step("recorded")
        if os.path.exists(f"{self.dir}/stop"):
            raise NotBegun("it was stopped before it began")
        with contextlib.suppress(BrokenPipeError):  # the child was killed at the gate: its status will say so
            os.write(self.gate, b"1")
        os.close(self.gate)
        faults.step("opened")

    # following the job

    def _follow(self) -> int:
        self.ending = tree.Ending(self.top)
        poll = select.poll()
        poll.register(self.waker, select.POLLIN)
        poll.register(self.report, select.POLLIN)
        if self.output >= 0:
            poll.register(self.output, select.POLLIN)
        proving, napping = True, False
        while True:
            timeout = NAP_S if napping else self.ending.next_act()
            ready = dict(poll.poll(None if timeout is None else timeout * 1000))
            if napping:
                poll.register(self.output, select.POLLIN)
                napping = False
            if self.output in ready and self._copy_output() < SMALL_READ:
                poll.unregister(self.output)
                napping = True
            if self.report in ready:
                poll.unregister(self.report)
                self._learn_of_exec()
                proving = False
            if self.waker in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self.waker, 4096)
            self._obey()
            # its status is read only after exec was proved: a reaped process has no flags to look at
            if not proving and self._reap():
                break
            self.ending.act()
        while self.output >= 0 and self._copy_output():
            pass
        return self._finish(*self._verdict())

    def _copy_output(self) -> int:
        assert self.log is not None
        try:
            count = os.readv(self.output, [self.buffer])
        except BlockingIOError:
            return 0
        self.log.write(self.buffer[:count])
        return count

    def _learn_of_exec(self) -> None:
        report = os.read(self.report, 64)
        os.close(self.report)
        self.started_at, self.started = time.time(), time.monotonic()
        found = procs.stat(self.top)
        if report:
            self.exec_failed, self.error = True, child.explain(report, self.plan.argv, self.plan.cwd)
        elif found is not None and found.flags & procs.PF_FORKNOEXEC:
            # the pipe's end alone proves nothing: a child that was killed on its way looks the same
            self.exec_failed, self.error = True, "it was killed before its program was executed"
        else:
            faults.step("executed")
            with contextlib.suppress(OSError):  # only a hint for the daemon
                records.touch(f"{self.dir}/began")
            self._enter_cgroup()

    def _enter_cgroup(self) -> None:
        """After exec: to move a process takes milliseconds. A child that slips by is still a descendant."""
        if self.cgroup and cgroup.make(self.cgroup):
            if cgroup.move(self.cgroup, self.top):
                self.ending.use_cgroup(self.cgroup)
            else:
                cgroup.remove(self.cgroup)

    def _obey(self) -> None:
        caught, self.caught = self.caught, set()
        asked = records.load(f"{self.dir}/stop") if signal.SIGUSR1 in caught else None
        if asked is not None:
            self.ending.stop(float(str(asked["grace"])))
        if caught & {signal.SIGTERM, signal.SIGHUP} and (self.interactive or signal.SIGTERM in caught):
            self.ending.stop(self.grace)
        if signal.SIGCONT in caught and self.terminal and self.status is None:
            self.terminal.resume(self.top)

    def _reap(self) -> bool:
        """Collect the dead. True when nothing of the run is left: as subreaper we would have inherited it."""
        flags = os.WNOHANG | (os.WUNTRACED if self.terminal else 0)
        while True:
            try:
                pid, status = os.waitpid(-1, flags)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid != self.top:
                continue
            if os.WIFSTOPPED(status):
                if self.terminal:
                    self.terminal.suspend()
                continue
            self.status = status
            self.ending.top_ended()
            if self.terminal:
                self.terminal.take_back()

    def _verdict(self) -> tuple[str, str]:
        assert self.status is not None
        if self.exec_failed:
            return "noexec", self.error
        return ("signalled" if os.WIFSIGNALED(self.status) else "exited"), ""

    # the end

    def _finish(self, reason: str, error: str) -> int:
        faults.step("ended")
        oom = bool(self.cgroup and cgroup.oom_kills(self.cgroup))
        if self.cgroup:
            cgroup.remove(self.cgroup)
        record: records.Record = {"layout": records.LAYOUT, "reason": reason, "error": error, "oom_killed": oom}
        record["exit_code"] = record["signal"] = None
        if reason == "exited" and self.status is not None:
            record["exit_code"] = os.WEXITSTATUS(self.status)
        if reason == "signalled" and self.status is not None:
            record["signal"] = os.WTERMSIG(self.status)
        if self.started_at is not None:
            record["started_at"] = self.started_at
            record["duration"] = time.monotonic() - self.started
        record["ended_at"] = time.time()
        if error:
            self._tell_person(error)
        if self.log is not None:
            self.log.close()
            record["log_written"] = self.log.written
            record["log_error"] = self.log.describe_loss()
        for fd in self.gpu_locks:
            # before the record: who reads it may start the next run on these GPUs at once
            fcntl.flock(fd, fcntl.LOCK_UN)
        records.commit_exit(self.dir, self.exit_fd, record)
        faults.step("exit-written")
        code, number = record["exit_code"], record["signal"]
        return code if isinstance(code, int) else 128 + number if isinstance(number, int) else 127

    def _say_not_begun(self, why: str) -> int:
        """Leave word for the daemon; nothing was claimed, so the job may be started anew as another run."""
        if why:
            self._tell_person(why)
            with contextlib.suppress(OSError):
                records.write(f"{self.dir}/refused", why.encode())
        return 1

    def _tell_person(self, why: str) -> None:
        if self.interactive:
            with contextlib.suppress(OSError):
                os.write(2, f"gputui: {why}\n".encode("utf-8", "backslashreplace"))
