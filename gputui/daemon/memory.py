"""What the daemon keeps in memory: waiting jobs for the scheduler, active runs, GPUs, datasets, and who is who.

Changed only under the mutation lock, after the commit. argv and environments stay in the store.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from sys import intern

from gputui.daemon.gpu_table import Entry, GpuTable
from gputui.daemon.services.outcome import Intent
from gputui.domain.errors import Refused
from gputui.domain.gpu import GpuView
from gputui.domain.job import Demand, Gate, QueuedJob
from gputui.domain.lifecycle import WAITING, Hold, JobState
from gputui.domain.scheduler import Scheduler
from gputui.gpus.history import SLOTS, LastMinute
from gputui.gpus.reading import HostReading
from gputui.protocol import ErrorCode
from gputui.store.jobs import WaitingJob
from gputui.store.tables import Job


@dataclass(slots=True)
class Note:
    """What lists need of a waiting or active job beyond what the scheduler holds."""

    id: int
    state: JobState
    name: str
    owner: str
    owner_uid: int
    project: str
    priority_class: str
    priority: int
    version: int
    attempt: int
    vouched: bool
    """Someone lets it start although its data is not ready."""
    _shown: str = ""
    """What words are looked for in; made at the first look and kept, since a filter looks through every job."""

    def has(self, words: Iterable[str]) -> bool:
        """Whether each of these words, case folded, occurs in number, name, owner, project, class or state."""
        if not self._shown:
            shown = f"#{self.id} {self.name} {self.owner} {self.project} {self.priority_class} {self.state}"
            self._shown = shown.casefold()
        return all(word in self._shown for word in words)

    def become(self, state: JobState) -> None:
        """Change its state."""
        self.state = state
        self._shown = ""


@dataclass(slots=True)
class ActiveRun:
    """A run that holds its GPUs: from the grant until its end is committed."""

    run_id: str
    job_id: int
    attempt: int
    gpu_uuids: tuple[str, ...]
    demand: Demand
    grace: float
    time_limit: float | None
    interactive: bool
    granted_at: datetime
    granted_mono: float
    """Monotonic, of this daemon."""
    memory_at_grant: dict[str, int | None] = field(default_factory=dict)
    intent: Intent | None = None
    started_at: datetime | None = None
    began_at: float | None = None
    """Monotonic, for elapsed time and the time limit."""
    launched: bool = False
    """The engine has its spec: it can be stopped."""
    duration: float | None = None
    """The owner's estimate."""
    over: bool = False
    """Its end was told and is about to be committed: it has no process any more."""

    @property
    def stoppable(self) -> bool:
        """Whether it is neither over nor being stopped already."""
        return self.intent is None and not self.over

    @property
    def has_processes(self) -> bool:
        """Whether the engine may be asked for its processes."""
        return self.launched and not self.over


@dataclass(frozen=True, slots=True)
class DatasetNote:
    """How far a dataset is."""

    ready: bool
    readiness: float | None
    """0 to 1; None: unknown."""
    reason: str = ""
    expected: datetime | None = None


@dataclass(frozen=True, slots=True)
class Freeze:
    """Nothing automatic happens."""

    by: str
    since: datetime
    reason: str


