"""Stopping and resuming everything automatic; taking back and doing again."""

from fastapi import APIRouter, Request

from gputui.daemon.access import Act
from gputui.daemon.routes.http import Body, Reply, Text, admit, body
from gputui.daemon.services.freeze import Freezer
from gputui.daemon.services.undo import Undo


class FreezeBody(Body):
    """Why."""

    reason: Text


def router(freezer: Freezer, undo: Undo) -> APIRouter:
    """POST /freeze, /thaw, /undo, /redo."""
    routes = APIRouter()

    @routes.post("/freeze")
    async def freeze(request: Request) -> Reply:
        caller = admit(request, Act.FREEZE)
        return Reply(await freezer.freeze(caller, (await body(request, FreezeBody)).reason))

    @routes.post("/thaw")
    async def thaw(request: Request) -> Reply:
        caller = admit(request, Act.FREEZE)
        return Reply(await freezer.thaw(caller, (await body(request, FreezeBody)).reason))

    @routes.post("/undo")
    async def take_back(request: Request) -> Reply:
        return Reply(await undo.undo(admit(request, Act.UNDO)))

    @routes.post("/redo")
    async def do_again(request: Request) -> Reply:
        return Reply(await undo.redo(admit(request, Act.UNDO)))

    return routes
