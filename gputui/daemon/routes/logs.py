"""Output of runs."""

from fastapi import APIRouter, Request

from gputui.daemon.access import Act
from gputui.daemon.routes.http import Reply, admit, job_number, whole
from gputui.daemon.services.logs import LARGEST_CHUNK, Logs

_FURTHEST = 2**63 - 1


def router(logs: Logs) -> APIRouter:
    """GET /jobs/{id}/log."""
    routes = APIRouter()

    @routes.get("/jobs/{job}/log")
    async def read(
        request: Request, job: str, run: str | None = None, offset: str | None = None, limit: str | None = None
    ) -> Reply:
        admit(request, Act.LOG)
        attempt = whole("run", run, 0, least=1, most=_FURTHEST) or None
        at = whole("offset", offset, 0, least=-_FURTHEST, most=_FURTHEST)
        count = whole("limit", limit, LARGEST_CHUNK, least=1, most=LARGEST_CHUNK)
        return Reply(await logs.read(job_number(job), attempt, at, count))

    return routes
