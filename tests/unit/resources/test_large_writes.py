"""svc.resources.table_writing: arrays of records and DELETE of collections, which take longer than a turn, as clients see them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.auth.users import Role, User
from svc.store.writing import writer_queue
from tests.support.fakes import TickingClock
from tests.support.node import Node, Wire

LIMIT = 60.0  # seconds until a test gives up

SCHEMA = """
type Note @table @export { id: ID @primaryKey  n: Int @indexed  text: String  secret: String }
type Paper @table @export { id: ID @primaryKey  content: Blob }
type Count @table @export { id: Int @primaryKey  n: Int }
"""


class Client:
    """A connection whose answers come when the node gets to them."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.wire = Wire(node)

    def send(self, method: str, target: str, body: object = None, content_type: str = "application/json") -> None:
        """Send a request. Nothing else happens yet."""
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = f"Content-Type: {content_type}\r\n" if content_type else ""
        head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n{kind}Content-Length: {len(content)}\r\n\r\n"
        self.wire.sock.sent = b""
        self.wire.sock.incoming.append(head.encode() + content)
        self.node.connections.loop.readers[self.wire.sock]()  # type: ignore[attr-defined]

    def answer(self) -> tuple[int, dict[str, str], Any] | None:
        """(status, fields, value), None while there is none."""
        head, found, body = self.wire.sock.sent.partition(b"\r\n\r\n")
        if not found:
            return None
        status_line, *lines = head.decode("latin-1").split("\r\n")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        if fields.get("transfer-encoding") == "chunked":
            if not body.endswith(b"0\r\n\r\n"):
                return None
            pieces = body.split(b"\r\n")
            body = b"".join(pieces[1:-2:2])  # no value of these tests has a line's end in it
        return int(status_line.split(" ")[1]), fields, json.loads(body) if body else None

    def ask(self, method: str, target: str, body: object = None, content_type: str = "application/json") -> tuple[int, dict[str, str], Any]:
        self.send(method, target, body, content_type)
        deadline = time.monotonic() + LIMIT
        while (answer := self.answer()) is None:
            assert time.monotonic() < deadline, "no answer"
            if not self.node.turn():
                time.sleep(0.001)  # files of blobs are written on a thread
        return answer

    def go_away(self) -> None:
        self.wire.connection.close_now()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    made = Node(tmp_path / "store", app, TickingClock())
    yield made
    made.close()
    assert not made.errors


@pytest.fixture
def client(node: Node) -> Client:
    return Client(node)


def answered(client: Client) -> tuple[int, dict[str, str], Any]:
    answer = client.answer()
    assert answer is not None
    return answer


def notes(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"id": f"n{number:03}", "n": number, **more} for number in range(count)]


def count(client: Client, query: str = "") -> int:
    status, _, found = client.ask("GET", f"/Note/?{query}")
    assert status == 200
    return len(found)


@pytest.mark.parametrize("number", [0, 1, 50, 51, 300])
def test_arrays_of_any_length(client: Client, number: int) -> None:
    assert client.ask("PUT", "/Note/", notes(number))[0] == 204
    assert count(client) == number
    created = client.ask("POST", "/Note/", [{"n": n} for n in range(number)])
    assert created[0] == 201 and len(set(created[2])) == number
    assert count(client) == 2 * number
    client.node.store.check()


@pytest.mark.parametrize("number", [1, 50, 51, 2000])
def test_numbers_for_keys(client: Client, number: int) -> None:
    """Blocks of an `Int` sequence have 1024 numbers."""
    status, _, keys = client.ask("POST", "/Count/", [{"n": n} if n % 5 else {"n": n, "id": -n - 1} for n in range(number)])
    given = [-n - 1 for n in range(0, number, 5)]
    made = [key for key in keys if key > 0]
    assert status == 201 and [key for key in keys if key < 0] == given and len(set(keys)) == number
    next_key = client.ask("POST", "/Count/", {"n": 0})[2]
    assert next_key not in keys
    if 0 < len(made) < 1000:
        assert [*made, next_key] == list(range(made[0], made[0] + len(made) + 1)), "in ascending order, none left out"
    client.node.store.check()


@pytest.mark.parametrize("number", [3, 300])
@pytest.mark.parametrize(
    ("method", "last", "status", "detail"),
    [
        ("POST", {"id": "n000", "n": 0}, 409, "Record already exists"),
        ("POST", {"id": "x", "n": "many"}, 400, "n"),
        ("POST", [1], 400, "is not an object"),
        ("PUT", {"n": 0}, 400, "has no id"),
        ("PUT", {"id": "x", "n": "many"}, 400, "n"),
        ("PUT", "text", 400, "is not an object"),
        ("PUT", {"id": None, "n": 0}, 400, ""),
    ],
)
def test_a_fault_anywhere_leaves_nothing(client: Client, number: int, method: str, last: object, status: int, detail: str) -> None:
    answer = client.ask(method, "/Note/", [*notes(number), last])
    assert answer[0] == status and detail in answer[2]["error"]
    assert count(client) == 0
    assert client.ask("PUT", "/Note/a", {"n": 1})[0] == 204
    client.node.store.check()


