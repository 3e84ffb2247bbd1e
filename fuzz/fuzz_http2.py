"""HTTP/2: any bytes, cut anywhere, mean the same to both lanes, and cost no more than they should.

Invariant, for any bytes behind the preface and any way to cut them:

1. The driver raises nothing. It reports requests, then perhaps one failure of the connection, and `check()` holds after each call.
2. How the bytes were cut makes no difference to what is reported, but that a request given up at once may not be reported at all.
3. The express lane and the h2 lane report the same. Only HEADERS for a stream that is over may be the end of the connection in one of them alone.
4. Whatever is answered, and whenever, our output is frames whose fields another HPACK decoder can read, and on each stream one answer: informational
   heads, a head, data, perhaps trailers, the end. Its data are those we were told to send, as far as the windows allowed, and never more than these.
5. Nothing is held but one incomplete frame, one header block, and the bodies that the windows allow.

Conversations are mutated from `fuzz/corpus/http2/`, by frames and by bytes.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import hpack

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.fuzz_http1 import split
from fuzz.runner import mutate, run
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
from svc.protocol.http2 import AnswerPlain, Http2
from svc.protocol.http2_frames import PREFACE
from svc.protocol.request_head import FieldTuple
from svc.protocol.response_head import RepeatedHead

CORPUS = Path(__file__).parent / "corpus" / "http2"
LIMITS = Limits(max_header_size=600, max_body_size=2000)
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
PLAIN = RepeatedHead(200, [("Content-Type", "text/plain")], True, [("X-Plain", "yes")], True)
MANY_STREAMS = 1000  # more than fit into an input: refusals depend on when answers are given
HELD_MAX = 1 << 20  # bytes: far more than any input
LANES_DIFFER = ("StreamIDTooLowError", "StreamClosedError", "HEADERS after the end of a request", "HEADERS on a closed stream")

Item = tuple[object, ...]


# --- what is reported ----------------------------------------------------------------------------------------------------------------


class Story:
    """What a conversation said, in a form that does not depend on the cuts."""

    def __init__(self) -> None:
        self.requests: dict[int, list[object]] = {}
        self.bodies: dict[int, bytes] = {}
        self.failure = ""

    def add(self, event: Event) -> None:
        assert not self.failure, "an event after the last one"
        kind = type(event)
        if kind is ProtocolFailed:
            self.failure = event.error.message  # type: ignore[union-attr]
            return
        if kind is PeerClosed:
            return
        stream_id: int = event.stream_id  # type: ignore[union-attr]
        known = self.requests.get(stream_id)
        if type(event) is RequestReceived:
            assert known is None, "reported twice"
            assert event.target.startswith("/") or event.target == "*"
            assert event.block.fields.get("host"), "no host"
            parts = (event.method, event.target, tuple(event.block.pairs), event.upgrade, event.expects_continue)
            self.requests[stream_id] = [parts, "whole" if event.body is not None and not event.upgrade else "open"]
            self.bodies[stream_id] = event.body or b""
        elif type(event) is RequestFailed:
            assert known is None or known[1] == "open"
            self.requests[stream_id] = ["failed", event.error.status_code, event.error.message]
            self.bodies[stream_id] = b""
        else:
            assert known is not None, "an event of no request"
            if type(event) is DataReceived:
                assert known[1] == "open" and event.data
                self.bodies[stream_id] += event.data
            elif type(event) is RequestEnded:
                assert known[1] == "open"
                known[1:] = ["whole", tuple(event.trailers)]
            else:
                assert type(event) is RequestCancelled and known[0] != "failed"
                del self.requests[stream_id], self.bodies[stream_id]

    def items(self) -> list[Item]:
        """Trailers of none are as no trailers."""
        return sorted(
            (stream_id, self.bodies[stream_id] if parts[1] == "whole" else b"", *(part for part in parts if part != ()))
            for stream_id, parts in self.requests.items()
        )


def tell(pieces: Sequence[bytes], express: bool, plain: AnswerPlain | None = None) -> Story:
    """Answer nothing: what is reported then depends on the input alone. `plain`: asked, and declines."""
    driver = Http2(LIMITS, express, max_streams=MANY_STREAMS)
    story = Story()
    for piece in pieces:
        for event in driver.receive_data(piece, plain):
            story.add(event)
        driver.check()
        driver.data_to_send()
        driver.check()
    for event in driver.receive_eof():
        story.add(event)
    return story


def compare(one: Story, other: Story) -> None:
    if one.failure != other.failure and any(reason in one.failure + other.failure for reason in LANES_DIFFER):
        return  # what came later was reported in one of them only
    assert bool(one.failure) == bool(other.failure), (one.failure, other.failure)
    assert one.items() == other.items(), (one.items(), other.items())


# --- what is answered ----------------------------------------------------------------------------------------------------------------


class Answerer:
    """Answers each request as its number says, now or later, and reads what goes out as a client would."""

    def __init__(self, source: random.Random, express: bool) -> None:
        self.driver = Http2(LIMITS, express, max_streams=source.choice((3, MANY_STREAMS)))
        self._source = source
        self._decoder = hpack.Decoder()
        self._rest = b""
        self._block = b""
        self._open: list[int] = []  # to be answered
        self._begun: dict[int, int] = {}  # streamed answers -> pieces to come
        self._told: dict[int, bytes] = defaultdict(bytes)  # bodies we were told to send
        self._got: dict[int, bytes] = defaultdict(bytes)
        self._state: dict[int, str] = {}

    def receive(self, piece: bytes) -> None:
        driver, source = self.driver, self._source
        for event in driver.receive_data(piece, self._answer_plain):
            if type(event) is RequestReceived:
                self._open.append(event.stream_id)
                if event.expects_continue and source.random() < 0.5:
                    driver.send_continue(event.stream_id)
            elif type(event) is RequestFailed:
                if event.stream_id in self._open:
                    self._open.remove(event.stream_id)
                self._begun.pop(event.stream_id, None)
                if event.stream_id not in self._state:
                    self._told[event.stream_id] = b"sorry"
                driver.fail(event.stream_id, event.error, [("Content-Type", "text/plain")], b"sorry", DATE)
            elif type(event) is DataReceived and source.random() < 0.2:
                (driver.pause if source.random() < 0.7 else driver.resume)(event.stream_id)
            driver.check()
        while self._open and source.random() < 0.6:
            self._answer(self._open.pop(source.randrange(len(self._open))))
        for stream_id in list(self._begun):
            if source.random() < 0.7:
                self._go_on(stream_id)
        self._read(driver.data_to_send())
        driver.finished.clear()
        driver.check()

    def _answer_plain(self, path: bytes, fields: FieldTuple) -> bool:
        body = b"y" * self._source.choice((0, 5, 400, 20_000))
        if self._source.random() < 0.5 or not self.driver.answer_plain(PLAIN, b"Qnm3baqAAAA", ("Server-Timing", "db"), DATE, body):
            return False
        self._told[self.driver._plain_id] += body
        self.driver.is_behind = self._source.random() < 0.1
        return True

    def finish(self) -> None:
        for stream_id in self._open:
            self.driver.resume(stream_id)
            self._answer(stream_id)
        while self._begun:
            self._go_on(next(iter(self._begun)))
        if self._source.random() < 0.5:
            self.driver.drain()
            self.driver.finish_drain()
        for _ in range(20):
            self._read(self.driver.data_to_send())
            self.driver.check()
        for stream_id, got in self._got.items():
            assert self._told[stream_id].startswith(got), "bytes nobody told us to send"
        assert not self._rest and not self._block
        assert self.driver.buffered <= HELD_MAX
        assert not self.driver.wants_to_send

    def _answer(self, stream_id: int) -> None:
        driver, number = self.driver, stream_id // 2
        if number % 5 == 1:
            driver.send_informational(stream_id, 103, [("Link", "</a>; rel=preload")])
        status = (200, 404, 204, 304, 201)[number % 5]
        pairs = [("X-Number", str(number)), ("Content-Type", "text/plain"), ("Connection", "close")][: 1 + number % 3]
        if number % 7 == 6:
            driver.reset(stream_id)
        elif number % 3 == 1:
            self._begun[stream_id] = number % 4
            driver.begin_response(stream_id, status, pairs, DATE)
        else:
            body = b"x" * (0, 5, 20_000, 70_000)[number % 4]
            self._told[stream_id] += body
            driver.respond(stream_id, status, pairs, body, DATE)
        driver.check()

    def _go_on(self, stream_id: int) -> None:
        left = self._begun[stream_id]
        if left:
            piece = b"%d" % left * 3000
            self._told[stream_id] += piece
            self.driver.send_body(stream_id, piece)
            self._begun[stream_id] = left - 1
        else:
            del self._begun[stream_id]
            self.driver.end_response(stream_id, [("X-Sum", "1")] if stream_id % 4 == 1 else [])
        self.driver.check()

    def _read(self, data: bytes) -> None:
        """Check our own output, frame by frame."""
        self._rest += data
        for kind, flags, stream_id, content in frames(self._rest):
            if kind in (1, 9):
                assert (kind == 9) == bool(self._block)
                self._block += content
                if flags & 4:
                    block, self._block = self._block, b""
                    self._on_head(stream_id, dict(self._decoder.decode(block)), bool(flags & 1))
            else:
                assert not self._block, "a frame within our header block"
                if kind == 0:
                    assert self._state[stream_id] == "head", (stream_id, self._state)
                    assert len(content) <= 16384
                    self._got[stream_id] += content
                    if flags & 1:
                        self._state[stream_id] = "done"
                elif kind == 3:
                    self._state[stream_id] = "reset"
        self._rest = b""

    def _on_head(self, stream_id: int, fields: dict[str, str], is_last: bool) -> None:
        state = self._state.get(stream_id, "new")
        if ":status" not in fields:
            assert state == "head" and is_last, "trailers"
        else:
            assert state == "new", state
            if fields[":status"].startswith("1"):
                assert not is_last
                return
            assert fields["date"] == DATE and "connection" not in fields
        self._state[stream_id] = "done" if is_last else "head"


def frames(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """(type, flags, stream, content) of whole frames."""
    position = 0
    while position + 9 <= len(data):
        size = int.from_bytes(data[position : position + 3], "big")
        end = position + 9 + size
        assert end <= len(data), "half a frame"
        yield data[position + 3], data[position + 4], int.from_bytes(data[position + 5 : position + 9], "big"), data[position + 9 : end]
        position = end
    assert position == len(data), "half a head of a frame"


# --- the invariant -------------------------------------------------------------------------------------------------------------------


def check_cut(data: bytes, cuts: Sequence[int]) -> None:
    """The whole invariant for these bytes behind the preface, and these cuts."""
    whole = [PREFACE + data]
    pieces = split(PREFACE + data, cuts)
    story = tell(whole, True)
    cut = tell(pieces, True)
    assert cut.items() == story.items(), "the cuts make a difference"
    assert cut.failure == story.failure
    compare(story, tell(whole, False))
    compare(story, tell(pieces, False))
    asked = tell(pieces, True, lambda path, fields: False)
    assert (asked.items(), asked.failure) == (story.items(), story.failure), "it makes a difference to be asked"
    for express in (True, False):
        source = random.Random(data)
        answerer = Answerer(source, express)
        for piece in pieces:
            answerer.receive(piece)
        answerer.finish()


def check(data: bytes) -> None:
    source = random.Random(data)
    check_cut(data, range(len(data)) if source.random() < 0.02 else [source.randrange(1 << 16) for _ in range(source.randrange(6))])


# --- conversations -------------------------------------------------------------------------------------------------------------------


def frame(kind: int, flags: int, stream_id: int, content: bytes = b"") -> bytes:
    return len(content).to_bytes(3, "big") + bytes((kind, flags)) + stream_id.to_bytes(4, "big") + content


def fields(*more: tuple[str, str], method: str = "GET", path: str = "/1") -> list[tuple[str, str]]:
    return [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path), *more]


def block(*more: tuple[str, str], method: str = "GET", path: str = "/1") -> bytes:
    """A block that needs no table: it may be anywhere."""
    return literal(fields(*more, method=method, path=path))


def literal(pairs: list[tuple[str, str]]) -> bytes:
    return b"".join(b"\x00" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode() for name, value in pairs)


SETTINGS = frame(4, 0, 0)
INDEXED = b"\x82\x86\x84\x41\x01a"  # GET http / with `:authority: a`, which goes into the table
AGAIN = b"\x82\x86\x84\xbe"  # the same by its index


def conversations() -> dict[str, bytes]:
    """The seeds of the corpus by name."""
    put = block(("content-length", "5"), method="PUT")
    return {
        "get": SETTINGS + frame(1, 5, 1, block()) + frame(1, 5, 3, block()),
        "indexed": SETTINGS + frame(1, 5, 1, INDEXED) + frame(1, 5, 3, AGAIN) + frame(1, 5, 5, AGAIN),
        "put": SETTINGS + frame(1, 4, 1, put) + frame(0, 1, 1, b"hello") + frame(1, 4, 3, put) + frame(0, 0, 3, b"he") + frame(0, 1, 3, b"llo"),
        "put-long": SETTINGS + frame(1, 4, 1, put) + frame(0, 1, 1, b"hello!"),
        "put-short": SETTINGS + frame(1, 4, 1, put) + frame(0, 1, 1, b"hell"),
        "too-long": SETTINGS + frame(1, 4, 1, block(method="PUT")) + frame(0, 0, 1, b"x" * 1500) + frame(0, 1, 1, b"x" * 1500),
        "trailers": SETTINGS + frame(1, 4, 1, block(method="PUT")) + frame(0, 0, 1, b"x") + frame(1, 5, 1, literal([("x-sum", "1")])),
        "trailers-split": SETTINGS + frame(1, 4, 1, put) + frame(0, 0, 1, b"hello") + frame(1, 1, 1, literal([("x-sum", "1")])[:4]) + frame(9, 0, 1)
        + frame(9, 4, 1, literal([("x-sum", "1")])[4:]) + frame(1, 5, 3, block()),
        "trailers-padded": SETTINGS + frame(1, 4, 1, block(method="PUT")) + frame(0, 8, 1, b"\2x\0\0") + frame(1, 0x2D, 1, b"\2" + bytes(5)
        + b"\x40\x01x\x01y\0\0") + frame(1, 5, 3, block() + b"\xbe"),
        "half-bodies": SETTINGS + b"".join(frame(1, 4, n, put) for n in (1, 3, 5)) + b"".join(frame(0, 0, n, b"he") for n in (5, 3, 1))
        + b"".join(frame(0, 1, n, b"llo") for n in (3, 5)),
        "byte-by-byte": SETTINGS + frame(1, 4, 1, put) + b"".join(frame(0, 0, 1, bytes((byte,))) for byte in b"hello") + frame(0, 1, 1),
        "reset-bodies": SETTINGS + b"".join(frame(1, 4, n, put) + frame(0, 0, n, b"he") + frame(3, 0, n, bytes(4)) for n in (1, 3))
        + frame(0, 1, 1, b"llo") + frame(1, 5, 3, literal([("x", "y")])) + frame(1, 5, 5, block()),
        "connect-data": SETTINGS + frame(1, 4, 1, INDEXED[1:] + b"\x42\x07CONNECT" + literal([(":path", "/"), (":protocol", "x")])) + frame(0, 0, 1, b"a")
        + frame(1, 5, 3, AGAIN) + frame(0, 1, 1),
        "continuation": SETTINGS + frame(1, 1, 1, block()[:9]) + frame(9, 0, 1, block()[9:20]) + frame(9, 4, 1, block()[20:]),
        "padded": SETTINGS + frame(1, 0x2D, 1, b"\x03" + bytes((0, 0, 0, 0, 7)) + block() + bytes(3)) + frame(1, 0x25, 3, bytes(4) + b"\x07" + block()),
        "padded-data": SETTINGS + frame(1, 4, 1, put) + frame(0, 9, 1, b"\x02hello\0\0"),
        "expect": SETTINGS + frame(1, 4, 1, block(("expect", "100-continue"), method="PUT")) + frame(0, 1, 1, b"hello"),
        "reset": SETTINGS + frame(1, 5, 1, block()) + frame(3, 0, 1, bytes(4)) + frame(1, 4, 3, put) + frame(3, 0, 3, bytes(4)) + frame(1, 5, 5, block()),
        "windows": frame(4, 0, 0, b"\0\x04\0\0\0\x05") + frame(1, 5, 5, block()) + frame(8, 0, 5, b"\0\0\0\x09") + frame(8, 0, 0, b"\0\x01\0\0")
        + frame(4, 0, 0, b"\0\x04\0\x01\0\0") + frame(1, 5, 7, block()) + frame(8, 0, 7, b"\x7f\xff\xff\xff"),
        "connect": SETTINGS + frame(1, 4, 1, literal([*fields(method="CONNECT"), (":protocol", "websocket")])) + frame(0, 0, 1, b"abc") + frame(0, 1, 1),
        "connect-plain": SETTINGS + frame(1, 4, 1, literal([(":method", "CONNECT"), (":authority", "a:1")])),
        "cookies": SETTINGS + frame(1, 5, 1, block(("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"))),
        "malformed": SETTINGS + frame(1, 5, 1, block(("connection", "close"))) + frame(1, 5, 3, block(("X", "y"))) + frame(1, 5, 5, block(path="x"))
        + frame(1, 5, 7, literal([(":method", "GET")])) + frame(1, 5, 9, block(("te", "gzip"))) + frame(1, 5, 11, block((":path", "/"))),
        "large-head": SETTINGS + frame(1, 5, 1, block(*[(f"x{n}", "y" * 100) for n in range(8)])) + frame(1, 5, 3, block()),
        "data-after-end": SETTINGS + frame(1, 5, 1, block()) + frame(1, 5, 3, block()) + frame(0, 0, 3, b"abc") + frame(1, 5, 5, block()),
        "headers-after-end": SETTINGS + frame(1, 5, 1, block()) + frame(1, 5, 3, block()) + frame(1, 5, 3, block()),
        "control": SETTINGS + frame(6, 0, 0, b"12345678") + frame(4, 1, 0) + frame(2, 0, 3, bytes(4) + b"\x10") + frame(16, 0, 0, b"\0\0\0\1u=1")
        + frame(7, 0, 0, bytes(8)) + frame(1, 5, 1, block()) + frame(0xFA, 7, 1, b"grease"),
        "options": SETTINGS + frame(1, 5, 1, block(method="OPTIONS", path="*")) + frame(1, 5, 3, block(method="HEAD")),
        "table-size": SETTINGS + frame(1, 5, 1, b"\x20" + INDEXED) + frame(1, 5, 3, b"\x3f\xe1\x1f" + INDEXED) + frame(1, 5, 5, AGAIN),
    }  # fmt: skip


TOKENS = (
    SETTINGS, frame(4, 1, 0), frame(6, 0, 0, bytes(8)), frame(0, 0, 1), frame(0, 1, 1), frame(0, 0, 3, b"abc"), frame(1, 5, 3, block()),
    frame(1, 4, 5, block()), frame(1, 5, 1, literal([("x", "y")])), frame(3, 0, 1, bytes(4)), frame(3, 0, 3, bytes(4)), frame(8, 0, 1, b"\0\0\0\1"),
    frame(8, 0, 3, b"\x7f\xff\xff\xff"), frame(8, 0, 0, b"\0\0\0\0"), frame(7, 0, 0, bytes(8)), frame(9, 4, 1, b"\x84"), frame(5, 4, 1, bytes(4)),
    frame(2, 0, 1, b"\0\0\0\1\0"), frame(4, 0, 0, b"\0\x04\xff\xff\xff\xff"), frame(4, 0, 0, b"\0\x01\0\0\0\0"), frame(4, 0, 0, b"\0\x04\0\0\0\0"),
    b"\x00\x40\x01\x00", b"\xff\xff\xff", INDEXED, AGAIN, b"\xbe", b"\x80", b"\x3f\xff\xff\xff\xff\x0f", b":path", b"transfer-encoding", b"\x82", b"\0",
)  # fmt: skip


def generate(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Frames of one to three conversations, some left out, doubled, moved or replaced, then a few bytes changed."""
    pieces: list[bytes] = []
    for _ in range(source.choice((1, 1, 2, 3))):
        data = source.choice(corpus) if source.random() < 0.9 or not corpus else b""
        pieces += cut_frames(data)
    for _ in range(source.randrange(4)):
        place = source.randrange(len(pieces) + 1)
        match source.randrange(4):
            case 0:
                pieces[place:place] = [source.choice(TOKENS)]
            case 1:
                del pieces[place : place + 1]
            case 2:
                pieces[place:place] = pieces[place : place + 2]
            case _ if pieces:
                pieces.insert(place, pieces.pop(source.randrange(len(pieces))))
    if source.random() < 0.5:  # conversations behind each other use the same streams: give requests new ones
        pieces = renumber(pieces)
    return mutate(source, b"".join(pieces), TOKENS, source.choice((0, 0, 1, 3)))


def cut_frames(data: bytes) -> list[bytes]:
    pieces = []
    position = 0
    while position + 9 <= len(data):
        end = position + 9 + int.from_bytes(data[position : position + 3], "big")
        pieces.append(data[position:end])
        position = end
    return [*pieces, data[position:]]


def renumber(pieces: list[bytes]) -> list[bytes]:
    """Each HEADERS frame that begins a request begins one on the next stream; what follows goes along."""
    next_id = 1
    now: dict[int, int] = {}
    result = []
    for piece in pieces:
        if len(piece) >= 9:
            stream_id = int.from_bytes(piece[5:9], "big")
            if piece[3] == 1 and piece[9:10] != b"\x00":
                now[stream_id] = next_id
                next_id += 2
            piece = piece[:5] + now.get(stream_id, stream_id).to_bytes(4, "big") + piece[9:]
        result.append(piece)
    return result


if __name__ == "__main__":
    sys.exit(run("http2", generate, check, CORPUS))
