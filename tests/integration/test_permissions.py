"""What a role may do over REST (spec: security §5.3, §5.6, http §11.1)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from tests.support.node import Node, Wire

NOTHING: dict[str, Any] = {"read": False, "insert": False, "update": False, "delete": False, "attribute_permissions": []}


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("node"))
    wire = node.connect()
    wire.ask("PUT", "/Brand/b1", b'{"name":"Acme"}')
    for number in range(3):
        body = {"name": f"N{number}", "price": number, "stock": number * 10, "brandId": "b1"}
        wire.ask("PUT", f"/Product/p{number}", json.dumps(body).encode())
    yield node
    assert not node.errors
    node.close()


def allow(node: Node, **tables: dict[str, Any]) -> Wire:
    """Requests are now those of a user with these rights, by table."""
    permission = {"super_user": False, "data": {"tables": {name: {**NOTHING, **rights} for name, rights in tables.items()}}}
    node.as_user(User("ann", True, Role("r", "r", permission, databases=node.store.databases)))
    return node.connect()


def attributes(**rights: str) -> list[dict[str, Any]]:
    """`name="ri"`: read and insert."""
    return [
        {"attribute_name": name, "read": "r" in given, "insert": "i" in given, "update": "u" in given} for name, given in rights.items()
    ]


def status(wire: Wire, method: str, target: str, body: str = "") -> int:
    return wire.ask(method, target, body.encode())[0]


def test_a_right_for_each_kind_of_request(node: Node) -> None:
    wire = allow(node, Product={"read": True})
    assert status(wire, "GET", "/Product/p1") == 200
    assert status(wire, "HEAD", "/Product/") == 200
    assert status(wire, "GET", "/Product") == 200
    for method, target, body in (
        ("PUT", "/Product/p1", "{}"),
        ("PUT", "/Product/new", "{}"),
        ("PATCH", "/Product/p1", "{}"),
        ("POST", "/Product/", "{}"),
        ("DELETE", "/Product/p1", ""),
        ("DELETE", "/Product/?price=1", ""),
        ("GET", "/Brand/b1", ""),
    ):
        code, _, content = wire.ask(method, target, body.encode())
        assert code == 403, (method, target)
        assert json.loads(content)["detail"].startswith("Unauthorized access to resource")


def test_put_needs_update_for_what_exists_and_insert_for_what_does_not(node: Node) -> None:
    wire = allow(node, Product={"update": True})
    assert status(wire, "PUT", "/Product/p1", "{}") == 204
    assert status(wire, "PUT", "/Product/new", "{}") == 403
    assert status(wire, "PATCH", "/Product/new", "{}") == 403
    assert status(wire, "PUT", "/Product/", '[{"id":"p1"}]') == 204
    assert status(wire, "PUT", "/Product/", '[{"id":"p1"},{"id":"new"}]') == 403
    wire = allow(node, Product={"insert": True})
    assert status(wire, "PUT", "/Product/new", "{}") == 204
    assert status(wire, "PUT", "/Product/p1", "{}") == 403
    assert status(wire, "POST", "/Product/", "{}") == 201
    wire = allow(node, Product={"delete": True})
    assert status(wire, "DELETE", "/Product/p1") == 204


def test_unreadable_attributes_are_left_out(node: Node) -> None:
    wire = allow(node, Product={"read": True, "attribute_permissions": attributes(name="r", price="r")})
    assert json.loads(wire.ask("GET", "/Product/p1")[2]) == {"name": "N1", "price": 1, "id": "p1"}
    assert json.loads(wire.ask("GET", "/Product/?price=1")[2]) == [{"name": "N1", "price": 1, "id": "p1"}]
    assert json.loads(wire.ask("GET", "/Product/?price=1&select(name,stock)")[2]) == [{"name": "N1"}]
    assert json.loads(wire.ask("GET", "/Product/?price=1&select(*)")[2]) == [{"id": "p1", "name": "N1", "price": 1}]
    assert json.loads(wire.ask("GET", "/Product/p1?select(name,stock,$record)")[2]) == {"name": "N1"}
    assert status(wire, "GET", "/Product/p1.stock") == 404
    assert {a["name"] for a in json.loads(wire.ask("GET", "/Product")[2])["attributes"]} == {"id", "name", "price"}


@pytest.mark.parametrize("query", ["price=1&stock=10", "price=1&sort(stock)", "brandId=b1", "price=1|brandId=b1", "price=1&select(stock)"])
def test_what_may_not_be_read_may_not_be_asked_about(node: Node, query: str) -> None:
    wire = allow(node, Product={"read": True, "attribute_permissions": attributes(name="r", price="r")})
    assert status(wire, "GET", f"/Product/?{query}") == 403


def test_related_tables_need_read_too(node: Node) -> None:
    wire = allow(node, Product={"read": True})
    assert status(wire, "GET", "/Product/?brand.name=Acme") == 403
    assert json.loads(wire.ask("GET", "/Product/?price=1&select(name,brand{name})")[2]) == [{"name": "N1"}]
    wire = allow(node, Product={"read": True}, Brand={"read": True, "attribute_permissions": attributes(id="r")})
    assert json.loads(wire.ask("GET", "/Product/?price=1&select(name,brand{name,id})")[2]) == [{"name": "N1", "brand": {"id": "b1"}}]
    assert status(wire, "GET", "/Product/?brand.name=Acme") == 403


def test_all_rights_on_a_table_open_no_other(node: Node) -> None:
    wire = allow(node, Product={"read": True, "insert": True, "update": True, "delete": True})
    assert status(wire, "GET", "/Product/?price=1") == 200
    assert status(wire, "GET", "/Product/?brand.name=Acme") == 403
    assert status(wire, "GET", "/Product/?sort(brand.name)") == 403
    assert status(wire, "DELETE", "/Product/?brand.name=Acme") == 403
    assert json.loads(wire.ask("GET", "/Product/?price=1&select(name,brand{name})")[2]) == [{"name": "N1"}]


def test_forbidden_attributes_are_refused_on_write_and_kept_by_put(node: Node) -> None:
    wire = allow(node, Product={"read": True, "insert": True, "update": True, "attribute_permissions": attributes(name="riu", price="ri")})
    assert status(wire, "PATCH", "/Product/p1", '{"price":9}') == 403
    assert status(wire, "PATCH", "/Product/p1", '{"stock":9}') == 403
    assert status(wire, "PATCH", "/Product/p1", '{"name":"ok"}') == 204
    assert status(wire, "PUT", "/Product/new", '{"name":"x","price":1}') == 204
    assert status(wire, "PUT", "/Product/new2", '{"name":"x","stock":1}') == 403
    assert status(wire, "PUT", "/Product/p1", '{"name":"put"}') == 204
    node.as_user(User("root", True, Role("s", "s", {"super_user": True}, databases=node.store.databases)))
    record = json.loads(node.connect().ask("GET", "/Product/p1")[2])
    assert record == {"name": "put", "price": 1, "stock": 10, "brandId": "b1", "id": "p1"}


def test_without_a_role_nothing_is_allowed(node: Node) -> None:
    node.as_user(User("ann", True, None))
    assert status(node.connect(), "GET", "/Product/p1") == 403
    node.as_user(None)
    assert status(node.connect(), "GET", "/Product/p1") == 401
