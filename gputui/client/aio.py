"""The client of the screen: requests on a few kept connections, and the event stream that comes back by itself."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

from gputui import paths
from gputui.client import wire
from gputui.client.sync import REPLY_SECONDS, new_session
from gputui.client.wire import ClientError
from gputui.protocol import (
    ActReply,
    DaemonStatus,
    DatasetRow,
    ErrorCode,
    Event,
    GpusReply,
    JobRow,
    LogChunk,
    MoveReply,
    MoveRequest,
    StartRequest,
    WhyReply,
    WindowReply,
)

SILENCE_SECONDS = 15.0
"""The daemon writes at least every 5 s; after this long the stream counts as broken."""
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
_LONGEST_LINE = 16 * 1024 * 1024

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class AsyncClient:
    """The daemon for one screen. Methods raise `ClientError`; they never start a daemon (`ensure_daemon` does)."""

    def __init__(self, socket_path: Path | None = None, *, session: str = "") -> None:
        self.session = session or new_session()
        self._explicit = socket_path
        self._idle: list[_Streams] = []

    async def close(self) -> None:
        """End the kept connections."""
        while self._idle:
            self._idle.pop()[1].close()

    @property
    def socket_path(self) -> Path:
        """Where the daemon is asked."""
        return paths.find_socket(self._explicit)

    async def request(self, method: str, path: str, body: object = None, *, seconds: float = REPLY_SECONDS) -> Any:
        """One request and the JSON of its reply; several may be under way at once."""
        data = None if method in ("GET", "DELETE") else wire.encode({} if body is None else body)
        streams = self._usable() or await self._connect()
        reader, writer = streams
        reply = wire.Reply()
        try:
            async with asyncio.timeout(seconds):
                writer.write(wire.request(method, path, self.session, data))
                while not reply.done:
                    reply.feed(await reader.read(65536))
        except TimeoutError:
            writer.close()
            raise ClientError(ErrorCode.NO_DAEMON, f"The daemon did not answer within {seconds:g}s.") from None
        except (OSError, ValueError) as error:
            writer.close()
            raise ClientError(ErrorCode.NO_DAEMON, f"The daemon went away in mid-answer: {error}") from None
        except BaseException:
            writer.close()
            raise
        if reply.keep:
            self._idle.append(streams)
        else:
            writer.close()
        return wire.result(reply)

    def _usable(self) -> _Streams | None:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return None

    async def _connect(self) -> _Streams:
        path = self.socket_path
        try:
            with paths.address(path) as name:
                streams = await asyncio.open_unix_connection(name, limit=_LONGEST_LINE)
            wire.check_peer(streams[1].get_extra_info("socket"))
        except OSError as error:
            raise wire.unreachable(path, error) from error
        return streams

    # --- the stream ---

    async def events(self, types: Sequence[str] = ("gpus", "queue", "status")) -> AsyncGenerator[Event, None]:
        """Every event, for ever. A broken stream yields `disconnected` once (data: {"message"}) and is tried again;
        after each `hello` and `resync` everything may have changed.
        """
        pause, told = FIRST_PAUSE, False
        while True:
            try:
                async with aclosing(self._stream(types)) as events:
                    async for event in events:
                        pause, told = FIRST_PAUSE, False
                        yield event
                message = "The daemon ended the stream."
            except ClientError as error:
                message = error.message
            if not told:
                told = True
                yield {"epoch": 0, "seq": 0, "type": "disconnected", "data": {"message": message}}
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _stream(self, types: Sequence[str]) -> AsyncGenerator[Event, None]:
        """One connection's events, a gap in their numbers told as `resync`."""
        reader, writer = await self._connect()
        reply = wire.Reply()
        expected = 1
        try:
            writer.write(wire.request("GET", wire.query("/events", {"types": types}), self.session, close=True))
            while not reply.done:
                async with asyncio.timeout(SILENCE_SECONDS):
                    reply.feed(await reader.read(65536))
                if reply.status >= 400:
                    continue
                *lines, rest = bytes(reply.body).split(b"\n")
                reply.body[:] = rest
                for line in filter(None, lines):
                    event = cast(Event, json.loads(line))
                    if event["seq"] != expected:
                        yield {"epoch": event["epoch"], "seq": event["seq"], "type": "resync", "data": {}}
                    expected = event["seq"] + 1
                    yield event
            wire.result(reply)
        except TimeoutError:
            raise ClientError(ErrorCode.NO_DAEMON, f"The daemon has been silent for {SILENCE_SECONDS:g}s.") from None
        except (OSError, ValueError) as error:
            raise ClientError(ErrorCode.NO_DAEMON, f"The connection to the daemon broke: {error}") from None
        finally:
            writer.close()

    # --- what a screen reads ---

    async def status(self) -> DaemonStatus:
        """What the daemon says of itself."""
        return cast(DaemonStatus, await self.request("GET", "/status"))

    async def gpus(self) -> GpusReply:
        """Every GPU and the host, by the last sample."""
        return cast(GpusReply, await self.request("GET", "/gpus"))

    async def window(self, **values: object) -> WindowReply:
        """A window on the queue view; `values` are the route's: anchor, first, before, after, filter, sort, ..."""
        return cast(WindowReply, await self.request("GET", wire.query("/jobs/window", values)))

    async def job(self, job_id: int) -> JobRow:
        """One job with its runs."""
        return cast(JobRow, await self.request("GET", f"/jobs/{job_id}"))

    async def why(self, job_id: int) -> WhyReply:
        """Why a job waits, or why it failed."""
        return cast(WhyReply, await self.request("GET", f"/jobs/{job_id}/why"))

    async def log(self, job_id: int, *, run: int | None = None, offset: int = 0, limit: int | None = None) -> LogChunk:
        """Output of a run, the latest by default; a negative offset counts from the end."""
        values = {"run": run, "offset": offset, "limit": limit}
        return cast(LogChunk, await self.request("GET", wire.query(f"/jobs/{job_id}/log", values)))

    async def datasets(self) -> list[DatasetRow]:
        """Every dataset."""
        return cast(list[DatasetRow], (await self.request("GET", "/datasets"))["datasets"])

    # --- what a screen does ---

    async def act(
        self, verb: str, ids: Sequence[int], reason: str = "", versions: Mapping[int, int] | None = None
    ) -> ActReply:
        """`hold`, `release`, `cancel` or `requeue` these jobs."""
        return cast(ActReply, await self.request("POST", f"/jobs/{verb}", wire.ids_request(ids, reason, versions)))

    async def move(self, job_id: int, request: MoveRequest) -> MoveReply:
        """Move a waiting job in the queue."""
        return cast(MoveReply, await self.request("POST", f"/jobs/{job_id}/move", request))

    async def start(self, job_id: int, request: StartRequest) -> ActReply:
        """Start a job ahead of the queue."""
        return cast(ActReply, await self.request("POST", f"/jobs/{job_id}/start", request))

    async def edit(self, job_id: int, changes: Mapping[str, object]) -> JobRow:
        """Change fields of a waiting job; values as people write them."""
        return cast(JobRow, await self.request("PATCH", f"/jobs/{job_id}", changes))

    async def gpu_act(self, verb: str, uuid: str, body: Mapping[str, object]) -> ActReply:
        """`cordon`, `uncordon` or `release` a GPU."""
        return cast(ActReply, await self.request("POST", f"/gpus/{wire.segment(uuid)}/{verb}", body))

    async def freeze(self, reason: str) -> ActReply:
        """Stop everything automatic."""
        return cast(ActReply, await self.request("POST", "/freeze", {"reason": reason}))

    async def thaw(self, reason: str) -> ActReply:
        """Let everything automatic go on."""
        return cast(ActReply, await self.request("POST", "/thaw", {"reason": reason}))

    async def undo(self) -> ActReply:
        """Take back the last act of this session."""
        return cast(ActReply, await self.request("POST", "/undo"))

    async def redo(self) -> ActReply:
        """Do again what was undone last."""
        return cast(ActReply, await self.request("POST", "/redo"))

    async def check_dataset(self, name: str) -> DatasetRow:
        """Look at it now."""
        return cast(DatasetRow, await self.request("POST", f"/datasets/{wire.segment(name)}/check"))

    async def stop_daemon(self) -> ActReply:
        """End the daemon; running jobs go on."""
        return cast(ActReply, await self.request("POST", "/daemon/stop"))
