"""A daemon in memory: deterministic GPUs and jobs as in the sketch of the screen, and the acts on them."""

import asyncio
import base64
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from gputui.client import ClientError
from gputui.protocol import (
    ActReply,
    Cordon,
    DaemonStatus,
    Event,
    GpuRow,
    GpusReply,
    JobRow,
    LogChunk,
    MoveReply,
    MoveRequest,
    StartRequest,
    WhyReply,
    WindowReply,
)

NOW = datetime(2026, 11, 30, 14, 2, 31, tzinfo=UTC)
GIB = 1 << 30
WAITING = ("queued", "held")
ENDED = ("succeeded", "failed", "cancelled", "lost")


def ago(**kind: float) -> str:
    return (NOW - timedelta(**kind)).isoformat()


def ahead(**kind: float) -> str:
    return (NOW + timedelta(**kind)).isoformat()


def gpu(index: int, **changes: Any) -> GpuRow:
    big = index < 4
    row: GpuRow = {
        "uuid": f"GPU-{index:08d}-0000-0000-0000-000000000000",
        "index": index,
        "name": "NVIDIA H100 80GB HBM3" if big else "NVIDIA L40S",
        "type": "h100-80g" if big else "l40s-48g",
        "state": "free",
        "utilization": 0,
        "memory_used": int(0.4 * GIB),
        "memory_total": (80 if big else 48) * GIB,
        "temperature": 33 + index,
        "power": 72.0,
        "job_id": None,
        "processes": [],
        "unsupported": [],
        "power_limit": 700.0,
        "fan": 30,
        "sm_clock": 1980,
        "throttle": [],
        "mig_parent": None,
        "unified_memory": False,
        "why": "",
        "cordon": None,
        "run_ids": [],
        "job_ids": [],
        "held_by": "",
        "held_user": "",
        "held_since": None,
        "warnings": [],
        "history": [0] * 15,
    }
    row.update(changes)  # type: ignore[typeddict-item]
    return row


def held(job_id: int, name: str, user: str, since: str, utilization: int, used: float) -> dict[str, Any]:
    process = {"pid": 4000 + job_id, "user": user, "command": f"python {name}.py", "managed": True}
    return {
        "state": "busy",
        "utilization": utilization,
        "memory_used": int(used * GIB),
        "power": 664.0,
        "job_id": job_id,
        "job_ids": [job_id],
        "held_by": f"#{job_id} {name}",
        "held_user": user,
        "held_since": since,
        "history": [max(0, utilization - (step * 7) % 13) for step in range(15)],
        "processes": [{**process, "memory_used": int(used * GIB)}],
    }


def sample_gpus() -> list[GpuRow]:
    """The eight rows of the sketch."""
    fan: Cordon = {"reason": "fan", "by": "root", "since": ago(days=1), "until": ahead(days=4), "drain": True}
    foreign = {"pid": 31337, "user": "wang", "command": "python serve.py", "memory_used": 43 * GIB, "managed": False}
    return [
        gpu(0, **held(412, "sft-7b", "li", ago(hours=3, minutes=12), 97, 74.1)),
        gpu(1, **held(412, "sft-7b", "li", ago(hours=3, minutes=12), 96, 73.8)),
        gpu(2, **{**held(409, "eval", "chen", ago(hours=1), 0, 56.0), "history": [0] * 15}),
        gpu(3),
        gpu(
            4,
            state="foreign",
            utilization=48,
            memory_used=int(43.1 * GIB),
            held_by="python",
            held_user="wang",
            held_since=ago(days=2),
            history=[50] * 15,
            processes=[foreign],
        ),
        gpu(
            5,
            utilization=None,
            unsupported=["utilization"],
            memory_used=int(9.8 * GIB),
            history=[None] * 15,
            **{
                k: v
                for k, v in held(414, "notebook", "zhou", ago(minutes=40), 0, 9.8).items()
                if k not in ("utilization", "memory_used", "history")
            },
        ),
        gpu(6, cordon=fan, why="drained: fan, until Fri 18:00"),
        gpu(7, **held(415, "embed", "zhou", ago(minutes=18), 83, 12.5)),
    ]


