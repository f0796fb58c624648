"""The daemon's core in the test's own process: real store file, real engine, simulated GPUs; no socket."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gputui import config
from gputui.daemon.context import Caller, Clock, Context
from gputui.daemon.loop import Loop, Services
from gputui.daemon.memory import Memory
from gputui.engines.local import LocalEngine
from gputui.gpus.handle import Reader
from gputui.gpus.reading import Snapshot
from gputui.protocol import JobRow
from gputui.store.db import Store

ME = Caller(uid=os.geteuid(), user="li", session="one")
OTHER = Caller(uid=os.geteuid(), user="wang", session="two")
ENV = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}


class Events:
    """A hub that remembers."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def publish(self, type: str, data: Mapping[str, Any] | Callable[[], Mapping[str, Any]]) -> None:  # noqa: A002
        self.seen.append(type)


class Core:
    """One state folder; the core on it can be opened and closed any number of times."""

    def __init__(self, folder: Path, gpus: str = "2xh100-80g", interval: float = 0.1, **settings: Any) -> None:
        self.folder = folder
        self.gpus = gpus
        self.interval = interval
        self.settings = config.load(state=folder / "state", simulated_gpus=gpus, **settings)
        self.locks = folder / "locks"
        self.ctx: Context
        self.services: Services

    async def open(self, clock: Clock | None = None) -> None:
        self.settings.state_dir.mkdir(parents=True, exist_ok=True)
        self.locks.mkdir(exist_ok=True, mode=0o1777)
        store = Store.open(self.settings.store_address, "this-machine")
        store.take_leadership()
        self.reader = Reader(self.gpus, interval=self.interval, on_snapshot=self._take)
        self.engine = LocalEngine(self.settings.state_dir / "runs", self.locks)
        self.ctx = Context(
            settings=self.settings,
            store=store,
            engine=self.engine,
            reader=self.reader,
            memory=Memory("this-machine"),
            hub=Events(),
            **({"clock": clock} if clock else {}),
        )
        self.services = Services.of(self.ctx)
        self.loop = Loop(self.ctx, self.services)
        await self.loop.open()
        await self.reader.start()
        await self.until(lambda: any(entry.reading for entry in self.ctx.memory.gpus))

    def _take(self, snapshot: Snapshot) -> None:
        self.services.gpus.take(snapshot)

    async def close(self) -> None:
        await self.loop.close()
        await self.reader.close()
        await self.ctx.close()
        self.ctx.store.close()

    async def end(self) -> None:
        """Cancel whatever is there, then close."""
        memory = self.ctx.memory
        ids = list(memory.notes)
        if ids:
            await self.services.jobs.cancel(ME, ids)
            await self.until(lambda: not memory.notes)
        await self.until(lambda: not any(entry.releasing for entry in memory.gpus))
        await self.close()

    async def submit(self, *argv: str, **fields: Any) -> int:
        """One job; its number."""
        reply = await self.services.submit.submit(
            fields.pop("caller", ME), [{"argv": list(argv), "grace": 2, **fields}], str(self.folder), ENV
        )
        return reply["job_ids"][0]

    async def row(self, job_id: int) -> JobRow:
        return (await self.services.rows.of([job_id]))[0]

    def state(self, job_id: int) -> str:
        """Of a waiting or active job; 'ended' of any other."""
        note = self.ctx.memory.note(job_id)
        return note.state.value if note else "ended"

    def uuid(self, index: int) -> str:
        found = [entry for entry in self.ctx.memory.gpus if entry.reading and entry.reading.index == index]
        return found[0].uuid

    def gpu_state(self, index: int) -> str:
        entry = self.ctx.memory.gpus.ensure(self.uuid(index))
        return entry.state(self.ctx.clock.monotonic()).value

    async def until(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        """Wait for it; fail when it does not come."""
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - there is no event for what a test looks at
                await asyncio.sleep(0.01)

    async def ended(self, *ids: int) -> list[JobRow]:
        """The rows of these jobs once they have ended."""
        await self.until(lambda: all(self.ctx.memory.note(job_id) is None for job_id in ids))
        return await self.services.rows.of(ids)


@asynccontextmanager
async def core(folder: Path, gpus: str = "2xh100-80g", **settings: Any) -> AsyncIterator[Core]:
    """An open core; at the end its jobs are gone."""
    found = Core(folder, gpus, **settings)
    await found.open()
    try:
        yield found
    finally:
        await found.end()
