"""The HTTP/2 driver: requests and answers in both lanes, windows both ways, and every limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from svc.errors import PeerError
from svc.protocol.events import (
    DataReceived,
    Event,
    PeerClosed,
    ProtocolFailed,
    RequestCancelled,
    RequestEnded,
    RequestFailed,
    RequestReceived,
)
from svc.protocol.http1 import Limits
from svc.protocol.http2 import Http2
from svc.protocol.http2_flood_limits import ALLOWANCES, BUFFER_MAX, EMPTY_DATA, HEADER_BLOCK_MAX, MAX_STREAMS, OUR_RESET
from svc.protocol.http2_frames import (
    CANCEL,
    CONTINUATION,
    DATA,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    FRAME_SIZE_MAX,
    GOAWAY,
    HEADERS,
    INTERNAL_ERROR,
    NO_ERROR,
    PING,
    PREFACE,
    PRIORITY,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    RST_STREAM,
    SETTINGS,
    STREAM_CLOSED,
    WINDOW_UPDATE,
    encode_frame,
    encode_goaway,
    encode_reset,
)
from svc.protocol.http2_output import OUTPUT_MAX
from svc.protocol.http2_setup import BODY_WINDOW, CONNECTION_WINDOW, STREAM_WINDOW
from svc.protocol.request_head import FIELDS_MAX
from tests.support.http2 import Answer, ClientEnd

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
LIMITS = Limits(max_header_size=500, max_body_size=100)
WIDE = Limits(max_body_size=10 << 20)


class Pair:
    """A driver and a client on a wire without bounds."""

    def __init__(self, limits: Limits = LIMITS, express: bool = True, max_streams: int = MAX_STREAMS, **client: Any) -> None:
        self.server = Http2(limits, express, max_streams=max_streams)
        self.client = ClientEnd(**client)
        self.events: list[Event] = []
        self.turn()

    def turn(self) -> list[Event]:
        """The client sends, the server answers; the new events."""
        new: list[Event] = []
        self.flush()
        while data := self.client.data_to_send():
            new += self.receive(data)
            self.flush()
        return new

    def receive(self, data: bytes) -> list[Event]:
        events = self.server.receive_data(data)
        self.server.check()
        self.events += events
        return events

    def flush(self) -> None:
        while data := self.server.data_to_send():
            self.client.receive(data)
            if not self.server.wants_to_send:
                break
        self.server.finished.clear()
        self.server.check()

    def ask(self, method: str = "GET", target: str = "/1", fields: Any = None, body: bytes | None = None) -> tuple[int, list[Event]]:
        stream_id = self.client.request(method, target, fields, body)
        return stream_id, self.turn()

    def answer(self, stream_id: int, status: int = 200, body: bytes = b"", *pairs: tuple[str, str]) -> Any:
        self.server.respond(stream_id, status, list(pairs), body, DATE)
        self.turn()
        return self.client.answers[stream_id]

    def goodbye(self) -> int:
        """The code with which the server ended the connection."""
        self.flush()
        assert self.server.should_close
        return int(self.client.goodbyes[-1].error_code)


@pytest.fixture(params=(True, False), ids=("express", "h2"))
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """After one request, which is always h2's."""
    pair = Pair(express=request.param)
    pair.ask()
    pair.answer(1)
    yield pair


def block(*pairs: tuple[str, str]) -> bytes:
    """Fields without a table."""
    return b"".join(
        b"\x00" + bytes((len(name),)) + name.encode("latin-1") + bytes((len(value),)) + value.encode("latin-1") for name, value in pairs
    )


HEAD = ((":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/"))


# --- requests ------------------------------------------------------------------------------------------------------------------------


def test_a_request(pair: Pair) -> None:
    stream_id, events = pair.ask("GET", "/Product/1?a=b", [("accept", "*/*"), ("x", "1"), ("x", "2")])
    assert len(events) == 1
    event = events[0]
    assert type(event) is RequestReceived
    assert (event.stream_id, event.method, event.target, event.http_version, event.body) == (stream_id, "GET", "/Product/1?a=b", "2", b"")
    assert event.block.pairs == [("host", "localhost"), ("accept", "*/*"), ("x", "1"), ("x", "2")]
    assert event.block.fields == {"host": "localhost", "accept": "*/*", "x": "1, 2"}


def test_equal_heads_share_a_block(pair: Pair) -> None:
    fields = [("x-unique", "test_equal_heads")]
    first, second, other = (pair.ask("GET", target, fields)[1][0] for target in ("/1", "/1", "/2"))
    assert first.block is second.block is other.block  # type: ignore[union-attr]


def test_cookie_crumbs_are_joined(pair: Pair) -> None:
    event = pair.ask("GET", "/", [("cookie", "a=1"), ("y", "z"), ("cookie", "b=2")])[1][0]
    assert type(event) is RequestReceived
    assert event.block.pairs == [("host", "localhost"), ("cookie", "a=1; b=2"), ("y", "z")]


def test_a_body_that_comes_with_its_head(pair: Pair) -> None:
    _, events = pair.ask("PUT", "/1", [("content-length", "5")], b"hello")
    assert [type(event) for event in events] == [RequestReceived]
    assert events[0].body == b"hello"  # type: ignore[union-attr]


def test_a_body_that_comes_later(pair: Pair) -> None:
    stream_id = pair.client.request("PUT", "/1", is_open=True)
    events = pair.turn()
    assert [type(event) for event in events] == [RequestReceived]
    assert events[0].body is None  # type: ignore[union-attr]
    pair.client.h2.send_data(stream_id, b"he")
    assert pair.turn() == [DataReceived(stream_id, b"he")]
    pair.client.h2.send_data(stream_id, b"llo", pad_length=7)
    pair.client.h2.send_headers(stream_id, [("x-sum", "1")], end_stream=True)
    assert pair.turn() == [DataReceived(stream_id, b"llo"), RequestEnded(stream_id, [("x-sum", "1")])]


