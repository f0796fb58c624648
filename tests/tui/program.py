"""The screen on the daemon in memory, as a program of its own for tests on a real terminal.

`python -m tests.tui.program [--crash] [--readonly] [--ascii]`.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence

from gputui.protocol import Event
from gputui.tui import app
from tests.tui.fake import FakeBackend


class Lively(FakeBackend):
    """Readings each second, as a daemon sends them."""

    async def events(self, types: Sequence[str] = ()) -> AsyncGenerator[Event, None]:
        yield self._event("hello")
        if "--crash" in sys.argv:
            self.rows.append(None)  # type: ignore[arg-type]
        while True:
            await asyncio.sleep(1)
            yield self._event("gpus")


def main() -> int:
    """Run it on this terminal; the exit code."""
    backend = Lively()
    if "--ascii" in sys.argv:
        backend.jobs = [row for row in backend.jobs if row["name"].isascii() and row["owner"].isascii()]
        backend.announce()
    screen = app.GputuiApp(backend, readonly="--readonly" in sys.argv)
    return app._play(screen)


if __name__ == "__main__":
    sys.exit(main())
