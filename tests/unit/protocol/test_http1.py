"""The HTTP/1 driver: each case whole, byte by byte and with trailing data, in both lanes; every state with every input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import h11
import pytest

from svc.errors import PeerError
from svc.messages import HeaderPairs
from svc.protocol.events import DataReceived, Event, PeerClosed, ProtocolFailed, RequestEnded, RequestReceived, SwitchTo
from svc.protocol.http1 import Http1, Limits
from svc.protocol.http1_states import TRANSITIONS, Http1Input, Http1State
from svc.protocol.request_head import FIELDS_MAX

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
LIMITS = Limits(max_header_size=500, max_body_size=100)
GET = b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"
NEXT = b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n"
PUT_HEAD = b"PUT /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
CHUNKED_HEAD = b"PUT /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
UPGRADE = b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n"


@dataclass
class Seen:
    """One request, however its events came."""

    method: str
    target: str
    pairs: HeaderPairs
    version: str
    body: bytes = b""
    trailers: HeaderPairs = field(default_factory=list)
    complete: bool = False


def gather(events: list[Event]) -> list[Seen | Event]:
    """Requests put together, other events as they are."""
    seen: list[Seen | Event] = []
    for event in events:
        last = seen[-1] if seen else None
        if isinstance(event, RequestReceived):
            whole = event.body is not None
            seen.append(Seen(event.method, event.target, event.block.pairs, event.http_version, event.body or b"", [], whole))
        elif isinstance(event, DataReceived):
            assert isinstance(last, Seen) and not last.complete
            last.body += event.data
        elif isinstance(event, RequestEnded):
            assert isinstance(last, Seen) and not last.complete
            last.trailers, last.complete = event.trailers, True
        else:
            seen.append(event)
    return seen


def feed(driver: Http1, data: bytes, by_byte: bool = False) -> list[Seen | Event]:
    events: list[Event] = []
    for piece in [data[i : i + 1] for i in range(len(data))] if by_byte else [data]:
        events += driver.receive_data(piece)
        driver.check()
        if driver.has_failed:
            events += driver.next_events()
            driver.check()
    return gather(events)


def answer(driver: Http1, number: int, status: int = 200, body: bytes = b"ok") -> bytes:
    driver.respond(number, status, [], body, DATE)
    driver.check()
    return driver.data_to_send()


lanes = pytest.mark.parametrize("express", [True, False], ids=["express", "h11"])
ways = pytest.mark.parametrize("by_byte", [False, True], ids=["whole", "by byte"])


# --- requests ------------------------------------------------------------------------------------------------------------------------

HOST = ("host", "a")
GOOD: list[tuple[bytes, Seen]] = [
    (GET, Seen("GET", "/1", [HOST], "1.1")),
    (b"HEAD / HTTP/1.1\r\nHost: a\r\nX:  y \r\nx:z\r\n\r\n", Seen("HEAD", "/", [HOST, ("x", "y"), ("x", "z")], "1.1")),
    (PUT_HEAD + b"hello", Seen("PUT", "/1", [HOST, ("content-length", "5")], "1.1", b"hello")),
    (b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", Seen("PUT", "/", [HOST, ("content-length", "0")], "1.1")),
    (
        CHUNKED_HEAD + b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
        Seen("PUT", "/1", [HOST, ("transfer-encoding", "chunked")], "1.1", b"hello"),
    ),
    (
        CHUNKED_HEAD + b"0\r\nX-Sum: 1\r\nY:\r\n\r\n",
        Seen("PUT", "/1", [HOST, ("transfer-encoding", "chunked")], "1.1", b"", [("x-sum", "1"), ("y", "")]),
    ),
    (b"GET / HTTP/1.0\r\n\r\n", Seen("GET", "/", [], "1.0")),
    (b"POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab", Seen("POST", "/", [("content-length", "2")], "1.0", b"ab")),
    (b"GET / HTTP/1.7\r\nHost: a\r\n\r\n", Seen("GET", "/", [HOST], "1.1")),
    (b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", Seen("BREW", "/", [HOST], "1.1")),
    (b"GET / HTTP/1.1\nHost: a\n\n", Seen("GET", "/", [HOST], "1.1")),
    (b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n  c\r\n\r\n", Seen("GET", "/", [HOST, ("x", "b c")], "1.1")),
    (b"GET / HTTP/1.1\r\nHost: a\r\nX: \xe9\r\n\r\n", Seen("GET", "/", [HOST, ("x", "\xe9")], "1.1")),
    (b"GET http://b/c?d HTTP/1.1\r\nHost: a\r\n\r\n", Seen("GET", "/c?d", [("host", "b")], "1.1")),
    (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", Seen("OPTIONS", "*", [HOST], "1.1")),
    (b"\r\n" + GET, Seen("GET", "/1", [HOST], "1.1")),
    (
        b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
        Seen("PUT", "/", [HOST, ("content-length", "1")], "1.1", b"a"),
    ),
]


@pytest.mark.parametrize(("data", "expected"), GOOD, ids=range(len(GOOD)))
@lanes
@ways
@pytest.mark.parametrize("trailing", [b"", NEXT, b"\x16junk"], ids=["alone", "then a request", "then junk"])
def test_good_requests(data: bytes, expected: Seen, express: bool, by_byte: bool, trailing: bytes) -> None:
    driver = Http1(LIMITS, express)
    seen = feed(driver, data + trailing, by_byte)
    expected.complete = True
    assert seen == [expected]
    closes = expected.version == "1.0"
    assert answer(driver, 1).endswith(
        b"Connection: close\r\n\r\n" if closes and expected.method == "HEAD" else b"" if expected.method == "HEAD" else b"ok"
    )
    follow = gather(driver.next_events())
    if closes or not trailing:
        assert follow == []
        assert driver.should_close is closes
    elif trailing == NEXT:
        assert follow == [Seen("GET", "/next", [HOST], "1.1", complete=True)]
    else:
        assert [type(event) for event in follow] == [ProtocolFailed]


BAD: list[tuple[bytes, int]] = [
    (b"GET /\r\n\r\n", 400), (b"GET / HTTP/1\r\n\r\n", 400), (b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400), (b"GET / http/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET /\xe9 HTTP/1.1\r\nHost: a\r\n\r\n", 400), (b"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400), (b"GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"\x16\x03\x01\x02\x00", 400), (b" GET / HTTP/1.1\r\n", 400), (b"\n", 400), (b"\rG", 400), (b"\r\n\r\n", 400),
    (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505), (b"GET / HTTP/0.9\r\n\r\n", 505), (b"PRI * HTTP/2.0\r\n\r\n", 505),
    (b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 501), (b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400), (b"GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\n\r\n", 400), (b"GET / HTTP/1.5\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n", 400),
    (b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    (b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400), (b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n", 400),
    (b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\n", 400), (b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400),
    (b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: \xb2\r\n\r\n", 400), (b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"9" * 21 + b"\r\n\r\n", 400),
    (b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n", 413), (b"PUT / HTTP/1.0\r\nContent-Length: 99999999999999999999\r\n\r\n", 413),
    (b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
    (b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
    (b"PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400), (b"GET /" + b"a" * 500, 414),
    (b"GET /" + b"a" * 500 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414), (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"b" * 500, 431),
    (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"b" * 500 + b"\r\n\r\n", 431),
    (b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400), (b"GET /?a=b# HTTP/1.1\r\nHost: a\r\n\r\n", 400), (b"GET # HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET http://a/#b HTTP/1.1\r\nHost: a\r\n\r\n", 400), (b"GET http://a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
]  # fmt: skip


@pytest.mark.parametrize(("data", "status"), BAD, ids=range(len(BAD)))
@lanes
@ways
@pytest.mark.parametrize("trailing", [b"", NEXT], ids=["alone", "then a request"])
def test_bad_heads(data: bytes, status: int, express: bool, by_byte: bool, trailing: bytes) -> None:
    driver = Http1(LIMITS, express)
    seen = feed(driver, data + trailing, by_byte)
    assert [type(event) for event in seen] == [ProtocolFailed]
    assert isinstance(seen[0], ProtocolFailed) and seen[0].error.status_code == status
    assert "bytearray" not in seen[0].error.message
    driver.fail(seen[0].error, [("X", "y")], b"why", DATE)
    sent = driver.data_to_send()
    assert sent.startswith(b"HTTP/1.1 %d " % status)
    assert sent.endswith(b"X: y\r\nDate: " + DATE.encode() + b"\r\nContent-Length: 3\r\nConnection: close\r\n\r\nwhy")
    assert driver.should_close
    assert driver.receive_data(GET) == driver.receive_eof() == driver.next_events() == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"+5\r\nhello\r\n0\r\n\r\n", 400), (b"0x5\r\nhello\r\n", 400), (b"5\r\nhelloXX", 400), (b"\r\n", 400), (b"g\r\n", 400), (b"-1\r\n", 400),
        (b"5 x\r\nhello\r\n", 400), (b"123456789012345678901\r\n", 400), (b"0\r\nA : b\r\n\r\n", 400), (b"0\r\n a\r\n\r\n", 400),
        (b"5;a=\rb\r\nhello\r\n0\r\n\r\n", 400), (b"5;a=\0\r\nhello\r\n0\r\n\r\n", 400), (b"5;a=\x7f\r\nhello\r\n0\r\n\r\n", 400),
        (b"5;a\nhello\r\n", 400), (b"5\nhello\r\n0\r\n\r\n", 400), (b"5\r\r\nhello\r\n0\r\n\r\n", 400),
        (b"5\r\nhello\n0\r\n\r\n", 400), (b"5 ;a\r\nhello\r\n", 400), (b"10000000000000000\r\n", 400), (b"fffffffffffffffffffff;x\r\n", 400),
        (b"ffffffffffffffff\r\n", 413), (b"8000000000000000;x=y\r\n", 413), (b"65\r\n", 413), (b"5\r\nhello\r\n60\r\n", 413),
        (b"0\r\n\n", 400), (b"0\r\nA: b\n\r\n", 400), (b"0\r\nA: b\r\n\n", 400), (b"0\r\nA: b\n\n", 400),
        (b"0\r\nA: b\n" + b"c" * 1100, 400), (b"0\r\nA: " + b"b" * 1100 + b"\n\r\n", 431),
        (b"0\r\nA: \0\r\n\r\n", 400), (b"0\r\nA: \r\r\n\r\n", 400), (b"0\r\nA: b\rc: d\r\n\r\n", 400),
        (b"64\r\n" + b"a" * 100 + b"\r\n1\r\nb\r\n", 413), (b"ff\r\n" + b"a" * 255, 413), (b"5;" + b"x" * 1100 + b"\r\n", 431),
        (b"5" + b" " * 1100, 431), (b"0\r\nA: " + b"b" * 1100 + b"\r\n\r\n", 431),
    ],
)  # fmt: skip
@ways
def test_bad_chunked_bodies(body: bytes, status: int, by_byte: bool) -> None:
    driver = Http1(LIMITS)
    *_, failed = feed(driver, CHUNKED_HEAD + body + NEXT, by_byte)
    assert isinstance(failed, ProtocolFailed) and failed.error.status_code == status
    driver.fail(failed.error, [], b"", DATE)
    assert driver.data_to_send().startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize("length", range(1015, 1035))
@pytest.mark.parametrize("before", [b"", b"1\r\na\r\n", b"10\r\n" + b"b" * 16 + b"\r\n"])
def test_the_limit_of_a_chunk_line_does_not_depend_on_the_cuts(length: int, before: bytes) -> None:
    data = CHUNKED_HEAD + before + b"5;" + b"x" * (length - 4) + b"\r\nhello\r\n0\r\n\r\n"
    outcomes = {type(feed(Http1(LIMITS), data, by_byte)[-1]) for by_byte in (False, True)}
    assert outcomes == {Seen if length <= 1024 else ProtocolFailed}


@lanes
def test_the_number_of_fields_is_limited(express: bool) -> None:
    for count, is_good in ((FIELDS_MAX, True), (FIELDS_MAX + 1, False)):
        head = b"GET / HTTP/1.1\r\nHost: a\r\n" + b"x:y\r\n" * (count - 1) + b"\r\n"
        (event,) = Http1(Limits(), express).receive_data(head)
        assert type(event) is (RequestReceived if is_good else ProtocolFailed)
        if not is_good:
            assert event.error.status_code == 431 and "256" in event.error.message  # type: ignore[union-attr]


def test_limits_are_inclusive() -> None:
    head = b"GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n"
    fits = head.replace(b"X: ", b"X: " + b"y" * (500 - len(head)))
    for express in (True, False):
        assert isinstance(feed(Http1(LIMITS, express), fits)[0], Seen)
        assert isinstance(feed(Http1(LIMITS, express), fits.replace(b"X", b"XX"))[0], ProtocolFailed)
        assert isinstance(feed(Http1(LIMITS, express), b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n" + b"a" * 100)[0], Seen)


def test_the_body_is_whole_when_it_is_there_and_follows_when_it_is_not() -> None:
    driver = Http1(LIMITS)
    assert driver.receive_data(PUT_HEAD)[0].body is None  # type: ignore[union-attr]
    assert driver.receive_data(b"hel") == [DataReceived(1, b"hel")]
    assert driver.receive_data(b"loGET") == [DataReceived(1, b"lo"), RequestEnded(1, [])]
    assert not driver.idle
    driver = Http1(LIMITS)
    assert driver.receive_data(PUT_HEAD + b"hello")[0].body == b"hello"  # type: ignore[union-attr]


def test_a_head_fed_byte_by_byte_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = 0

    class Pattern:
        def search(self, data: bytearray, start: int) -> None:
            nonlocal searched
            searched += len(data) - start

    monkeypatch.setattr("svc.protocol.http1._BLANK_LINE", Pattern())
    driver = Http1(Limits())
    for _ in range(10000):
        driver.receive_data(b"a")
    assert searched <= 30000


@pytest.mark.parametrize(
    "data",
    [
        CHUNKED_HEAD + b"0\r\na:" + b" " * 1000 + b"\0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\na:" + b" " * 16000 + b"\0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\na:" + b" " * 16000 + b"\x0b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\na:" + b" " * 16000 + b"\r\r\n\r\n",
        CHUNKED_HEAD + b"5;" + b" " * 60000 + b"\n \r\n",
        CHUNKED_HEAD + b"0\r\na:" + b" " * 60000 + b"\0\r\n\r\n",
    ],
)
def test_what_takes_h11_long_does_not_reach_it(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = 0
    receive = h11.Connection.receive_data

    def watch(self: h11.Connection, piece: bytes) -> None:
        nonlocal longest
        receive(self, piece)
        longest = max(longest, len(self.trailing_data[0]))

    monkeypatch.setattr(h11.Connection, "receive_data", watch)
    assert isinstance(feed(Http1(Limits()), data)[-1], ProtocolFailed)
    assert longest <= len(CHUNKED_HEAD)


# --- lanes ---------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def h11_heads(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The heads that went to h11."""
    heads: list[bytes] = []
    original = Http1._read_odd_head

    def watch(self: Http1, head: bytes) -> Event:
        heads.append(head)
        return original(self, head)

    monkeypatch.setattr(Http1, "_read_odd_head", watch)
    return heads


