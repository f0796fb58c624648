"""What the keys that change something do: name the target at the key press, ask where it matters, tell the result."""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from gputui.client import ClientError
from gputui.protocol import ActReply, ErrorCode, GpuRow, JobRow, MoveRequest, StartRequest
from gputui.tui.text import clean
from gputui.tui.widgets.gpu_table import label

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen


@dataclass(frozen=True, slots=True)
class Target:
    """What a key was pressed on."""

    jobs: Mapping[int, int]
    """Ids and row versions: the marked rows, else the one under the cursor."""
    names: Sequence[str]
    job: JobRow | None
    marked: bool
    gpu: GpuRow | None
    gpu_name: str
    on_jobs: bool
    """Whether the jobs had the focus (else the GPUs)."""


class Acts:
    """Acts of one main screen. Ids and row versions are taken when the key is pressed and travel with the act."""

    def __init__(self, screen: "MainScreen") -> None:
        self.screen = screen
        self.backend = screen.backend
        self.moving: int | None = None
        """The job whose move is under way: the picture shows it where it will be, so windows wait."""
        self.touched: set[int] = set()
        """Jobs of the last act: what became of them was told."""
        self._move_again = False
        self._down = False

    # --- targets

    def bind(self, name: str) -> Callable[[], None]:
        """The command of a key, bound to what is under the cursor now, to be run now or in a moment."""
        if name in ("move_up", "move_down"):
            return partial(self.step, down=name == "move_down")
        target = self._target()

        def run() -> None:
            self.touched = set(target.jobs)
            self.screen.work(self._by_name(name, target))

        return run

    def _target(self) -> Target:
        table, gpu = self.screen.jobs, self.screen.gpus.current
        job = table.current
        jobs = dict(table.marks) or ({job["id"]: job["version"]} if job else {})
        name = f"GPU {label(gpu, self.screen.gpus.gpus)} ({gpu['type']})" if gpu else ""
        return Target(jobs, self._names(jobs), job, bool(table.marks), gpu, name, self.screen.panel_is_jobs)

    def _names(self, ids: Mapping[int, int]) -> list[str]:
        rows = {row["id"]: row for row in self.screen.jobs.rows.values()}
        return [
            f"#{number} {clean(rows[number]['name'])} · {rows[number]['owner']} · {rows[number]['state']}"
            if number in rows
            else f"#{number}"
            for number in ids
        ]

    def _nothing(self) -> None:
        self.screen.flash("No job is under the cursor.", good=False)

    # --- moves

    def step(self, down: bool) -> None:
        """K and J: past the visible neighbour, shown at once."""
        table = self.screen.jobs
        job = table.current
        if job is None:
            return self._nothing()
        if not table.view.in_queue_order:
            return self.screen.flash("Moves work only in queue order: 1 shows the queue, esc ends a sort.", good=False)
        other = table.cursor + (1 if down else -1)
        if other not in table.rows:
            at_end = table.cursor + 1 >= table.total if down else table.cursor == 0
            if at_end:
                self.screen.flash(f"#{job['id']} is already {'last' if down else 'first'} here.", good=False)
            return None
        if self.moving not in (None, job["id"]):
            return self.screen.flash("The last move is still under way.", good=False)
        self._down = down
        table.swap(table.cursor, other)
        if self.moving == job["id"]:
            self._move_again = True
            return None
        self.moving = job["id"]
        self.screen.work(self._send_moves(job))
        return None

    async def _send_moves(self, job: JobRow) -> None:
        """Tell the daemon where the job stands on screen; once more if it moved on meanwhile."""
        version: int | None = job["version"]
        view = self.screen.jobs.view
        try:
            while True:
                self._move_again = False
                request = self._place_on_screen(job["id"])
                if request is None:
                    break
                if version is not None:
                    request["version"] = version
                if view.filter:
                    request["filter"], request["invert"] = view.filter, view.invert
                reply = await self.backend.move(job["id"], request)
                # a second step of the same burst starts from the row that this one just made
                version = None
                if not self._move_again:
                    hidden = reply["passed_hidden"]
                    passed = (
                        f" It passed {hidden} row{'s' if hidden > 1 else ''} that the filter hides." if hidden else ""
                    )
                    was = f" (the rules say {reply['baseline_position']})"
                    self.screen.flash(f"#{job['id']} {clean(job['name'])} is now at {reply['position']}{was}.{passed}")
                    break
        except ClientError as error:
            self.screen.flash(f"Not moved: {error.message}", good=False)
        finally:
            self.moving = None
            self.screen.want_window()

    def _place_on_screen(self, job_id: int) -> MoveRequest | None:
        table = self.screen.jobs
        index = table.find(job_id)
        if index is None:
            return None
        # beside the neighbour it came past: rows that a filter hides beyond that one are not passed
        if self._down:
            above = table.key(index - 1)
            return None if above is None else {"to": "after", "id": above}
        below = table.key(index + 1)
        return None if below is None else {"to": "before", "id": below}

    async def move_to(self, target: Target) -> None:
        """M: to a place that is typed."""
        targets = target.jobs
        if not targets:
            return self._nothing()
        subject = target.names[0].partition(" · ")[0] if len(targets) == 1 else f"{len(targets)} marked jobs"
        hint = "top · bottom · a position · before ID · after ID · baseline"
        answer = await self.screen.ask(f"Move {subject} to:", hint=hint)
        if not answer:
            return None
        request = parse_place(answer)
        if request is None:
            return self.screen.flash(f"“{answer}” is no place; write {hint}.", good=False)
        if len(targets) > 1 and not await self.screen.confirm(
            f"Move {len(targets)} jobs to {answer}?", target.names, "Move"
        ):
            return None
        ids = list(targets)
        if request["to"] in ("top", "after", "up"):
            # each lands ahead of the one before, so that they keep their order among themselves
            ids.reverse()
        for number in ids:
            one: MoveRequest = {**request, "version": targets[number]}
            if request["to"] == "position":
                place = request["n"]
                row = self.screen.jobs.find(number)
                now = self.screen.jobs.rows[row]["position"] if row is not None else None
                if now is None:
                    return self.screen.flash(f"#{number} is not in the queue.", good=False)
                one = {"to": "up" if place < now else "down", "n": abs(now - place), "version": targets[number]}
            await self.backend.move(number, one)
        self._done(f"{subject} moved to {answer}.")
        return None

    # --- other acts on jobs

    async def start(self, target: Target) -> None:
        """S: ahead of the queue; without its data only with a reason."""
        job = target.job
        if job is None:
            return self._nothing()
        request: StartRequest = {"version": job["version"]}
        if target.marked:
            return self.screen.flash("S starts one job at a time; esc clears the marks.", good=False)
        try:
            reply = await self.backend.start(job["id"], request)
        except ClientError as error:
            if error.code != ErrorCode.NOT_READY:
                raise
            reason = await self.screen.ask(
                f"#{job['id']} is not ready; start without its data? Reason:", hint="why its data can be trusted"
            )
            if not reason:
                missing = clean(job["reason"]) or "its data is not ready"
                return self.screen.flash(f"#{job['id']} was not started: {missing}.", good=False)
            reply = await self.backend.start(job["id"], {**request, "ignore_data": True, "reason": reason})
        self._told(reply)
        return None

    async def on_jobs(self, verb: str, target: Target) -> None:
        """H, L, X, Q on the marked rows or the one under the cursor."""
        targets = target.jobs
        if not targets:
            return self._nothing()
        if target.marked or verb == "cancel":
            words = (
                f"{verb.capitalize()} {len(targets)} jobs?" if len(targets) > 1 else f"{verb.capitalize()} this job?"
            )
            yes = {"cancel": "Cancel job" if len(targets) == 1 else "Cancel jobs"}.get(verb, verb.capitalize())
            if not await self.screen.confirm(words, target.names, yes):
                return self.screen.flash(f"Nothing was {_PAST[verb]}.", good=False)
        reply = await self.backend.act(verb, list(targets), "", targets)
        if target.marked:
            self.screen.jobs.clear_marks()
        self._told(reply)
        return None

    async def edit(self, target: Target) -> None:
        """E: the waiting job's fields in $EDITOR."""
        from gputui.tui import edit

        job = target.job
        if job is None:
            return self._nothing()
        full = await self.backend.job(job["id"])
        try:
            with self.screen.app.suspend():
                changes = edit.in_editor(full)
        except edit.NotEdited as error:
            return self.screen.flash(str(error), good=False)
        self.screen.refresh(layout=True)
        if not changes:
            return self.screen.flash(f"#{job['id']} is as it was.")
        row = await self.backend.edit(job["id"], {**changes, "version": job["version"]})
        self._done(f"#{row['id']} changed: {', '.join(changes)}.")
        return None

    # --- GPUs

    async def cordon(self, target: Target) -> None:
        """D: cordon or drain the GPU, or end that."""
        gpu, name = target.gpu, target.gpu_name
        if gpu is None:
            return self.screen.flash("No GPU is under the cursor.", good=False)
        if gpu["cordon"]:
            reply = await self.backend.gpu_act("uncordon", gpu["uuid"], {})
            return self._told(reply)
        busy = gpu["state"] not in ("free", "unknown", "lost")
        what = f"Drain {name} (its present run ends first). Reason:" if busy else f"Cordon {name}. Reason:"
        reason = await self.screen.ask(what, hint="no new run starts there until someone ends it with D")
        if not reason:
            return self.screen.flash(f"{name} stays as it was: a reason is needed.", good=False)
        reply = await self.backend.gpu_act("cordon", gpu["uuid"], {"reason": reason, "drain": busy})
        return self._told(reply)

    async def release(self, target: Target) -> None:
        """L: let a held job go; on a GPU end its quarantine."""
        if target.on_jobs:
            return await self.on_jobs("release", target)
        gpu, name = target.gpu, target.gpu_name
        if gpu is None or gpu["state"] != "quarantined":
            return self.screen.flash(f"{name or 'No GPU'} is not quarantined: nothing to release.", good=False)
        if not await self.screen.confirm(f"End the quarantine of {name}?", [clean(gpu["why"])], "End it"):
            return None
        reply = await self.backend.gpu_act("release", gpu["uuid"], {})
        return self._told(reply)

    # --- everything

    async def freeze(self, _: Target) -> None:
        """! : stop everything automatic, or let it go on."""
        frozen = self.screen.status["frozen"] if self.screen.status else None
        if frozen:
            if await self.screen.confirm(
                "Let everything automatic go on?", [f"frozen by {frozen['by']}: {frozen['reason']}"], "Thaw"
            ):
                self._told(await self.backend.thaw(""))
            return None
        reason = await self.screen.ask(
            "Freeze: nothing starts by itself. Reason:", hint="shown to everyone until the thaw"
        )
        if not reason:
            return self.screen.flash("Not frozen: a reason is needed.", good=False)
        return self._told(await self.backend.freeze(reason))

    async def undo(self, _: Target) -> None:
        """Z: take back my last act."""
        self._told(await self.backend.undo())

    async def redo(self, _: Target) -> None:
        """^y: do it again."""
        self._told(await self.backend.redo())

    def _told(self, reply: ActReply) -> None:
        self._done(reply["message"], reply["ids"])

    def _done(self, message: str, ids: Iterable[int] = ()) -> None:
        self.touched = set(ids)
        self.screen.flash(clean(message))
        self.screen.want_window()

    def _by_name(self, verb: str, target: Target) -> Coroutine[Any, Any, None]:
        named = {
            "move_to": self.move_to, "start": self.start, "edit": self.edit, "cordon": self.cordon,
            "release": self.release, "freeze": self.freeze, "undo": self.undo, "redo": self.redo,
        }  # fmt: skip
        return named[verb](target) if verb in named else self.on_jobs(verb, target)


_PAST = {"hold": "held", "release": "released", "cancel": "cancelled", "requeue": "requeued"}


def parse_place(text: str) -> MoveRequest | None:
    """'top', 't', '5', 'before 420', 'a #420', 'baseline'; None for anything else. A bare number is a position."""
    words = text.lower().replace("#", "").split()
    if not words:
        return None
    for name in ("top", "bottom", "before", "after", "baseline"):
        if name.startswith(words[0]) and (len(words[0]) > 1 or name in ("top", "after")):
            if name in ("before", "after"):
                return {"to": name, "id": int(words[1])} if len(words) == 2 and words[1].isdecimal() else None
            return {"to": name} if len(words) == 1 else None
    if len(words) == 1 and words[0].isdecimal() and int(words[0]) > 0:
        return {"to": "position", "n": int(words[0])}
    return None
