"""HTTP on a Unix socket: who is at the other end, and how long a request may take to arrive."""

import asyncio
import json
import socket
import struct
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from gputui.daemon.access import Peer

HEAD_SECONDS = 10.0
"""A request line and its headers must arrive within this time."""
BODY_SECONDS = 30.0
"""The longest silence inside a body."""


class PeerProtocol(H11Protocol):
    """Puts the peer's credentials into each request (`request.state.peer`) and ends requests that never finish.

    Whatever a client sends or fails to send costs only its own connection.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Ask the kernel who connected; a process that is gone again is let go."""
        try:
            raw = transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        except OSError:
            transport.abort()
            return
        self.app_state = {**self.app_state, "peer": Peer(*struct.unpack("3i", raw))}
        super().connection_made(transport)
        self._expect(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._expect(None)
        if self.flow is not None:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what arrived and start, renew or end the clock that runs against the sender."""
        super().data_received(data)
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            self._expect(BODY_SECONDS)
        elif state is not h11.IDLE:
            self._expect(None)
        elif self._timer is None:
            self._expect(HEAD_SECONDS)

    def on_response_complete(self) -> None:
        """A connection kept alive waits for its next request under uvicorn's own clock."""
        self._expect(None)
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Say in the protocol's own form what could not be read, and close."""
        body = json.dumps({"error": {"code": "bad_input", "message": f"{msg.rstrip('.')}: send HTTP/1.1."}}).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        events: tuple[Any, ...] = (
            h11.Response(status_code=400, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        try:
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:  # the reply to an earlier request was under way
            self.transport.abort()
        self.transport.close()

    def _expect(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            self._timer = self.loop.call_later(seconds, self._late)

    def _late(self) -> None:
        self._timer = None
        if self.flow.read_paused:  # we are the slow ones
            self._expect(BODY_SECONDS)
        else:
            self.transport.abort()