@pytest.mark.parametrize("number", [3, 60, 900])
def test_a_delete_tells_how_many(client: Client, number: int) -> None:
    client.ask("PUT", "/Note/", notes(number))
    keep = number // 3
    status, fields, _ = client.ask("DELETE", f"/Note/?n=ge={keep}")
    assert (status, fields["x-deleted-count"]) == (204, str(number - keep))
    assert count(client) == keep
    assert client.ask("DELETE", "/Note/?n=ge=5000")[1]["x-deleted-count"] == "0"
    assert client.ask("DELETE", "/Note/?limit(2)")[1]["x-deleted-count"] == str(min(keep, 2))
    assert client.ask("DELETE", "/Note/")[1]["x-deleted-count"] == str(max(keep - 2, 0))
    assert "x-deleted-count" not in client.ask("DELETE", "/Note/n000")[1]
    assert count(client) == 0
    client.node.store.check()


@pytest.mark.parametrize("query", ["select(n)", "count()", "facet(n)"])
def test_a_delete_takes_nothing_that_shapes(client: Client, query: str) -> None:
    client.ask("PUT", "/Note/", notes(3))
    assert client.ask("DELETE", f"/Note/?{query}")[0] == 400
    assert count(client) == 3


def test_long_keys_are_deleted_too(client: Client) -> None:
    keys = [f"{number:03}" + "k" * 600 for number in range(100)]  # stored by their beginning and a hash
    client.ask("PUT", "/Note/", [{"id": key, "n": 1} for key in keys])
    assert client.ask("DELETE", "/Note/?n=1")[1]["x-deleted-count"] == "100"
    assert count(client) == 0
    client.node.store.check()


def test_long_bodies_are_decoded_in_slices(client: Client) -> None:
    records = notes(2000, text="},{" + "x" * 100)
    body = json.dumps(records).encode()
    assert client.ask("PUT", "/Note/", body)[0] == 204
    assert client.ask("GET", "/Note/n123")[2] == records[123]
    status, _, problem = client.ask("PUT", "/Note/", body[:-1])
    assert status == 400 and "Invalid JSON" in problem["error"]
    assert client.ask("PUT", "/Note/", b'[{"id": "a", "n": 1}' + b" " * 200_000 + b"]")[0] == 204
    assert count(client) == 2001
    csv = b"id,n,text\r\n" + b"".join(b"c%d,%d,%s\r\n" % (number, number, b"y" * 100) for number in range(2000))
    assert client.ask("PUT", "/Note/", csv, "text/csv")[0] == 204
    assert client.ask("GET", "/Note/c7")[2] == {"id": "c7", "n": 7, "text": "y" * 100}
    assert client.ask("PUT", "/Note/", body, "")[0] == 204, "what parses as JSON is JSON"
    assert client.ask("PUT", "/Note/raw", b"{" * 200_000, "")[0] == 204, "and what does not is content"
    client.node.store.check()


def test_a_large_record_is_committed_beside_the_turn(client: Client) -> None:
    assert client.ask("PUT", "/Note/a", {"text": "x" * 300_000})[0] == 204
    assert client.ask("PUT", "/Note/", b"[" + b" " * 300_000 + b"]")[0] == 204
    assert client.ask("PATCH", "/Note/a", {"text": "y" * 300_000})[0] == 204
    assert client.ask("GET", "/Note/a")[2]["text"] == "y" * 300_000
    client.node.store.check()


