"""The daemon's heart: a scheduling pass whenever something changed, and a look around once a second."""

import asyncio
import gc
import logging
import shutil
from dataclasses import dataclass

from gputui.daemon.context import DAEMON, Context, StoreUnavailable
from gputui.daemon.services import settings
from gputui.daemon.services.changes import Changes
from gputui.daemon.services.freeze import Freezer
from gputui.daemon.services.gpus import Gpus
from gputui.daemon.services.jobs import Jobs
from gputui.daemon.services.moves import Moves
from gputui.daemon.services.release import Releases
from gputui.daemon.services.retention import Retention
from gputui.daemon.services.rows import Rows
from gputui.daemon.services.runs import Runs
from gputui.daemon.services.submit import Submit
from gputui.daemon.services.undo import Undo
from gputui.daemon.services.why import Why
from gputui.daemon.services.windows import Windows
from gputui.domain.lifecycle import ENDED
from gputui.format import size
from gputui.store import jobs as table

MOST_STARTS = 64
"""Runs granted in one pass; the next pass follows at once."""
LOOK_SECONDS = 1.0
STORE_PAUSE = 1.0
"""Seconds until the next pass when the last one could not be committed."""
LOCK_LOOKS = (0.05, 0.2)
"""When a GPU is looked at again that another program seemed to have: a run that ends holds its lock a moment longer."""

COLLECT = (50_000, 20, 100)
"""Thresholds of the garbage collector."""

_log = logging.getLogger("gputui.daemon")


@dataclass(frozen=True)
class Services:
    """Everything behind the routes that is about jobs and GPUs, one service per noun."""

    undo: Undo
    changes: Changes
    gpus: Gpus
    releases: Releases
    runs: Runs
    why: Why
    rows: Rows
    windows: Windows
    submit: Submit
    jobs: Jobs
    moves: Moves
    freezer: Freezer
    retention: Retention

    @classmethod
    def of(cls, ctx: Context) -> "Services":
        """Put them together."""
        undo = Undo()
        changes = Changes(ctx, undo)
        gpus = Gpus(ctx, undo)
        releases = Releases(ctx)
        runs = Runs(ctx, changes, gpus, releases)
        why = Why(ctx)
        rows = Rows(ctx, why)
        return cls(
            undo=undo,
            changes=changes,
            gpus=gpus,
            releases=releases,
            runs=runs,
            why=why,
            rows=rows,
            windows=Windows(ctx, rows),
            submit=Submit(ctx, changes, undo),
            jobs=Jobs(ctx, changes, runs, gpus, rows),
            moves=Moves(ctx, changes),
            freezer=Freezer(ctx, undo),
            retention=Retention(ctx),
        )


