"""Windows on the lists of jobs: which rows a screen or a command sees, by filter and order."""

import asyncio
from array import array
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gputui.daemon.context import Context
from gputui.daemon.memory import Memory, Note
from gputui.daemon.services.rows import Rows
from gputui.domain.errors import InputError
from gputui.domain.job import CLASSES, Demand
from gputui.domain.lifecycle import ENDED, WAITING, JobState
from gputui.protocol import JobsReply, WindowReply
from gputui.store import ended

SCOPES = ("queue", "active", "ended", "all")
LARGEST_WINDOW = 500
PIECE = 2000
"""Jobs looked at in one go (about 2 ms) before others have their turn."""
MOST_REMEMBERED = 8
"""Filtered or sorted lists that are kept."""


@dataclass(frozen=True, slots=True)
class View:
    """Which jobs, in which order."""

    scope: str = "queue"
    text: str = ""
    """Each word must occur in number, name, owner, project, class or state, whatever its case."""
    invert: bool = False
    """Those that do not match instead; without a text nothing is left out."""
    sort: str = ""
    """Empty or `position`: the scope's own order. In `all`, jobs that have ended come last however it is sorted."""
    reverse: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """What to look for."""
        return tuple(self.text.casefold().split())

    def shows(self) -> Callable[[Note], bool]:
        """Whether the filter lets a job through."""
        words, invert = self.words, self.invert
        return lambda note: not words or note.has(words) != invert


def _demand(memory: Memory, note: Note) -> Demand:
    job = memory.scheduler.get(note.id)
    return job.demand if job else memory.run_of[note.id].demand


def _duration(memory: Memory, note: Note) -> float:
    job = memory.scheduler.get(note.id)
    duration = job.duration if job else memory.run_of[note.id].duration
    return _LAST if duration is None else duration


def _readiness(memory: Memory, note: Note) -> float:
    job = memory.scheduler.get(note.id)
    readiness = memory.readiness(job.datasets) if job else None
    return _LAST if readiness is None else readiness


def _began(memory: Memory, note: Note) -> float:
    run = memory.run_of.get(note.id)
    return _LAST if run is None or run.began_at is None else run.began_at


_LAST = float("inf")
"""Where what is not known is put."""
_RANK = {name: rank for rank, name in enumerate(CLASSES)}
_SORTS: dict[str, Callable[[Memory, Note], Any]] = {
    "id": lambda _, note: note.id,
    "submitted": lambda _, note: note.id,
    "name": lambda _, note: note.name.casefold(),
    "owner": lambda _, note: note.owner,
    "project": lambda _, note: note.project,
    "class": lambda _, note: _RANK[note.priority_class],
    "state": lambda _, note: note.state.value,
    "priority": lambda _, note: -note.priority,
    "gpus": lambda memory, note: _demand(memory, note).gpus,
    "duration": _duration,
    "readiness": _readiness,
    "started": _began,
    "elapsed": lambda memory, note: -began if (began := _began(memory, note)) != _LAST else _LAST,
    "ended": lambda _, __: 0,
}
_NOT_IN = {
    "readiness": {"active", "ended", "all"},
    "started": {"queue"},
    "elapsed": {"queue"},
    "ended": {"queue", "active"},
}
"""Scopes in which a sort would say nothing."""


