"""Taking back my own last act of this session, and doing it again; refused once somebody changed the row since."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gputui.daemon.context import Caller
from gputui.domain.errors import Refused
from gputui.protocol import ActReply, ErrorCode

MOST_ACTS = 100
"""Acts remembered per session."""
MOST_SESSIONS = 200


@dataclass(frozen=True, slots=True)
class Undoable:
    """An act that was done. `revert` does the opposite, checks that nothing changed since, and can be reverted too."""

    text: str
    """What was done: 'moved #12'."""
    ids: tuple[int, ...]
    revert: Callable[[Caller], Awaitable["Undoable"]]


@dataclass(slots=True)
class _Session:
    done: list[Undoable]
    undone: list[Undoable]


class Undo:
    """What each session did, in order. Forgotten when the daemon ends."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[int, str], _Session] = OrderedDict()

    def remember(self, caller: Caller, act: Undoable) -> None:
        """An act was done: it can be taken back, and nothing taken back before can be done again."""
        if not caller.session:
            return
        session = self._session(caller)
        session.done.append(act)
        del session.done[:-MOST_ACTS]
        session.undone.clear()

    async def undo(self, caller: Caller) -> ActReply:
        """Take back the last act. Raises `Refused`: nothing to undo, or changed since."""
        session = self._session(caller)
        if not session.done:
            raise Refused(ErrorCode.NOTHING_TO_UNDO, "You did nothing in this session that could be undone.")
        act = session.done[-1]
        inverse = await act.revert(caller)
        session.done.remove(act)
        session.undone.append(inverse)
        return {"message": f"Undone: {act.text}.", "ids": list(act.ids)}

    async def redo(self, caller: Caller) -> ActReply:
        """Do again what was undone last. Raises `Refused` likewise."""
        session = self._session(caller)
        if not session.undone:
            raise Refused(ErrorCode.NOTHING_TO_UNDO, "Nothing was undone in this session that could be done again.")
        inverse = session.undone[-1]
        act = await inverse.revert(caller)
        session.undone.remove(inverse)
        session.done.append(act)
        return {"message": f"Done again: {act.text}.", "ids": list(act.ids)}

    def _session(self, caller: Caller) -> _Session:
        key = (caller.uid, caller.session)
        session = self._sessions.setdefault(key, _Session([], []))
        self._sessions.move_to_end(key)
        if len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return session
