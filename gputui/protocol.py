"""What crosses the socket: routes, requests, replies, events and error codes. Standard library types only.

HTTP/1.1 over a Unix socket, JSON bodies (ASCII, non-UTF-8 bytes as lone surrogates: `os.fsencode` gives the bytes
back). Times are ISO 8601 with offset, durations seconds, memory bytes, power watts, temperature Celsius, readiness
0 to 1. `null` is unknown; what a GPU cannot report at all is `null` and listed in `unsupported`.

An error is `{"error": {"code", "message", "field"?}}` with the HTTP status of `STATUS`.
"""

from enum import StrEnum
from typing import NotRequired, TypedDict

API_VERSION = 1
SESSION_HEADER = "X-Gputui-Session"
"""A random token per screen or command run; undo takes back the last act of the same session and user."""


class ErrorCode(StrEnum):
    """Scripts may rely on these."""

    BAD_INPUT = "bad_input"
    NOT_FOUND = "not_found"
    NOT_ALLOWED = "not_allowed"
    WRONG_STATE = "wrong_state"
    CHANGED = "changed"
    """The row changed since it was drawn."""
    NO_GPU = "no_gpu"
    NOT_READY = "not_ready"
    FROZEN = "frozen"
    NOTHING_TO_UNDO = "nothing_to_undo"
    STORE_UNAVAILABLE = "store_unavailable"
    TOO_LARGE = "too_large"
    NO_DAEMON = "no_daemon"
    INTERNAL = "internal"


STATUS = {
    ErrorCode.BAD_INPUT: 422,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.NOT_ALLOWED: 403,
    ErrorCode.TOO_LARGE: 413,
    ErrorCode.STORE_UNAVAILABLE: 503,
    ErrorCode.INTERNAL: 500,
}
"""HTTP status per code; 409 for every other one."""

EXIT = {ErrorCode.BAD_INPUT: 2, ErrorCode.NO_DAEMON: 3, ErrorCode.NOT_ALLOWED: 4}
"""Exit code of a command per error code; 1 for every other one."""
EXIT_BUSY = 75
"""How a daemon started with --detach ends when another one holds the store; the client then waits for that one."""


class ErrorBody(TypedDict):
    code: str
    message: str
    field: NotRequired[str]


# --- GPUs ---------------------------------------------------------------------------------------------------------


class GpuProcess(TypedDict):
    pid: int
    user: str
    command: str
    memory_used: int | None
    managed: bool
    sm: NotRequired[int | None]
    container: NotRequired[str]


class Cordon(TypedDict):
    reason: str
    by: str
    since: str
    until: str | None
    drain: bool


class GpuRow(TypedDict):
    """One GPU. The fields up to `processes` are those CLI.md promises."""

    uuid: str
    index: int
    name: str
    type: str
    state: str
    utilization: int | None
    memory_used: int | None
    memory_total: int | None
    temperature: int | None
    power: float | None
    job_id: int | None
    processes: list[GpuProcess]
    unsupported: list[str]
    power_limit: float | None
    fan: int | None
    sm_clock: int | None
    throttle: list[str]
    mig_parent: str | None
    unified_memory: bool
    why: str
    """Why the state is what it is, for people: 'drained: fan, until Fri 18:00', 'Xid 79 at 14:02', 'releasing 3s'."""
    cordon: Cordon | None
    run_ids: list[str]
    job_ids: list[int]
    """Every job on it; more than one when shared."""
    held_by: str
    """Who holds it, for people: '#412 sft-7b', 'python', ''."""
    held_user: str
    held_since: str | None
    warnings: list[str]
    history: list[int | None]
    """Utilization of the last minute, oldest first, one value per 4 s (15 values); null where unknown."""


class HostRow(TypedDict):
    hostname: str
    cpu_percent: float | None
    cpu_count: int
    load_1m: float | None
    memory_used: int | None
    memory_total: int | None
    disks: list[tuple[str, int, int]]
    net_rx: float | None
    net_tx: float | None
    cpu_history: list[float | None]


class ProblemRow(TypedDict):
    code: str
    sentence: str
    remedy: str


class GpusReply(TypedDict):
    sampled_at: str
    age: float
    """Seconds since the sample when the reply was made."""
    source: str
    driver: str
    problem: ProblemRow | None
    host: HostRow
    gpus: list[GpuRow]


class CordonRequest(TypedDict):
    reason: str
    until: NotRequired[str | None]
    drain: NotRequired[bool]


# --- Jobs ---------------------------------------------------------------------------------------------------------


JobRow = TypedDict(  # the functional form, since "class" is a keyword
    "JobRow",
    {
        "id": int,
        "name": str,
        "state": str,
        "owner": str,
        "project": str,
        "class": str,
        "priority": int,
        "position": "int | None",  # 1-based among waiting jobs
        "baseline_position": "int | None",
        "readiness": "float | None",  # 1.0 without datasets
        "gpus": int,
        "gpu_types": "list[str]",
        "gpu_memory": "int | None",
        "duration": "float | None",
        "submitted_at": str,
        "expected_start": "str | None",
        "reason": str,
        "argv": "list[str]",
        "cwd": str,
        "holds": "list[str]",
        "share": bool,
        "datasets": "list[str]",
        "started_at": "str | None",
        "ended_at": "str | None",
        "elapsed": "float | None",
        "gpu_uuids": "list[str]",
        "moved": bool,
        "version": int,  # of the row; acts that carry it are refused when it changed
        "attempt": int,
        "exit_code": "int | None",
        "runs": "NotRequired[list[RunRow]]",
    },
)
"""One job as lists show it. Scripts may rely on the fields up to `holds`."""


