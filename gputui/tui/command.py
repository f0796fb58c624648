"""The `:` line: the verbs of the command line, on typed ids or on the row under the cursor."""

from typing import TYPE_CHECKING

from gputui.tui.keymap import BY_ID, KEYS

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

_ALIASES = {
    "q": "quit", "q!": "quit", "quit": "quit", "exit": "quit", "h": "help", "top": "first", "thaw": "freeze",
    "running": "view_active", "active": "view_active", "queue": "view_queue", "ended": "view_ended", "all": "view_all",
    "drain": "cordon", "uncordon": "cordon", "move": "move_to", "log": "logs",
}  # fmt: skip
_ON_IDS = ("hold", "release", "cancel", "requeue")
HINT = "queue · running · ended · goto ID · hold ID… · cancel ID… · filter TEXT · freeze · help · quit"
_history: list[str] = []


async def ask(screen: "MainScreen") -> None:
    """Type a command and run it."""
    from gputui.tui.widgets.dialogs import Prompt

    answer = await screen.app.push_screen_wait(Prompt(":", hint=HINT, history=_history))
    if answer:
        _history.append(answer)
        await run(screen, answer)


async def run(screen: "MainScreen", text: str) -> None:
    """Run a typed command; what is none says so."""
    verb, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    if verb in ("filter", "/"):
        from gputui.tui.screens.looking import set_filter

        return set_filter(screen, rest)
    if verb in ("goto", "job", "show") or verb.lstrip("#").isdecimal():
        return await go_to(screen, rest or verb)
    if verb in _ON_IDS and rest:
        return await _on_ids(screen, verb, rest)
    name = _ALIASES.get(verb, verb)
    if name not in BY_ID or rest:
        return screen.flash(f"There is no command “{text}”; :help lists them.", good=False)
    if screen.check_action("do", (name,)) is not True:
        return screen.flash(f"“{verb}” does nothing on this screen.", good=False)
    return screen.acts.bind(name)() if BY_ID[name].acts else screen.action_do(name)


def _ids(text: str) -> list[int] | None:
    words = text.replace(",", " ").replace("#", " ").split()
    return [int(word) for word in words] if words and all(word.isdecimal() for word in words) else None


async def _on_ids(screen: "MainScreen", verb: str, text: str) -> None:
    ids = _ids(text)
    if ids is None:
        return screen.flash(f"“{text}” are no job ids.", good=False)
    if screen.readonly:
        return screen.flash("This screen is read-only.", good=False)
    rows = [await screen.backend.job(number) for number in ids]
    names = [f"#{row['id']} {row['name']} · {row['owner']} · {row['state']}" for row in rows]
    if not await screen.confirm(
        f"{verb.capitalize()} {len(ids)} job{'s' if len(ids) > 1 else ''}?", names, verb.capitalize()
    ):
        return None
    reply = await screen.backend.act(verb, ids, "", {row["id"]: row["version"] for row in rows})
    screen.flash(reply["message"])
    return screen.want_window()


async def go_to(screen: "MainScreen", text: str) -> None:
    """Put the cursor on a job, in the view where it is."""
    from gputui.tui.backend import View
    from gputui.tui.widgets.detail import ACTIVE, ENDED

    ids = _ids(text)
    if ids is None:
        return screen.flash(f"“{text}” is no job id.", good=False)
    row = await screen.backend.job(ids[0])
    scope = "active" if row["state"] in ACTIVE else "ended" if row["state"] in ENDED else "queue"
    screen.jobs.focus()
    if screen.jobs.view.scope == scope and screen.jobs.go_to(row["id"]):
        return None
    screen.show_view(View(scope))
    # the window is asked for around it, and the cursor finds it there
    screen.jobs.cursor_id = row["id"]
    return None


def palette() -> list[tuple[str, str, str]]:
    """(id, words, help) of every command, for the palette."""
    return [(key.id, f"{key.label} ({key.face})", key.help) for key in KEYS if key.id != "palette"]