class Windows:
    """The service. Remembers the last filtered lists, until the queue changes."""

    def __init__(self, ctx: Context, rows: Rows) -> None:
        self._ctx = ctx
        self._rows = rows
        self._cache: dict[View, tuple[int, Sequence[int]]] = {}

    async def window(
        self, view: View, *, anchor: int | None = None, first: int = 0, before: int = 0, after: int = 100
    ) -> WindowReply:
        """`before` and `after` rows around `anchor`, or where it is not in view the rows from `first` on.

        Raises `InputError`.
        """
        view = _checked(view)
        count = min(max(0, before) + max(0, after) + 1, LARGEST_WINDOW)
        version = self._ctx.memory.version
        here = await self._in_memory(view)
        which = _which(view)
        past = await self._ctx.read(lambda session: ended.count(session, which)) if _shows_ended(view) else 0
        at = None if anchor is None else await self._place(anchor, view, here)
        start = max(0, first if at is None else at - before)
        ids = list(here[start : start + count])
        if past and len(ids) < count:
            ids += await self._ended(which, max(0, start - len(here)), count - len(ids))
        return {
            "version": version,
            "total": len(here) + past,
            "first": start,
            "jobs": await self._rows.of(ids),
            "counts": self.counts(),
        }

    async def jobs(
        self,
        *,
        states: Sequence[JobState] = (),
        project: str | None = None,
        owner: str | None = None,
        text: str = "",
        limit: int = 100,
        offset: int = 0,
    ) -> JobsReply:
        """A list for commands: waiting jobs in queue order, then active ones, then ended ones, the newest first."""
        memory = self._ctx.memory
        wanted = frozenset(states) or frozenset(JobState)
        words = text.casefold().split()

        def fits(note: Note) -> bool:
            return (
                note.state in wanted
                and project in (None, note.project)
                and owner in (None, note.owner)
                and note.has(words)
            )

        waiting = memory.scheduler.window(0, len(memory.scheduler)) if wanted & WAITING else []
        here: list[int] = []
        async for notes in self._pieces([*waiting, *sorted(memory.run_of, reverse=True)]):
            here += [note.id for note in notes if fits(note)]
        total = len(here)
        ids = here[offset : offset + limit]
        if wanted & ENDED:
            which = ended.Which(wanted & ENDED, owner, project, words)
            total += await self._ctx.read(lambda session: ended.count(session, which))
            if len(ids) < limit:
                ids += await self._ended(which, max(0, offset - len(here)), limit - len(ids))
        return {"total": total, "jobs": await self._rows.of(ids)}

    def counts(self) -> dict[str, int]:
        """Waiting jobs by class, and all jobs by state."""
        memory = self._ctx.memory
        found = {name: count for name, count in memory.classes.items() if count}
        return found | {state.value: count for state, count in memory.states.items() if count}

    # --- Within -----------------------------------------------------------------------------------------------------

    async def _in_memory(self, view: View) -> Sequence[int]:
        """The ids in view of jobs that have not ended, in order."""
        memory = self._ctx.memory
        if view.scope == "ended":
            return ()
        if view == View():
            return _Queue(self._ctx)
        cached = self._cache.get(view)
        if cached is not None and cached[0] == memory.version:
            return cached[1]
        version = memory.version
        ids = await self._ordered(view)
        if len(self._cache) >= MOST_REMEMBERED:
            self._cache.clear()
        self._cache[view] = (version, ids)
        return ids

    async def _ordered(self, view: View) -> Sequence[int]:
        """Filtered and sorted."""
        memory = self._ctx.memory
        active = sorted(memory.run_of) if view.scope in {"active", "all"} else []
        queue = memory.scheduler.window(0, len(memory.scheduler)) if view.scope in {"queue", "all"} else []
        shows, key = view.shows(), _SORTS.get(view.sort)
        found: list[tuple[Any, int]] = []
        async for notes in self._pieces([*active, *queue]):
            found += [(key(memory, note) if key else 0, note.id) for note in notes if shows(note)]
        if key:
            found.sort(key=_first)
        order = array("q", [job_id for _, job_id in found])
        if view.reverse:
            order.reverse()
        return order

    async def _pieces(self, ids: Sequence[int]) -> AsyncIterator[list[Note]]:
        """What is known of these jobs, in pieces: a look through 100,000 of them must hold up nobody."""
        notes = self._ctx.memory.notes
        for start in range(0, len(ids), PIECE):
            # without those that ended while others had their turn
            yield [notes[job_id] for job_id in ids[start : start + PIECE] if job_id in notes]
            await asyncio.sleep(0)

    async def _place(self, anchor: int, view: View, here: Sequence[int]) -> int | None:
        if isinstance(here, _Queue):
            scheduler = self._ctx.memory.scheduler
            return scheduler.position(anchor) - 1 if anchor in scheduler else None
        if anchor in self._ctx.memory.notes:
            try:
                return here.index(anchor)
            except ValueError:
                return None
        if not _shows_ended(view):
            return None
        place = await self._ctx.read(lambda session: ended.place(session, _which(view), anchor))
        return None if place is None else len(here) + place

    async def _ended(self, which: ended.Which, offset: int, limit: int) -> list[int]:
        found = await self._ctx.read(lambda session: ended.page(session, which, offset, limit))
        # one that ended between the two looks is still in memory, and shown there
        return [job.id for job in found if job.id not in self._ctx.memory.notes]


def _checked(view: View) -> View:
    """The view as it is meant. Raises `InputError`."""
    if view.scope not in SCOPES:
        raise InputError("scope", view.scope, f"write one of {', '.join(SCOPES)}")
    view = replace(view, sort="" if view.sort == "position" else view.sort, invert=view.invert and bool(view.words))
    sorts = [name for name in _SORTS if view.scope not in _NOT_IN.get(name, ())]
    if view.sort and view.sort not in sorts:
        raise InputError("sort", view.sort, f"here, write one of position, {', '.join(sorts)}")
    return view


def _shows_ended(view: View) -> bool:
    return view.scope in {"ended", "all"}


def _which(view: View) -> ended.Which:
    return ended.Which(words=view.words, invert=view.invert, sort=view.sort, reverse=view.reverse)


def _first(pair: tuple[Any, int]) -> Any:
    return pair[0]


class _Queue(Sequence[int]):
    """All waiting jobs in queue order, without making a list of them."""

    def __init__(self, ctx: Context) -> None:
        self._scheduler = ctx.memory.scheduler

    def __len__(self) -> int:
        return len(self._scheduler)

    def __getitem__(self, at: int | slice) -> "int | list[int]":  # type: ignore[override]
        if isinstance(at, slice):
            first, last, _ = at.indices(len(self))
            return self._scheduler.window(first, last - first)
        return self._scheduler.window(at, 1)[0]