class RunRow(TypedDict):
    attempt: int
    state: str
    gpu_uuids: list[str]
    started_at: str | None
    ended_at: str | None
    exit_code: int | None
    signal: str | None
    end_reason: str | None
    resumed_from: str | None
    checkpoint: str | None
    log: str
    run_id: str


class JobsReply(TypedDict):
    total: int
    jobs: list[JobRow]


class WindowReply(TypedDict):
    """A window on the queue view: rows `first` to `first + len(jobs)` of `total` (0-based), of one view version."""

    version: int
    total: int
    first: int
    jobs: list[JobRow]
    counts: dict[str, int]
    """By class of the waiting ones, and by state of all: {"core": 4, "running": 3, "failed": 2, ...}."""


class SubmitRequest(TypedDict):
    """One or many jobs, all or nothing. A job maps the fields in `JOB_FIELDS` to values as people write them."""

    jobs: list[dict[str, object]]
    cwd: NotRequired[str]
    env: NotRequired[dict[str, str]]
    """Captured environment, common to all these jobs."""


JOB_FIELDS = (
    "argv", "name", "project", "class", "priority", "gpus", "gpu_type", "gpu_memory", "share", "duration", "datasets",
    "hold", "retries", "grace", "checkpoint", "shell", "env", "cwd", "interactive", "time_limit",
)  # fmt: skip
"""What a submitted job may say; any other field is refused by name."""


class SubmitReply(TypedDict):
    job_ids: list[int]
    warnings: list[str]


class MoveRequest(TypedDict):
    """`to`: top, bottom, up, down, before, after, baseline. `n` for up and down, `id` for before and after.

    `filter` and `invert` as in the window the job is moved in: up and down pass `n` jobs which that shows.
    """

    to: str
    n: NotRequired[int]
    id: NotRequired[int]
    version: NotRequired[int]
    filter: NotRequired[str]
    invert: NotRequired[bool]


class MoveReply(TypedDict):
    position: int
    baseline_position: int
    passed_hidden: int
    """How many of the jobs that it passed the filter hides."""


class StartRequest(TypedDict):
    gpus: NotRequired[list[str]]
    ignore_data: NotRequired[bool]
    reason: NotRequired[str]
    version: NotRequired[int]


class IdsRequest(TypedDict):
    ids: list[int]
    versions: NotRequired[dict[str, int]]
    reason: NotRequired[str]


class ActReply(TypedDict):
    """What was done, for people, and to which jobs."""

    message: str
    ids: list[int]


class WaitsFor(TypedDict):
    kind: str
    """data, gpus, memory, hold, order, cordon, frozen, never_fits, backoff, disk; failed runs: exit, signal, oom..."""
    what: str
    expected: str | None


class WhyReply(TypedDict):
    job_id: int
    reason: str
    waits_for: list[WaitsFor]


class LogChunk(TypedDict):
    """Bytes `offset` to `offset + size` of all that was written (`data`: base64); the `gap` before them was dropped."""

    offset: int
    data: str
    gap: int
    next_offset: int
    written: int
    ended: bool


class InteractiveGrant(TypedDict):
    """What the client runs on its own terminal once an interactive job was granted its GPUs; see `engines`."""

    state: str
    run_dir: str
    supervisor: list[str]


# --- Datasets, audit, daemon --------------------------------------------------------------------------------------


class DatasetRow(TypedDict):
    name: str
    location: str
    owner: str
    expects: list[str]
    """Each expectation as one phrase: 'at least 12 files', 'marker _SUCCESS'."""
    readiness: float | None
    """0 to 1, null unknown."""
    ready: bool
    files: int | None
    size: int | None
    rate: float | None
    """Bytes per second, seen lately."""
    expected: str | None
    """When it will be complete at the present rate."""
    reason: str
    """One phrase: 'complete', '67 % of 120GiB', 'no marker _SUCCESS yet', 'cannot be read: ...'."""
    checked_at: str | None
    waiting_jobs: int


class DatasetRequest(TypedDict):
    """Values as people write them: `min_size: "40GiB"`, `settled: "10m"`."""

    name: str
    location: str
    exists: NotRequired[bool]
    min_files: NotRequired[int | str]
    min_size: NotRequired[int | str]
    marker: NotRequired[str]
    manifest: NotRequired[str]
    settled: NotRequired[float | str]


class AuditRow(TypedDict):
    seq: int
    at: str
    who: str
    session: str
    act: str
    """Verb and noun: `job.move`, `gpu.cordon`, `job.submit` (one row per batch)."""
    subject: str
    before: dict[str, object] | None
    after: dict[str, object] | None
    reason: str


class FreezeRow(TypedDict):
    by: str
    since: str
    reason: str


class DaemonStatus(TypedDict):
    pid: int
    socket: str
    version: str
    uptime: float
    store: str
    gpus: int
    queued: int
    running: int
    epoch: int
    frozen: FreezeRow | None
    attention: list[str]
    """One sentence per thing that needs a person: disk low, store unavailable, GPU quarantined, lost driver."""
    user: str
    role: str


class Event(TypedDict):
    """One line of `GET /events`. Types: `hello`, `gpus` (data: GpusReply), `queue` (data: {version, changed: [ids]}),
    `status` (data: DaemonStatus), `resync` (everything may have changed)."""

    epoch: int
    seq: int
    type: str
    data: dict[str, object]
