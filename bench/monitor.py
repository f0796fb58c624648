"""The monitor beside nvitop and gpustat: CPU time and bytes to the terminal, on one stub library and one machine."""

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench import peers
from bench.figures import Counts, Figure
from bench.place import GPUTUI, Place, place
from bench.processes import family, family_cpu
from bench.terminal import Terminal
from tests.nvml_stub.control import GIB, NvmlStub

GPUS, PER_GPU = 8, 32
KEY_SECONDS = 0.5
WARM_SECONDS = 4.0
FIRST_PICTURE = {"gputui": rb"h100-80g", "nvitop": rb"NVITOP", "gpustat": rb"H100"}


def measure(counts: Counts) -> list[Figure]:
    """All monitors at once, first left alone, then with a key every half second."""
    commands: dict[str, list[str]] = {"gputui": [*GPUTUI, "monitor"]}
    found = peers.monitors()
    if "nvitop" in found:
        commands["nvitop"] = [str(found["nvitop"])]
    if "gpustat" in found:
        commands["gpustat"] = [str(found["gpustat"]), "--watch", "1", "--no-color", "--show-user"]
    with place() as where, _busy_gpus(where) as env, ExitStack() as stack:
        shown = {name: stack.enter_context(Terminal(command, env)) for name, command in commands.items()}
        for name, terminal in shown.items():
            terminal.wait_for(FIRST_PICTURE[name])
        time.sleep(WARM_SECONDS)
        idle = _spent(shown, counts.monitor_seconds, keys=False)
        busy = _spent(shown, counts.monitor_seconds, keys=True)
    return [
        _figure("monitor CPU, left alone", idle, "cpu", "% of a core", 0.5),
        _figure("monitor CPU, a key each 0.5 s", busy, "cpu", "% of a core", 0.1),
        _figure("monitor to the terminal, left alone", idle, "bytes", "B/s", 1.0),
        _figure("monitor to the terminal, with keys", busy, "bytes", "B/s", 1.0),
    ]


def _spent(shown: Mapping[str, Terminal], seconds: float, *, keys: bool) -> dict[str, dict[str, float]]:
    """Per program: CPU in percent of a core, by process too, and bytes per second."""
    before = {name: (family_cpu(one.process.pid), one.mark()) for name, one in shown.items()}
    began = time.monotonic()
    presses = 0
    while (now := time.monotonic()) < began + seconds:
        if keys:
            # down, then up: the arrow keys move a selection in all of them that have one
            for one in shown.values():
                one.send(b"\x1b[B" if presses % 16 < 8 else b"\x1b[A")
            presses += 1
        time.sleep(max(0.0, min(began + seconds, now + KEY_SECONDS) - time.monotonic()))
    lasted = time.monotonic() - began
    spent = {}
    for name, one in shown.items():
        cpu, mark = before[name]
        pids = family(one.process.pid)
        spent[name] = {
            "cpu": (family_cpu(one.process.pid) - cpu) / lasted * 100,
            "bytes": one.count(mark) / lasted,
            "processes": float(len(pids)),
        }
    return spent


def _figure(what: str, spent: Mapping[str, Mapping[str, float]], kind: str, unit: str, limit: float) -> Figure:
    peer = spent.get("nvitop")
    return Figure(
        what, spent["gputui"][kind], unit, limit, peer[kind] if peer else None, "nvitop",
        detail={name: dict(one) for name, one in spent.items()},
    )  # fmt: skip


@contextmanager
def _busy_gpus(where: Place) -> Iterator[dict[str, str]]:
    """The stub with live processes and readings that change each second; what finds it, as an environment."""
    script = f"for i in $(seq {GPUS * PER_GPU}); do sleep 3600 & echo $!; done; echo; wait"
    sleepers = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert sleepers.stdout is not None
    stop = threading.Event()
    try:
        pids = [int(line) for line in iter(sleepers.stdout.readline, "\n")]
        with NvmlStub(_folder(where.folder), GPUS) as stub:
            for number in range(GPUS):
                held = pids[number * PER_GPU : (number + 1) * PER_GPU]
                stub.gpu(number).set_processes(*((pid, GIB) for pid in held))
                stub.gpu(number).memory_used = PER_GPU * GIB
            changing = threading.Thread(target=_change, args=(stub, pids, stop))
            changing.start()
            try:
                yield {**where.env, **stub.env}
            finally:
                stop.set()
                changing.join()
    finally:
        os.killpg(sleepers.pid, signal.SIGTERM)  # a session of its own: the shell and its sleepers
        sleepers.wait()
        sleepers.stdout.close()


def _folder(folder: Path) -> Path:
    made = folder / "stub"
    made.mkdir()
    return made


def _change(stub: NvmlStub, pids: list[int], stop: threading.Event) -> None:
    """Work as training jobs look: utilization near its level, power with it, memory now and then."""
    chance = random.Random(1)
    while not stop.wait(1.0):
        for number in range(GPUS):
            gpu = stub.gpu(number)
            gpu.utilization = chance.randint(85, 99)
            gpu.power = 600_000 + chance.randint(-40_000, 40_000)
            gpu.temperature = 65 + chance.randint(-1, 1)
            gpu.memory_used = PER_GPU * GIB + chance.randint(0, 1) * GIB
            held = pids[number * PER_GPU : (number + 1) * PER_GPU]
            gpu.set_samples(*((pid, chance.randint(0, 9), 0) for pid in held))
