"""How things look: four colours with a meaning, each with a glyph and a word beside it; for 16 colours and for more."""

import os
from dataclasses import dataclass

from rich.style import Style


@dataclass(frozen=True)
class Look:
    """Styles by meaning. `plain`: a console without block characters gets ASCII."""

    name: str
    running: Style
    waiting: Style
    attention: Style
    lost: Style
    text: Style
    strong: Style
    dim: Style
    title: Style
    cursor: Style
    """Laid over the row under the cursor of the panel that has the focus; its text colour, if any, hides the others."""
    cursor_away: Style
    """The same in the panel that has not."""
    track: Style
    """The empty part of a bar."""
    key: Style
    banner: Style
    ansi: bool = True
    plain: bool = False


def _ansi(dim: str, plain: bool, light: bool) -> Look:
    return Look(
        name="ansi-light" if light else "ansi-dark",
        running=Style.parse("green"),
        waiting=Style.parse("blue" if light else "cyan"),
        attention=Style.parse("magenta" if light else "yellow"),
        lost=Style.parse("red bold"),
        text=Style.null(),
        strong=Style.parse("bold"),
        dim=Style.parse(dim),
        title=Style.parse("bold"),
        cursor=Style.parse("white on blue" if light else "black on cyan"),
        cursor_away=Style.parse("bold"),
        track=Style.parse(dim),
        key=Style.parse("bold blue" if light else "bold cyan"),
        banner=Style.parse("bold reverse magenta" if light else "bold reverse yellow"),
        plain=plain,
    )


DARK = Look(
    name="gputui-dark",
    running=Style.parse("#7fd88f"),
    waiting=Style.parse("#6cb6ff"),
    attention=Style.parse("#f2b84b"),
    lost=Style.parse("bold #ff6b6b"),
    text=Style.parse("#d5dae1"),
    strong=Style.parse("bold #f4f6f8"),
    dim=Style.parse("#7d8794"),
    title=Style.parse("bold #c3cad4"),
    cursor=Style.parse("on #2b3a52"),
    cursor_away=Style.parse("on #1d2530"),
    track=Style.parse("on #1f2630"),
    key=Style.parse("bold #6cb6ff"),
    banner=Style.parse("bold #14181d on #f2b84b"),
    ansi=False,
)
LIGHT = Look(
    name="gputui-light",
    running=Style.parse("#1a7f37"),
    waiting=Style.parse("#0550ae"),
    attention=Style.parse("#9a5b00"),
    lost=Style.parse("bold #cf222e"),
    text=Style.parse("#24292f"),
    strong=Style.parse("bold #0d1117"),
    dim=Style.parse("#656d76"),
    title=Style.parse("bold #424a53"),
    cursor=Style.parse("on #cfe3ff"),
    cursor_away=Style.parse("on #e7ebf0"),
    track=Style.parse("on #e4e8ed"),
    key=Style.parse("bold #0550ae"),
    banner=Style.parse("bold #ffffff on #9a5b00"),
    ansi=False,
)
NAMES = ("auto", "dark", "light", "ansi")


def choose(setting: str = "auto", color_system: str | None = "standard") -> Look:
    """The look for this terminal: RGB where it can, else its own 16 colours, so that state is readable everywhere."""
    term = os.environ.get("TERM", "")
    light = _light_background()
    if setting == "ansi" or (setting == "auto" and color_system != "truecolor"):
        # bright black, the usual grey, is invisible on some 16-colour palettes; the default colour never is
        dim = "bright_black" if color_system in ("256", "truecolor") else ""
        return _ansi(dim, plain=term in ("linux", "dumb"), light=light)
    if setting == "light" or (setting == "auto" and light):
        return LIGHT
    return DARK


def _light_background() -> bool:
    """COLORFGBG is the one hint about the background that needs no answer from the terminal."""
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return background in ("7", "15")


GLYPHS = {
    "queued": "○", "held": "‖", "starting": "◐", "running": "●", "checkpointing": "●", "stopping": "◑",
    "suspended": "‖", "succeeded": "✓", "failed": "✗", "cancelled": "−", "lost": "✗",
    "free": "○", "busy": "●", "idle": "◔", "foreign": "◆", "releasing": "◌", "quarantined": "▲", "unknown": "?",
    "cordoned": "▲",
}  # fmt: skip
_PLAIN = {
    "○": "o", "‖": "=", "◐": ">", "●": "*", "◑": "<", "✓": "+", "✗": "x", "−": "-", "◆": "#", "◌": "~", "▲": "!",
    "◔": "z",
}  # fmt: skip
_ROLES = {
    "running": "running", "checkpointing": "running", "starting": "running", "busy": "running", "succeeded": "running",
    "queued": "waiting", "free": "waiting", "releasing": "waiting", "stopping": "waiting",
    "held": "attention", "suspended": "attention", "foreign": "attention", "quarantined": "attention",
    "cordoned": "attention", "unknown": "attention", "idle": "attention",
    "failed": "lost", "lost": "lost",
    "cancelled": "dim",
}  # fmt: skip


def glyph(look: Look, state: str) -> str:
    """One character for a state of a job or GPU."""
    found = GLYPHS.get(state, "?")
    return _PLAIN.get(found, found) if look.plain else found


def style(look: Look, state: str) -> Style:
    """The colour of a state of a job or GPU."""
    found = getattr(look, _ROLES.get(state, "text"))
    assert isinstance(found, Style)
    return found
