"""Bodies of requests over HTTP/2, in both lanes: windows, trailers, and what a hostile peer makes of them."""

from __future__ import annotations

import tracemalloc

import hpack
import pytest

from svc.protocol.events import DataReceived, Event, ProtocolFailed, RequestEnded, RequestFailed, RequestReceived
from svc.protocol.http1 import Limits
from svc.protocol.http2 import Http2
from svc.protocol.http2_flood_limits import ALLOWANCES, EMPTY_DATA, MAX_STREAMS
from svc.protocol.http2_frames import (
    CANCEL,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_MAX,
    GOAWAY,
    HEADERS,
    NO_ERROR,
    PADDED,
    PREFACE,
    REFUSED_STREAM,
    RST_STREAM,
    STREAM_CLOSED,
    WINDOW_UPDATE,
    encode_frame,
    encode_reset,
    encode_settings,
)
from svc.protocol.http2_setup import BODY_WINDOW, CONNECTION_WINDOW, STREAM_WINDOW
from tests.support.http2_cases import head, iter_frames, literal

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
FULL = bytes(FRAME_SIZE_MAX)


class Server:
    """A driver that a peer has greeted."""

    def __init__(self, express: bool) -> None:
        self.driver = Http2(Limits(max_body_size=10 << 20), express)
        self.driver.receive_data(PREFACE + encode_settings({}))
        self.driver.data_to_send()

    def receive(self, *frames: bytes) -> list[Event]:
        events = self.driver.receive_data(b"".join(frames))
        self.driver.check()
        return events

    def output(self) -> list[tuple[int, int, int, bytes]]:
        data = self.driver.data_to_send()
        self.driver.finished.clear()
        self.driver.check()
        return list(iter_frames(data))

    def windows(self) -> dict[int, int]:
        """What the output adds to each window, that of the connection under 0. There is no other output."""
        added: dict[int, int] = {}
        for kind, _, stream_id, content in self.output():
            assert kind == WINDOW_UPDATE
            added[stream_id] = added.get(stream_id, 0) + int.from_bytes(content, "big")
        return added

    def resets(self) -> dict[int, int]:
        return {stream_id: int.from_bytes(content, "big") for kind, _, stream_id, content in self.output() if kind == RST_STREAM}

    def respond(self, stream_id: int) -> None:
        self.driver.respond(stream_id, 200, [], b"ok", DATE)

    def goodbye(self) -> int:
        """The code with which it ended the connection."""
        assert self.driver.should_close
        return [int.from_bytes(content[4:8], "big") for kind, _, _, content in self.output() if kind == GOAWAY][-1]


@pytest.fixture(params=(True, False), ids=("express", "h2"))
def server(request: pytest.FixtureRequest) -> Server:
    return Server(request.param)


def post(stream_id: int, *more: tuple[str, str]) -> bytes:
    return encode_frame(HEADERS, END_HEADERS, stream_id, head(*more, method="POST"))


def data(stream_id: int, content: bytes, is_last: bool = False) -> bytes:
    return encode_frame(DATA, END_STREAM if is_last else 0, stream_id, content)


TRAILERS = literal(("x-sum", "1"))


# --- windows -------------------------------------------------------------------------------------------------------------------------


def test_a_small_body_costs_no_frame(server: Server) -> None:
    for stream_id in range(1, 201, 2):
        (event,) = server.receive(post(stream_id), data(stream_id, b"x" * 100), data(stream_id, b"y", True))
        assert type(event) is RequestReceived and event.body == b"x" * 100 + b"y"
        assert server.output() == []
        server.respond(stream_id)
        assert {kind for kind, *_ in server.output()} == {HEADERS, DATA}


def test_windows_open_when_half_of_them_is_used(server: Server) -> None:
    server.receive(post(1), data(1, FULL))
    assert server.windows() == {}
    server.receive(data(1, FULL))
    assert server.windows() == {1: 2 * FRAME_SIZE_MAX + BODY_WINDOW - STREAM_WINDOW}
    rest = CONNECTION_WINDOW // 2 // FRAME_SIZE_MAX - 2
    added: dict[int, int] = {}
    for _ in range(rest):
        server.receive(data(1, FULL))
        for stream_id, increment in server.windows().items():
            added[stream_id] = added.get(stream_id, 0) + increment
    assert added[0] == CONNECTION_WINDOW // 2
    assert rest * FRAME_SIZE_MAX - BODY_WINDOW // 2 <= added[1] <= rest * FRAME_SIZE_MAX


