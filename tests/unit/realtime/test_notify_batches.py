"""A write that concerns many subscribers: all are notified, but not in one turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.realtime.subscription import Subscription
from tests.support.fakes import TickingClock
from tests.support.scene import Scene

MANY = 300


class Consumer:
    """Takes everything when it is notified."""

    def __init__(self, source: Subscription) -> None:
        self.source = source
        self.seen: list[Any] = []
        source.on_ready = self.run
        self.run()

    def run(self) -> None:
        while events := self.source.take(10):
            self.seen += [event.id for event in events]


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[tuple[Scene, list[Consumer]]]:
    scene = Scene(tmp_path / "store")
    consumers = [Consumer(scene.subscribe(omit_current=True)) for _ in range(MANY)]
    scene.settle()
    scene.hub.now = TickingClock(looks_a_slice=2).monotonic
    yield scene, consumers
    scene.hub.close()
    scene.store.close()


def notified(consumers: list[Consumer]) -> int:
    return sum(bool(consumer.seen) for consumer in consumers)


def test_a_turn_notifies_as_many_as_fit_into_a_slice(crowd: tuple[Scene, list[Consumer]]) -> None:
    scene, consumers = crowd
    scene.put("x", a=1)
    first = notified(consumers)
    assert 0 < first < MANY
    scene.loop.run_once()
    assert first < notified(consumers) < MANY
    scene.settle()
    assert [consumer.seen for consumer in consumers] == [["x"]] * MANY


def test_commits_in_the_meantime_keep_their_order(crowd: tuple[Scene, list[Consumer]]) -> None:
    scene, consumers = crowd
    for key in "abcd":
        scene.put(key, a=1)
        scene.loop.run_once()
    scene.settle()
    assert [consumer.seen for consumer in consumers] == [list("abcd")] * MANY


def test_consumers_that_close_before_they_are_notified(crowd: tuple[Scene, list[Consumer]]) -> None:
    scene, consumers = crowd
    scene.put("x", a=1)
    gone = [consumer for consumer in consumers if not consumer.seen][:10]
    for consumer in gone:
        consumer.source.close()
    scene.settle()
    assert notified(consumers) == MANY - len(gone)
    assert len(scene.hub) == MANY - len(gone)
