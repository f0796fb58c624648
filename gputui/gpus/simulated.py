"""Simulated GPUs: their memory is what the runs declared, their utilization follows the CPU use of real processes."""

import hashlib
import json
import math
import os
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path

from gputui.domain.errors import InputError
from gputui.gpus.processes import ProcessTable, ProcStat, read_stat
from gputui.gpus.reading import GpuReading, Holder, Int, Missing, Problem, ProcessReading

FULL_LOAD = 0.1
"""Cores of CPU use that show as 100 %: eight busy trainers do not fill a laptop."""
SPEC_ENV = "GPUTUI_SIMULATED_GPUS"
FOREIGN_ENV = "GPUTUI_SIMULATED_FOREIGN"
"""Path of a JSON file {uuid or index: [{"pid", "memory"}]}: processes that no run owns. Read again when it changes."""

_GIB = 1 << 30
_LIMIT = 1024
_SMOOTHING = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")
_ENTRY = re.compile(r"^(?:(\d+)x)?([a-z][a-z0-9]*)-(\d+)g$")
_REMEDY = "write a number of GPUs (8) or a list of types with their memory (4xh100-80g,2xl40s-48g)"


@dataclass(frozen=True, slots=True)
class Model:
    """What a simulated type looks like in the readings."""

    name: str
    idle: float
    limit: float


_MODELS = {
    "h100": Model("NVIDIA H100", 70, 700),
    "h200": Model("NVIDIA H200", 75, 700),
    "b200": Model("NVIDIA B200", 140, 1000),
    "a100": Model("NVIDIA A100", 55, 400),
    "l40s": Model("NVIDIA L40S", 35, 350),
    "a10": Model("NVIDIA A10", 20, 150),
    "v100": Model("Tesla V100", 40, 300),
    "t4": Model("Tesla T4", 10, 70),
    "rtx4090": Model("NVIDIA GeForce RTX 4090", 20, 450),
}


@dataclass(frozen=True, slots=True)
class SimulatedGpu:
    """One GPU of a spec."""

    type: str
    memory: int
    model: Model


def parse_spec(spec: str) -> list[SimulatedGpu]:
    """GPUs of a spec such as `8` or `4xh100-80g,2xl40s-48g`. Raises InputError."""
    text = spec.strip().lower()
    if re.fullmatch(r"\d{1,6}", text):
        count = int(text)
        large = math.ceil(count / 2)
        middle = math.ceil((count - large) / 2)
        counts = ((large, "h100", 80), (middle, "l40s", 48), (count - large - middle, "a10", 24))
    else:
        found = [_ENTRY.match(part.strip()) for part in text.split(",")]
        if not all(found):
            raise InputError(SPEC_ENV, spec, _REMEDY)
        counts = tuple((int(m[1] or 1), m[2], int(m[3])) for m in found if m)  # type: ignore[assignment]
    if not 1 <= sum(count for count, _, _ in counts) <= _LIMIT or any(gib == 0 for _, _, gib in counts):
        raise InputError(SPEC_ENV, spec, f"{_REMEDY}, from 1 to {_LIMIT} GPUs in all")
    gpus: list[SimulatedGpu] = []
    for count, model, gib in counts:
        shape = _MODELS.get(model) or Model(f"NVIDIA {model.upper()}", 30, 300)
        gpus += [SimulatedGpu(f"{model}-{gib}g", gib * _GIB, shape)] * count
    return gpus


def simulated_uuid(index: int) -> str:
    """The same on this machine each time."""
    digest = hashlib.sha256(f"{_machine_id()}/{index}".encode()).hexdigest()
    return f"GPU-sim-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:28]}"