def job(number: int, name: str, **changes: Any) -> JobRow:
    row: dict[str, Any] = {
        "id": number,
        "name": name,
        "state": "queued",
        "owner": "li",
        "project": "base",
        "class": "normal",
        "priority": 0,
        "position": None,
        "baseline_position": None,
        "readiness": 1.0,
        "gpus": 1,
        "gpu_types": ["h100-80g"],
        "gpu_memory": None,
        "duration": 7200.0,
        "submitted_at": ago(hours=5),
        "expected_start": None,
        "reason": "",
        "argv": ["python", "train.py", "--config", f"{name}.yaml"],
        "cwd": "/home/li/work",
        "holds": [],
        "share": False,
        "datasets": [],
        "started_at": None,
        "ended_at": None,
        "elapsed": None,
        "gpu_uuids": [],
        "moved": False,
        "version": 1,
        "attempt": 0,
        "exit_code": None,
    }
    return {**row, **changes}  # type: ignore[return-value]


def shows(row: JobRow, sought: str, inverted: bool) -> bool:
    """Whether a filter lets a row through."""
    return not sought or (sought in f"#{row['id']} {row['name']} {row['owner']}") != inverted


def sample_jobs(waiting: int = 37) -> list[JobRow]:
    """Running and ended jobs of the sketch, and `waiting` queued ones with names of every kind."""
    uuids = [row["uuid"] for row in sample_gpus()]
    running = {"state": "running", "attempt": 1}
    jobs = [
        job(
            412, "sft-7b", **running, started_at=ago(hours=3, minutes=12), gpu_uuids=uuids[:2], duration=12000.0, gpus=2
        ),
        job(409, "eval", **running, owner="chen", started_at=ago(hours=1), gpu_uuids=uuids[2:3], reason="idle 41m"),
        job(414, "notebook", **running, owner="zhou", started_at=ago(minutes=40), gpu_uuids=uuids[5:6], duration=None),
        job(415, "embed", **running, owner="zhou", started_at=ago(minutes=18), gpu_uuids=uuids[7:8]),
        job(
            420,
            "pretrain-13b",
            **{"class": "core"},
            owner="chen",
            gpus=4,
            duration=187200.0,
            datasets=["books"],
            reason="2 more h100-80g: #412 ends ≈16:40",
            expected_start=ahead(hours=2, minutes=38),
        ),
        job(
            431,
            "dpo-7b",
            **{"class": "core"},
            duration=21600.0,
            reason="starting on GPU 3",
            moved=True,
            datasets=["pairs"],
        ),
        job(
            422,
            "sft-代码-7b",
            owner="wang",
            gpus=2,
            duration=32400.0,
            readiness=0.67,
            datasets=["corpus-zh"],
            reason="data: corpus-zh 67 %",
            expected_start=ahead(hours=1, minutes=18),
        ),
        job(
            423,
            "embed-v3",
            owner="zhou",
            gpu_types=["l40s-48g"],
            reason="headroom: 1 l40s-48g kept for core",
            datasets=["x"],
        ),
        job(
            417,
            "sweep 🚀 [/x] [red]b[/red]",
            **{"class": "filler"},
            gpu_types=[],
            duration=2400.0,
            reason="behind #423",
        ),
        job(
            418,
            "bad\x1b[31m\x07name",
            state="held",
            holds=["user"],
            reason="held by li: wait for review",
            duration=None,
        ),
        job(419, "mystery", readiness=None, datasets=["nfs-share"], reason="data: nfs-share cannot be read"),
    ]
    for number in range(500, 500 + waiting - 7):
        name = ("ablation", "训练-大模型-日志", "probe", "emoji-🧪-test")[number % 4] + f"-{number}"
        jobs.append(
            job(
                number,
                name,
                owner=("li", "王芳", "zhou")[number % 3],
                reason=f"behind #{number - 1}",
                **{"class": ("core", "normal", "filler")[min(2, (number - 500) * 3 // max(1, waiting))]},
            )
        )
    past = {"attempt": 1, "started_at": ago(hours=4)}
    jobs += [
        job(411, "tokenise", **past, state="succeeded", ended_at=ago(hours=3), exit_code=0, reason="done"),
        job(
            410,
            "train-oops",
            **past,
            state="failed",
            ended_at=ago(hours=3),
            exit_code=1,
            reason="exit 1: CUDA out of memory",
        ),
        job(408, "old-run", **past, state="cancelled", ended_at=ago(hours=2), reason="cancelled by li"),
        job(407, "node-crash", **past, state="lost", ended_at=ago(hours=2), reason="the machine rebooted"),
    ]
    return jobs


class FakeBackend:
    """Satisfies `Backend`. Tests change `jobs` and `rows`, then `announce`."""

    def __init__(self, waiting: int = 37) -> None:
        self.jobs = sample_jobs(waiting)
        self.rows = sample_gpus()
        self.calls: list[tuple[Any, ...]] = []
        self.refuse: ClientError | None = None
        """The next act is refused with this."""
        self.gate: asyncio.Event | None = None
        """Acts wait here before they are answered."""
        self.window_gate: asyncio.Event | None = None
        self.away = False
        self.frozen: dict[str, str] | None = None
        self.attention: list[str] = ["GPU 6 is cordoned: fan.", "/data is 92 % full."]
        self.problem: dict[str, str] | None = None
        self.logs: dict[int, bytes] = {412: b"".join(b"step %d loss %.3f\n" % (i, 3 / (i + 1)) for i in range(400))}
        self.version = 1
        self.role = "operator"
        self._streams: list[asyncio.Queue[Event]] = []
        self._number()

    # --- what tests do

    def announce(self, *types: str) -> None:
        """Tell every stream that something changed."""
        self.version += 1
        self._number()
        for stream in self._streams:
            for kind in types or ("queue",):
                stream.put_nowait(self._event(kind))

    def leave(self) -> None:
        """Go away: the stream says so, calls fail."""
        self.away = True
        data: dict[str, object] = {"message": "The daemon ended the stream."}
        for stream in self._streams:
            stream.put_nowait({"epoch": 0, "seq": 0, "type": "disconnected", "data": data})

    def come_back(self) -> None:
        """Answer again."""
        self.away = False
        self.announce("hello")

    def find(self, number: int) -> JobRow:
        for row in self.jobs:
            if row["id"] == number:
                return row
        raise ClientError("not_found", f"There is no job #{number}.")

    def change(self, number: int, **changes: Any) -> None:
        row = self.find(number)
        self.jobs[self.jobs.index(row)] = {**row, **changes, "version": row["version"] + 1}  # type: ignore[typeddict-item]

    def _number(self) -> None:
        position = 0
        for index, row in enumerate(self.jobs):
            if row["state"] in WAITING:
                position += 1
                base = row["baseline_position"] or position + (5 if row["id"] == 431 else 0)
                if row["position"] != position:
                    self.jobs[index] = {**row, "position": position, "baseline_position": base}

    def _event(self, kind: str) -> Event:
        data: dict[str, Any] = {}
        if kind == "gpus":
            data = dict(self._gpus())
        elif kind == "status":
            data = dict(self._status())
        elif kind == "queue":
            data = {"version": self.version, "changed": []}
        return {"epoch": 1, "seq": self.version, "type": kind, "data": data}

    def _gpus(self) -> GpusReply:
        return {
            "sampled_at": NOW.isoformat(),
            "age": 0.2,
            "source": "simulated",
            "driver": "580.65",
            "problem": self.problem,  # type: ignore[typeddict-item]
            "host": {
                "hostname": "gpu03",
                "cpu_percent": 41.0,
                "cpu_count": 64,
                "load_1m": 12.5,
                "memory_used": 212 * GIB,
                "memory_total": 512 * GIB,
                "disks": [("/data", 83, 100)],
                "net_rx": 1e6,
                "net_tx": 1e5,
                "cpu_history": [20.0, 35.0, 55.0, 40.0, 41.0],
            },
            "gpus": [row.copy() for row in self.rows],
        }

    def _status(self) -> DaemonStatus:
        return {
            "pid": 1,
            "socket": "/run/x",
            "version": "0.1.0",
            "uptime": 100.0,
            "store": "sqlite",
            "gpus": len(self.rows),
            "queued": 1,
            "running": 1,
            "epoch": 1,
            "frozen": self.frozen,  # type: ignore[typeddict-item]
            "attention": self.attention,
            "user": "li",
            "role": self.role,
        }

    # --- the protocol

    def _here(self, *call: Any) -> None:
        self.calls.append(call)
        if self.away:
            raise ClientError("no_daemon", "The daemon does not answer.")

    async def _act(self, *call: Any) -> None:
        self._here(*call)
        if self.gate:
            await self.gate.wait()
        if self.refuse:
            refused, self.refuse = self.refuse, None
            raise refused

    async def window(self, **values: Any) -> WindowReply:
        self._here("window", values)
        if self.window_gate:
            await self.window_gate.wait()
        scope, sought, sort = values.get("scope", "queue"), values.get("filter", ""), values.get("sort", "")
        rows = [row for row in self.jobs if self._in(row, scope)]
        if scope == "all":
            rows.sort(key=lambda row: row["state"] in WAITING)
        rows = [row for row in rows if shows(row, sought, bool(values.get("invert")))]
        sort = {name: f"{name}_at" for name in ("submitted", "started", "ended")}.get(sort, sort)
        if sort:
            rows.sort(key=lambda row: (row[sort] is None, row[sort]), reverse=bool(values.get("reverse")))
        anchor, before, after = values.get("anchor"), values.get("before", 0), values.get("after", 0)
        at = next((index for index, row in enumerate(rows) if row["id"] == anchor), values.get("first", 0))
        start = max(0, at - before)
        counts: dict[str, int] = {}
        for row in self.jobs:
            counts[row["state"]] = counts.get(row["state"], 0) + 1
            if row["state"] in WAITING:
                counts[row["class"]] = counts.get(row["class"], 0) + 1
        return {
            "version": self.version,
            "total": len(rows),
            "first": start,
            "jobs": [row.copy() for row in rows[start : at + after]],
            "counts": counts,
        }

    @staticmethod
    def _in(row: JobRow, scope: str) -> bool:
        waiting, ended = row["state"] in WAITING, row["state"] in ENDED
        return {"queue": waiting, "ended": ended, "active": not waiting and not ended, "all": True}[scope]

    async def gpus(self) -> GpusReply:
        self._here("gpus")
        return self._gpus()

    async def status(self) -> DaemonStatus:
        self._here("status")
        return self._status()

    async def job(self, job_id: int) -> JobRow:
        self._here("job", job_id)
        row = self.find(job_id)
        runs: list[Any] = []
        if row["attempt"]:
            runs = [
                {
                    "attempt": 1,
                    "state": row["state"],
                    "gpu_uuids": row["gpu_uuids"],
                    "started_at": row["started_at"],
                    "ended_at": row["ended_at"],
                    "exit_code": row["exit_code"],
                    "signal": None,
                    "end_reason": row["reason"],
                    "resumed_from": None,
                    "checkpoint": None,
                    "log": "/state/runs/x/log",
                    "run_id": "x",
                }
            ]
        return {**row, "runs": runs}

    async def why(self, job_id: int) -> WhyReply:
        self._here("why", job_id)
        row = self.find(job_id)
        waits: list[Any] = []
        if job_id == 420:
            waits = [
                {
                    "kind": "gpus",
                    "what": "2 of 4 h100-80g: GPUs 0 and 1 come free when #412 ends",
                    "expected": ahead(hours=2.6),
                },
                {"kind": "order", "what": "nothing is ahead of it", "expected": None},
            ]
        return {"job_id": job_id, "reason": row["reason"], "waits_for": waits}

    async def log(self, job_id: int, *, run: int | None = None, offset: int = 0, limit: int | None = None) -> LogChunk:
        self._here("log", job_id, offset)
        data = self.logs.get(job_id, b"")
        start = max(0, len(data) + offset) if offset < 0 else min(offset, len(data))
        part = data[start : start + (limit or 65536)]
        return {
            "offset": start,
            "data": base64.b64encode(part).decode(),
            "gap": 0,
            "next_offset": start + len(part),
            "written": len(data),
            "ended": self.find(job_id)["state"] in ENDED,
        }

    async def move(self, job_id: int, request: MoveRequest) -> MoveReply:
        await self._act("move", job_id, dict(request))
        to, n, other = request["to"], request.get("n"), request.get("id")
        row = self.find(job_id)
        was = self.jobs.index(row)
        self.jobs.remove(row)
        waiting = [index for index, each in enumerate(self.jobs) if each["state"] in WAITING]
        if to in ("before", "after"):
            assert other is not None
            at = self.jobs.index(self.find(other)) + (to == "after")
        elif to == "top":
            at = waiting[0]
        elif to == "bottom":
            at = waiting[-1] + 1
        else:
            assert row["position"] is not None
            wanted = {"up": row["position"] - (n or 1), "down": row["position"] + (n or 1)}.get(
                to, row["baseline_position"]
            )
            assert wanted is not None
            at = waiting[max(0, min(wanted - 1, len(waiting) - 1))]
        self.jobs.insert(at, {**row, "moved": to != "baseline", "version": row["version"] + 1})
        self.announce()
        found = self.find(job_id)
        assert found["position"] is not None
        passed = self.jobs[min(was, at) : max(was, at) + 1]
        sought, inverted = request.get("filter", ""), request.get("invert", False)
        return {
            "position": found["position"],
            "baseline_position": found["baseline_position"] or 0,
            "passed_hidden": sum(not shows(each, sought, inverted) for each in passed),
        }

    async def start(self, job_id: int, request: StartRequest) -> ActReply:
        await self._act("start", job_id, dict(request))
        self.change(job_id, state="starting", reason="starting on GPU 3", position=None)
        self.announce()
        return {"message": f"Job #{job_id} starts on GPU 3.", "ids": [job_id]}

    async def act(
        self, verb: str, ids: Sequence[int], reason: str = "", versions: Mapping[int, int] | None = None
    ) -> ActReply:
        await self._act(verb, tuple(ids), dict(versions or {}), reason)
        for number, version in (versions or {}).items():
            if self.find(number)["version"] != version:
                state = self.find(number)["state"]
                raise ClientError("changed", f"Job #{number} changed since it was drawn: it is {state} now.")
        state = {"hold": "held", "release": "queued", "cancel": "cancelled", "requeue": "queued"}[verb]
        for number in ids:
            self.change(number, state=state, holds=["user"] if state == "held" else [])
        self.announce()
        word = {"hold": "held", "release": "released", "cancel": "cancelled", "requeue": "requeued"}[verb]
        return {"message": f"{', '.join(f'#{number}' for number in ids)} {word}.", "ids": list(ids)}

    async def edit(self, job_id: int, changes: Mapping[str, object]) -> JobRow:
        await self._act("edit", job_id, dict(changes))
        return self.find(job_id)

    async def gpu_act(self, verb: str, uuid: str, body: Mapping[str, object]) -> ActReply:
        await self._act(verb, uuid, dict(body))
        return {"message": f"GPU {verb}: done.", "ids": []}

    async def freeze(self, reason: str) -> ActReply:
        await self._act("freeze", reason)
        self.frozen = {"by": "li", "since": NOW.isoformat(), "reason": reason}
        self.announce("status")
        return {"message": "Frozen: nothing starts by itself.", "ids": []}

    async def thaw(self, reason: str) -> ActReply:
        await self._act("thaw", reason)
        self.frozen = None
        self.announce("status")
        return {"message": "Thawed.", "ids": []}

    async def undo(self) -> ActReply:
        await self._act("undo")
        return {"message": "Undone: the move of #431.", "ids": [431]}

    async def redo(self) -> ActReply:
        await self._act("redo")
        return {"message": "Done again: the move of #431.", "ids": [431]}

    async def events(self, types: Sequence[str] = ()) -> AsyncGenerator[Event, None]:
        stream: asyncio.Queue[Event] = asyncio.Queue()
        self._streams.append(stream)
        try:
            yield self._event("hello")
            while True:
                yield await stream.get()
        finally:
            self._streams.remove(stream)

    async def close(self) -> None:
        self.calls.append(("close",))
