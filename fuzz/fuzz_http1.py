"""HTTP/1: any bytes, cut anywhere, mean the same to both lanes, and nothing that h11 would refuse.

Invariant, for any bytes and any way to cut them:

1. The driver raises nothing. It reports requests, then perhaps one failure, and `check()` holds after each call.
2. The express lane, the h11 lane, and the two in turns report the same: method, target, fields, body, trailers; status and text of a failure; the same
   answers, byte by byte.
3. How the bytes were cut makes no difference, nor whether they came before or after the answers to earlier requests.
4. A request we report is the one that h11 alone reports at this place, with the same body. Where h11 fails, we fail. We refuse more than h11 only for
   one of the reasons in STRICTER.
5. An h11 client reads our answer as the status, fields, body and trailers we were told to send, with nothing before or after it.

Requests are mutated from `fuzz/corpus/http1/`: good ones, and the tricks of request smuggling.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import h11

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.runner import mutate, run
from svc.errors import PeerError
from svc.protocol.events import DataReceived, Event, PeerClosed, ProtocolFailed, RequestEnded, RequestReceived
from svc.protocol.http1 import Http1, Limits

CORPUS = Path(__file__).parent / "corpus" / "http1"
LIMITS = Limits(max_header_size=600, max_body_size=2000)
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"

# What we refuse though h11 does not, by the beginning of the sentence.
STRICTER = (
    "The request line is longer",
    "The header fields are longer",
    "The body is longer",
    "A chunk size line or the trailer section is longer",
    "A chunk size of more than 64 bits",  # h11 takes 20 digits
    "Control character in a chunk extension",
    "A line of the trailer section does not end in CRLF",
    "HTTP version",
    "Missing Host header",  # of HTTP/1.2 ... 1.9
    "Invalid Host header",
    "Both Content-Length and Transfer-Encoding",
    "Transfer-Encoding in an HTTP/1.0 request",
    "Method CONNECT",
    "The target * is",
    "The request target is",
    "'#' in the request target",
    "More than 256 lines of",
    "Invalid host in the request target",
)

Item = tuple[object, ...]


class Answer:
    """What a request gets: depends on nothing but its number, so that it is the same however the bytes come."""

    def __init__(self, number: int) -> None:
        self.status = (200, 404, 204, 304, 201, 500)[number % 6]
        self.streamed = number % 4 == 1
        self.pieces = (b"", b"x", b"two\r\n\r\n", b"0\r\n\r\n" * 5)[: number % 5]
        self.length_known = number % 8 == 1
        self.pairs = [("X-Number", str(number)), ("Content-Type", "text/plain;\tcharset=\xe9")][: 1 + number % 2]
        self.trailers = [("X-Sum", "1")] if number % 3 == 1 else []

    def give(self, driver: Http1, number: int) -> None:
        body = b"".join(self.pieces)
        if number % 7 == 1:
            driver.send_informational(103, [("Link", "</a>; rel=preload")])
        if not self.streamed:
            driver.respond(number, self.status, self.pairs, body, DATE)
            return
        driver.begin_response(number, self.status, self.pairs, DATE, len(body) if self.length_known else None)
        for piece in self.pieces:
            driver.send_body(number, piece)
        driver.end_response(number, self.trailers)

    def verify(self, method: str, version: str, number: int, sent: bytes, closes: bool) -> None:
        """An h11 client finds exactly this answer in `sent`."""
        client = h11.Connection(h11.CLIENT)
        if method != "CONNECT":
            client.send(h11.Request(method=method, target="/", headers=[("Host", "a")]))
            client.send(h11.EndOfMessage())
        client.receive_data(sent)
        event = client.next_event()
        if number % 7 == 1 and version != "1.0":
            assert type(event) is h11.InformationalResponse and event.status_code == 103, event
            event = client.next_event()
        assert type(event) is h11.Response and event.status_code == self.status, event
        fields = dict(event.headers)
        assert fields[b"date"] == DATE.encode()
        for name, value in self.pairs:
            assert fields[name.lower().encode()] == value.encode("latin-1")
        assert (fields.get(b"connection") == b"close") == closes, (fields, closes)
        body = b""
        if closes:
            client.receive_data(b"")
        while type(event := client.next_event()) is h11.Data:
            body += event.data
        assert type(event) is h11.EndOfMessage, event
        silent = method == "HEAD" or self.status in (204, 304)
        assert body == (b"" if silent else b"".join(self.pieces))
        if fields.get(b"transfer-encoding") == b"chunked" and not silent:
            assert [(n.decode(), v.decode()) for n, v in event.headers] == [(n.lower(), v) for n, v in self.trailers]
        assert client.trailing_data[0] == b"", client.trailing_data
        if closes:
            assert client.their_state in (h11.CLOSED, h11.MUST_CLOSE, h11.DONE), client.their_state
        else:
            assert client.their_state is h11.DONE, client.their_state


def transcript(driver: Http1, pieces: Sequence[bytes], switch: bool = False, *, late: bool = False, alternate: bool = False) -> list[Item]:
    """Feed the pieces and then the FIN; answer every request when it is complete. What happened, in a form that does not depend on the cuts.

    `switch`: accept every upgrade. `late`: answer nothing before all is fed. `alternate`: open and close the express lane with each request.
    """
    items: list[Item] = []
    head: RequestReceived | None = None
    body = b""
    position = 0

    def on_events(events: list[Event]) -> None:
        nonlocal head, body
        while events:
            driver.check()
            for event in events:
                assert not items or items[-1][0] not in ("failed", "closed"), "an event after the last one"
                if type(event) is RequestReceived:
                    assert head is None
                    head, body = event, event.body or b""
                    assert event.target.startswith("/") or event.target == "*"
                    if event.body is not None:
                        complete([])
                    elif event.expects_continue:
                        driver.send_continue()
                        driver.check()
                        assert driver.data_to_send() in (b"", b"HTTP/1.1 100 Continue\r\n\r\n")
                elif type(event) is DataReceived:
                    assert head is not None and event.stream_id == head.stream_id and event.data
                    body += event.data
                elif type(event) is RequestEnded:
                    complete(event.trailers)
                elif type(event) is ProtocolFailed:
                    fail(event.error)
                else:
                    assert type(event) is PeerClosed and head is None
                    items.append(("closed",))
            events = driver.next_events()
        driver.check()

    def complete(trailers: list[tuple[str, str]]) -> None:
        nonlocal head
        assert head is not None
        request, head = head, None
        items.append(("request", request.method, request.target, tuple(request.block.pairs), request.http_version, body, tuple(trailers)))
        number = request.stream_id
        if switch and driver.can_switch:
            command = driver.switch_protocol(number, [("Upgrade", "Raw")])
            assert driver.data_to_send() == b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: Raw\r\nConnection: Upgrade\r\n\r\n"
            items.append(("switched", command.protocol, command.trailing + b"".join(pieces[position:])))
            return
        if alternate:
            driver._express = not driver._express
        answer = Answer(number)
        answer.give(driver, number)
        driver.check()
        sent = driver.data_to_send()
        answer.verify(request.method, request.http_version, number, sent, driver.should_close)
        items.append(("answered", sent.replace(b"Connection: close\r\n", b"")))

    def fail(error: PeerError) -> None:
        nonlocal head
        if head is not None:
            items.append(("partial", head.method, head.target, tuple(head.block.pairs), head.http_version))
            head = None
        items.append(("failed", error.status_code, error.message))
        driver.fail(error, [("Content-Type", "text/plain")], b"sorry", DATE)
        sent = driver.data_to_send()
        assert driver.should_close
        assert sent == b"" or sent.startswith(b"HTTP/1.1 %d " % error.status_code)
        assert driver.receive_data(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") == []

    waiting: list[Event] = []
    for piece in pieces:
        position += 1
        if late:
            waiting += driver.receive_data(piece)
            driver.check()
            continue
        on_events(driver.receive_data(piece))
        if items and items[-1][0] == "switched":
            return items
        if driver.should_close:
            break
    on_events(waiting + driver.receive_eof())
    if items[-1][0] not in ("failed", "closed", "switched"):
        assert driver.should_close
        items.append(("closed",))
    return items


def h11_transcript(data: bytes) -> list[Item]:
    """What h11 alone finds in `data` and a FIN, when every request is answered at once."""
    items: list[Item] = []
    reader = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    reader.receive_data(data)
    reader.receive_data(b"")
    head: h11.Request | None = None
    body = b""
    while True:
        try:
            event = reader.next_event()
        except h11.RemoteProtocolError as error:
            if head is not None:
                items.append(("partial", *_head(head)))
            items.append(("failed", error.error_status_hint, str(error)))
            return items
        if type(event) is h11.Request:
            head, body = event, b""
        elif type(event) is h11.Data:
            body += event.data
        elif type(event) is h11.EndOfMessage:
            assert head is not None
            trailers = tuple((name.decode(), value.decode("latin-1")) for name, value in event.headers)
            items.append(("request", *_head(head), body, trailers))
            reader.send(h11.Response(status_code=404, headers=[("Content-Length", "0")]))
            reader.send(h11.EndOfMessage())
            if reader.our_state is not h11.DONE or reader.their_state is not h11.DONE:
                items.append(("closed",))
                return items
            head = None
            reader.start_next_cycle()
        else:
            items.append(("closed",))
            return items


def _head(request: h11.Request) -> Item:
    pairs = tuple((name.decode(), value.decode("latin-1")) for name, value in request.headers)
    return request.method.decode(), request.target.decode(), pairs, request.http_version.decode()


def compare_with_h11(ours: list[Item], theirs: list[Item]) -> None:
    """Point 4 of the invariant."""
    for item, other in zip((item for item in ours if item[0] != "answered"), theirs, strict=False):
        if other[0] == "failed" and other[2] == "no request line received":
            return  # we forgive an empty line, h11 does not
        if item[0] == "failed":
            sentence = str(item[2])
            if other[0] != "failed":
                assert sentence.startswith(STRICTER), (item, other)
            elif not sentence.startswith(STRICTER):
                assert item[1] == other[1], (item, other)
            return
        if item[0] == "partial" and other[0] == "request":
            other = ("partial", *other[1:5])
        assert item[0] == other[0], (item, other)
        if item[0] == "closed":
            return
        assert item[1] == other[1], (item, other)
        target = str(other[2])
        if target.startswith("/") or target == "*":
            assert item[2:4] == other[2:4], (item, other)
        else:
            assert target.lower().startswith(("http://", "https://")), other
            assert [p for p in item[3] if p[0] != "host"] == [p for p in other[3] if p[0] != "host"]  # type: ignore[attr-defined]
        assert item[4] == other[4] or (item[4] == "1.1" and str(other[4]) > "1.1"), (item, other)
        assert item[5:] == other[5:], (item, other)


def split(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Pieces of `data`, cut at these positions; none is empty."""
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [piece for a, b in pairwise(places) if (piece := data[a:b])]