def test_plain_requests_do_not_reach_h11(h11_heads: list[bytes]) -> None:
    driver = Http1(LIMITS)
    number = 0
    for by_byte in (False, True):
        for data in (GET, PUT_HEAD + b"hello", GET + NEXT):
            feed(driver, data, by_byte)
            number += 1
            answer(driver, number)
            while driver.next_events():
                number += 1
                answer(driver, number)
    assert number == 8 and h11_heads == []


ODD = GET.replace(b"Host", b"X: \xe9\r\nHost")


@ways
def test_an_odd_head_goes_to_h11_alone(by_byte: bool, h11_heads: list[bytes]) -> None:
    driver = Http1(LIMITS)
    chunked = CHUNKED_HEAD + b"5\r\nhello\r\n0\r\nX: y\r\n\r\n"
    for number, data in enumerate([GET, ODD, NEXT, chunked, GET, PUT_HEAD + b"hello", ODD, ODD, GET], 1):
        (seen,) = feed(driver, data, by_byte)
        assert isinstance(seen, Seen) and seen.complete
        assert b"Connection: close" not in answer(driver, number)
    assert h11_heads == [ODD, CHUNKED_HEAD, ODD, ODD]


def test_pipelined_requests_alternate_between_the_lanes(h11_heads: list[bytes]) -> None:
    driver = Http1(LIMITS)
    chunked = CHUNKED_HEAD + b"5\r\nhello\r\n0\r\n\r\n"
    events = driver.receive_data(GET + ODD + NEXT + chunked + NEXT)
    targets = []
    for number in range(1, 6):
        (seen,) = gather(events)
        assert isinstance(seen, Seen) and seen.complete
        targets.append(seen.target)
        answer(driver, number)
        events = driver.next_events()
    assert targets == ["/1", "/1", "/next", "/1", "/next"] and driver.idle
    assert h11_heads == [ODD, CHUNKED_HEAD]


