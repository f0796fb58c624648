"""GPUs."""

from fastapi import APIRouter, Request

from gputui.daemon.access import Act
from gputui.daemon.routes.http import Body, Reply, Text, admit, body
from gputui.daemon.services.gpus import Gpus


class CordonBody(Body):
    """`CordonRequest`."""

    reason: Text
    until: Text | None = None
    drain: bool = False


class ReasonBody(Body):
    """Why, if anything is to be said."""

    reason: Text = ""


def router(gpus: Gpus) -> APIRouter:
    """GET /gpus, POST /gpus/{uuid}/cordon, uncordon, release."""
    routes = APIRouter()

    @routes.get("/gpus")
    async def list_all(request: Request) -> Reply:
        admit(request, Act.VIEW)
        return Reply(gpus.reply())

    @routes.post("/gpus/{uuid}/cordon")
    async def cordon(request: Request, uuid: str) -> Reply:
        caller = admit(request, Act.CORDON)
        said = await body(request, CordonBody)
        return Reply(await gpus.cordon(caller, uuid, said.reason, said.until, drain=said.drain))

    @routes.post("/gpus/{uuid}/uncordon")
    async def uncordon(request: Request, uuid: str) -> Reply:
        caller = admit(request, Act.CORDON)
        return Reply(await gpus.uncordon(caller, uuid, (await body(request, ReasonBody)).reason))

    @routes.post("/gpus/{uuid}/release")
    async def release(request: Request, uuid: str) -> Reply:
        caller = admit(request, Act.CORDON)
        return Reply(await gpus.release(caller, uuid, (await body(request, ReasonBody)).reason))

    return routes
