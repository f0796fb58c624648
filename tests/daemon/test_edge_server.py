"""The socket and what comes over it: peers, bounds of size and time, malformed requests, an unlinked file."""

import asyncio
import contextlib
import json
import os
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from starlette.responses import StreamingResponse

from gputui import paths
from gputui.client import AsyncClient, ClientError, wire
from gputui.daemon import peer, server
from gputui.daemon.routes import http
from gputui.daemon.routes.http import Body, Reply, Text
from gputui.daemon.server import SocketServer, bind
from gputui.domain.errors import Refused

DEADLINE = 60.0


class Said(Body):
    word: Text


def application(stream_for_ever: asyncio.Event) -> FastAPI:
    app = FastAPI(openapi_url=None)
    http.answer_errors(app)

    @app.get("/peer")
    async def who(request: Request) -> Reply:
        seen = request.state.peer
        return Reply({"pid": seen.pid, "uid": seen.uid, "gid": seen.gid})

    @app.post("/echo")
    async def echo(request: Request) -> Reply:
        return Reply({"word": (await http.body(request, Said)).word})

    @app.post("/lines")
    async def lines(request: Request) -> Reply:
        return Reply({"lines": [line async for lines in http.json_lines(request) for line in lines]})

    @app.get("/refuse")
    async def refuse() -> Reply:
        raise Refused("wrong_state", "Job #4 has ended.")

    @app.get("/fail")
    async def fail() -> Reply:
        raise RuntimeError("secret")

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        async def endless() -> AsyncIterator[bytes]:
            yield b"first\n"
            await stream_for_ever.wait()

        return StreamingResponse(endless())

    return app


@pytest.fixture
async def serving(home: Path) -> AsyncIterator[SocketServer]:
    never = asyncio.Event()
    moved: list[Path] = []
    running = SocketServer(application(never), home / "run" / "gputui.sock", moved.append)
    async with running.listening() as listener:
        task = asyncio.create_task(running.serve([listener]))
        yield running
        running.stop()
        async with asyncio.timeout(DEADLINE):
            await task


@pytest.fixture
async def client(serving: SocketServer) -> AsyncIterator[AsyncClient]:
    found = AsyncClient(serving.path)
    yield found
    await found.close()


async def talk(path: Path, *parts: bytes, half_close: bool = False) -> bytes:
    """Send bytes as they are; whatever comes back until the other end closes."""
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        with contextlib.suppress(ConnectionError):
            for part in parts:
                writer.write(part)
                await writer.drain()
            if half_close:
                writer.write_eof()
        async with asyncio.timeout(DEADLINE):
            try:
                return await reader.read()
            except ConnectionError:
                return b""
    finally:
        writer.close()


def error_of(raw: bytes) -> dict[str, Any]:
    reply = wire.Reply()
    reply.feed(raw)
    return dict(json.loads(bytes(reply.body))["error"])


async def alive(client: AsyncClient) -> bool:
    return (await client.request("GET", "/peer"))["uid"] == os.geteuid()


async def test_the_kernel_says_who_is_there(client: AsyncClient) -> None:
    assert await client.request("GET", "/peer") == {"pid": os.getpid(), "uid": os.geteuid(), "gid": os.getegid()}


async def test_the_socket_is_ours_alone(serving: SocketServer) -> None:
    assert stat.S_IMODE(serving.path.stat().st_mode) == 0o600


async def test_bytes_that_are_not_utf8_cross_unharmed(client: AsyncClient) -> None:
    word = os.fsdecode(bytes(range(1, 256)))
    assert (await client.request("POST", "/echo", {"word": word}))["word"] == word


@pytest.mark.parametrize(
    ("body", "field", "remedy"),
    [
        ({}, "word", "required"),
        ({"word": 5}, "word", "write a text"),
        ({"word": "a", "wrod": 1}, "wrod", "known are word"),
        ([], "body", "JSON object"),
    ],
)
async def test_bad_input_names_field_value_and_remedy(
    client: AsyncClient, body: object, field: str, remedy: str
) -> None:
    with pytest.raises(ClientError) as refused:
        await client.request("POST", "/echo", body)
    assert (refused.value.code, refused.value.field) == ("bad_input", field)
    assert remedy in refused.value.message


async def test_a_refusal_keeps_its_code_and_sentence(client: AsyncClient) -> None:
    with pytest.raises(ClientError) as refused:
        await client.request("GET", "/refuse")
    assert (refused.value.code, refused.value.message) == ("wrong_state", "Job #4 has ended.")


async def test_a_fault_is_one_sentence_without_its_inside(client: AsyncClient) -> None:
    with pytest.raises(ClientError) as refused:
        await client.request("GET", "/fail")
    assert refused.value.code == "internal"
    assert "secret" not in refused.value.message
    assert await alive(client)


async def test_an_unknown_route_is_said_to_be_unknown(client: AsyncClient) -> None:
    with pytest.raises(ClientError) as refused:
        await client.request("GET", "/nothing")
    assert refused.value.code == "not_found"


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /peer SPDY/3\r\n\r\n",
        b"GET /peer HTTP/1.1\r\nHost: a\r\nContent-Length: minus\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * (server.LARGEST_HEAD + 1000) + b" HTTP/1.1\r\n\r\n",
    ],
)
async def test_a_malformed_request_costs_its_own_connection(
    serving: SocketServer, client: AsyncClient, raw: bytes
) -> None:
    assert await alive(client)
    assert error_of(await talk(serving.path, raw))["code"] == "bad_input"
    assert await alive(client)


