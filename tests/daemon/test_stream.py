"""The hub: at most ten events a second per client, bounded, merged, and told to start over when it was too much."""

import asyncio
import json
from typing import Any

import pytest

from gputui.daemon import stream
from gputui.daemon.stream import MOST_CHANGED, Hub


class Pauses:
    """Stands in for the pauses between events: records them, and takes no time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[float] = []
        real = asyncio.sleep

        async def sleep(seconds: float) -> None:
            self.taken.append(seconds)
            await real(0)

        monkeypatch.setattr(stream.asyncio, "sleep", sleep)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    return Pauses(monkeypatch)


async def following(hub: Hub, types: frozenset[str] = stream.TYPES) -> Any:
    """A client that has read its `hello`."""
    lines = hub.listen(types)
    (hello,) = parsed(await anext(lines))
    assert (hello["type"], hello["seq"]) == ("hello", 1)
    return lines


def parsed(lines: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.splitlines() if line]


async def test_events_carry_epoch_and_consecutive_numbers(pauses: Pauses) -> None:
    hub = Hub(epoch=7)
    lines = await following(hub)
    for number in range(3):
        hub.publish("status", {"queued": number})
        (event,) = parsed(await anext(lines))
        assert event == {"epoch": 7, "seq": number + 2, "type": "status", "data": {"queued": number}}
    await lines.aclose()


async def test_what_comes_faster_than_it_is_sent_is_merged(pauses: Pauses) -> None:
    hub = Hub(epoch=1)
    lines = await following(hub)
    for number in range(500):
        hub.publish("gpus", {"sample": number})
        hub.publish("queue", {"version": number, "changed": [number % 7]})
    events = {event["type"]: event["data"] for event in parsed(await anext(lines))}
    assert events == {"gpus": {"sample": 499}, "queue": {"version": 499, "changed": [0, 1, 2, 3, 4, 5, 6]}}
    await lines.aclose()


async def test_each_event_is_paid_for_with_a_tenth_of_a_second(pauses: Pauses) -> None:
    hub = Hub(epoch=1)
    lines = await following(hub)
    sent = 0
    for number in range(20):
        for kind in ("gpus", "status"):
            hub.publish(kind, {"n": number})
        sent += len(parsed(await anext(lines)))
    hub.publish("status", {})
    await anext(lines)
    assert sum(pauses.taken) == pytest.approx(sent / 10)
    await lines.aclose()


async def test_too_many_changes_become_a_resync(pauses: Pauses) -> None:
    hub = Hub(epoch=1)
    lines = await following(hub)
    hub.publish("queue", {"version": 1, "changed": range(MOST_CHANGED + 1)})
    hub.publish("status", {"n": 1})
    assert [event["type"] for event in parsed(await anext(lines))] == ["resync"]
    hub.publish("queue", {"version": 2, "changed": [5]})
    (event,) = parsed(await anext(lines))
    assert (event["seq"], event["type"], event["data"]) == (3, "queue", {"version": 2, "changed": [5]})
    await lines.aclose()


async def test_only_what_was_asked_for_is_told(pauses: Pauses) -> None:
    hub = Hub(epoch=1)
    lines = await following(hub, frozenset({"status"}))
    assert hub.wanted("status")
    assert not hub.wanted("gpus")
    hub.publish("gpus", {"n": 1})
    hub.publish("queue", {"version": 1, "changed": [1]})
    hub.publish("status", {"n": 2})
    assert [event["type"] for event in parsed(await anext(lines))] == ["status"]
    await lines.aclose()
    assert not hub.wanted("status")


async def test_nothing_is_made_while_nobody_listens_and_once_for_all_who_do(pauses: Pauses) -> None:
    hub = Hub(epoch=1)
    made: list[int] = []

    def make() -> dict[str, int]:
        made.append(1)
        return {"n": len(made)}

    hub.publish("gpus", make)
    clients = [await following(hub) for _ in range(3)]
    hub.publish("gpus", make)
    for lines in clients:
        assert parsed(await anext(lines))[0]["data"] == {"n": 1}
        await lines.aclose()
    assert len(made) == 1


async def test_silence_is_broken_by_empty_lines(pauses: Pauses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "KEEP_ALIVE_SECONDS", 0.01)
    lines = await following(Hub(epoch=1))
    assert await anext(lines) == b"\n"
    await lines.aclose()


async def test_a_closed_hub_ends_its_streams(pauses: Pauses) -> None:
    hub = Hub(epoch=1)
    lines = await following(hub)
    hub.close()
    with pytest.raises(StopAsyncIteration):
        await anext(lines)


async def test_names_that_are_not_utf8_cross_as_ascii(pauses: Pauses) -> None:
    hub = Hub(epoch=1)
    lines = await following(hub)
    hub.publish("status", {"name": "\udcff"})
    line = await anext(lines)
    assert line.isascii()
    assert parsed(line)[0]["data"] == {"name": "\udcff"}
    await lines.aclose()
