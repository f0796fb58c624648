"""The last line: the keys that work here and now, or what the last act did."""

from collections.abc import Mapping
from dataclasses import dataclass

from gputui.tui.keymap import KEYS, Where, applies, works
from gputui.tui.text import cut
from gputui.tui.text import width as cells_of
from gputui.tui.theme import Look
from gputui.tui.widgets.lines import Line


@dataclass(frozen=True, slots=True)
class Here:
    """Where the cursor is, as far as keys care."""

    panel: Where
    state: str | None
    """Of the row under the cursor; None: no row."""
    readonly: bool
    monitor: bool


def keys(here: Here, faces: Mapping[str, str], look: Look, width: int) -> Line:
    """As many of the keys that work as fit, in their order; help always."""
    shown = [
        key
        for key in sorted((key for key in KEYS if key.footer), key=lambda key: key.footer)
        if works(key, panel=here.panel, readonly=here.readonly, monitor=here.monitor) and applies(key, here.state)
    ]
    parts = [(faces.get(key.id, key.face), key.label) for key in shown]
    room = width - 1 - _cells(parts[-1])
    fitting = []
    for part in parts[:-1]:
        if room >= _cells(part):
            room -= _cells(part)
            fitting.append(part)
    line: Line = [(" ", look.dim)]
    for face, label in [*fitting, parts[-1]]:
        line += [(face, look.key), (f" {label}  ", look.dim)]
    return line


def _cells(part: tuple[str, str]) -> int:
    return cells_of(part[0]) + cells_of(part[1]) + 3


def flash(message: str, good: bool, look: Look, width: int) -> Line:
    """One line about the last act."""
    mark = ("+" if good else "!") if look.plain else ("✓" if good else "▲")
    return [(f" {mark} ", look.running if good else look.attention), (cut(message, width - 4), look.strong)]
