"""The audit log, for reading."""

from typing import Any

from gputui.daemon.context import Context
from gputui.protocol import AuditRow
from gputui.store import audit


class AuditLog:
    """Rows, and whether they are whole."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    async def rows(self, limit: int, subject: str | None) -> list[AuditRow]:
        """The newest rows first, of one subject if given (`job 12`)."""
        found = await self._ctx.read(lambda session: audit.rows(session, limit, subject))
        return [
            {
                "seq": row.seq,
                "at": row.at.isoformat(),
                "who": row.who,
                "session": row.session,
                "act": row.act,
                "subject": row.subject,
                "before": audit.loads(row.before),
                "after": audit.loads(row.after),
                "reason": row.reason,
            }
            for row in found
        ]

    async def verify(self) -> dict[str, Any]:
        """Check the whole chain: `ok`, `rows`, `head`, `problem`."""
        return dict((await self._ctx.read(audit.verify))._asdict())
