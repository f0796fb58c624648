"""The reader process and its handle: what a daemon and a screen see of GPUs, whatever the driver does."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gputui.domain.errors import InputError
from gputui.gpus import handle
from gputui.gpus.handle import Reader, read_once
from gputui.gpus.processes import read_stat
from gputui.gpus.reading import Holder, Missing
from tests.nvml_stub import control
from tests.nvml_stub.control import GIB
from tests.support.counts import count

DEADLINE = 60.0


class Watched:
    """A reader whose snapshots can be waited for."""

    def __init__(self, simulated=None, interval=0.05, **more):
        self.changed = asyncio.Event()
        self.reader = Reader(simulated, interval, lambda _: self.changed.set(), **more)

    async def __aenter__(self):
        await self.reader.start()
        return self

    async def __aexit__(self, *_):
        await self.reader.close()

    async def until(self, condition):
        """The first snapshot for which the condition holds."""
        async with asyncio.timeout(DEADLINE):
            while self.reader.latest is None or not condition(self.reader.latest):
                self.changed.clear()
                await self.changed.wait()
        return self.reader.latest


def end(process):
    """Kill a process and leave its zombie."""
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def mapped(pid):
    """What a process has mapped."""
    return Path(f"/proc/{pid}/maps").read_text()


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def stub(make_stub, monkeypatch):
    stub = make_stub(2)
    for name, value in stub.env.items():
        monkeypatch.setenv(name, value)
    yield stub
    stub.clear_faults()


async def test_snapshots_follow_the_driver(stub, spawn):
    async with Watched() as watched:
        first = await watched.until(lambda snapshot: snapshot.gpus)
        assert (first.source, first.driver, first.problem) == ("nvml", "580.95.05", None)
        assert [gpu.uuid for gpu in first.gpus] == [stub.uuid(0), stub.uuid(1)]
        assert first.sampled_at.tzinfo is not None
        stub.gpu(1).utilization = 64
        stub.gpu(1).memory_used = 7 * GIB
        snapshot = await watched.until(lambda snapshot: snapshot.gpus[1].utilization == 64)
        assert snapshot.gpus[1].memory_used == 7 * GIB
        assert snapshot.gpus[0] == first.gpus[0]
        assert watched.reader.age() < DEADLINE
        assert snapshot.host.memory_total > 0


async def test_memory_samples(stub):
    async with Watched(interval=30.0) as watched:
        await watched.until(lambda snapshot: snapshot.gpus)
        stub.gpu(0).memory_used = 3 * GIB
        assert await watched.reader.memory_samples(stub.uuid(0)) == [3 * GIB] * 3
        stub.fail("nvmlDeviceGetMemoryInfo_v2", control.UNKNOWN, gpu=0)
        assert await watched.reader.memory_samples(stub.uuid(0), n=2) == [Missing.UNKNOWN] * 2
        assert await watched.reader.memory_samples(stub.uuid(1), n=1) == [0]
        assert await watched.reader.memory_samples("GPU-none", n=1) == [Missing.UNKNOWN]


async def test_a_hung_driver_shows_as_stale_data_and_the_reader_is_replaced(stub):
    """aristocratos/btop#1084: nobody waits for the driver; readings keep their age; the end of the hang ends it."""
    async with Watched(interval=0.05, deadline=0.6) as watched:
        fresh = await watched.until(lambda snapshot: snapshot.gpus)
        first = watched.reader.pid
        hang = stub.hang()
        stale = await watched.until(lambda snapshot: snapshot.problem)
        assert stale.problem.code == "hung"
        assert "has not answered" in stale.problem.sentence
        assert [gpu.uuid for gpu in stale.gpus] == [gpu.uuid for gpu in fresh.gpus]
        assert watched.reader.age() >= 0.6
        assert await watched.reader.memory_samples(stub.uuid(0)) == [Missing.UNKNOWN] * 3
        await watched.until(lambda _: watched.reader.pid not in (None, first))
        stub.end(hang)
        await watched.until(lambda snapshot: snapshot.problem is None)
        assert read_stat(first) is None


async def test_a_driver_that_hangs_from_the_start_still_shows_the_host(stub):
    stub.hang("nvmlInitWithFlags")
    async with Watched(interval=0.05, deadline=0.5) as watched:
        snapshot = await watched.until(lambda snapshot: snapshot.problem)
        assert (snapshot.problem.code, snapshot.source, snapshot.gpus) == ("hung", "none", ())
        assert snapshot.host.hostname == os.uname().nodename


