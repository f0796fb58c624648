"""What a run wrote, in pieces by absolute offset."""

import asyncio
import base64

from sqlmodel import Session

from gputui.daemon.context import Context
from gputui.domain.errors import Refused
from gputui.domain.lifecycle import ENDED
from gputui.engines import logs
from gputui.format import size
from gputui.protocol import ErrorCode, LogChunk
from gputui.store import jobs, runs
from gputui.store.tables import Run

LARGEST_CHUNK = 1024 * 1024
"""Bytes of output in one reply."""


class Logs:
    """The service."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    async def read(self, job_id: int, attempt: int | None, offset: int, limit: int) -> LogChunk:
        """Output of one run, the latest unless `attempt` says which. Raises `Refused` when there is no such run.

        A negative offset counts from the end. A job that never ran has an empty log.
        """

        def find(session: Session) -> tuple[Run | None, bool]:
            job = jobs.get(session, job_id)
            found = [run for run in runs.runs_of(session, job_id) if attempt in (None, run.attempt)]
            if not found and attempt is not None:
                raise Refused(ErrorCode.NOT_FOUND, f"Job #{job_id} has no run {attempt}.")
            return found[-1] if found else None, job.state in ENDED

        run, over = await self._ctx.read(find)
        if run is None:
            return {"offset": 0, "data": "", "gap": 0, "next_offset": 0, "written": 0, "ended": over}
        folder = self._ctx.engine.run_dir(run.run_id)
        if run.ended_at is not None and not folder.exists():
            raise Refused(ErrorCode.NOT_FOUND, self._collected(job_id, run.attempt))
        try:
            part = await asyncio.to_thread(logs.read, folder, offset, min(limit, LARGEST_CHUNK))
        except OSError as error:
            raise Refused(ErrorCode.INTERNAL, f"The log of job #{job_id} cannot be read: {error.strerror}.") from error
        return {
            "offset": part.offset,
            "data": base64.b64encode(part.data).decode("ascii"),
            "gap": part.gap,
            "next_offset": part.next_offset,
            "written": part.written,
            "ended": part.ended,
        }

    def _collected(self, job_id: int, attempt: int) -> str:
        settings = self._ctx.settings
        kept = f"logs are kept for {settings.log_days} days and up to {size(settings.log_total)} in all"
        return f"The log of job #{job_id}, run {attempt}, is no longer there: {kept}."
