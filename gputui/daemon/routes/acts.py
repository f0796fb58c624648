"""What is done to jobs that are there."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field

from gputui.daemon.access import Act
from gputui.daemon.context import Caller
from gputui.daemon.routes.http import Body, Reply, Text, Whole, admit, body, job_number
from gputui.daemon.services.jobs import Jobs
from gputui.daemon.services.moves import Moves
from gputui.daemon.services.windows import View
from gputui.protocol import ActReply

MOST_IDS = 100_000


class MoveBody(Body):
    """`MoveRequest`."""

    to: Text
    n: Annotated[Whole, Field(ge=1)] = 1
    id: Whole | None = None
    version: Whole | None = None
    filter: Text = ""
    invert: bool = False


class StartBody(Body):
    """`StartRequest`."""

    gpus: list[Text] | None = None
    ignore_data: bool = False
    reason: Text = ""
    version: Whole | None = None


class IdsBody(Body):
    """`IdsRequest`."""

    ids: Annotated[list[Whole], Field(min_length=1, max_length=MOST_IDS)]
    versions: dict[int, Whole] | None = None
    reason: Text = ""


OnMany = Callable[[Caller, list[int], dict[int, int] | None, str], Awaitable[ActReply]]


def router(jobs: Jobs, moves: Moves) -> APIRouter:
    """POST /jobs/hold, release, cancel, requeue; POST /jobs/{id}/move, start, grant."""
    routes = APIRouter()

    def on_many(verb: str, act: Act, do: OnMany) -> None:
        @routes.post(f"/jobs/{verb}", name=verb)
        async def many(request: Request) -> Reply:
            caller = admit(request, act)
            wanted = await body(request, IdsBody)
            return Reply(await do(caller, wanted.ids, wanted.versions, wanted.reason))

    on_many("hold", Act.HOLD, jobs.hold)
    on_many("release", Act.RELEASE, jobs.release)
    on_many("cancel", Act.CANCEL, jobs.cancel)
    on_many("requeue", Act.REQUEUE, jobs.requeue)

    @routes.post("/jobs/{job}/move")
    async def move(request: Request, job: str) -> Reply:
        caller = admit(request, Act.MOVE)
        wanted = await body(request, MoveBody)
        view = View(text=wanted.filter, invert=wanted.invert)
        return Reply(
            await moves.move(
                caller, job_number(job), wanted.to, n=wanted.n, ref=wanted.id, version=wanted.version, view=view
            )
        )

    @routes.post("/jobs/{job}/start")
    async def start(request: Request, job: str) -> Reply:
        caller = admit(request, Act.START)
        wanted = await body(request, StartBody)
        return Reply(
            await jobs.start(
                caller,
                job_number(job),
                gpus=wanted.gpus,
                ignore_data=wanted.ignore_data,
                reason=wanted.reason,
                version=wanted.version,
            )
        )

    @routes.post("/jobs/{job}/grant")
    async def grant(request: Request, job: str) -> Reply:
        return Reply(await jobs.grant(admit(request, Act.GRANT), job_number(job)))

    return routes
