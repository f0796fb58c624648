"""The one switch that stops everything automatic, with who and why; it survives a restart."""

from datetime import datetime
from typing import Any

from sqlmodel import Session

from gputui.daemon.context import Caller, Context
from gputui.daemon.memory import Freeze
from gputui.daemon.services.undo import Undo, Undoable
from gputui.domain.errors import InputError, Refused
from gputui.protocol import ActReply, ErrorCode, FreezeRow
from gputui.store import audit, settings

KEY = "freeze"
LONGEST_REASON = 500


class Freezer:
    """Freeze and thaw."""

    def __init__(self, ctx: Context, undo: Undo) -> None:
        self._ctx = ctx
        self._undo = undo

    async def open(self) -> None:
        """Take up what the store says."""
        value = await self._ctx.read(lambda session: settings.current(session, KEY))
        if value:
            self._ctx.memory.frozen = Freeze(value["by"], datetime.fromisoformat(value["since"]), value["reason"])

    async def freeze(self, caller: Caller, reason: str) -> ActReply:
        """Stop everything automatic. Raises `InputError`; `Refused` when it is frozen already."""
        _checked(reason)
        if frozen := self._ctx.memory.frozen:
            raise Refused(ErrorCode.WRONG_STATE, f"It is frozen already, by {frozen.by}: {frozen.reason}.")
        await self._set(caller, Freeze(caller.user, self._ctx.clock.now(), reason), "freeze", reason)
        return {"message": "Frozen: nothing starts by itself until 'gputui thaw'; running jobs go on.", "ids": []}

    async def thaw(self, caller: Caller, reason: str) -> ActReply:
        """Let everything automatic go on. Raises `InputError`; `Refused` when nothing is frozen."""
        _checked(reason)
        if self._ctx.memory.frozen is None:
            raise Refused(ErrorCode.WRONG_STATE, "Nothing is frozen.")
        await self._set(caller, None, "thaw", reason)
        return {"message": "Thawed: jobs start by themselves again.", "ids": []}

    def row(self) -> FreezeRow | None:
        """For the status and its banner."""
        frozen = self._ctx.memory.frozen
        return {"by": frozen.by, "since": frozen.since.isoformat(), "reason": frozen.reason} if frozen else None

    async def _set(self, caller: Caller, wanted: Freeze | None, act: str, reason: str) -> None:
        before = self._ctx.memory.frozen
        await self._change(caller, before, wanted, act=act, reason=reason)
        self._undo.remember(caller, self._undoable("the freeze" if wanted else "the thaw", before, wanted))

    async def _change(
        self, caller: Caller, before: Freeze | None, wanted: Freeze | None, *, act: str, reason: str
    ) -> None:
        ctx = self._ctx
        at = ctx.clock.now()

        def work(session: Session) -> None:
            settings.put(session, KEY, _plain(wanted), at=at, uid=caller.uid, who=caller.user)
            audit.append(
                session, at=at, uid=caller.uid, who=caller.user, session_token=caller.session, act=act,
                subject="daemon", before=_plain(before), after=_plain(wanted), reason=reason,
            )  # fmt: skip

        async def commit() -> None:
            if ctx.memory.frozen != before:
                raise Refused(ErrorCode.CHANGED, "Somebody else froze or thawed it since.")
            await ctx.write(work)
            ctx.memory.frozen = wanted
            ctx.changed()
            ctx.wake.set()

        await ctx.act(commit)

    def _undoable(self, text: str, before: Freeze | None, after: Freeze | None) -> Undoable:
        async def revert(caller: Caller) -> Undoable:
            await self._change(caller, after, before, act="undo", reason=text)
            return self._undoable(text, after, before)

        return Undoable(text, (), revert)


def _plain(freeze: Freeze | None) -> dict[str, Any] | None:
    return {"by": freeze.by, "since": freeze.since.isoformat(), "reason": freeze.reason} if freeze else None


def _checked(reason: str) -> None:
    if not reason.strip():
        raise InputError("reason", reason, "say why, for those who wonder about it")
    if len(reason) > LONGEST_REASON:
        raise InputError("reason", reason, f"at most {LONGEST_REASON} characters")
