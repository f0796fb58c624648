"""A running screen on the daemon in memory."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

os.environ["COLORTERM"] = "truecolor"

import pytest
from textual.pilot import Pilot

from gputui.tui.app import GputuiApp
from gputui.tui.screens.main import MainScreen
from tests.support.pty import DEADLINE_S, Terminal
from tests.tui.fake import NOW, FakeBackend


@pytest.fixture(autouse=True)
def _zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


PROGRAM = [sys.executable, "-m", "tests.tui.program"]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def shown() -> Iterator[Terminal]:
    with Terminal(PROGRAM, cwd=ROOT) as terminal:
        terminal.wait_for("#420 pretrain-13b")
        yield terminal


class Shown:
    """The app under test: keys in, picture out."""

    def __init__(self, app: GputuiApp, pilot: Pilot[None], backend: FakeBackend) -> None:
        self.app = app
        self.pilot = pilot
        self.backend = backend
        self.main: MainScreen = app.main

    def text(self) -> str:
        """The picture as text, one line per row."""
        lines = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in lines)

    def lines(self) -> list[str]:
        return self.text().split("\n")

    def row(self, part: str) -> str:
        """The line of the picture with `part` in it."""
        return next(line for line in self.lines() if part in line)

    async def until(self, wanted: Callable[[], Any] | str) -> None:
        """Return once the picture shows the text, or the predicate holds; fail at the deadline with the picture."""
        check = (lambda: wanted in self.text()) if isinstance(wanted, str) else wanted
        deadline = time.monotonic() + DEADLINE_S
        while True:
            await self.pilot.pause()
            if check():
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"never came: {wanted}\n{self.text()}")
            await asyncio.sleep(0.02)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    @property
    def flash(self) -> str:
        return self.main._flash[0]

    def calls(self, name: str) -> list[tuple[Any, ...]]:
        return [call for call in self.backend.calls if call[0] == name]


@asynccontextmanager
async def screen(
    backend: FakeBackend | None = None, size: tuple[int, int] = (120, 40), **options: Any
) -> AsyncGenerator[Shown, None]:
    """A running screen that has drawn its first rows."""
    backend = backend or FakeBackend()
    app = GputuiApp(backend, clock=lambda: NOW, **options)
    async with app.run_test(size=size) as pilot:
        shown = Shown(app, pilot, backend)
        if options.get("monitor"):
            await shown.until(lambda: shown.main.gpus.count or shown.main.gpus.problem)
        else:
            await shown.until(lambda: shown.main.jobs.version >= 0 and shown.main.reply)
        await pilot.pause()
        yield shown


def ids_on_screen(shown: Shown) -> list[int | None]:
    """The jobs on screen, from the first line of the table on; None: not fetched yet."""
    jobs = shown.main.jobs
    return [jobs.key(index) for index in range(jobs.top, min(jobs.total, jobs.top + jobs.page))]