def test_padding_counts(server: Server) -> None:
    padded = encode_frame(DATA, PADDED, 1, b"\xff" + bytes(FRAME_SIZE_MAX - 1))
    server.receive(post(1), padded, padded)
    assert server.windows()[1] == 2 * FRAME_SIZE_MAX


def test_a_paused_body_stops_at_its_window(server: Server) -> None:
    server.receive(post(1))
    server.driver.pause(1)
    events = server.receive(*[data(1, FULL)] * 3, data(1, FULL[:-1]))
    assert sum(len(event.data) for event in events if type(event) is DataReceived) == STREAM_WINDOW
    assert server.windows() == {}
    assert [type(event) for event in server.receive(data(1, b"x"))] == [ProtocolFailed]
    assert server.goodbye() == FLOW_CONTROL_ERROR


def test_more_than_the_window_before_it_opens(server: Server) -> None:
    events = server.receive(post(1), *[data(1, FULL)] * 4)
    assert type(events[-1]) is ProtocolFailed
    assert server.goodbye() == FLOW_CONTROL_ERROR


def test_more_than_the_window_of_the_connection(server: Server) -> None:
    streams = CONNECTION_WINDOW // STREAM_WINDOW
    for number in range(streams):
        server.receive(post(2 * number + 1))
        server.driver.pause(2 * number + 1)
        server.receive(*[data(2 * number + 1, FULL)] * 3, data(2 * number + 1, FULL[:-1]))
    last = 2 * streams + 1
    left = CONNECTION_WINDOW - streams * STREAM_WINDOW
    assert 0 < left < FRAME_SIZE_MAX
    assert type(server.receive(post(last), data(last, bytes(left)))[-1]) is DataReceived
    assert type(server.receive(data(last, b"x", True))[-1]) is ProtocolFailed
    assert server.goodbye() == FLOW_CONTROL_ERROR


def test_a_body_that_has_come_gets_no_window_of_its_stream() -> None:
    server = Server(True)
    server.receive(post(1), data(1, FULL), data(1, FULL), data(1, b"", True))
    assert server.windows() == {}


