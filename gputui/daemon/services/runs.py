"""Runs from the grant to the committed end: the intent first, then the start, and every end exactly once."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from sqlmodel import Session

from gputui.daemon.context import DAEMON, Caller, Context, StoreUnavailable
from gputui.daemon.memory import ActiveRun, note_of
from gputui.daemon.services import run_records
from gputui.daemon.services.changes import Changes
from gputui.daemon.services.gpus import Gpus
from gputui.daemon.services.launch import checkpoint_dir, run_spec
from gputui.daemon.services.outcome import Intent, Outcome
from gputui.daemon.services.release import Releases, baseline
from gputui.domain.lifecycle import JobState
from gputui.domain.scheduler import Start
from gputui.engines.engine import Began, EndReason, Found, RunEnd, RunSpec
from gputui.store import audit, environments, jobs, runs
from gputui.store.tables import Job, Run, RunState

INTERACTIVE_PATIENCE = 30.0
"""Seconds in which the client of an interactive job has to begin what it was granted."""
RETRY_STORE = 1.0
"""Seconds between tries to commit ends while the store can't be written."""
RETRY_DISK = 1.0
"""Seconds between tries to end a run while its directory can't be written."""

_log = logging.getLogger("gputui.daemon")


@dataclass(slots=True)
class _Settled:
    """One end, as committed."""

    run: ActiveRun
    outcome: Outcome
    job: Job
    datasets: tuple[str, ...]