async def test_readers_that_cannot_be_killed_do_not_pile_up(stub, monkeypatch):
    """In an uninterruptible call even SIGKILL waits: three are left behind, then no other is started."""
    monkeypatch.setattr(handle, "_kill", lambda child: None)
    monkeypatch.setattr(handle, "_PATIENCE", 0.1)
    monkeypatch.setattr(handle, "_FIRST_PAUSE", 0.02)
    stub.hang()
    emitted = []
    try:
        async with Watched(interval=0.02, deadline=0.1) as watched:
            await watched.until(lambda _: len(handle._still_abandoned()) == 3)
            await watched.until(lambda _: emitted.append(watched.reader.pid) or len(emitted) == 20)
            assert emitted == [None] * 20
            assert watched.reader.latest.problem.code == "hung"
            monkeypatch.setattr(handle, "_PATIENCE", DEADLINE)
            stub.clear_faults()
            await watched.until(lambda snapshot: snapshot.gpus)
            monkeypatch.undo()
    finally:
        for child in handle._still_abandoned():
            child.kill()
            child.wait()


async def test_a_reader_that_dies_is_replaced(stub):
    async with Watched() as watched:
        await watched.until(lambda snapshot: snapshot.gpus)
        first = watched.reader.pid
        os.kill(first, signal.SIGKILL)
        down = await watched.until(lambda snapshot: snapshot.problem)
        assert down.problem.code == "reader_failed"
        assert len(down.gpus) == 2
        await watched.until(lambda snapshot: snapshot.problem is None)
        assert watched.reader.pid not in (None, first)


async def test_a_null_handle_would_be_noticed(stub):
    """The stub aborts on one, as the driver's library does; losing GPUs at any moment never leads there."""
    async with Watched(interval=0.02) as watched:
        await watched.until(lambda snapshot: snapshot.gpus)
        reader = watched.reader.pid
        for _ in range(count(5, 100)):
            stub.gpu(1).lost = control.GPU_IS_LOST
            snapshot = await watched.until(lambda snapshot: snapshot.gpus[1].lost)
            assert snapshot.gpus[0].lost == ""
            stub.gpu(1).lost = 0
        assert watched.reader.pid == reader


async def test_problems_come_through_with_host_readings(stub):
    """wookayin/gpustat#147, and the like: host-only mode instead of nothing."""
    stub.control.init_error = control.VERSION_MISMATCH
    async with Watched() as watched:
        snapshot = await watched.until(lambda snapshot: snapshot.problem)
        assert snapshot.problem.code == "version_mismatch"
        assert "reboot" in snapshot.problem.remedy.lower()
        assert (snapshot.source, snapshot.gpus) == ("none", ())
        assert snapshot.host.memory_total > 0


async def test_a_reader_with_an_outdated_library_is_replaced(stub, monkeypatch):
    """A process that loaded the library before an upgrade would see the mismatch for ever."""
    monkeypatch.setattr("gputui.gpus.handle._NEW_LIBRARY_AFTER", 0.1)
    stub.control.init_error = control.VERSION_MISMATCH
    async with Watched() as watched:
        await watched.until(lambda snapshot: snapshot.problem)
        first = watched.reader.pid
        stub.control.init_error = 0
        snapshot = await watched.until(lambda snapshot: snapshot.gpus)
        assert snapshot.problem is None
        assert watched.reader.pid != first


async def test_a_failing_listener_does_not_end_the_readings(stub):
    problems = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context["exception"]))

    failed = asyncio.Event()

    def fail(_):
        failed.set()
        raise ValueError("listener")

    async with Watched(interval=0.02) as watched:
        watched.reader._on_snapshot = fail
        first = await watched.reader.first(DEADLINE)
        async with asyncio.timeout(DEADLINE):
            await failed.wait()
        watched.reader._on_snapshot = lambda _: watched.changed.set()
        await watched.until(lambda snapshot: snapshot.monotonic > first.monotonic)
    assert str(problems[0]) == "listener"


async def test_simulated_gpus_follow_their_holders(spawn):
    async with Watched("2xh100-80g") as watched:
        snapshot = await watched.until(lambda snapshot: snapshot.gpus)
        uuid = snapshot.gpus[0].uuid
        busy = spawn("sh", "-c", "while :; do :; done")
        watched.reader.set_holders({uuid: (Holder((busy.pid,), 40 * GIB),)})
        snapshot = await watched.until(lambda snapshot: (snapshot.gpus[0].utilization or 0) >= 50)
        assert snapshot.gpus[0].memory_used == 40 * GIB
        assert [process.pid for process in snapshot.gpus[0].processes] == [busy.pid]
        assert await watched.reader.memory_samples(uuid) == [40 * GIB] * 3
        end(busy)
        assert await watched.reader.memory_samples(uuid, n=1) == [0], "a zombie holds nothing"