def test_repeated_blocks_are_one_object() -> None:
    first, second = Http1(LIMITS), Http1(LIMITS)
    (one,), (two,) = first.receive_data(GET), second.receive_data(NEXT)
    assert isinstance(one, RequestReceived) and isinstance(two, RequestReceived)
    assert one.block is two.block


# --- answers -------------------------------------------------------------------------------------------------------------------------


def test_a_whole_answer() -> None:
    driver = Http1(LIMITS)
    feed(driver, GET)
    driver.respond(1, 201, [("Location", "7"), ("X", "é")], b"body", DATE)
    assert driver.data_to_send() == (
        b"HTTP/1.1 201 Created\r\nLocation: 7\r\nX: \xe9\r\nDate: " + DATE.encode() + b"\r\nContent-Length: 4\r\n\r\nbody"
    )
    assert driver.data_to_send() == b""
    assert driver.idle and not driver.should_close


def head_of(sent: bytes) -> dict[bytes, bytes]:
    lines = sent.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    return dict(line.split(b": ", 1) for line in lines)


@pytest.mark.parametrize(
    ("method", "status", "body", "pairs", "length", "sent_body"),
    [
        (b"GET", 200, b"", [], b"0", b""),
        (b"HEAD", 200, b"body", [], b"4", b""),
        (b"HEAD", 200, b"", [("content-length", "77")], b"77", b""),
        (b"HEAD", 200, b"", [("content-length", "-1")], b"0", b""),
        (b"HEAD", 404, b"", [], b"0", b""),
        (b"GET", 204, b"body", [], None, b""),
        (b"GET", 204, b"", [("Content-Length", "3")], None, b""),
        (b"GET", 304, b"", [], None, b""),
        (b"GET", 304, b"", [("Content-Length", "9")], b"9", b""),
        (b"GET", 304, b"body", [], b"4", b""),
        (b"GET", 200, b"body", [("Content-Length", "9"), ("Transfer-Encoding", "chunked")], b"4", b"body"),
    ],
)
def test_framing_of_whole_answers(
    method: bytes, status: int, body: bytes, pairs: HeaderPairs, length: bytes | None, sent_body: bytes
) -> None:
    driver = Http1(LIMITS)
    feed(driver, GET.replace(b"GET", method))
    driver.respond(1, status, pairs, body, DATE)
    sent = driver.data_to_send()
    assert head_of(sent).get(b"Content-Length") == length
    assert b"Transfer-Encoding" not in head_of(sent)
    assert sent.partition(b"\r\n\r\n")[2] == sent_body
    assert driver.idle


