"""A demo from its start to its end: folder, processes, daemon; and nothing left of them afterwards.

One process (`gputui demo --headless`, or the same started by `gputui demo`) owns all of it and lives as long.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gputui import paths
from gputui.client import Client, ClientError, ensure_daemon
from gputui.demo import sample
from gputui.protocol import ErrorCode

TICK_S = 2.0
END_S = 20.0


def root_dir() -> Path:
    """Where the demo keeps everything: beside the real state, never in it."""
    return paths.state_dir().parent.parent / "gputui-demo"


def running() -> dict[str, object] | None:
    """`pid` and `socket` of the demo that runs for this user, or None."""
    lock = root_dir() / "demo.lock"
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return paths.lock_note(lock) or None
    finally:
        os.close(descriptor)
    return None


class Demo:
    """The processes of a demo. Use as a context manager in the main thread: its end ends all of them."""

    def __init__(self) -> None:
        self.root = root_dir()
        self.socket = self.root / "demo.sock"
        self._helpers: list[subprocess.Popen[bytes]] = []
        self._lock = -1

    def __enter__(self) -> "Demo":
        try:
            self._take_lock()
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def keep_going(self, stopped: Callable[[float], bool]) -> None:
        """Feed the queue until `stopped(seconds)`, which waits that long at most, says that it is time."""
        made = 0
        while not stopped(TICK_S):
            # a daemon that a visitor killed is started again by the next request
            with suppress(ClientError), Client(self.socket) as daemon:
                sample.cancel_stubborn(daemon)
                made = sample.top_up(daemon, made)

    def close(self) -> None:
        """End the jobs, the daemon, the helpers; remove the folder."""
        if self._lock < 0:
            return
        end_queue(self.socket, self.root / "state")
        for helper in self._helpers:
            helper.terminate()
        for helper in self._helpers:
            helper.wait()
        for leftover in self.root.iterdir():
            if leftover.name != "demo.lock":
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        os.close(self._lock)
        self._lock = -1

    def _take_lock(self) -> None:
        paths.private_dir(self.root)
        descriptor = os.open(self.root / "demo.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ClientError(ErrorCode.WRONG_STATE, f"A demo runs already; its socket is {self.socket}.") from None
        self._lock = descriptor
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "socket": str(self.socket)}).encode(), 0)

    def _start(self) -> None:
        _set_environment(self.root, self.socket)
        # what a killed demo left: its jobs are still there, its daemon perhaps
        end_queue(self.socket, self.root / "state")
        for leftover in ("state", "data"):
            shutil.rmtree(self.root / leftover, ignore_errors=True)
        data = self.root / "data"
        for name, options in (
            ("tokens", ["--files", "4", "--every", "0.01"]),
            ("corpus-zh", ["--files", "90", "--every", "1"]),
            ("images", ["--files", "4096", "--every", "1", "--size", str(96 * 1024)]),
        ):
            self._helper("feeder.py", str(data / name), *options)
        notebook = self._helper("notebook.py")
        holders = {str(sample.FOREIGN_GPU): [{"pid": notebook, "memory": sample.FOREIGN_MEMORY}]}
        (self.root / "foreign.json").write_text(json.dumps(holders))
        ensure_daemon(self.socket, self.root / "state")
        with Client(self.socket) as daemon:
            _wait_for_gpus(daemon)
            sample.add_datasets(daemon, data)
            sample.arrange(daemon)

    def _helper(self, program: str, *arguments: str) -> int:
        command = [sys.executable, str(sample.PROGRAMS / program), *arguments]
        self._helpers.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
        return self._helpers[-1].pid


def serve(announce: Callable[[Path], None]) -> int:
    """Run a demo in the foreground until TERM, HUP or Ctrl-C. `announce` gets the socket once the queue is there."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with Demo() as demo:
        announce(demo.socket)
        demo.keep_going(ended.wait)
    return 0


def end_queue(socket: Path, state: Path) -> None:
    """Cancel every job of the daemon there, wait until none is left, and stop it. Jobs without one get one first."""
    if not state.exists():
        return
    with suppress(ClientError), Client(ensure_daemon(socket, state), start=False) as daemon:
        daemon.freeze("the demo ends")
        going = [job["id"] for job in daemon.jobs(state=["held", "queued", *ACTIVE], limit=100_000)["jobs"]]
        if going:
            daemon.cancel(going, "the demo ends")
            daemon.wait(going, END_S)
        daemon.stop_daemon()
    deadline = time.monotonic() + END_S
    while paths.answers(socket) and time.monotonic() < deadline:
        time.sleep(0.02)


ACTIVE = ("starting", "running", "checkpointing", "stopping", "suspended")


def _set_environment(root: Path, socket: Path) -> None:
    """For the daemon and everything else that this process starts."""
    os.environ["GPUTUI_SIMULATED_GPUS"] = sample.GPUS
    os.environ["GPUTUI_SIMULATED_FOREIGN"] = str(root / "foreign.json")
    # simulated GPUs have the same UUIDs for everyone on a machine, and two users may show a demo on it
    os.environ["GPUTUI_LOCK_DIR"] = str(root / "locks")
    os.environ["GPUTUI_STATE"] = str(root / "state")
    os.environ["GPUTUI_SOCKET"] = str(socket)


def _wait_for_gpus(daemon: Client) -> None:
    deadline = time.monotonic() + END_S
    while not daemon.gpus()["gpus"]:
        if time.monotonic() > deadline:
            raise ClientError(ErrorCode.INTERNAL, "The demo's simulated GPUs did not appear.")
        time.sleep(0.05)