class Memory:
    """All of it. For the event loop's thread."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.scheduler = Scheduler()
        self.notes: dict[int, Note] = {}
        self.runs: dict[str, ActiveRun] = {}
        self.run_of: dict[int, ActiveRun] = {}
        self.gpus = GpuTable()
        self.host = HostReading()
        self.last_minute = LastMinute()
        """How busy each GPU was."""
        self.cpu_history: deque[float | None] = deque(maxlen=SLOTS)
        """CPU use of the host by the last readings, oldest first."""
        self.datasets: dict[str, DatasetNote] = {}
        self.frozen: Freeze | None = None
        self.paused = ""
        """Why nothing starts although nothing is frozen: a full disk, a store that can't be written."""
        self.next_seq = 1
        self.backoff: dict[int, float] = {}
        """Jobs whose retry waits, and until when, monotonic."""
        self.version = 0
        """Of the queue's view; grows with every change."""
        self.states: Counter[JobState] = Counter()
        """Jobs by state, the ended ones too, which are in the store alone."""
        self.classes: Counter[str] = Counter()
        """Waiting jobs by class."""
        self.revived: set[int] = set()
        """Jobs that ended and were queued again: their present end is not the first one."""
        self.ended = asyncio.Event()
        """Replaced, and the old one set, whenever a job has ended."""
        self._needs: dict[str, set[int]] = {}
        self._demands: dict[Demand, Demand] = {}
        """Equal demands are one object."""

    def next_version(self) -> int:
        """Count a change of the queue's view."""
        self.version += 1
        return self.version

    def finished(self, state: JobState) -> None:
        """A job ended so: count it, and wake whoever waits for jobs to end."""
        self.states[state] += 1
        ended, self.ended = self.ended, asyncio.Event()
        ended.set()

    def revive(self, job_id: int, was: JobState) -> None:
        """A job that had ended waits again."""
        self.states[was] -= 1
        self.revived.add(job_id)

    # --- Jobs -------------------------------------------------------------------------------------------------------

    def note(self, job_id: int) -> Note | None:
        """A waiting or active job, or None: it ended, or never was."""
        return self.notes.get(job_id)

    def waiting(self, job_id: int) -> QueuedJob:
        """A waiting job. Raises `Refused` that says what it is instead."""
        job = self.scheduler.get(job_id)
        if job is None:
            note = self.notes.get(job_id)
            raise Refused(
                ErrorCode.WRONG_STATE, f"Job #{job_id} {f'is {note.state}' if note else 'has ended'}; it does not wait."
            )
        return job

    def load_waiting(self, rows: Iterable[WaitingJob], now: datetime, monotonic: float) -> None:
        """Take in every waiting job of the store."""
        for row in rows:
            left = (row.not_before - now).total_seconds() if row.not_before else 0.0
            self.add_waiting(row, monotonic + left if left > 0 else None)

    def add_waiting(self, row: WaitingJob, backoff_until: float | None = None) -> None:
        """Take in a job that was committed as waiting."""
        if backoff_until is not None:
            self.backoff[row.id] = backoff_until
        demand = Demand(row.gpus, frozenset(row.gpu_types), row.gpu_memory, row.share)
        owner, project, priority_class = intern(row.owner), intern(row.project), intern(row.priority_class)
        self.notes[row.id] = Note(
            row.id, row.state, row.name, owner, row.owner_uid, project, priority_class, row.priority,
            row.version, row.attempt, row.vouched is not None,
        )  # fmt: skip
        self.states[row.state] += 1
        self.classes[priority_class] += 1
        for name in row.datasets:
            self._needs.setdefault(name, set()).add(row.id)
        job = QueuedJob(
            id=row.id,
            priority_class=priority_class,
            priority=row.priority,
            submitted_seq=row.submitted_seq,
            demand=self._demands.setdefault(demand, demand),
            move_key=row.move_key,
            holds=row.holds,
            datasets=row.datasets,
            duration=row.duration,
            gates=self._gates(row.id, row.holds, row.datasets),
        )
        self.scheduler.add(job)

    def drop(self, job_id: int) -> None:
        """Forget a job: it ended, or is about to be taken in anew."""
        note = self.notes.pop(job_id, None)
        if note is None:
            return
        self._count(note, -1)
        if note.state in WAITING:
            self._leave_queue(job_id)

    def activate(self, run: ActiveRun, note: Note) -> None:
        """Take in a run that was granted its GPUs; its job leaves the queue."""
        self.drop(run.job_id)
        self.notes[note.id] = note
        self._count(note, 1)
        self.runs[run.run_id] = run
        self.run_of[run.job_id] = run
        for uuid in run.gpu_uuids:
            self.gpus.ensure(uuid).runs[run.run_id] = run

    def set_state(self, note: Note, state: JobState) -> None:
        """An active job's next active state."""
        self.states[note.state] -= 1
        note.become(state)
        self.states[state] += 1

    def retire(self, run: ActiveRun, releasing_since: float | None) -> None:
        """A run's end is committed; its GPUs are released on evidence, unless None says they hold nothing of it."""
        self.drop(run.job_id)
        self.runs.pop(run.run_id, None)
        self.run_of.pop(run.job_id, None)
        for uuid in run.gpu_uuids:
            entry = self.gpus.ensure(uuid)
            entry.runs.pop(run.run_id, None)
            entry.allocated.pop(run.run_id, None)
            if releasing_since is not None:
                entry.releasing[run.run_id] = releasing_since

    def _gates(self, job_id: int, holds: frozenset[Hold], datasets: tuple[str, ...]) -> Gate:
        """What keeps a waiting job out of its lane."""
        gates = Gate.HOLD if holds else Gate.NONE
        if datasets and not self.notes[job_id].vouched:
            for name in datasets:
                dataset = self.datasets.get(name)
                if dataset is None or dataset.readiness is None:
                    gates |= Gate.DATA_UNKNOWN
                elif not dataset.ready:
                    gates |= Gate.DATA
        return gates | Gate.BACKOFF if job_id in self.backoff else gates

    def regate(self, job_id: int) -> bool:
        """Reckon a waiting job's gates anew; whether they changed."""
        job = self.scheduler.get(job_id)
        if job is None:
            return False
        gates = self._gates(job_id, job.holds, job.datasets)
        if gates == job.gates:
            return False
        self.scheduler.replace(replace(job, gates=gates))
        return True

    def move(self, job_id: int, key: int | None) -> None:
        """Give a waiting job a place of its own."""
        job = self.scheduler.get(job_id)
        if job is not None:
            self.scheduler.replace(replace(job, move_key=key))

    def readiness(self, datasets: Iterable[str]) -> float | None:
        """Of a job: the least of its datasets', 1 without any, None when one is unknown."""
        least = 1.0
        for name in datasets:
            dataset = self.datasets.get(name)
            if dataset is None or dataset.readiness is None:
                return None
            least = min(least, dataset.readiness)
        return least

    # --- Datasets ---------------------------------------------------------------------------------------------------

    def set_dataset(self, name: str, dataset: DatasetNote | None) -> list[int]:
        """Take what is now known of a dataset (None: it is gone); the waiting jobs whose row changed by it."""
        if self.datasets.get(name) == dataset:
            return []
        if dataset is None:
            del self.datasets[name]
        else:
            self.datasets[name] = dataset
        concerned = sorted(self._needs.get(name, ()))
        for job_id in concerned:
            self.regate(job_id)
        return concerned

    def needing(self, name: str) -> frozenset[int]:
        """The waiting jobs that name a dataset."""
        return frozenset(self._needs.get(name, ()))

    # --- GPUs -------------------------------------------------------------------------------------------------------

    def refresh_gpu(self, entry: Entry, now: float) -> bool:
        """Give the scheduler a GPU's present view; whether it changed."""
        return self.scheduler.set_gpu(entry.view(now, self.node, self.host))

    def types(self) -> frozenset[str]:
        """The GPU types there are."""
        return frozenset(entry.reading.type for entry in self.gpus if entry.reading)

    def view_of(self, uuid: str) -> GpuView | None:
        """What the scheduler sees of a GPU."""
        return self.scheduler.pool.get(uuid) if uuid in self.scheduler.pool else None

    # --- Within -----------------------------------------------------------------------------------------------------

    def _count(self, note: Note, step: int) -> None:
        self.states[note.state] += step
        if note.state in WAITING:
            self.classes[note.priority_class] += step

    def _leave_queue(self, job_id: int) -> None:
        job = self.scheduler.remove(job_id)
        self.backoff.pop(job_id, None)
        for name in job.datasets:
            self._needs[name].discard(job_id)
            if not self._needs[name]:
                del self._needs[name]


def waiting_row(job: Job, datasets: tuple[str, ...]) -> WaitingJob:
    """A job's row as the queue takes it in."""
    return WaitingJob._make(datasets if name == "datasets" else getattr(job, name) for name in WaitingJob._fields)


def note_of(job: Job) -> Note:
    """A job's row as lists need it."""
    return Note(
        job.id, job.state, job.name, intern(job.owner), job.owner_uid, intern(job.project),
        intern(job.priority_class), job.priority, job.version, job.attempt, job.vouched is not None,
    )  # fmt: skip
