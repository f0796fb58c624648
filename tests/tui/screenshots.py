"""Pictures of the screen: `python -m tests.tui.screenshots OUTDIR [STATE...]` writes SVG files of the running app.

Without a state: the few that are kept in `screenshots/`. `everything`: each state at each size and in each look.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ["COLORTERM"] = "truecolor"
os.environ.setdefault("TZ", "UTC")

from gputui.tui.app import GputuiApp
from gputui.tui.settings import Settings
from tests.tui.fake import NOW, FakeBackend

SIZES = ((120, 40), (80, 24), (40, 12), (200, 60))
LOOKS = ("dark", "light", "ansi")
KEPT = (
    ("main", (120, 40), "dark"), ("main", (80, 24), "dark"), ("main", (200, 60), "dark"),
    ("main", (120, 40), "light"), ("main", (120, 40), "ansi"),
    ("running", (120, 40), "dark"), ("why", (120, 40), "dark"), ("log", (120, 40), "dark"), ("help", (120, 40), "dark"),
)  # fmt: skip
"""What stands in the repository."""
STATES: dict[str, Sequence[str]] = {
    "main": (),
    "running": ("2",),
    "ended": ("3",),
    "gpu": ("tab", "down", "down", "down", "down"),
    "cancel": ("X",),
    "help": ("question_mark",),
    "log": ("2", "l"),
    "why": ("w",),
    "filter": ("slash", *"sft"),
}


def name(state: str, size: tuple[int, int], look: str) -> str:
    """The file of a picture."""
    return f"{state}-{size[0]}x{size[1]}" + ("" if look == "dark" else f"-{look}") + ".svg"


async def picture(folder: Path, state: str, size: tuple[int, int], look: str) -> None:
    """One picture of a state reached by its keys."""
    app = GputuiApp(FakeBackend(), settings=Settings(look), clock=lambda: NOW)
    async with app.run_test(size=size) as pilot:
        for _ in range(10):
            await pilot.pause()
        for key in STATES[state]:
            await pilot.press(key)
            await pilot.pause(0.05)
        await pilot.pause(0.4)
        (folder / name(state, size, look)).write_text(app.export_screenshot(title="gputui"), "utf-8")


async def main(folder: Path, only: Sequence[str]) -> None:
    """The pictures asked for."""
    wanted = KEPT
    if only:
        states = list(STATES) if "everything" in only else only
        wanted = tuple((state, size, look) for state in states for size in SIZES for look in LOOKS)
    for state, size, look in wanted:
        await picture(folder, state, size, look)


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
