"""What the screen needs of the daemon: as much of `gputui.client.AsyncClient` as it uses."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gputui.protocol import (
    ActReply,
    DaemonStatus,
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


@dataclass(frozen=True, slots=True)
class View:
    """Which rows the job table shows, in which order."""

    scope: str = "queue"
    filter: str = ""
    invert: bool = False
    sort: str = ""
    """A sort the daemon knows; empty: the scope's own order."""
    reverse: bool = False

    @property
    def in_queue_order(self) -> bool:
        """Whether neighbours on screen are neighbours in the queue (a filter may hide some between them)."""
        return self.scope == "queue" and not self.sort and not self.reverse


class Backend(Protocol):
    """Every method may raise `ClientError`. See `AsyncClient` for what they do."""

    async def window(self, **values: object) -> WindowReply: ...
    async def gpus(self) -> GpusReply: ...
    async def status(self) -> DaemonStatus: ...
    async def job(self, job_id: int) -> JobRow: ...
    async def why(self, job_id: int) -> WhyReply: ...
    async def log(
        self, job_id: int, *, run: int | None = None, offset: int = 0, limit: int | None = None
    ) -> LogChunk: ...
    async def act(
        self, verb: str, ids: Sequence[int], reason: str = "", versions: Mapping[int, int] | None = None
    ) -> ActReply: ...
    async def move(self, job_id: int, request: MoveRequest) -> MoveReply: ...
    async def start(self, job_id: int, request: StartRequest) -> ActReply: ...
    async def edit(self, job_id: int, changes: Mapping[str, object]) -> JobRow: ...
    async def gpu_act(self, verb: str, uuid: str, body: Mapping[str, object]) -> ActReply: ...
    async def freeze(self, reason: str) -> ActReply: ...
    async def thaw(self, reason: str) -> ActReply: ...
    async def undo(self) -> ActReply: ...
    async def redo(self) -> ActReply: ...
    def events(self, types: Sequence[str] = ...) -> AsyncGenerator[Event, None]:
        """For ever; `disconnected` once per loss, then tried again; after `hello` and `resync` all may have changed."""
        ...

    async def close(self) -> None: ...
