"""The daemon put together: its parts, and the order in which they begin and end."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI

import gputui
from gputui import paths
from gputui.config import Settings
from gputui.daemon import access
from gputui.daemon.context import Caller, Context
from gputui.daemon.loop import Loop, Services
from gputui.daemon.memory import Memory
from gputui.daemon.routes import acts, audit, daemon, datasets, events, freeze, gpus, http, jobs, logs, submit
from gputui.daemon.server import SocketServer
from gputui.daemon.services.audit import AuditLog
from gputui.daemon.services.datasets import Datasets
from gputui.daemon.services.logs import Logs
from gputui.daemon.stream import Hub
from gputui.domain.lifecycle import ACTIVE, WAITING
from gputui.engines.local import LocalEngine
from gputui.gpus.handle import Reader
from gputui.gpus.reading import Snapshot
from gputui.protocol import API_VERSION, ActReply, DaemonStatus
from gputui.store.db import Store

FIRST_READING_SECONDS = 2.0
"""How long the first readings are waited for before clients are answered without."""
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_log = logging.getLogger("gputui.daemon")


class Daemon:
    """All parts of one daemon. Raises what they raise: `StoreProblem`, `InputError`, OSError."""

    def __init__(self, settings: Settings, moved: Callable[[Path], None]) -> None:
        store = Store.open(settings.store_address, paths.machine_id())
        hub = Hub(store.take_leadership(), hello)
        self._reader = Reader(settings.simulated_gpus or None, on_snapshot=self._take)
        self._ctx = Context(
            settings=settings,
            store=store,
            engine=LocalEngine(settings.state_dir / "runs"),
            reader=self._reader,
            memory=Memory(paths.machine_id()),
            hub=hub,
        )
        self._hub = hub
        self._stopping = asyncio.Event()
        self._services = Services.of(self._ctx)
        self._loop = Loop(self._ctx, self._services)
        self._datasets = Datasets(self._ctx, self._services.undo)
        self._began = self._ctx.clock.monotonic()
        self._server = SocketServer(self._api(), settings.socket_path, moved)
        own = Caller(os.geteuid(), access.user_name(os.geteuid()), role=access.Role.ADMIN)
        self._ctx.status = lambda: dict(self.status(own))

    async def run(self, ready: Callable[[Path], None]) -> None:
        """Begin, answer until told to stop, and end; running jobs go on."""
        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._end)
        try:
            await self._reader.start()
            await self._loop.open()
            await self._datasets.open()
            await self._reader.first(FIRST_READING_SECONDS)
            async with self._server.listening() as listener:
                _log.info("gputui %s answers at %s", gputui.__version__, self._server.path)
                ready(self._server.path)
                await self._server.serve([listener])
        finally:
            await self._close()

    async def _close(self) -> None:
        await self._datasets.close()
        await self._loop.close()
        await self._reader.close()
        await self._ctx.close()
        self._ctx.store.close()
        _log.info("ended; running jobs go on")

    def status(self, caller: Caller) -> DaemonStatus:
        """What it says of itself."""
        ctx, states = self._ctx, self._ctx.memory.states
        return {
            "pid": os.getpid(),
            "socket": str(self._server.path),
            "version": gputui.__version__,
            "uptime": ctx.clock.monotonic() - self._began,
            "store": ctx.store.where,
            "gpus": sum(entry.reading is not None for entry in ctx.memory.gpus),
            "queued": sum(states[state] for state in WAITING),
            "running": sum(states[state] for state in ACTIVE),
            "epoch": ctx.store.epoch,
            "frozen": self._services.freezer.row(),
            "attention": list(ctx.attention.values()),
            "user": caller.user,
            "role": caller.role,
        }

    def stop(self, caller: Caller) -> ActReply:
        """End soon."""
        _log.info("stopped by %s", caller.user)
        self._end()
        return {"message": "The daemon ends; running jobs go on.", "ids": []}

    def _end(self) -> None:
        self._stopping.set()
        self._hub.close()
        self._server.stop()

    def _take(self, snapshot: Snapshot) -> None:
        self._services.gpus.take(snapshot)

    def _api(self) -> FastAPI:
        services = self._services
        api = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
        http.answer_errors(api)
        for router in (
            daemon.router(self.status, self.stop),
            events.router(self._hub),
            gpus.router(services.gpus),
            submit.router(services.submit),
            acts.router(services.jobs, services.moves),
            logs.router(Logs(self._ctx)),
            jobs.router(services.jobs, services.rows, services.windows, services.why, self._stopping),
            datasets.router(self._datasets),
            freeze.router(services.freezer, services.undo),
            audit.router(AuditLog(self._ctx)),
        ):
            api.include_router(router)
        return api


def hello() -> dict[str, Any]:
    """The first event of every stream."""
    return {"version": gputui.__version__, "api": API_VERSION}


def serve(settings: Settings, ready: Callable[[Path], None], moved: Callable[[Path], None]) -> None:
    """Run one daemon to its end; `ready` is told the socket once it answers, `moved` when it had to move."""

    async def main() -> None:
        await Daemon(settings, moved).run(ready)

    asyncio.run(main())
