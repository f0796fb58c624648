"""What every route needs: the caller, a body within its bounds, replies and errors in the protocol's form."""

import json
import logging
import secrets
from collections.abc import AsyncIterator
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from gputui.daemon import access
from gputui.daemon.access import Act
from gputui.daemon.context import Caller, Context
from gputui.domain.errors import InputError, Refused
from gputui.protocol import SESSION_HEADER, STATUS, ErrorCode
from gputui.store.problems import StoreProblem

LARGEST_BODY = 8 * 1024 * 1024
LARGEST_LINE = 1024 * 1024
LONGEST_SESSION = 64

_log = logging.getLogger("gputui.routes")


class Reply(JSONResponse):
    """JSON in ASCII: bytes that are not UTF-8 cross as lone surrogates, which UTF-8 could not carry."""

    def render(self, content: Any) -> bytes:
        """The content as bytes."""
        return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")


def context(request: Request) -> Context:
    """The daemon's parts."""
    found: Context = request.app.state.context
    return found


def admit(request: Request, act: Act) -> Caller:
    """The caller as the kernel names it, if it may do `act`; else `Refused`."""
    peer: access.Peer = request.state.peer
    role = access.check(peer, act)
    session = request.headers.get(SESSION_HEADER, "")
    if len(session) > LONGEST_SESSION:
        raise InputError(SESSION_HEADER, session, f"send at most {LONGEST_SESSION} characters")
    return Caller(uid=peer.uid, user=peer.user, session=session, role=role)


# --- bodies -------------------------------------------------------------------------------------------------------


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("write a text")
    return value


Text = Annotated[str, PlainValidator(_text)]
"""A string that may hold lone surrogates, which pydantic's own `str` refuses."""


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("write a whole number")
    return value


Whole = Annotated[int, BeforeValidator(_no_bool)]


class Body(BaseModel):
    """A request's body. What is not known is refused by name."""

    model_config = ConfigDict(extra="forbid")


B = TypeVar("B", bound=Body)


class TooLarge(Refused):
    """More bytes than a request may have."""

    def __init__(self, what: str, most: int) -> None:
        super().__init__(ErrorCode.TOO_LARGE, f"The {what} is larger than {most // 1024**2}MiB; send it in parts.")


async def body(request: Request, model: type[B]) -> B:
    """The body as `model`. Raises `InputError` that names the field, or `TooLarge`."""
    return validated(model, await json_body(request))


async def json_body(request: Request) -> Any:
    """The body's JSON; an empty body is an empty mapping."""
    collected = bytearray()
    async for part in request.stream():
        collected += part
        if len(collected) > LARGEST_BODY:
            raise TooLarge("request", LARGEST_BODY)
    return parse_json(bytes(collected), "body") if collected else {}


def parse_json(text: bytes, where: str) -> Any:
    """JSON within bounds of depth too. Raises `InputError`."""
    try:
        return _STRICT.decode(text.decode("utf-8"))
    except (ValueError, RecursionError):
        raise InputError(where, text[:100].decode("utf-8", "replace"), "send JSON") from None


def _not_a_number(name: str) -> None:
    raise ValueError(name)


_STRICT = json.JSONDecoder(parse_constant=_not_a_number)


def validated(model: type[B], value: object) -> B:
    """`value` as `model`, or an `InputError` that says what its first fault is."""
    if not isinstance(value, dict):
        raise InputError("body", value, "send a JSON object")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "body"
        if first["type"] == "missing":
            raise InputError(field, None, "it is required") from None
        if first["type"] == "extra_forbidden":
            known = ", ".join(sorted(info.alias or name for name, info in model.model_fields.items()))
            raise InputError(field, first["input"], f"there is no such field here; known are {known}") from None
        message = first["msg"].removeprefix("Value error, ")
        given = "(hidden)" if field.startswith("env.") else first["input"]
        raise InputError(field, given, message[:1].lower() + message[1:]) from None


async def json_lines(request: Request) -> AsyncIterator[list[Any]]:
    """The values of a streamed body, one a line, as many at a time as have arrived; a line may have 1 MiB."""
    pending = b""
    number = 0
    async for part in request.stream():
        *lines, pending = (pending + part).split(b"\n")
        if len(pending) > LARGEST_LINE:
            raise TooLarge(f"line {number + len(lines) + 1}", LARGEST_LINE)
        if lines:
            yield [_parsed_line(line, at) for at, line in enumerate(lines, number + 1) if line.strip()]
            number += len(lines)
    if pending.strip():
        yield [_parsed_line(pending, number + 1)]


def _parsed_line(line: bytes, number: int) -> Any:
    if len(line) > LARGEST_LINE:
        raise TooLarge(f"line {number}", LARGEST_LINE)
    return parse_json(line, f"line {number}")


def whole(name: str, text: str | None, default: int, *, least: int, most: int) -> int:
    """A whole number of a query. Raises `InputError`."""
    if text is None or text == "":
        return default
    try:
        value = int(text)
    except ValueError:
        raise InputError(name, text, f"write a whole number from {least} to {most}") from None
    if not least <= value <= most:
        raise InputError(name, value, f"write a whole number from {least} to {most}")
    return value


def words(text: str | None) -> list[str]:
    """The parts of a list in a query."""
    return [part for part in (text or "").split(",") if part]


def job_number(text: str) -> int:
    """A job's number in a path."""
    return whole("job", text, 0, least=1, most=2**63 - 1)


# --- errors -------------------------------------------------------------------------------------------------------


def problem(code: str, message: str, field: str | None = None, *, close: bool = False) -> Reply:
    """An error in the protocol's form."""
    error = {"code": str(code), "message": message}
    if field is not None:
        error["field"] = field
    headers = {"connection": "close"} if close else None
    return Reply({"error": error}, status_code=STATUS.get(ErrorCode(code), 409), headers=headers)


def answer_errors(app: FastAPI) -> None:
    """Have every exception of a route answered: one sentence, never a traceback."""

    async def bad_input(_request: Request, error: Exception) -> Reply:
        assert isinstance(error, InputError)
        return problem(ErrorCode.BAD_INPUT, error.sentence, error.field, close=True)

    async def refused(_request: Request, error: Exception) -> Reply:
        assert isinstance(error, Refused)
        # what follows of a request that was turned down half-way is not worth reading
        return problem(error.code, error.sentence, close=error.code == ErrorCode.TOO_LARGE)

    async def store_problem(_request: Request, error: Exception) -> Reply:
        return problem(ErrorCode.STORE_UNAVAILABLE, str(error))

    async def no_route(request: Request, error: Exception) -> Reply:
        assert isinstance(error, HTTPException)
        if error.status_code in (404, 405):
            sentence = f"There is no {request.method} {request.url.path} here; is the client newer than the daemon?"
            return problem(ErrorCode.NOT_FOUND, sentence, close=True)
        return problem(ErrorCode.BAD_INPUT, str(error.detail), close=True)

    async def gone(_request: Request, _error: Exception) -> Reply:
        return problem(ErrorCode.BAD_INPUT, "The request ended before it was whole.", close=True)

    async def failed(request: Request, error: Exception) -> Reply:
        mark = secrets.token_hex(4)
        _log.error("%s: %s %s failed: %r", mark, request.method, request.url.path, error)
        sentence = f"The daemon failed over this request; its log says more under {mark}."
        return problem(ErrorCode.INTERNAL, sentence, close=True)

    app.add_exception_handler(InputError, bad_input)
    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(StoreProblem, store_problem)
    app.add_exception_handler(HTTPException, no_route)
    app.add_exception_handler(ClientDisconnect, gone)
    app.add_exception_handler(Exception, failed)
