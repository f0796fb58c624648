"""The daemon itself: what it says of itself, and its end."""

from collections.abc import Callable

from fastapi import APIRouter, Request

from gputui.daemon.access import Act
from gputui.daemon.context import Caller
from gputui.daemon.routes.http import Reply, admit
from gputui.protocol import ActReply, DaemonStatus


def router(status: Callable[[Caller], DaemonStatus], stop: Callable[[Caller], ActReply]) -> APIRouter:
    """GET /status, POST /daemon/stop."""
    routes = APIRouter()

    @routes.get("/status")
    async def tell(request: Request) -> Reply:
        return Reply(status(admit(request, Act.VIEW)))

    @routes.post("/daemon/stop")
    async def end(request: Request) -> Reply:
        return Reply(stop(admit(request, Act.STOP)))

    return routes
