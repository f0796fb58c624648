"""Readings for the monitor, straight from a reader process of its own: no daemon, no store."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import Any, cast

from gputui.gpus import rows
from gputui.gpus.handle import Reader
from gputui.gpus.history import SLOTS, LastMinute
from gputui.gpus.reading import Snapshot
from gputui.protocol import Event, GpusReply


class MonitorBackend:
    """As much of `Backend` as the monitor uses; its screen binds no key that would ask for more."""

    def __init__(self) -> None:
        self._reader: Reader | None = None
        self._news = asyncio.Event()
        self._history = LastMinute()
        self._cpu: deque[float | None] = deque(maxlen=SLOTS)

    async def events(self, types: Sequence[str] = ()) -> AsyncGenerator[Event, None]:  # noqa: ARG002
        """One `gpus` event per reading."""
        self._reader = Reader(os.environ.get("GPUTUI_SIMULATED_GPUS") or None, on_snapshot=self._take)
        await self._reader.start()
        number = 0
        while True:
            await self._news.wait()
            self._news.clear()
            number += 1
            data = cast(dict[str, Any], await self.gpus())
            yield {"epoch": 0, "seq": number, "type": "gpus", "data": data}

    async def gpus(self) -> GpusReply:
        """The newest readings."""
        assert self._reader is not None
        snapshot = self._reader.latest
        assert snapshot is not None
        return rows.reply(snapshot, lambda uuid: self._history.of(uuid, snapshot.monotonic), list(self._cpu))

    async def close(self) -> None:
        """End the reader process."""
        if self._reader:
            await self._reader.close()

    def _take(self, snapshot: Snapshot) -> None:
        self._history.add(snapshot.gpus, snapshot.monotonic)
        self._cpu.append(rows.known(snapshot.host.cpu_percent))
        self._news.set()
