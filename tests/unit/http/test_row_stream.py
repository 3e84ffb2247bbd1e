"""Rows that are long together are encoded in pieces, whatever they are encoded as (spec: http §8)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import cbor2
import pytest

from svc.content.msgpack_reader import decode_msgpack
from svc.http import row_stream
from svc.store.values.records import payload_size
from tests.support.node import Node

READ = {"application/json": json.loads, "application/cbor": cbor2.loads, "application/x-msgpack": decode_msgpack}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("rows"))
    body = json.dumps([{"id": f"{at:02}", "name": "n" * (3000 if at % 3 else 10)} for at in range(40)]).encode()
    assert node.connect().ask("PUT", "/Product/", body, {"Content-Type": "application/json"})[0] == 204
    yield node
    node.close()


def whole(body: bytes) -> bytes:
    """The content of a chunked body."""
    found = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        found, body = found + body[: int(size, 16)], body[int(size, 16) + 2 :]
    return found


@pytest.mark.parametrize("query", ["", "?limit(30)", "?name=ne=x&id=gt=0&limit(25)"])
@pytest.mark.parametrize("kind", [*READ, "text/csv"])
def test_large_rows(node: Node, monkeypatch: pytest.MonkeyPatch, query: str, kind: str) -> None:
    def ask() -> tuple[int, dict[str, str], bytes]:
        status, fields, body = node.connect().ask("GET", f"/Product/{query}", b"", {"Accept": kind})
        assert not node.errors
        return status, fields, whole(body) if "transfer-encoding" in fields else body

    status, fields, body = ask()
    written: list[int] = []
    write = row_stream.QueryExecution.write
    monkeypatch.setattr(row_stream, "LARGE", 10_000)
    monkeypatch.setattr(
        row_stream.QueryExecution,
        "write",
        lambda execution, writer, batch: written.append(sum(map(payload_size, batch))) or write(execution, writer, batch),
    )
    again, link, pieces = ask()
    assert (again, link.get("link"), pieces) == (status, fields.get("link"), body)
    assert kind not in READ or len(READ[kind](pieces)) == len(READ[kind](body)) > 9
    assert len(written) > 3 and max(written) <= 10_000