def test_expect_continue(pair: Pair) -> None:
    stream_id = pair.client.request("PUT", "/1", [("expect", "100-continue")], is_open=True)
    (event,) = pair.turn()
    assert type(event) is RequestReceived and event.expects_continue
    for _ in range(2):
        pair.server.send_continue(stream_id)
    pair.turn()
    assert pair.client.answers[stream_id].early == [(100, [])]


def test_connect_is_not_recognized(pair: Pair) -> None:
    pair.receive(encode_frame(HEADERS, 5, 101, block((":method", "CONNECT"), (":authority", "a:1"))))
    event = pair.events[-1]
    assert type(event) is RequestFailed and event.error.status_code == 501


def test_upgrades_and_priorities_mean_nothing(pair: Pair) -> None:
    _, events = pair.ask("GET", "/", [("priority", "u=1, i")])
    assert type(events[0]) is RequestReceived
    pair.receive(
        encode_frame(PRIORITY, 0, 33, bytes(4) + b"\x10") + encode_frame(16, 0, 0, b"\0\0\0\x07u=1") + encode_frame(0xFA, 3, 9, b"grease")
    )
    pair.receive(encode_frame(HEADERS, 0x25, 41, bytes(4) + b"\x10" + block(*HEAD)))
    assert type(pair.events[-1]) is RequestReceived


# --- requests that are wrong ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pairs",
    [
        HEAD[1:],
        (HEAD[0], *HEAD[2:]),
        HEAD[:3],
        (*HEAD[:2], HEAD[3]),
        (*HEAD, (":path", "/")),
        (*HEAD, (":method", "GET")),
        (*HEAD, (":status", "200")),
        (*HEAD, (":unknown", "x")),
        (*HEAD[:3], ("x", "y"), HEAD[3]),
        (*HEAD, ("connection", "close")),
        (*HEAD, ("transfer-encoding", "chunked")),
        (*HEAD, ("upgrade", "h2c")),
        (*HEAD, ("keep-alive", "1")),
        (*HEAD, ("proxy-connection", "x")),
        (*HEAD, ("te", "gzip")),
        (*HEAD, ("X", "y")),
        (*HEAD, ("", "y")),
        (*HEAD, ("a b", "y")),
        (*HEAD, ("a:b", "y")),
        (*HEAD, ("x", " y")),
        (*HEAD, ("x", "y\t")),
        (*HEAD, ("x", "a\nb")),
        (*HEAD, ("x", "a\0b")),
        (*HEAD, ("host", "b")),
        (*HEAD, ("host", "a"), ("host", "a")),
        (*HEAD, ("content-length", "x")),
        (*HEAD, ("content-length", "1"), ("content-length", "2")),
        (*HEAD, ("content-length", "5")),
        (*HEAD[:2], (":authority", ""), HEAD[3]),
        (*HEAD[:2], (":authority", "user@a"), HEAD[3]),
        (*HEAD[:3], (":path", "")),
        (*HEAD[:3], (":path", "x")),
        (*HEAD[:3], (":path", "http://a/")),
        (*HEAD[:3], (":path", "/\x80")),
        (*HEAD[:3], (":path", "/a b")),
        (*HEAD[:3], (":path", "*")),
        (HEAD[0], (":scheme", "ftp"), *HEAD[2:]),
        (("x", "y"), *HEAD),
        ((":method", "G E T"), *HEAD[1:]),
        (*HEAD, (":protocol", "websocket")),
        ((":method", "CONNECT"), *HEAD[1:]),
        ((":method", "CONNECT"), (":authority", "a"), (":path", "/")),
    ],
    ids=lambda pairs: " ".join(f"{name}={value!r}" for name, value in pairs if (name, value) not in HEAD) or f"{len(pairs)} of {len(HEAD)}",
)
def test_a_malformed_request_costs_itself_only(pair: Pair, pairs: tuple[tuple[str, str], ...]) -> None:
    (event,) = pair.receive(encode_frame(HEADERS, 5, 101, block(*pairs)))
    assert type(event) is RequestFailed and event.stream_id == 101
    assert event.error.status_code == 400
    pair.server.fail(101, event.error, [("Content-Type", "text/plain")], b"no", DATE)
    (event,) = pair.receive(encode_frame(HEADERS, 5, 103, block(*HEAD)))
    assert type(event) is RequestReceived
    assert not pair.server.should_close


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("window", [None, 0, 1])
@pytest.mark.parametrize("body", [b"no", b""])
@pytest.mark.parametrize("express", [True, False])
def test_what_is_malformed_is_answered_and_reset(express: bool, is_open: bool, window: int | None, body: bytes) -> None:
    """The answer does not end its stream, the reset does: also when it has to wait."""
    pair = Pair(LIMITS, express, window=window, reads=False)
    client = pair.client
    stream_id = client.request("PUT", "/1", [("connection", "close")], is_open=is_open)
    (event,) = pair.turn()
    assert type(event) is RequestFailed
    pair.server.fail(stream_id, event.error, [], body, DATE)
    pair.turn()
    answer = client.answers[stream_id]
    if body and window is not None:
        assert (answer.status, answer.body, answer.reset) == (400, body[:window], None)
        client.h2.increment_flow_control_window(10, stream_id)
        pair.turn()
    assert (answer.status, answer.body, answer.is_complete, answer.reset) == (400, body, False, PROTOCOL_ERROR)
    assert pair.server.idle


@pytest.mark.parametrize(("announced", "sent"), [("5", b"hello!"), ("5", b"hell"), ("0", b"x")])
@pytest.mark.parametrize("together", [True, False])
def test_a_body_of_another_length_than_announced(pair: Pair, announced: str, sent: bytes, together: bool) -> None:
    stream_id = pair.client.request("PUT", "/1", [("content-length", announced)], is_open=True)
    if not together:
        pair.turn()
    pair.client.h2.send_data(stream_id, sent, end_stream=True)
    pair.turn()
    failed = [event for event in pair.events if type(event) is RequestFailed]
    assert [event.stream_id for event in failed] == [stream_id]
    assert not any(type(event) is RequestEnded and event.stream_id == stream_id for event in pair.events)
    answered = pair.ask()[0]
    assert pair.answer(answered, 200, b"yes").body == b"yes"