class SimulatedSource:
    """A `Source` of simulated GPUs."""

    name = "simulated"

    def __init__(self, spec: str) -> None:
        self._gpus = parse_spec(spec)
        self._uuids = [simulated_uuid(index) for index in range(len(self._gpus))]
        self._loads = {uuid: _Load() for uuid in self._uuids}
        self._holders: dict[str, tuple[Holder, ...]] = {}
        self._foreign = _ForeignFile(self._uuids)
        self._table = ProcessTable()

    def read(self, now: float) -> tuple[tuple[GpuReading, ...], Problem | None, str]:
        """All simulated GPUs; nothing is ever wrong with them."""
        self._foreign.refresh()
        alive: set[int] = set()
        readings = [self._read(index, uuid, now, alive) for index, uuid in enumerate(self._uuids)]
        self._table.keep(alive)
        return tuple(readings), None, "simulated"

    def memory_used(self, uuid: str) -> Int:
        """Bytes held by processes that live right now."""
        if uuid not in self._loads:
            return Missing.UNKNOWN
        held = (h.memory for h in self._held(uuid) if any(read_stat(pid) for pid in h.pids))
        return sum(held)

    def set_holders(self, holders: dict[str, tuple[Holder, ...]]) -> None:
        """Which processes hold how much of which GPU, until the next call."""
        self._holders = dict(holders)

    def close(self) -> None:
        """Nothing to give back."""

    def _held(self, uuid: str) -> tuple[Holder, ...]:
        return self._holders.get(uuid, ()) + self._foreign.holders.get(uuid, ())

    def _read(self, index: int, uuid: str, now: float, alive: set[int]) -> GpuReading:
        gpu = self._gpus[index]
        stats: dict[int, ProcStat] = {}
        processes: list[ProcessReading] = []
        memory = 0
        for holder in self._held(uuid):
            live = {pid: stat for pid in holder.pids if (stat := read_stat(pid)) is not None}
            if live:
                pid, stat = next(iter(live.items()))
                processes.append(self._process(pid, stat, holder.memory))
                memory += holder.memory
                stats.update(live)
        alive.update(stats)
        load = self._loads[uuid].update(stats, now)
        utilization = round(100 * load)
        if len(processes) == 1:
            processes = [replace(processes[0], sm=utilization)]
        context = 40.0 if processes else 0.0
        model = gpu.model
        power = min(model.limit, model.idle + (context + (model.limit - model.idle - context) * load) * 0.95)
        return GpuReading(
            uuid=uuid,
            index=index,
            name=f"{model.name} {gpu.memory // _GIB}GB",
            type=gpu.type,
            memory_total=gpu.memory,
            memory_used=min(memory, gpu.memory),
            utilization=utilization,
            temperature=round(31 + index % 4 + 42 * load),
            power=round(power, 1),
            power_limit=model.limit,
            fan=Missing.UNSUPPORTED,
            sm_clock=round(345 + 1635 * load),
            processes=tuple(processes),
            pci=f"00000000:{index + 1:02X}:00.0",
        )

    def _process(self, pid: int, stat: ProcStat, memory: int) -> ProcessReading:
        who = self._table.who(pid, stat)
        return ProcessReading(
            pid=pid,
            start_time=stat.start_time,
            memory=memory,
            user=who.user,
            uid=who.uid,
            command=who.command,
            sm=Missing.UNSUPPORTED,
            cpu_seconds=stat.cpu,
            container=who.container,
        )


class _Load:
    """0 to 1 of a GPU: CPU use of the processes that hold it, smoothed."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._total = 0.0
        self._pids: set[tuple[int, int]] = set()
        self._load = 0.0

    def update(self, stats: dict[int, ProcStat], now: float) -> float:
        pids = {(pid, stat.start_time) for pid, stat in stats.items()}
        # reaped children count with their parent, so that the sum does not fall when one of the processes ends
        total = sum(stat.cpu + stat.cpu_reaped for stat in stats.values())
        if self._at is None or not pids:
            self._load = 0.0
        elif now > self._at:
            began = (self._at - _boot_offset()) * _TICKS
            earlier = sum(
                stat.cpu + stat.cpu_reaped
                for pid, stat in stats.items()
                if (pid, stat.start_time) not in self._pids and stat.start_time < began
            )
            used = max(0.0, total - self._total - earlier) / (now - self._at)
            load = min(1.0, used / FULL_LOAD)
            self._load = load if not self._pids else self._load + _SMOOTHING * (load - self._load)
        self._at, self._total, self._pids = now, total, pids
        return self._load


class _ForeignFile:
    """Holders that no run owns, from the file that `FOREIGN_ENV` names."""

    def __init__(self, uuids: list[str]) -> None:
        path = os.environ.get(FOREIGN_ENV, "")
        self._path = Path(path) if path else None
        self._uuids = uuids
        self._stamp: tuple[int, int, int] | None = None
        self.holders: dict[str, tuple[Holder, ...]] = {}

    def refresh(self) -> None:
        if self._path is None:
            return
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp == self._stamp:
                return
            content = json.loads(self._path.read_text())
            self.holders = {
                self._uuids[int(key)] if str(key).isdecimal() else str(key): tuple(
                    Holder(pids=(int(row["pid"]),), memory=int(row["memory"])) for row in rows
                )
                for key, rows in content.items()
            }
            self._stamp = stamp
        except FileNotFoundError:
            self.holders, self._stamp = {}, None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
            return  # half written: what was read before stays until the file makes sense


def _boot_offset() -> float:
    """What to take from CLOCK_MONOTONIC to get seconds in the scale of start times (0 unless the machine slept)."""
    return time.clock_gettime(time.CLOCK_MONOTONIC) - time.clock_gettime(time.CLOCK_BOOTTIME)


def _machine_id() -> str:
    try:
        return Path("/etc/machine-id").read_text().strip()
    except OSError:
        return os.uname().nodename
