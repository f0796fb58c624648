"""The keys that only look: views, filter, sort, marks, copy, pages."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from gputui.client import ClientError
from gputui.protocol import JobRow
from gputui.tui import terminal
from gputui.tui.backend import View
from gputui.tui.text import clean
from gputui.tui.theme import Look
from gputui.tui.widgets.lines import Line, cells_of
from gputui.tui.widgets.queue_columns import VIEWS
from gputui.tui.widgets.queue_table import QueueTable

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

SCOPES = ("queue", "active", "ended", "all")
_WAITING = ("queued", "held")
_ACTIVE = ("starting", "running", "checkpointing", "stopping", "suspended")
_ENDED = ("succeeded", "failed", "cancelled", "lost")


def do(screen: "MainScreen", name: str) -> None:
    """Run a command that changes nothing in the daemon."""
    _COMMANDS[name](screen)


def _sum(counts: dict[str, int], states: tuple[str, ...]) -> int:
    return sum(counts.get(state, 0) for state in states)


def tabs(scope: str, counts: dict[str, int], look: Look, width: int, only_here: bool = False) -> Line:
    """'1 Queue 37  2 Running 5  3 Ended 12 · 1 failed  4 All': every view with its key and how much is in it."""
    failed = counts.get("failed", 0) + counts.get("lost", 0)
    names = (("Queue", _WAITING), ("Running", _ACTIVE), ("Ended", _ENDED), ("All", ()))
    line: Line = []
    for index, (name, states) in enumerate(names):
        here = SCOPES[index] == scope
        if only_here and not here:
            continue
        line.append((f"{index + 1} ", look.key))
        if width < 60 and not here:
            line += [(name[:3], look.dim), ("  ", look.dim)]
            continue
        known = bool(counts) and bool(states)
        line.append((f"{name} {_sum(counts, states):,}" if known else name, look.strong if here else look.dim))
        if states is _ENDED and failed:
            line += [(" · ", look.dim), (f"{failed:,} failed", look.lost)]
        line.append(("  ", look.dim))
    line.pop()
    return line


def special(jobs: QueueTable, look: Look) -> Line:
    """What is not as usual: filter, sort, marks, a range that was begun."""
    view = jobs.view
    parts: Line = []
    if view.filter:
        parts.append((f"{'without' if view.invert else 'only'} “{clean(view.filter)}”", look.attention))
    if view.sort or view.reverse:
        parts.append((f"by {view.sort or 'queue'}{' reversed' if view.reverse else ''}", look.attention))
    if jobs.marks:
        parts.append((f"{len(jobs.marks):,} marked", look.attention))
    if jobs.range_from is not None:
        parts.append(("range: move, then space", look.attention))
    return parts


def standing(jobs: QueueTable, counts: dict[str, int], look: Look, room: int) -> Line:
    """Filter, sort, marks, how the classes stand, which rows are on screen: as much as `room` cells hold."""
    parts = special(jobs, look)
    if jobs.view.scope == "queue":
        classes = " ".join(f"{name} {counts[name]:,}" for name in ("core", "normal", "filler") if counts.get(name))
        if classes:
            parts.append((classes, look.dim))
    if jobs.total > jobs.page:
        parts.append((f"{jobs.top + 1:,}–{min(jobs.total, jobs.top + jobs.page):,} of {jobs.total:,}", look.dim))
    line: Line = []
    for part in parts:
        more: Line = [(" · ", look.dim), part] if line else [part]
        if cells_of(more) <= room:
            room -= cells_of(more)
            line += more
    return line


def empty(view: View, counts: dict[str, int], readonly: bool) -> list[str]:
    """What an empty view says: what to do next."""
    if view.filter:
        return [f"Nothing here {'but' if view.invert else 'with'} “{clean(view.filter)}”.", "esc clears the filter."]
    if view.scope == "queue":
        lines = ["No job is waiting."]
        if not readonly:
            lines += [
                "Submit one:  gputui submit --gpus 1 -- python train.py",
                "Many:        gputui submit --file jobs.jsonl",
            ]
        active = _sum(counts, _ACTIVE)
        if active or _sum(counts, _ENDED):
            lines.append(f"2 shows the {active} running." if active else "3 shows the jobs that ended.")
        return lines
    if view.scope == "active":
        return ["No job is running.", "1 shows what waits, and for what."]
    return (
        ["No job has ended yet."]
        if view.scope == "ended"
        else ["There is no job yet.", "gputui submit -- python train.py"]
    )


async def tell_where_it_went(screen: "MainScreen", job_id: int) -> None:
    """The job under the cursor left the view: say what became of it."""
    if job_id in screen.acts.touched:
        return
    try:
        row = await screen.backend.job(job_id)
    except ClientError:
        return
    view = {**dict.fromkeys(_ACTIVE, "2"), **dict.fromkeys(_ENDED, "3")}.get(row["state"], "1")
    screen.flash(f"#{job_id} {clean(row['name'])} is {row['state']} now; {view} shows it.")


# --- commands


def _half(screen: "MainScreen") -> int:
    return max(1, screen.table.page // 2)


def _view(scope: str) -> Callable[["MainScreen"], None]:
    def show(screen: "MainScreen") -> None:
        screen.jobs.focus()
        if screen.jobs.view.scope != scope:
            screen.show_view(View(scope, screen.jobs.view.filter, screen.jobs.view.invert))

    return show


def _panel(screen: "MainScreen") -> None:
    (screen.gpus if screen.panel_is_jobs else screen.jobs).focus()


def _describe(screen: "MainScreen") -> None:
    from gputui.tui.screens import pages

    if screen.panel_is_jobs:
        screen.work(pages.job(screen))
    else:
        pages.gpu(screen)


def _why(screen: "MainScreen") -> None:
    from gputui.tui.screens import pages

    screen.work(pages.why(screen))


def _logs(screen: "MainScreen") -> None:
    screen.work(_open_log(screen))


async def _open_log(screen: "MainScreen") -> None:
    from gputui.tui.widgets.log_view import LogView

    job = await job_here(screen)
    if job is None:
        screen.flash("No job is under the cursor.", good=False)
        return
    screen.app.push_screen(LogView(screen.backend, job, screen.look))


async def job_here(screen: "MainScreen") -> JobRow | None:
    """The job under the cursor; on a GPU row the one that holds it."""
    if screen.panel_is_jobs:
        return screen.jobs.current
    gpu = screen.gpus.current
    return await screen.backend.job(gpu["job_id"]) if gpu and gpu["job_id"] is not None else None


def _filter(screen: "MainScreen") -> None:
    screen.work(_ask_filter(screen))


async def _ask_filter(screen: "MainScreen") -> None:
    """The rows follow what is typed; escape brings back what was there before."""
    from gputui.tui.widgets.dialogs import Prompt

    view, here = screen.jobs.view, screen.jobs.cursor_id
    before = ("!" if view.invert else "") + view.filter
    hint = "text in a name, owner, state … · !text: all but it"
    answer = await screen.app.push_screen_wait(Prompt("/", before, hint, typed=lambda text: set_filter(screen, text)))
    if answer is None and screen.jobs.view != view:
        screen.jobs.cursor_id = here
    set_filter(screen, before if answer is None else answer)


def set_filter(screen: "MainScreen", text: str) -> None:
    """Show only rows with `text`; all but them when it begins with '!'."""
    view = replace(screen.jobs.view, filter=text.removeprefix("!").strip(), invert=text.startswith("!"))
    if view != screen.jobs.view:
        screen.show_view(view)


def _command(screen: "MainScreen") -> None:
    from gputui.tui import command

    screen.work(command.ask(screen))


def _sort(step: int) -> Callable[["MainScreen"], None]:
    def change(screen: "MainScreen") -> None:
        view = screen.jobs.view
        names = ["", *dict.fromkeys(column.sort for column in VIEWS[view.scope] if column.sort)]
        at = names.index(view.sort) if view.sort in names else 0
        screen.show_view(replace(view, sort=names[(at + step) % len(names)]))

    return change


def _reverse(screen: "MainScreen") -> None:
    screen.show_view(replace(screen.jobs.view, reverse=not screen.jobs.view.reverse))


def _mark(screen: "MainScreen") -> None:
    if screen.jobs.range_from is not None:
        screen.work(_end_range(screen))
        return
    screen.jobs.toggle_mark()
    screen.jobs.move_cursor(screen.jobs.cursor + 1)
    screen.redraw()


def _range(screen: "MainScreen") -> None:
    if screen.jobs.range_from is not None:
        screen.work(_end_range(screen))
        return
    screen.jobs.range_from = screen.jobs.cursor
    screen.jobs.refresh_row(screen.jobs.cursor)
    screen.redraw()


async def _end_range(screen: "MainScreen") -> None:
    """The daemon says which rows lie between: the screen has only those near the window."""
    jobs = screen.jobs
    if jobs.range_from is None:
        return
    first, last = sorted((jobs.range_from, jobs.cursor))
    view = jobs.view
    reply = await screen.backend.window(
        scope=view.scope, first=first, before=0, after=last - first + 1,
        filter=view.filter or None, invert=view.invert, sort=view.sort or None, reverse=view.reverse,
    )  # fmt: skip
    for offset, row in enumerate(reply["jobs"]):
        if first <= reply["first"] + offset <= last:
            jobs.marks[row["id"]] = row["version"]
    jobs.range_from = None
    jobs.refresh()
    screen.redraw()


def _clear(screen: "MainScreen") -> None:
    if screen.jobs.clear_marks():
        screen.redraw()
        return
    view = screen.jobs.view
    if view.filter or view.sort or view.reverse:
        screen.show_view(View(view.scope))


def _copy(screen: "MainScreen") -> None:
    if screen.panel_is_jobs:
        marks = screen.jobs.marks
        job = screen.jobs.current
        text = " ".join(map(str, marks)) if marks else str(job["id"]) if job else ""
    else:
        gpu = screen.gpus.current
        text = gpu["uuid"] if gpu else ""
    if not text:
        screen.flash("Nothing is under the cursor.", good=False)
        return
    sequence = terminal.clipboard(text)
    if sequence is None:
        screen.flash("Too much for the terminal's clipboard; mark fewer rows.", good=False)
        return
    screen.write(sequence)
    shown = text if len(text) < 60 else f"{len(marks)} ids"
    screen.flash(f"Sent {shown} to your terminal's clipboard (OSC 52; some terminals refuse it).")


def _picture(screen: "MainScreen") -> None:
    screen.paused = not screen.paused
    if screen.paused:
        screen.redraw()
    else:
        screen.go_on()


def _mouse(screen: "MainScreen") -> None:
    driver = screen.app._driver
    if not isinstance(driver, terminal.TerminalDriver):
        screen.flash("This terminal has no mouse.", good=False)
        return
    on = not driver._mouse
    driver.set_mouse(on)
    screen.flash("Mouse on; hold Shift (or Option) to select text, m turns it off." if on else "Mouse off.")


def _refresh(screen: "MainScreen") -> None:
    screen.refresh(layout=True)
    screen.go_on()


def _help(screen: "MainScreen") -> None:
    from gputui.tui.widgets.help import Page, help_text

    body = help_text(screen.look, screen.faces, screen.readonly, screen.monitor)
    screen.app.push_screen(Page("gputui: keys", body))


def _palette(screen: "MainScreen") -> None:
    screen.app.action_command_palette()


def _quit(screen: "MainScreen") -> None:
    screen.app.exit(return_code=0)


def _interrupt(screen: "MainScreen") -> None:
    screen.app.action_help_quit()


def _suspend(screen: "MainScreen") -> None:
    screen.app.action_suspend_process()


_COMMANDS: dict[str, Callable[["MainScreen"], None]] = {
    "down": lambda screen: screen.table.move_cursor(screen.table.cursor + 1),
    "up": lambda screen: screen.table.move_cursor(screen.table.cursor - 1),
    "first": lambda screen: screen.table.move_cursor(0),
    "last": lambda screen: screen.table.move_cursor(screen.table.count - 1),
    "page_down": lambda screen: screen.table.move_cursor(screen.table.cursor + _half(screen)),
    "page_up": lambda screen: screen.table.move_cursor(screen.table.cursor - _half(screen)),
    **{f"view_{scope}": _view(scope) for scope in SCOPES},
    "panel": _panel,
    "describe": _describe,
    "logs": _logs,
    "why": _why,
    "filter": _filter,
    "command": _command,
    "palette": _palette,
    "sort_next": _sort(1),
    "sort_previous": _sort(-1),
    "reverse": _reverse,
    "mark": _mark,
    "range": _range,
    "clear": _clear,
    "copy": _copy,
    "picture": _picture,
    "mouse": _mouse,
    "refresh": _refresh,
    "help": _help,
    "quit": _quit,
    "interrupt": _interrupt,
    "suspend": _suspend,
}
