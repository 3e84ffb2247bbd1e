"""The invariant of `fuzz/fuzz_http2.py` for conversations that Hypothesis makes up and shrinks; our codec of fields beside hpack's; and the same
requests over HTTP/1.1 and HTTP/2 through a whole node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import h11
import hpack
import pytest
from h2.exceptions import ProtocolError
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.huffman_table import decode_huffman as hpack_decode_huffman
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzz.fuzz_http2 import AGAIN, CORPUS, INDEXED, SETTINGS, TOKENS, block, check_cut, conversations, cut_frames, frame, literal, renumber
from svc.messages import HeaderPairs
from svc.protocol.http2_fields import CONTENT_LENGTH, DATE, KNOWN_BLOCKS_MAX, FieldDecoder, FieldEncoder
from svc.protocol.http2_huffman import decode_huffman
from svc.protocol.response_head import RepeatedHead
from tests.support.http2 import Client
from tests.support.node import Node
from tests.support.profile import half_by_day

# --- conversations -------------------------------------------------------------------------------------------------------------------

cuts = st.lists(st.integers(0, 4000), max_size=8)
pieces = st.one_of(
    st.sampled_from(TOKENS),
    st.sampled_from([piece for data in conversations().values() for piece in cut_frames(data)]),
    st.binary(max_size=12),
)


@given(st.lists(pieces, max_size=12), st.booleans(), cuts)
@example([frame(1, 5, 1, INDEXED), frame(1, 5, 3, AGAIN), frame(3, 0, 3, bytes(4))], False, [70])
@example([frame(1, 4, 1, block(method="PUT")), frame(1, 5, 1, literal([("connection", "x")]))], False, [])
def test_frames(frames: list[bytes], anew: bool, cuts: list[int]) -> None:
    check_cut(SETTINGS + b"".join(renumber(frames) if anew else frames), cuts)


@given(st.binary(max_size=120), cuts)
def test_any_bytes(data: bytes, cuts: list[int]) -> None:
    check_cut(data, cuts)


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_corpus(path: Path) -> None:
    data = path.read_bytes()
    check_cut(data, [])
    check_cut(data, range(len(data)))


def test_the_corpus_has_all_seeds() -> None:
    assert {name: (CORPUS / name).read_bytes() for name in conversations()} == conversations()


# --- fields --------------------------------------------------------------------------------------------------------------------------

names = st.one_of(
    st.sampled_from(("Content-Type", "content-type", "ETag", "X-Number", "Set-Cookie", "Vary", "x-" + "long" * 40)),
    st.from_regex(r"[a-z][a-z0-9-]{0,30}", fullmatch=True),
)
values = st.one_of(
    st.sampled_from(("", "1", "application/json", "a" * 200)), st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=40)
)
blocks = st.tuples(st.sampled_from((0, 100, 200, 204, 404, 418, 503)), st.lists(st.tuples(names, values), min_size=1, max_size=8))
table_sizes = st.sampled_from((0, 30, 100, 500, 4096, 65536))


@settings(max_examples=half_by_day(100))
@given(st.lists(st.one_of(blocks, table_sizes), max_size=30))
@example([(200, [("a", "1")]), 0, 4096, (200, [("a", "1")]), (200, [("a", "1")])])
def test_hpack_reads_what_we_encode(steps: list[tuple[int, HeaderPairs] | int]) -> None:
    encoder, decoder = FieldEncoder(), hpack.Decoder(1 << 20)
    for step in steps:
        if isinstance(step, int):
            encoder.header_table_size = step
            decoder.max_allowed_table_size = step
            continue
        status, given_pairs = step
        pairs, own = encoder.check(given_pairs)
        names_left_out = set(own or {})
        encoder.load(status, pairs)
        decoded = list(decoder.decode(encoder.encode(())))
        expected = [(":status", str(status))] if status else []
        expected += [(name.lower(), value) for name, value in given_pairs if name.lower() not in names_left_out]
        assert decoded == expected


raw_texts = st.binary(max_size=150)
coded_steps = st.one_of(
    st.binary(max_size=40),  # any bytes
    st.lists(
        st.tuples(st.sampled_from((b":path", b"a", b"cookie")), raw_texts, st.booleans()), max_size=5
    ),  # fields, and whether they are secret
    table_sizes,
)


@given(st.lists(coded_steps, max_size=12), st.booleans())
@example([[(b"a", b"1", False)], [(b"a", b"1", False)], b"\xbe", b"\xbe", 0, [(b"a", b"1", False)], b"\xbe"], True)
def test_we_decode_as_hpack_does(steps: list[object], huffman: bool) -> None:
    ours, theirs, encoder = FieldDecoder(3000), hpack.Decoder(3000), hpack.Encoder()
    for step in steps:
        if isinstance(step, int):
            encoder.header_table_size = min(step, 4096)
            continue
        data = step if isinstance(step, bytes) else encoder.encode(step, huffman)  # type: ignore[arg-type]
        try:
            expected = [tuple(pair) for pair in theirs.decode(data, raw=True)]
        except hpack.HPACKError:
            with pytest.raises(ProtocolError):
                ours.decode(data)
            return
        for _ in range(2 if data[:1] < b"\x40" or data[:1] >= b"\x80" else 1):  # a block that changes nothing says the same again
            fields = ours.decode(data)[0][1]
            assert [tuple(pair) for pair in fields.pairs] == expected
            assert fields.size == sum(len(name) + len(value) + 32 for name, value in expected)
            if list(ours.header_table.dynamic_entries) != list(theirs.header_table.dynamic_entries):
                raise AssertionError("the tables differ")
            if any(byte & 0xC0 == 0x40 for byte in data):  # perhaps a field for the table
                break
        assert len(ours._known) <= KNOWN_BLOCKS_MAX


paths = st.one_of(
    st.sampled_from(("/", "/Product/1", "/Product/2", "/a?b")), st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=140)
)
others = st.sampled_from(
    (
        [],
        [("accept", "*/*")],
        [("accept", "*/*"), ("authorization", "Basic " + "x" * 60)],
        [("if-none-match", '"Qnm3baqAAAA"')],
        [("x", "y" * 900)],
    )
)
asked = st.tuples(
    paths, others, st.sampled_from(("to the table", "to the table", "not indexed", "mixed up", "cut", "again")), st.integers(0, 1 << 16)
)


@settings(max_examples=half_by_day(200))
@given(st.lists(st.one_of(asked, asked, asked, st.sampled_from((0, 60, 300, 4096))), max_size=40), st.booleans())
@example([("/a", [("accept", "*/*")], "to the table", 0), ("/b", [("accept", "*/*")], "to the table", 0)] * 40, True)
@example(
    [("/a", [("accept", "*/*")], "to the table", 0), ("/b", [], "to the table", 0), ("/b", [], "to the table", 0), ("/c", [], "again", 2)],
    True,
)
@example([*[(path, [("accept", "*/*")], "to the table", 0) for path in ("/a", "/b", "/", "/c")], ("", [], "again", 2)], True)
@example([("/a", [("accept", "*/*")], "not indexed", 0), ("/b", [("accept", "*/*")], "not indexed", 0)] * 2, True)
def test_requests_are_decoded_as_hpack_does(steps: list[object], huffman: bool) -> None:
    """Whatever was expected of the next block."""
    sent: list[bytes] = []
    ours, theirs, encoder = FieldDecoder(3000), hpack.Decoder(3000), hpack.Encoder()
    for step in steps:
        if isinstance(step, int):
            encoder.header_table_size = step
            continue
        path, more, how, place = step  # type: ignore[misc]
        named = hpack.NeverIndexedHeaderTuple if how == "not indexed" else hpack.HeaderTuple
        head = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), named(":path", path), *more]
        if how == "mixed up":
            head.insert(place % len(head), head.pop(3))
        data = sent[place % len(sent)] if how == "again" and sent else encoder.encode(head, huffman)
        sent.append(data)
        if how == "cut" and place % 4 == 0:
            at = place // 4 % len(data)
            data = data[:at] + bytes((place % 256,)) + data[at + place % 3 :]
        try:
            expected = [tuple(pair) for pair in theirs.decode(data, raw=True)]
        except hpack.HPACKError:
            with pytest.raises(ProtocolError):
                ours.decode_request(data)
            return
        found, fields = ours.decode_request(data)
        whole = ours.request()
        assert [tuple(pair) for pair in whole.pairs] == expected
        assert whole.size == sum(len(name) + len(value) + 32 for name, value in expected)
        assert list(ours.header_table.dynamic_entries) == list(theirs.header_table.dynamic_entries)
        if fields:
            expected.remove((b":path", found))  # once: a head that is sent again, with another table, may name it twice
            assert list(fields) == expected


heads = [
    RepeatedHead(200, [("Content-Type", "application/json")], True, [("Vary", "Accept"), ("Cache-Control", "public")], True),
    RepeatedHead(304, [], True, [("Vary", "Accept"), ("Set-Cookie", "never kept")], False),
    RepeatedHead(404, [("Content-Type", "application/json"), ("X-Long", "y" * 2000)], False, [], True),
]
repeated_answers = st.tuples(
    st.sampled_from(heads),
    st.sampled_from(("0.01", "0.02", "1.50")),
    st.sampled_from(("Sun", "Mon")),
    st.sampled_from((1, 400, 2047, 70_000)),
)


@settings(max_examples=half_by_day(100))
@given(st.lists(st.one_of(repeated_answers, repeated_answers, st.integers(0, 130), table_sizes), max_size=40))
@example(
    [(heads[0], "0.01", "Sun", 400)] * 3
    + [100, (heads[0], "0.01", "Sun", 400)] * 2
    + [0, (heads[0], "0.01", "Sun", 400), 4096, (heads[1], "0.01", "Sun", 400)]
)
def test_repeated_answers_are_encoded_as_others(steps: list[object]) -> None:
    """`int`: so many other fields that go into the table, or a size of it."""
    one, other, decoder = FieldEncoder(), FieldEncoder(), hpack.Decoder(1 << 20)
    for step in steps:
        if isinstance(step, int) and step in (0, 30, 100, 500, 4096, 65536):
            for encoder in (one, other):
                encoder.header_table_size = step
            decoder.max_allowed_table_size = step
            continue
        pairs: HeaderPairs
        if isinstance(step, int):
            pairs = [(f"x-{number}", "a") for number in range(step)]
            for encoder in (one, other):
                encoder.load(200, pairs)
            data = one.encode(())
        else:
            head, seconds, date, size = step  # type: ignore[misc]
            timing = ("Server-Timing", f"db;dur={seconds}")
            tag = b"Qnm3baqAAAA"
            pairs = [*head.before, *([("ETag", f'"{tag.decode()}"')] if head.has_tag else []), *head.behind, timing, (DATE, date)]
            other.load(head.status, [*pairs, (CONTENT_LENGTH, str(size))] if head.has_length else pairs)
            data = one.encode_repeated(head, tag, timing, date, size)
        assert data == other.encode(())
        decoder.decode(data)


@given(
    st.one_of(
        st.binary(max_size=60), st.binary(max_size=60).map(lambda text: HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH).encode(text))
    ),
    st.binary(max_size=2),
)
@example(b"", b"")
@example(b"\xff", b"")
@example(b"\x1f", b"\xff")
def test_texts_are_decoded_as_hpack_does(coded: bytes, more: bytes) -> None:
    found = []
    for decode in (decode_huffman, hpack_decode_huffman):
        try:
            found.append(decode(coded + more))
        except hpack.HPACKError:
            found.append(None)
    assert found[0] == found[1]


# --- a whole node --------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("http2") / "node")
    yield node
    assert not node.errors
    node.close()


LONG = b'{"name":"' + b"x" * 70_000 + b'"}'  # more than a stream's window

ids = st.sampled_from(("1", "2", "a%20b", "x/y", "", "1.name", "1.csv"))
targets = st.one_of(
    st.builds("/Product/{}".format, ids),
    st.sampled_from(
        (
            "/Product",
            "/Product/?name=ge=",
            "/Product/?limit(1)",
            "/Product/?price=gt=1&select(name)",
            "/nothing",
            "/Product/?(",
            "*",
            "/%zz",
            "x",
        )
    ),
)
bodies = st.sampled_from((b"", b"", b'{"name":"a","price":1.5}', b'{"name":1}', b"[]", b"{", b'[{"id":"2","name":"b"}]', b"long"))
request_fields = st.dictionaries(
    st.sampled_from(("Accept", "Content-Type", "Accept-Encoding", "If-None-Match", "Origin", "Cookie", "Authorization", "X-Y", "Expect")),
    st.sampled_from(("application/json", "text/csv", "*/*", "gzip", "*", "a=1; b=2", "Basic Og==", "100-continue", "http://a", "", "x\ty")),
    max_size=3,
)
methods = st.sampled_from(("GET", "GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS", "QUERY", "COPY", "BREW"))


@settings(max_examples=half_by_day(100))
@given(st.lists(st.tuples(methods, targets, request_fields, bodies), min_size=1, max_size=6))
@example([("PUT", "/Product/1", {"Content-Type": "application/json"}, b"long"), ("GET", "/Product/", {}, b"")])
def test_both_protocols_answer_alike(node: Node, requests: list[tuple[str, str, dict[str, str], bytes]]) -> None:
    client = Client(node)
    told = []
    for ask in (lambda *request: ask_http1(node, *request), client.ask):
        for identifier in ("1", "2", "a%20b", "x/y"):
            node.connect().ask("DELETE", f"/Product/{identifier}")
        told.append(
            [comparable(ask(method, target, LONG if body == b"long" else body, fields)) for method, target, fields, body in requests]
        )
    assert told[0] == told[1]
    assert not client.goodbyes


def ask_http1(node: Node, method: str, target: str, body: bytes, fields: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    """On a connection of its own, for some answers end one. The answer without its transfer coding."""
    wire = node.connect()
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    head = "\r\n".join(lines).encode() + b"\r\n\r\n"
    # A body that is not there with its head is asked about first (`Application.receive`), so both come as they do in HTTP/2.
    sent = wire.send(head, body) if body is LONG else wire.send(head + body)
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=method, target="/", headers=[("Host", "a")]))
    client.send(h11.EndOfMessage())
    client.receive_data(sent)
    while type(event := client.next_event()) is h11.InformationalResponse:
        pass
    assert type(event) is h11.Response
    answered: dict[str, str] = {}
    for name, value in ((name.decode(), value.decode("latin-1")) for name, value in event.headers):
        answered[name] = f"{answered[name]}, {value}" if name in answered else value
    content = b""
    if answered.get("connection") == "close":
        client.receive_data(b"")
    while type(piece := client.next_event()) is h11.Data:
        content += piece.data
    assert type(piece) is h11.EndOfMessage
    return event.status_code, answered, content


def comparable(answer: tuple[int, dict[str, str], bytes]) -> tuple[int, dict[str, str], bytes]:
    """Without what is the time's, the protocol's, or made up for a new record."""
    status, fields, body = answer
    left_out = {"server-timing", "connection", "transfer-encoding", "etag"}
    if status == 201:
        left_out |= {"content-length", "location"}
        body = b""
    return status, {name: value for name, value in fields.items() if name not in left_out}, body
