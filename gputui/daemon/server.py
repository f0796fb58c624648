"""The daemon's socket: of our own making, made anew when it was unlinked, served by uvicorn."""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from gputui import paths
from gputui.daemon.peer import PeerProtocol

_log = logging.getLogger("gputui.server")

LARGEST_HEAD = 64 * 1024
"""Bytes of a request line with its headers."""
MOST_CONNECTIONS = 512
KEEP_ALIVE_SECONDS = 75
STOP_SECONDS = 1.0
"""What requests under way get to end once the daemon stops; then they are cancelled."""
LOOK_SECONDS = 1.0
"""How often the socket file is looked at."""


def bind(path: Path) -> socket.socket:
    """Listen at `path`, mode 0600, in a folder that is made 0700 if it is ours to make.

    A socket left there by a dead daemon is replaced: the caller holds the lock of the store. One that answers belongs
    to another daemon, and OSError says so.
    """
    folder = path.parent
    if not folder.exists() or folder.name == f"gputui-{os.geteuid()}":
        paths.private_dir(folder)
    if path.exists() and paths.answers(path):
        raise OSError(f"Another daemon listens at {path}; name another socket with --socket.")
    # bound under a name of its own and moved into place: nobody meets a socket that does not listen yet
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            with paths.address(fresh) as name:
                listener.bind(name)
        finally:
            os.umask(before)
        listener.listen(256)
        listener.setblocking(False)
        fresh.rename(path)
    except BaseException:
        listener.close()
        fresh.unlink(missing_ok=True)
        raise
    return listener


class SocketServer(uvicorn.Server):
    """uvicorn on our own socket, without its signal handlers and its ten wake-ups per second."""

    def __init__(self, app: ASGIApp, path: Path, moved: Callable[[Path], None]) -> None:
        """`moved` is told where the socket is, at first and whenever it had to move to another folder."""
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=PeerProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=STOP_SECONDS,  # type: ignore[arg-type]  # passed on to asyncio.wait_for
                limit_concurrency=MOST_CONNECTIONS,
                h11_max_incomplete_event_size=LARGEST_HEAD,
            )
        )
        self.path = path
        self._is_default = path == paths.user_socket()
        self._moved = moved
        self._stop = asyncio.Event()
        self._inode: tuple[int, int] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the business of the daemon as a whole."""
        yield

    def stop(self) -> None:
        """Take no more requests, let those under way end, and return from `serve`."""
        self.should_exit = True
        self._stop.set()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[socket.socket]:
        """The first socket, for `serve`; at the end its file goes, if it still is ours."""
        listener = bind(self.path)
        self._remember()
        try:
            yield listener
        finally:
            if self._intact():
                self.path.unlink(missing_ok=True)

    async def main_loop(self) -> None:
        """Until told to stop: see to it that clients can find the socket."""
        while not self.should_exit:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._stop.wait()
            if not self.should_exit and not self._intact():
                await self._listen_again()

    async def _listen_again(self) -> None:
        """The file or its folder is gone (a clean-up of /tmp, a logout): bind anew, connections live on."""
        try:
            if not self.path.parent.is_dir():
                if not self._is_default:
                    return  # a place that somebody named is theirs to bring back; nobody else's clients may find us
                self.path = paths.user_socket()
            listener = bind(self.path)
        except (OSError, paths.UnsafeFolder) as error:
            _log.warning("cannot listen at %s: %s", self.path, error)
            return
        self._remember()
        for server in self.servers:
            server.close()
        loop = asyncio.get_running_loop()
        self.servers = [await loop.create_server(self._protocol, sock=listener, backlog=256)]
        self._moved(self.path)

    def _protocol(self) -> asyncio.Protocol:
        return PeerProtocol(self.config, self.server_state, {})

    def _remember(self) -> None:
        found = self.path.lstat()
        self._inode = (found.st_dev, found.st_ino)

    def _intact(self) -> bool:
        try:
            found = self.path.lstat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._inode