def check_cut(data: bytes, cuts: Sequence[int]) -> None:
    """The whole invariant, for these bytes and these cuts."""
    for switch in (False, True) if b"pgrade" in data else (False,):
        whole = transcript(Http1(LIMITS), [data] if data else [], switch)
        pieces = split(data, cuts)
        assert transcript(Http1(LIMITS), pieces, switch) == whole, "the cuts make a difference"
        assert transcript(Http1(LIMITS), pieces, switch, late=True) == whole, "the time of the answers makes a difference"
        assert transcript(Http1(LIMITS, express=False), [data] if data else [], switch) == whole, "the lanes differ"
        assert transcript(Http1(LIMITS, express=False), pieces, switch) == whole, "the lanes differ when cut"
        for first in (True, False):
            assert transcript(Http1(LIMITS, express=first), pieces, switch, alternate=True) == whole, "the lanes differ when they alternate"
        if not switch:
            compare_with_h11(whole, h11_transcript(data))


def check(data: bytes) -> None:
    """The whole invariant, cut here and there; now and then between all bytes."""
    source = random.Random(data)
    check_cut(data, range(len(data)) if source.random() < 0.1 else [source.randrange(1 << 16) for _ in range(source.randrange(6))])


# --- mutation ------------------------------------------------------------------------------------------------------------------------

