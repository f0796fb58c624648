"""Submitting jobs: one, many, or any number as a stream."""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field

from gputui.daemon.access import Act
from gputui.daemon.routes.http import Body, Reply, Text, admit, body, json_lines, validated
from gputui.daemon.services.submit import Submit
from gputui.domain.errors import InputError

PIECE = 1000
"""Jobs of a stream that are checked together."""

Environment = dict[Any, Text]
"""Names are texts by JSON's own rule; pydantic's `str` would refuse those that are not UTF-8."""


class SubmitBody(Body):
    """`SubmitRequest`; what a job may say is the business of whoever parses it."""

    jobs: Annotated[list[dict[Any, Any]], Field(min_length=1)]
    cwd: Text = "/"
    env: Environment = Field(default_factory=dict)


class CommonBody(Body):
    """The first line of a stream: what all its jobs share."""

    cwd: Text = "/"
    env: Environment = Field(default_factory=dict)


def router(submit: Submit) -> APIRouter:
    """POST /jobs, POST /jobs/bulk."""
    routes = APIRouter()

    @routes.post("/jobs")
    async def some(request: Request) -> Reply:
        caller = admit(request, Act.SUBMIT)
        wanted = await body(request, SubmitBody)
        return Reply(await submit.submit(caller, wanted.jobs, wanted.cwd, wanted.env))

    @routes.post("/jobs/bulk")
    async def many(request: Request) -> Reply:
        caller = admit(request, Act.SUBMIT)
        batch = None
        piece: list[dict[str, object]] = []
        count = 0
        async for values in json_lines(request):
            if batch is None:
                if not values:  # blank lines
                    continue
                common = validated(CommonBody, values.pop(0))
                batch = submit.batch(caller, common.cwd, common.env)
            for value in values:
                count += 1
                if not isinstance(value, dict):
                    raise InputError(f"job {count}", value, "write a JSON object on each line")
                piece.append(value)
            if len(piece) >= PIECE:
                await batch.add(piece)
                piece = []
        if batch is None:
            raise InputError("body", "", "send a line with cwd and env, then one job a line")
        await batch.add(piece)
        return Reply(await batch.commit())

    return routes
