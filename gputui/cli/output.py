"""How commands answer: one JSON document, or lines and tables that read well and pipe well; and how they ask."""

import json
import shutil
import sys
from collections.abc import Iterable, Sequence

from gputui.cli.app import refuse
from gputui.protocol import ActReply


def print_json(document: object) -> None:
    """The whole answer as one line of ASCII JSON: bytes that were not UTF-8 stay lone surrogates."""
    say(json.dumps(document))


def say(line: str = "") -> None:
    """One line on standard output."""
    sys.stdout.write(line + "\n")


def note(line: str) -> None:
    """One line for people on standard error, at once."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def show_table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> None:
    """A plain table; on a terminal its last column is cut to the width, in a pipe nothing is."""
    from gputui import format as fmt

    limit = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in fmt.table(headers, rows, right=right, limit=limit):
        say(line)


def show_act(reply: ActReply, *, json: bool) -> None:
    """What was done."""
    if json:
        print_json(reply)
    else:
        say(reply["message"])


def confirm(question: str) -> bool:
    """Ask on standard error; false unless the answer is yes. Raises `ClientError` when there is nobody to ask."""
    if not (sys.stdin and sys.stdin.isatty()):
        raise refuse(f"{question} There is no terminal to ask on: add --yes.")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
