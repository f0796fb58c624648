"""Datasets."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field

from gputui.daemon.access import Act
from gputui.daemon.routes.http import Body, Reply, Text, Whole, admit, body
from gputui.daemon.services.datasets import Datasets
from gputui.domain.errors import InputError


class DatasetBody(Body):
    """`DatasetRequest`."""

    name: Text
    location: Text
    exists: bool = True
    min_files: Whole | str | None = None
    min_size: Whole | str | None = None
    marker: Text | None = None
    manifest: Text | None = None
    settled: Annotated[float | str | None, Field(union_mode="left_to_right")] = None


def router(datasets: Datasets) -> APIRouter:
    """GET and POST /datasets, POST /datasets/{name}/check, DELETE /datasets/{name}."""
    routes = APIRouter()

    @routes.get("/datasets")
    async def list_all(request: Request) -> Reply:
        admit(request, Act.VIEW)
        return Reply({"datasets": datasets.rows()})

    @routes.post("/datasets")
    async def add(request: Request) -> Reply:
        caller = admit(request, Act.DATASET)
        wanted = await body(request, DatasetBody)
        if not wanted.exists:
            raise InputError("exists", False, "a dataset that is complete always exists; leave it out")
        return Reply(await datasets.add(caller, wanted.model_dump(exclude={"exists"})))

    @routes.post("/datasets/{name}/check")
    async def check(request: Request, name: str) -> Reply:
        admit(request, Act.VIEW)
        return Reply(await datasets.check(name))

    @routes.delete("/datasets/{name}")
    async def remove(request: Request, name: str) -> Reply:
        caller = admit(request, Act.DATASET)
        return Reply(await datasets.remove(caller, name))

    return routes
