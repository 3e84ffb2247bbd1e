"""svc.resources.table_writing: what a write decides, it decides by what is there when it is written, not by what its turn began with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from svc.store.values.records import decode
from tests.support.fakes import TickingClock
from tests.support.node import Node

SCHEMA = """
type Product @table @export {
  id: ID @primaryKey
  name: String
  price: Int @indexed
  pin: String!
  brandId: ID @indexed
  brand: Brand @relationship(from: "brandId")
}
type Brand @table @export {
  id: ID @primaryKey
  name: String @indexed
}
type Number @table @export {
  id: Int @primaryKey
  name: String
}
"""
ALL = {"read": True, "insert": True, "update": True, "delete": True}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    made = Node(tmp_path / "store", app, TickingClock())
    assert made.app.status == "healthy", made.app.entries
    yield made
    made.close()
    assert not made.errors


class Turn:
    """Requests of several callers that arrive in one turn, each on a connection of its own. `users`: None is the super user."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.identify = node.dispatcher._identify

    def user(self, may: dict[str, bool] | None = None, **attributes: str) -> User:
        """`may`: rights on the table; `name="ru"`: of those, the attribute may be read and updated. No attributes: all."""
        listed = [
            {"attribute_name": name, "read": "r" in given, "insert": "i" in given, "update": "u" in given}
            for name, given in attributes.items()
        ]
        permission = {"data": {"tables": {"Product": {**(ALL if may is None else may), "attribute_permissions": listed}}}}
        return User("eve", True, Role("r", "r", permission, None, self.node.store.databases))

    def __call__(self, *requests: tuple[User | None, str, str, Any]) -> list[tuple[int, Any]]:
        """(user, method, target, body) -> (status, body of the answer) for each."""
        wires = []
        for user, method, target, body in requests:
            if user is None:
                self.node.dispatcher._identify = self.identify  # type: ignore[method-assign]
            else:
                self.node.as_user(user)
            wire = self.node.connect()
            content = b"" if body is None else json.dumps(body).encode()
            head = (
                f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
            )
            wire.sock.incoming.append(head.encode() + content)
            wire._loop.readers[wire.sock]()
            wires.append(wire)
        self.node.settle()
        answers: list[tuple[int, Any]] = []
        for wire in wires:
            head_, _, content = wire.sock.sent.partition(b"\r\n\r\n")
            answers.append((int(head_.split(b" ")[1]), json.loads(content) if content else None))
            wire.connection.close_now()
        return answers

    def statuses(self, *requests: tuple[User | None, str, str, Any]) -> list[int]:
        return [status for status, _ in self(*requests)]

    def stored(self, key: Any, table: str = "Product") -> dict[str, Any] | None:
        raw = self.node.store.databases["data"].tables[table].get_raw(key)
        self.node.store.end_turn()
        return None if raw is None else decode(raw)

    def ids(self, table: str = "Product") -> list[Any]:
        found = self.node.store.databases["data"].tables[table]
        ids = [found.key_of(raw) for _, raw in found.scan(found.database.snapshot())]
        self.node.store.end_turn()
        return ids


@pytest.fixture
def turn(node: Node) -> Turn:
    turn = Turn(node)
    assert turn.statuses((None, "PUT", "/Product/p1", {"name": "old", "price": 1, "pin": "0000"})) == [204]
    return turn


ADMIN = (None, "PATCH", "/Product/p1", {"pin": "1234"})


@pytest.mark.parametrize("first", ["admin", "eve"])
@pytest.mark.parametrize("number", [1, 60])
def test_a_put_keeps_what_others_of_the_turn_have_written(turn: Turn, first: str, number: int) -> None:
    """One record, or a list that is written over several turns."""
    eve = turn.user(id="riu", name="riu", price="riu", pin="r")
    target: tuple[User | None, str, str, Any] = (eve, "PUT", "/Product/p1", {"name": "new", "price": 2})
    if number > 1:
        others = [{"id": f"q{n}", "name": "old", "pin": "x"} for n in range(number)]
        assert turn.statuses((None, "PUT", "/Product/", others)) == [204]
        target = (
            eve,
            "PUT",
            "/Product/",
            [{"id": "p1", "name": "new", "price": 2}, *({"id": f"q{n}", "name": "new"} for n in range(number))],
        )
    requests = [ADMIN, target] if first == "admin" else [target, ADMIN]
    assert turn.statuses(*requests) == [204, 204]
    assert turn.stored("p1") == {"id": "p1", "name": "new", "price": 2, "pin": "1234"}
    assert number == 1 or turn.stored("q59") == {"id": "q59", "name": "new", "pin": "x"}


