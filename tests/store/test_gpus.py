"""GPUs seen, their cordons, their minutes; settings and their versions."""

from datetime import timedelta

import pytest

from gputui.domain.errors import Refused
from gputui.store import gpus, settings
from gputui.store.db import Store
from gputui.store.gpus import SeenGpu
from gputui.store.tables import GpuMinute
from tests.store.conftest import AT, HOST

A = SeenGpu("GPU-a", 1, "NVIDIA H100", "h100-80g", 80 << 30)
B = SeenGpu("GPU-b", 0, "NVIDIA L40S", "l40s-48g", None)


@pytest.fixture
def seen(store: Store) -> Store:
    with store.write() as session:
        gpus.see(session, [A, B], host_id=HOST, at=AT)
    return store


def test_what_was_known_stays_when_a_gpu_is_seen_again(seen: Store) -> None:
    later = AT + timedelta(hours=1)
    with seen.write() as session:
        gpus.update_gpu(session, "GPU-a", baselines={"power": 61.5}, lost_cause="Xid 79", lost_since=AT, xid=79)
        gpus.see(session, [SeenGpu("GPU-a", 3, "NVIDIA H100", "h100-80g", None)], host_id=HOST, at=later)
    with seen.read() as session:
        b, a = gpus.all_gpus(session, HOST)
        assert gpus.all_gpus(session, "host-2") == []
    assert (a.uuid, a.index, a.memory_total) == ("GPU-a", 3, 85899345920)
    assert (a.first_seen, a.last_seen, a.baselines) == (AT, later, {"power": 61.5})
    assert (a.lost_cause, a.lost_since, a.xid) == ("Xid 79", AT, 79)
    assert (b.uuid, b.memory_total, b.last_seen, b.baselines, b.cordon_reason) == ("GPU-b", None, AT, None, None)


def test_a_cordon_is_kept_and_lifted(seen: Store) -> None:
    until = AT + timedelta(days=1)
    with seen.write() as session:
        gpus.cordon(session, "GPU-a", reason="fan", by="ann", since=AT, until=until, drain=True)
    with seen.read() as session:
        gpu = gpus.get_gpu(session, "GPU-a")
        assert (gpu.cordon_reason, gpu.cordon_by, gpu.cordon_since) == ("fan", "ann", AT)
        assert (gpu.cordon_until, gpu.drain) == (until, True)
    with seen.write() as session:
        gpus.uncordon(session, "GPU-a")
        gpu = gpus.get_gpu(session, "GPU-a")
        assert (gpu.cordon_reason, gpu.cordon_by, gpu.cordon_since, gpu.drain) == (None, "", None, False)
        with pytest.raises(Refused, match="There is no GPU GPU-x"):
            gpus.uncordon(session, "GPU-x")


def test_minutes_are_kept_for_30_days_and_unknown_stays_unknown(seen: Store) -> None:
    def minute(n: int, **values: object) -> GpuMinute:
        return GpuMinute(gpu_uuid="GPU-a", minute=AT + timedelta(minutes=n), **values)

    with seen.write() as session:
        gpus.insert_minutes(session, [])
        gpus.insert_minutes(session, [minute(0, utilization_mean=50.0, utilization_max=90, memory_mean=7), minute(1)])
        gpus.insert_minutes(session, [minute(1, power_mean=300.5), minute(2)])
    with seen.read() as session:
        found = gpus.minutes(session, "GPU-a", AT, AT + timedelta(minutes=2))
        assert gpus.minutes(session, "GPU-b", AT, AT + timedelta(days=1)) == []
    assert [(row.minute, row.utilization_mean, row.utilization_max, row.power_mean) for row in found] == [
        (AT, 50.0, 90.0, None),
        (AT + timedelta(minutes=1), None, None, 300.5),
    ]
    with seen.write() as session:
        assert gpus.prune_minutes(session, AT + timedelta(days=30)) == 0
        assert gpus.prune_minutes(session, AT + timedelta(days=30, minutes=2)) == 2
        left = gpus.minutes(session, "GPU-a", AT, AT + timedelta(days=1))
    assert [row.minute for row in left] == [AT + timedelta(minutes=2)]


def test_settings_keep_their_versions(store: Store) -> None:
    with store.write() as session:
        assert settings.current(session, "freeze") is None
        assert settings.put(session, "freeze", {"by": "ann"}, at=AT, uid=1, who="ann") == 1
        assert settings.put(session, "freeze", None, at=AT, uid=2, who="bob") == 2
        assert settings.put(session, "other", [1, 2], at=AT, uid=2, who="bob") == 1
    with store.read() as session:
        assert settings.current(session, "freeze") is None
        assert settings.current(session, "other") == [1, 2]
        assert [(row.version, row.value, row.who) for row in settings.history(session, "freeze")] == [
            (2, None, "bob"),
            (1, {"by": "ann"}, "ann"),
        ]
