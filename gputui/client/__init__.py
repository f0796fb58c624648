"""The only way to the daemon, for commands and screen alike. Standard library only."""

from typing import TYPE_CHECKING

from gputui.client.sync import Client, new_session
from gputui.client.wire import ClientError

if TYPE_CHECKING:
    from gputui.client.aio import AsyncClient
    from gputui.client.start import ensure_daemon

__all__ = ["AsyncClient", "Client", "ClientError", "ensure_daemon", "new_session"]


def __getattr__(name: str) -> object:
    # asyncio costs a command 30 ms, and most commands start no daemon
    if name == "AsyncClient":
        from gputui.client.aio import AsyncClient

        return AsyncClient
    if name == "ensure_daemon":
        from gputui.client.start import ensure_daemon

        return ensure_daemon
    raise AttributeError(name)
