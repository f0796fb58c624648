"""The keys, as data. Lowercase looks, Shift changes. Users remap them by id in the settings (`[keys]`)."""

from dataclasses import dataclass
from enum import IntFlag

from textual.binding import Binding


class Where(IntFlag):
    """On which panel a key means something."""

    JOBS = 1
    GPUS = 2
    ANY = 3


@dataclass(frozen=True, slots=True)
class Key:
    """One command: its id (for remapping and the palette), keys, words, and where it works."""

    id: str
    keys: str
    label: str
    """For the footer: one or two words."""
    help: str
    where: Where = Where.ANY
    acts: bool = False
    """Changes something in the daemon: hidden by --readonly."""
    daemon: bool = False
    """Means nothing in the monitor."""
    footer: int = 0
    """Its place in the footer, smallest first; 0: not there."""
    shown: str = ""
    """How the keys are written; else `keys` as they are."""

    @property
    def face(self) -> str:
        return self.shown or self.keys


_J, _G = Where.JOBS, Where.GPUS

KEYS: tuple[Key, ...] = (
    Key("down", "j,down", "down", "move the cursor down", shown="j ↓"),
    Key("up", "k,up", "up", "move the cursor up", shown="k ↑"),
    Key("first", "g,home", "first", "go to the first row", shown="g"),
    Key("last", "G,end", "last", "go to the last row", shown="G"),
    Key("page_down", "ctrl+d,pagedown", "page down", "half a page down", shown="^d"),
    Key("page_up", "ctrl+u,pageup", "page up", "half a page up", shown="^u"),
    Key("view_queue", "1", "queue", "the waiting jobs, in queue order", daemon=True),
    Key("view_active", "2", "running", "the jobs that hold GPUs", daemon=True),
    Key("view_ended", "3", "ended", "the jobs that ended, newest first", daemon=True),
    Key("view_all", "4", "all", "every job", daemon=True),
    Key("panel", "tab,shift+tab", "panel", "go to the other panel", footer=45, shown="tab", daemon=True),
    Key("describe", "enter,d", "describe", "everything about the row", footer=62, shown="enter"),
    Key("logs", "l", "logs", "what the job wrote, followed", footer=55, daemon=True),
    Key("why", "w", "why", "what the job waits for, or why it failed", footer=50, daemon=True),
    Key("filter", "slash", "filter", "show only rows with this text (/! all but them)", _J, False, True, 58, "/"),
    Key("command", "colon", "command", "type a command", footer=60, shown=":", daemon=True),
    Key("palette", "ctrl+p", "palette", "find a command by name", shown="^p", daemon=True),
    Key("sort_next", "greater_than_sign", "sort", "sort by the next column", _J, False, True, 0, ">"),
    Key("sort_previous", "less_than_sign", "sort", "sort by the column before", _J, False, True, 0, "<"),
    Key("reverse", "r", "reverse", "reverse the sort", _J, False, True),
    Key("mark", "space", "mark", "mark the row for the next act", _J, False, True),
    Key("range", "v", "range", "mark from here to where you go next", _J, False, True),
    Key("clear", "escape", "clear", "clear marks, range, filter and sort", daemon=True, shown="esc"),
    Key("copy", "y", "copy", "copy the job's id, or the GPU's UUID, to your clipboard"),
    Key("move_up", "K", "up", "move the job up past its visible neighbour", _J, True, True, 10),
    Key("move_down", "J", "down", "move the job down past its visible neighbour", _J, True, True, 11),
    Key("move_to", "M", "move to", "move the job: top, bottom, a position, before or after a job", _J, True, True, 12),
    Key("start", "S", "start", "start the job now, ahead of the queue", _J, True, True, 20),
    Key("hold", "H", "hold", "hold the job: it does not start until released", _J, True, True, 25),
    Key("release", "L", "release", "let a held job go, or end a GPU's quarantine", Where.ANY, True, True, 26),
    Key("cancel", "X", "cancel", "cancel the job (asks first)", _J, True, True, 30),
    Key("requeue", "Q", "requeue", "put an ended job back into the queue", _J, True, True, 31),
    Key("edit", "E", "edit", "edit a waiting job in $EDITOR", _J, True, True, 70),
    Key("cordon", "D", "drain", "cordon, drain or uncordon the GPU", _G, True, True, 15),
    Key("undo", "z", "undo", "take back your last act", Where.ANY, True, True, 80),
    Key("redo", "ctrl+y", "redo", "do it again", Where.ANY, True, True, 0, "^y"),
    Key("freeze", "exclamation_mark", "freeze", "stop everything automatic, or thaw", Where.ANY, True, True, 85, "!"),
    Key("picture", "p", "pause", "pause the picture; again: go on"),
    Key("mouse", "m", "mouse", "mouse on or off (on: hold Shift or Option to select text)"),
    Key("refresh", "ctrl+r,ctrl+l", "redraw", "ask again and redraw everything", shown="^r ^l"),
    Key("help", "question_mark,f1", "help", "all keys", footer=99, shown="?"),
    Key("quit", "q", "quit", "back; quits at the root", footer=95),
    Key("interrupt", "ctrl+c", "quit", "twice: quits, from anywhere", shown="^c ^c"),
    Key("suspend", "ctrl+z", "shell", "to the shell; fg comes back", shown="^z"),
)  # fmt: skip

BY_ID = {key.id: key for key in KEYS}


def bindings() -> list[Binding | tuple[str, str] | tuple[str, str, str]]:
    """What the main screen binds; every key runs `do(id)`."""
    return [Binding(key.keys, f"do('{key.id}')", key.label, id=key.id, show=False) for key in KEYS]


_WAITING, _ENDED = ("queued", "held"), ("succeeded", "failed", "cancelled", "lost")
_STATES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("move_up", "move_down", "move_to", "start", "edit"), _WAITING),
    "hold": ("queued",),
    "release": ("held", "quarantined"),
    "cancel": (*_WAITING, "starting", "running", "checkpointing", "stopping", "suspended"),
    "requeue": _ENDED,
}
"""States of the row in which an act can mean something; every other command works on any."""


def works(key: Key, *, panel: Where, readonly: bool, monitor: bool) -> bool:
    """Whether a key means anything here."""
    return bool(key.where & panel) and not (key.acts and readonly) and not (key.daemon and monitor)


def applies(key: Key, state: str | None) -> bool:
    """Whether a key means anything for a row in `state` (None: there is no row)."""
    return key.id not in _STATES or state in _STATES[key.id]