async def test_a_replaced_reader_knows_the_holders(spawn):
    async with Watched("1") as watched:
        snapshot = await watched.until(lambda snapshot: snapshot.gpus)
        watched.reader.set_holders({snapshot.gpus[0].uuid: (Holder((spawn().pid,), GIB),)})
        await watched.until(lambda snapshot: snapshot.gpus[0].memory_used == GIB)
        os.kill(watched.reader.pid, signal.SIGKILL)
        await watched.until(lambda snapshot: snapshot.problem)
        snapshot = await watched.until(lambda snapshot: not snapshot.problem and snapshot.gpus[0].processes)
        assert snapshot.gpus[0].memory_used == GIB


async def test_the_interval_can_be_changed(stub):
    async with Watched(interval=60.0) as watched:
        first = await watched.until(lambda snapshot: snapshot.gpus)
        watched.reader.set_interval(0.05)
        await watched.until(lambda snapshot: snapshot.monotonic > first.monotonic)


async def test_a_bad_spec_is_refused_at_once():
    with pytest.raises(InputError, match=r"8x.*4xh100-80g"):
        Reader("8x")


async def test_close_ends_the_process_even_while_the_driver_hangs(stub):
    watched = Watched()
    async with watched:
        await watched.until(lambda snapshot: snapshot.gpus)
        pid = watched.reader.pid
        calls = stub.calls("nvmlDeviceGetUtilizationRates")
        stub.hang()
        assert calls
    assert read_stat(pid) is None


def test_the_reader_dies_with_its_parent(tmp_path):
    """However the parent ends, nothing is left."""
    script = (
        "import asyncio\n"
        "from gputui.gpus.handle import Reader\n"
        "async def main():\n"
        "    reader = Reader('1', 0.05)\n"
        "    await reader.start()\n"
        "    await reader.first(20)\n"
        "    print(reader.pid, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        assert read_stat(pid)
        parent.kill()
    deadline = time.monotonic() + DEADLINE
    while read_stat(pid):
        assert time.monotonic() < deadline, "the reader outlived its parent"
        time.sleep(0.01)


async def test_only_the_reader_process_touches_the_driver(stub):
    """Syllo/nvtop#139: whatever a call takes, it is not this process that waits for it."""
    stub.delay("nvmlDeviceGetUtilizationRates", 0.2)
    async with Watched() as watched:
        await watched.until(lambda snapshot: snapshot.gpus)
        assert str(stub.library) in mapped(watched.reader.pid)
        assert "libnvidia-ml" not in mapped(os.getpid())


def test_the_reader_loads_nothing_heavy():
    code = (
        "import sys, gputui.gpus.reader, gputui.gpus.nvml, gputui.gpus.simulated\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "pynvml" in loaded
    assert not {"textual", "rich", "sqlalchemy", "pydantic", "fastapi", "asyncio", "typer"} & set(loaded)


async def test_open_files_of_the_parent_stay_flat(stub, monkeypatch):
    """lablup/all-smi#118, on the parent's side: replaced readers leave nothing behind."""
    monkeypatch.setattr(handle, "_FIRST_PAUSE", 0.02)
    monkeypatch.setattr(handle, "_LONGEST_PAUSE", 0.02)
    async with Watched(interval=0.02) as watched:
        await watched.until(lambda snapshot: snapshot.gpus)
        before = open_files()
        for _ in range(count(2, 10)):
            os.kill(watched.reader.pid, signal.SIGKILL)
            await watched.until(lambda snapshot: snapshot.problem)
            await watched.until(lambda snapshot: snapshot.problem is None)
        await watched.until(lambda _: open_files() == before)  # the old reader's are closed in the loop's next rounds


def test_read_once(stub):
    stub.gpu(0).utilization = 33
    snapshot = read_once()
    assert [gpu.utilization for gpu in snapshot.gpus] == [33, 0]
    assert isinstance(snapshot.host.cpu_percent, float)


def test_read_once_does_not_wait_for_a_hung_driver(stub):
    stub.hang("nvmlDeviceGetMemoryInfo_v2")
    snapshot = read_once(deadline=0.5)
    assert (snapshot.problem.code, snapshot.gpus) == ("hung", ())
    assert snapshot.host.memory_total > 0
