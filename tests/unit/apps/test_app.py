"""svc.apps.app: what becomes of an application whose tables cannot all be served."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.application import application
from tests.support.node import Node

SCHEMA = """
type First @table @export(name: "shop/goods") { id: ID @primaryKey  a: Int }
type Second @table @export(name: "shop/goods") { id: ID @primaryKey  b: Int }
type Third @table @export { id: ID @primaryKey }
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    made = Node(tmp_path / "store", app)
    yield made
    made.close()


def test_two_tables_exported_at_one_address_are_reported_and_shut_off(node: Node) -> None:
    assert node.app.status == "error"
    [message] = node.app.entries["graphqlSchema"].messages
    assert "data.First" in message and "data.Second" in message and "/shop/goods" in message
    wire = node.connect()
    for method, target, body in (
        ("GET", "/shop/goods/1", b""), ("GET", "/shop/goods", b""), ("GET", "/shop/goods.csv", b""), ("PUT", "/shop/goods/1", b"{}"),
        ("POST", "/shop/goods/", b"{}"), ("DELETE", "/shop/goods/1", b""), ("QUERY", "/shop/goods/", b"{}"), ("OPTIONS", "/shop/goods/1", b""),
    ):  # fmt: skip
        status, _, answer = wire.ask(method, target, body)
        assert (status, json.loads(answer)["detail"]) == (500, "Conflicting paths for shop/goods"), method
    assert wire.ask("PUT", "/Third/1", b"{}")[0] == 204, "everything else is served"
    assert "/Third/" in json.loads(wire.ask("GET", "/openapi")[2])["paths"]
    assert not [path for path in json.loads(wire.ask("GET", "/openapi")[2])["paths"] if "goods" in path]
    assert node.errors == [], "a conflict is no defect"


def test_the_address_answers_again_when_one_of_them_is_dropped(node: Node) -> None:
    node.resources.remove_table(node.store.databases["data"].tables["Second"])
    assert node.connect().ask("PUT", "/shop/goods/1", b'{"a": 1}')[0] == 204
    assert node.store.databases["data"].tables["First"].record_count() == 1


def test_what_could_not_be_loaded_is_named_as_that_in_a_conflict(tmp_path: Path) -> None:
    schema = "type Thing @table @export { id: ID @primaryKey }\n"
    with application(tmp_path, "from svc import tables\nclass Thing(tables.Thing):\n    pass\n1 / 0\n", schema, healthy=False) as made:
        message = made.node.app.entries["graphqlSchema"].messages[0]
    assert "table data.Thing is exported as /Thing, and so is something that could not be loaded:" in message
