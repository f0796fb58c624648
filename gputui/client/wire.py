"""Requests and replies as bytes: as much of HTTP/1.1 as the daemon and its clients speak with each other.

`http.client` would do, and costs 25 ms at import; a whole command takes 60.
"""

import errno
import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gputui.protocol import SESSION_HEADER, ErrorCode

LARGEST_HEAD = 64 * 1024


class ClientError(Exception):
    """The daemon's refusal, or that there is none: a code of `ErrorCode` and one sentence; for bad input its field."""

    def __init__(self, code: str, message: str, field: str | None = None) -> None:
        self.code = code
        self.message = message
        self.field = field
        super().__init__(message)


def request(method: str, path: str, session: str, body: bytes | None = None, *, close: bool = False) -> bytes:
    """A whole request, or with `body` None and a method that has one its head alone, for a chunked body."""
    head = [f"{method} {path} HTTP/1.1", "Host: gputui", f"{SESSION_HEADER}: {session}"]
    if body is not None:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    if close:
        head.append("Connection: close")
    return "\r\n".join([*head, "", ""]).encode("ascii") + (body or b"")


def chunked(method: str, path: str, session: str) -> bytes:
    """The head of a request whose body follows in chunks."""
    head = f"{method} {path} HTTP/1.1\r\nHost: gputui\r\n{SESSION_HEADER}: {session}\r\n"
    return (head + "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n").encode("ascii")


def chunk(data: bytes | bytearray) -> bytes:
    """One chunk of a body; empty `data` ends it."""
    return b"%x\r\n" % len(data) + data + b"\r\n"


def encode(body: object) -> bytes:
    """A body as JSON in ASCII, so that bytes which are not UTF-8 cross as lone surrogates."""
    return json.dumps(body, separators=(",", ":"), allow_nan=False).encode("ascii")


class Reply:
    """A reply as far as it has arrived. Feed it bytes; it hands out the body's."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        """What arrived of the body and was not taken yet."""
        self.done = False
        self._raw = bytearray()
        self._left: int | None = None
        """Bytes that follow of the body or the chunk; None: until the connection ends."""
        self._chunked = False

    @property
    def keep(self) -> bool:
        """Whether the connection can carry another request."""
        return self.headers.get("connection", "").lower() != "close"

    def feed(self, data: bytes) -> None:
        """Take what arrived; empty: the connection ended. Raises `ValueError` for what is no reply."""
        if not data:
            if not self.status or self._chunked or self._left:
                raise ValueError("the connection ended in the middle of a reply")
            self.done = True
            return
        self._raw += data
        if not self.status and not self._head():
            return
        if self._chunked:
            self._chunks()
        elif self._left is None:
            self.body += self._raw
            self._raw.clear()
        else:
            self._left -= len(self._raw)
            self.body += self._raw
            self._raw.clear()
            self.done = self._left <= 0

    def _head(self) -> bool:
        end = self._raw.find(b"\r\n\r\n")
        if end < 0:
            if len(self._raw) > LARGEST_HEAD:
                raise ValueError("the head of the reply is too large")
            return False
        first, *rest = bytes(self._raw[:end]).decode("latin-1").split("\r\n")
        del self._raw[: end + 4]
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/1.") or not status[:3].isdigit():
            raise ValueError("what answers there does not speak HTTP")
        self.status = int(status[:3])
        for line in rest:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self._chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        if not self._chunked and "content-length" in self.headers:
            self._left = int(self.headers["content-length"])
            self.done = self._left == 0
        return True

    def _chunks(self) -> None:
        while True:
            if self._left is None:
                end = self._raw.find(b"\r\n")
                if end < 0:
                    return
                self._left = int(bytes(self._raw[:end]).split(b";")[0], 16)
                del self._raw[: end + 2]
            if len(self._raw) < self._left + 2:
                return
            self.body += self._raw[: self._left]
            del self._raw[: self._left + 2]
            if self._left == 0:
                self.done = True
                return
            self._left = None


def result(reply: Reply) -> Any:
    """The reply's JSON. Raises `ClientError` with the daemon's own code and sentence when it is an error."""
    try:
        found = json.loads(bytes(reply.body)) if reply.body else None
    except ValueError:
        found = None
    if reply.status < 400:
        return found
    error = found.get("error") if isinstance(found, dict) else None
    if not isinstance(error, Mapping):
        raise ClientError(ErrorCode.INTERNAL, f"The daemon answered with status {reply.status} and no reason.")
    raise ClientError(str(error.get("code")), str(error.get("message")), error.get("field"))


def query(path: str, values: Mapping[str, object]) -> str:
    """`path` with a query; None is left out, lists are joined by commas, true is 1."""
    from urllib.parse import quote

    parts = []
    for name, value in values.items():
        if value is None or value is False or value in ([], ()):
            continue
        text = "1" if value is True else ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        parts.append(f"{name}={quote(text, safe=',', errors='surrogateescape')}")
    return f"{path}?{'&'.join(parts)}" if parts else path


def segment(name: str) -> str:
    """A name as one segment of a path."""
    from urllib.parse import quote

    return quote(name, safe="", errors="surrogateescape")


def ids_request(ids: Sequence[int], reason: str, versions: Mapping[int, int] | None) -> dict[str, object]:
    """The body of an act on several jobs; what was not said is left out."""
    body: dict[str, object] = {"ids": list(ids)}
    if reason:
        body["reason"] = reason
    if versions:
        body["versions"] = {str(job_id): version for job_id, version in versions.items()}
    return body


def check_peer(connection: socket.socket) -> None:
    """Raise `PermissionError` when somebody else listens there: a false daemon would be told our environment."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    uid = struct.unpack("3i", raw)[1]
    if os.geteuid() not in (0, uid) and uid != 0:
        raise PermissionError(errno.EPERM, f"it is user {uid}'s, neither yours nor the system's")


def unreachable(path: Path, error: OSError) -> ClientError:
    """Why there is no connection, with what to do about it."""
    if isinstance(error, PermissionError):
        reason = error.strerror if error.errno == errno.EPERM else "its owner lets nobody else in"
        return ClientError(ErrorCode.NOT_ALLOWED, f"You may not use the daemon at {path}: {reason}.")
    return ClientError(ErrorCode.NO_DAEMON, f"No daemon answers at {path}; start one with 'gputui daemon start'.")
