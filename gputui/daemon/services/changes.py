"""The one way in which a person's act changes jobs: check, commit with audit rows, apply to memory, tell, remember."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session

from gputui.daemon.context import Caller, Context
from gputui.daemon.memory import note_of, waiting_row
from gputui.daemon.services.undo import Undo, Undoable
from gputui.domain import lifecycle
from gputui.domain.errors import Refused
from gputui.domain.lifecycle import ACTIVE, ENDED, WAITING, JobState
from gputui.protocol import ErrorCode
from gputui.store import audit, jobs
from gputui.store.tables import Job

Columns = dict[str, Any]
Plan = Callable[[Job], Columns]
"""The new values of a job's columns; empty when there is nothing to change. `datasets` counts as one."""

MOST_AUDIT_ROWS = 1000
"""Jobs of one act that get an audit row each; a larger act gets one for all."""

MOST_RESTORED = 10_000

_DONE = {
    "job.move": "moved",
    "job.hold": "held",
    "job.release": "released",
    "job.edit": "edited",
    "job.cancel": "cancelled",
    "job.requeue": "queued again",
    "job.start": "started",
    "job.submit": "submitted",
    "undo": "changed",
}


@dataclass(frozen=True, slots=True)
class Changed:
    """One job's row, before and after."""

    job_id: int
    before: Columns
    after: Columns
    version: int
    """Of the row, after."""


class Changes:
    """Changes of jobs that people make."""

    def __init__(self, ctx: Context, undo: Undo) -> None:
        self._ctx = ctx
        self._undo = undo
        self._restored: OrderedDict[tuple[int, int], int] = OrderedDict()
        """(job, version) that an undo made → the earlier version whose values it has again."""

    async def apply(
        self,
        caller: Caller,
        act: str,
        ids: Sequence[int],
        plan: Plan,
        *,
        expected: Mapping[int, int] | None = None,
        reason: str = "",
        remember: bool = True,
    ) -> list[Changed]:
        """Change these jobs, all or none. Raises `Refused`; `expected`: versions the caller has seen."""
        return await self._ctx.act(
            lambda: self.locked(caller, act, ids, plan, expected=expected, reason=reason, remember=remember)
        )

    async def locked(
        self,
        caller: Caller,
        act: str,
        ids: Sequence[int],
        plan: Plan,
        *,
        expected: Mapping[int, int] | None = None,
        reason: str = "",
        remember: bool = True,
        also: Callable[[Session], None] | None = None,
        words: tuple[Columns, Columns] | None = None,
    ) -> list[Changed]:
        """The same for who holds the mutation lock already.

        `also` is done in the same transaction; `words`: before and after for the audit log, where columns say little.
        """
        at = self._ctx.clock.now()

        def work(session: Session) -> tuple[list[Changed], dict[int, Job], dict[int, tuple[str, ...]]]:
            wanted = list(dict.fromkeys(ids))
            found = jobs.get_many(session, wanted)
            inputs = jobs.datasets_of(session, wanted)
            changed = []
            for job_id in wanted:
                job = found.get(job_id)
                if job is None:
                    raise Refused(ErrorCode.NOT_FOUND, f"There is no job #{job_id}.")
                if expected and not self._unchanged(job, expected.get(job_id, job.version)):
                    raise Refused(ErrorCode.CHANGED, _changed_since(session, job))
                after = plan(job)
                if after:
                    before = {name: _value(job, inputs, name) for name in after}
                    if "state" in after and after["state"] != job.state:
                        lifecycle.check(job_id, job.state, after["state"], undo=act == "undo")
                    changed.append(Changed(job_id, before, after, job.version + 1))
            self._store(session, changed)
            if also:
                also(session)
            for subject, before, after in _audit_rows(changed, words):
                audit.append(
                    session, at=at, uid=caller.uid, who=caller.user, session_token=caller.session, act=act,
                    subject=subject, before=before, after=after, reason=reason,
                )  # fmt: skip
            touched = [one.job_id for one in changed]
            return changed, jobs.get_many(session, touched), jobs.datasets_of(session, touched)

        changed, rows, inputs = await self._ctx.write(work)
        for one in changed:
            if (was := one.before.get("state")) in ENDED:
                self._ctx.memory.revive(one.job_id, was)
        for job_id, job in rows.items():
            self.take_in(job, inputs.get(job_id, ()))
        if changed:
            self._ctx.changed(one.job_id for one in changed)
            self._ctx.wake.set()
            if remember:
                self._undo.remember(caller, self.undoable(act, changed))
        return changed

    def restored(self, versions: Mapping[int, tuple[int, int]]) -> None:
        """Undoing made rows what they were: job → (version now, version it is like). Acts before it stay undoable."""
        for job_id, (now, like) in versions.items():
            self._restored[(job_id, now)] = self._origin(job_id, like)
        while len(self._restored) > MOST_RESTORED:
            self._restored.popitem(last=False)

    def _unchanged(self, job: Job, seen: int) -> bool:
        return self._origin(job.id, job.version) == self._origin(job.id, seen)

    def _origin(self, job_id: int, version: int) -> int:
        return self._restored.get((job_id, version), version)

    def take_in(self, job: Job, datasets: tuple[str, ...]) -> None:
        """Bring memory up to a job's committed row."""
        memory = self._ctx.memory
        if job.state in ACTIVE:
            known = memory.note(job.id)
            if known is not None:
                memory.notes[job.id] = note_of(job)
            return
        backoff = memory.backoff.get(job.id) if job.not_before else None
        memory.drop(job.id)
        if job.state in WAITING:
            memory.add_waiting(waiting_row(job, datasets), backoff)
        else:
            memory.finished(job.state)

    def _store(self, session: Session, changed: Sequence[Changed]) -> None:
        alike: dict[str, tuple[Columns, list[int]]] = {}
        for one in changed:
            columns = dict(one.after)
            if "datasets" in columns:
                jobs.set_datasets(session, one.job_id, columns.pop("datasets"))
            alike.setdefault(repr(sorted(columns.items())), (columns, []))[1].append(one.job_id)
        for columns, ids in alike.values():
            jobs.update_jobs(session, ids, **columns)
        session.expire_all()

    def undoable(self, act: str, changed: Sequence[Changed]) -> Undoable:
        """How to take back what was just changed, unless a row changes again first."""
        ids = tuple(one.job_id for one in changed)

        async def revert(caller: Caller) -> Undoable:
            back = {one.job_id: one.before for one in changed}
            versions = {one.job_id: one.version for one in changed}
            again = await self.apply(
                caller, "undo", ids, lambda job: back[job.id], expected=versions, reason=act, remember=False
            )
            self.restored({one.job_id: (one.version, versions[one.job_id] - 1) for one in again})
            return self.undoable(act, again)

        return Undoable(f"{_DONE.get(act, act)} {named(ids)}", ids, revert)


