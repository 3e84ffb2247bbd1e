"""`@unique`, `@check` and `@default` over REST: what is answered, and to whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from tests.support.node import Node, Wire

SCHEMA = """
type User @table @export {
  id: ID @primaryKey
  mail: String @unique
  age: Int @check(expr: "age >= 18", message: "too young")
  state: String! @default(value: "new")
}
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
    wire = node.connect()
    assert wire.ask("PUT", "/User/1", b'{"mail": "a@b"}')[0] == 204
    return wire


def problem(wire: Wire, method: str, target: str, body: Any) -> tuple[int, str, str]:
    status, _, answer = wire.ask(method, target, json.dumps(body).encode())
    shown = json.loads(answer)
    return status, shown["code"], shown["error"]


def test_default(wire: Wire) -> None:
    assert json.loads(wire.ask("GET", "/User/1")[2]) == {"mail": "a@b", "state": "new", "id": "1"}
    assert problem(wire, "PUT", "/User/1", {"mail": "x"}) == (400, "VALIDATION", "Property state is required")
    assert wire.ask("PATCH", "/User/9", b'{"age": 20}')[0] == 204
    assert json.loads(wire.ask("GET", "/User/9")[2])["state"] == "new"


def test_unique_names_the_other_key_for_who_may_read_it(node: Node, wire: Wire) -> None:
    told = (409, "NOT_UNIQUE", 'Value "a@b" in property mail is that of another record of User: "1"')
    for method, target in (("PUT", "/User/2"), ("PATCH", "/User/2"), ("POST", "/User/")):
        assert problem(wire, method, target, {"mail": "a@b"}) == told
    assert problem(wire, "PUT", "/User/2/mail", "a@b") == told

    hidden = (409, "NOT_UNIQUE", 'Value "a@b" in property mail is that of another record')
    all_but = {"read": False, "insert": True, "update": True, "delete": True, "attribute_permissions": []}
    half = [{"attribute_name": name, "read": name != "mail", "insert": True, "update": True} for name in ("id", "mail", "age", "state")]
    for permission in (all_but, all_but | {"read": True, "attribute_permissions": half}):
        role = Role("r", "r", {"data": {"tables": {"User": permission}}}, None, node.store.databases)
        node.as_user(User("eve", True, role))
        assert problem(wire, "POST", "/User/", {"mail": "a@b"}) == hidden


def test_unique_names_the_other_key_if_everyone_may_read_it(node: Node, wire: Wire) -> None:
    told = 'Value "a@b" in property mail is that of another record of User: "1"'
    hidden = 'Value "a@b" in property mail is that of another record'
    permission = {"read": True, "insert": True, "update": True, "delete": True, "attribute_permissions": []}
    mail = [{"attribute_name": "mail", "read": True}]
    half = [{"attribute_name": name, "read": name != "mail", "insert": True, "update": True} for name in ("id", "mail")]
    writer = User("eve", True, Role("r", "r", {"data": {"tables": {"User": permission | {"read": False}}}}, None, node.store.databases))
    for everyone, said in (
        (permission, told),
        (permission | {"read": False}, hidden),
        (permission | {"attribute_permissions": half}, hidden),
    ):
        grant(node, everyone)
        for user in (None, User("ann")):
            node.as_user(user)
            assert problem(wire, "POST", "/User/", {"mail": "a@b"}) == (409, "NOT_UNIQUE", said)
    grant(node, {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": mail})
    node.as_user(None)
    assert wire.ask("POST", "/User/", b'{"mail": "a@b"}')[0] == 401
    node.as_user(writer)
    assert problem(wire, "POST", "/User/", {"mail": "a@b"}) == (409, "NOT_UNIQUE", hidden), (
        "this role was made without what everyone may do"
    )


def grant(node: Node, permission: dict[str, Any]) -> None:
    """To callers without a login."""
    made = node.store.begin()
    made.put(
        node.store.databases["system"].tables["svc_role"],
        "anonymous",
        {"role": "anonymous", "permission": {"data": {"tables": {"User": permission}}}},
    )
    made.apply()
    node.store.commit_turn()


def test_a_list_is_stored_as_a_whole_or_not_at_all(wire: Wire) -> None:
    rows = [{"id": str(number), "mail": f"m{number}"} for number in range(2, 100)]
    for wrong, status, code in (({"mail": "m5"}, 409, "NOT_UNIQUE"), ({"mail": "x", "age": 3}, 400, "CHECK_FAILED")):
        for some in (rows[:10], rows):  # at once, and as a long write
            answer = json.loads(wire.ask("POST", "/User/", json.dumps([*some, {"id": "z", **wrong}]).encode())[2])
            assert (answer["status"], answer["code"]) == (status, code)
            (fault,) = answer["faults"]
            assert (fault["index"], fault["key"]) == (len(some), "z")
            assert (fault["attribute"], fault.get("other")) == (("mail", "5") if status == 409 else ("age", None))
        assert wire.ask("GET", "/User/5")[0] == 404
    assert wire.ask("POST", "/User/", json.dumps(rows).encode())[0] == 201


def test_check(wire: Wire) -> None:
    status, _, answer = wire.ask("PATCH", "/User/1", b'{"age": 3}')
    assert status == 400
    shown = json.loads(answer)
    assert (shown["code"], shown["error"], shown["errors"]) == ("CHECK_FAILED", "Property age: too young", ["Property age: too young"])


def test_requests_of_one_turn_are_judged_one_after_the_other(node: Node) -> None:
    wires = [node.connect() for _ in range(3)]
    for number, wire in enumerate(wires):
        body = b'{"mail": "same"}'
        head = f"PUT /User/t{number} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        wire.sock.incoming.append(head.encode() + body)
    for wire in wires:
        wire._loop.readers[wire.sock]()
    node.settle()
    assert sorted(wire.sock.sent[9:12] for wire in wires) == [b"204", b"409", b"409"]


def test_the_description(wire: Wire) -> None:
    attributes = {each["name"]: each for each in json.loads(wire.ask("GET", "/User")[2])["attributes"]}
    assert attributes["mail"]["unique"] is True and attributes["mail"]["indexed"] is True
    assert attributes["age"]["check"] == "age >= 18"
    assert attributes["state"]["default"] == "new"
