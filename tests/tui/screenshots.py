"""Pictures of the screen's main states: `python -m tests.tui.screenshots OUTDIR` writes SVG files."""

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


async def picture(folder: Path, name: str, keys: Sequence[str], size: tuple[int, int], look: str = "auto") -> None:
    """One picture of a state reached by `keys`."""
    app = GputuiApp(FakeBackend(), settings=Settings(look), clock=lambda: NOW)
    async with app.run_test(size=size) as pilot:
        for _ in range(10):
            await pilot.pause()
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.05)
        await pilot.pause(0.4)
        (folder / f"{name}-{size[0]}x{size[1]}.svg").write_text(app.export_screenshot(title="gputui"), "utf-8")


async def main(folder: Path, only: Sequence[str]) -> None:
    """Every state at every size."""
    for size in SIZES:
        for name, keys in STATES.items():
            if not only or name in only:
                await picture(folder, name, keys, size)
    if not only or "light" in only:
        await picture(folder, "light", (), (120, 40), "light")
    if not only or "ansi" in only:
        await picture(folder, "ansi", (), (120, 40), "ansi")


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
