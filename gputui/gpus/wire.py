"""Snapshots as JSON lines between the reader process and its parent: only what changed since the line before.

Static fields and unchanged process lists thus cost nothing per second. A line with `"full": true` starts anew.
"""

import json
from dataclasses import fields, replace
from datetime import datetime

from gputui.gpus.reading import GpuReading, HostReading, Missing, Problem, ProcessReading, Snapshot

_GPU_FIELDS = tuple(f.name for f in fields(GpuReading))
_PROCESS_FIELDS = tuple(f.name for f in fields(ProcessReading))
_HOST_FIELDS = tuple(f.name for f in fields(HostReading))
_READINGS = frozenset(
    {"memory_total", "memory_used", "utilization", "temperature", "power", "power_limit", "fan", "sm_clock"}
)
_HOST_READINGS = frozenset({"cpu_percent", "load_1m", "memory_used", "memory_total", "net_rx", "net_tx"})


def pack(value: object) -> object:
    """One reading for JSON: null is unknown, "unsupported" is itself."""
    if value is Missing.UNKNOWN:
        return None
    return value.value if isinstance(value, Missing) else value


def unpack(value: object) -> object:
    """The inverse of `pack`."""
    if value is None:
        return Missing.UNKNOWN
    return Missing.UNSUPPORTED if value == "unsupported" else value


def _pack_process(process: ProcessReading) -> list[object]:
    return [pack(getattr(process, name)) for name in _PROCESS_FIELDS]


def _unpack_process(row: list[object]) -> ProcessReading:
    values = dict(zip(_PROCESS_FIELDS, row, strict=True))
    values["memory"] = unpack(values["memory"])
    values["sm"] = unpack(values["sm"])
    return ProcessReading(**values)  # type: ignore[arg-type]  # the other end packed the same fields


class Encoder:
    """Turns snapshots into lines; remembers what the other end already has."""

    def __init__(self) -> None:
        self._sent: dict[str, GpuReading] = {}
        self._order: list[str] = []
        self._head: tuple[object, ...] | None = None

    def encode(self, snapshot: Snapshot) -> bytes:
        """One line, newline included."""
        line: dict[str, object] = {
            "t": "snapshot",
            "at": snapshot.sampled_at.isoformat(),
            "mono": snapshot.monotonic,
            "host": [pack(getattr(snapshot.host, name)) for name in _HOST_FIELDS],
        }
        head = (snapshot.source, snapshot.driver, snapshot.problem)
        if head != self._head:
            problem = snapshot.problem
            line["full"] = self._head is None
            line["source"], line["driver"] = snapshot.source, snapshot.driver
            line["problem"] = problem and [problem.code, problem.sentence, problem.remedy]
            self._head = head
        order = [gpu.uuid for gpu in snapshot.gpus]
        if order != self._order:
            line["order"] = self._order = order
        changed = {}
        for gpu in snapshot.gpus:
            delta = self._delta(self._sent.get(gpu.uuid), gpu)
            if delta:
                changed[gpu.uuid] = delta
        line["gpus"] = changed
        self._sent = {gpu.uuid: gpu for gpu in snapshot.gpus}
        return json.dumps(line, separators=(",", ":")).encode() + b"\n"

    @staticmethod
    def _delta(before: GpuReading | None, now: GpuReading) -> dict[str, object]:
        if before is now:
            return {}
        delta: dict[str, object] = {}
        for name in _GPU_FIELDS:
            value = getattr(now, name)
            if before is not None and getattr(before, name) == value:
                continue
            if name == "processes":
                delta[name] = None if value is None else [_pack_process(process) for process in value]
            else:
                delta[name] = pack(value)
        return delta


class Decoder:
    """Turns lines back into snapshots."""

    def __init__(self) -> None:
        self._gpus: dict[str, GpuReading] = {}
        self._order: list[str] = []
        self._source, self._driver = "none", ""
        self._problem: Problem | None = None

    def decode(self, line: dict[str, object]) -> Snapshot:
        """The snapshot after this line. Raises KeyError, TypeError or ValueError on a line that makes no sense."""
        get = line.get
        if get("full"):
            self._gpus.clear()
        if "source" in line:
            self._source, self._driver = str(line["source"]), str(line["driver"])
            problem = get("problem")
            self._problem = Problem(*problem) if isinstance(problem, list) else None
        order = get("order")
        if isinstance(order, list):
            self._order = order
        changed = line["gpus"]
        if not isinstance(changed, dict):
            raise TypeError("gpus is not a mapping")
        for uuid, delta in changed.items():
            self._gpus[uuid] = self._apply(self._gpus.get(uuid), delta)
        self._gpus = {uuid: self._gpus[uuid] for uuid in self._order}
        return Snapshot(
            sampled_at=datetime.fromisoformat(str(line["at"])),
            monotonic=float(line["mono"]),  # type: ignore[arg-type]  # a wrong type is a ValueError or TypeError
            source=self._source,
            gpus=tuple(self._gpus.values()),
            host=_unpack_host(line["host"]),
            problem=self._problem,
            driver=self._driver,
        )

    @staticmethod
    def _apply(before: GpuReading | None, delta: dict[str, object]) -> GpuReading:
        values: dict[str, object] = {}
        for name, value in delta.items():
            if name in _READINGS:
                values[name] = unpack(value)
            elif name == "processes" and isinstance(value, list):
                values[name] = tuple(_unpack_process(row) for row in value)
            elif isinstance(value, list):
                values[name] = tuple(value)
            else:
                values[name] = value
        return GpuReading(**values) if before is None else replace(before, **values)  # type: ignore[arg-type]


def _unpack_host(row: object) -> HostReading:
    if not isinstance(row, list):
        raise TypeError("host is not a list")
    values = dict(zip(_HOST_FIELDS, row, strict=True))
    for name in _HOST_READINGS:
        values[name] = unpack(values[name])
    values["disks"] = tuple((str(mount), int(used), int(total)) for mount, used, total in values["disks"])
    return HostReading(**values)
