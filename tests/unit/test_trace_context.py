"""`traceparent` by the rules of W3C Trace Context, and the trace in the transaction log of what a request writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc.messages import HeaderBlock, Request
from svc.store import LogEntry
from svc.trace_context import trace_id_of
from tests.support.node import Node
from tests.support.profile import examples

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
VALID = f"00-{TRACE}-{PARENT}-01"

SCHEMA = "type Note @table @export { id: ID @primaryKey  text: String }"
CODE = """
from svc import Resource, tables, transaction

class Copy(Resource):
    def post(self, data):
        return tables.Note.put({"id": "direct", "text": "a"})

class Later(Resource):
    async def post(self, data):
        await tables.Note.get("direct")
        async with transaction():
            await tables.Note.put({"id": "later", "text": "b"})
        return {}
"""


@pytest.mark.parametrize("flags", ["00", "01", "03", "ff"])
def test_valid_ones(flags: str) -> None:
    assert trace_id_of(f"00-{TRACE}-{PARENT}-{flags}") == bytes.fromhex(TRACE)


@pytest.mark.parametrize("later", ["01", "cc", "fe"])
@pytest.mark.parametrize("rest", ["", "-", "-what the future has"])
def test_later_versions_may_go_on(later: str, rest: str) -> None:
    assert trace_id_of(f"{later}-{TRACE}-{PARENT}-01{rest}") == bytes.fromhex(TRACE)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00",
        VALID + "-",
        VALID + "-more",
        VALID + "0",
        VALID.upper(),
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE}-{PARENT}-1",
        f"0-{TRACE}-{PARENT}-01",
        f"00_{TRACE}_{PARENT}_01",
        f"00-{TRACE[:-1]}g-{PARENT}-01",
        f"00-{TRACE[:-1]}\u0661-{PARENT}-01",
        f"01-{TRACE}-{PARENT}-01x",
        f"{VALID}, {VALID}",
        f"01-{TRACE}-{PARENT}-01-x, {VALID}",
    ],
)
def test_invalid_ones(value: str) -> None:
    assert trace_id_of(value) is None


@settings(max_examples=examples(100), deadline=None)
@given(st.text(max_size=80) | st.text(alphabet="0123456789abcdef-, ", min_size=50, max_size=60))
def test_any_text_is_an_id_or_none(value: str) -> None:
    found = trace_id_of(value)
    assert found is None or (len(found) == 16 and found.hex() in value)


def test_several_fields_are_ignored() -> None:
    def trace_of(*values: str) -> bytes | None:
        return Request("GET", "/", HeaderBlock([("traceparent", value) for value in values])).trace_id

    assert trace_of() is None and trace_of(VALID, VALID) is None
    assert trace_of(VALID) == bytes.fromhex(TRACE)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    app: Path = tmp_path_factory.mktemp("app")
    (app / "schema.graphql").write_text(SCHEMA)
    (app / "resources.py").write_text(CODE)
    (app / "config.yaml").write_text("rest: true\ngraphqlSchema:\n  files: '*.graphql'\njsResource:\n  files: resources.py\n")
    node = Node(tmp_path_factory.mktemp("store"), app)
    yield node
    node.close()


def entries(node: Node) -> list[LogEntry]:
    database = node.store.databases["data"]
    return list(database.log.read(database.snapshot()))


def ask(node: Node, method: str, target: str, body: bytes, *parents: str) -> list[str | None]:
    """The traces of the entries that the request has written."""
    before = len(entries(node))
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", "Content-Type: application/json"]
    answer = node.connect().send("\r\n".join([*lines, *(f"traceparent: {value}" for value in parents)]).encode() + b"\r\n\r\n" + body)
    assert answer.startswith((b"HTTP/1.1 20", b"HTTP/1.1 100")), answer
    return [None if entry.trace_id is None else entry.trace_id.hex() for entry in entries(node)[before:]]


def test_entries_keep_the_trace_of_the_request(node: Node) -> None:
    assert ask(node, "PUT", "/Note/1", b'{"text": "a"}', VALID) == [TRACE]
    assert ask(node, "PUT", "/Note/1", b'{"text": "b"}') == [None]
    assert ask(node, "PATCH", "/Note/1", b'{"text": "c"}', VALID.replace("-01", "-00")) == [TRACE]
    assert ask(node, "PUT", "/Note/1", b'{"text": "d"}', "broken") == [None]
    assert ask(node, "PUT", "/Note/1", b'{"text": "d"}', VALID, VALID) == [None]
    assert ask(node, "DELETE", "/Note/1", b"", VALID) == [TRACE]
    node.store.check()


def test_long_writes_keep_it(node: Node) -> None:
    records = b"[" + b",".join(b'{"id": "many-%d"}' % number for number in range(300)) + b"]"
    assert ask(node, "PUT", "/Note/", records, VALID) == [TRACE] * 300
    node.store.check()


def test_what_applications_write_for_a_request_keeps_it(node: Node) -> None:
    assert ask(node, "POST", "/Copy/", b"{}", VALID) == [TRACE]
    assert ask(node, "POST", "/Later/", b"{}", VALID) == [TRACE]
    assert ask(node, "POST", "/Later/", b"{}") == [None]
