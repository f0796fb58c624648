"""What every command shares: its options, its way to the daemon, and how words reach it.

Every option is a word or a flag; numbers, sizes and durations are read here or by the daemon, so that what is wrong
with one is said in one sentence that names the field, the value and the remedy.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from gputui.client import Client, ClientError
from gputui.domain.errors import InputError
from gputui.protocol import ErrorCode

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document with stable fields, and nothing else.")]
Socket = Annotated[str | None, typer.Option("--socket", metavar="PATH", help="The daemon's socket.")]
JobIds = Annotated[list[str], typer.Argument(metavar="ID...", help="Job numbers: 12 or '#12'.")]
JobId = Annotated[str, typer.Argument(metavar="ID", help="Job number: 12 or '#12'.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the audit log.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


class _AsTyped:
    """Takes a value as it was typed.

    Typer converts each value through pydantic, whose import costs more than all else that `submit` does.
    """

    def coerce(self, value: object, param: Any, ctx: object) -> object:  # noqa: ARG002 - Typer's call
        if value is None and (param.multiple or param.nargs == -1):
            return ()
        return value


class _Words:
    """For commands whose options are words and flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options and arguments, none of which needs converting."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            param._runtime_param = _AsTyped()
        return params


class Command(_Words, TyperCommand):
    """A command whose options are words and flags."""


class Group(_Words, TyperGroup):
    """A noun with verbs; its own options are words and flags."""


def option(name: str, metavar: str, help_text: str) -> typer.models.OptionInfo:
    """An option that takes a word."""
    made: typer.models.OptionInfo = typer.Option(name, metavar=metavar, help=help_text)
    return made


def new_app(**options: Any) -> typer.Typer:
    """A Typer application as all of ours are: no completion installer, no colours, no traceback of its own."""
    settings: dict[str, Any] = {
        "cls": Group,
        "add_completion": False,
        "rich_markup_mode": None,
        "pretty_exceptions_enable": False,
        "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 100},
    }
    return typer.Typer(**{**settings, **options})


def client(socket: str | None, *, start: bool = True) -> Client:
    """The daemon at `socket` or where it is found; started when none answers, unless `start` is false."""
    return Client(Path(socket) if socket else None, start=start)


def job_id(word: str) -> int:
    """12 or '#12' as a number. Raises `InputError`."""
    if not re.fullmatch(r"#?[0-9]{1,18}", word, re.ASCII):
        raise InputError("ID", word, "a job is named by its number, as in 12 or '#12'")
    return int(word.removeprefix("#"))


def job_ids(words: Iterable[str]) -> list[int]:
    """Several ids in the order given, each once."""
    return list(dict.fromkeys(job_id(word) for word in words))


def whole_number(field: str, word: str, least: int = 0) -> int:
    """A whole number of at least `least`. Raises `InputError`."""
    if not re.fullmatch(r"[0-9]{1,18}", word, re.ASCII) or int(word) < least:
        raise InputError(field, word, f"write a whole number, {least} or more")
    return int(word)


def refuse(message: str, field: str | None = None) -> ClientError:
    """Bad usage or input found before the daemon was asked: raise what this returns."""
    return ClientError(ErrorCode.BAD_INPUT, message, field)