@pytest.mark.parametrize("text", [b"{", b"\xff\xfe", b'{"word": NaN}', b"[" * 200_000])
async def test_a_body_that_is_no_json_is_bad_input(serving: SocketServer, client: AsyncClient, text: bytes) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(text)
    assert error_of(await talk(serving.path, head + text))["code"] == "bad_input"
    assert await alive(client)


async def test_a_huge_body_is_refused_before_it_is_all_there(serving: SocketServer, client: AsyncClient) -> None:
    size = 10 * http.LARGEST_BODY
    head = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size
    part = b"x" * 1024 * 1024
    raw = await talk(serving.path, head, *[part] * 80)
    assert raw == b"" or error_of(raw)["code"] == "too_large"
    with pytest.raises(ClientError) as refused:
        await client.request("POST", "/echo", {"word": "x" * (http.LARGEST_BODY + 1)})
    assert refused.value.code == "too_large"
    assert await alive(client)


async def test_a_line_of_a_stream_has_its_bound_and_the_stream_has_none(
    serving: SocketServer, client: AsyncClient
) -> None:
    head = wire.chunked("POST", "/lines", "s")
    line = b"1" * 1000 + b"\n"
    many = [wire.chunk(line * 1000) for _ in range(10)]
    reply = wire.Reply()
    closing = head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    reply.feed(await talk(serving.path, closing, *many, wire.chunk(b'"last"'), wire.chunk(b"")))
    assert len(wire.result(reply)["lines"]) == 10_001
    raw = await talk(serving.path, head, *[wire.chunk(b"2" * 65536) for _ in range(20)])
    assert raw == b"" or error_of(raw)["code"] == "too_large"


async def test_a_request_that_never_ends_is_ended(
    serving: SocketServer, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer, "HEAD_SECONDS", 0.1)
    monkeypatch.setattr(peer, "BODY_SECONDS", 0.1)
    for unfinished in (
        b"",
        b"GET /peer HT",
        b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{",
    ):
        raw = await talk(serving.path, unfinished)
        assert raw == b"" or error_of(raw)["code"] == "bad_input"
    assert await alive(client)


async def test_a_half_closed_connection_costs_only_itself(serving: SocketServer, client: AsyncClient) -> None:
    await talk(serving.path, b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{", half_close=True)
    await talk(serving.path, b"GET /peer HTTP/1.1\r\nHost: a\r\n\r\n", half_close=True)
    assert await alive(client)


async def test_many_requests_over_one_connection(client: AsyncClient) -> None:
    for number in range(50):
        assert (await client.request("POST", "/echo", {"word": str(number)}))["word"] == str(number)
    assert len(client._idle) == 1


async def test_an_unlinked_socket_is_made_anew_and_connections_live_on(
    serving: SocketServer, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LOOK_SECONDS", 0.05)
    assert await alive(client)
    serving.path.unlink()
    async with asyncio.timeout(DEADLINE):
        while not serving.path.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert await alive(client)
    fresh = AsyncClient(serving.path)
    assert await alive(fresh)
    await fresh.close()


async def test_a_lost_folder_moves_the_socket_to_where_clients_look_next(
    serving: SocketServer, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setattr(server, "LOOK_SECONDS", 0.05)
    (home / "elsewhere").mkdir(mode=0o700)
    serving.path.unlink()
    serving.path.parent.rmdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "elsewhere"))
    async with asyncio.timeout(DEADLINE):
        while not paths.answers(paths.user_socket()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert serving.path == home / "elsewhere" / "gputui.sock"


async def test_a_socket_that_was_named_never_moves_to_where_other_clients_look(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LOOK_SECONDS", 0.05)
    named = home / "named" / "d.sock"
    running = SocketServer(application(asyncio.Event()), named, lambda _path: None)
    async with running.listening() as listener:
        task = asyncio.create_task(running.serve([listener]))
        named.unlink()
        named.parent.rmdir()
        await running._listen_again()
        assert (running.path, paths.user_socket().exists(), named.parent.exists()) == (named, False, False)
        named.parent.mkdir(mode=0o700)
        async with asyncio.timeout(DEADLINE):
            while not paths.answers(named):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        running.stop()
        await task


async def test_stopping_does_not_wait_for_streams_and_slow_requests(home: Path) -> None:
    never = asyncio.Event()
    running = SocketServer(application(never), home / "run" / "gputui.sock", lambda _path: None)
    async with running.listening() as listener:
        task = asyncio.create_task(running.serve([listener]))
        reader, writer = await asyncio.open_unix_connection(running.path)
        writer.write(b"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n")
        await reader.readuntil(b"first\n")
        _, slow = await asyncio.open_unix_connection(running.path)
        slow.write(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
        await slow.drain()
        running.stop()
        async with asyncio.timeout(DEADLINE):
            await task
        writer.close()
        slow.close()
    assert not running.path.exists()


def test_a_socket_left_by_a_dead_daemon_is_replaced_and_a_live_one_is_not(home: Path) -> None:
    path = home / "run" / "gputui.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    bind(path).close()
    with socket.socket(socket.AF_UNIX) as live:
        path.unlink()
        live.bind(str(path))
        live.listen()
        with pytest.raises(OSError, match="Another daemon listens"):
            bind(path)


def test_a_path_too_long_for_an_address_works(home: Path) -> None:
    path = home / ("d" * 100) / "gputui.sock"
    listener = bind(path)
    try:
        assert paths.answers(path)
    finally:
        listener.close()
