"""What a daemon was set to is known afterwards, without its secrets."""

from pathlib import Path

from gputui.daemon.services.settings import HIDDEN, KEY
from gputui.store import audit, settings
from tests.support.core import Core


async def test_each_change_of_the_settings_is_a_version_and_an_audit_row(home: Path) -> None:
    secret = f"sqlite:///{home}/hunter2.db"
    told = []
    for changes in ({"store": secret}, {"store": secret}, {"store": secret, "log_days": 7}):
        daemon = Core(home, **changes)
        await daemon.open()
        versions = await daemon.ctx.read(lambda session: settings.history(session, KEY))
        rows = await daemon.ctx.read(lambda session: audit.rows(session, 100))
        told = [row for row in rows if row.act == "settings.change"]
        await daemon.close()
    assert [(one.version, one.value["log_days"], one.value["store"]) for one in versions] == [
        (2, 7, HIDDEN),
        (1, 30, HIDDEN),
    ]
    assert [(row.who, audit.loads(row.before), audit.loads(row.after)) for row in told[:1]] == [
        ("gputui", {"log_days": 30}, {"log_days": 7})
    ]
    assert len(told) == 2
    assert "hunter2" not in "".join(f"{row.before}{row.after}" for row in told)
