"""`demo`: the screen on simulated GPUs and a queue of real jobs, in a state folder of its own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from gputui.cli.app import Command, Json, new_app, refuse
from gputui.cli.output import note, print_json, say
from gputui.cli.screen import has_terminal
from gputui.client import ClientError
from gputui.protocol import ErrorCode

app = new_app()

END_S = 60.0


@app.command(cls=Command)
def demo(
    headless: Annotated[
        bool, typer.Option("--headless", help="No screen: print the socket's path and stay until Ctrl-C or TERM.")
    ] = False,
    json: Json = False,
) -> None:
    """The screen on simulated GPUs and a queue of real jobs.

    Nothing of it touches your own queue.
    """
    if headless:
        raise typer.Exit(_headless(json=json))
    if not has_terminal():
        raise refuse("The demo's screen needs a terminal; 'gputui demo --headless' does without.")
    raise typer.Exit(_with_screen())


def _headless(*, json: bool) -> int:
    from gputui.demo.session import serve

    def announce(socket: Path) -> None:
        if json:
            print_json({"socket": str(socket), "pid": os.getpid()})
        else:
            say(str(socket))
            say("Try: gputui jobs --socket " + str(socket))
        sys.stdout.flush()

    return serve(announce)


def _with_screen() -> int:
    from gputui.demo.session import running

    found = running()
    if found is None:
        note("Starting the demo: a daemon, simulated GPUs, some jobs...")
        found = _start_in_background()
    pid, socket = int(str(found["pid"])), Path(str(found["socket"]))
    os.environ["GPUTUI_SOCKET"] = str(socket)
    from gputui.tui.app import run

    code = run(str(socket))
    if code == 0 and not _wants_to_stop():
        note(f"The demo goes on; 'gputui demo' opens it again, 'kill {pid}' ends it.")
    else:
        _stop(pid)
    return code


def _start_in_background() -> dict[str, object]:
    """A headless demo in a session of its own, so that no key on this terminal reaches it."""
    import json as jsonlib

    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "gputui.cli", "demo", "--headless", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env=_environment(),
    )
    assert process.stdout is not None
    try:
        found: dict[str, object] = jsonlib.loads(process.stdout.readline() or b"{}")
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if "socket" not in found:
        process.wait()
        error = found.get("error")
        sentence = error["message"] if isinstance(error, dict) else "The demo ended before it began."
        raise ClientError(ErrorCode.INTERNAL, str(sentence))
    return found


def _environment() -> dict[str, str]:
    from gputui.client.start import environment

    return environment()


def _wants_to_stop() -> bool:
    sys.stderr.write("Stop the demo and its jobs? [Y/n] ")
    sys.stderr.flush()
    try:
        return sys.stdin.readline().strip().lower() not in {"n", "no"}
    except (OSError, KeyboardInterrupt):
        return True


def _stop(pid: int) -> None:
    """Ask the demo to end, and wait for it."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
        deadline = time.monotonic() + END_S
        while _alive(process):
            if time.monotonic() > deadline:
                raise ClientError(ErrorCode.WRONG_STATE, f"The demo (pid {pid}) has not ended after {END_S:g}s.")
            time.sleep(0.05)
    finally:
        os.close(process)


def _alive(process: int) -> bool:
    import select

    # a pidfd becomes readable when its process has ended
    return not select.select([process], [], [], 0)[0]
