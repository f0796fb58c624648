"""The client: replies in any pieces, errors as codes and sentences, streams that come back, no false daemon."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputui.client import AsyncClient, Client, ClientError, ensure_daemon, wire
from gputui.client import aio as aio_module

CHUNKED = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"a"\r\n6;x=y\r\n: 12} \r\n0\r\n\r\n'
SIZED = b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"a": 12}'
ENDING = b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{"a": 12}'


@pytest.mark.parametrize("raw", [CHUNKED, SIZED, ENDING])
@given(cuts=st.lists(st.integers(1, 90), max_size=10))
def test_a_reply_may_come_in_any_pieces(raw: bytes, cuts: list[int]) -> None:
    reply = wire.Reply()
    ends = sorted({*(cut for cut in cuts if cut < len(raw)), len(raw)})
    for start, end in zip([0, *ends], ends, strict=False):
        assert not reply.done
        reply.feed(raw[start:end])
    if raw is ENDING:
        reply.feed(b"")
    assert reply.done
    assert wire.result(reply) == {"a": 12}
    assert reply.keep == (raw is not ENDING)


@pytest.mark.parametrize("raw", [CHUNKED, SIZED])
def test_a_reply_that_breaks_off_is_told(raw: bytes) -> None:
    for length in (0, 10, len(raw) - 3):
        reply = wire.Reply()
        if length:
            reply.feed(raw[:length])
        with pytest.raises(ValueError, match="in the middle"):
            reply.feed(b"")


def test_an_error_keeps_code_message_and_field() -> None:
    body = json.dumps({"error": {"code": "bad_input", "message": "gpus is -1: write 0 or more", "field": "gpus"}})
    reply = wire.Reply()
    reply.feed(f"HTTP/1.1 422 x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    with pytest.raises(ClientError) as error:
        wire.result(reply)
    assert (error.value.code, error.value.field) == ("bad_input", "gpus")
    assert str(error.value) == "gpus is -1: write 0 or more"


def test_queries_leave_out_what_was_not_said_and_quote_the_rest() -> None:
    values = {"state": ["queued", "held"], "filter": "a b&c", "offset": 0, "owner": None, "reverse": True, "x": False}
    assert wire.query("/jobs", values) == "/jobs?state=queued,held&filter=a%20b%26c&offset=0&reverse=1"
    assert wire.query("/jobs", {}) == "/jobs"
    assert wire.segment("a/b \udcff") == "a%2Fb%20%FF"


def test_bytes_that_are_not_utf8_are_sent_as_ascii() -> None:
    assert wire.encode({"argv": [os.fsdecode(b"\xff\x80")]}) == b'{"argv":["\\udcff\\udc80"]}'


# --- against a server that says what the test wants -----------------------------------------------------------------


@contextmanager
def scripted(path: Path, *replies: bytes) -> Iterator[list[bytes]]:
    """One connection per reply; the requests as they came."""
    requests: list[bytes] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        for reply in replies:
            connection, _ = listener.accept()
            with connection:
                requests.append(connection.recv(65536))
                connection.sendall(reply)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield requests
    finally:
        thread.join(20)
        listener.close()


def reply(body: object, status: str = "200 OK", extra: str = "") -> bytes:
    text = json.dumps(body)
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n{extra}\r\n{text}".encode()


def test_a_request_carries_the_session_and_ascii_json(home: Path) -> None:
    with scripted(home / "s", reply({"position": 1})) as requests, Client(home / "s", session="abc") as client:
        client.move(4, {"to": "top"})
    (raw,) = requests
    head, _, body = raw.partition(b"\r\n\r\n")
    assert head.splitlines()[0] == b"POST /jobs/4/move HTTP/1.1"
    assert b"X-Gputui-Session: abc" in head
    assert json.loads(body) == {"to": "top"}


def test_a_connection_the_daemon_closed_is_opened_again_and_nothing_is_sent_twice(home: Path) -> None:
    with scripted(home / "s", reply({"n": 1}), reply({"n": 2})) as requests, Client(home / "s") as client:
        assert client.request("GET", "/a") == {"n": 1}
        while client._usable() is not None:
            pass  # until the server's close has arrived
        assert client.request("GET", "/b") == {"n": 2}
    assert len(requests) == 2


def test_no_daemon_is_one_sentence_with_the_remedy(home: Path) -> None:
    with pytest.raises(ClientError, match="start one with 'gputui daemon start'") as error:
        Client(home / "none", start=False).status()
    assert error.value.code == "no_daemon"


def test_what_does_not_speak_http_is_told(home: Path) -> None:
    with scripted(home / "s", b"hello\r\n\r\n"), pytest.raises(ClientError, match="does not speak HTTP") as error:
        Client(home / "s", start=False).status()
    assert error.value.code == "no_daemon"


def test_a_daemon_of_somebody_else_is_not_trusted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = os.geteuid()
    other = 4711 if ours != 4711 else 4712
    if ours == 0:
        monkeypatch.setattr(wire.struct, "unpack", lambda *_: (1, other, other))
        monkeypatch.setattr(wire.os, "geteuid", lambda: 1234)
    else:
        monkeypatch.setattr(wire.os, "geteuid", lambda: other)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(home / "s"))
    listener.listen()
    with listener, pytest.raises(ClientError, match="neither yours nor the system's") as error:
        Client(home / "s", start=False).status()
    assert error.value.code == "not_allowed"


# --- the stream -----------------------------------------------------------------------------------------------------


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]


@asynccontextmanager
async def streaming(path: Path, *connections: list[dict[str, Any]]) -> AsyncIterator[None]:
    """Each connection gets its events and is closed; further ones wait for ever."""
    left = list(connections)
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        events = left.pop(0) if left else None
        for event in events or []:
            # two chunks per line, and a line that keeps the connection alive
            line = json.dumps(event).encode() + b"\n\n"
            writer.write(wire.chunk(line[:5]))
            writer.write(wire.chunk(line[5:]))
        if events is None:
            await done.wait()
        writer.close()

    server = await asyncio.start_unix_server(serve, path)
    try:
        yield
    finally:
        done.set()
        server.close()
        path.unlink(missing_ok=True)  # noqa: ASYNC240


def event(seq: int, kind: str = "status", epoch: int = 1) -> dict[str, Any]:
    return {"epoch": epoch, "seq": seq, "type": kind, "data": {}}


async def collect(client: AsyncClient, count: int) -> list[tuple[str, int]]:
    found = []
    events = client.events()
    async with asyncio.timeout(60):
        async for one in events:
            found.append((one["type"], one["seq"]))
            if len(found) == count:
                break
    await events.aclose()
    return found


async def test_a_broken_stream_says_so_once_and_comes_back(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aio_module, "FIRST_PAUSE", 0.01)
    async with streaming(home / "s", [event(1, "hello"), event(2)], [], [event(1, "hello")]):
        found = await collect(AsyncClient(home / "s"), 5)
    assert found == [("hello", 1), ("status", 2), ("disconnected", 0), ("hello", 1), ("disconnected", 0)]


async def test_a_gap_means_resync(home: Path) -> None:
    async with streaming(home / "s", [event(1, "hello"), event(2), event(5, "queue")]):
        found = await collect(AsyncClient(home / "s"), 4)
    assert found == [("hello", 1), ("status", 2), ("resync", 5), ("queue", 5)]


async def test_a_daemon_that_comes_later_is_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aio_module, "FIRST_PAUSE", 0.01)
    client = AsyncClient(home / "s")
    events = client.events()
    async with asyncio.timeout(60):
        first = await anext(events)
        assert first["type"] == "disconnected"
        assert "gputui daemon start" in str(first["data"]["message"])
        async with streaming(home / "s", [event(1, "hello")]):
            assert (await anext(events))["type"] == "hello"
    await events.aclose()


async def test_silence_counts_as_broken(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aio_module, "SILENCE_SECONDS", 0.05)
    async with streaming(home / "s"):
        events = AsyncClient(home / "s").events()
        async with asyncio.timeout(60):
            first = await anext(events)
        assert "silent" in str(first["data"]["message"])
        await events.aclose()


# --- starting a daemon ----------------------------------------------------------------------------------------------


def test_a_daemon_that_cannot_start_is_explained_in_its_own_sentence(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTUI_LOG_CAP", "much")
    with pytest.raises(ClientError) as error:
        ensure_daemon(home / "d.sock")
    assert (error.value.code, error.value.message) == (
        "no_daemon",
        "GPUTUI_LOG_CAP is 'much': write a size such as 40GiB or 512M",
    )


def test_importing_the_client_loads_the_standard_library_only() -> None:
    program = (
        "import sys; before = set(sys.modules); import gputui.client;"
        "print(sorted(n for n in set(sys.modules) - before if n.split('.')[0] not in sys.stdlib_module_names))"
        ";print([n for n in ('asyncio', 'subprocess', 'http.client', 'ssl', 'typing_extensions') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True
    )
    loaded, heavy = done.stdout.splitlines()
    assert all(name.strip("' ").startswith("gputui") for name in loaded.strip("[]").split(","))
    assert heavy == "[]"