def test_a_required_attribute_that_may_not_be_updated_is_kept(turn: Turn) -> None:
    eve = turn.user(id="riu", name="riu", pin="r")
    assert turn.statuses((eve, "PUT", "/Product/p1", {"name": "new"})) == [204]
    assert turn.stored("p1") == {"id": "p1", "name": "new", "price": 1, "pin": "0000"}
    ((status, answer),) = turn((eve, "PUT", "/Product/new", {"name": "new"}))
    assert status == 400 and "pin is required" in answer["detail"]
    assert turn.statuses((eve, "PUT", "/Product/p1", {"name": "new", "pin": "1"})) == [403]
    ((status, answer),) = turn((None, "PUT", "/Product/p1", {"name": "new"}))
    assert status == 400 and "pin is required" in answer["detail"]


def test_whether_there_is_a_record_is_seen_when_it_is_written(turn: Turn) -> None:
    updates, inserts = turn.user({"update": True}), turn.user({"insert": True})
    record = {"name": "n", "pin": "p"}
    # It is gone, or it has come, with another request of the turn.
    assert turn.statuses((None, "DELETE", "/Product/p1", None), (updates, "PUT", "/Product/p1", record)) == [204, 403]
    assert turn.stored("p1") is None
    assert turn.statuses((None, "PUT", "/Product/p1", record), (updates, "PATCH", "/Product/p1", {"name": "x"})) == [204, 204]
    assert turn.stored("p1") == {"id": "p1", "name": "x", "pin": "p"}
    assert turn.statuses((None, "PUT", "/Product/p2", record), (inserts, "PUT", "/Product/p2", {**record, "name": "y"})) == [204, 403]
    assert turn.stored("p2") == {"id": "p2", **record}
    assert turn.statuses((None, "DELETE", "/Product/p2", None), (inserts, "PATCH", "/Product/p2", {"pin": "z"})) == [204, 204]
    assert turn.stored("p2") == {"id": "p2", "pin": "z"}


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_attribute_rights_are_those_for_what_is_found(turn: Turn, method: str) -> None:
    eve = turn.user(id="riu", name="riu", price="i", pin="i")
    record = {"name": "n", "price": 3, "pin": "p"}
    assert turn.statuses((None, "DELETE", "/Product/p1", None), (eve, method, "/Product/p1", record)) == [204, 204]
    assert turn.stored("p1") == {"id": "p1", **record}
    assert turn.statuses((None, "PUT", "/Product/p2", record), (eve, method, "/Product/p2", {**record, "price": 4})) == [204, 403]
    assert turn.stored("p2") == {"id": "p2", **record}
    assert turn.statuses((eve, method, "/Product/p2", {"name": "m"})) == [204]
    assert turn.stored("p2") == {"id": "p2", **record, "name": "m"}


@pytest.mark.parametrize("number", [2, 60])
def test_a_list_that_may_not_be_written_as_a_whole_changes_nothing(turn: Turn, number: int) -> None:
    updates = turn.user({"update": True})
    records = [{"id": "p1", "name": "new", "pin": "p"}] * (number - 1)
    assert turn.statuses((updates, "PUT", "/Product/", records)) == [204]
    assert turn.statuses((updates, "PUT", "/Product/", [*records, {"id": "new", "pin": "p"}])) == [403]
    assert turn.ids() == ["p1"]


@pytest.mark.parametrize("number", [1, 60])
def test_a_delete_spares_what_has_become_another_record(turn: Turn, number: int) -> None:
    records = [{"id": f"q{n:02}", "price": 5, "pin": "x", "brandId": "b"} for n in range(number)]
    assert turn.statuses((None, "PUT", "/Product/", records), (None, "PUT", "/Brand/b", {"name": "B"})) == [204, 204]
    delete = (None, "DELETE", "/Product/?price=5&brand.name=B", None)
    (patched, _), (deleted, _) = turn((None, "PATCH", "/Product/q00", {"price": 6}), delete)
    assert (patched, deleted) == (204, 204)
    assert turn.ids() == ["p1", "q00"]
    # What was written again, and is still found, goes.
    assert turn.statuses((None, "PATCH", "/Product/q00", {"pin": "y"}), (None, "DELETE", "/Product/?price=6", None)) == [204, 204]
    assert turn.ids() == ["p1"]
    assert turn.statuses((None, "PATCH", "/Product/p1", {"pin": "y"}), (None, "DELETE", "/Product/", None)) == [204, 204]
    assert turn.ids() == []


def test_numbers_for_keys_are_given_when_they_are_written(turn: Turn) -> None:
    ((status, first),) = turn((None, "POST", "/Number/", {"name": "first"}))
    assert status == 201 and isinstance(first, int)
    answers = turn(
        (None, "POST", "/Number/", [{"id": first + 1, "name": "a"}, {"name": "b"}]),
        (None, "PUT", f"/Number/{first + 3}", {"name": "c"}),
        (None, "POST", "/Number/", [{"name": "d"}, {"id": first + 5, "name": "e"}, {"name": "f"}]),
    )
    assert answers == [(201, [first + 1, first + 2]), (204, None), (201, [first + 4, first + 5, first + 6])]
    assert [turn.stored(key, "Number") for key in turn.ids("Number")] == [
        {"id": first + number, "name": name} for number, name in enumerate(["first", "a", "b", "c", "d", "e", "f"])
    ]
