"""GPUs: readings into memory, cordons, what is foreign, what fatal errors mean, a month of minutes."""

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta

from sqlmodel import Session

from gputui.daemon.context import DAEMON, Caller, Context
from gputui.daemon.gpu_table import CordonState, Entry
from gputui.daemon.services import gpu_rows
from gputui.daemon.services.owners import Owners
from gputui.daemon.services.undo import Undo, Undoable
from gputui.domain.errors import InputError, Refused
from gputui.domain.units import parse_time
from gputui.gpus import rows
from gputui.gpus.history import MinuteRollup, Minutes
from gputui.gpus.reading import GpuReading, Holder, Missing, Snapshot
from gputui.protocol import ActReply, ErrorCode, GpusReply
from gputui.store import audit
from gputui.store import gpus as table
from gputui.store.gpus import SeenGpu
from gputui.store.tables import GpuMinute

FATAL_XIDS = frozenset({48, 79, 94, 95, 119, 120})
UNDECLARED_SHARE = 0.6
"""Of a simulated GPU's memory, what a run is shown to use when it declared nothing."""
LONGEST_REASON = 500


class Gpus:
    """The service. Readings come in through `take`; everything else is an act or a tick."""

    def __init__(self, ctx: Context, undo: Undo) -> None:
        self._ctx = ctx
        self._undo = undo
        self._owners = Owners(ctx)
        self._minutes = Minutes()
        self._snapshot: Snapshot | None = None
        self._seen: frozenset[tuple[str, int]] = frozenset()
        self._kept: dict[str, Entry] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        ctx.gpus = self.reply

    async def open(self) -> None:
        """Take in cordons, quarantines and losses of the store; a GPU shows up once it is read."""
        for row in await self._ctx.read(lambda session: table.all_gpus(session, self._ctx.store.host_id)):
            entry = Entry(row.uuid)
            if row.cordon_reason is not None and row.cordon_since is not None:
                entry.cordon = CordonState(
                    row.cordon_reason, row.cordon_by, row.cordon_since, row.cordon_until, row.drain
                )
            entry.quarantine = row.quarantine_reason or ""
            if self._ctx.memory.gpus.get(row.uuid) is None:
                self._kept[row.uuid] = entry
            else:
                self._ctx.memory.gpus.adopt(entry)

    async def close(self) -> None:
        """End what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- Readings ---------------------------------------------------------------------------------------------------

    def take(self, snapshot: Snapshot) -> None:
        """Take in a snapshot. Readings bypass the mutation lock: they are not ours to decide."""
        memory = self._ctx.memory
        if self._snapshot is None or snapshot.monotonic > self._snapshot.monotonic:
            # not again what a driver that hangs said last
            memory.last_minute.add(snapshot.gpus, snapshot.monotonic)
            self._minutes.add((gpu for gpu in snapshot.gpus if not gpu.lost), snapshot.sampled_at.timestamp())
        self._snapshot = snapshot
        memory.host = snapshot.host
        memory.cpu_history.append(rows.known(snapshot.host.cpu_percent))
        now = self._ctx.clock.monotonic()
        self.tell_holders()
        self._owners.begin()
        here = set()
        for reading in snapshot.gpus:
            here.add(reading.uuid)
            kept = self._kept.pop(reading.uuid, None)
            entry = memory.gpus.adopt(kept) if kept else memory.gpus.ensure(reading.uuid)
            self._observe(entry, reading, snapshot.monotonic)
        if snapshot.problem is None:
            for entry in memory.gpus:
                if entry.uuid not in here and entry.reading is not None:
                    entry.lost = entry.lost or "the driver no longer lists it"
                    self._ctx.warn(f"lost {entry.uuid}", f"GPU {entry.label} is lost: {entry.lost}.")
        self._owners.end()
        self.look_at_locks()
        changed = [memory.refresh_gpu(entry, now) for entry in memory.gpus]
        if any(changed):
            self._ctx.wake.set()
        self._remember(snapshot)
        problem = snapshot.problem
        self._ctx.warn("driver", f"{problem.sentence} {problem.remedy}" if problem else "")
        self._ctx.gpus_changed()

    def _observe(self, entry: Entry, reading: GpuReading, at: float) -> None:
        entry.observe(reading, at)
        entry.lost = reading.lost
        now = self._ctx.clock.now()
        entry.foreign, entry.allocated = self._owners.split(entry, reading.processes or ())
        pids = {process.pid for process in entry.foreign}
        entry.held_since = {pid: entry.held_since.get(pid, now) for pid in pids}
        if entry.lost:
            self._ctx.warn(f"lost {entry.uuid}", f"GPU {entry.label} is lost: {entry.lost}.")
        else:
            self._ctx.warn(f"lost {entry.uuid}", "")
        if reading.xid in FATAL_XIDS and entry.xid != reading.xid:
            entry.xid, entry.xid_at = reading.xid, now
            if entry.cordon is None:
                self._spawn(self._cordon_for_xid(entry, reading.xid))
        elif reading.xid is None:
            entry.xid = entry.xid_at = None

    def look_at_locks(self, uuids: frozenset[str] | None = None) -> bool:
        """See which GPUs other programs have locked; whether any of them turned out to be."""
        memory, now = self._ctx.memory, self._ctx.clock.monotonic()
        candidates = [
            entry
            for entry in memory.gpus
            if not entry.runs and not entry.releasing and (uuids is None or entry.uuid in uuids)
        ]
        locked = self._ctx.engine.locked_by_others([entry.uuid for entry in candidates])
        found = False
        for entry in candidates:
            why = "in use by another gputui" if entry.uuid in locked else self._owners.slurm(entry)
            found = found or bool(why and not entry.locked)
            if why != entry.locked:
                entry.locked = why
                memory.refresh_gpu(entry, now)
                self._ctx.wake.set()
        return found

    def tell_holders(self) -> None:
        """Tell simulated GPUs which processes hold them."""
        if self._snapshot is None or self._snapshot.source != "simulated":
            return
        holders: dict[str, tuple[Holder, ...]] = {}
        for entry in self._ctx.memory.gpus:
            for run in entry.runs.values():
                pids = self._ctx.engine.pids(run.run_id) if run.has_processes else ()
                if pids and entry.reading is not None:
                    total = entry.reading.memory_total
                    assumed = int(total * UNDECLARED_SHARE) if isinstance(total, int) else 0
                    holder = Holder(pids, run.demand.memory or assumed)
                    holders[entry.uuid] = (*holders.get(entry.uuid, ()), holder)
        self._ctx.reader.set_holders(holders)

    def reply(self) -> GpusReply:
        """What `GET /gpus` answers."""
        return gpu_rows.reply(self._ctx, self._snapshot)

    # --- Acts -------------------------------------------------------------------------------------------------------

    async def cordon(
        self, caller: Caller, uuid: str, reason: str, until: str | None = None, *, drain: bool = False
    ) -> ActReply:
        """Take no new run on a GPU. Raises `InputError`, `Refused`."""
        entry = self._find(uuid)
        if not reason.strip():
            raise InputError("reason", reason, "say why, for those who wonder about it")
        if len(reason) > LONGEST_REASON:
            raise InputError("reason", reason, f"at most {LONGEST_REASON} characters")
        ends = parse_time(until, "until") if until else None
        now = self._ctx.clock.now()
        if ends is not None and ends <= now:
            raise InputError("until", until, "write a time that is still to come")
        state = CordonState(reason, caller.user, now, ends, drain)
        await self._set_cordon(caller, entry, state, "gpu.drain" if drain else "gpu.cordon", reason=reason)
        does = "takes no new run" + ("; the present one ends first" if drain and entry.runs else "")
        return {"message": f"GPU {entry.label} {does}.", "ids": []}

    async def uncordon(self, caller: Caller, uuid: str, reason: str = "") -> ActReply:
        """Lift a cordon. Raises `Refused` when there is none."""
        entry = self._find(uuid)
        if entry.cordon is None:
            raise Refused(ErrorCode.WRONG_STATE, f"GPU {entry.label} is not cordoned.")
        await self._set_cordon(caller, entry, None, "gpu.uncordon", reason=reason)
        return {"message": f"GPU {entry.label} takes runs again.", "ids": []}

    async def release(self, caller: Caller, uuid: str, reason: str = "") -> ActReply:
        """End a quarantine: a person has looked. Raises `Refused` when there is none."""
        entry = self._find(uuid)
        if not entry.quarantine:
            raise Refused(ErrorCode.WRONG_STATE, f"GPU {entry.label} is not quarantined.")
        at = self._ctx.clock.now()

        def work(session: Session) -> None:
            table.update_gpu(session, uuid, quarantine_reason=None, quarantine_since=None)
            audit.append(
                session, at=at, uid=caller.uid, who=caller.user, session_token=caller.session, act="gpu.release",
                subject=f"gpu {uuid}", before={"quarantine": entry.quarantine}, reason=reason,
            )  # fmt: skip

        async def act() -> None:
            await self._ctx.write(work)
            entry.quarantine = ""
            self._ctx.warn(f"gpu {uuid}", "")
            self._refreshed(entry)

        await self._ctx.act(act)
        return {"message": f"GPU {entry.label} is out of quarantine.", "ids": []}

    async def tick(self) -> None:
        """Once a second: cordons that ended, minutes that are full. Raises `StoreUnavailable`."""
        now = self._ctx.clock.now()
        for entry in list(self._ctx.memory.gpus):
            if entry.cordon and entry.cordon.until and entry.cordon.until <= now:
                await self._set_cordon(DAEMON, entry, None, "gpu.uncordon", reason="its time is up")
        if over := self._minutes.take(now.timestamp()):
            keep = timedelta(days=self._ctx.settings.reading_days)

            def work(session: Session) -> None:
                table.insert_minutes(session, [_minute(one) for one in over])
                table.prune_minutes(session, now, keep)

            await self._ctx.act(lambda: self._ctx.write(work))

    # --- Within -----------------------------------------------------------------------------------------------------

    def _find(self, uuid: str) -> Entry:
        entry = self._ctx.memory.gpus.get(uuid)
        if entry is None:
            raise Refused(ErrorCode.NOT_FOUND, f"There is no GPU {uuid}; 'gputui gpus' lists them.")
        return entry

    async def _set_cordon(
        self,
        caller: Caller,
        entry: Entry,
        state: CordonState | None,
        act: str,
        *,
        reason: str,
        version: int | None = None,
    ) -> None:
        before = entry.cordon

        async def commit() -> None:
            if version is not None and entry.version != version:
                raise Refused(ErrorCode.CHANGED, f"The cordon of GPU {entry.label} was changed since.")
            await self._ctx.write(
                lambda session: self._store_cordon(session, caller, entry, state, act=act, reason=reason)
            )
            entry.cordon = state
            entry.version += 1
            self._refreshed(entry)

        await self._ctx.act(commit)
        if version is None and caller is not DAEMON:
            said = f"{act.removeprefix('gpu.')}ed GPU {entry.label}"
            self._undo.remember(caller, self._undoable(said, entry, before, entry.version))

    def _undoable(self, text: str, entry: Entry, before: CordonState | None, version: int) -> Undoable:
        async def revert(caller: Caller) -> Undoable:
            now = entry.cordon
            await self._set_cordon(caller, entry, before, "undo", reason=text, version=version)
            return self._undoable(text, entry, now, entry.version)

        return Undoable(text, (), revert)

    def _store_cordon(
        self, session: Session, caller: Caller, entry: Entry, state: CordonState | None, *, act: str, reason: str
    ) -> None:
        if state is None:
            table.uncordon(session, entry.uuid)
        else:
            table.cordon(
                session, entry.uuid, reason=state.reason, by=state.by, since=state.since, until=state.until,
                drain=state.drain,
            )  # fmt: skip
        audit.append(
            session, at=self._ctx.clock.now(), uid=caller.uid, who=caller.user, session_token=caller.session, act=act,
            subject=f"gpu {entry.uuid}", before=_plain(entry.cordon), after=_plain(state), reason=reason,
        )  # fmt: skip

    def _refreshed(self, entry: Entry) -> None:
        self._ctx.memory.refresh_gpu(entry, self._ctx.clock.monotonic())
        self._ctx.gpus_changed()
        self._ctx.wake.set()

    async def _cordon_for_xid(self, entry: Entry, xid: int) -> None:
        at = self._ctx.clock.now()
        reason = f"Xid {xid} at {at.astimezone():%H:%M}"
        self._ctx.warn(f"gpu {entry.uuid}", f"GPU {entry.label} reported {reason} and was cordoned.")
        with contextlib.suppress(Refused):
            await self._set_cordon(DAEMON, entry, CordonState(reason, DAEMON.user, at), "gpu.cordon", reason=reason)

    def _remember(self, snapshot: Snapshot) -> None:
        """Have the store know which GPUs there are, whenever that changes."""
        seen = frozenset((reading.uuid, reading.index) for reading in snapshot.gpus)
        if seen and seen != self._seen:
            self._seen = seen
            self._spawn(self._store_seen(snapshot))

    async def _store_seen(self, snapshot: Snapshot) -> None:
        rows = [
            SeenGpu(
                reading.uuid, reading.index, reading.name, reading.type,
                None if isinstance(reading.memory_total, Missing) else reading.memory_total, reading.mig_parent,
            )
            for reading in snapshot.gpus
        ]  # fmt: skip
        host, at = self._ctx.store.host_id, self._ctx.clock.now()
        try:
            await self._ctx.act(lambda: self._ctx.write(lambda session: table.see(session, rows, host_id=host, at=at)))
        except Refused:
            self._seen = frozenset()  # with the next snapshot

    def _spawn(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _plain(state: CordonState | None) -> dict[str, object] | None:
    if state is None:
        return None
    until: datetime | None = state.until
    return {"reason": state.reason, "by": state.by, "until": until and until.isoformat(), "drain": state.drain}


def _minute(seen: MinuteRollup) -> GpuMinute:
    return GpuMinute(
        gpu_uuid=seen.uuid,
        minute=datetime.fromtimestamp(seen.minute * 60, UTC),
        utilization_mean=seen.utilization,
        utilization_max=seen.utilization_max,
        memory_mean=None if seen.memory is None else int(seen.memory),
        memory_max=seen.memory_max,
        power_mean=seen.power,
    )