@pytest.mark.parametrize("fields", [[("content-length", "101")], []])
def test_a_body_that_is_too_long_gets_413(pair: Pair, fields: list[tuple[str, str]]) -> None:
    stream_id = pair.client.request("PUT", "/1", fields, b"x" * 101)
    pair.turn()
    event = pair.events[-1]
    assert type(event) is RequestFailed and event.error.status_code == 413
    pair.server.fail(stream_id, event.error, [], b"too long", DATE)
    pair.turn()
    assert pair.client.answers[stream_id].status == 413
    assert pair.ask("PUT", "/1", None, b"x" * 100)[1][0].body == b"x" * 100  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("fields", "target", "status"),
    [([("x", "y" * 500)], "/", 431), ([], "/" + "y" * 500, 414), ([], "/" + "y" * 400, 0), ([], "/a#b", 400), ([], "#", 400)],
)
def test_a_head_that_is_too_long(pair: Pair, fields: list[tuple[str, str]], target: str, status: int) -> None:
    _, (event,) = pair.ask("GET", target, fields)
    assert (event.error.status_code if type(event) is RequestFailed else 0) == status


@pytest.mark.parametrize(("count", "status"), [(FIELDS_MAX, 0), (FIELDS_MAX + 1, 431)])
def test_the_number_of_fields_is_limited(count: int, status: int) -> None:
    _, (event,) = Pair(Limits()).ask("GET", "/", [("x", "y")] * count)
    assert (event.error.status_code if type(event) is RequestFailed else 0) == status


@pytest.mark.parametrize("trailers", [[(":path", "/")], [("connection", "x")], [("x", "y" * 600)]])
def test_trailers_that_are_wrong(pair: Pair, trailers: list[tuple[str, str]]) -> None:
    stream_id = pair.client.request("PUT", "/1", None, b"x", is_open=True)
    pair.turn()
    pair.client.h2.send_headers(stream_id, trailers, end_stream=True)
    (event,) = pair.turn()
    assert type(event) is RequestFailed and event.stream_id == stream_id


def test_more_of_a_request_after_its_end(pair: Pair) -> None:
    stream_id, _ = pair.ask()
    (event,) = pair.receive(encode_frame(DATA, 0, stream_id, b"abc"))
    assert event == RequestCancelled(stream_id)
    pair.flush()
    assert pair.client.answers[stream_id].reset == STREAM_CLOSED
    stream_id, _ = pair.ask()
    (event,) = pair.receive(encode_frame(HEADERS, 5, stream_id, block(("x", "y"))))
    assert type(event) is ProtocolFailed
    assert pair.goodbye() == STREAM_CLOSED


# --- answers -------------------------------------------------------------------------------------------------------------------------


