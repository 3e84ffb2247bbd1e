"""Rows that are long together are encoded in pieces, whatever they are encoded as (spec: http §8)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import cbor2
import pytest
import yaml

from svc.content import yaml_type
from svc.content.msgpack_reader import decode_msgpack
from svc.http import row_stream
from svc.store.values.records import payload_size
from tests.support.node import Node, whole

READ = {"application/json": json.loads, "application/cbor": cbor2.loads, "application/x-msgpack": decode_msgpack}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("rows"))
    body = json.dumps([{"id": f"{at:02}", "name": "n" * (3000 if at % 3 else 10)} for at in range(40)]).encode()
    assert node.connect().ask("PUT", "/Product/", body, {"Content-Type": "application/json"})[0] == 204
    yield node
    node.close()


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


@pytest.mark.parametrize("query", ["", "?limit(30)", "?select(id,name)", "?limit(3)"])
def test_a_slow_type_is_written_a_slice_at_a_time(node: Node, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    dumped: list[int] = []
    dump = yaml_type._dump
    monkeypatch.setattr(yaml_type, "_dump", lambda form: dumped.append(len(text := dump(form))) or text)
    status, fields, body = node.connect().ask("GET", f"/Product/{query}", b"", {"Accept": "text/yaml"})
    text = whole(body) if "transfer-encoding" in fields else body
    assert status == 200 and not node.errors
    as_json = node.connect().ask("GET", f"/Product/{query}", b"", {"Accept": "application/json"})[2]
    assert yaml.safe_load(text) == json.loads(as_json)
    assert text.startswith(b"- ") and max(dumped) <= 2 * 32 * yaml_type.LIGHT
    assert ("content-length" in fields) == (query == "?limit(3)")  # one slice writes it


def test_a_slow_type_writes_nothing_as_an_empty_list(node: Node) -> None:
    status, fields, body = node.connect().ask("GET", "/Product/?name=nobody", b"", {"Accept": "text/yaml"})
    assert (status, fields["content-length"], body) == (200, "3", b"[]\n")


def test_many_short_rows_of_a_slow_type(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps([{"id": f"short{at:04}", "name": "n"} for at in range(1000)]).encode()
    assert node.connect().ask("PUT", "/Product/", body, {"Content-Type": "application/json"})[0] == 204
    values: list[int] = []
    encode = yaml_type.encode_yaml
    monkeypatch.setattr(yaml_type, "encode_yaml", lambda form: values.append(sum(map(len, form))) or encode(form))
    query = "?id=gt=short&limit(1000)"
    status, fields, body = node.connect().ask("GET", f"/Product/{query}", b"", {"Accept": "text/yaml"})
    assert node.connect().ask("DELETE", "/Product/?id=gt=short")[0] == 204  # other tests have the node, too
    assert status == 200 and not node.errors and "content-length" not in fields
    assert [row["id"] for row in yaml.safe_load(whole(body))] == [f"short{at:04}" for at in range(1000)]
    assert len(values) > 10 and max(values) <= yaml_type.LIGHT


@pytest.mark.parametrize("kind", READ)
def test_a_record_with_very_many_values(node: Node, kind: str) -> None:
    many = [{"n": number, "text": f"text {number}"} for number in range(15_000)]
    body = json.dumps({"name": "many", "many": many}).encode()
    assert node.connect().ask("PUT", "/Product/many", body, {"Content-Type": "application/json"})[0] == 204
    for target in ("/Product/many", "/Product/?id=many"):
        status, fields, body = node.connect().ask("GET", target, b"", {"Accept": kind})
        assert status == 200 and "content-length" not in fields and not node.errors
        found = READ[kind](whole(body))
        record = found[0] if isinstance(found, list) else found
        assert record["name"] == "many" and record["many"] == many
    status, fields, body = node.connect().ask("GET", "/Product/many", b"", {"Accept": kind})
    again = node.connect().ask("GET", "/Product/many", b"", {"Accept": kind, "If-None-Match": fields["etag"]})
    assert (again[0], again[2]) == (304, b"")
