"""The `gputui` program: finds the command, and turns whatever goes wrong into one sentence and an exit code.

Exit codes: 0 done, 1 refused or failed, 2 bad usage or input, 3 no daemon, 4 not allowed, 5 no usable driver (monitor).
"""

import json
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated

import typer
from typer.main import get_command

from gputui import __version__
from gputui.cli.app import Socket, new_app
from gputui.client import ClientError
from gputui.domain.errors import InputError
from gputui.paths import SOCKET_VARIABLE
from gputui.protocol import EXIT, ErrorCode

COMMANDS = {
    "demo": "demo",
    "monitor": "monitor",
    "gpus": "gpus",
    "submit": "submit",
    "shell": "shell",
    "jobs": "jobs",
    "job": "jobs",
    "move": "order",
    "start": "order",
    "hold": "acts",
    "release": "acts",
    "cancel": "acts",
    "requeue": "acts",
    "wait": "wait",
    "logs": "logs",
    "dataset": "dataset",
    "freeze": "freeze",
    "thaw": "freeze",
    "audit": "audit",
    "daemon": "daemon",
    "doctor": "doctor",
}
"""Which module of this package has a command. One command imports one module: start-up is most of what it costs."""


def run() -> None:
    """The entry point."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit code. Never a traceback: an unforeseen error goes to a log that is named."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    wants_json = "--json" in own
    # names may hold anything; a terminal that cannot show a character gets a substitute, not an error
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = _invoke(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except ClientError as error:
        return _fail(error.code, error.message, error.field, wants_json)
    except InputError as error:
        return _fail(ErrorCode.BAD_INPUT, f"{error.sentence}.", error.field, wants_json)
    except typer.TyperException as error:
        return _usage_error(error, wants_json)
    except (KeyboardInterrupt, typer.Abort):
        return 128 + signal.SIGINT
    except BrokenPipeError:
        return _reader_gone()
    except Exception as error:  # noqa: BLE001 - the last resort: one sentence, the rest in a log
        return _fail(ErrorCode.INTERNAL, _record(error), None, wants_json)
    return code


def _invoke(arguments: Sequence[str]) -> int:
    root = new_app(
        help="Every GPU and every waiting job of a shared server side by side. Without a command: the screen.",
        invoke_without_command=True,
    )
    root.callback()(_root)
    for module in _modules(arguments):
        root.add_typer(import_module(f"gputui.cli.{module}").app)
    try:
        code = get_command(root).main(list(arguments), prog_name="gputui", standalone_mode=False)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # Typer makes it a 1, which is a refusal here
            raise end.__context__ from None
        raise
    return code if isinstance(code, int) else 0


def _modules(arguments: Sequence[str]) -> Iterable[str]:
    """The modules whose commands may be meant: one, none for the screen, all for help and for a word that is none."""
    words = iter(arguments)
    for word in words:
        if word in COMMANDS:
            return [COMMANDS[word]]
        if word == "--socket":
            next(words, None)
        elif word in ("-h", "--help") or not word.startswith("-"):
            return dict.fromkeys(COMMANDS.values())
    return []


def _root(
    context: typer.Context,
    *,
    readonly: Annotated[bool, typer.Option("--readonly", help="The screen without its acts.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    socket: Socket = None,
) -> None:
    if socket is not None:
        os.environ[SOCKET_VARIABLE] = socket  # for the command that follows, too
    if version:
        sys.stdout.write(f"gputui {__version__}\n")
    elif context.invoked_subcommand is None:
        from gputui.cli.screen import open_screen

        raise typer.Exit(open_screen(socket, readonly=readonly))


def _fail(code: str, message: str, field: str | None, wants_json: bool) -> int:
    if wants_json:
        body = {"code": str(code), "message": message, **({"field": field} if field else {})}
        sys.stdout.write(json.dumps({"error": body}) + "\n")
        sys.stdout.flush()
    else:
        from gputui.format import clean

        sys.stderr.write(f"{clean(message)}\n")
    return EXIT.get(ErrorCode(code), 1) if code in set(ErrorCode) else 1


def _usage_error(error: typer.TyperException, wants_json: bool) -> int:
    message = error.format_message()
    context = getattr(error, "ctx", None)
    if not wants_json and "\n" in message:  # a group without its verb: the message is its help
        sys.stderr.write(message + "\n")
        return 2
    message = " ".join(message.split()).rstrip(".")
    hint = f"; see '{context.command_path} --help'." if context is not None else "."
    return _fail(ErrorCode.BAD_INPUT, message + hint, None, wants_json)


def _reader_gone() -> int:
    """`gputui jobs | head`: what reads our output has had enough."""
    # or the interpreter complains when it flushes at its end
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE


def _record(error: Exception) -> str:
    """Write the traceback where it can be found; returns the sentence that says so."""
    import traceback
    from datetime import UTC, datetime

    from gputui import paths

    log = paths.state_dir() / "command-errors.log"
    what = f"{type(error).__name__}: {error}".rstrip(".")
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{datetime.now(UTC).isoformat()} {sys.argv[1:2]}\n")
            file.writelines(traceback.format_exception(error))
    except OSError:
        return f"gputui failed in a way it should not ({what}), and could not write to {log}."
    return f"gputui failed in a way it should not ({what}); the details are in {log}."
