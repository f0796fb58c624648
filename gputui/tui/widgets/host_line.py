"""The first line: which machine, how its GPUs stand, the host, what needs attention, the clock."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from gputui.protocol import GpuRow, HostRow
from gputui.tui import bars
from gputui.tui.text import GIB, clean
from gputui.tui.theme import Look
from gputui.tui.widgets.gpu_table import cut_into_instances, shown_state
from gputui.tui.widgets.lines import Line, cells_of

_STATES = ("busy", "idle", "free", "foreign", "releasing", "cordoned", "quarantined", "lost", "unknown")


def counts(gpus: Sequence[GpuRow], look: Look) -> Line:
    """'8 GPUs · 5 busy 2 free 1 cordoned'; a GPU cut into MIG instances is not one more beside them."""
    whole = cut_into_instances(gpus)
    gpus = [gpu for gpu in gpus if gpu["uuid"] not in whole]
    found = Counter(shown_state(gpu) for gpu in gpus)
    line: Line = [(f"{len(gpus)} GPU{'' if len(gpus) == 1 else 's'}", look.strong)]
    paints = {"busy": look.running, "free": look.waiting, "lost": look.lost}
    for index, state in enumerate(state for state in _STATES if found[state]):
        line.append((" · " if not index else " ", look.dim))
        line.append((f"{found[state]} {state}", paints.get(state, look.attention)))
    return line


def host_line(  # noqa: PLR0917 - what one line is about
    host: HostRow | None, gpus: Sequence[GpuRow], attention: int, role: str, look: Look, now: datetime, width: int
) -> Line:
    """As much as fits, the clock and what needs attention last to go."""
    if width < 60:
        return [(" ", look.dim), *counts(gpus, look)[2:]]
    name = clean(host["hostname"]) if host else "…"
    left: Line = [(" gputui ", look.title), (f" {name}", look.strong), (" · ", look.dim), *counts(gpus, look)]
    right: Line = [(f"{now.astimezone():%H:%M:%S %Z} ", look.text)]
    if attention:
        mark = "!" if look.plain else "▲"
        words = f"{mark} {attention} need attention" if width >= 140 else f"{mark} {attention}"
        right = [(words, look.attention), ("   ", look.dim), *right]
    if role:
        right = [(role, look.attention), ("   ", look.dim), *right]
    room = width - cells_of(left) - cells_of(right) - 1
    if room < 0:
        left = [*left[:2], ("  ", look.dim), *counts(gpus, look)[2:]]
        room = width - cells_of(left) - cells_of(right) - 1
    middle: Line = []
    for part in _readings(host, look) if host else []:
        if cells_of(middle) + cells_of(part) + 3 > room:
            break
        middle += [("   ", look.dim), *part]
    gap = max(1, width - cells_of(left) - cells_of(middle) - cells_of(right))
    return [*left, *middle, (" " * gap, look.dim), *right]


def _readings(host: HostRow, look: Look) -> list[Line]:
    parts: list[Line] = []
    if host["cpu_percent"] is None:
        parts.append([("cpu ", look.dim), ("?", look.attention)])
    else:
        graph = bars.sparkline(host["cpu_history"], 5, look.plain)
        # of one width always: what stands to the right must not jump about
        parts.append([("cpu ", look.dim), (graph, look.waiting), (f"{host['cpu_percent']:3.0f}%", look.text)])
    used, total = host["memory_used"], host["memory_total"]
    if used is None or total is None:
        parts.append([("ram ", look.dim), ("?", look.attention)])
    else:
        parts.append([("ram ", look.dim), (f"{used / GIB:.0f}/{total / GIB:.0f}G", look.text)])
    for mount, taken, whole in host["disks"]:
        share = taken / whole if whole else 0.0
        parts.append([(f"{clean(mount)} ", look.dim), (f"{share:.0%}", look.attention if share >= 0.9 else look.text)])
    load = host["load_1m"]
    if load is not None:
        parts.append([("load ", look.dim), (f"{load:.1f}", look.text), (f" of {host['cpu_count']}", look.dim)])
    return parts
