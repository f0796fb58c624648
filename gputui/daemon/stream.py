"""The event stream: what changed, told to every client at most ten times a second, in bounded memory.

Seen from one client: `seq` counts the events of its own stream, so a gap means that something was missed and
everything is to be asked for again, as after `hello` and `resync`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Any

EVENTS_PER_SECOND = 10.0
MOST_CHANGED = 1000
"""Changed ids held for one client; more of them are told as `resync`."""
KEEP_ALIVE_SECONDS = 5.0
"""An empty line after so much silence, so that a dead connection shows on either side."""
TYPES = frozenset({"gpus", "queue", "status"})


class Payload:
    """The data of one event, put into JSON at most once however many clients want it."""

    __slots__ = ("_make", "_text")

    def __init__(self, data: Mapping[str, Any] | Callable[[], Mapping[str, Any]]) -> None:
        self._make = data
        self._text: str | None = None

    @property
    def text(self) -> str:
        """The data as JSON, ASCII."""
        if self._text is None:
            data = self._make() if callable(self._make) else self._make
            self._text = json.dumps(data, separators=(",", ":"), allow_nan=False)
        return self._text


class Subscription:
    """What one client has still to be told. Never more than one entry per type."""

    def __init__(self, hub: "Hub", types: Collection[str]) -> None:
        self._hub = hub
        self.types = frozenset(types)
        self._waiting: dict[str, Payload] = {}
        self._changed: set[int] = set()
        self._version = 0
        self._resync = False
        self._wake = asyncio.Event()
        self._seq = 0

    def offer(self, kind: str, payload: Payload) -> None:
        """The latest of a kind replaces what still waits."""
        if kind in self.types:
            self._waiting[kind] = payload
            self._wake.set()

    def offer_changed(self, version: int, ids: Collection[int]) -> None:
        """Add to what changed in the queue; more than can be held becomes a resync."""
        if "queue" not in self.types:
            return
        self._version = version
        if not self._resync:
            self._changed.update(ids)
            if len(self._changed) > MOST_CHANGED:
                self.offer_resync()
        self._waiting.setdefault("queue", Payload(self._queue_data))
        self._wake.set()

    def offer_resync(self) -> None:
        """Tell the client to ask for everything again."""
        self._resync = True
        self._changed.clear()
        self._wake.set()

    def end(self) -> None:
        """Wake the reader, to find the hub closed."""
        self._wake.set()

    async def lines(self) -> AsyncIterator[bytes]:
        """`hello`, then events as they come, spaced so that there are at most ten a second; empty lines between."""
        yield self._line("hello", Payload(self._hub.hello))
        while not self._hub.closed:
            try:
                async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                yield b"\n"
                continue
            self._wake.clear()
            batch = self._take()
            if batch:
                yield b"".join(batch)
                await asyncio.sleep(len(batch) / EVENTS_PER_SECOND)

    def _take(self) -> list[bytes]:
        if self._resync:
            self._resync = False
            self._waiting.clear()
            return [self._line("resync", Payload({}))]
        waiting, self._waiting = self._waiting, {}
        return [self._line(kind, payload) for kind, payload in waiting.items()]

    def _queue_data(self) -> dict[str, Any]:
        changed, self._changed = self._changed, set()
        return {"version": self._version, "changed": sorted(changed)}

    def _line(self, kind: str, payload: Payload) -> bytes:
        self._seq += 1
        head = f'{{"epoch":{self._hub.epoch},"seq":{self._seq},"type":"{kind}","data":'
        return f"{head}{payload.text}}}\n".encode("ascii")


class Hub:
    """Where the daemon says what changed. For the event loop's thread only; nothing is made while nobody listens."""

    def __init__(self, epoch: int, hello: Callable[[], Mapping[str, Any]] = dict) -> None:
        self.epoch = epoch
        self.hello = hello
        self.closed = False
        self._clients: set[Subscription] = set()

    def wanted(self, kind: str) -> bool:
        """Whether anybody listens for this kind: what costs something to make need not be made otherwise."""
        return any(kind in client.types for client in self._clients)

    def publish(self, type: str, data: Mapping[str, Any] | Callable[[], Mapping[str, Any]]) -> None:  # noqa: A002
        """Tell the latest state of `gpus` or `status`, or what changed in the `queue` (`{version, changed: [ids]}`).

        A function is called when, and only when, its data is to be sent. `resync` tells every client, whatever it
        listens to, that everything may have changed.
        """
        if not self._clients:
            return
        if type == "resync":
            for client in self._clients:
                client.offer_resync()
        elif type == "queue":
            change = data() if callable(data) else data
            for client in self._clients:
                client.offer_changed(change["version"], change["changed"])
        else:
            payload = Payload(data)
            for client in self._clients:
                client.offer(type, payload)

    async def listen(self, types: Collection[str]) -> AsyncIterator[bytes]:
        """The lines for one client, until it leaves or the hub closes."""
        client = Subscription(self, types)
        self._clients.add(client)
        try:
            async for line in client.lines():
                yield line
        finally:
            self._clients.discard(client)

    def close(self) -> None:
        """End every stream; clients come back to whoever follows."""
        self.closed = True
        for client in self._clients:
            client.end()
