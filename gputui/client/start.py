"""Starting the user daemon when none answers: exactly one, however many commands try at once."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gputui import paths
from gputui.client.wire import ClientError
from gputui.protocol import EXIT_BUSY, ErrorCode

START_SECONDS = 30.0


def ensure_daemon(socket: Path | None = None, state: Path | None = None, *, seconds: float = START_SECONDS) -> Path:
    """The socket of a daemon that answers, started now if need be. Raises `ClientError` (`no_daemon`) in one sentence.

    Of many that are started at once the store's lock lets one live; whoever started another waits for that one.
    """
    found = paths.find_socket(socket, state)
    if paths.answers(found):
        return found
    if found == paths.SYSTEM_SOCKET:
        raise ClientError(ErrorCode.NO_DAEMON, "The system daemon does not answer; see 'systemctl status gputui'.")
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryFile() as said:
        daemon = _spawn(socket, state, said.fileno())
        while time.monotonic() < deadline:
            status = daemon.poll()
            found = paths.find_socket(socket, state)
            if paths.answers(found):
                return found
            # 0: ours gave way to another daemon, which is not listening yet
            if status not in (None, 0, EXIT_BUSY):
                raise ClientError(ErrorCode.NO_DAEMON, _last_line(said.fileno()) or f"It ended with status {status}.")
            time.sleep(0.02)
        why = _last_line(said.fileno())
    raise ClientError(
        ErrorCode.NO_DAEMON,
        f"No daemon answers at {found} after {seconds:g}s{': ' + why if why else ''}; "
        f"see {paths.state_dir(state) / paths.LOG_NAME}.",
    )


def _spawn(socket: Path | None, state: Path | None, said: int) -> "subprocess.Popen[bytes]":
    """A daemon of its own session, its words kept in a file: nothing of it hangs on this command's terminal."""
    # -P: a file in the caller's directory must not pass for a module of the daemon
    command = [sys.executable, "-P", "-m", "gputui.daemon", "--detach"]
    if socket is not None:
        command += ["--socket", str(socket.absolute())]
    if state is not None:
        command += ["--state", str(state.absolute())]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=said,
        start_new_session=True,
        env=environment(),
    )


def environment() -> dict[str, str]:
    """Our own environment, in which the package is found as it was here, installed or not."""
    package = str(Path(__file__).resolve().parent.parent.parent)
    found = dict(os.environ)
    if Path(package).name not in ("site-packages", "dist-packages"):
        found["PYTHONPATH"] = os.pathsep.join(filter(None, (package, found.get("PYTHONPATH"))))
    return found


def _last_line(said: int) -> str:
    size = os.fstat(said).st_size
    text = os.pread(said, 4096, max(0, size - 4096)).decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
