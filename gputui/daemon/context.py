"""What every service works with: store, engine, readings, memory, stream, clock, and who is asking.

The order of every act is: take `mutation`, decide on memory, commit through `write` (with the audit row), apply to
memory, `touch` what changed, release `mutation`. Nothing else may change memory or store.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sqlmodel import Session

from gputui.domain.errors import Refused
from gputui.engines.engine import Engine
from gputui.gpus.reading import Holder, Int, Snapshot
from gputui.protocol import ErrorCode
from gputui.store.db import Store
from gputui.store.problems import StoreProblem

if TYPE_CHECKING:
    from gputui.config import Settings
    from gputui.daemon.memory import Memory

T = TypeVar("T")

_log = logging.getLogger("gputui.daemon")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as the socket's peer credentials and the session header tell; first argument of every act."""

    uid: int
    user: str
    session: str = ""
    role: str = "admin"


DAEMON = Caller(uid=-1, user="gputui")
"""The daemon itself, for what it does by its own rules."""


class Hub(Protocol):
    """Where events leave; coalesces and bounds per client."""

    def publish(self, type: str, data: Mapping[str, Any] | Callable[[], Mapping[str, Any]]) -> None:  # noqa: A002
        """Tell what changed; a function is called only if somebody listens."""
        ...


class Readings(Protocol):
    """What the daemon needs of the GPU reader."""

    @property
    def latest(self) -> Snapshot | None: ...

    def set_holders(self, holders: dict[str, tuple[Holder, ...]]) -> None: ...

    async def memory_samples(self, uuid: str, n: int = 3, interval: float = 0.02) -> list[Int]: ...


class LocalRuns(Engine, Protocol):
    """What the daemon needs of its engine beyond the protocol: this machine's locks."""

    def locked_by_others(self, uuids: list[str]) -> set[str]:
        """GPUs that a run of somebody else has locked."""
        ...


class StoreUnavailable(Refused):
    """The store can't be used now: nothing was changed, in the store or in memory."""

    def __init__(self, problem: StoreProblem) -> None:
        self.problem = problem
        super().__init__(ErrorCode.STORE_UNAVAILABLE, f"{problem} Nothing was changed.")


class Clock:
    """Time, replaceable in tests. Durations come from `monotonic`, dates from `now`."""

    def now(self) -> datetime:
        """UTC, aware."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds; never jumps."""
        return time.monotonic()


@dataclass
class Context:
    """All parts of one daemon. Everything here belongs to the event loop's thread; only stored work runs elsewhere."""

    settings: "Settings"
    store: Store
    engine: LocalRuns
    reader: "Readings"
    memory: "Memory"
    hub: Hub
    clock: Clock = field(default_factory=Clock)
    mutation: asyncio.Lock = field(default_factory=asyncio.Lock)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever a scheduling pass may find something to start."""
    attention: dict[str, str] = field(default_factory=dict)
    """What needs a person: one sentence by cause. Change it through `warn`."""
    _acts: set[asyncio.Task[Any]] = field(default_factory=set)
    _writer: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "store-write"))
    _readers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2, "store-read"))

    async def act(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `work` under the mutation lock, to its end even when whoever asked goes away meanwhile."""

        async def locked() -> T:
            async with self.mutation:
                return await work()

        task = asyncio.create_task(locked())
        self._acts.add(task)
        task.add_done_callback(self._acts.discard)
        return await asyncio.shield(task)

    async def write(self, work: Callable[[Session], T]) -> T:
        """Run `work` in one write transaction, in the writer's thread. Raises `StoreUnavailable`.

        Called under the mutation lock: what was decided on memory must still hold when it is committed.
        """

        def run() -> T:
            with self.store.write() as session:
                return work(session)

        try:
            result = await asyncio.get_running_loop().run_in_executor(self._writer, run)
        except StoreProblem as problem:
            self.warn("store", f"{problem} Running jobs go on; nothing new starts until then.")
            raise StoreUnavailable(problem) from problem
        self.warn("store", "")
        return result

    async def read(self, work: Callable[[Session], T]) -> T:
        """Run `work` on a consistent view of what is committed, beside any writing. Raises `StoreUnavailable`."""

        def run() -> T:
            with self.store.read() as session:
                return work(session)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, run)
        except StoreProblem as problem:
            raise StoreUnavailable(problem) from problem

    def warn(self, cause: str, sentence: str) -> None:
        """Say what needs a person, or with an empty sentence that it no longer does."""
        if self.attention.get(cause, "") == sentence:
            return
        if sentence:
            self.attention[cause] = sentence
            _log.warning("%s", sentence)
        else:
            del self.attention[cause]
        self.changed()

    def changed(self, job_ids: Iterable[int] = ()) -> None:
        """Tell the stream that these jobs, and with them the status, are no longer what was told before."""
        ids = list(job_ids)
        if ids:
            version = self.memory.next_version()
            self.hub.publish("queue", {"version": version, "changed": ids})
        self.hub.publish("status", self.status)

    def gpus_changed(self) -> None:
        """Tell the stream that GPUs are no longer what was told before."""
        self.hub.publish("gpus", self.gpus)

    gpus: Callable[[], Mapping[str, Any]] = dict
    """What `GET /gpus` answers; set by the GPUs' service."""
    status: Callable[[], Mapping[str, Any]] = dict
    """What `GET /status` answers to the daemon's own user; set by whoever puts the daemon together."""

    async def close(self) -> None:
        """Let acts under way end, then the threads."""
        if self._acts:
            await asyncio.wait(self._acts)
        self._writer.shutdown()
        self._readers.shutdown()
