"""Logs of ended runs are kept for a while and to a total size; what is collected is told to whoever asks for it."""

import asyncio
import logging
from datetime import datetime, timedelta

from sqlmodel import Session

from gputui.daemon.context import DAEMON, Context
from gputui.domain.retention import Kept, overdue
from gputui.engines import collect
from gputui.format import size
from gputui.store import audit, runs

SWEEP_SECONDS = 3600.0
_CLOCK_SLACK = timedelta(minutes=5)

_log = logging.getLogger("gputui.daemon")


class Retention:
    """The service. Never touches a run whose GPUs are not released, nor checkpoints, which lie elsewhere."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._looked: tuple[datetime, float] | None = None

    async def keep_sweeping(self) -> None:
        """A sweep an hour, for ever."""
        self._clock_is_steady()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            # a clock that was set says nothing about ages: an hour later it will
            if self._clock_is_steady():
                try:
                    await self.sweep()
                except Exception:  # noqa: BLE001 - the next sweep may go well
                    _log.exception("old logs could not be collected")

    async def sweep(self) -> None:
        """Remove what is kept no longer. Raises `StoreUnavailable`."""
        ctx, settings = self._ctx, self._ctx.settings
        root = settings.state_dir / "runs"
        on_disk = await asyncio.to_thread(collect.sizes, root)
        ended = await ctx.read(lambda session: runs.ended_at(session, on_disk))
        now = ctx.clock.now()
        kept = {run_id: Kept(at, on_disk[run_id]) for run_id, at in ended.items()}
        due = overdue(kept, now, timedelta(days=settings.log_days), settings.log_total)
        gone = await asyncio.to_thread(collect.remove, root, due)
        if not gone:
            return
        freed = sum(on_disk[run_id] for run_id in gone)
        _log.info("collected the logs of %d ended runs: %s", len(gone), size(freed))

        def work(session: Session) -> None:
            audit.append(
                session, at=now, uid=DAEMON.uid, who=DAEMON.user, session_token="", act="log.collect",
                subject=f"{len(gone)} run{'s' * (len(gone) > 1)}", after={"runs": len(gone), "bytes": freed},
            )  # fmt: skip

        await ctx.act(lambda: ctx.write(work))

    def _clock_is_steady(self) -> bool:
        """Whether the wall clock went as far as the monotonic one since the last look."""
        now = self._ctx.clock.now(), self._ctx.clock.monotonic()
        last, self._looked = self._looked or now, now
        return abs(now[0] - last[0] - timedelta(seconds=now[1] - last[1])) <= _CLOCK_SLACK
