"""From a source to a client, as fast as the client takes events (spec: realtime §1 rule 8)."""

from __future__ import annotations

from typing import Any

import pytest

from svc.http.event_pump import HIGH_WATER, MAX_BATCH, EventPump, as_event_source
from svc.realtime.event import EndReason
from tests.support.events import FakeEvent, FakeSource, FakeWriter

SIZE = 1000


class Consumer:
    def __init__(self, source: FakeSource) -> None:
        self.writer = FakeWriter()
        self.ends: list[EndReason] = []
        self.reports: list[BaseException] = []
        self.encoded = 0
        self.pump = EventPump(source, "key", self.encode, self.ends.append, self.reports.append)
        self.pump.start(self.writer, self.writer.write)

    def encode(self, event: Any) -> bytes:
        self.encoded += 1
        data: bytes = event.memo.setdefault("key", str(event.position).encode().rjust(SIZE))
        return data

    @property
    def seen(self) -> list[int]:
        return [int(data) for data in self.writer.written]


def events(*positions: int) -> list[FakeEvent]:
    return [FakeEvent(position) for position in positions]


def test_queued_events_are_sent_at_once_and_later_ones_as_they_come() -> None:
    source = FakeSource(*events(1, 2, 3))
    consumer = Consumer(source)
    assert consumer.seen == [1, 2, 3]
    source.push(*events(4))
    source.push(*events(5, 6))
    assert consumer.seen == [1, 2, 3, 4, 5, 6]
    assert not consumer.pump.is_waiting


def test_bytes_are_shared_by_all_receivers() -> None:
    shared = events(1, 2)
    consumers = [Consumer(FakeSource(*shared)) for _ in range(3)]
    assert [consumer.encoded for consumer in consumers] == [2, 0, 0]
    assert consumers[0].writer.written[0] is consumers[2].writer.written[0]


def test_no_events_are_taken_for_a_client_that_does_not_read() -> None:
    source = FakeSource(*events(*range(500)))
    consumer = Consumer(source)
    assert HIGH_WATER <= consumer.writer.pending < HIGH_WATER + MAX_BATCH * SIZE
    assert consumer.pump.is_waiting
    taken = len(consumer.seen)
    source.push(*events(500))  # however often it says that it has something
    source.on_ready()
    assert len(consumer.seen) == taken
    while consumer.pump.is_waiting:
        consumer.writer.pending = 0
        consumer.pump.run()
    assert consumer.seen == list(range(501))


def test_batches_begin_with_two() -> None:
    """Their sizes are not known: of large events no more than a few are in memory for one client."""
    source = FakeSource(*events(*range(1000)))
    consumer = Consumer(source)
    assert source.asked[:4] == [2, 4, 8, 16] and max(source.asked) <= MAX_BATCH
    source.asked.clear()
    consumer.writer.pending = 0
    consumer.pump.run()
    assert source.asked[0] == 2


def test_a_source_that_waits_is_not_asked_again() -> None:
    source = FakeSource()
    consumer = Consumer(source)
    source.asked.clear()
    source.waiting = True
    source.push(*events(1))
    assert (consumer.seen, source.asked) == ([1], [2])
    source.push(*events(2, 3))
    assert (consumer.seen, source.asked) == ([1, 2, 3], [2, 2, 4]), "two may not be all"


@pytest.mark.parametrize("why", list(EndReason))
def test_the_end_comes_after_the_last_event(why: EndReason) -> None:
    source = FakeSource(*events(1, 2))
    source.ended = why
    consumer = Consumer(source)
    assert consumer.seen == [1, 2]
    assert consumer.ends == [why] and source.closed == 1
    consumer.pump.run()
    consumer.pump.close()
    assert consumer.ends == [why] and source.closed == 1


def test_a_slow_client_gets_the_end_when_it_has_read() -> None:
    source = FakeSource(*events(*range(100)))
    source.ended = EndReason.TOO_SLOW
    consumer = Consumer(source)
    assert not consumer.ends
    while consumer.pump.is_waiting:
        consumer.writer.pending = 0
        consumer.pump.run()
    assert consumer.seen == list(range(100)) and consumer.ends == [EndReason.TOO_SLOW]


def test_after_close_nothing_is_taken() -> None:
    source = FakeSource(*events(1))
    consumer = Consumer(source)
    consumer.pump.close()
    source.push(*events(2))
    consumer.pump.run()
    assert consumer.seen == [1] and source.closed == 1 and not consumer.ends


def test_closed_before_it_starts() -> None:
    source = FakeSource()
    pump = EventPump(source, "key", lambda event: b"", lambda why: None, lambda error: None)
    pump.close()
    writer = FakeWriter()
    pump.start(writer, writer.write)
    assert source.closed == 1 and not writer.written


@pytest.mark.parametrize("where", ["take", "encode"])
def test_a_defect_ends_this_client_only(where: str) -> None:
    source = FakeSource()
    consumer = Consumer(source)
    failure = RuntimeError("broken")
    if where == "take":
        source.failure = failure
        source.on_ready()
    else:
        bad = FakeEvent(1)
        bad.memo = None  # type: ignore[assignment]
        source.push(bad)
    assert len(consumer.reports) == 1
    assert consumer.ends == [EndReason.FAILED] and source.closed == 1


def test_event_sources() -> None:
    assert as_event_source(FakeSource()) is not None
    assert as_event_source([]) is None and as_event_source(None) is None