TOKENS = (
    b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b",", b"\x0b", b"\x7f", b"\xe9", b"0", b"+", b"0x", b"-1", b"99999999999999999999999", b"1e1",
    b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.9", b"http://h/", b"*", b"GET", b"HEAD", b"get", b"POST", b"OPTIONS", b"CONNECT", b"PRI",
    b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Content-Length: 3, 3\r\n", b"Content-Length : 5\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: identity\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"Transfer-Encoding:\x0bchunked\r\n", b"Host: b\r\n", b"Host: \r\n",
    b"Connection: close\r\n", b"Connection: keep-alive\r\n", b"Connection: Upgrade\r\n", b"Upgrade: raw\r\n", b"Expect: 100-continue\r\n",
    b" folded\r\n", b"\tfolded\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n", b"0\r\nA: b\r\n\r\n", b"5;x=y\r\n", b"hello", b"\r\n\r\n", b": v\r\n", b"a" * 300,
    b"X: " + b"y" * 500 + b"\r\n",
)  # fmt: skip


PLAIN = b"GET /plain HTTP/1.1\r\nHost: a\r\n\r\n"


def generate(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Some requests of the corpus behind each other, plain ones among them, with small changes, half of them just behind a line end, where most
    meaning is."""
    data = b"".join(source.choice(corpus) if source.random() < 0.8 else PLAIN for _ in range(source.choice((1, 1, 2, 3, 5))))
    data = mutate(source, data, TOKENS, 2)
    for _ in range(source.randrange(3)):
        place = data.find(b"\n", source.randrange(len(data) + 1)) + 1
        removed = source.choice((0, 0, 1, 8))
        data = data[:place] + source.choice(TOKENS) + data[place + removed :]
    return data


if __name__ == "__main__":
    sys.exit(run("http1", generate, check, CORPUS))
