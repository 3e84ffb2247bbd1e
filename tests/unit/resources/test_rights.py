"""What a role may do with a table over REST, and what one that may do nothing gets to know (spec: http §11.1, security §5.3, §5.6)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from svc.errors import AccessViolation
from svc.messages import HeaderBlock, Request
from svc.store.values.records import decode
from svc.websocket.resource_sockets import ResourceSockets
from tests.support.node import Node, Wire

SCHEMA = """
type Plant @table @export {
  id: ID @primaryKey
  name: String! @indexed
  note: String
  pin: String! @indexed
  bedId: ID @indexed
  bed: Bed @relationship(from: "bedId")
}
type Bed @table @export { id: ID @primaryKey  name: String @indexed }
type Number @table @export { id: Long @primaryKey  name: String }
type Text @table @export { id: ID @primaryKey  name: String }
"""
NOTHING: dict[str, Any] = {"read": False, "insert": False, "update": False, "delete": False, "attribute_permissions": []}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    made = Node(tmp_path / "store", app)
    wire = made.connect()
    assert wire.ask("PUT", "/Bed/b", b'{"name": "north"}')[0] == 204
    for name in ("fern", "moss"):
        record = {"name": name, "note": "n", "pin": f"pin of {name}", "bedId": "b"}
        assert wire.ask("PUT", f"/Plant/{name}", json.dumps(record).encode())[0] == 204
    assert wire.ask("PUT", "/Number/1", b'{"name": "one"}')[0] == 204
    yield made
    assert made.errors == []
    made.close()


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


def value(wire: Wire, method: str, target: str, body: Any = None) -> tuple[int, Any]:
    status, _, answer = wire.ask(method, target, b"" if body is None else json.dumps(body).encode())
    found = json.loads(answer) if answer else None
    return status, found if status < 300 or found is None else found["detail"]


class TestQuery:
    """QUERY reads: what its body names are conditions, not attributes of a record that is written."""

    READER: ClassVar[dict[str, Any]] = {"read": True, "attribute_permissions": attributes(name="r", note="r", bedId="r", bed="r")}

    def query(self, wire: Wire, **body: Any) -> tuple[int, Any]:
        return value(wire, "QUERY", "/Plant/", body)

    def test_a_role_with_rights_on_attributes_may_ask(self, node: Node) -> None:
        wire = allow(node, Plant=self.READER)
        fern = {"name": "fern", "note": "n", "bedId": "b", "id": "fern"}
        assert self.query(wire, conditions=[{"attribute": "name", "value": "fern"}]) == (200, [fern])
        assert self.query(wire, conditions=[{"attribute": "name", "value": "fern"}], select=["name", "pin"]) == (200, [{"name": "fern"}])
        assert self.query(wire, sort={"attribute": "name", "descending": True}, limit=1, select="name") == (200, ["moss"])
        assert value(wire, "QUERY", "/Plant", [{"attribute": "name", "value": "moss"}])[0] == 200

    def test_what_is_missing_is_named_to_users_with_some_right(self, node: Node) -> None:
        wire = allow(node, Plant={"read": True, "insert": True, "attribute_permissions": attributes(name="read insert", note="read")})

        def refused(method: str, target: str, body: object) -> dict[str, Any]:
            status, _, content = wire.ask(method, target, json.dumps(body).encode())
            problem = json.loads(content)
            assert (status, problem["code"]) == (403, "FORBIDDEN")
            assert problem["detail"] == problem["faults"][0]["message"]
            return {name: value for name, value in problem["faults"][0].items() if name != "message"}

        assert refused("POST", "/Plant/", {"name": "x", "pin": "1"}) == {"right": "insert", "resource": "Plant", "attribute": "pin"}
        assert refused("POST", "/Plant/", {"name": "x", "nothing": 1}) == {"right": "insert", "resource": "Plant", "attribute": "nothing"}
        assert refused("PUT", "/Plant/fern", {"name": "x"}) == {"right": "update", "resource": "Plant"}
        assert refused("DELETE", "/Plant/fern", None) == {"right": "delete", "resource": "Plant"}
        for wire_of in (allow(node), allow(node, Bed={"read": True})):
            status, _, content = wire_of.ask("GET", "/Plant/fern")
            assert (status, json.loads(content)["detail"]) == (403, "Unauthorized access to resource")
            assert "faults" not in json.loads(content)

    def test_about_what_it_may_not_read_it_may_not(self, node: Node) -> None:
        wire = allow(node, Plant=self.READER)

        def refused(name: str) -> tuple[int, str]:
            return 403, f"Unauthorized access to resource (needs the right to read {name})"

        assert self.query(wire, conditions=[{"attribute": "pin", "value": "pin of fern"}]) == refused("Plant.pin")
        assert self.query(wire, conditions=[{"attribute": "name", "value": "fern"}], sort={"attribute": "pin"}) == refused("Plant.pin")
        assert self.query(wire, conditions=[{"attribute": ["bed", "name"], "value": "north"}]) == refused("bed")
        assert self.query(wire, conditions=[{"attribute": "nothing", "value": 1}]) == refused("Plant.nothing"), "nor learn which there are"
        assert self.query(wire, aggregate={"facet": "pin"}) == refused("Plant.pin")

    def test_and_not_without_the_right_to_read(self, node: Node) -> None:
        writer = {"insert": True, "update": True, "attribute_permissions": attributes(name="iu")}
        assert self.query(allow(node, Plant=writer), conditions=[])[0] == 403


ANYTHING: list[tuple[str, str, bytes]] = [
    ("GET", "", b""),
    ("GET", "/", b""),
    ("GET", ".csv", b""),
    ("GET", "/1", b""),
    ("GET", "/abc", b""),
    ("GET", "/abc.name", b""),
    ("GET", "/abc.csv", b""),
    ("GET", "/a//b", b""),
    ("GET", "/%zz", b""),
    ("GET", f"/{'k' * 3000}", b""),
    ("GET", "/?name=x", b""),
    ("GET", "/?nothing=x", b""),
    ("GET", "/?((", b""),
    ("HEAD", "/abc", b""),
    ("PUT", "/1", b"{}"),
    ("PUT", "/abc", b"{}"),
    ("PUT", "/abc", b"{"),
    ("PUT", "/abc?x=1", b"{}"),
    ("PUT", "/abc.name", b"1"),
    ("PUT", "/1/name", b'"x"'),
    ("PUT", "/abc/name", b"{"),
    ("PUT", "/", b"[{}]"),
    ("PUT", "/", b""),
    ("PUT", "/a/", b"{}"),
    ("PATCH", "/abc", b'{"nothing": 1}'),
    ("PATCH", "/", b"{}"),
    ("POST", "/", b"{"),
    ("POST", "/", b'{"id": "abc"}'),
    ("POST", "/abc", b"{}"),
    ("DELETE", "/abc", b""),
    ("DELETE", "/1", b""),
    ("DELETE", "", b""),
    ("DELETE", "/?nothing=1", b""),
    ("QUERY", "/", b"{}"),
    ("QUERY", "/", b"x"),
    ("QUERY", "/?a=1", b"{}"),
    ("QUERY", "/abc", b"{}"),
    ("COPY", "/abc", b""),
    ("TRACE", "/abc", b""),
]


@pytest.mark.parametrize("fields", [{}, {"Accept": "image/png"}, {"Content-Type": "application/merge-patch+json"}, {"If-Match": '"x"'}])
@pytest.mark.parametrize("who", ["nobody", "a role without rights"])
def test_who_may_do_nothing_learns_nothing(node: Node, who: str, fields: dict[str, str]) -> None:
    """Neither the type of the key, nor whether a record is there, nor what the table is called inside."""
    allow(node, Text={"read": True})
    if who == "nobody":
        node.as_user(None)
    expected = 401 if who == "nobody" else 403
    for method, rest, body in ANYTHING:
        answers = set()
        for table in ("Number", "Plant", "Bed"):
            status, _, answer = node.connect().ask(method, f"/{table}{rest}", body, fields)
            answers.add((status, answer))
            assert status == expected, (method, table, rest, answer)
        assert len(answers) == 1, answers


def test_the_same_before_the_body_has_come(node: Node) -> None:
    allow(node)
    for method, target in (
        ("PUT", "/Number/abc"),
        ("PUT", "/Number//x"),
        ("QUERY", "/Number/"),
        ("POST", "/Number/abc"),
        ("PUT", "/Number/a?b"),
    ):
        wire = node.connect()
        wire.send(f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n".encode())
        assert wire.sock.sent.startswith(b"HTTP/1.1 403 "), (method, target, wire.sock.sent[:200])


def test_hidden_attributes_are_absent(node: Node) -> None:
    wire = allow(node, Plant={"read": True, "attribute_permissions": attributes(name="r")})
    assert value(wire, "GET", "/Plant/fern.name") == (200, "fern")
    for name in ("pin", "bed", "nothing"):
        assert value(wire, "GET", f"/Plant/fern.{name}") == (404, "Record not found"), name
        assert value(wire, "GET", f"/Plant/fern/{name}") == (404, "Record not found"), name
        assert value(wire, "GET", f"/Plant/fern.{name}.json") == (404, "Record not found"), name


class TestPut:
    """PUT replaces what its role may update, and keeps the rest, required or not."""

    WRITER: ClassVar[dict[str, Any]] = {
        "read": True, "insert": True, "update": True, "attribute_permissions": attributes(name="riu", pin="ri"),
    }  # fmt: skip
    FERN: ClassVar[dict[str, Any]] = {"name": "fern", "note": "n", "pin": "pin of fern", "bedId": "b", "id": "fern"}

    def stored(self, node: Node, key: str) -> Any:
        raw = node.store.databases["data"].tables["Plant"].get_raw(key)
        return None if raw is None else decode(raw)

    def test_a_required_attribute_that_may_not_be_updated_is_kept(self, node: Node) -> None:
        wire = allow(node, Plant=self.WRITER)
        assert value(wire, "PUT", "/Plant/fern", {"name": "new"}) == (204, None)
        assert self.stored(node, "fern") == self.FERN | {"name": "new"}
        assert value(wire, "PUT", "/Plant/", [{"id": "fern", "name": "newer"}]) == (204, None)
        assert self.stored(node, "fern") == self.FERN | {"name": "newer"}

    def test_sending_it_is_refused(self, node: Node) -> None:
        wire = allow(node, Plant=self.WRITER)
        for body in ({"name": "new", "pin": "mine"}, {"name": "new", "pin": "pin of fern"}, {"name": "new", "note": "n"}):
            assert value(wire, "PUT", "/Plant/fern", body)[0] == 403
            assert value(wire, "PUT", "/Plant/", [{"id": "fern", **body}])[0] == 403
        assert self.stored(node, "fern") == self.FERN

    @pytest.mark.parametrize("number", [3, 200], ids=["in one turn", "in slices"])
    def test_the_element_of_a_list_is_named(self, node: Node, number: int) -> None:
        def refused(method: str, records: list[dict[str, Any]], role: dict[str, Any]) -> tuple[str, dict[str, Any]]:
            status, _, content = allow(node, Plant=role).ask(method, "/Plant/", json.dumps(records).encode())
            problem = json.loads(content)
            assert status == 403 and len(problem["faults"]) == 1
            return problem["detail"], problem["faults"][0]

        new = [{"id": f"n{at}", "name": "new", "pin": "p"} for at in range(number)]
        detail, fault = refused("POST", [*new[:2], new[2] | {"note": "n"}, *new[3:]], self.WRITER)
        assert detail.endswith('(needs the right to insert Plant.note) ("n2", element 2)')
        assert (fault["index"], fault["key"], fault["attribute"], fault["right"]) == (2, "n2", "note", "insert")
        detail, fault = refused("PUT", [new[0], {"id": "fern", "pin": "mine"}, *new[2:]], self.WRITER)  # decided in the transaction
        assert (fault["index"], fault["key"], fault["attribute"], fault["right"]) == (1, "fern", "pin", "update")
        detail, fault = refused("PUT", [*new[:2], {"id": "fern"}, *new[3:]], {"insert": True, "read": True})
        assert (fault["index"], fault["right"], fault["resource"]) == (2, "update", "Plant")
        assert self.stored(node, "n0") is None and self.stored(node, "fern") == self.FERN

    def test_a_new_record_needs_it(self, node: Node) -> None:
        wire = allow(node, Plant=self.WRITER)
        status, detail = value(wire, "PUT", "/Plant/new", {"name": "new"})
        assert status == 400 and "pin" in detail
        assert value(wire, "PUT", "/Plant/", [{"id": "fern", "name": "new"}, {"id": "new", "name": "new"}])[0] == 400
        assert self.stored(node, "new") is None and self.stored(node, "fern") == self.FERN
        assert value(wire, "PUT", "/Plant/new", {"name": "new", "pin": "p"}) == (204, None)
        assert self.stored(node, "new") == {"name": "new", "pin": "p", "id": "new"}

    def test_what_it_may_update_has_to_be_given(self, node: Node) -> None:
        wire = allow(node, Plant=self.WRITER)
        status, detail = value(wire, "PUT", "/Plant/fern", {})
        assert status == 400 and "name" in detail
        assert self.stored(node, "fern") == self.FERN


@pytest.mark.parametrize("target", ["/Number/abc", "/Number/%zz", "/Number//x", "/Number/1", "/Number/", "/Number/abc.csv"])
@pytest.mark.parametrize("fields", [[], [("accept", "image/png")]])
def test_the_same_for_web_sockets(node: Node, target: str, fields: list[tuple[str, str]]) -> None:
    role = Role("r", "r", {"data": {"tables": {"Text": {**NOTHING, "read": True}}}}, databases=node.store.databases)
    sockets = ResourceSockets(node.resources, node.types, node._loop, lambda error: None)
    for user, expected in ((None, 401), (User("ann", True, role), 403)):
        request = Request("GET", target, HeaderBlock([("host", "localhost"), *fields]), b"")
        request.user = user
        with pytest.raises(AccessViolation) as caught:
            sockets.find(request)
        assert caught.value.status_code == expected
