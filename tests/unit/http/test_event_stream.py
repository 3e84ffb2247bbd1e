"""Bodies that are event streams, without connections (spec: realtime §3)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.content.registry import ContentTypes
from svc.errors import ClientError
from svc.http import event_stream
from svc.http.compression import Compression
from svc.http.event_blocks import KEEP_ALIVE, RETRY
from svc.http.event_pump import HIGH_WATER
from svc.http.event_stream import SILENCE, EventStreams
from svc.http.preferences import Preferences, preferences_of
from svc.messages import Feed, HeaderBlock, Response
from svc.realtime.event import EndReason
from tests.support.events import FakeEvent, FakeSource, FakeWriter, parse_stream

Run = Callable[[], None]


class Streaming:
    """A feed, its writer, and a loop that runs when asked."""

    def __init__(self, result: Any) -> None:
        self.clock = FakeClock()
        self.loop = asyncio.new_event_loop()
        self.reports: list[BaseException] = []
        response = EventStreams(self.loop, self.clock.monotonic, self.reports.append).respond(result)
        if inspect.isawaitable(response):
            try:
                response = self.loop.run_until_complete(response)
            except BaseException:
                self.loop.close()
                raise
        assert isinstance(response, Response)
        self.response = response
        assert isinstance(response.body, Feed)
        self.feed = response.body
        self.writer = FakeWriter()

    def start(self) -> None:
        self.feed.start(self.writer)
        self.run()

    def run(self) -> None:
        """Until nothing more happens by itself."""
        for _ in range(50):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    def read(self) -> None:
        """The peer has taken everything."""
        self.writer.pending = 0
        self.feed.on_sent()
        self.run()

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.clock.advance(1.0)
            self.feed.sweep(self.clock.monotonic())


@pytest.fixture
def streaming() -> Iterator[Callable[[Any], Streaming]]:
    made: list[Streaming] = []

    def make(result: Any) -> Streaming:
        made.append(Streaming(result))
        return made[-1]

    yield make
    for each in made:
        each.feed.close()
        each.run()
        assert not asyncio.all_tasks(each.loop)
        each.loop.close()


Make = Callable[[Any], Streaming]


def test_the_head(streaming: Make) -> None:
    response = streaming(FakeSource()).response
    assert response.status == 200
    assert dict(response.pairs) == {
        "Content-Type": "text/event-stream",
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",
        "Vary": "Accept, Accept-Encoding, Authorization, Cookie",
    }


@pytest.mark.parametrize("result", [None, [], {"a": 1}, "text", iter(())])
def test_other_results_are_no_streams(result: Any) -> None:
    assert EventStreams(None, lambda: 0.0, lambda error: None).respond(result) is None


def test_retry_comes_first_then_the_events(streaming: Make) -> None:
    source = FakeSource(FakeEvent(3, "a"))
    stream = streaming(source)
    stream.start()
    source.push(FakeEvent(4, "b"))
    assert stream.writer.written[0] == RETRY == b"retry: 3000\n\n"
    assert [event["id"] for event in parse_stream(stream.writer.text)] == ["3", "4"]


def test_a_comment_after_silence(streaming: Make) -> None:
    source = FakeSource()
    stream = streaming(source)
    stream.start()
    stream.read()
    stream.pass_time(SILENCE)
    assert KEEP_ALIVE not in stream.writer.written
    stream.pass_time(2)
    assert stream.writer.written.count(KEEP_ALIVE) == 1
    stream.read()
    stream.pass_time(SILENCE + 1)
    assert stream.writer.written.count(KEEP_ALIVE) == 2
    assert KEEP_ALIVE == b": keep-alive\n\n"


def test_no_comment_while_there_are_events(streaming: Make) -> None:
    source = FakeSource()
    stream = streaming(source)
    stream.start()
    for position in range(10):
        source.push(FakeEvent(position))
        stream.read()
        stream.pass_time(SILENCE - 5)
    assert KEEP_ALIVE not in stream.writer.written


def test_no_comment_for_a_client_that_has_not_read(streaming: Make) -> None:
    stream = streaming(FakeSource(FakeEvent(1)))
    stream.start()
    stream.pass_time(SILENCE * 4)
    assert KEEP_ALIVE not in stream.writer.written


@pytest.mark.parametrize("why", list(EndReason))
def test_the_end_of_the_source_is_the_end_of_the_body(streaming: Make, why: EndReason) -> None:
    source = FakeSource(FakeEvent(1))
    stream = streaming(source)
    stream.start()
    source.end(why)
    assert stream.writer.ended and source.closed == 1


def test_draining_ends_the_body(streaming: Make) -> None:
    source = FakeSource()
    stream = streaming(source)
    stream.start()
    stream.feed.drain()
    assert stream.writer.ended


def test_the_source_is_closed_with_the_feed_also_if_it_never_began(streaming: Make) -> None:
    source = FakeSource()
    streaming(source).feed.close()
    assert source.closed == 1


# --- iterators ---------------------------------------------------------------------------------------------------------------------------


class Ticks:
    """An application's `connect`. `state` tells how far it came."""

    def __init__(self, count: int = 10**9, size: int = 10, failure: Exception | None = None) -> None:
        self.count = count
        self.size = size
        self.failure = failure
        self.state = "new"
        self.given = 0

    async def __call__(self) -> AsyncIterator[Any]:
        self.state = "running"
        try:
            while self.given < self.count:
                self.given += 1
                yield {"data": "x" * self.size, "id": self.given}
                await asyncio.sleep(0)
            if self.failure is not None:
                raise self.failure
        finally:
            self.state = "closed"


