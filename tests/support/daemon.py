"""A real daemon process in a folder of its own, reached through its real socket."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gputui.client import Client
from gputui.client.start import environment
from gputui.paths import LOG_NAME

START_SECONDS = 60.0


class Daemon:
    """One state folder and socket; the daemon on it can be started, stopped and killed any number of times."""

    def __init__(self, folder: Path, *, gpus: str = "2", env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.socket = folder / "d.sock"
        outside = {name: value for name, value in environment().items() if not name.startswith("GPUTUI_")}
        locks = str(folder / "locks")  # simulated GPUs have the same UUIDs for every daemon on this machine
        self.env = {**outside, "GPUTUI_SIMULATED_GPUS": gpus, "GPUTUI_LOCK_DIR": locks, **(env or {})}
        self.process: subprocess.Popen[str] | None = None

    def start(self, *options: str, check: bool = True) -> subprocess.Popen[str]:
        """Start it in the foreground and wait until it answers."""
        self.process = self.spawn(*options)
        if check:
            line = self.ready_line(self.process)
            assert line == f"READY {self.socket}", line or self.log()
        return self.process

    def spawn(self, *options: str) -> subprocess.Popen[str]:
        """Start one more daemon on the same folder, and don't wait."""
        program = [sys.executable, "-P", "-m", "gputui.daemon"]
        return subprocess.Popen(
            [*program, "--state", str(self.state), "--socket", str(self.socket), *options],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    @staticmethod
    def ready_line(process: subprocess.Popen[str]) -> str:
        """The first line of its standard output, '' when it ended without one."""
        assert process.stdout is not None
        return process.stdout.readline().rstrip("\n")

    def log(self) -> str:
        """What the daemon logged."""
        log = self.state / LOG_NAME
        return log.read_text() if log.exists() else "no log"

    def client(self, session: str = "") -> Client:
        """A client that never starts a daemon itself."""
        return Client(self.socket, session=session, start=False)

    def stop(self, number: int = signal.SIGTERM, seconds: float = 60.0) -> int:
        """Signal it and wait for its end; its exit code."""
        assert self.process is not None
        process, self.process = self.process, None
        if process.poll() is None:
            process.send_signal(number)
        code = process.wait(seconds)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        return code

    def end(self) -> None:
        """Stop it, cancelling whatever runs."""
        if self.process is None:
            return
        if self.process.poll() is None:
            with self.client() as client:
                active = client.jobs(state=["held", "queued", "starting", "running", "stopping"], limit=10_000)["jobs"]
                if active:
                    client.cancel([job["id"] for job in active])
                    client.wait([job["id"] for job in active], timeout=60)
        self.stop()


@contextmanager
def daemon(folder: Path, *, gpus: str = "2", env: Mapping[str, str] | None = None) -> Iterator[Daemon]:
    """A running daemon; at the end it and its jobs are gone."""
    found = Daemon(folder, gpus=gpus, env=env)
    found.start()
    try:
        yield found
    finally:
        found.end()


def until(condition: Callable[[], object], seconds: float = 60.0, step: float = 0.02) -> None:
    """Wait for a condition; fail when it does not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {condition}"
        time.sleep(step)


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