class Runs:
    """All runs of this daemon."""

    def __init__(self, ctx: Context, changes: Changes, gpus: Gpus, releases: Releases) -> None:
        self._ctx = ctx
        self._gpus = gpus
        self._changes = changes
        self._releases = releases
        self._begun: dict[str, Began] = {}
        self._ends: dict[str, RunEnd] = {}
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._settler: asyncio.Task[None] | None = None
        self._checkpoints = ctx.settings.state_dir / "checkpoints"

    # --- Starting ---------------------------------------------------------------------------------------------------

    async def grant(
        self, starts: Sequence[Start], caller: Caller = DAEMON, reason: str = "", vouch: str | None = None
    ) -> None:
        """Commit the intent for these starts in one transaction, then start them. Under the mutation lock."""
        ctx = self._ctx
        at = ctx.clock.now()
        memory = {start.job_id: self._memory_now(start.gpu_uuids) for start in starts}

        def work(session: Session) -> list[tuple[Run, Job, RunSpec]]:
            rows = jobs.get_many(session, [start.job_id for start in starts])
            granted = []
            for start in starts:
                job = rows[start.job_id]
                run = Run(
                    run_id=str(uuid.uuid4()),
                    job_id=job.id,
                    host_id=ctx.store.host_id,
                    attempt=job.attempt + 1,
                    gpu_uuids=start.gpu_uuids,
                    memory_at_grant=memory[job.id],
                    granted_at=at,
                )
                run.log_dir = str(ctx.engine.run_dir(run.run_id) / "log")
                runs.insert_run(session, run)
                jobs.update_job(
                    session, job.id, None, state=JobState.STARTING, attempt=run.attempt, started_at=None, ended_at=None,
                    exit_code=None, end_reason="", not_before=None, holds=frozenset(), hold_reason="",
                    vouched=job.vouched if vouch is None else vouch,
                )  # fmt: skip
                granted.append((run, job.id, job.env_hash))
            audit.append(
                session, at=at, uid=caller.uid, who=caller.user, session_token=caller.session, act="job.start",
                subject=f"job {starts[0].job_id}" if len(starts) == 1 else f"{len(starts)} jobs",
                after={"gpus": {str(start.job_id): list(start.gpu_uuids) for start in starts}}, reason=reason,
            )  # fmt: skip
            fresh = jobs.get_many(session, [job_id for _, job_id, _ in granted])
            return [
                (run, fresh[job_id], self._spec(fresh[job_id], run, environments.environment(session, digest)))
                for run, job_id, digest in granted
            ]

        for run, job, spec in await ctx.write(work):
            active = run_records.active_run(job, run, ctx.clock.monotonic())
            ctx.memory.activate(active, note_of(job))
            self._refresh(active)
            self._spawn(self._launch(active, spec))
        ctx.changed(start.job_id for start in starts)

    def _spec(self, job: Job, run: Run, captured: dict[bytes, bytes]) -> RunSpec:
        return run_spec(
            job,
            run,
            captured,
            run_dir=self._ctx.engine.run_dir(run.run_id),
            checkpoints=self._checkpoints,
            log_cap=self._ctx.settings.log_cap,
        )

    def _memory_now(self, uuids: Sequence[str]) -> dict[str, int | None]:
        """What these GPUs must fall back to after the run, bytes."""
        now = self._ctx.clock.monotonic()
        return {gpu: baseline(self._ctx.memory.gpus.ensure(gpu), now) for gpu in uuids}

    async def _launch(self, run: ActiveRun, spec: RunSpec) -> None:
        """Have the engine start what was granted; what cannot be started goes back to the queue."""
        engine = self._ctx.engine
        try:
            checkpoint_dir(self._checkpoints, run.job_id).mkdir(parents=True, exist_ok=True, mode=0o700)
            await engine.start(spec)
        except OSError as error:
            sentence = f"its run could not be started: {error.strerror or error}"
            self._ctx.warn("start", f"Job #{run.job_id}: {sentence}. It is tried again by itself.")
            await self._insist(run, lambda: self._revoke(run, sentence))
            return
        self._ctx.warn("start", "")
        run.launched = True
        if run.intent is not None:
            await self._end(run)

    # --- News from the engine ---------------------------------------------------------------------------------------

    def on_began(self, run_id: str, began: Began) -> None:
        """The engine proved that a run executes its program."""
        self._begun[run_id] = began
        self._news.set()

    def on_end(self, run_id: str, end: RunEnd) -> None:
        """A run is over; told once, and kept until it is committed."""
        self._ends.setdefault(run_id, end)
        if (run := self._ctx.memory.runs.get(run_id)) is not None:
            run.over = True
        self._news.set()

    def open(self) -> None:
        """Begin to commit what the engine tells."""
        self._settler = asyncio.create_task(self._settle_all())

    async def close(self) -> None:
        """Stop; whatever is not committed yet is found again at the next start."""
        for task in (self._settler, *self._tasks):
            if task is not None:
                task.cancel()
        await asyncio.gather(*(t for t in (self._settler, *self._tasks) if t), return_exceptions=True)

    async def _settle_all(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._ctx.act(self._settle)
            except StoreUnavailable:
                await asyncio.sleep(RETRY_STORE)
                self._news.set()
            except Exception:  # noqa: BLE001 - the end of a run must never be lost to a fault elsewhere
                _log.exception("an end could not be recorded")
                self._ctx.warn("settle", "The end of a run could not be recorded; it is tried again by itself.")
                await asyncio.sleep(RETRY_STORE)
                self._news.set()
            else:
                self._ctx.warn("settle", "")

    async def _settle(self) -> None:
        """Commit all beginnings and ends told so far in one transaction."""
        ctx, memory = self._ctx, self._ctx.memory
        begun = {run_id: began for run_id, began in self._begun.items() if run_id in memory.runs}
        ends = {run_id: end for run_id, end in self._ends.items() if run_id in memory.runs}
        only_begun = [run_id for run_id in begun if run_id not in ends]
        at = ctx.clock.now()

        def work(session: Session) -> tuple[dict[int, Job], list[_Settled]]:
            for run_id, began in begun.items():
                run_records.store_began(session, memory.runs[run_id], began, at, final=run_id in ends)
            outcomes = [
                (run_id, run_records.store_end(session, memory.runs[run_id], end, at)) for run_id, end in ends.items()
            ]
            concerned = [memory.runs[run_id].job_id for run_id in (*only_begun, *ends)]
            rows, inputs = jobs.get_many(session, concerned), jobs.datasets_of(session, concerned)
            settled = []
            for run_id, outcome in outcomes:
                run = memory.runs[run_id]
                settled.append(_Settled(run, outcome, rows[run.job_id], inputs.get(run.job_id, ())))
            if settled:
                audit.append(
                    session, at=at, uid=DAEMON.uid, who=DAEMON.user, session_token="", act="job.end",
                    subject=f"job {settled[0].run.job_id}" if len(settled) == 1 else f"{len(settled)} jobs",
                    after={"states": {str(one.run.job_id): one.outcome.state.value for one in settled}},
                )  # fmt: skip
            return rows, settled

        if begun or ends:
            rows, settled = await ctx.write(work)
            for run_id in only_begun:
                self._apply_began(memory.runs[run_id], begun[run_id], rows[memory.runs[run_id].job_id])
            for one in settled:
                self._apply_end(one)
            ctx.changed(rows)
        for run_id in begun:
            self._begun.pop(run_id, None)
        for run_id in list(self._ends):
            if run_id in ends or run_id not in memory.runs:
                del self._ends[run_id]
        self._gpus.tell_holders()
        ctx.wake.set()

    def _apply_began(self, run: ActiveRun, began: Began, job: Job) -> None:
        run.launched = True
        run.started_at = job.started_at
        run.began_at = self._ctx.clock.monotonic() - run_records.age(began.start_time)
        self._replace_note(job)

    def _apply_end(self, one: _Settled) -> None:
        ctx, run = self._ctx, one.run
        end = self._ends[run.run_id]
        now = ctx.clock.monotonic()
        ctx.memory.retire(run, now if run_records.holds_gpus(run, end) else None)
        if one.outcome.delay:
            ctx.memory.backoff[run.job_id] = now + one.outcome.delay
        self._changes.take_in(one.job, one.datasets)
        self._refresh(run)
        lost = end.reason in {EndReason.LOST, EndReason.GONE}
        if run_records.holds_gpus(run, end):
            self._releases.begin(run, look_for_processes=lost)
        if not lost:  # what it left behind is still found through its directory
            self._spawn(self._forget(run.run_id))

    async def _forget(self, run_id: str) -> None:
        try:
            await self._ctx.engine.forget(run_id)
        except OSError as error:
            _log.warning("run %s is not tidied up: %s", run_id, error)

    # --- Stopping ---------------------------------------------------------------------------------------------------

    async def stop(self, caller: Caller, job_ids: Sequence[int], intent: Intent, reason: str = "") -> None:
        """Stop the runs of these jobs. Under the mutation lock; a run that is being stopped already stays so."""
        memory = self._ctx.memory
        stopping = [run for job_id in job_ids if (run := memory.run_of.get(job_id)) and run.stoppable]
        if not stopping:
            return
        at = self._ctx.clock.now()

        def work(session: Session) -> dict[int, Job]:
            for run in stopping:
                before = memory.notes[run.job_id].state
                runs.update_run(session, run.run_id, state=RunState.STOPPING, end_reason=intent.value)
                jobs.update_job(session, run.job_id, state=JobState.STOPPING)
                audit.append(
                    session, at=at, uid=caller.uid, who=caller.user, session_token=caller.session,
                    act="job.requeue" if intent is Intent.REQUEUED else "job.cancel", subject=f"job {run.job_id}",
                    before={"state": before.value}, after={"state": JobState.STOPPING.value, "why": intent.value},
                    reason=reason,
                )  # fmt: skip
            return jobs.get_many(session, [run.job_id for run in stopping])

        for job in (await self._ctx.write(work)).values():
            self._replace_note(job)
        for run in stopping:
            run.intent = intent
            if run.launched:
                self._spawn(self._end(run))
        self._ctx.changed(run.job_id for run in stopping)

    async def _end(self, run: ActiveRun) -> None:
        """End a run that the engine has; one that never began is forbidden instead."""

        async def stop() -> None:
            if run.began_at is not None or not await self._revoke(run):
                await self._ctx.engine.stop(run.run_id, run.grace)

        await self._insist(run, stop)

    async def _revoke(self, run: ActiveRun, error: str = "") -> bool:
        """Forbid a run that has not begun; whether it had not. Raises OSError."""
        revoked = await self._ctx.engine.revoke(run.run_id)
        if revoked:
            self.on_end(run.run_id, RunEnd(EndReason.REVOKED, error=error))
        return revoked

    async def _insist(self, run: ActiveRun, work: Callable[[], Awaitable[object]]) -> None:
        """Do `work` on a run, again and again while a full disk prevents it and the run is not over."""
        cause = f"end {run.run_id}"
        while not run.over:
            try:
                await work()
                break
            except OSError as error:
                said = error.strerror or error
                self._ctx.warn(cause, f"The run of job #{run.job_id} cannot be ended yet: {said}. It is tried again.")
                await asyncio.sleep(RETRY_DISK)
        self._ctx.warn(cause, "")

    async def look(self) -> None:
        """Once a second: time limits, and interactive runs that nobody began."""
        now = self._ctx.clock.monotonic()
        for run in list(self._ctx.memory.runs.values()):
            if run.intent is not None:
                continue
            if run.time_limit is not None and run.began_at is not None and now - run.began_at >= run.time_limit:
                await self._ctx.act(lambda run=run: self.stop(DAEMON, [run.job_id], Intent.TIME_LIMIT))  # type: ignore[misc]
            elif run.interactive and run.began_at is None and now - run.granted_mono >= INTERACTIVE_PATIENCE:
                await self._ctx.act(
                    lambda run=run: self.stop(DAEMON, [run.job_id], Intent.CANCELLED, "its terminal did not begin it")  # type: ignore[misc]
                )

    # --- After a restart --------------------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Look at every run whose GPUs are not released: adopt, record, or queue again. Raises `StoreUnavailable`."""
        ctx = self._ctx

        def load(session: Session) -> list[tuple[Run, Job]]:
            found = runs.open_runs(session, ctx.store.host_id)
            rows = jobs.get_many(session, {run.job_id for run in found})
            return [(run, rows[run.job_id]) for run in found]

        found_runs = await ctx.read(load)
        # those that may still run first: a GPU of an ended run may have been given to one of them since
        for row, job in sorted(found_runs, key=lambda pair: pair[0].state is RunState.ENDED):
            run = run_records.active_run(job, row, ctx.clock.monotonic())
            if row.state is RunState.ENDED:
                self._releases.resume(run)
                continue
            if row.start_time is not None:
                run.began_at = ctx.clock.monotonic() - run_records.age(row.start_time)
            if row.state is RunState.STOPPING:
                run.intent = Intent(str(row.end_reason))
            ctx.memory.activate(run, note_of(job))
            self._refresh(run)
            found = await ctx.engine.recover(row.run_id)
            run.launched = True
            if found in {Found.NEVER_BEGAN, Found.MISSING}:
                # state may be missing where there was state
                begun = row.start_time is not None or (found is Found.MISSING and row.state is not RunState.GRANTED)
                self.on_end(row.run_id, RunEnd(EndReason.GONE if begun else EndReason.REVOKED))
            elif found is Found.RUNNING and run.intent is not None:
                await self._end(run)

    # --- Within -----------------------------------------------------------------------------------------------------

    def _replace_note(self, job: Job) -> None:
        note = self._ctx.memory.notes[job.id]
        self._ctx.memory.set_state(note, job.state)
        self._ctx.memory.notes[job.id] = note_of(job)

    def _refresh(self, run: ActiveRun) -> None:
        now = self._ctx.clock.monotonic()
        for gpu in run.gpu_uuids:
            self._ctx.memory.refresh_gpu(self._ctx.memory.gpus.ensure(gpu), now)

    def _spawn(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
