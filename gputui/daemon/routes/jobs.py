"""Jobs, for reading; and their one editable form."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request

from gputui.daemon.access import Act
from gputui.daemon.routes.http import Reply, admit, job_number, json_body, whole, words
from gputui.daemon.services.jobs import LONGEST_WAIT, Jobs
from gputui.daemon.services.rows import Rows
from gputui.daemon.services.why import Why
from gputui.daemon.services.windows import View, Windows
from gputui.domain.errors import InputError, Refused
from gputui.domain.lifecycle import JobState
from gputui.domain.units import parse_duration
from gputui.protocol import ErrorCode

MOST_ROWS = 100_000
_FURTHEST = 2**63 - 1


def router(jobs: Jobs, rows: Rows, windows: Windows, why: Why, stopping: asyncio.Event) -> APIRouter:
    """GET /jobs, /jobs/window, /jobs/wait, /jobs/{id}, /jobs/{id}/why; PATCH /jobs/{id}.

    `stopping` ends the waits under way.
    """
    routes = APIRouter()

    @routes.get("/jobs")
    async def list_some(request: Request) -> Reply:
        admit(request, Act.VIEW)
        query = request.query_params
        return Reply(
            await windows.jobs(
                states=[_state(word) for word in words(query.get("state"))],
                project=query.get("project"),
                owner=query.get("owner"),
                text=query.get("filter", ""),
                limit=whole("limit", query.get("limit"), 100, least=0, most=MOST_ROWS),
                offset=whole("offset", query.get("offset"), 0, least=0, most=_FURTHEST),
            )
        )

    @routes.get("/jobs/window")
    async def window(request: Request) -> Reply:
        admit(request, Act.VIEW)
        query = request.query_params
        view = View(
            scope=query.get("scope") or "queue",
            text=query.get("filter", ""),
            invert=_flag("invert", query.get("invert")),
            sort=query.get("sort", ""),
            reverse=_flag("reverse", query.get("reverse")),
        )
        anchor = query.get("anchor")
        return Reply(
            await windows.window(
                view,
                anchor=whole("anchor", anchor, 0, least=1, most=_FURTHEST) if anchor else None,
                first=whole("first", query.get("first"), 0, least=0, most=_FURTHEST),
                before=whole("before", query.get("before"), 0, least=0, most=MOST_ROWS),
                after=whole("after", query.get("after"), 100, least=0, most=MOST_ROWS),
            )
        )

    @routes.get("/jobs/wait")
    async def wait(request: Request) -> Reply:
        admit(request, Act.VIEW)
        ids = [job_number(word) for word in words(request.query_params.get("ids"))]
        if not ids:
            raise InputError("ids", "", "name at least one job")
        limit = parse_duration(request.query_params.get("timeout", str(LONGEST_WAIT)), "timeout")
        waiting = asyncio.create_task(jobs.wait(ids, limit))
        ending = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait((waiting, ending), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise Refused(ErrorCode.NO_DAEMON, "The daemon ends; ask the next one.")
            return Reply(await waiting)
        finally:
            waiting.cancel()
            ending.cancel()

    @routes.get("/jobs/{job}")
    async def show(request: Request, job: str) -> Reply:
        admit(request, Act.VIEW)
        return Reply(await rows.show(job_number(job)))

    @routes.get("/jobs/{job}/why")
    async def explain(request: Request, job: str) -> Reply:
        admit(request, Act.VIEW)
        return Reply(await why.why(job_number(job)))

    @routes.patch("/jobs/{job}")
    async def edit(request: Request, job: str) -> Reply:
        caller = admit(request, Act.EDIT)
        fields: Any = await json_body(request)
        if not isinstance(fields, dict):
            raise InputError("body", fields, "send a JSON object with the fields to change")
        version = fields.pop("version", None)
        if version is not None and type(version) is not int:
            raise InputError("version", version, "send the number that the row had")
        number = job_number(job)
        await jobs.edit(caller, number, fields, version)
        return Reply(await rows.show(number))

    return routes


def _state(word: str) -> JobState:
    try:
        return JobState(word)
    except ValueError:
        raise InputError("state", word, f"write one of {', '.join(JobState)}") from None


def _flag(name: str, word: str | None) -> bool:
    if word in (None, "", "0", "false"):
        return False
    if word in ("1", "true"):
        return True
    raise InputError(name, word, "write 1 or 0")
