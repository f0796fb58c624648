"""The settings a daemon starts with: each change is a new version in the store and a row of the audit log."""

from typing import Any

from sqlmodel import Session

from gputui.config import Settings
from gputui.daemon.context import DAEMON, Context
from gputui.store import audit, settings

KEY = "daemon"
HIDDEN = "(hidden)"


async def record(ctx: Context) -> None:
    """Note the settings in force, if they are not those of the last start. Raises `StoreUnavailable`."""
    now = shown(ctx.settings)
    before = await ctx.read(lambda session: settings.current(session, KEY)) or {}
    if before == now:
        return
    changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    at = ctx.clock.now()

    def work(session: Session) -> None:
        settings.put(session, KEY, now, at=at, uid=DAEMON.uid, who=DAEMON.user)
        audit.append(
            session, at=at, uid=DAEMON.uid, who=DAEMON.user, session_token="", act="settings.change",
            subject="the daemon's settings", before={name: before.get(name) for name in changed},
            after={name: now.get(name) for name in changed},
        )  # fmt: skip

    await ctx.act(lambda: ctx.write(work))


def shown(found: Settings) -> dict[str, Any]:
    """The settings as JSON; a database URL may hold a password."""
    values = found.model_dump(mode="json")
    return {**values, "store": HIDDEN} if found.store else values