@pytest.mark.parametrize(
    ("version", "method", "status", "length", "framing", "wire"),
    [
        (b"1.1", b"GET", 200, None, {b"Transfer-Encoding": b"chunked"}, b"2\r\nab\r\n1\r\nc\r\n0\r\nX: y\r\n\r\n"),
        (b"1.1", b"GET", 200, 3, {b"Content-Length": b"3"}, b"abc"),
        (b"1.1", b"HEAD", 200, None, {b"Transfer-Encoding": b"chunked"}, b""),
        (b"1.1", b"HEAD", 200, 9, {b"Content-Length": b"9"}, b""),
        (b"1.1", b"GET", 204, None, {}, b""),
        (b"1.1", b"GET", 304, None, {}, b""),
        (b"1.1", b"GET", 304, 9, {b"Content-Length": b"9"}, b""),
        (b"1.0", b"GET", 200, None, {b"Connection": b"close"}, b"abc"),
        (b"1.0", b"GET", 200, 3, {b"Content-Length": b"3", b"Connection": b"close"}, b"abc"),
        (b"1.0", b"HEAD", 200, None, {b"Connection": b"close"}, b""),
    ],
)
def test_framing_of_streamed_answers(
    version: bytes, method: bytes, status: int, length: int | None, framing: dict[bytes, bytes], wire: bytes
) -> None:
    driver = Http1(LIMITS)
    feed(driver, GET.replace(b"1.1", version).replace(b"GET", method))
    driver.begin_response(1, status, [], DATE, length)
    driver.check()
    head, _, rest = driver.data_to_send().partition(b"\r\n\r\n")
    assert rest == b""
    assert head_of(head) == {b"Date": DATE.encode(), **framing}
    for piece in (b"ab", b"", b"c"):
        driver.send_body(1, piece)
    driver.check()
    driver.end_response(1, [("X", "y")])
    assert driver.data_to_send() == wire
    assert driver.should_close is (version == b"1.0")
    assert driver.idle is (version != b"1.0")