def named(ids: Sequence[int]) -> str:
    """Jobs as one says them: '#4', '#4 and #7', '12 jobs'."""
    if len(ids) == 1:
        return f"#{ids[0]}"
    if len(ids) <= 3:
        return ", ".join(f"#{job_id}" for job_id in ids[:-1]) + f" and #{ids[-1]}"
    return f"{len(ids)} jobs"


def _value(job: Job, inputs: Mapping[int, tuple[str, ...]], name: str) -> Any:
    return inputs.get(job.id, ()) if name == "datasets" else getattr(job, name)


def _audit_rows(
    changed: Sequence[Changed], words: tuple[Columns, Columns] | None
) -> Iterable[tuple[str, dict[str, Any], dict[str, Any]]]:
    if words is not None:
        yield from ((f"job {one.job_id}", *words) for one in changed)
    elif len(changed) <= MOST_AUDIT_ROWS:
        for one in changed:
            yield f"job {one.job_id}", _plain(one.before), _plain(one.after)
    else:
        ids = [one.job_id for one in changed]
        yield (
            f"jobs {min(ids)} to {max(ids)}",
            {"jobs": {str(one.job_id): _plain(one.before) for one in changed}},
            {"jobs": {str(one.job_id): _plain(one.after) for one in changed}},
        )


def _plain(columns: Columns) -> dict[str, Any]:
    """Column values as JSON has them."""
    return {name: _json(value) for name, value in columns.items()}


def _json(value: Any) -> Any:
    if isinstance(value, frozenset | set):
        return sorted(str(item) for item in value)
    if isinstance(value, tuple | list):
        return [_json(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, JobState):
        return value.value
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _changed_since(session: Session, job: Job) -> str:
    """Who changed a job last, and what it is now."""
    last = next(iter(audit.rows(session, 1, f"job {job.id}")), None)
    who = f" {last.who} {_DONE.get(last.act, 'changed')} it." if last and last.who != "gputui" else ""
    return f"Job #{job.id} changed since it was shown:{who or f' it is {job.state} now.'} Look at it again."
