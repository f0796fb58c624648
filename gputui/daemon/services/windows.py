"""Windows on the lists of jobs: which rows a screen or a command sees, by filter and order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gputui.daemon.context import Context
from gputui.daemon.memory import Note
from gputui.daemon.services.rows import Rows
from gputui.domain.errors import InputError
from gputui.domain.job import QueuedJob
from gputui.domain.lifecycle import ENDED, WAITING, JobState
from gputui.protocol import JobsReply, WindowReply
from gputui.store import jobs

SCOPES = ("queue", "active", "ended", "all")
LARGEST_WINDOW = 500


@dataclass(frozen=True, slots=True)
class View:
    """Which jobs, in which order."""

    scope: str = "queue"
    text: str = ""
    """Each word must occur in id, name, owner, project, class or state, whatever its case."""
    invert: bool = False
    """Those that do not match instead."""
    sort: str = ""
    """Empty: queue order."""
    reverse: bool = False


_SORTS: dict[str, Callable[[Note, QueuedJob | None], object]] = {
    "id": lambda note, _: note.id,
    "name": lambda note, _: note.name.casefold(),
    "owner": lambda note, _: note.owner,
    "project": lambda note, _: note.project,
    "class": lambda note, _: note.priority_class,
    "state": lambda note, _: note.state.value,
    "priority": lambda _, job: -job.priority if job else 0,
    "gpus": lambda _, job: job.demand.gpus if job else 0,
    "duration": lambda _, job: (job.duration is None, job.duration or 0.0) if job else (True, 0.0),
    "submitted": lambda note, job: job.submitted_seq if job else note.id,
}


class Windows:
    """The service. Remembers the last filtered lists, until the queue changes."""

    def __init__(self, ctx: Context, rows: Rows) -> None:
        self._ctx = ctx
        self._rows = rows
        self._cache: dict[View, tuple[int, list[int]]] = {}

    async def window(
        self, view: View, *, anchor: int | None = None, first: int = 0, before: int = 0, after: int = 100
    ) -> WindowReply:
        """`before` and `after` rows around `anchor`, or where it is not in view the rows from `first` on."""
        if view.scope not in SCOPES:
            raise InputError("scope", view.scope, f"write one of {', '.join(SCOPES)}")
        if view.sort and view.sort != "position" and view.sort not in _SORTS:
            raise InputError("sort", view.sort, f"write one of position, {', '.join(_SORTS)}")
        count = min(max(0, before) + max(0, after) + 1, LARGEST_WINDOW)
        memory = self._ctx.memory
        version = memory.version
        here = self._in_memory(view)
        ended = await self._count_ended(view.text) if view.scope in {"ended", "all"} and not view.invert else 0
        at = self._place(anchor, here) if anchor is not None else None
        start = max(0, first if at is None else at - before)
        ids = list(here[start : start + count])
        if ended and len(ids) < count:
            ids += await self._ended(view.text, max(0, start - len(here)), count - len(ids))
        return {
            "version": version,
            "total": len(here) + ended,
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

        def fits(job_id: int) -> bool:
            note = memory.notes[job_id]
            return (
                note.state in wanted
                and project in (None, note.project)
                and owner in (None, note.owner)
                and matches(note, words)
            )

        waiting = memory.scheduler.window(0, len(memory.scheduler)) if wanted & WAITING else []
        here = [job_id for job_id in (*waiting, *sorted(memory.run_of, reverse=True)) if fits(job_id)]
        ended = wanted & ENDED
        total = len(here)
        ids = here[offset : offset + limit]
        if ended:
            total += await self._ctx.read(
                lambda session: jobs.count_ended(session, states=ended, owner=owner, project=project, text=text)
            )
            if len(ids) < limit:
                skip, rest = max(0, offset - len(here)), limit - len(ids)
                found = await self._ctx.read(
                    lambda session: jobs.ended(
                        session, states=ended, owner=owner, project=project, text=text, offset=skip, limit=rest
                    )
                )
                ids += [job.id for job in found if job.id not in memory.notes]
        return {"total": total, "jobs": await self._rows.of(ids)}

    def counts(self) -> dict[str, int]:
        """Waiting jobs by class, and all jobs by state."""
        memory = self._ctx.memory
        found = {name: count for name, count in memory.classes.items() if count}
        return found | {state.value: count for state, count in memory.states.items() if count}

    # --- Within -----------------------------------------------------------------------------------------------------

    def _in_memory(self, view: View) -> Sequence[int]:
        """The ids in view of jobs that have not ended, in order."""
        memory = self._ctx.memory
        if view.scope == "ended":
            return ()
        plain = not (view.text or view.invert or view.reverse or view.sort not in {"", "position"})
        if plain and view.scope == "queue":
            return _Queue(self._ctx)
        cached = self._cache.get(view)
        if cached is not None and cached[0] == memory.version:
            return cached[1]
        active = sorted(memory.run_of) if view.scope in {"active", "all"} else []
        queue = memory.scheduler.window(0, len(memory.scheduler)) if view.scope in {"queue", "all"} else []
        ids = [*active, *queue]
        words = view.text.casefold().split()
        if words or view.invert:
            ids = [job_id for job_id in ids if matches(memory.notes[job_id], words) != view.invert]
        key = _SORTS.get(view.sort)
        if key is not None:
            ids.sort(key=lambda job_id: key(memory.notes[job_id], memory.scheduler.get(job_id)))  # type: ignore[arg-type,return-value]
        if view.reverse:
            ids.reverse()
        if len(self._cache) > 8:
            self._cache.clear()
        self._cache[view] = (memory.version, ids)
        return ids

    def _place(self, anchor: int, here: Sequence[int]) -> int | None:
        if isinstance(here, _Queue):
            scheduler = self._ctx.memory.scheduler
            return scheduler.position(anchor) - 1 if anchor in scheduler else None
        try:
            return here.index(anchor)
        except ValueError:
            return None

    async def _count_ended(self, text: str) -> int:
        return await self._ctx.read(lambda session: jobs.count_ended(session, text=text))

    async def _ended(self, text: str, offset: int, limit: int) -> list[int]:
        found = await self._ctx.read(lambda session: jobs.ended(session, text=text, offset=offset, limit=limit))
        # one that ended between the two looks is still in memory, and shown there
        return [job.id for job in found if job.id not in self._ctx.memory.notes]


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


def matches(note: Note, words: Sequence[str]) -> bool:
    """Whether each word occurs in what the row shows of the job."""
    if not words:
        return True
    shown = f"#{note.id} {note.name} {note.owner} {note.project} {note.priority_class} {note.state}".casefold()
    return all(word in shown for word in words)
