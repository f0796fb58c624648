"""Giving GPUs back: sampled right after a run's end, free on evidence, quarantined when it does not come."""

import asyncio
import contextlib
from dataclasses import replace

from sqlmodel import Session

from gputui.daemon.context import DAEMON, Context, StoreUnavailable
from gputui.daemon.gpu_table import Entry
from gputui.daemon.memory import ActiveRun
from gputui.domain.release import SPACING, Grant, Sample, Verdict, judge
from gputui.gpus.reading import Missing
from gputui.store import audit, runs
from gputui.store import gpus as table

EAGER_SECONDS = 1.0
"""For so long a GPU is sampled as fast as evidence may come; after that four times a second."""
PATIENT_SPACING = 0.25


class Releases:
    """Every GPU on its way from an ended run back to the queue."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._tasks: set[asyncio.Task[None]] = set()
        self._proven: set[str] = set()
        """Runs whose GPUs are all given back; the store is told soon."""

    def begin(self, run: ActiveRun, *, look_for_processes: bool) -> None:
        """Sample the run's GPUs, which are `releasing` in memory, until they are proven free."""
        task = asyncio.create_task(self._release(run, look_for_processes=look_for_processes))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def resume(self, run: ActiveRun) -> None:
        """After a restart: a run that had ended, its GPUs not proven free, save those that others were given since."""
        now = self._ctx.clock.monotonic()
        left = [entry for uuid in run.gpu_uuids if not (entry := self._ctx.memory.gpus.ensure(uuid)).runs]
        for entry in left:
            entry.releasing[run.run_id] = now
            self._ctx.memory.refresh_gpu(entry, now)
        self.begin(replace(run, gpu_uuids=tuple(entry.uuid for entry in left)), look_for_processes=True)

    async def flush(self) -> None:
        """Tell the store which runs hold nothing any more. Nothing is lost if that fails: it is proven anew."""
        proven = set(self._proven)
        if not proven:
            return
        at = self._ctx.clock.now()

        def work(session: Session) -> None:
            for run_id in proven:
                runs.release_run(session, run_id, at)

        await self._ctx.act(lambda: self._ctx.write(work))
        self._proven -= proven

    async def close(self) -> None:
        """Stop sampling; a restart takes it up again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _release(self, run: ActiveRun, *, look_for_processes: bool) -> None:
        ended = self._ctx.clock.monotonic()
        await asyncio.gather(*(self._release_one(run, uuid, ended, look_for_processes) for uuid in run.gpu_uuids))
        self._proven.add(run.run_id)
        if look_for_processes:  # its directory was needed until now
            with contextlib.suppress(OSError):
                await self._ctx.engine.forget(run.run_id)

    async def _release_one(self, run: ActiveRun, uuid: str, ended: float, look_for_processes: bool) -> None:
        ctx = self._ctx
        entry = ctx.memory.gpus.ensure(uuid)
        grant = Grant(run.memory_at_grant.get(uuid))
        samples: list[Sample] = []
        while True:
            (used,) = await ctx.reader.memory_samples(uuid, 1)
            now = ctx.clock.monotonic()
            # this may mean to look through all of /proc
            left = len(await asyncio.to_thread(ctx.engine.pids, run.run_id)) if look_for_processes else 0
            samples.append(
                Sample(
                    at=now,
                    processes_left=left,
                    memory_used=used if isinstance(used, int) else None,
                    others=held_by_others(entry),
                    memory_supported=used is not Missing.UNSUPPORTED,
                )
            )
            del samples[:-8]
            release = judge(grant, samples, ended_at=ended, now=now, limit=ctx.settings.release_limit)
            if release.verdict is Verdict.FREE:
                entry.prove(used, now)
                break
            if release.verdict is Verdict.QUARANTINE:
                await self._quarantine(entry, run, release.reason)
                break
            await asyncio.sleep(SPACING if now - ended < EAGER_SECONDS else PATIENT_SPACING)
        entry.releasing.pop(run.run_id, None)
        ctx.memory.refresh_gpu(entry, ctx.clock.monotonic())
        ctx.gpus_changed()
        ctx.wake.set()

    async def _quarantine(self, entry: Entry, run: ActiveRun, reason: str) -> None:
        ctx = self._ctx
        sentence = f"{reason[0].upper()}{reason[1:]} (job #{run.job_id})"
        at = ctx.clock.now()

        def work(session: Session) -> None:
            table.update_gpu(session, entry.uuid, quarantine_reason=sentence, quarantine_since=at)
            audit.append(
                session, at=at, uid=DAEMON.uid, who=DAEMON.user, session_token="", act="gpu.quarantine",
                subject=f"gpu {entry.uuid}", after={"job": run.job_id}, reason=reason,
            )  # fmt: skip

        async def act() -> None:
            entry.quarantine = sentence  # whether or not it can be written down
            ctx.warn(f"gpu {entry.uuid}", f"GPU {entry.label} is quarantined: {reason}; look at it, then release it.")
            await ctx.write(work)

        with contextlib.suppress(StoreUnavailable):
            await ctx.act(act)


def held_by_others(entry: Entry) -> int:
    """Bytes that foreign processes and the runs on it account for, as far as is known; a run for what it declared."""
    held = sum(process.memory for process in entry.foreign if isinstance(process.memory, int))
    return held + sum(max(run.demand.memory, entry.allocated.get(run.run_id, 0)) for run in entry.runs.values())


def baseline(entry: Entry, now: float) -> int | None:
    """Bytes in use now that nobody accounts for: what a GPU falls back to after a run. None: unknown."""
    used = entry.reading.memory_used if entry.reading and entry.fresh(now) else None
    if not isinstance(used, int):
        return None
    foreign = sum(process.memory for process in entry.foreign if isinstance(process.memory, int))
    return max(0, used - foreign - sum(entry.allocated.get(run_id, 0) for run_id in entry.runs))