def test_a_length_given_as_a_field_frames_a_streamed_answer() -> None:
    driver = Http1(LIMITS)
    feed(driver, GET)
    driver.begin_response(1, 200, [("content-length", "2")], DATE)
    assert head_of(driver.data_to_send())[b"Content-Length"] == b"2"


def test_a_part_of_a_body_may_be_sent_beside_the_output() -> None:
    driver = Http1(LIMITS)
    feed(driver, GET)
    driver.begin_response(1, 200, [], DATE, 5)
    driver.send_body(1, b"ab")
    assert driver.data_to_send().endswith(b"\r\n\r\nab")
    driver.count_body(1, 2)
    driver.check()
    driver.send_body(1, b"e")
    driver.end_response(1)
    assert driver.data_to_send() == b"e" and driver.idle


def test_a_body_longer_than_announced_is_not_sent() -> None:
    driver = Http1(LIMITS)
    feed(driver, GET)
    driver.begin_response(1, 200, [], DATE, 3)
    driver.send_body(1, b"ab")
    with pytest.raises(ValueError, match="1 bytes more"):
        driver.send_body(1, b"cd")
    driver.send_body(1, b"c")
    driver.end_response(1)
    assert driver.data_to_send().endswith(b"\r\n\r\nabc") and driver.idle


def test_a_body_shorter_than_announced_ends_the_connection() -> None:
    driver = Http1(LIMITS)
    feed(driver, GET)
    driver.begin_response(1, 200, [], DATE, 3)
    driver.send_body(1, b"ab")
    with pytest.raises(ValueError, match="1 bytes less"):
        driver.end_response(1)
    assert driver.should_close


@pytest.mark.parametrize("method", ["respond", "begin_response"])
@pytest.mark.parametrize(
    ("status", "pairs"),
    [(200, [("X", "a\r\nb")]), (200, [("X Y", "a")]), (200, [("X", "\u20ac")]), (99, []), (100, []), (101, []), (1000, [])],
)
def test_an_answer_that_cannot_be_sent_leaves_room_for_another(method: str, status: int, pairs: HeaderPairs) -> None:
    driver = Http1(LIMITS)
    feed(driver, GET)
    with pytest.raises(ValueError):
        if method == "respond":
            driver.respond(1, status, pairs, b"", DATE)
        else:
            driver.begin_response(1, status, pairs, DATE)
    assert driver.data_to_send() == b""
    assert answer(driver, 1, 500).startswith(b"HTTP/1.1 500 ")


def test_a_handlers_date_wins_and_its_close_is_heeded() -> None:
    for streamed in (False, True):
        driver = Http1(LIMITS)
        feed(driver, GET)
        pairs = [("date", "then"), ("Connection", "x, Close"), ("Keep-Alive", "5")]
        if streamed:
            driver.begin_response(1, 200, pairs, DATE)
            driver.end_response(1)
        else:
            driver.respond(1, 200, pairs, b"", DATE)
        head = head_of(driver.data_to_send())
        assert head[b"Date"] == b"then" and head[b"Connection"] == b"close" and b"Keep-Alive" not in head
        assert driver.should_close


@lanes
def test_the_peer_asks_to_close(express: bool) -> None:
    driver = Http1(LIMITS, express)
    feed(driver, GET.replace(b"Host", b"Connection: close\r\nHost") + NEXT)
    assert b"\r\nConnection: close\r\n" in answer(driver, 1)
    assert driver.should_close and driver.next_events() == []


def test_drain_closes_after_the_next_answer() -> None:
    driver = Http1(LIMITS)
    feed(driver, GET + NEXT)
    driver.drain()
    assert b"Connection: close" in answer(driver, 1)
    assert driver.should_close and driver.next_events() == []


def test_drain_during_a_streamed_answer_waits_for_the_next() -> None:
    driver = Http1(LIMITS)
    feed(driver, GET)
    driver.begin_response(1, 200, [], DATE)
    driver.drain()
    driver.end_response(1)
    assert driver.idle and b"Connection" not in driver.data_to_send()
    feed(driver, NEXT)
    assert b"Connection: close" in answer(driver, 2)


