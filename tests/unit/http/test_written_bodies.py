"""What bodies write, through a whole node: keys that are missing, sets and what finds them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.content.cbor_type import encode_cbor
from svc.content.msgpack_type import encode_msgpack
from svc.store.values.records import decode
from tests.support.node import Node, Wire

SCHEMA = """
type Row @table @export { id: Long @primaryKey  at: Date }
type Note @table @export {
  id: ID @primaryKey  tags @indexed  marks  ownerIds  owners: [Note] @relationship(from: "ownerIds")
  made: Long @createdTime  madeAt: Date @createdTime  changed: Long @updatedTime  changedAt: String @updatedTime
}
type Path @table @export @splitSegments { id: ID @primaryKey }
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    made = Node(tmp_path / "database", app)
    yield made
    assert made.errors == []
    made.store.check()
    made.close()


@pytest.fixture
def wire(node: Node) -> Wire:
    return node.connect()


def send(wire: Wire, method: str, target: str, body: Any) -> tuple[int, Any]:
    status, _, answer = wire.ask(method, target, json.dumps(body).encode())
    return status, json.loads(answer) if answer else None


def get(wire: Wire, target: str) -> Any:
    status, _, body = wire.ask("GET", target)
    assert status == 200, body
    return json.loads(body)


@pytest.mark.parametrize("rows", [[{"id": 1}, {}], [{}, {"id": 1}], [{}, {}, {"id": 2}, {}], [{"id": 3}, {}, {"id": 1}, {}]])
def test_generated_keys_do_not_collide_with_given_ones(wire: Wire, rows: list[dict[str, Any]]) -> None:
    status, keys = send(wire, "POST", "/Row/", rows)
    assert status == 201 and len(set(keys)) == len(rows)
    assert [key for key, row in zip(keys, rows, strict=True) if "id" in row] == [row["id"] for row in rows if "id" in row]


@pytest.mark.parametrize("target", ["/Note/", "/Note", "/Note/under/"])
def test_an_empty_key_is_a_missing_one(wire: Wire, target: str) -> None:
    status, fields, key = wire.ask("POST", target, b'{"id":"","marks":1}')
    assert status == 201 and len(json.loads(key)) > 20
    assert get(wire, fields["location"])["id"] == json.loads(key)
    status, keys = send(wire, "POST", target, [{"id": ""}, {"id": ""}])
    assert status == 201 and len(set(keys)) == 2 and all(keys)
    for body in ({"id": ""}, [{"id": ""}]):
        assert send(wire, "PUT", "/Note/", body)[0] == 400
    assert "" not in [note["id"] for note in get(wire, "/Note/")]


def test_a_list_key_without_text_is_a_missing_one(wire: Wire) -> None:
    status, keys = send(wire, "POST", "/Path/", [{"id": [""]}, {"id": ""}])
    assert status == 201 and len(set(keys)) == 2 and all(len(key) > 20 for key in keys)
    assert send(wire, "PUT", "/Path/", {"id": [""]})[0] == 400


@pytest.mark.parametrize(("kind", "encode"), [("application/cbor", encode_cbor), ("application/x-msgpack", encode_msgpack)])
def test_sets_stay_sets_and_are_found_by_their_elements(node: Node, wire: Wire, kind: str, encode: Any) -> None:
    note = {"tags": {"b", 2, True, (1, "x")}, "marks": [{"a", frozenset((1,))}, {"in": {5.0}}], "ownerIds": {"n1", "n2", None}}
    assert wire.ask("PUT", "/Note/n1", encode(note), {"Content-Type": kind})[0] == 204
    assert wire.ask("PUT", "/Note/n2", encode({"tags": ["c"]}), {"Content-Type": kind})[0] == 204
    raw = node.store.databases["data"].tables["Note"].get_raw("n1")
    assert raw is not None
    stored = decode(raw)
    node.store.end_turn()
    assert {name: stored[name] for name in note} == note and type(stored["tags"]) is set
    for query, found in (
        ("tags=b", ["n1"]),
        ("tags==2", ["n1"]),
        ("tags==true", ["n1"]),
        ("tags=gt=1", ["n1"]),
        ("tags=ct=b&tags=b", ["n1"]),
        ("tags=b&marks.in=ge=5", ["n1"]),
        ("tags!=b&tags=c", ["n2"]),
        ("owners.tags=c", ["n1"]),
    ):
        assert [each["id"] for each in get(wire, f"/Note/?{query}")] == found, query
    counts = {json.dumps(each["value"]): each["count"] for each in get(wire, "/Note/?facet(tags)")}
    assert counts.items() >= {'"b"': 1, '"c"': 1, "2": 1}.items()
    assert sorted(each["id"] for each in get(wire, "/Note/n1?select(id,owners{id})")["owners"]) == ["n1", "n2"]
    assert wire.ask("DELETE", "/Note/n1")[0] == 204  # and its entries in the index, see `check`


def test_every_time_attribute_is_set(node: Node, wire: Wire) -> None:
    assert send(wire, "PUT", "/Note/n", {"marks": 1})[0] == 204
    first = get(wire, "/Note/n")
    assert first["made"] == first["changed"] and first["madeAt"] == first["changedAt"]
    node.clock.advance(5)
    assert send(wire, "PATCH", "/Note/n", {"marks": 2})[0] == 204
    second = get(wire, "/Note/n")
    assert (second["made"], second["madeAt"]) == (first["made"], first["madeAt"])
    assert second["changed"] == first["changed"] + 5000 and second["changedAt"] > first["changedAt"]