@pytest.mark.parametrize("how", ["answered", "reset by us", "reset by the peer"])
def test_what_a_stream_held_goes_back_to_the_connection(server: Server, how: str) -> None:
    used = 0
    for number in range(4 * CONNECTION_WINDOW // STREAM_WINDOW):
        stream_id = 2 * number + 1
        server.receive(post(stream_id))
        server.driver.pause(stream_id)
        server.receive(*[data(stream_id, FULL)] * 3)
        if how == "answered":
            server.respond(stream_id)
        elif how == "reset by us":
            server.driver.reset(stream_id)
        else:
            server.receive(encode_reset(stream_id, CANCEL))
            server.driver.tick(1)
        used += 3 * FRAME_SIZE_MAX
        for kind, _, on, content in server.output():
            if kind == WINDOW_UPDATE:
                assert on == 0
                used -= int.from_bytes(content, "big")
        assert 0 <= used < CONNECTION_WINDOW // 2 + STREAM_WINDOW


# --- after the end -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", ["data", "trailers", "split trailers"])
@pytest.mark.parametrize("how", ["answered", "reset by us", "refused"])
def test_the_rest_of_a_request_that_is_over(server: Server, how: str, after: str) -> None:
    """It was on its way when we gave the request up: an error of the stream, and the codec of fields stays in step."""
    last = 1
    if how == "refused":
        server.receive(*[post(2 * number + 1) for number in range(MAX_STREAMS)])
        last = 2 * MAX_STREAMS + 1
    server.receive(post(last), *([data(last, b"he")] if how != "refused" else []))
    if how == "answered":
        server.respond(last)
    elif how == "reset by us":
        server.driver.reset(last)
    assert server.resets() == {last: {"answered": NO_ERROR, "reset by us": CANCEL, "refused": REFUSED_STREAM}[how]}
    indexed = b"\x40\x01x\x01y"  # goes into the table
    frames = {
        "data": [data(last, b"llo"), data(last, b"", True)],
        "trailers": [encode_frame(HEADERS, END_HEADERS | END_STREAM, last, indexed)],
        "split trailers": [
            encode_frame(HEADERS, END_STREAM, last, indexed[:2]),
            encode_frame(CONTINUATION, END_HEADERS, last, indexed[2:]),
        ],
    }[after]
    assert server.receive(*frames) == []
    assert server.resets() == {last: STREAM_CLOSED}
    if how != "refused":
        more = b"\xbe" if after != "data" else b""
        (event,) = server.receive(encode_frame(HEADERS, END_HEADERS | END_STREAM, last + 2, head() + more))
        assert type(event) is RequestReceived
        assert event.block.fields.get("x") == ("y" if more else None)


def test_trailers_end_a_request_that_has_failed(server: Server) -> None:
    (event,) = server.receive(post(1, ("content-length", str(1 << 40))))
    assert type(event) is RequestFailed and event.error.status_code == 413
    trailers = encode_frame(HEADERS, END_HEADERS | END_STREAM, 1, TRAILERS)
    assert server.receive(trailers) == [], "it is not answered yet"
    assert [type(event) for event in server.receive(trailers)] == [ProtocolFailed]
    assert server.goodbye() == STREAM_CLOSED


@pytest.mark.parametrize("is_answered", [True, False])
def test_trailers_cut_by_the_answer(server: Server, is_answered: bool) -> None:
    server.receive(post(1), data(1, b"x"), encode_frame(HEADERS, END_STREAM, 1, TRAILERS[:3]))
    if is_answered:
        server.respond(1)
        server.output()
    events = server.receive(encode_frame(CONTINUATION, END_HEADERS, 1, TRAILERS[3:]))
    assert events == ([] if is_answered else [RequestEnded(1, [("x-sum", "1")])])
    assert not server.driver.should_close


# --- floods --------------------------------------------------------------------------------------------------------------------------


def test_a_body_a_byte_a_frame(server: Server) -> None:
    events: list[Event] = []
    for _ in range(10):
        events += server.receive(*([] if events else [post(1)]), *[data(1, b"x")] * 1000)
        assert {kind for kind, *_ in server.output()} <= {WINDOW_UPDATE}
    events += server.receive(data(1, b"y", True))
    assert sum(len(event.data) for event in events if type(event) is DataReceived) == 10_001
    assert events[-1] == RequestEnded(1, [])


def test_more_than_the_announced_length(server: Server) -> None:
    server.receive(post(1, ("content-length", "5")))
    (event,) = [event for event in server.receive(data(1, b"hello!")) if type(event) is RequestFailed]
    assert event.error.status_code == 400
    assert server.receive(data(1, FULL)) == [], "what follows is read and forgotten"
    server.driver.fail(1, event.error, [], b"", DATE)
    assert server.driver.idle


def test_rapid_reset_with_bodies(server: Server) -> None:
    for number in range(ALLOWANCES[RST_STREAM].burst + 1):
        assert not server.driver.should_close
        stream_id = 2 * number + 1
        server.receive(post(stream_id), data(stream_id, b"x"), encode_reset(stream_id, CANCEL))
    assert server.goodbye() == ENHANCE_YOUR_CALM


def test_a_flood_of_empty_data_over_many_streams(server: Server) -> None:
    server.receive(*[post(2 * number + 1) for number in range(50)])
    for number in range(ALLOWANCES[EMPTY_DATA].burst):
        assert server.receive(data(2 * (number % 50) + 1, b"")) == []
    server.receive(data(1, b""))
    assert server.goodbye() == ENHANCE_YOUR_CALM


def test_a_thousand_streams_with_half_a_body_each() -> None:
    """All but MAX_STREAMS are refused, and too many refusals end the connection: it never holds more than its streams and their heads."""
    server = Server(True)
    server.receive(post(1), data(1, b"x"))  # what is made once is there
    tracemalloc.start()
    try:
        for number in range(1, 1000):
            server.receive(post(2 * number + 1, ("content-length", "2")), data(2 * number + 1, b"x"))
            server.driver.data_to_send()
        assert server.driver.should_close
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


# --- fields --------------------------------------------------------------------------------------------------------------------------


def test_a_tunnel_behind_fields_of_the_table() -> None:
    """The block of a CONNECT is decoded before it goes to h2, which must not decode it again."""
    for express in (True, False):
        server = Server(express)
        encoder = hpack.Encoder()
        connect = [(":method", "CONNECT"), (":protocol", "x"), (":scheme", "http"), (":path", "/"), (":authority", "a"), ("x", "y")]
        server.receive(encode_frame(HEADERS, END_HEADERS, 1, encoder.encode(connect)))
        server.driver.accept_tunnel(1, [], DATE)
        server.driver.end_response(1)
        server.output()
        assert server.receive(data(1, b"late"), data(1, b"")) == []
        assert server.output() == []
        get = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a"), ("x", "y")]
        (event,) = server.receive(encode_frame(HEADERS, END_HEADERS | END_STREAM, 3, encoder.encode(get)))
        assert type(event) is RequestReceived and event.block.pairs == [("host", "a"), ("x", "y")]
