"""The event stream."""

from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from gputui.daemon.access import Act
from gputui.daemon.routes.http import admit, words
from gputui.daemon.stream import TYPES, Hub
from gputui.domain.errors import InputError


def router(hub: Hub) -> APIRouter:
    """GET /events: JSON lines for as long as the client listens."""
    routes = APIRouter()

    @routes.get("/events")
    async def events(request: Request, types: str | None = None) -> StreamingResponse:
        admit(request, Act.VIEW)
        wanted = frozenset(words(types)) or TYPES
        if unknown := wanted - TYPES:
            raise InputError("types", min(unknown), f"known are {', '.join(sorted(TYPES))}")
        return StreamingResponse(hub.listen(wanted), media_type="application/x-ndjson")

    return routes