def test_an_iterator_is_sent_item_by_item_and_ends_the_body(streaming: Make) -> None:
    ticks = Ticks(3)
    stream = streaming(ticks())
    stream.start()
    assert [event["id"] for event in parse_stream(stream.writer.text)] == ["1", "2", "3"]
    assert stream.writer.ended and ticks.state == "closed"


def test_an_iterator_waits_for_the_reader(streaming: Make) -> None:
    ticks = Ticks(size=10_000)
    stream = streaming(ticks())
    stream.start()
    assert HIGH_WATER <= stream.writer.pending < HIGH_WATER + 20_000
    before = ticks.given
    stream.run()
    assert ticks.given == before
    stream.read()
    assert ticks.given > before


def test_an_iterator_is_closed_when_the_client_goes(streaming: Make) -> None:
    ticks = Ticks(size=10_000)
    stream = streaming(ticks())
    stream.start()
    stream.feed.close()
    stream.run()
    assert ticks.state == "closed" and not stream.reports


def test_an_iterator_that_waits_is_closed_when_the_server_stops(streaming: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "FIRST_ITEM", 0.0)
    state = []

    async def wait() -> AsyncIterator[Any]:
        try:
            await asyncio.get_running_loop().create_future()
            yield
        finally:
            state.append("closed")

    stream = streaming(wait())
    stream.start()
    stream.feed.drain()
    stream.feed.close()  # as the connection does at `end`
    stream.run()
    assert state == ["closed"] and stream.writer.ended


def test_a_failure_of_an_iterator_ends_the_body_and_is_logged(streaming: Make) -> None:
    failure = RuntimeError("broken")
    stream = streaming(Ticks(1, failure=failure)())
    stream.start()
    assert stream.writer.ended and stream.reports == [failure]


def test_a_refusal_by_an_iterator_is_no_defect(streaming: Make) -> None:
    stream = streaming(Ticks(1, failure=ClientError("no"))())
    stream.start()
    assert stream.writer.ended and not stream.reports


@pytest.mark.parametrize("failure", [ClientError("no"), RuntimeError("broken")])
def test_what_is_raised_instead_of_the_first_item_is_the_answer(streaming: Make, failure: Exception) -> None:
    ticks = Ticks(0, failure=failure)
    with pytest.raises(type(failure)) as raised:
        streaming(ticks())
    assert raised.value is failure and ticks.state == "closed"


def test_a_first_item_that_cannot_be_encoded_is_answered(streaming: Make) -> None:
    async def odd() -> AsyncIterator[Any]:
        yield object()

    with pytest.raises(TypeError):
        streaming(odd())


def test_the_first_item_is_not_waited_for_without_end(streaming: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "FIRST_ITEM", 0.0)
    go_on = asyncio.Event()

    async def late() -> AsyncIterator[Any]:
        await go_on.wait()
        raise ClientError("too late for a status")
        yield

    stream = streaming(late())
    stream.start()
    assert stream.writer.written == [RETRY] and not stream.writer.ended
    go_on.set()
    stream.run()
    assert stream.writer.ended and not stream.reports


def test_a_client_that_goes_before_the_first_item_ends_the_iterator(streaming: Make) -> None:
    state = []

    async def wait() -> AsyncIterator[Any]:
        try:
            await asyncio.get_running_loop().create_future()
            yield
        finally:
            state.append("closed")

    loop = asyncio.new_event_loop()
    answering = loop.create_task(EventStreams(loop, lambda: 0.0, lambda error: None).respond(wait()))  # type: ignore[arg-type]
    for _ in range(5):
        loop.run_until_complete(asyncio.sleep(0))
    answering.cancel()
    for _ in range(5):
        loop.run_until_complete(asyncio.sleep(0))
    assert state == ["closed"] and answering.cancelled() and not asyncio.all_tasks(loop)
    loop.close()


def test_an_item_that_cannot_be_encoded(streaming: Make) -> None:
    async def odd() -> AsyncIterator[Any]:
        yield 1
        yield object()

    stream = streaming(odd())
    stream.start()
    assert stream.writer.ended and isinstance(stream.reports[0], TypeError)


def test_events_of_a_subscription_may_be_passed_on(streaming: Make) -> None:
    async def passing() -> AsyncIterator[Any]:
        yield FakeEvent(9, "a")

    stream = streaming(passing())
    stream.start()
    assert parse_stream(stream.writer.text) == [{"id": "9", "data": '{"type":"put","id":"k","value":"a","localTime":9}'}]


# --- requests for a stream ---------------------------------------------------------------------------------------------------------------


def preferences(accept: str | None) -> Preferences:
    block = HeaderBlock([] if accept is None else [("accept", accept)])
    return preferences_of(block, ContentTypes.built_in(), Compression(1200))


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (None, False),
        ("*/*", False),
        ("text/*", False),
        ("text/event-stream", True),
        ("Text/Event-Stream", True),
        ("text/event-stream, */*", True),
        ("text/event-stream, application/json", False),  # equal: the earlier entry of the registry
        ("text/event-stream, application/json;q=0.9", True),
        ("text/event-stream;q=0.5, application/json", False),
        ("text/event-stream, application/cbor", False),  # which we rather give
        ("text/event-stream, text/csv", True),
        ("text/event-stream;q=0, */*", False),
        ("text/event-stream;q=0", False),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", False),
    ],
)
def test_requests_for_a_stream(accept: str | None, wanted: bool) -> None:
    assert preferences(accept).events is wanted


def test_an_application_may_have_a_stream_of_its_own() -> None:
    types = ContentTypes.built_in()
    types["text/event-stream"] = {"serialize": lambda data: "data: own\n\n"}
    assert not types.prefers_events("text/event-stream")
    assert types.writer("text/event-stream").name == "text/event-stream"
    del types["text/event-stream"]
    assert not types.prefers_events("text/event-stream")
