"""The audit log."""

from fastapi import APIRouter, Request

from gputui.daemon.access import Act
from gputui.daemon.routes.http import Reply, admit, whole
from gputui.daemon.services.audit import AuditLog

MOST_ROWS = 10_000


def router(log: AuditLog) -> APIRouter:
    """GET /audit, GET /audit/verify."""
    routes = APIRouter()

    @routes.get("/audit")
    async def rows(request: Request, limit: str | None = None, subject: str | None = None) -> Reply:
        admit(request, Act.AUDIT)
        count = whole("limit", limit, 100, least=1, most=MOST_ROWS)
        return Reply({"rows": await log.rows(count, subject)})

    @routes.get("/audit/verify")
    async def verify(request: Request) -> Reply:
        admit(request, Act.AUDIT)
        return Reply(await log.verify())

    return routes