def test_an_answer(pair: Pair) -> None:
    stream_id, _ = pair.ask()
    answer = pair.answer(stream_id, 200, b"body", ("Content-Type", "text/plain"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"))
    assert answer.is_complete and answer.body == b"body"
    assert answer.pairs == [
        ("content-type", "text/plain"), ("set-cookie", "a=1"), ("set-cookie", "b=2"), ("date", DATE), ("content-length", "4"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "status", "pairs", "body", "sent", "length"),
    [
        ("GET", 200, [], b"", b"", "0"),
        ("HEAD", 200, [], b"body", b"", "4"),
        ("HEAD", 200, [("Content-Length", "7")], b"", b"", "7"),
        ("GET", 204, [("Content-Length", "7")], b"", b"", None),
        ("GET", 304, [], b"", b"", None),
        (
            "GET",
            200,
            [("Content-Length", "9"), ("Date", "x"), ("Connection", "close"), ("Upgrade", "x"), ("Transfer-Encoding", "x")],
            b"ab",
            b"ab",
            "2",
        ),
        ("GET", 599, [], b"ab", b"ab", "2"),
    ],
)
def test_lengths_and_fields_of_the_driver(
    pair: Pair, method: str, status: int, pairs: list[tuple[str, str]], body: bytes, sent: bytes, length: str | None
) -> None:
    stream_id, _ = pair.ask(method)
    answer = pair.answer(stream_id, status, body, *pairs)
    assert answer.is_complete and answer.body == sent and answer.status == status
    assert answer.fields.get("content-length") == length
    assert not {"connection", "upgrade", "transfer-encoding"} & set(answer.fields)
    assert answer.fields["date"] == ("x" if ("Date", "x") in pairs else DATE)


@pytest.mark.parametrize("field", [("a b", "x"), ("", "x"), (":path", "x"), ("x", "a\nb"), ("x", "a\0"), ("x", "日")])
def test_what_cannot_be_sent_is_not_begun(pair: Pair, field: tuple[str, str]) -> None:
    stream_id, _ = pair.ask()
    with pytest.raises(ValueError, match="not a field"):
        pair.server.respond(stream_id, 200, [("Good", "1"), field], b"", DATE)
    with pytest.raises(ValueError, match="not a final status"):
        pair.server.respond(stream_id, 99, [], b"", DATE)
    assert pair.answer(stream_id, 500, b"sorry", ("Good", "1")).fields["good"] == "1"


def test_a_streamed_answer_with_hints_and_trailers(pair: Pair) -> None:
    stream_id, _ = pair.ask()
    server = pair.server
    server.send_informational(stream_id, 103, [("Link", "</a>"), ("Connection", "x")])
    server.begin_response(stream_id, 200, [("X", "y")], DATE, 5)
    server.send_informational(stream_id, 103, [("Link", "</late>")])
    server.send_body(stream_id, b"he")
    server.send_body(stream_id, b"")
    server.send_body(stream_id, b"llo")
    server.end_response(stream_id, [("X-Sum", "1")])
    pair.turn()
    answer = pair.client.answers[stream_id]
    assert answer.early == [(103, [("link", "</a>")])]
    assert answer.pairs == [("x", "y"), ("date", DATE), ("content-length", "5")]
    assert (answer.body, answer.trailers, answer.is_complete) == (b"hello", [("x-sum", "1")], True)


def test_a_streamed_answer_to_head(pair: Pair) -> None:
    stream_id, _ = pair.ask("HEAD")
    pair.server.begin_response(stream_id, 200, [], DATE, 5)
    pair.server.send_body(stream_id, b"hello")
    pair.server.end_response(stream_id, [("x", "y")])
    pair.turn()
    answer = pair.client.answers[stream_id]
    assert (answer.body, answer.trailers, answer.is_complete, answer.fields["content-length"]) == (b"", [], True, "5")


def test_the_announced_length_is_kept(pair: Pair) -> None:
    stream_id, _ = pair.ask()
    pair.server.begin_response(stream_id, 200, [], DATE, 5)
    with pytest.raises(ValueError, match="2 bytes more"):
        pair.server.send_body(stream_id, b"hello!!")
    pair.server.send_body(stream_id, b"hell")
    with pytest.raises(ValueError, match="1 bytes less"):
        pair.server.end_response(stream_id)
    pair.turn()
    assert pair.client.answers[stream_id].reset == INTERNAL_ERROR


def test_misuse(pair: Pair) -> None:
    stream_id, _ = pair.ask()
    with pytest.raises(AssertionError):
        pair.server.send_body(stream_id, b"x")
    with pytest.raises(AssertionError):
        pair.server.end_response(stream_id)
    with pytest.raises(ValueError, match="informational"):
        pair.server.send_informational(stream_id, 200, [])
    pair.server.begin_response(stream_id, 200, [], DATE)
    with pytest.raises(AssertionError):
        pair.server.respond(stream_id, 200, [], b"", DATE)
    with pytest.raises(ValueError, match="not allowed in trailers"):
        pair.server.end_response(stream_id, [("Content-Length", "1")])


def test_an_answer_before_the_body_ends_the_request(pair: Pair) -> None:
    stream_id = pair.client.request("PUT", "/1", None, b"x", is_open=True)
    pair.turn()
    answer = pair.answer(stream_id, 401, b"no")
    assert (answer.status, answer.is_complete, answer.reset) == (401, True, NO_ERROR)
    assert pair.receive(encode_frame(DATA, 0, stream_id, b"x" * 50)) == []
    assert not pair.server.should_close


def test_what_is_said_to_a_stream_that_is_gone_is_dropped(pair: Pair) -> None:
    stream_id, _ = pair.ask()
    pair.receive(encode_reset(stream_id, CANCEL))
    assert pair.events[-1] == RequestCancelled(stream_id)
    server = pair.server
    server.send_informational(stream_id, 103, [])
    server.send_continue(stream_id)
    server.respond(stream_id, 200, [], b"x", DATE)
    server.begin_response(stream_id, 200, [], DATE)
    server.send_body(stream_id, b"x")
    server.end_response(stream_id)
    server.fail(stream_id, PeerError("x"), [], b"", DATE)
    server.reset(stream_id)
    server.pause(stream_id)
    server.resume(stream_id)
    assert (server.pending(stream_id), server.sent(stream_id), server.is_paused(stream_id), server.finished) == (0, 0, False, [])
    assert server.data_to_send() == b""


def test_a_request_given_up_at_once_is_not_reported(pair: Pair) -> None:
    """CVE-2023-44487: nothing is done for it."""
    assert pair.receive(encode_frame(HEADERS, 5, 101, block(*HEAD)) + encode_reset(101, CANCEL)) == []
    assert pair.receive(encode_frame(HEADERS, 4, 103, block(*HEAD)) + encode_frame(DATA, 0, 103, b"x") + encode_reset(103, CANCEL)) == []
    assert pair.server.idle


# --- windows -------------------------------------------------------------------------------------------------------------------------


def make_pair(express: bool, **options: Any) -> Pair:
    pair = Pair(WIDE, express, **options)
    pair.ask()
    pair.answer(1)
    return pair


both_lanes = pytest.mark.parametrize("express", [True, False])


@both_lanes
def test_an_answer_waits_for_the_window_of_its_stream(express: bool) -> None:
    pair = make_pair(express, window=10, reads=False)
    stream_id, _ = pair.ask()
    answer = pair.answer(stream_id, 200, b"x" * 25)
    assert (len(answer.body), answer.is_complete, pair.server.pending(stream_id)) == (10, False, 15)
    assert pair.server.sent(stream_id) == 10
    pair.client.h2.increment_flow_control_window(5, stream_id)
    pair.turn()
    assert (len(answer.body), pair.server.pending(stream_id)) == (15, 10)
    pair.client.h2.increment_flow_control_window(100, stream_id)
    pair.turn()
    assert (len(answer.body), answer.is_complete) == (25, True)
    assert pair.server.idle


@both_lanes
def test_an_answer_waits_for_the_window_of_the_connection(express: bool) -> None:
    pair = make_pair(express, window=1 << 20, reads=False)
    first, _ = pair.ask()
    second, _ = pair.ask()
    pair.server.respond(first, 200, [], b"x" * 60_000, DATE)
    pair.server.respond(second, 200, [], b"y" * 60_000, DATE)
    pair.turn()
    got = [len(pair.client.answers[stream_id].body) for stream_id in (first, second)]
    assert sum(got) == STREAM_WINDOW and min(got) > 16_000, "not in fair shares"
    pair.client.h2.increment_flow_control_window(1 << 20)
    pair.turn()
    assert all(pair.client.answers[stream_id].is_complete for stream_id in (first, second))


@both_lanes
def test_an_end_without_data_needs_no_window(express: bool) -> None:
    pair = make_pair(express, window=0)
    stream_id, _ = pair.ask()
    pair.server.begin_response(stream_id, 200, [], DATE)
    pair.server.end_response(stream_id, [("x", "y")])
    pair.turn()
    assert pair.client.answers[stream_id].trailers == [("x", "y")]


@both_lanes
def test_settings_change_the_windows_of_all_streams(express: bool) -> None:
    pair = make_pair(express, window=20, reads=False)
    stream_id, _ = pair.ask()
    answer = pair.answer(stream_id, 200, b"x" * 50)
    assert len(answer.body) == 20
    pair.receive(encode_frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\x05"))  # 15 less than nothing
    pair.receive(encode_frame(WINDOW_UPDATE, 0, stream_id, b"\0\0\0\x0f"))
    assert pair.server.data_to_send().count(b"x") == 0
    pair.receive(encode_frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\x06"))
    assert pair.server.data_to_send().count(b"x") == 1
    assert pair.server.pending(stream_id) == 29


@both_lanes
def test_a_window_beyond_all_bounds(express: bool) -> None:
    pair = make_pair(express)
    stream_id, _ = pair.ask()
    assert pair.receive(encode_frame(WINDOW_UPDATE, 0, stream_id, b"\x7f\xff\xff\xff")) == [RequestCancelled(stream_id)]
    pair.flush()
    assert pair.client.answers[stream_id].reset == FLOW_CONTROL_ERROR
    pair.ask()
    pair.receive(encode_frame(SETTINGS, 0, 0, b"\0\x04\x7f\xff\xff\xff") + encode_frame(WINDOW_UPDATE, 0, stream_id + 2, b"\0\0\0\x01"))
    assert pair.events[-1] == RequestCancelled(stream_id + 2)
    pair.receive(encode_frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"))
    assert type(pair.events[-1]) is ProtocolFailed
    assert pair.goodbye() == FLOW_CONTROL_ERROR


@both_lanes
def test_settings_that_take_a_window_beyond_all_bounds(express: bool) -> None:
    pair = make_pair(express)
    stream_id, _ = pair.ask()
    pair.receive(encode_frame(WINDOW_UPDATE, 0, stream_id, b"\0\0\0\x01"))
    pair.receive(encode_frame(SETTINGS, 0, 0, b"\0\x04\x7f\xff\xff\xff"))
    assert type(pair.events[-1]) is ProtocolFailed
    assert pair.goodbye() == FLOW_CONTROL_ERROR


@both_lanes
def test_a_large_answer_leaves_in_shares(express: bool) -> None:
    pair = make_pair(express, window=8 << 20)
    pair.client.h2.increment_flow_control_window(8 << 20)
    pair.turn()
    large, _ = pair.ask()
    small, _ = pair.ask()
    pair.server.respond(large, 200, [], b"x" * (1 << 20), DATE)
    pair.server.respond(small, 200, [], b"y", DATE)
    data = pair.server.data_to_send()
    assert OUTPUT_MAX <= len(data) <= OUTPUT_MAX + 2 * FRAME_SIZE_MAX
    pair.client.receive(data)
    assert pair.client.answers[small].is_complete, "the small answer waits for the large one"
    assert pair.server.wants_to_send and pair.server.pending(large)
    pair.flush()
    assert pair.client.answers[large].body == b"x" * (1 << 20)


def test_a_body_that_is_taken_gets_a_larger_window() -> None:
    pair = make_pair(True)
    stream_id = pair.client.request("PUT", "/1", None, b"x" * (2 << 20))
    events = pair.turn()
    assert sum(len(event.data) for event in events if type(event) is DataReceived) == 2 << 20
    assert type(events[-1]) is RequestEnded
    stream_id = pair.client.request("PUT", "/1", None, b"x" * 40_000, is_open=True)
    pair.turn()
    assert pair.client.h2.local_flow_control_window(stream_id) > BODY_WINDOW // 2


def test_a_paused_body_is_held_back() -> None:
    pair = make_pair(True)
    held = pair.client.request("PUT", "/held", is_open=True)
    pair.turn()
    pair.server.pause(held)
    assert pair.server.is_paused(held)
    pair.client.send_body(held, b"x" * 200_000)
    pair.turn()
    received = sum(len(event.data) for event in pair.events if type(event) is DataReceived)
    assert received == STREAM_WINDOW
    other = pair.client.request("PUT", "/other", None, b"y" * 200_000)
    pair.turn()
    assert pair.events[-1] == RequestEnded(other, [])
    pair.server.resume(held)
    pair.turn()
    assert pair.events[-1] == RequestEnded(held, [])


def test_what_a_reset_stream_held_goes_back_to_the_connection() -> None:
    pair = make_pair(True)
    for _ in range(CONNECTION_WINDOW // STREAM_WINDOW * 3):
        stream_id = pair.client.request("PUT", "/", is_open=True)
        pair.turn()
        pair.server.pause(stream_id)
        pair.client.send_body(stream_id, b"x" * 60_000)
        pair.turn()
        pair.server.reset(stream_id)
        pair.turn()
    assert not pair.server.should_close
    assert pair.client.h2.outbound_flow_control_window > CONNECTION_WINDOW // 4


# --- limits --------------------------------------------------------------------------------------------------------------------------


@both_lanes
def test_too_many_requests_at_a_time_are_refused(express: bool) -> None:
    pair = Pair(WIDE, express, max_streams=3)
    assert pair.client.server_settings[3] == 3
    pair.client.h2.remote_settings.max_concurrent_streams = 100
    pair.client.h2.remote_settings.acknowledge()
    streams = [pair.client.request("GET", "/") for _ in range(5)]
    events = pair.turn()
    assert [event.stream_id for event in events] == streams[:3]  # type: ignore[union-attr]
    assert [pair.client.answers[stream_id].reset for stream_id in streams] == [None, None, None, REFUSED_STREAM, REFUSED_STREAM]
    pair.answer(streams[0])
    assert type(pair.ask()[1][0]) is RequestReceived


@both_lanes
def test_answers_not_flushed_count_as_under_way(express: bool) -> None:
    pair = Pair(WIDE, express, max_streams=3)
    pair.client.h2.remote_settings.max_concurrent_streams = 100
    pair.client.h2.remote_settings.acknowledge()
    for _ in range(2):
        pair.client.request("GET", "/")
    for event in pair.receive(pair.client.data_to_send()):
        pair.server.respond(event.stream_id, 200, [], b"", DATE)  # type: ignore[union-attr]
    for _ in range(2):
        pair.client.request("GET", "/")
    assert len(pair.receive(pair.client.data_to_send())) == 1


@both_lanes
def test_no_more_requests_while_too_much_waits_for_windows(express: bool) -> None:
    pair = make_pair(express, window=0)
    stream_id, _ = pair.ask()
    pair.server.respond(stream_id, 200, [], b"x" * (BUFFER_MAX + 1), DATE)
    refused, events = pair.ask()
    assert events == [] and pair.client.answers[refused].reset == REFUSED_STREAM
    pair.receive(encode_reset(stream_id, CANCEL))
    assert pair.server.buffered == 0
    assert type(pair.ask()[1][0]) is RequestReceived


FLOODS = {
    PRIORITY: encode_frame(PRIORITY, 0, 9, bytes(5)),
    RST_STREAM: encode_reset(1, 0),
    SETTINGS: encode_frame(SETTINGS, 0, 0, b""),
    PING: encode_frame(PING, 0, 0, bytes(8)),
    GOAWAY: encode_goaway(0, 0),
    WINDOW_UPDATE: encode_frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\x01"),
    10: encode_frame(200, 0, 0, b""),
}


@pytest.mark.parametrize("kind", FLOODS, ids=lambda kind: ALLOWANCES[kind].name)
def test_floods_of_frames_that_ask_for_nothing(kind: int) -> None:
    pair = Pair()
    pair.ask()
    pair.answer(1)
    allowance = ALLOWANCES[kind]
    pair.server.tick(1000)  # what the beginning took
    for _ in range(allowance.burst):
        pair.receive(FLOODS[kind])
    assert not any(type(event) is ProtocolFailed for event in pair.events)
    pair.server.tick(1)
    for _ in range(allowance.per_second + 1):
        assert not any(type(event) is ProtocolFailed for event in pair.events)
        pair.receive(FLOODS[kind])
    assert type(pair.events[-1]) is ProtocolFailed
    if kind != GOAWAY:  # after which h2's client is deaf
        assert pair.goodbye() == ENHANCE_YOUR_CALM


def test_a_flood_of_resets(pair: Pair) -> None:
    allowance = ALLOWANCES[RST_STREAM]
    for number in range(allowance.burst + 1):
        assert not any(type(event) is ProtocolFailed for event in pair.events)
        stream_id = 101 + 2 * number
        pair.receive(encode_frame(HEADERS, 5, stream_id, block(*HEAD)))
        pair.receive(encode_reset(stream_id, CANCEL))
    assert type(pair.events[-1]) is ProtocolFailed
    assert pair.goodbye() == ENHANCE_YOUR_CALM


def test_a_flood_of_streams_that_we_are_made_to_reset(pair: Pair) -> None:
    """CVE-2025-8671."""
    for number in range(ALLOWANCES[OUR_RESET].burst + 1):
        assert not any(type(event) is ProtocolFailed for event in pair.events)
        stream_id = 101 + 2 * number
        pair.receive(encode_frame(HEADERS, 5, stream_id, block(*HEAD)) + encode_frame(DATA, 0, stream_id, b"x"))
    assert type(pair.events[-1]) is ProtocolFailed
    assert pair.goodbye() == ENHANCE_YOUR_CALM


def test_a_flood_of_empty_data(pair: Pair) -> None:
    stream_id = pair.client.request("PUT", "/", is_open=True)
    pair.turn()
    for _ in range(ALLOWANCES[EMPTY_DATA].burst):
        assert pair.receive(encode_frame(DATA, 0, stream_id, b"")) == []
    pair.receive(encode_frame(DATA, 8, stream_id, b"\x05\0\0\0\0\0"))
    assert type(pair.events[-1]) is ProtocolFailed
    assert pair.goodbye() == ENHANCE_YOUR_CALM


def test_each_data_frame_earns_window_updates() -> None:
    pair = make_pair(True, window=1 << 30)
    pair.client.h2.increment_flow_control_window(1 << 30)
    pair.turn()
    pair.server.tick(1000)
    for _ in range(ALLOWANCES[WINDOW_UPDATE].burst // 2):
        stream_id, _ = pair.ask()
        pair.answer(stream_id, 200, b"x")
        pair.receive(FLOODS[WINDOW_UPDATE] * 2)
    pair.receive(FLOODS[WINDOW_UPDATE] * (ALLOWANCES[WINDOW_UPDATE].burst - 10))
    assert not any(type(event) is ProtocolFailed for event in pair.events)


@pytest.mark.parametrize("size", [0, 100])
def test_a_header_block_without_end(pair: Pair, size: int) -> None:
    """CVE-2024-27316."""
    pair.receive(encode_frame(HEADERS, 1, 101, block(*HEAD)))
    for _ in range(HEADER_BLOCK_MAX // 100):
        pair.receive(encode_frame(CONTINUATION, 0, 101, b"\x40" + b"x" * (size - 1) if size else b""))
        if pair.server.should_close:
            break
    assert type(pair.events[-1]) is ProtocolFailed
    assert pair.goodbye() in (ENHANCE_YOUR_CALM, PROTOCOL_ERROR)


def test_a_header_block_in_large_pieces(pair: Pair) -> None:
    pair.receive(encode_frame(HEADERS, 1, 101, block(*HEAD)))
    for _ in range(HEADER_BLOCK_MAX // FRAME_SIZE_MAX + 1):
        pair.receive(encode_frame(CONTINUATION, 0, 101, bytes(FRAME_SIZE_MAX)))
    assert type(pair.events[-1]) is ProtocolFailed
    assert pair.goodbye() == ENHANCE_YOUR_CALM


def test_few_bytes_that_decode_to_many(pair: Pair) -> None:
    """A field of 4 KB in the table, named a thousand times."""
    value = b"y" * 3000
    name_and_value = b"\x40\x01x\x7f" + bytes(((3000 - 127) % 128 + 128, (3000 - 127) // 128)) + value
    pair.receive(encode_frame(HEADERS, 5, 101, block(*HEAD) + name_and_value))
    event = pair.events[-1]
    assert type(event) is RequestFailed and event.error.status_code == 431
    pair.receive(encode_frame(HEADERS, 5, 103, block(*HEAD) + b"\xbe" * 1000))
    assert type(pair.events[-1]) is ProtocolFailed
    assert pair.goodbye() == ENHANCE_YOUR_CALM


@pytest.mark.parametrize("size", [FRAME_SIZE_MAX + 1, (1 << 24) - 1])
def test_a_frame_that_is_too_long_is_not_waited_for(pair: Pair, size: int) -> None:
    pair.receive(size.to_bytes(3, "big") + bytes((DATA, 0, 0, 0, 0, 1)))
    assert type(pair.events[-1]) is ProtocolFailed
    assert pair.goodbye() == FRAME_SIZE_ERROR


# --- the connection ------------------------------------------------------------------------------------------------------------------


def test_what_we_say_first() -> None:
    pair = Pair(LIMITS)
    assert pair.client.server_settings[3] == MAX_STREAMS
    assert pair.client.server_settings[6] == LIMITS.max_header_size
    assert pair.client.server_settings[8] == 1  # extended CONNECT
    assert pair.client.server_settings[9] == 1  # no priorities of RFC 7540
    assert pair.client.h2.outbound_flow_control_window == CONNECTION_WINDOW
    assert pair.server.idle and not pair.server.should_close


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        PREFACE[:-1] + b"x",
        PREFACE + encode_frame(PING, 0, 0, bytes(8)),
        PREFACE + encode_frame(SETTINGS, 1, 0, b""),
        PREFACE + encode_frame(HEADERS, 5, 1, block(*HEAD)),
        PREFACE + encode_frame(HEADERS, 1, 1, block(*HEAD)),
    ],
)
def test_a_beginning_that_is_none(data: bytes) -> None:
    for pieces in ([data], [data[i : i + 1] for i in range(len(data))]):
        server = Http2(LIMITS)
        events = [event for piece in pieces for event in server.receive_data(piece)]
        assert [type(event) for event in events] == [ProtocolFailed]
        assert server.should_close
        assert server.data_to_send()[-200:].find(bytes((GOAWAY, 0, 0, 0, 0, 0))) >= 0


START = PREFACE + encode_frame(SETTINGS, 0, 0, b"")


@pytest.mark.parametrize(
    "data",
    [
        encode_frame(HEADERS, 1, 1, block(*HEAD)) + encode_frame(PING, 0, 0, bytes(8)),
        encode_frame(HEADERS, 1, 1, block(*HEAD)) + encode_frame(DATA, 0, 1, b""),
        encode_frame(HEADERS, 1, 1, block(*HEAD)) + encode_frame(CONTINUATION, 4, 3, b""),
        encode_frame(HEADERS, 1, 1, block(*HEAD)) + encode_frame(77, 0, 0, b""),
        encode_frame(CONTINUATION, 4, 1, b""),
        encode_frame(HEADERS, 5, 2, block(*HEAD)),
        encode_frame(HEADERS, 5, 3, block(*HEAD)) * 2,
        encode_frame(HEADERS, 5, 3, block(*HEAD)) + encode_frame(HEADERS, 5, 1, block(*HEAD)),
        encode_frame(HEADERS, 5, 1, b"\xff\xff"),
        encode_frame(HEADERS, 5, 1, block(*HEAD)) + encode_frame(HEADERS, 5, 3, b"\xbe"),
        encode_frame(DATA, 0, 1, b"x"),
        encode_frame(DATA, 0, 0, b"x"),
        encode_frame(RST_STREAM, 0, 1, bytes(4)),
        encode_frame(HEADERS, 5, 1, block(*HEAD)) + encode_frame(RST_STREAM, 0, 1, bytes(3)),
        encode_frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\x01"),
        encode_frame(HEADERS, 5, 1, block(*HEAD)) + encode_frame(HEADERS, 5, 3, block(*HEAD)) + encode_frame(WINDOW_UPDATE, 0, 3, bytes(4)),
        encode_frame(WINDOW_UPDATE, 0, 0, bytes(3)),
        encode_frame(SETTINGS, 0, 0, bytes(5)),
        encode_frame(SETTINGS, 0, 0, b"\0\x05\0\0\0\x01"),
        encode_frame(SETTINGS, 0, 0, b"\0\x04\xff\xff\xff\xff"),
        encode_frame(SETTINGS, 0, 1, b""),
        encode_frame(PING, 0, 0, bytes(7)),
        encode_frame(GOAWAY, 0, 0, bytes(7)),
        encode_frame(GOAWAY, 0, 1, bytes(8)),
        encode_frame(5, 4, 1, bytes(4)),
        encode_frame(HEADERS, 0x2D, 1, b"\xff" + bytes(5)),
        encode_frame(HEADERS, 5, 1, block(*HEAD)) + encode_frame(HEADERS, 0x25, 3, b"\0\0\0\x03\0" + block(*HEAD)),
    ],
)
@both_lanes
def test_what_ends_the_connection(data: bytes, express: bool) -> None:
    server = Http2(LIMITS, express)
    events = server.receive_data(START + data)
    assert type(events[-1]) is ProtocolFailed
    assert server.should_close and server.idle
    assert server.receive_data(data) == [] and server.receive_eof() == []
    server.drain()
    server.finish_drain()
    server.close()
    server.respond(1, 200, [], b"x", DATE)
    out = server.data_to_send()
    assert out.count(bytes((GOAWAY, 0, 0, 0, 0, 0))) == 1
    assert server.data_to_send() == b""
    server.check()


def test_pings_are_answered(pair: Pair) -> None:
    pair.receive(encode_frame(PING, 0, 0, b"12345678"))
    assert pair.server.data_to_send() == encode_frame(PING, 1, 0, b"12345678")


@both_lanes
def test_a_drain_is_announced_and_finishes_what_is_under_way(express: bool) -> None:
    pair = make_pair(express)
    early, _ = pair.ask()
    pair.server.drain()
    pair.server.drain()
    data = pair.server.data_to_send()
    assert data.startswith(encode_goaway((1 << 31) - 1, NO_ERROR)) and data.count(b"drain-ok") == 1
    # A request that was on its way meanwhile.
    late = pair.client.request("GET", "/late")
    assert type(pair.receive(pair.client.data_to_send())[0]) is RequestReceived
    pair.receive(encode_frame(PING, 1, 0, b"drain-ok"))
    assert encode_goaway(late, NO_ERROR) in pair.server.data_to_send()
    assert not pair.server.should_close
    refused = pair.client.request("GET", "/too-late")
    assert pair.receive(pair.client.data_to_send()) == []
    assert pair.server.data_to_send() == encode_reset(refused, REFUSED_STREAM)
    for stream_id in (early, late):
        pair.server.respond(stream_id, 200, [], b"x", DATE)
    assert pair.server.data_to_send()
    assert pair.server.should_close


def test_a_drain_without_an_answer_to_the_ping() -> None:
    pair = Pair()
    pair.server.drain()
    assert not pair.server.should_close
    pair.server.finish_drain()
    assert pair.server.should_close


@both_lanes
def test_a_peer_that_says_goodbye_gets_its_answers(express: bool) -> None:
    pair = make_pair(express)
    stream_id, _ = pair.ask()
    pair.receive(encode_goaway(0, NO_ERROR))
    assert not pair.server.should_close
    assert pair.answer(stream_id, 200, b"body").body == b"body"
    assert pair.server.should_close


def test_the_end_of_input(pair: Pair) -> None:
    stream_id, _ = pair.ask()
    assert pair.server.receive_eof() == [PeerClosed()]
    assert not pair.server.should_close
    assert pair.answer(stream_id, 200, b"body").body == b"body"
    assert pair.server.should_close


def test_close_says_goodbye(pair: Pair) -> None:
    pair.ask()
    pair.server.close()
    assert pair.goodbye() == NO_ERROR
    assert pair.server.idle


def test_what_has_to_be_complete_soon() -> None:
    server = Http2(LIMITS)
    assert server.reading_head
    for piece, waits in (
        (START[:30], True), (START[30:], False), (encode_frame(HEADERS, 1, 1, block(*HEAD)), True), (encode_frame(CONTINUATION, 4, 1, b""), False),
        (b"\0", True), (b"\0\x01\x01", True), (b"\x05\0\0\0\x03" + b"\x82", False), (b"\0\0\x10\x00\0\0\0\0\x01", False), (b"x", False),
    ):  # fmt: skip
        server.receive_data(piece)
        assert server.reading_head == waits, piece


# --- extended CONNECT ----------------------------------------------------------------------------------------------------------------


def open_tunnel(pair: Pair) -> int:
    client = pair.client
    stream_id = client.h2.get_next_available_stream_id()
    head = [(":method", "CONNECT"), (":protocol", "WebSocket"), (":scheme", "http"), (":authority", "localhost"), (":path", "/chat")]
    client.h2.send_headers(stream_id, [*head, ("sec-websocket-version", "13")])
    client.answers[stream_id] = Answer()
    return stream_id


def test_an_extended_connect_is_an_upgrade(pair: Pair) -> None:
    stream_id = open_tunnel(pair)
    (event,) = pair.turn()
    assert type(event) is RequestReceived
    assert (event.method, event.target, event.upgrade, event.body) == ("GET", "/chat", "websocket", b"")
    pair.server.accept_tunnel(stream_id, [("Sec-WebSocket-Protocol", "x")], DATE)
    pair.client.h2.send_data(stream_id, b"ping")
    assert pair.turn() == [DataReceived(stream_id, b"ping")]
    pair.server.send_body(stream_id, b"pong")
    pair.turn()
    answer = pair.client.answers[stream_id]
    assert (answer.status, answer.body, answer.is_complete) == (200, b"pong", False)
    assert answer.pairs == [("sec-websocket-protocol", "x"), ("date", DATE)]
    pair.server.end_response(stream_id)
    pair.turn()
    assert (answer.is_complete, answer.reset) == (True, None)
    pair.client.h2.end_stream(stream_id)
    assert pair.turn() == []
    assert pair.server.idle and not pair.server.should_close


def test_a_tunnel_that_the_peer_ends(pair: Pair) -> None:
    stream_id = open_tunnel(pair)
    pair.turn()
    pair.server.accept_tunnel(stream_id, [], DATE)
    pair.client.h2.end_stream(stream_id)
    assert pair.turn() == [RequestEnded(stream_id, [])]
    pair.server.end_response(stream_id)
    pair.turn()
    assert pair.client.answers[stream_id].is_complete


def test_a_tunnel_takes_more_than_a_body_may_be(pair: Pair) -> None:
    stream_id = open_tunnel(pair)
    pair.turn()
    pair.server.accept_tunnel(stream_id, [], DATE)
    pair.client.send_body(stream_id, b"x" * 200_000, is_open=True)
    assert sum(len(event.data) for event in pair.turn() if type(event) is DataReceived) == 200_000


def test_a_tunnel_that_is_refused(pair: Pair) -> None:
    stream_id = open_tunnel(pair)
    pair.turn()
    answer = pair.answer(stream_id, 404, b"no")
    assert (answer.status, answer.is_complete, answer.reset) == (404, True, NO_ERROR)