def test_an_answer_before_the_whole_body_is_the_last() -> None:
    driver = Http1(LIMITS)
    feed(driver, PUT_HEAD + b"he")
    assert b"Connection: close" in answer(driver, 1, 403)
    assert driver.should_close and driver.receive_data(b"llo" + GET) == []


@pytest.mark.parametrize("head", [PUT_HEAD, CHUNKED_HEAD], ids=["counted", "chunked"])
def test_a_streamed_answer_may_begin_before_the_body_is_complete(head: bytes) -> None:
    driver = Http1(LIMITS)
    feed(driver, head)
    driver.begin_response(1, 200, [], DATE, 2)
    assert b"Connection: close" in driver.data_to_send()
    body = b"hello" if head is PUT_HEAD else b"5\r\nhello\r\n0\r\n\r\n"
    assert driver.receive_data(body) == [DataReceived(1, b"hello"), RequestEnded(1, [])]
    driver.check()
    driver.send_body(1, b"ab")
    driver.end_response(1)
    assert driver.data_to_send() == b"ab" and driver.should_close


def test_pipelined_requests_are_answered_in_order() -> None:
    driver = Http1(LIMITS)
    data = b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(1, 6))
    events = driver.receive_data(data)
    for number in range(1, 6):
        assert [(type(event), event.target) for event in events] == [(RequestReceived, f"/{number}")]  # type: ignore[union-attr]
        assert driver.next_events() == driver.receive_data(b"") == []
        answer(driver, number)
        events = driver.next_events()
    assert events == [] and driver.idle


def test_bytes_of_the_next_request_may_come_before_and_after_the_answer() -> None:
    driver = Http1(LIMITS)
    feed(driver, GET + NEXT[:10])
    assert driver.receive_data(NEXT[10:20]) == []
    answer(driver, 1)
    assert driver.reading_head and not driver.idle
    assert [type(event) for event in driver.receive_data(NEXT[20:])] == [RequestReceived]


@pytest.mark.parametrize(
    "pieces", [[b"\r\n" + GET + b"\r\n" + NEXT], [b"\r\n", GET, b"\r\n", NEXT], [b"\r", b"\n" + GET, b"\r", b"\n" + NEXT]]
)
def test_one_empty_line_is_forgiven_before_each_request(pieces: list[bytes]) -> None:
    driver = Http1(LIMITS)
    targets = []
    for piece in pieces:
        events = driver.receive_data(piece)
        while events:
            (event,) = events
            assert isinstance(event, RequestReceived)
            targets.append(event.target)
            answer(driver, event.stream_id)
            events = driver.next_events()
    assert targets == ["/1", "/next"]


def test_body_remaining() -> None:
    driver = Http1(LIMITS)
    assert driver.body_remaining == 0
    feed(driver, PUT_HEAD + b"he")
    assert driver.body_remaining == 3
    driver.receive_data(b"lloGET")
    assert driver.body_remaining == 0
    chunked = Http1(LIMITS)
    feed(chunked, CHUNKED_HEAD)
    assert chunked.body_remaining == 0


# --- 100 Continue, 103, upgrade ------------------------------------------------------------------------------------------------------

EXPECT = b"PUT /1 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def test_continue() -> None:
    driver = Http1(LIMITS)
    (event,) = driver.receive_data(EXPECT)
    assert isinstance(event, RequestReceived) and event.expects_continue and event.body is None
    driver.send_continue()
    driver.send_continue()
    assert driver.data_to_send() == CONTINUE
    assert [type(event) for event in driver.receive_data(b"hello")] == [DataReceived, RequestEnded]


def test_no_continue_when_the_body_has_come_or_the_answer_has_begun() -> None:
    whole = Http1(LIMITS)
    (event,) = whole.receive_data(EXPECT + b"hello")
    assert isinstance(event, RequestReceived) and not event.expects_continue and event.body == b"hello"
    partly = Http1(LIMITS)
    feed(partly, EXPECT + b"he")
    answered = Http1(LIMITS)
    feed(answered, EXPECT)
    answered.begin_response(1, 417, [], DATE)
    answered.data_to_send()
    old = Http1(LIMITS)
    feed(old, EXPECT.replace(b"1.1", b"1.0"))
    for driver in (whole, partly, answered, old, Http1(LIMITS)):
        driver.send_continue()
        assert driver.data_to_send() == b""


def test_early_hints() -> None:
    driver = Http1(LIMITS)
    feed(driver, GET)
    driver.send_informational(103, [("Link", "</a>; rel=preload")])
    assert driver.data_to_send() == b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"
    with pytest.raises(ValueError):
        driver.send_informational(103, [("Link", "a\r\n")])
    for status in (100, 101, 200):
        with pytest.raises(ValueError):
            driver.send_informational(status, [])
    driver.begin_response(1, 200, [], DATE)
    driver.data_to_send()
    driver.send_informational(103, [])
    assert driver.data_to_send() == b""


def test_no_early_hints_for_http_10() -> None:
    driver = Http1(LIMITS)
    feed(driver, b"GET / HTTP/1.0\r\n\r\n")
    driver.send_informational(103, [("Link", "a")])
    assert driver.data_to_send() == b""


