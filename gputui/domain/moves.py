"""An operator's move of a waiting job: a key of its own beside the neighbour it was moved to."""

from collections.abc import Mapping
from typing import Any, Final

from gputui.domain.errors import InputError, Refused
from gputui.domain.job import QueuedJob
from gputui.domain.order import CEILING, bottom_key, effective_key, half_of, key_after, key_before, spread, top_key

MOVES: Final = ("top", "bottom", "up", "down", "before", "after", "baseline")


class Moves:
    """Finds move keys in a sorted list of entries (order key with the job's id in its `id_bits` low bits)."""

    def __init__(self, order: Any, jobs: Mapping[int, QueuedJob], id_bits: int) -> None:
        self._order = order
        self._jobs = jobs
        self._id_bits = id_bits
        self._id_mask = (1 << id_bits) - 1

    def find(self, job: QueuedJob, to: str, n: int, ref: int | None) -> dict[int, int | None]:
        """Return the new move keys by job id; see `Scheduler.move`."""
        if to not in MOVES:
            raise InputError("to", to, "write one of " + ", ".join(MOVES))
        if to == "baseline":
            return {} if job.move_key is None else {job.id: None}
        if to in {"up", "down"}:
            return self._pass_neighbours(job, to, n)
        if to in {"before", "after"}:
            return self._beside(job, self._reference(job, ref), ahead=to == "before")
        return self._to_end(job, top=to == "top")

    def _reference(self, job: QueuedJob, ref: int | None) -> QueuedJob:
        if ref is None:
            raise InputError("id", ref, "name the job to move beside")
        if ref == job.id:
            raise InputError("id", ref, "a job cannot be moved beside itself")
        reference = self._jobs.get(ref)
        if reference is None:
            raise Refused("wrong_state", f"Job #{ref} is not waiting, so nothing can be moved beside it.")
        return reference

    def _to_end(self, job: QueuedJob, *, top: bool) -> dict[int, int | None]:
        outermost = int(self._order[0 if top else -1])
        key = outermost >> self._id_bits
        if outermost & self._id_mask == job.id and (key < 0 if top else key >= CEILING):
            return {}
        return {job.id: top_key(key) if top else bottom_key(key)}

    def _pass_neighbours(self, job: QueuedJob, to: str, n: int) -> dict[int, int | None]:
        if type(n) is not int or n < 1:
            raise InputError("n", n, "write how many jobs to pass, 1 or more")
        here = self._order.index(self._entry(job))
        there = max(here - n, 0) if to == "up" else min(here + n, len(self._order) - 1)
        if there == here:
            return {}
        neighbour = self._jobs[self._order[there] & self._id_mask]
        return self._beside(job, neighbour, ahead=to == "up")

    def _beside(self, job: QueuedJob, reference: QueuedJob, *, ahead: bool) -> dict[int, int | None]:
        at = self._order.index(self._entry(reference))
        key = effective_key(reference)
        step = -1 if ahead else 1
        beyond = at + step
        if 0 <= beyond < len(self._order) and self._order[beyond] & self._id_mask == job.id:
            beyond += step
        other = self._order[beyond] >> self._id_bits if 0 <= beyond < len(self._order) else None
        new = key_before(key, other) if ahead else key_after(key, other)
        if new is not None:
            return {job.id: new}
        return self._spread_anew(job, reference, ahead=ahead)

    def _spread_anew(self, job: QueuedJob, reference: QueuedJob, *, ahead: bool) -> dict[int, int | None]:
        """The gap beside `reference` has ended: give every moved job in this half of its room a new key."""
        low, high = half_of(effective_key(reference), below=ahead)
        entries = self._order.irange((low + 1) << self._id_bits, (high << self._id_bits) - 1)
        ids = [found for entry in entries if (found := entry & self._id_mask) != job.id]
        if reference.id in ids:
            ids.insert(ids.index(reference.id) + (0 if ahead else 1), job.id)
        else:
            ids.insert(len(ids) if ahead else 0, job.id)
        return dict(zip(ids, spread(len(ids), low, high), strict=True))

    def _entry(self, job: QueuedJob) -> int:
        return effective_key(job) << self._id_bits | job.id