@pytest.mark.parametrize("number", [1, 60])
def test_blobs_are_saved_before_they_are_committed(node: Node, client: Client, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[int] = []
    monkeypatch.setattr("svc.store.writing.transaction.save_now", lambda blob, files: saved.append(1))  # would hold the loop
    papers = [{"id": f"p{n}", "content": "x" * 12_000} for n in range(number)]
    answer = client.ask("PUT", "/Paper/", papers) if number > 1 else client.ask("PUT", "/Paper/p0", papers[0])
    assert answer[0] == 204 and not saved
    assert client.ask("GET", "/Paper/?count()")[2] == {"count": number}
    node.store.check()


def test_readers_and_writers_beside_a_long_write(node: Node, client: Client) -> None:
    client.ask("PUT", "/Note/", [{"id": "a", "n": 1}])
    client.send("PUT", "/Note/", notes(300))
    while node.store.databases["data"].env._long is None:
        node.turn()
    reader, first, second, posting = (Client(node) for _ in range(4))
    first.send("PUT", "/Note/a", {"n": 2})
    second.send("PATCH", "/Note/n001", {"text": "after"})
    posting.send("POST", "/Count/", {"n": 1})
    waiting = {"long": client, "first": first, "second": second, "posting": posting}
    order: list[str] = []
    reads = 0
    while waiting:
        seen = reader.ask("GET", "/Note/a")[2]["n"]
        assert seen == (1 if "long" in waiting else seen)
        reads += 1
        for name, waits in list(waiting.items()):
            if waits.answer() is not None:
                order.append(name)
                del waiting[name]
    assert order == ["long", "first", "second", "posting"] and reads > 5
    assert [answered(client)[0], answered(first)[0], answered(second)[0], answered(posting)[0]] == [204, 204, 204, 201]
    assert reader.ask("GET", "/Note/n001")[2] == {"id": "n001", "n": 1, "text": "after"}
    node.store.check()


def test_writers_that_would_wait_for_too_long_are_refused(node: Node, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers only, and before anything of theirs is done (spec: http §14)."""
    monkeypatch.setattr(writer_queue, "FIRST_PACE", 1.0)  # seconds for each record
    client.send("PUT", "/Note/", notes(300))
    while node.store.databases["data"].env._long is None:
        node.turn()
    other = Client(node)
    for method, target, body in (
        ("PUT", "/Note/a", {"n": 1}),
        ("POST", "/Count/", {"n": 1}),
        ("PUT", "/Note/", notes(300)),
        ("DELETE", "/Note/a", None),
    ):
        status, fields, problem = other.ask(method, target, body)
        assert (status, fields["retry-after"], problem["code"], problem["retryable"]) == (503, "1", "OVERLOADED", True)
        assert problem["detail"] == "Service unavailable, exceeded request queue limit"
    assert other.ask("GET", "/Note/?limit(1)")[0] == 200
    while client.answer() is None:
        node.turn()
    assert answered(client)[0] == 204
    assert other.ask("PUT", "/Note/a", {"n": 1})[0] == 204


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_a_client_that_goes_away_leaves_everything_as_it_was(node: Node, client: Client, method: str) -> None:
    client.ask("PUT", "/Note/", notes(900, text="old"))
    other = Client(node)
    database = node.store.databases["data"]
    for turns in range(40):
        quitter = Client(node)
        if method == "DELETE":
            quitter.send("DELETE", "/Note/?n=ge=0")
        else:
            quitter.send(method, "/Note/", notes(900, text="new") if method == "PUT" else [{"n": -1} for _ in range(900)])
        for _ in range(turns):
            node.turn()
        quitter.go_away()
        for _ in range(5):
            node.turn()
        assert database.env.holder is None and database.env.open_snapshots() == 0
    assert other.ask("PUT", "/Note/b", {"n": 5000})[0] == 204
    found = client.ask("GET", "/Note/")[2]
    assert sum(record.get("text") == "old" for record in found) == 900 and len(found) == 901
    node.store.check()


def test_a_write_that_takes_longer_than_a_request_may_is_undone(node: Node, client: Client) -> None:
    client.send("PUT", "/Note/", notes(900))
    while node.store.databases["data"].env._long is None:
        node.turn()
    client.wire.connection.on_deadline()
    node.turn()
    assert answered(client)[0] == 503
    for _ in range(5):
        node.turn()
    assert node.store.databases["data"].env.holder is None
    assert count(client) == 0


def test_a_role_without_some_attributes(node: Node, client: Client) -> None:
    client.ask("PUT", "/Note/", notes(60, secret="kept"))
    attributes = [
        {"attribute_name": name, "read": True, "insert": name != "secret", "update": name != "secret"} for name in ("id", "n", "secret")
    ]
    permission = {
        "data": {"tables": {"Note": {"read": True, "insert": True, "update": True, "delete": True, "attribute_permissions": attributes}}}
    }
    node.as_user(User("eve", True, Role("r", "r", permission, None, node.store.databases)))
    assert client.ask("PUT", "/Note/", notes(60, secret="changed"))[0] == 403
    assert client.ask("PUT", "/Note/", [{"id": f"n{n:03}", "n": -n} for n in range(60)])[0] == 204
    found = client.ask("GET", "/Note/")[2]
    assert [record["n"] for record in found] == [-n for n in range(60)] and {record["secret"] for record in found} == {"kept"}
