"""Starts supervisors for the daemon: through the fork server in a few milliseconds, or one by one when that is gone."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).parent
_PYTHON = (sys.executable, "-I", "-S", "-E")
_PASSED_ON = ("GPUTUI_TEST_", "LD_LIBRARY_PATH")
REPLY_S = 10.0
"""A fork server that has not answered by then is given up."""


def supervisor_argv(run_dir: Path, *options: str) -> list[str]:
    """The command line of a run's supervisor; with `--interactive` for a client to start on its terminal."""
    return [*_PYTHON, str(_HERE / "supervisor.py"), *options, str(run_dir)]


def _environment() -> dict[str, str]:
    """Next to nothing: a job's environment comes from its spec alone."""
    return {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)} | {"LC_ALL": "C.UTF-8"}


class Launcher:
    """One fork server, made again when it dies."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._cold: list[subprocess.Popen[bytes]] = []
        self._turn = asyncio.Lock()

    def open(self) -> None:
        """Start the fork server; it loads its code while the daemon does other things."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            self._server = subprocess.Popen(
                [*_PYTHON, str(_HERE / "zygote.py")],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=_environment(),
                start_new_session=True,
            )
        except OSError:
            ours.close()
        else:
            self._socket = ours
        finally:
            theirs.close()

    async def start(self, run_dir: Path) -> int | None:
        """Start a supervisor. Returns a pidfd of it for the caller to close, or None when it is over already.

        Raises OSError when no process can be made.
        """
        self.collect()
        async with self._turn:
            if self._server is None or self._socket is None:
                self.open()
            try:
                return await asyncio.wait_for(self._ask(os.fsencode(run_dir)), REPLY_S)
            except (OSError, TimeoutError):
                # it died or is stuck, perhaps after it forked: of two supervisors one finds the claim taken
                self._give_up()
            return os.pidfd_open(self._start_cold(supervisor_argv(run_dir)).pid)

    def drain(self, run_dir: Path) -> None:
        """Go on reading the output of a job whose supervisor was killed, so that it does not block in a write."""
        with contextlib.suppress(OSError):
            self._start_cold(supervisor_argv(run_dir, "--drain"))

    def collect(self) -> None:
        """Reap supervisors of our own that have ended."""
        self._cold = [process for process in self._cold if process.poll() is None]

    def close(self) -> None:
        self._give_up()
        self.collect()

    @property
    def server_pid(self) -> int | None:
        return self._server.pid if self._server else None

    async def _ask(self, request: bytes) -> int | None:
        if self._socket is None:
            raise ConnectionError("no fork server")
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._socket, request)
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._socket, lambda: None if ready.done() else ready.set_result(None))
        try:
            await ready
        finally:
            loop.remove_reader(self._socket)
        reply, fds, _flags, _address = socket.recv_fds(self._socket, 256, 1)
        if not reply:
            raise ConnectionError("the fork server is gone")
        if reply.startswith(b"!"):
            raise OSError(reply[1:].decode())
        if fds:
            os.set_inheritable(fds[0], False)
        return fds[0] if fds else None

    def _start_cold(self, argv: list[str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=_environment(),
            start_new_session=True,
        )
        self._cold.append(process)
        return process

    def _give_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._server is not None:
            with contextlib.suppress(ProcessLookupError):
                self._server.kill()
            self._server.wait()
            self._server = None
