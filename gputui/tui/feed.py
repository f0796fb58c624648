"""What flows from the daemon to the screen: events as they come, windows as they are wanted."""

import asyncio
from typing import TYPE_CHECKING, cast

from gputui.client import ClientError
from gputui.protocol import DaemonStatus, Event, GpusReply

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

FEWEST_S = 0.25
"""At most one refetch per this long for changes alone; what a key wants comes at once."""
PAGES = 2
"""Pages fetched ahead of and behind the window."""


class Feed:
    """Runs as two workers of the main screen."""

    def __init__(self, screen: "MainScreen") -> None:
        self.screen = screen
        self._wanted = asyncio.Event()
        self._urgent = asyncio.Event()

    def want(self, urgent: bool = False) -> None:
        """The rows near the window should be fetched."""
        self._wanted.set()
        if urgent:
            self._urgent.set()

    async def follow(self) -> None:
        """Take every event, for ever; the client comes back by itself when the daemon does."""
        async for event in self.screen.backend.events():
            try:
                await self._take(event)
            except ClientError as error:
                self.screen.show_away(error.message)

    async def _take(self, event: Event) -> None:
        screen, kind, data = self.screen, event["type"], event["data"]
        if kind == "disconnected":
            screen.show_away(str(data.get("message", "")))
            return
        if kind in ("hello", "resync"):
            if not screen.monitor:
                screen.show_status(await screen.backend.status())
            screen.show_gpus(await screen.backend.gpus())
            self.want(urgent=True)
        elif kind == "gpus":
            screen.show_gpus(cast(GpusReply, data))
        elif kind == "status":
            screen.show_status(cast(DaemonStatus, data))
        elif kind == "queue":
            self.want()
        if screen.away:
            screen.show_away("")

    async def windows(self) -> None:
        """Fetch the window whenever it is wanted, one at a time."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            self._urgent.clear()
            if not self.screen.still and self.screen.acts.moving is None:
                try:
                    await self._fetch()
                except ClientError as error:
                    # the stream tells when the daemon is away, and asks again when it is back
                    if not self.screen.away:
                        self.screen.flash(error.message, good=False)
            try:
                await asyncio.wait_for(self._urgent.wait(), FEWEST_S)
            except TimeoutError:
                continue

    async def _fetch(self) -> None:
        screen, jobs = self.screen, self.screen.jobs
        view, page = jobs.view, jobs.page
        ahead = jobs.cursor - jobs.top + PAGES * page
        reply = await screen.backend.window(
            scope=view.scope,
            anchor=jobs.cursor_id,
            first=jobs.cursor,
            before=ahead,
            after=(PAGES + 1) * page + 1,
            filter=view.filter or None,
            invert=view.invert,
            sort=view.sort or None,
            reverse=view.reverse,
        )
        if jobs.view != view or screen.still or screen.acts.moving is not None:
            self.want(urgent=True)
            return
        screen.counts = reply["counts"]
        from gputui.tui.screens.looking import empty

        jobs.take(reply, empty(view, reply["counts"], screen.readonly))
        screen.redraw()
