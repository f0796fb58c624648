"""What the screen takes from the settings file: the section `[screen]` (`look`) and `[keys]` (command id = keys)."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from gputui import paths
from gputui.tui.keymap import BY_ID
from gputui.tui.theme import NAMES


@dataclass(frozen=True, slots=True)
class Settings:
    """`problem`: one sentence about what was not understood and is left at its default."""

    look: str = "auto"
    keys: dict[str, str] = field(default_factory=dict)
    problem: str = ""


def load(path: Path | None = None) -> Settings:
    """The settings in `path` (else where they belong); defaults where there is no file. Never fails."""
    path = path or paths.settings_file()
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return Settings(problem=f"The settings in {path} cannot be read: {error}.")
    screen, keys = found.get("screen", {}), found.get("keys", {})
    if not isinstance(screen, dict) or not isinstance(keys, dict):
        return Settings(problem=f"In {path}, screen and keys are sections: write [screen] and [keys].")
    look = screen.get("look", "auto")
    problem = ""
    if look not in NAMES:
        look, problem = "auto", f"screen.look is {look!r} in {path}: write one of {', '.join(NAMES)}."
    remapped: dict[str, str] = {}
    for name, value in keys.items():
        if name not in BY_ID:
            problem = f"keys.{name} in {path} is no command: there are {', '.join(BY_ID)}."
        elif not isinstance(value, str) or not value:
            problem = f"keys.{name} is {value!r} in {path}: write a key in quotes."
        else:
            remapped[name] = value
    return Settings(str(look), remapped, problem)
