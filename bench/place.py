"""A folder, an environment and a daemon that have nothing to do with those of whoever measures."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from gputui.client import Client, ClientError

ROOT = Path(__file__).parent.parent
PYTHON = [sys.executable, "-P"]
GPUTUI = [*PYTHON, "-m", "gputui.cli"]


FOREIGN = ("GPUTUI_", "SLURM_", "TS_", "PYTHON", "TEXTUAL")
"""Settings of whoever measures: programs start without them. Without bytecode, say, each start would compile gputui."""


class Place:
    """A fresh folder and what programs in it get as their environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)},
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder),
            **{f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("STATE", "CONFIG", "CACHE", "DATA")},
            "XDG_RUNTIME_DIR": str(folder),
            "GPUTUI_LOCK_DIR": str(folder / "locks"),
        }
        (folder / "locks").mkdir()


@contextmanager
def place() -> Iterator[Place]:
    """A place that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="gputui-bench-"))
    try:
        yield Place(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Daemon:
    """A running daemon of its own in a place."""

    def __init__(self, where: Place, process: "subprocess.Popen[str]", socket: Path) -> None:
        self.place = where
        self.process = process
        self.socket = socket
        self.client = Client(socket, start=False)

    @property
    def env(self) -> dict[str, str]:
        """What makes it the daemon of every command."""
        return {**self.place.env, "GPUTUI_SOCKET": str(self.socket)}

    def until(self, running: int, seconds: float = 60.0) -> None:
        """Wait until so many jobs run."""
        end = time.monotonic() + seconds
        while self.client.status()["running"] < running or self._starting():
            if time.monotonic() > end:
                raise TimeoutError(f"{running} jobs did not start within {seconds:g} s")
            time.sleep(0.05)

    def _starting(self) -> int:
        return self.client.jobs(state=["starting"], limit=1)["total"]

    def end(self) -> None:
        """Cancel what runs, and stop it."""
        try:
            with suppress(ClientError):  # frozen already
                self.client.freeze("the measurement ends")
            active = self.client.jobs(state=["starting", "running", "stopping"], limit=1000)["jobs"]
            if ids := [job["id"] for job in active]:
                self.client.cancel(ids)
                self.client.wait(ids, timeout=30)
        finally:
            self.client.close()
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)


@contextmanager
def daemon(
    where: Place, gpus: str, *, module: str = "gputui.daemon", env: Mapping[str, str] | None = None
) -> Iterator[Daemon]:
    """A daemon on simulated GPUs; at the end its jobs are gone, then it is."""
    number = uuid.uuid4().hex[:6]
    socket = where.folder / f"{number}.sock"
    process = subprocess.Popen(
        [sys.executable, "-m", module, "--state", str(where.folder / number), "--socket", str(socket)],
        env={**where.env, "GPUTUI_SIMULATED_GPUS": gpus, **(env or {})},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout:
        line = process.stdout.readline()
        if not line.startswith("READY"):
            process.kill()
            process.wait()
            raise RuntimeError(f"the daemon did not start: {line}")
        found = Daemon(where, process, socket)
        try:
            yield found
        finally:
            found.end()


def compile_c(source: str, folder: Path, name: str) -> Path:
    """Compile one C source of this folder."""
    made = folder / name
    subprocess.run(["cc", "-O2", "-static", "-o", str(made), str(ROOT / "bench" / source)], check=True)
    return made


def cores() -> int:
    """Cores we may use."""
    return len(os.sched_getaffinity(0))
