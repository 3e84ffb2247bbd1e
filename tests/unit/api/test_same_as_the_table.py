"""Handlers that only call `super()` answer as the table itself does, whoever asks and whatever is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from tests.support.application import ADMIN, Application, application
from tests.unit.api.test_styles import STYLES, as_async

SCHEMA = """
type Seat @table @export { id: ID @primaryKey stock: Int price: Float @indexed lastBuyer: String place: Any showId: ID @indexed
  show: Show @relationship(from: "showId") updated: Float @updatedTime }
type Show @table @export { id: ID @primaryKey title: String @indexed secret: String seats: [Seat] @relationship(to: "showId") }
"""

PLAIN = STYLES
for named in ("instance", "target", "class"):
    PLAIN = PLAIN.replace(f'{{**data, "lastBuyer": "{named}"}}', "data")

REQUESTS: list[tuple[str, str, Any, dict[str, str]]] = [
    ("GET", "/a", None, {}),
    ("HEAD", "/a", None, {}),
    ("GET", "/none", None, {}),
    ("GET", "", None, {}),
    ("GET", "/", None, {}),
    ("GET", "/a?select(id,price)", None, {}),
    ("GET", "/a?select(id,show{title,secret})", None, {}),
    ("GET", "/a.price", None, {}),
    ("GET", "/a.stock", None, {}),
    ("GET", "/a.csv", None, {}),
    ("GET", "/a", None, {"Accept": "application/cbor"}),
    ("GET", "/a", None, {"Accept": "application/pdf"}),
    ("GET", "/a", None, {"If-None-Match": "*"}),
    ("GET", "/?price=gt=1&sort(-price)&limit(2)", None, {}),
    ("GET", "/?price=gt=1&select(price)", None, {}),
    ("GET", "/?show.title=Faust&select(id)", None, {}),
    ("GET", "/?show.secret=x", None, {}),
    ("GET", "/?count()", None, {}),
    ("GET", "/?stock=1", None, {}),
    ("GET", "/?nothing=1", None, {}),
    ("GET", "/?price=gt=", None, {}),
    ("GET", "/?price=gt=1", None, {"Prefer": "explain"}),
    ("QUERY", "/", {"conditions": [{"attribute": "price", "comparator": "greater_than", "value": 1}]}, {}),
    ("PUT", "/a", {"stock": 5}, {}),
    ("PUT", "/a", {"price": 5}, {}),
    ("PUT", "/new", {"stock": 5}, {}),
    ("PUT", "/new", {"price": 5}, {}),
    ("PUT", "/a", {"stock": "x"}, {}),
    ("PUT", "/a", {"stock": 5}, {"If-Match": '"x"'}),
    ("PUT", "/a", {"stock": 5}, {"If-None-Match": "*"}),
    ("PUT", "/a", 5, {}),
    ("PUT", "/", [{"id": "x", "stock": 1}, {"id": "y", "stock": 2}], {}),
    ("PUT", "/", [{"id": "x", "stock": 1}, {"stock": 2}], {}),
    ("PUT", "/", {"id": "x", "stock": 1}, {}),
    ("PUT", "/a?price=1", {"stock": 5}, {}),
    ("PATCH", "/a", {"stock": 6}, {}),
    ("PATCH", "/a", {"price": 6}, {}),
    ("PATCH", "/a", {"stock": {"__op__": "add", "value": 3}}, {}),
    ("PATCH", "/none", {"stock": 6}, {}),
    ("PATCH", "/a", [1], {}),
    ("POST", "/", {"id": "n1", "stock": 6}, {}),
    ("POST", "/", {"id": "a", "stock": 6}, {}),
    ("POST", "/", {"id": "n1", "price": 6}, {}),
    ("POST", "/", [{"id": "n1", "stock": 6}, {"id": "n2", "stock": 7}], {}),
    ("POST", "/", [{"id": "n1", "stock": 6}, 5], {}),
    ("DELETE", "/a", None, {}),
    ("DELETE", "/none", None, {}),
    ("DELETE", "/a", None, {"If-Match": '"x"'}),
    ("DELETE", "/?price=gt=1", None, {}),
    ("DELETE", "/?stock=1", None, {}),
    ("DELETE", "", None, {}),
    ("DELETE", "/", None, {}),
    ("COPY", "/a", None, {}),
]


def callers(app: Application) -> dict[str, User | None]:
    def named(name: str, seat: dict[str, Any] | None) -> User:
        show = {
            "read": True,
            "insert": False,
            "update": False,
            "delete": False,
            "attribute_permissions": [{"attribute_name": "title", "read": True}],
        }
        tables = {} if seat is None else {"Seat": seat, "Show": show}
        return User(name, role=Role(name, name, {"data": {"tables": tables}}, databases=app.node.store.databases))

    whole = {"read": True, "insert": True, "update": True, "delete": True}
    some = [
        {"attribute_name": name, "read": True, "insert": name != "price", "update": name != "price"}
        for name in ("id", "stock", "showId", "show", "price")
    ]
    hidden = [
        {"attribute_name": name, "read": name != "price", "insert": name != "price", "update": name != "price"}
        for name in ("id", "stock", "price")
    ]
    return {
        "super": ADMIN,
        "anonymous": None,
        "nobody": named("nobody", None),
        "all": named("all", {**whole, "attribute_permissions": []}),
        "reader": named("reader", {**whole, "insert": False, "update": False, "delete": False, "attribute_permissions": []}),
        "some": named("some", {**whole, "attribute_permissions": some}),
        "hidden": named("hidden", {**whole, "attribute_permissions": hidden}),
        "inserter": named("inserter", {**whole, "read": False, "update": False, "delete": False, "attribute_permissions": []}),
    }


ANSWER_FIELDS = (
    "content-type",
    "etag",
    "location",
    "x-deleted-count",
    "www-authenticate",
    "vary",
    "cache-control",
    "content-length",
)


START: dict[str, list[dict[str, Any]]] = {
    "Seat": [
        {"id": "a", "stock": 1, "price": 2, "lastBuyer": "x", "place": {"row": 1}, "showId": "f"},
        {"id": "b", "stock": 2, "price": 3},
        {"id": "c", "stock": 3, "price": 0.5},
    ],
    "Show": [{"id": "f", "title": "Faust", "secret": "x"}],
}


def whole_of(app: Application) -> dict[str, Any]:
    return {table: app.ask("GET", f"/{table}/?sort(id)&select({','.join(records[0])})")[1] for table, records in START.items()}


def ask(app: Application, caller: User | None, name: str, request: tuple[str, str, Any, dict[str, str]]) -> Any:
    """What is answered, and what is stored afterwards."""
    node = app.node
    node.as_user(ADMIN)
    if whole_of(app) != START:  # most requests change nothing
        for table, records in START.items():
            app.ask("DELETE", f"/{table}/?id=ne=null")
            for record in records:
                app.ask("PUT", f"/{table}/{record['id']}", record)
        assert whole_of(app) == START
    node.as_user(caller)
    method, path, data, fields = request
    status, answered, body = app.answer(method, f"/{name}{path}", data, **fields)
    shown = {field: answered[field].replace(f"/{name}", "") for field in ANSWER_FIELDS if field in answered}
    node.as_user(ADMIN)
    _, stored = app.ask("GET", "/Seat/?sort(id)&select(id,stock,price,lastBuyer,place,showId)")
    text = repr(body).replace(f"The {name} ", "The Seat ").replace(f"/{name}", "/Seat")
    for field in ("etag", "content-length"):  # versions differ, and names have different lengths
        if field in shown:
            shown[field] = ""
    if "updated" in text or "auditSize" in text:
        text = ""
    return status, shown, text, stored


@pytest.mark.parametrize("code", [PLAIN, as_async(PLAIN)], ids=["plain", "async"])
@pytest.mark.parametrize("caller", ["super", "anonymous", "nobody", "all", "reader", "some", "hidden", "inserter"])
def test_every_style_answers_as_the_table(tmp_path: Path, caller: str, code: str) -> None:
    with application(tmp_path, code, SCHEMA) as app:
        user = callers(app)[caller]
        different = []
        for request in REQUESTS:
            expected = ask(app, user, "Seat", request)
            for name in ("Instance", "Target", "Class"):
                found = ask(app, user, name, request)
                if found != expected:
                    different.append(f"{request}\n  table: {expected}\n  {name}: {found}")
        assert not different, "\n".join(different)
        assert app.errors == []


def test_a_right_of_a_class_opens_its_table_and_no_other(tmp_path: Path) -> None:
    code = """
    from svc import tables

    class Open(tables.Seat):
        def allow_read(self, user, target):
            return True

    class Own(Open):
        def get(self, query=None):
            return super().get(query)

    class Async(Open):
        async def allow_read(self, user, target):
            return True
        @classmethod
        async def get(cls, target):
            return await super().get(target)

    class Told(Open):
        def get(self, query=None):
            return query
    """
    with application(tmp_path, code, SCHEMA) as app:
        app.ask("PUT", "/Show/f", {"title": "Faust", "secret": "x"})
        app.ask("PUT", "/Seat/a", {"stock": 1, "price": 2, "showId": "f"})
        clerk = callers(app)["some"]  # may read the titles of shows
        for name in ("Open", "Own", "Async"):
            for user, shown in ((None, {"id": "a"}), (clerk, {"id": "a", "show": {"title": "Faust"}})):
                app.node.as_user(user)
                for address in ("/a?", "/?price=2&"):
                    status, found = app.ask("GET", f"/{name}{address}select(id,show{{title,secret}})")
                    assert (status, found if isinstance(found, dict) else found[0]) == (200, shown), (name, user, address)
                assert app.ask("GET", f"/{name}/?show.secret=x&select(id)")[0] in (401, 403)
                assert app.ask("GET", f"/{name}/?price=2&sort(show.secret)")[0] in (401, 403)
                assert app.ask("GET", f"/{name}/?price=2&select(id,price)") == (200, [{"id": "a", "price": 2}])
                assert app.ask("GET", f"/{name}/?stock=1")[0] == 400, "not indexed, as without code"
                assert app.ask("GET", f"/{name}/a.price") == (200, 2)
        app.node.as_user(None)
        assert app.ask("GET", "/Told/a?x=1") == (200, "/a?x=1")


def test_events_of_a_class_with_a_right_of_its_own_show_no_other_table(tmp_path: Path) -> None:
    code = """
    from svc import tables

    class Open(tables.Seat):
        def allow_read(self, user, target):
            return True

    class Own(Open):
        async def connect(self, incoming=None, query=None):
            async for event in self.subscribe(query):
                yield event
    """
    with application(tmp_path, code, SCHEMA) as app:
        app.ask("PUT", "/Show/f", {"title": "Faust", "secret": "hidden"})
        app.ask("PUT", "/Seat/a", {"stock": 1, "price": 2, "showId": "f"})
        for user, sees_title in ((None, False), (callers(app)["some"], True)):  # who may read the titles of shows
            app.node.as_user(user)
            for target in ("/Open/a?", "/Open/?", "/Own/a?", "/Open/?live()&price=2&"):
                wire = app.node.connect()
                request = f"GET {target}select(id,show{{title,secret}}) HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
                answer = wire.send(request.encode())
                assert answer[9:12] == b"200" and b'"a"' in answer, (target, answer)
                assert b"hidden" not in answer and (b"Faust" in answer) is sees_title, (target, answer)
                wire.sock.incoming.append(ConnectionResetError())
                wire._loop.readers[wire.sock]()
                app.node.settle()
            refused = app.node.connect().send(b"GET /Open/?show.secret=x HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
            assert refused[9:12] in (b"401", b"403")