@lanes
@ways
def test_upgrade(express: bool, by_byte: bool) -> None:
    driver = Http1(LIMITS, express)
    feed(driver, UPGRADE + b"\x81\0rest", by_byte)
    assert driver.can_switch
    command = driver.switch_protocol(1, [("Upgrade", "websocket"), ("Sec-WebSocket-Accept", "x")])
    assert command == SwitchTo("websocket", b"\x81\0rest")
    assert driver.data_to_send() == (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\nConnection: Upgrade\r\n\r\n"
    )
    assert not driver.should_close and not driver.can_switch and driver.receive_eof() == []
    driver.check()


def test_an_upgrade_may_be_declined() -> None:
    driver = Http1(LIMITS)
    feed(driver, UPGRADE + NEXT)
    answer(driver, 1)
    assert gather(driver.next_events()) == [Seen("GET", "/next", [HOST], "1.1", complete=True)]
    assert not driver.can_switch


def test_an_upgrade_names_one_protocol() -> None:
    driver = Http1(LIMITS)
    feed(driver, UPGRADE)
    for pairs in ([], [("Upgrade", "a"), ("upgrade", "b")]):
        with pytest.raises(ValueError):
            driver.switch_protocol(1, pairs)
    assert driver.can_switch


def test_an_upgrade_waits_for_the_body() -> None:
    driver = Http1(LIMITS)
    feed(driver, UPGRADE.replace(b"Host", b"Content-Length: 2\r\nHost") + b"a")
    assert not driver.can_switch
    driver.receive_data(b"brest")
    assert driver.switch_protocol(1, [("Upgrade", "x")]).trailing == b"rest"


# --- the end -------------------------------------------------------------------------------------------------------------------------


def test_the_peer_leaves_between_two_requests() -> None:
    driver = Http1(LIMITS)
    feed(driver, GET)
    answer(driver, 1)
    assert driver.receive_eof() == [PeerClosed()]
    assert driver.should_close and driver.receive_eof() == []


@pytest.mark.parametrize("data", [b"G", GET[:-1], b"\r", PUT_HEAD, PUT_HEAD + b"hell", CHUNKED_HEAD + b"0\r\n"])
@lanes
def test_the_peer_leaves_within_a_request(data: bytes, express: bool) -> None:
    driver = Http1(LIMITS, express)
    feed(driver, data)
    (failed,) = driver.receive_eof()
    assert isinstance(failed, ProtocolFailed) and driver.should_close
    driver.fail(failed.error, [], b"why", DATE)
    assert driver.data_to_send() == b""


@lanes
def test_a_half_closed_peer_is_still_answered(express: bool) -> None:
    driver = Http1(LIMITS, express)
    feed(driver, GET)
    assert driver.receive_eof() == []
    assert not driver.should_close
    assert answer(driver, 1).endswith(b"Connection: close\r\n\r\nok")
    assert driver.should_close


@pytest.mark.parametrize(("rest", "end"), [(b"", None), (b"GET", ProtocolFailed)])
def test_all_requests_of_a_half_closed_peer_are_answered(rest: bytes, end: type | None) -> None:
    driver = Http1(LIMITS)
    feed(driver, GET + NEXT + GET + rest)
    assert driver.receive_eof() == []
    for number in (1, 2, 3):
        assert (b"Connection: close" in answer(driver, number)) is (number == 3 and not rest)
        assert [type(event) for event in driver.next_events()] == ([RequestReceived] if number < 3 else [end] if end else [])
    assert driver.should_close


def test_a_half_closed_peer_is_answered_to_the_end_of_a_stream() -> None:
    driver = Http1(LIMITS)
    feed(driver, GET)
    driver.begin_response(1, 200, [], DATE)
    assert driver.receive_eof() == []
    driver.send_body(1, b"a")
    driver.end_response(1)
    assert driver.next_events() == [PeerClosed()] and driver.should_close


