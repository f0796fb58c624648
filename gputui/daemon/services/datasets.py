"""Datasets: what is asked for, when it is looked at, and what that means to the jobs that wait for it."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlmodel import Session

from gputui.daemon.context import DAEMON, Caller, Context
from gputui.daemon.memory import DatasetNote
from gputui.daemon.prober import Prober
from gputui.daemon.services import looks
from gputui.daemon.services.undo import Undo, Undoable
from gputui.domain.errors import Refused
from gputui.domain.readiness import Expectation, History, Verdict, judge
from gputui.protocol import DatasetRow, ErrorCode
from gputui.store import audit
from gputui.store import datasets as table
from gputui.store.tables import Dataset

_log = logging.getLogger("gputui.datasets")

FIRST_LOOK_SECONDS = 2.0
"""How long `dataset add` waits for its first look before it answers without."""
STORE_SECONDS = 30.0
"""How often mere progress is written to the store."""
COSTLY = 10.0
"""A whole look is taken at most once in so many times its own duration."""
RESTING = 20.0
"""And, while nothing changes, at most once in this fraction of the time since the last change."""

NOT_CHECKED = judge(Expectation(), History())


@dataclass(slots=True)
class Watched:
    """One dataset under watch."""

    name: str
    location: str
    owner: str
    owner_uid: int
    expectation: Expectation
    history: History = field(default_factory=History)
    verdict: Verdict = NOT_CHECKED
    expected: datetime | None = None
    checked_at: datetime | None = None
    whole_at: float = 0.0
    """When it is to be looked at as a whole, monotonic."""
    quick_at: float = 0.0
    """When the next glance is due: marker and topmost folder only."""
    glance: tuple[object, ...] | None = None
    stored_at: float = float("-inf")
    wanted: bool = False
    """Whether jobs waited for it when it was last considered."""
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)


class Datasets:
    """The service. Between `open` and `close` it looks at each dataset whenever that is due."""

    def __init__(self, ctx: Context, undo: Undo, prober: Prober | None = None) -> None:
        self._ctx = ctx
        self._undo = undo
        self._prober = prober or Prober()
        self._watched: dict[str, Watched] = {}
        self._due = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Take in the datasets of the store. Each counts as unknown until it has been looked at again."""
        for row in await self._ctx.read(table.all_datasets):
            self._watch(row)
        self._watching = asyncio.create_task(self._watch_all())

    async def close(self) -> None:
        """End the looks under way and the prober."""
        tasks = [*self._tasks, *([self._watching] if self._watching else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._prober.close()

    # --- Acts -------------------------------------------------------------------------------------------------------

    def rows(self) -> list[DatasetRow]:
        """Every dataset, by name."""
        return [self._row(watched) for _, watched in sorted(self._watched.items())]

    async def add(self, caller: Caller, request: Mapping[str, Any]) -> DatasetRow:
        """Name an input. Raises `InputError`, or `Refused` when the name is taken."""
        name, location, expectation = looks.asked(request)
        watched = await self._insert(caller, name, location, expectation, act="dataset.add")
        self._undo.remember(caller, self._added(watched))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_LOOK_SECONDS):
                await asyncio.shield(self._begin(watched, quick=False))
        return self._row(watched)

    async def check(self, name: str) -> DatasetRow:
        """Look at it now. Raises `Refused` when there is none of that name."""
        watched = self._get(name)
        await asyncio.shield(self._begin(watched, quick=False))
        return self._row(watched)

    async def remove(self, caller: Caller, name: str) -> DatasetRow:
        """Forget it. Raises `Refused` when there is none, or waiting jobs name it."""
        watched = self._get(name)
        await self._delete(caller, watched, act="dataset.remove")
        self._undo.remember(caller, self._removed(watched))
        return self._row(watched)

    async def _insert(self, caller: Caller, name: str, location: str, expectation: Expectation, *, act: str) -> Watched:
        async def work() -> Watched:
            now = self._ctx.clock.now()
            row = Dataset(
                name=name,
                host_id=self._ctx.store.host_id,
                location=location,
                owner_uid=caller.uid,
                owner=caller.user,
                created_at=now,
                min_files=expectation.min_files,
                min_size=expectation.min_size,
                marker=expectation.marker,
                manifest=expectation.manifest,
                settled=expectation.settled,
            )

            def store(session: Session) -> None:
                table.insert_dataset(session, row)
                after = {"location": location, "expects": expectation.phrases()}
                _audit(session, caller, now, act, name, after=after)

            await self._ctx.write(store)
            return self._watch(row)

        return await self._ctx.act(work)

    async def _delete(self, caller: Caller, watched: Watched, *, act: str) -> None:
        name = watched.name

        async def work() -> None:
            if self._watched.get(name) is not watched:
                raise Refused(ErrorCode.CHANGED, f"Dataset {name} was removed since.")
            now = self._ctx.clock.now()
            before = {"location": watched.location, "expects": watched.expectation.phrases()}

            def store(session: Session) -> None:
                table.delete_dataset(session, name)
                _audit(session, caller, now, act, name, before=before)

            await self._ctx.write(store)
            del self._watched[name]
            self._ctx.changed(self._ctx.memory.set_dataset(name, None))

        await self._ctx.act(work)

    def _added(self, watched: Watched) -> Undoable:
        async def revert(caller: Caller) -> Undoable:
            await self._delete(caller, watched, act="undo")
            return self._removed(watched)

        return Undoable(f"added dataset {watched.name}", (), revert)

    def _removed(self, watched: Watched) -> Undoable:
        async def revert(caller: Caller) -> Undoable:
            again = await self._insert(caller, watched.name, watched.location, watched.expectation, act="undo")
            return self._added(again)

        return Undoable(f"removed dataset {watched.name}", (), revert)

    # --- The watch --------------------------------------------------------------------------------------------------

    async def _watch_all(self) -> None:
        """Begin each look when it is due, for ever."""
        while True:
            self._due.clear()
            now = self._ctx.clock.monotonic()
            pause = self._begin_due(now) - now
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.01, pause)):
                    await self._due.wait()

    def _begin_due(self, now: float) -> float:
        """Begin what is due; when to come back."""
        nearest = now + self._ctx.settings.probe_fast
        for watched in self._watched.values():
            before, watched.wanted = watched.wanted, self._needed(watched)
            if watched.wanted and not before:
                watched.whole_at = now
            if watched.looking.locked():
                continue
            whole = now >= watched.whole_at
            if whole or (watched.wanted and now >= watched.quick_at):
                self._begin(watched, quick=not whole)
            else:
                nearest = min(nearest, watched.whole_at)
        return nearest

    def _begin(self, watched: Watched, *, quick: bool) -> "asyncio.Task[None]":
        look = asyncio.create_task(self._look(watched, quick=quick), name=f"look at {watched.name}")
        self._tasks.add(look)
        look.add_done_callback(self._ended)
        return look

    def _ended(self, look: "asyncio.Task[None]") -> None:
        self._tasks.discard(look)
        if not look.cancelled() and (error := look.exception()) is not None:
            _log.error("%s failed", look.get_name(), exc_info=error)

    async def _look(self, watched: Watched, *, quick: bool) -> None:
        async with watched.looking:
            settings = self._ctx.settings
            whole_at = watched.whole_at
            # should this fail, it is tried again, though not at once
            watched.quick_at = watched.whole_at = self._ctx.clock.monotonic() + settings.probe_slow
            if quick:
                seen = await self._ask(watched, quick=True)
                watched.whole_at = whole_at
                watched.quick_at = self._ctx.clock.monotonic() + settings.probe_fast
                if looks.glance(seen) == watched.glance:
                    return
            began = self._ctx.clock.monotonic()
            seen = await self._ask(watched, quick=False)
            now = self._ctx.clock.monotonic()
            self._ctx.warn("probe", looks.stuck(self._prober.stuck))
            watched.glance = looks.glance(seen)
            watched.history = watched.history.add(looks.observation(seen, now))
            await self._ctx.act(lambda: self._apply(watched))
            watched.quick_at = now + settings.probe_fast
            watched.whole_at = now + self._pause(watched, now, now - began)

    async def _ask(self, watched: Watched, *, quick: bool) -> dict[str, Any]:
        request = looks.request(watched.location, watched.expectation, quick=quick)
        return await self._prober.look(request, self._ctx.settings.probe_deadline)

    def _pause(self, watched: Watched, now: float, cost: float) -> float:
        """Seconds until the next whole look: often while it grows or is waited for, seldom otherwise."""
        settings = self._ctx.settings
        growing = bool(watched.verdict.rate)
        if not growing and (watched.verdict.ready or not self._ctx.memory.needing(watched.name)):
            return settings.probe_slow
        since = watched.history.unchanged_since
        resting = (now - since) / RESTING if since is not None else 0.0
        settling = watched.verdict.remaining if watched.expectation.settled is not None else None
        pause = max(settings.probe_fast, min(resting, settings.probe_slow), COSTLY * cost)
        return min(pause, settling) if settling else pause

    def _needed(self, watched: Watched) -> bool:
        return not watched.verdict.ready and bool(self._ctx.memory.needing(watched.name))

    async def _apply(self, watched: Watched) -> None:
        """Under the mutation lock: what the last look means, in the store, in memory and to the jobs."""
        if self._watched.get(watched.name) is not watched:
            return  # removed meanwhile
        ctx = self._ctx
        before, verdict = watched.verdict, judge(watched.expectation, watched.history)
        now = ctx.clock.now()
        watched.verdict, watched.checked_at = verdict, now
        watched.expected = looks.expected(now, verdict)
        turned = looks.word(before) != looks.word(verdict)
        late = ctx.clock.monotonic() - watched.stored_at >= STORE_SECONDS
        if turned or (late and before != verdict):
            # kept in memory even when the store is away: a job must not start on data that went bad
            with contextlib.suppress(Refused):
                await ctx.write(lambda session: self._store(session, watched, before, now, turned=turned))
                watched.stored_at = ctx.clock.monotonic()
        note = DatasetNote(verdict.ready, verdict.readiness, verdict.reason, watched.expected)
        concerned = ctx.memory.set_dataset(watched.name, note)
        if concerned:
            ctx.changed(concerned)
        if turned:
            ctx.wake.set()

    def _store(self, session: Session, watched: Watched, before: Verdict, now: datetime, *, turned: bool) -> None:
        verdict, last = watched.verdict, watched.history.seen[-1]
        table.update_dataset(
            session,
            watched.name,
            readiness=verdict.readiness,
            ready=verdict.ready,
            files=None if last.problem else last.files,
            size=None if last.problem else last.size + last.partial,
            rate=verdict.rate,
            expected=watched.expected,
            reason=verdict.reason,
            checked_at=now,
        )
        if turned:
            _audit(
                session,
                DAEMON,
                now,
                f"dataset.{looks.word(verdict)}",
                watched.name,
                before={"readiness": before.readiness, "reason": before.reason},
                after={"readiness": verdict.readiness, "reason": verdict.reason},
            )

    # --- Within -----------------------------------------------------------------------------------------------------

    def _watch(self, row: Dataset) -> Watched:
        expectation = Expectation(row.min_files, row.min_size, row.marker, row.manifest, row.settled)
        watched = Watched(row.name, row.location, row.owner, row.owner_uid, expectation)
        self._watched[row.name] = watched
        note = DatasetNote(ready=False, readiness=None, reason=watched.verdict.reason)
        self._ctx.changed(self._ctx.memory.set_dataset(row.name, note))
        self._due.set()
        return watched

    def _get(self, name: str) -> Watched:
        watched = self._watched.get(name)
        if watched is None:
            raise Refused(ErrorCode.NOT_FOUND, f"There is no dataset {name}; 'gputui dataset list' shows them.")
        return watched

    def _row(self, watched: Watched) -> DatasetRow:
        verdict = watched.verdict
        last = watched.history.seen[-1] if watched.history.seen else None
        known = last is not None and not last.problem
        return {
            "name": watched.name,
            "location": watched.location,
            "owner": watched.owner,
            "expects": watched.expectation.phrases(),
            "readiness": verdict.readiness,
            "ready": verdict.ready,
            "files": last.files if last and known else None,
            "size": last.size + last.partial if last and known else None,
            "rate": verdict.rate,
            "expected": watched.expected.isoformat() if watched.expected else None,
            "reason": verdict.reason,
            "checked_at": watched.checked_at.isoformat() if watched.checked_at else None,
            "waiting_jobs": len(self._ctx.memory.needing(watched.name)),
        }


def _audit(
    session: Session,
    caller: Caller,
    at: datetime,
    act: str,
    name: str,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    audit.append(
        session,
        at=at,
        uid=caller.uid,
        who=caller.user,
        session_token=caller.session,
        act=act,
        subject=f"dataset {name}",
        before=before,
        after=after,
    )