class Loop:
    """Load, recover, schedule, until closed. Readings come in by `services.gpus.take`."""

    def __init__(self, ctx: Context, services: Services) -> None:
        self._ctx = ctx
        self._services = services
        self._tasks: list[asyncio.Task[None]] = []
        self._backoff: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Take in the store, find the runs again, and begin. Raises `StoreProblem`, OSError.

        The reader is started by whoever made it, before or after; datasets count as unknown until they are looked at.
        """
        try:
            await self._load()
        except StoreUnavailable as unavailable:
            raise unavailable.problem from unavailable
        self._check_disk()
        gc.collect()
        gc.freeze()  # what was loaded stays: the collector need not walk through it again and again
        # a bulk submit makes objects by the hundred thousand and no rubbish: looking for some took a fifth of its time
        gc.set_threshold(*COLLECT)
        work = (self._schedule(), self._look_around(), self._services.retention.keep_sweeping())
        self._tasks = [asyncio.create_task(each) for each in work]
        self._ctx.wake.set()

    async def _load(self) -> None:
        ctx, memory, services = self._ctx, self._ctx.memory, self._services
        await settings.record(ctx)
        rows = await ctx.read(lambda session: list(table.load_waiting(session)))
        memory.load_waiting(rows, ctx.clock.now(), ctx.clock.monotonic())
        memory.next_seq = 1 + await ctx.read(table.last_seq)
        counts = await ctx.read(table.counts)
        memory.states.update({state: count for state, count in counts.items() if state in ENDED})
        await services.freezer.open()
        await services.gpus.open()
        await ctx.engine.open(services.runs.on_began, services.runs.on_end)
        services.runs.open()
        await services.runs.recover()

    async def close(self) -> None:
        """Stop; running jobs go on, and the next daemon finds them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._backoff:
            self._backoff.cancel()
        await self._services.releases.close()
        await self._services.runs.close()
        await self._services.gpus.close()
        await self._ctx.engine.close()

    # --- Scheduling -------------------------------------------------------------------------------------------------

    async def _schedule(self) -> None:
        ctx = self._ctx
        while True:
            await ctx.wake.wait()
            ctx.wake.clear()
            try:
                if await ctx.act(self._pass):
                    ctx.wake.set()
            except StoreUnavailable:
                await asyncio.sleep(STORE_PAUSE)
                ctx.wake.set()
            except Exception:  # noqa: BLE001 - one bad pass must not end scheduling
                _log.exception("a scheduling pass failed")
                ctx.warn("pass", "A scheduling pass failed; see the daemon's log. It is tried again by itself.")
                await asyncio.sleep(STORE_PAUSE)
                ctx.wake.set()

    async def _pass(self) -> bool:
        """One pass, under the mutation lock; whether there is more to do at once."""
        memory = self._ctx.memory
        self._end_backoffs()
        if memory.frozen or memory.paused:
            return False
        plan = memory.scheduler.plan(MOST_STARTS)
        if not plan.starts:
            return False
        wanted = frozenset(uuid for start in plan.starts for uuid in start.gpu_uuids)
        if wanted and self._services.gpus.look_at_locks(wanted):
            for delay in LOCK_LOOKS:
                asyncio.get_running_loop().call_later(delay, self._look_at_locks)
            return True
        await self._services.runs.grant(plan.starts, DAEMON)
        return len(plan.starts) == MOST_STARTS

    def _look_at_locks(self) -> None:
        self._services.gpus.look_at_locks()
        self._ctx.wake.set()

    def _end_backoffs(self) -> None:
        """Let jobs whose retry has waited long enough start again, and come back for the next one."""
        memory, now = self._ctx.memory, self._ctx.clock.monotonic()
        over = [job_id for job_id, until in memory.backoff.items() if until <= now]
        for job_id in over:
            del memory.backoff[job_id]
            memory.regate(job_id)
        if over:
            self._ctx.changed(over)
        if self._backoff:
            self._backoff.cancel()
            self._backoff = None
        if memory.backoff:
            delay = max(0.0, min(memory.backoff.values()) - now)
            self._backoff = asyncio.get_running_loop().call_later(delay, self._ctx.wake.set)

    # --- Once a second ----------------------------------------------------------------------------------------------

    async def _look_around(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._check_disk()
            try:
                await self._services.runs.look()
                await self._services.releases.flush()
                await self._services.gpus.tick()
            except StoreUnavailable:
                continue  # said already; tried again in a second
            except Exception:  # noqa: BLE001 - the next look may go well
                _log.exception("a look around failed")

    def _check_disk(self) -> None:
        """Start nothing while the state folder's disk is nearly full; go on by itself once it is not."""
        memory, settings = self._ctx.memory, self._ctx.settings
        try:
            free = shutil.disk_usage(settings.state_dir).free
        except OSError as error:
            paused = f"{settings.state_dir} cannot be read: {error.strerror}"
        else:
            low = free < settings.disk_low
            paused = f"the disk of {settings.state_dir} is full: {size(free)} left" if low else ""
        if bool(paused) != bool(memory.paused):
            self._ctx.warn(
                "disk", f"Nothing starts: {paused}; it goes on by itself once there is room." if paused else ""
            )
            self._ctx.wake.set()
        memory.paused = paused