@pytest.mark.parametrize(
    ("data", "answered"), [(b"", True), (b"GE", True), (GET, True), (PUT_HEAD, True), (b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", True)]
)
def test_fail_answers_when_time_is_up(data: bytes, answered: bool) -> None:
    driver = Http1(LIMITS)
    if data:
        feed(driver, data)
    driver.fail(PeerError("too slow", 408), [], b"slow", DATE)
    sent = driver.data_to_send()
    assert sent.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert sent.endswith(b"\r\n\r\n" if data.startswith(b"HEAD") else b"slow")
    assert driver.should_close


def test_the_answer_to_junk_after_head_has_its_body() -> None:
    driver = Http1(LIMITS)
    feed(driver, GET.replace(b"GET", b"HEAD"))
    answer(driver, 1)
    assert isinstance(feed(driver, b"\x16")[0], ProtocolFailed)
    driver.fail(PeerError("x"), [], b"why", DATE)
    assert driver.data_to_send().endswith(b"why")


def test_an_answer_begun_cannot_become_an_error() -> None:
    for start in (GET, PUT_HEAD):
        driver = Http1(LIMITS)
        feed(driver, start)
        driver.begin_response(1, 200, [], DATE)
        driver.data_to_send()
        driver.fail(PeerError("x"), [], b"why", DATE)
        assert driver.data_to_send() == b"" and driver.should_close


# --- every state, every input --------------------------------------------------------------------------------------------------------


def in_state(state: Http1State) -> Http1:
    """A driver brought there by the public methods; its request is number 1."""
    driver = Http1(LIMITS)
    match state:
        case Http1State.RECEIVING:
            feed(driver, PUT_HEAD)
        case Http1State.EARLY:
            feed(driver, CHUNKED_HEAD)
            driver.begin_response(1, 200, [], DATE)
        case Http1State.RECEIVED:
            feed(driver, UPGRADE)
        case Http1State.ANSWERING:
            feed(driver, GET)
            driver.begin_response(1, 200, [], DATE)
        case Http1State.FAILED:
            feed(driver, GET.replace(b"1.1", b"2.0"))
        case Http1State.CLOSED:
            driver.receive_eof()
        case Http1State.SWITCHED:
            feed(driver, UPGRADE)
            driver.switch_protocol(1, [("Upgrade", "x")])
        case Http1State.ERROR:
            with pytest.raises(AssertionError):
                driver.respond(1, 200, [], b"", DATE)
    driver.data_to_send()
    assert driver._state is state
    driver.check()
    return driver


N, R, E, D, A, F, C, S, X = Http1State  # in the order of their definition; N is IDLE, X is ERROR
ALL = tuple(Http1State)
INPUTS: dict[str, tuple[Callable[[Http1], object], tuple[Http1State, ...]]] = {
    "a request": (lambda d: d.receive_data(PUT_HEAD.replace(b"5", b"0")), (D, D, C, D, A, F, C, X, X)),
    "a head": (lambda d: d.receive_data(PUT_HEAD), (R, D, C, D, A, F, C, X, X)),
    "junk": (lambda d: d.receive_data(b"\x16\r\n"), (F, R, C, D, A, F, C, X, X)),
    "chunks": (lambda d: d.receive_data(b"0\r\n\r\n"), (F, D, A, D, A, F, C, X, X)),
    "a FIN": (lambda d: d.receive_eof(), (C, C, C, D, A, F, C, S, X)),
    "next_events": (lambda d: d.next_events(), ALL),
    "send_continue": (lambda d: d.send_continue(), ALL),
    "send_informational": (lambda d: d.send_informational(103, []), ALL),
    "drain": (lambda d: d.drain(), ALL),
    "data_to_send": (lambda d: d.data_to_send(), ALL),
    "fail": (lambda d: d.fail(PeerError("x"), [], b"", DATE), (C, C, C, C, C, C, C, S, X)),
}
ANSWERS: dict[str, tuple[Callable[[Http1, int], object], tuple[Http1State, ...]]] = {
    "respond": (lambda d, n: d.respond(n, 200, [], b"", DATE), (X, C, X, N, X, X, X, X, X)),
    "begin_response": (lambda d, n: d.begin_response(n, 200, [], DATE), (X, E, X, A, X, X, X, X, X)),
    "send_body": (lambda d, n: d.send_body(n, b"a"), (X, X, E, X, A, X, X, X, X)),
    "end_response": (lambda d, n: d.end_response(n), (X, X, C, X, N, X, X, X, X)),
    "switch_protocol": (lambda d, n: d.switch_protocol(n, [("Upgrade", "x")]), (X, X, X, S, X, X, X, X, X)),
}
each_state = pytest.mark.parametrize("state", Http1State, ids=lambda state: state.name)


def expect(driver: Http1, state: Http1State) -> None:
    driver.check()
    assert driver._state is state
    assert driver.should_close is (state in (Http1State.CLOSED, Http1State.ERROR))
    assert driver.idle is (state is Http1State.IDLE and not driver._buffer)
    assert driver.reading_head is (state is Http1State.IDLE and bool(driver._buffer))
    assert state.name in repr(driver)


@pytest.mark.parametrize("name", INPUTS)
@each_state
def test_every_state_with_every_input(name: str, state: Http1State) -> None:
    give, outcomes = INPUTS[name]
    driver = in_state(state)
    if state is Http1State.SWITCHED and outcomes[state] is Http1State.ERROR:
        with pytest.raises(AssertionError, match="SWITCHED"):
            give(driver)
    else:
        give(driver)
    expect(driver, outcomes[state])


@pytest.mark.parametrize("name", ANSWERS)
@each_state
def test_every_state_with_every_answer(name: str, state: Http1State) -> None:
    give, outcomes = ANSWERS[name]
    driver = in_state(state)
    if outcomes[state] is Http1State.ERROR:
        with pytest.raises(AssertionError, match=state.name):
            give(driver, 1)
    else:
        give(driver, 1)
    expect(driver, outcomes[state])


@pytest.mark.parametrize("name", ANSWERS)
@each_state
def test_an_answer_to_another_request(name: str, state: Http1State) -> None:
    driver = in_state(state)
    with pytest.raises(AssertionError, match=state.name):
        ANSWERS[name][0](driver, 2)
    expect(driver, Http1State.ERROR)


@pytest.mark.parametrize("input", Http1Input, ids=lambda input: input.name)
@each_state
def test_the_table(state: Http1State, input: Http1Input) -> None:
    driver = in_state(state)
    expected = TRANSITIONS[state].get(input)
    if expected is None:
        with pytest.raises(AssertionError):
            driver._move(input)
        assert driver._state is Http1State.ERROR
    else:
        driver._move(input)
        assert driver._state is expected
