"""What a server of HTTP/2 has to make of frames, right and wrong ones: a table, with what RFC 9113 and RFC 7541 demand of each.

A case is what a client sends behind its preface and its first SETTINGS. What comes of it is one of

    "200" ...                  the request on the case's stream is answered, as a whole, and the connection goes on
    "reset PROTOCOL_ERROR"     its stream is reset, with or without an answer before, and the connection goes on
    "goaway PROTOCOL_ERROR"    the connection ends
    "alive"                    nothing, and the connection goes on

Where the standards leave a choice, or an error of a stream may be taken as one of the connection (RFC 9113 §5.4.2), several are right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
WHOLE = END_STREAM | END_HEADERS
CODES = (
    "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM",
    "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
)  # fmt: skip
PING_DATA = b"the last"

Fields = list[tuple[str, str]]


def frame(kind: int, flags: int, stream_id: int, content: bytes = b"") -> bytes:
    return len(content).to_bytes(3, "big") + bytes((kind, flags)) + stream_id.to_bytes(4, "big") + content


def number(value: int, size: int = 4) -> bytes:
    return value.to_bytes(size, "big")


def settings(*pairs: tuple[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(number(code, 2) + number(value) for code, value in pairs))


def literal(*fields: tuple[str | bytes, str | bytes], pattern: int = 0x00) -> bytes:
    """Fields spelled out, none of them Huffman-coded (RFC 7541 §6.2); `pattern` 0x40: into the table, 0x10: never."""
    block = b""
    for name, value in fields:
        raw_name, raw_value = (text if isinstance(text, bytes) else text.encode("latin-1") for text in (name, value))
        block += bytes((pattern, len(raw_name))) + raw_name + bytes((len(raw_value),)) + raw_value
    return block


def head(*more: tuple[str, str], method: str = "GET", path: str = "/", without: str = "") -> bytes:
    """The block of a request; `without` a pseudo-header field."""
    pseudo = [(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path)]
    return literal(*(pair for pair in pseudo if pair[0] != without), *more)


GET = frame(HEADERS, WHOLE, 1, head())
POST = frame(HEADERS, END_HEADERS, 1, head(method="POST"))
LAST_PING = frame(PING, 0, 0, PING_DATA)


@dataclass(frozen=True)
class Case:
    name: str  # begins with the section
    data: bytes
    expected: tuple[str, ...]
    stream_id: int = 1


def _cases() -> Iterator[Case]:
    def case(name: str, data: bytes, *expected: str, stream_id: int = 1) -> Case:
        return Case(name, data, expected, stream_id)

    def broken(name: str, data: bytes, code: str, stream_id: int = 1) -> Case:
        """An error of the stream."""
        return Case(name, data, (f"reset {code}", f"goaway {code}"), stream_id)

    def malformed(name: str, *pairs: tuple[str | bytes, str | bytes]) -> Iterator[Case]:
        """A request of these fields: ended by its head, by a body, and not ended."""
        block = literal(*pairs)
        yield Case(f"{name}, ended", frame(HEADERS, WHOLE, 1, block), ("reset PROTOCOL_ERROR",))
        with_body = frame(HEADERS, END_HEADERS, 1, block) + frame(DATA, END_STREAM, 1, b"x")
        yield Case(f"{name}, with a body", with_body, ("reset PROTOCOL_ERROR",))
        yield Case(f"{name}, not ended", frame(HEADERS, END_HEADERS, 1, block), ("reset PROTOCOL_ERROR",))

    def request(*more: tuple[str | bytes, str | bytes]) -> list[tuple[str | bytes, str | bytes]]:
        return [(":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", "/"), *more]

    def without(name: str) -> list[tuple[str | bytes, str | bytes]]:
        return [pair for pair in request() if pair[0] != name]

    def instead(name: str, value: str | bytes) -> list[tuple[str | bytes, str | bytes]]:
        return [pair if pair[0] != name else (name, value) for pair in request()]

    # --- requests that are right ---------------------------------------------------------------------------------------------------
    yield case("8.1 GET", GET, "200")
    yield case("8.1 HEAD", frame(HEADERS, WHOLE, 1, head(method="HEAD")), "200")
    yield case("8.1 POST", POST + frame(DATA, END_STREAM, 1, b"hello"), "200")
    yield case("8.1 POST with trailers", POST + frame(DATA, 0, 1, b"hello") + frame(HEADERS, WHOLE, 1, literal(("x-sum", "1"))), "200")
    trailers = literal(("x-sum", "1"))
    sent = POST + frame(DATA, 0, 1, b"hello")
    yield case(
        "8.1 trailers in several frames",
        sent + frame(HEADERS, END_STREAM, 1, trailers[:3]) + frame(CONTINUATION, 0, 1) + frame(CONTINUATION, END_HEADERS, 1, trailers[3:]),
        "200",
    )
    yield case("8.1 padded trailers", sent + frame(HEADERS, WHOLE | PADDED, 1, b"\x02" + trailers + bytes(2)), "200")
    yield case("8.1 trailers with a priority", sent + frame(HEADERS, WHOLE | WITH_PRIORITY, 1, bytes(5) + trailers), "200")
    yield case(
        "8.1 a field of the table, put in by trailers",
        sent + frame(HEADERS, WHOLE, 1, b"\x40\x01x\x01y") + frame(HEADERS, WHOLE, 3, head() + b"\xbe"),
        "200",
        stream_id=3,
    )
    yield case(
        "8.1 POST in several frames", POST + frame(DATA, 0, 1, b"he") + frame(DATA, 0, 1, b"llo") + frame(DATA, END_STREAM, 1), "200"
    )
    yield case("8.1 OPTIONS *", frame(HEADERS, WHOLE, 1, head(method="OPTIONS", path="*")), "200")
    yield case("8.3.1 Host in place of :authority", frame(HEADERS, WHOLE, 1, head(("host", "localhost"), without=":authority")), "200")
    yield case("8.3.1 the same Host and :authority", frame(HEADERS, WHOLE, 1, head(("host", "localhost"))), "200")
    yield case("8.2.2 TE: trailers", frame(HEADERS, WHOLE, 1, head(("te", "trailers"))), "200")
    yield case("8.2.3 cookie crumbs", frame(HEADERS, WHOLE, 1, head(("cookie", "a=1"), ("cookie", "b=2"))), "200")
    yield case("6.1 padded DATA", POST + frame(DATA, END_STREAM | PADDED, 1, b"\x06hello" + bytes(6)), "200")
    yield case("6.1 DATA that is padding only", POST + frame(DATA, END_STREAM | PADDED, 1, b"\x06" + bytes(6)), "200")
    yield case("6.2 padded HEADERS", frame(HEADERS, WHOLE | PADDED, 1, b"\x08" + head() + bytes(8)), "200")
    yield case("6.2 HEADERS with a priority", frame(HEADERS, WHOLE | WITH_PRIORITY, 1, bytes(4) + b"\xff" + head()), "200")
    yield case(
        "6.2 padded HEADERS with a priority",
        frame(HEADERS, WHOLE | PADDED | WITH_PRIORITY, 1, b"\x03" + bytes(5) + head() + bytes(3)),
        "200",
    )
    yield case("6.10 CONTINUATION", frame(HEADERS, END_STREAM, 1, head()[:9]) + frame(CONTINUATION, END_HEADERS, 1, head()[9:]), "200")
    yield case(
        "6.10 several CONTINUATION",
        frame(HEADERS, END_STREAM, 1, head()[:9])
        + frame(CONTINUATION, 0, 1, head()[9:20])
        + frame(CONTINUATION, END_HEADERS, 1, head()[20:]),
        "200",
    )
    yield case("6.10 an empty HEADERS before it", frame(HEADERS, END_STREAM, 1) + frame(CONTINUATION, END_HEADERS, 1, head()), "200")

    # --- §3.4 the preface, §4 frames -----------------------------------------------------------------------------------------------
    yield case("4.1 a frame of unknown type", frame(0x16, 0, 0, bytes(8)), "alive")
    yield case("4.1 a frame of unknown type on an idle stream", frame(0xFF, 0xFF, 7, bytes(8)), "alive")
    yield case("4.1 unknown flags", frame(PING, 0xFE, 0, bytes(8)) + frame(HEADERS, WHOLE | 0x52, 1, head()), "200")
    yield case("4.1 the reserved bit", frame(HEADERS, WHOLE, 0x80000001, head()), "200")
    yield case("4.2 DATA of 2^14 bytes", POST + frame(DATA, END_STREAM, 1, bytes(1 << 14)), "200")
    yield broken("4.2 DATA of more", POST + frame(DATA, END_STREAM, 1, bytes((1 << 14) + 1)), "FRAME_SIZE_ERROR")
    large = head(*((f"x{n}", "y" * 100) for n in range(160)))
    yield case("4.2 HEADERS of more than 2^14 bytes", frame(HEADERS, WHOLE, 1, large), "goaway FRAME_SIZE_ERROR")
    yield case("4.3 a block that cannot be decoded", frame(HEADERS, WHOLE, 1, b"\x40"), "goaway COMPRESSION_ERROR")
    yield case(
        "4.3 PRIORITY in a header block", frame(HEADERS, END_STREAM, 1, head()) + frame(PRIORITY, 0, 1, bytes(5)), "goaway PROTOCOL_ERROR"
    )
    yield case(
        "4.3 HEADERS of another stream in a header block",
        frame(HEADERS, END_STREAM, 1, head()) + frame(HEADERS, WHOLE, 3, head()),
        "goaway PROTOCOL_ERROR",
    )

    # --- §5.1 states of streams ----------------------------------------------------------------------------------------------------
    yield case("5.1 idle: DATA", frame(DATA, END_STREAM, 1, b"x"), "goaway PROTOCOL_ERROR")
    yield case("5.1 idle: RST_STREAM", frame(RST_STREAM, 0, 1, number(8)), "goaway PROTOCOL_ERROR")
    yield case("5.1 idle: WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 1, number(100)), "goaway PROTOCOL_ERROR")
    yield case("5.1 idle: CONTINUATION", frame(CONTINUATION, END_HEADERS, 1, head()), "goaway PROTOCOL_ERROR")
    yield case("5.1 idle: PRIORITY", frame(PRIORITY, 0, 1, bytes(4) + b"\x10") + GET, "200")
    yield case("5.1 idle: an even stream: DATA", frame(DATA, 0, 2, b"x"), "goaway PROTOCOL_ERROR")
    ended = {"half-closed": GET, "half-closed by DATA": POST + frame(DATA, END_STREAM, 1, b"x")}
    closed = {"closed": frame(HEADERS, END_HEADERS, 1, head(method="POST")) + frame(RST_STREAM, 0, 1, number(8))}
    for state, before in {**ended, **closed}.items():
        yield broken(f"5.1 {state}: DATA", before + frame(DATA, END_STREAM, 1, b"x"), "STREAM_CLOSED")
        yield broken(f"5.1 {state}: HEADERS", before + GET, "STREAM_CLOSED")
        yield case(
            f"5.1 {state}: CONTINUATION",
            before + frame(CONTINUATION, END_HEADERS, 1, head()),
            "goaway PROTOCOL_ERROR",
            "goaway STREAM_CLOSED",
        )
    for state, before in ended.items():
        yield case(f"5.1 {state}: WINDOW_UPDATE", before + frame(WINDOW_UPDATE, 0, 1, number(100)), "200")
        yield case(f"5.1 {state}: PRIORITY", before + frame(PRIORITY, 0, 1, bytes(5)), "200")
        yield case(f"5.1 {state}: RST_STREAM", before + frame(RST_STREAM, 0, 1, number(8)), "alive", "200")
    yield case("5.1 closed: PRIORITY", closed["closed"] + frame(PRIORITY, 0, 1, bytes(5)), "alive")
    yield case("5.1 closed: WINDOW_UPDATE", closed["closed"] + frame(WINDOW_UPDATE, 0, 1, number(100)), "alive")
    yield case("5.1 closed: RST_STREAM", closed["closed"] + frame(RST_STREAM, 0, 1, number(8)), "alive")
    yield case("5.1.1 an even stream", frame(HEADERS, WHOLE, 2, head()), "goaway PROTOCOL_ERROR", stream_id=2)
    yield case(
        "5.1.1 a stream smaller than one before",
        frame(HEADERS, WHOLE, 5, head()) + frame(HEADERS, WHOLE, 3, head()),
        "goaway PROTOCOL_ERROR",
        "goaway STREAM_CLOSED",
        stream_id=3,
    )
    yield case("5.1.1 streams left out", frame(HEADERS, WHOLE, 77, head()), "200", stream_id=77)
    many = b"".join(frame(HEADERS, END_HEADERS, 1 + 2 * n, head(method="POST")) for n in range(100))
    yield case(
        "5.1.2 too many streams", many + frame(HEADERS, WHOLE, 201, head()), "reset REFUSED_STREAM", "reset PROTOCOL_ERROR", stream_id=201
    )
    yield case(
        "5.3.2 PRIORITY on itself",
        POST + frame(PRIORITY, 0, 1, number(1) + b"\xff"),
        "reset PROTOCOL_ERROR",
        "goaway PROTOCOL_ERROR",
        "alive",
    )
    yield case(
        "5.5 an unknown frame in a header block",
        frame(HEADERS, END_STREAM, 1, head()) + frame(0x16, 0, 0, bytes(8)),
        "goaway PROTOCOL_ERROR",
    )
    yield case("5.5 an unknown setting", settings((0xFF, 1)) + GET, "200")

    # --- §6 kinds of frames --------------------------------------------------------------------------------------------------------
    yield case("6.1 DATA on stream 0", frame(DATA, 0, 0, b"x"), "goaway PROTOCOL_ERROR")
    yield case(
        "6.1 DATA with more padding than there is", POST + frame(DATA, END_STREAM | PADDED, 1, b"\x06hello"), "goaway PROTOCOL_ERROR"
    )
    yield case(
        "6.1 DATA padded without a length", POST + frame(DATA, END_STREAM | PADDED, 1), "goaway PROTOCOL_ERROR", "goaway FRAME_SIZE_ERROR"
    )
    yield case("6.2 HEADERS on stream 0", frame(HEADERS, WHOLE, 0, head()), "goaway PROTOCOL_ERROR")
    yield case("6.2 HEADERS with more padding than there is", frame(HEADERS, WHOLE | PADDED, 1, b"\xff" + head()), "goaway PROTOCOL_ERROR")
    yield case(
        "6.2 HEADERS too short for a priority",
        frame(HEADERS, WHOLE | WITH_PRIORITY, 1, b"\0\0"),
        "goaway PROTOCOL_ERROR",
        "goaway FRAME_SIZE_ERROR",
    )
    yield case("6.3 PRIORITY on stream 0", frame(PRIORITY, 0, 0, bytes(4) + b"\x10"), "goaway PROTOCOL_ERROR")
    yield broken("6.3 PRIORITY of four bytes", POST + frame(PRIORITY, 0, 1, bytes(4)), "FRAME_SIZE_ERROR")
    yield case("6.4 RST_STREAM on stream 0", frame(RST_STREAM, 0, 0, number(8)), "goaway PROTOCOL_ERROR")
    yield case("6.4 RST_STREAM of three bytes", POST + frame(RST_STREAM, 0, 1, bytes(3)), "goaway FRAME_SIZE_ERROR")
    yield case("6.4 RST_STREAM of five bytes", GET + frame(RST_STREAM, 0, 1, bytes(5)), "goaway FRAME_SIZE_ERROR")
    yield case("6.5 an acknowledgement that says something", frame(SETTINGS, ACK, 0, bytes(6)), "goaway FRAME_SIZE_ERROR")
    yield case("6.5 SETTINGS on a stream", frame(SETTINGS, 0, 1, bytes(6)), "goaway PROTOCOL_ERROR")
    yield case("6.5 SETTINGS of five bytes", frame(SETTINGS, 0, 0, bytes(5)), "goaway FRAME_SIZE_ERROR")
    yield case("6.5.2 ENABLE_PUSH 2", settings((2, 2)), "goaway PROTOCOL_ERROR")
    yield case("6.5.2 INITIAL_WINDOW_SIZE 2^31", settings((4, 1 << 31)), "goaway FLOW_CONTROL_ERROR")
    yield case("6.5.2 MAX_FRAME_SIZE 2^14-1", settings((5, (1 << 14) - 1)), "goaway PROTOCOL_ERROR")
    yield case("6.5.2 MAX_FRAME_SIZE 2^24", settings((5, 1 << 24)), "goaway PROTOCOL_ERROR")
    yield case("6.5.3 the last of two values counts", settings((4, 0), (4, 1 << 20)) + GET, "200")
    yield case("6.6 PUSH_PROMISE of a client", POST + frame(PUSH_PROMISE, END_HEADERS, 1, number(2) + head()), "goaway PROTOCOL_ERROR")
    yield case("6.7 PING that answers", frame(PING, ACK, 0, bytes(8)), "alive")
    yield case("6.7 PING on a stream", frame(PING, 0, 1, bytes(8)), "goaway PROTOCOL_ERROR")
    yield case("6.7 PING of six bytes", frame(PING, 0, 0, bytes(6)), "goaway FRAME_SIZE_ERROR")
    yield case("6.8 GOAWAY on a stream", frame(GOAWAY, 0, 1, bytes(8)), "goaway PROTOCOL_ERROR")
    yield case("6.9 WINDOW_UPDATE 0", frame(WINDOW_UPDATE, 0, 0, number(0)), "goaway PROTOCOL_ERROR")
    yield broken("6.9 WINDOW_UPDATE 0 of a stream", POST + frame(WINDOW_UPDATE, 0, 1, number(0)), "PROTOCOL_ERROR")
    yield broken("6.9 WINDOW_UPDATE 0 of an ended stream", GET + frame(WINDOW_UPDATE, 0, 1, number(0)), "PROTOCOL_ERROR")
    yield case("6.9 WINDOW_UPDATE with the reserved bit", frame(WINDOW_UPDATE, 0, 0, number(1 << 31 | 100)) + GET, "200")
    yield case("6.9 WINDOW_UPDATE of a stream with the reserved bit", GET + frame(WINDOW_UPDATE, 0, 1, number(1 << 31 | 100)), "200")
    yield case("6.9 WINDOW_UPDATE of three bytes", frame(WINDOW_UPDATE, 0, 0, b"\0\0\1"), "goaway FRAME_SIZE_ERROR")
    most = number((1 << 31) - 1)
    yield case("6.9.1 a window of more than 2^31-1", frame(WINDOW_UPDATE, 0, 0, most) * 2, "goaway FLOW_CONTROL_ERROR")
    yield broken("6.9.1 a window of a stream of more", POST + frame(WINDOW_UPDATE, 0, 1, most) * 2, "FLOW_CONTROL_ERROR")
    yield case(
        "6.10 CONTINUATION on stream 0",
        frame(HEADERS, END_STREAM, 1, head()[:9]) + frame(CONTINUATION, END_HEADERS, 0, head()[9:]),
        "goaway PROTOCOL_ERROR",
    )
    yield case(
        "6.10 CONTINUATION on another stream",
        frame(HEADERS, END_STREAM, 1, head()[:9]) + frame(CONTINUATION, END_HEADERS, 3, head()[9:]),
        "goaway PROTOCOL_ERROR",
    )
    yield case(
        "6.10 CONTINUATION after the end of a block",
        frame(HEADERS, END_HEADERS, 1, head()) + frame(CONTINUATION, END_HEADERS, 1, literal(("a", "b"))),
        "goaway PROTOCOL_ERROR",
    )
    yield case(
        "6.10 CONTINUATION after that of CONTINUATION",
        frame(HEADERS, 0, 1, head()[:9])
        + frame(CONTINUATION, END_HEADERS, 1, head()[9:])
        + frame(CONTINUATION, END_HEADERS, 1, literal(("a", "b"))),
        "goaway PROTOCOL_ERROR",
    )
    yield case(
        "6.10 CONTINUATION on another stream, in trailers",
        sent + frame(HEADERS, END_HEADERS, 3, head(method="POST")) + frame(HEADERS, END_STREAM, 1) + frame(CONTINUATION, END_HEADERS, 3),
        "goaway PROTOCOL_ERROR",
    )
    yield case(
        "6.10 DATA in the header block of trailers",
        sent + frame(HEADERS, END_STREAM, 1, trailers[:3]) + frame(DATA, 0, 1, b"x"),
        "goaway PROTOCOL_ERROR",
    )
    yield case(
        "6.10 more CONTINUATION in trailers than anybody needs",
        sent + frame(HEADERS, END_STREAM, 1) + frame(CONTINUATION, 0, 1) * 64,
        "goaway PROTOCOL_ERROR",
    )
    yield case(
        "6.2 trailers with more padding than there is",
        sent + frame(HEADERS, WHOLE | PADDED, 1, b"\xff" + trailers),
        "goaway PROTOCOL_ERROR",
    )
    yield case(
        "5.3.1 trailers that depend on themselves",
        sent + frame(HEADERS, WHOLE | WITH_PRIORITY, 1, number(1) + b"\xff" + trailers),
        "goaway PROTOCOL_ERROR",
    )
    yield case("RFC 7541 6.1 the index 0 in trailers", sent + frame(HEADERS, WHOLE, 1, b"\x80"), "goaway COMPRESSION_ERROR")
    yield case("6.10 DATA in a header block", frame(HEADERS, 0, 1, head()[:9]) + frame(DATA, END_STREAM, 1, b"x"), "goaway PROTOCOL_ERROR")
    yield case("7 GOAWAY with an unknown code", GET + frame(GOAWAY, 0, 0, number(0) + number(0xFF)), "200")
    yield case("7 RST_STREAM with an unknown code", POST + frame(RST_STREAM, 0, 1, number(0xFF)), "alive")

    # --- §8 requests that are wrong ------------------------------------------------------------------------------------------------
    yield case(
        "8.1 a second HEADERS that does not end",
        POST + frame(HEADERS, END_HEADERS, 1, literal(("x", "y"))),
        "reset PROTOCOL_ERROR",
        "goaway PROTOCOL_ERROR",
    )
    for announced, body in (("1", b"test"), ("9", b"test"), ("0", b"x")):
        before = frame(HEADERS, END_HEADERS, 1, head(("content-length", announced), method="POST"))
        yield broken(f"8.1.1 Content-Length {announced} of 4", before + frame(DATA, END_STREAM, 1, body), "PROTOCOL_ERROR")
        pieces = frame(DATA, 0, 1, body) + frame(DATA, END_STREAM, 1, body)
        yield broken(f"8.1.1 Content-Length {announced} in two pieces", before + pieces, "PROTOCOL_ERROR")
    short = frame(HEADERS, END_HEADERS, 1, head(("content-length", "9"), method="POST")) + frame(DATA, 0, 1, b"x")
    yield broken("8.1.1 a short body that trailers end", short + frame(HEADERS, WHOLE, 1, literal(("x", "y"))), "PROTOCOL_ERROR")
    yield case(
        "8.1.1 Content-Length and no body", frame(HEADERS, WHOLE, 1, head(("content-length", "5"), method="POST")), "reset PROTOCOL_ERROR"
    )
    for trailer in ((":method", "GET"), (":path", "/"), ("X-Upper", "y"), ("connection", "close"), ("x", "a\nb")):
        after = frame(DATA, 0, 1, b"x") + frame(HEADERS, WHOLE, 1, literal(trailer))
        yield broken(f"8.1 a trailer {trailer[0]!r}", POST + after, "PROTOCOL_ERROR")
    wrong: dict[str, list[tuple[str | bytes, str | bytes]]] = {
        "8.2 an upper-case name": request(("X-TEST", "ok")),
        "8.2.1 a name with a blank": request(("x y", "ok")),
        "8.2.1 a name with a colon": request(("x:y", "ok")),
        "8.2.1 a name with a control character": request(("x\x01", "ok")),
        "8.2.1 a name beyond ASCII": request((b"\xc3\xa9", "ok")),
        "8.2.1 an empty name": request(("", "ok")),
        "8.2.1 a value with NUL": request(("x", "a\0b")),
        "8.2.1 a value with CR": request(("x", "a\rb")),
        "8.2.1 a value with LF": request(("x", "a\nb")),
        "8.2.1 a value that begins with a blank": request(("x", " a")),
        "8.2.1 a value that ends with a tab": request(("x", "a\t")),
        "8.3 an unknown pseudo-header field": [*request()[:2], (":test", "ok"), *request()[2:]],
        "8.3 one of an answer": [*request()[:2], (":status", "200"), *request()[2:]],
        "8.3 one after a field": [*without(":path"), ("x", "y"), (":path", "/")],
        "8.3 another after a field": [*without(":scheme"), ("x", "y"), (":scheme", "http")],
        "8.3.1 an empty :path": instead(":path", ""),
        "8.3.1 an invalid :path": instead(":path", "x"),
        "8.3.1 a :path with a blank": instead(":path", "/a b"),
        "8.3.1 no :path": without(":path"),
        "8.3.1 a :path with a fragment": instead(":path", "/a?b#c"),
        "8.3.1 no :method": without(":method"),
        "8.3.1 no :scheme": without(":scheme"),
        "8.3.1 no :authority and no Host": without(":authority"),
        "8.3.1 an empty :method": instead(":method", ""),
        "8.3.1 an empty :scheme": instead(":scheme", ""),
        "8.3.1 :authority with user": instead(":authority", "me@localhost"),
        "8.3.1 Host other than :authority": request(("host", "elsewhere")),
        "8.3.1 Host twice": [*without(":authority"), ("host", "localhost"), ("host", "localhost")],
        "8.3.1 two Content-Length": request(("content-length", "1"), ("content-length", "2")),
        "8.3.1 an invalid Content-Length": request(("content-length", "+1")),
        "8.5 CONNECT with :scheme and :path": instead(":method", "CONNECT"),
        "8.5 CONNECT with :path": [(":method", "CONNECT"), (":authority", "localhost:1"), (":path", "/")],
        "RFC 8441 :protocol without CONNECT": [*request()[:1], (":protocol", "websocket"), *request()[1:]],
        "8.2.2 TE other than trailers": request(("te", "trailers, deflate")),
    }
    for name in (":method", ":scheme", ":path", ":authority"):
        wrong[f"8.3.1 {name} twice"] = [pair for pair in request() for _ in range(2 if pair[0] == name else 1)]
    for name in ("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"):
        wrong[f"8.2.2 {name}"] = request((name, "keep-alive"))
    for name, pairs in wrong.items():
        yield from malformed(name, *pairs)

    # --- RFC 7541 ------------------------------------------------------------------------------------------------------------------
    yield case("RFC 7541 2.3.3 an index beyond the tables", frame(HEADERS, WHOLE, 1, head() + b"\xc6"), "goaway COMPRESSION_ERROR")
    yield case(
        "RFC 7541 2.3.3 a name's index beyond the tables", frame(HEADERS, WHOLE, 1, head() + b"\x7f\x07\x01a"), "goaway COMPRESSION_ERROR"
    )
    yield case(
        "RFC 7541 4.2 a change of the table's size at the end", frame(HEADERS, WHOLE, 1, head() + b"\x20"), "goaway COMPRESSION_ERROR"
    )
    yield case("RFC 7541 4.2 one at the beginning", frame(HEADERS, WHOLE, 1, b"\x20" + head()), "200")
    yield case("RFC 7541 4.2 two at the beginning", frame(HEADERS, WHOLE, 1, b"\x20\x3f\xe1\x1f" + head()), "200")
    yield case("RFC 7541 6.3 a larger table than allowed", frame(HEADERS, WHOLE, 1, b"\x3f\xe2\x1f" + head()), "goaway COMPRESSION_ERROR")
    yield case("RFC 7541 6.1 the index 0", frame(HEADERS, WHOLE, 1, head() + b"\x80"), "goaway COMPRESSION_ERROR")
    for what, coded in (
        ("more than 7 bits of padding", b"\x86\xf2\xb2\x4a\x84\xff\xff"),
        ("padding of zeros", b"\x85\xf2\xb2\x4a\x84\x80"),
        ("EOS", b"\x84\xff\xff\xff\xff"),
    ):
        yield case(f"RFC 7541 5.2 {what}", frame(HEADERS, WHOLE, 1, head() + b"\x00\x01x" + coded), "goaway COMPRESSION_ERROR")
    yield case("RFC 7541 6.1 indexed fields", frame(HEADERS, WHOLE, 1, b"\x82\x86\x84\x41\x09localhost"), "200")
    yield case(
        "RFC 7541 6.1 a field of the table",
        frame(HEADERS, WHOLE, 1, b"\x82\x86\x84\x41\x09localhost") + frame(HEADERS, WHOLE, 3, b"\x82\x86\x84\xbe"),
        "200",
        stream_id=3,
    )
    for pattern, what in ((0x40, "with indexing"), (0x00, "without indexing"), (0x10, "never indexed")):
        yield case(f"RFC 7541 6.2 a field {what}", frame(HEADERS, WHOLE, 1, head() + literal(("x", "y"), pattern=pattern)), "200")
    yield case("RFC 7541 5.2 a Huffman-coded value", frame(HEADERS, WHOLE, 1, b"\x82\x86\x84\x41\x86\xa0\xe4\x1d\x13\x9d\x09"), "200")
    yield case("RFC 7541 5.1 an integer without end", frame(HEADERS, WHOLE, 1, head() + b"\xff" + b"\x80" * 20), "goaway COMPRESSION_ERROR")
    yield case(
        "RFC 7541 5.2 a string longer than its block",
        frame(HEADERS, WHOLE, 1, head() + b"\x00\x01x\x7f\xff\x01"),
        "goaway COMPRESSION_ERROR",
    )


CASES = {case.name: case for case in _cases()}


# --- reading what a server makes of it ---------------------------------------------------------------------------------------------------


def iter_frames(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """(type, flags, stream, content) of the whole frames in `data`."""
    position = 0
    while position + 9 <= len(data):
        end = position + 9 + int.from_bytes(data[position : position + 3], "big")
        if end > len(data):
            return
        yield data[position + 3], data[position + 4], int.from_bytes(data[position + 5 : position + 9], "big"), data[position + 9 : end]
        position = end


def outcome(output: bytes, stream_id: int, status: str) -> str:
    """What the server said. `status`: of the final answer on the stream, as a decoder of fields has read it; "" if there is none."""
    is_complete = is_alive = False
    found = ""
    for kind, flags, on, content in iter_frames(output):
        assert not found.startswith("goaway"), "a frame after the last GOAWAY"
        if kind == GOAWAY and content[4:8] != bytes(4):
            found = f"goaway {CODES[int.from_bytes(content[4:8], 'big')]}"
        elif kind == PING and flags & ACK and content == PING_DATA:
            is_alive = True
        elif on == stream_id and kind in (HEADERS, DATA):
            assert not is_complete and not found, "a frame after the end of the stream"
            is_complete = bool(flags & END_STREAM)
        elif on == stream_id and kind == RST_STREAM:
            code = CODES[int.from_bytes(content, "big")]
            if found:
                assert code == "STREAM_CLOSED", "what came after the reset is refused with another code"
            elif code != "NO_ERROR" or not is_complete:
                found = f"reset {code}"
    if found.startswith("goaway"):
        return found
    assert is_alive, "the connection is dead"
    return found or (status if is_complete else "alive")
