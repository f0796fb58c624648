"""GPUs of the stub, a child that reads them on a clock of the test, and processes to hold them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputui.gpus.processes import read_stat
from gputui.gpus.reading import GpuReading, Int, Snapshot
from gputui.gpus.wire import Decoder, unpack
from tests.nvml_stub.control import NvmlStub, build

Spawn = Callable[..., "subprocess.Popen[bytes]"]


class SourceChild:
    """`NvmlSource` in a process of its own."""

    def __init__(self, env: dict[str, str], *arguments: str) -> None:
        script = Path(__file__).with_name("source_child.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
        )
        self._decoder = Decoder()

    def snapshot(self, now: float = 0.0) -> Snapshot:
        """Everything, read as if at `now`."""
        return self._decoder.decode(self._ask({"now": now}))

    def read(self, now: float = 0.0) -> tuple[GpuReading, ...]:
        """The GPUs, read as if at `now`."""
        return self.snapshot(now).gpus

    def memory_used(self, uuid: str) -> Int:
        """One sample of used memory."""
        return unpack(self._ask({"memory": uuid}))

    def open_files(self) -> int:
        """How many file descriptors the child has."""
        return self._ask({"fds": True})

    def close(self) -> None:
        """End the child."""
        with self.process:
            self.process.stdin.close()

    def _ask(self, request: dict[str, object]):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the child died: {self.process.wait()}"
        return json.loads(answer)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stub library, compiled once."""
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def make_stub(tmp_path: Path, library: Path) -> Callable[..., NvmlStub]:
    """A stub with so many GPUs; more arguments as `NvmlStub` takes them."""

    def make(gpus: int = 1, **more) -> NvmlStub:
        return NvmlStub(tmp_path, gpus, **{"library": library, **more})

    return make


@pytest.fixture
def open_source() -> Iterator[Callable[..., SourceChild]]:
    """Starts children on a stub, and ends them."""
    children: list[SourceChild] = []

    def start(stub: NvmlStub, *arguments: str) -> SourceChild:
        children.append(SourceChild(stub.env, *arguments))
        return children[-1]

    yield start
    for child in children:
        child.close()


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts real processes, and ends them."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(*argv: str, **more) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(argv or ("sleep", "600"), **more)
        processes.append(process)
        # for a moment after exec a process has no command line
        while read_stat(process.pid) and not Path(f"/proc/{process.pid}/cmdline").read_bytes():
            os.sched_yield()
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
