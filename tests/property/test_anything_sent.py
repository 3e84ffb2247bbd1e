"""Whatever arrives on a connection: no defect, no hang, no 500, and the connection ends when the peer does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.node import Node

COMMON, RARE = ["GET", "PUT", "PATCH", "POST", "DELETE"], ["HEAD", "OPTIONS", "QUERY", "TRACE", "COPY", "BREW", "get"]
METHODS = st.sampled_from(COMMON * 6 + RARE)
TABLES = st.sampled_from(["Product"] * 6 + ["Brand", "counters", "counters", "Strict", "Fleeting", "Doc", "Nothing", ""])
SEGMENTS = st.one_of(
    st.sampled_from(["1", "a", "a/b", "", "%2F", "%zz", "a.json", "a.price", "a.csv", "1.hits", ".", "..", "$1z", "9" * 30, "k" * 700]),
    st.text("abc019/%.$~+ ?&=|()[]{}<>!,*'\"", max_size=12),
)
QUERIES = st.one_of(
    st.none(),
    st.sampled_from(
        [
            "", "price=gt=1", "price=gt=", "name==x*", "name==*", "tags=a&tags=b", "[price=gt=1|name=x]", "limit(5)", "limit(5,2)", "limit(-1)", "sort(price)",
            "select(name)", "select([name,price])", "select(name,brand{name})", "select(", "brand.name=x", "products.name=x", "nope=1", "inStock=true",
            "price=ge=date:x", "listDate=gt=2020-01-01", "id=gt=1", "group-by(x)", "price=in=1", "&&", "|", "a|b", "%ff=1", "name=%", "price==number:NaN",
        ]
    ),
    st.text("abnprice=gtl&|()[]{},.*+-0159:%<>! select limit sort", max_size=40),
)  # fmt: skip
PROPERTIES = [
    "id",
    "name",
    "price",
    "tags",
    "stock",
    "specs",
    "listDate",
    "image",
    "brand",
    "until",
    "label",
    "hits",
    "contentType",
    "data",
    "",
    "\0",
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(["2026-01-01", "x" * 300, {"__op__": "add", "value": 1}, {"__op__": "x"}, 10**400, -(2**63), 1e308]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(PROPERTIES)
            | st.text(max_size=4),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)  # fmt: skip
BODIES = st.one_of(JSON.map(lambda value: json.dumps(value).encode()), st.binary(max_size=40), st.just(b""))
FIELDS = st.dictionaries(
    st.sampled_from(
        ["Content-Type", "Content-Encoding", "Accept", "Accept-Encoding", "Prefer", "Range", "If-Match", "If-None-Match", "If-Modified-Since",
         "If-Unmodified-Since", "Origin", "Authorization", "Expect", "X-A"]
    ),
    st.sampled_from(
        [
            "application/json", "*/*", "text/plain; charset=x", "text/csv", "image/png", '"abc"', "*", 'W/"x"', "Thu, 01 Jan 2026 00:00:00 GMT", "garbage",
            "https://a.example", "Basic", "Basic !!", "Bearer x", "Digest y", "100-continue", ",;q=,", "application/merge-patch+json",
            "application/cbor", "application/x-msgpack", "application/x-ndjson", "application/x-www-form-urlencoded", "text/yaml", "br", "gzip",
            "identity;q=0", "explain", "bytes=0-3",
        ]
    ),
    max_size=3,
)  # fmt: skip


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("node"))
    yield node
    node.close()


def check(node: Node, answered: bytes) -> None:
    errors, node.errors = node.errors, []
    assert not errors, errors
    # Status lines only: bodies cannot begin a line with this, for JSON escapes line ends.
    assert not re.search(rb"(?:^|\r\n)HTTP/1\.1 500 ", answered), answered


@given(method=METHODS, table=TABLES, segment=SEGMENTS, query=QUERIES, fields=FIELDS, body=BODIES)
def test_any_request_gets_a_clear_answer(
    node: Node, method: str, table: str, segment: str, query: str | None, fields: dict[str, str], body: bytes
) -> None:
    target = f"/{table}/{segment}".replace(" ", "%20") + ("" if query is None else "?" + query.replace(" ", "%20"))
    wire = node.connect()
    status, answered, content = wire.ask(method, target, body, fields)
    check(node, wire.sock.sent)
    assert 100 <= status < 600
    if status >= 400 and method != "HEAD" and fields.get("Expect") is None:
        media_type = answered["content-type"].partition(";")[0]
        problem = json.loads(content) if media_type.endswith("json") else node.types[media_type].decode(content, {})
        assert problem["status"] == status
        assert problem["code"]
        assert problem["detail"]
    wire.send(b"")
    assert wire.sock.closed


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.sampled_from(
                [
                    b"GET /Product/1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
                    b"PUT /Product/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
                    b"PUT /Product/1 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
                    b"POST /counters/ HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 13\r\n\r\n",
                    b'{"label":"x"}',
                    b"GET / HTTP/1.0\r\n\r\n",
                    b"\r\n",
                    b"Host: localhost\r\n",
                    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                    b"\x16\x03\x01\x02\x00\x01",
                ]
            ),
        ),
        max_size=8,
    )
)
@example([b"GET /Product/1 HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40])
def test_any_bytes(node: Node, pieces: list[bytes]) -> None:
    wire = node.connect()
    wire.send(*[piece for piece in pieces if piece])
    answered = wire.send(b"")
    check(node, answered)
    assert wire.sock.closed
    assert not node.connections.open
    assert node.connections.bodies == 0
