"""The client of the commands: one method per verb, each one request."""

import contextlib
import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from gputui import paths
from gputui.client import wire
from gputui.client.wire import ClientError
from gputui.protocol import (
    ActReply,
    AuditRow,
    DaemonStatus,
    DatasetRequest,
    DatasetRow,
    ErrorCode,
    GpusReply,
    InteractiveGrant,
    JobRow,
    JobsReply,
    LogChunk,
    MoveReply,
    MoveRequest,
    StartRequest,
    SubmitReply,
    SubmitRequest,
    WhyReply,
    WindowReply,
)

REPLY_SECONDS = 60.0
BULK_SECONDS = 600.0
WAIT_SECONDS = 50.0
"""One call of a longer wait; the daemon answers within it."""
AWAY_SECONDS = 60.0
"""How long `wait` is patient with a daemon that went away in the middle of it."""
RETRY_SECONDS = 0.5


def new_session() -> str:
    """A token for one command or screen: undo takes back the last act of the same session."""
    return os.urandom(8).hex()


class Client:
    """A connection to the daemon, opened at the first request and again when it was lost.

    Every method raises `ClientError`: the daemon's refusal, or `no_daemon`.
    """

    def __init__(self, socket_path: Path | None = None, *, session: str = "", start: bool = True) -> None:
        """`start`: bring a user daemon up when none answers."""
        self.session = session or new_session()
        self._explicit = socket_path
        self._start = start
        self._connection: socket.socket | None = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def socket_path(self) -> Path:
        """Where the daemon is asked."""
        return paths.find_socket(self._explicit)

    def request(self, method: str, path: str, body: object = None, *, seconds: float = REPLY_SECONDS) -> Any:
        """One request and the JSON of its reply."""
        data = None if method in ("GET", "DELETE") else wire.encode({} if body is None else body)
        return self._exchange([wire.request(method, path, self.session, data)], seconds)

    def _exchange(self, parts: Iterable[bytes], seconds: float) -> Any:
        connection = self._usable() or self._connect()
        connection.settimeout(seconds)
        reply = wire.Reply()
        try:
            # a reset while sending: refused before all of it was taken, and the reason may be waiting to be read
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for part in parts:
                    connection.sendall(part)
            while not reply.done:
                reply.feed(connection.recv(65536))
        except TimeoutError:
            self.close()
            raise ClientError(ErrorCode.NO_DAEMON, f"The daemon did not answer within {seconds:g}s.") from None
        except (OSError, ValueError) as error:
            self.close()
            raise ClientError(ErrorCode.NO_DAEMON, f"The daemon went away in mid-answer: {error}") from None
        except BaseException:
            self.close()
            raise
        if not reply.keep:
            self.close()
        return wire.result(reply)

    def _usable(self) -> socket.socket | None:
        """The connection at hand, unless the daemon has closed it: a request is never sent twice."""
        if self._connection is not None:
            try:
                self._connection.setblocking(False)  # with a timeout set, Python waits that long, whatever the flags
                self._connection.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                return self._connection
            except OSError:
                pass
            self.close()
        return None

    def _connect(self) -> socket.socket:
        path = self.socket_path
        try:
            self._connection = connect(path)
        except OSError as error:
            if not self._start or isinstance(error, PermissionError):
                raise wire.unreachable(path, error) from error
            from gputui.client.start import ensure_daemon

            path = ensure_daemon(self._explicit)
            try:
                self._connection = connect(path)
            except OSError as again:
                raise wire.unreachable(path, again) from again
        return self._connection

    # --- GPUs and the daemon ---

    def status(self) -> DaemonStatus:
        """What the daemon says of itself."""
        return cast(DaemonStatus, self.request("GET", "/status"))

    def stop_daemon(self) -> ActReply:
        """End the daemon; running jobs go on."""
        return cast(ActReply, self.request("POST", "/daemon/stop"))

    def gpus(self) -> GpusReply:
        """Every GPU and the host, by the last sample."""
        return cast(GpusReply, self.request("GET", "/gpus"))

    def cordon(self, uuid: str, reason: str, *, until: str | None = None, drain: bool = False) -> ActReply:
        """No new runs on this GPU; `until`: ISO 8601 with offset."""
        body = {"reason": reason, "until": until, "drain": drain}
        return cast(ActReply, self.request("POST", f"/gpus/{wire.segment(uuid)}/cordon", body))

    def uncordon(self, uuid: str, reason: str = "") -> ActReply:
        """Runs on this GPU again."""
        return cast(ActReply, self.request("POST", f"/gpus/{wire.segment(uuid)}/uncordon", {"reason": reason}))

    def release_gpu(self, uuid: str, reason: str = "") -> ActReply:
        """End a quarantine."""
        return cast(ActReply, self.request("POST", f"/gpus/{wire.segment(uuid)}/release", {"reason": reason}))

    def freeze(self, reason: str) -> ActReply:
        """Stop everything automatic."""
        return cast(ActReply, self.request("POST", "/freeze", {"reason": reason}))

    def thaw(self, reason: str) -> ActReply:
        """Let everything automatic go on."""
        return cast(ActReply, self.request("POST", "/thaw", {"reason": reason}))

    # --- jobs ---

    def submit(self, request: SubmitRequest) -> SubmitReply:
        """One or many jobs, all or nothing."""
        return cast(SubmitReply, self.request("POST", "/jobs", request))

    def submit_bulk(self, jobs: Iterable[Mapping[str, object]], cwd: str, env: Mapping[str, str]) -> SubmitReply:
        """Any number of jobs, streamed, all or nothing."""

        def parts() -> Iterator[bytes]:
            yield wire.chunked("POST", "/jobs/bulk", self.session)
            lines = bytearray(wire.encode({"cwd": cwd, "env": dict(env)}) + b"\n")
            for job in jobs:
                lines += wire.encode(job) + b"\n"
                if len(lines) > 65536:
                    yield wire.chunk(lines)
                    lines.clear()
            if lines:
                yield wire.chunk(lines)
            yield wire.chunk(b"")

        return cast(SubmitReply, self._exchange(parts(), BULK_SECONDS))

    def jobs(
        self,
        *,
        state: Sequence[str] = (),
        project: str | None = None,
        owner: str | None = None,
        filter: str | None = None,  # noqa: A002 - the protocol's word
        limit: int | None = None,
        offset: int | None = None,
    ) -> JobsReply:
        """Jobs in queue order, then newest first."""
        values = {"state": state, "project": project, "owner": owner, "filter": filter, "limit": limit}
        return cast(JobsReply, self.request("GET", wire.query("/jobs", {**values, "offset": offset})))

    def window(self, **values: object) -> WindowReply:
        """A window on the queue view; `values` are the route's: anchor, first, before, after, filter, sort, ..."""
        return cast(WindowReply, self.request("GET", wire.query("/jobs/window", values)))

    def job(self, job_id: int) -> JobRow:
        """One job with its runs."""
        return cast(JobRow, self.request("GET", f"/jobs/{job_id}"))

    def why(self, job_id: int) -> WhyReply:
        """Why a job waits, or why it failed."""
        return cast(WhyReply, self.request("GET", f"/jobs/{job_id}/why"))

    def edit(self, job_id: int, changes: Mapping[str, object]) -> JobRow:
        """Change fields of a waiting job; values as people write them."""
        return cast(JobRow, self.request("PATCH", f"/jobs/{job_id}", changes))

    def move(self, job_id: int, request: MoveRequest) -> MoveReply:
        """Move a waiting job in the queue."""
        return cast(MoveReply, self.request("POST", f"/jobs/{job_id}/move", request))

    def start(self, job_id: int, request: StartRequest) -> ActReply:
        """Start a job ahead of the queue."""
        return cast(ActReply, self.request("POST", f"/jobs/{job_id}/start", request))

    def grant(self, job_id: int) -> InteractiveGrant:
        """Ask whether an interactive job was granted its GPUs."""
        return cast(InteractiveGrant, self.request("POST", f"/jobs/{job_id}/grant"))

    def hold(self, ids: Sequence[int], reason: str = "", versions: Mapping[int, int] | None = None) -> ActReply:
        """Keep these jobs from starting."""
        return self._on("hold", ids, reason, versions)

    def release(self, ids: Sequence[int], reason: str = "", versions: Mapping[int, int] | None = None) -> ActReply:
        """Let held jobs go on."""
        return self._on("release", ids, reason, versions)

    def cancel(self, ids: Sequence[int], reason: str = "", versions: Mapping[int, int] | None = None) -> ActReply:
        """Take jobs out of the queue, or end them when they run."""
        return self._on("cancel", ids, reason, versions)

    def requeue(self, ids: Sequence[int], reason: str = "", versions: Mapping[int, int] | None = None) -> ActReply:
        """Queue ended jobs again."""
        return self._on("requeue", ids, reason, versions)

    def _on(self, verb: str, ids: Sequence[int], reason: str, versions: Mapping[int, int] | None) -> ActReply:
        return cast(ActReply, self.request("POST", f"/jobs/{verb}", wire.ids_request(ids, reason, versions)))

    def wait(self, ids: Sequence[int], timeout: float | None = None) -> JobsReply:
        """These jobs once all have ended, or as they are after `timeout` seconds; None: however long it takes."""
        if self._usable() is None:
            self._connect()
        # from here on a daemon that goes away is waited for; to start another one is for others
        start, self._start = self._start, False
        try:
            return self._wait(ids, None if timeout is None else time.monotonic() + timeout)
        finally:
            self._start = start

    def _wait(self, ids: Sequence[int], end: float | None) -> JobsReply:
        away_since: float | None = None
        while True:
            left = WAIT_SECONDS if end is None else min(WAIT_SECONDS, max(0.0, end - time.monotonic()))
            path = wire.query("/jobs/wait", {"ids": ids, "timeout": f"{left:.3f}"})
            try:
                reply = cast(JobsReply, self.request("GET", path, seconds=left + REPLY_SECONDS))
            except ClientError as error:
                now = time.monotonic()
                away_since = now if away_since is None else away_since
                if error.code != ErrorCode.NO_DAEMON or now - away_since > AWAY_SECONDS:
                    raise
                time.sleep(RETRY_SECONDS)
                continue
            away_since = None
            over = end is not None and time.monotonic() >= end
            if over or all(job["ended_at"] is not None for job in reply["jobs"]):
                return reply

    def log(self, job_id: int, *, run: int | None = None, offset: int = 0, limit: int | None = None) -> LogChunk:
        """Output of a run, the latest by default; a negative offset counts from the end."""
        values = {"run": run, "offset": offset, "limit": limit}
        return cast(LogChunk, self.request("GET", wire.query(f"/jobs/{job_id}/log", values)))

    def undo(self) -> ActReply:
        """Take back the last act of this session."""
        return cast(ActReply, self.request("POST", "/undo"))

    def redo(self) -> ActReply:
        """Do again what was undone last."""
        return cast(ActReply, self.request("POST", "/redo"))

    # --- datasets and the audit log ---

    def datasets(self) -> list[DatasetRow]:
        """Every dataset."""
        return cast(list[DatasetRow], self.request("GET", "/datasets")["datasets"])

    def add_dataset(self, request: DatasetRequest) -> DatasetRow:
        """Name an input and say when it counts as complete."""
        return cast(DatasetRow, self.request("POST", "/datasets", request))

    def check_dataset(self, name: str) -> DatasetRow:
        """Look at it now."""
        return cast(DatasetRow, self.request("POST", f"/datasets/{wire.segment(name)}/check"))

    def remove_dataset(self, name: str) -> DatasetRow:
        """Forget it; refused while waiting jobs name it."""
        return cast(DatasetRow, self.request("DELETE", f"/datasets/{wire.segment(name)}"))

    def audit(self, *, limit: int | None = None, subject: str | None = None) -> list[AuditRow]:
        """The newest rows of the audit log, newest first."""
        found = self.request("GET", wire.query("/audit", {"limit": limit, "subject": subject}))
        return cast(list[AuditRow], found["rows"])

    def verify_audit(self) -> dict[str, Any]:
        """Whether the audit log is whole: `ok`, `rows`, `head`, `problem`."""
        return cast(dict[str, Any], self.request("GET", "/audit/verify"))


def connect(path: Path) -> socket.socket:
    """A connection to a daemon of our own, or of root's; to anybody's when we are root. Raises `OSError`."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(REPLY_SECONDS)
        with paths.address(path) as name:
            connection.connect(name)
        wire.check_peer(connection)
    except BaseException:
        connection.close()
        raise
    return connection
