"""svc.realtime.application_events: subscriptions to nothing, which applications fill (spec: realtime §1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from svc.realtime.application_events import ApplicationEvents
from svc.realtime.event import EndReason
from svc.realtime.limits import MAX_SENT


class Consumer:
    def __init__(self, events: ApplicationEvents) -> None:
        self.events = events
        self.got: list[Any] = []
        self.calls = 0
        events.on_ready = self.run
        self.run()

    def run(self) -> None:
        self.calls += 1
        while found := self.events.take(2):
            self.got += found


def test_sent_items_are_taken_in_order() -> None:
    events = ApplicationEvents()
    events.send(1)
    events.send(None)
    consumer = Consumer(events)
    for item in ({"a": 1}, "x", 0):
        events.send(item)
    assert consumer.got == [1, None, {"a": 1}, "x", 0]
    assert events.ended is None


def test_on_ready_is_called_only_after_an_empty_take() -> None:
    events = ApplicationEvents()
    calls: list[int] = []
    events.on_ready = lambda: calls.append(1)
    events.send(1)
    assert not calls
    assert events.take(5) == [1] and events.take(5) == []
    events.send(2)
    events.send(3)
    assert calls == [1]


def test_the_end_comes_after_what_was_sent() -> None:
    events = ApplicationEvents()
    why: list[Any] = []
    events.on("close", why.append)
    consumer = Consumer(events)
    events.send(1)
    events.end()
    events.send(2)
    events.end()
    assert (consumer.got, events.ended, why) == ([1], EndReason.FINISHED, [EndReason.FINISHED])
    assert events.take(5) == []


def test_the_consumer_going_away_is_an_end() -> None:
    events = ApplicationEvents()
    why: list[Any] = []
    events.on("close", why.append)
    events.send(1)
    events.close()
    assert (events.take(5), events.ended, why) == ([], EndReason.FINISHED, [EndReason.FINISHED])


def test_too_many_items_that_are_not_taken() -> None:
    events = ApplicationEvents()
    for number in range(MAX_SENT):
        events.send(number)
    assert events.ended is None
    events.send(0)
    assert events.ended is EndReason.TOO_SLOW and events.take(5) == []


def test_iteration() -> None:
    async def run() -> list[Any]:
        events = ApplicationEvents()
        found: list[Any] = []

        async def collect() -> None:
            async for item in events:
                found.append(item)  # noqa: PERF401 - one by one is the point

        collecting = asyncio.ensure_future(collect())
        for item in (1, 2):
            events.send(item)
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        events.send(3)
        events.end()
        await asyncio.wait_for(collecting, 5)
        await events.aclose()
        return found

    assert asyncio.run(run()) == [1, 2, 3]


def test_callbacks(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> list[Any]:
        events = ApplicationEvents()
        found: list[Any] = []

        async def later(item: Any) -> None:
            await asyncio.sleep(0)
            if item == "bad":
                raise RuntimeError("broken later")
            found.append(("later", item))

        def fails(item: Any) -> None:
            if item == "bad":
                raise RuntimeError("broken")

        events.send(0)
        events.on("data", found.append)
        events.on("data", fails)
        events.on("data", later)
        events.send(1)
        events.send("bad")
        for _ in range(5):
            await asyncio.sleep(0)
        return found

    assert asyncio.run(run()) == [0, 1, "bad", ("later", 1)]
    assert [record.getMessage() for record in caplog.records] == ["a subscriber failed on data", "a subscriber failed"]
