"""svc.api.served: what handlers return and raise, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.application import application

CODE = """
import asyncio
import dataclasses
import itertools
import sys
from svc import AccessViolation, ClientError, Resource, Response, ServerError, create_blob, tables

class Status(Exception):
    def __init__(self, status):
        self.status = status
        super().__init__("by its status")

@dataclasses.dataclass
class Point:
    x: int

async def pieces():
    yield b"one,"
    await asyncio.sleep(0)
    yield b"two"

RESULTS = {
    "none": lambda: None,
    "text": lambda: "text",
    "number": lambda: 5,
    "false": lambda: False,
    "list": lambda: [1, {"a": None}],
    "data": lambda: {"status": 400},
    "response": lambda: Response(status=203, data={"a": 1}, headers={"X-A": "b"}),
    "mapping": lambda: {"status": 203, "data": {"a": 1}},
    "with-headers": lambda: {"status": 203, "headers": {"X-A": "b"}, "body": "plain"},
    "body": lambda: Response("body", 201),
    "stream": lambda: Response(pieces(), headers={"Content-Type": "text/plain"}),
    "bytes": lambda: b"\\x00\\x01",
    "blob": lambda: create_blob(b"content", type="text/plain"),
    "raw": lambda: {"contentType": "text/css", "data": "a {}"},
    "raw-charset": lambda: {"contentType": "text/css; charset=latin-1", "data": "\u00e9"},
    "body-charset": lambda: Response("\u00e9", headers={"Content-Type": "text/plain; charset=latin-1"}),
    "body-no-charset": lambda: Response("\u00e9", headers={"Content-Type": "text/plain"}),
    "body-other-charset": lambda: Response("\u20ac", headers={"Content-Type": "text/plain; charset=latin-1"}),
    "point": lambda: Point(3),
    "generator": lambda: (n for n in range(3)),
    "async-generator": lambda: numbers(),
    "awaitable": lambda: asyncio.sleep(0, {"late": True}),
    "record": lambda: tables.Seat.get("a"),
    "records": lambda: tables.Seat.search({}),
    "nested": lambda: nested(),
}

async def numbers():
    for n in range(3):
        yield n
        await asyncio.sleep(0)

async def nested():
    return {"first": await tables.Seat.get("a"), "all": await tables.Seat.search({}).to_list()}

class Result(Resource):
    def allow_read(self, user, target):
        return True
    def get(self, query=None):
        return RESULTS[self.get_id()]()

class Odd(ClientError):
    status_code = 1000

FAULTS = {
    "client": lambda: ClientError("a reason", 422, "ODD"),
    "server": lambda: ServerError("busy", 503),
    "access": lambda: AccessViolation(None),
    "status": lambda: Status(451),
    "foreign-status": lambda: Status(99),
    "no-status": lambda: ClientError("x", 99_999),
    "odd-class": lambda: Odd("x"),
    "split-field": lambda: ClientError("x", headers=(("X-Y", "a\\r\\nSet-Cookie: b"),)),
    "odd-field": lambda: ClientError("x", headers=(("X-Y", "\u2014"),)),
    "odd-message": lambda: ClientError({"a": object()}),
    "odd-code": lambda: ClientError("x", code=object()),
    "key": lambda: KeyError("x"),
    "exit": lambda: SystemExit(0),
    "recursion": lambda: RecursionError(),
    "memory": lambda: MemoryError(),
    "cancelled": lambda: asyncio.CancelledError(),
    "stop": lambda: StopAsyncIteration(),
}

class Fault(Resource):
    def get(self, query=None):
        tables.Seat.put("never", {"stock": 1})
        raise FAULTS[self.get_id()]()

class Late(Resource):
    async def get(self, query=None):
        await tables.Seat.put("never", {"stock": 1})
        await asyncio.sleep(0)
        raise FAULTS[self.get_id()]()

class Wrong(Resource):
    def get(self, query=None):
        return {"object": object(), "class": Wrong, "endless": {"a": itertools.count()}}[self.get_id()]

class Endless(Resource):
    def get(self, query=None):
        return ({"n": n} for n in itertools.count())

class Unfit(Resource):
    def get(self, query=None):
        yield 1
        yield object()

class Deep(Resource):
    def get(self, query=None):
        value = []
        for _ in range(100_000):
            value = [value]
        return value
"""


@pytest.mark.parametrize(
    ("name", "status", "body"),
    [
        ("none", 404, None),
        ("text", 200, "text"),
        ("number", 200, 5),
        ("false", 200, False),
        ("list", 200, [1, {"a": None}]),
        ("data", 200, {"status": 400}),
        ("response", 203, {"a": 1}),
        ("mapping", 203, {"a": 1}),
        ("with-headers", 203, b"plain"),
        ("body", 201, b"body"),
        ("stream", 200, b"one,two"),
        ("bytes", 200, b"\x00\x01"),
        ("blob", 200, b"content"),
        ("raw", 200, b"a {}"),
        ("point", 200, {"x": 3}),
        ("generator", 200, [0, 1, 2]),
        ("async-generator", 200, [0, 1, 2]),
        ("awaitable", 200, {"late": True}),
        ("record", 200, {"id": "a", "stock": 1}),
        ("records", 200, [{"id": "a", "stock": 1}]),
        ("nested", 200, {"first": {"id": "a", "stock": 1}, "all": [{"id": "a", "stock": 1}]}),
    ],
)
def test_results(tmp_path: Path, name: str, status: int, body: object) -> None:
    with application(tmp_path, CODE) as app:
        app.run(app.tables.Seat.put("a", {"stock": 1}))
        answered, _, content = app.answer("GET", f"/Result/{name}")
        assert answered == status
        if body is not None:
            assert content == body
        assert app.errors == []


@pytest.mark.parametrize(
    ("name", "content_type", "body"),
    [
        ("raw", "text/css; charset=utf-8", b"a {}"),
        ("raw-charset", "text/css; charset=latin-1", b"\xe9"),
        ("body-charset", "text/plain; charset=latin-1", b"\xe9"),
        ("body-no-charset", "text/plain", b"\xc3\xa9"),
        ("body-other-charset", "text/plain; charset=utf-8", b"\xe2\x82\xac"),
    ],
)
def test_the_charset_of_a_string(tmp_path: Path, name: str, content_type: str, body: bytes) -> None:
    with application(tmp_path, CODE) as app:
        _, fields, content = app.answer("GET", f"/Result/{name}")
        assert (fields["content-type"], content) == (content_type, body)


@pytest.mark.parametrize("resource", ["Fault", "Late"])
@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        ("client", 422, "ODD"),
        ("server", 503, "SERVICE_UNAVAILABLE"),
        ("access", 401, "UNAUTHENTICATED"),
        ("status", 451, None),
        ("foreign-status", 500, "INTERNAL_SERVER_ERROR"),
        ("no-status", 500, "INTERNAL_SERVER_ERROR"),
        ("odd-class", 500, "INTERNAL_SERVER_ERROR"),
        ("split-field", 500, "INTERNAL_SERVER_ERROR"),
        ("odd-field", 500, "INTERNAL_SERVER_ERROR"),
        ("odd-message", 500, "INTERNAL_SERVER_ERROR"),
        ("odd-code", 500, "INTERNAL_SERVER_ERROR"),
        ("key", 500, "INTERNAL_SERVER_ERROR"),
        ("exit", 500, "INTERNAL_SERVER_ERROR"),
        ("recursion", 500, "INTERNAL_SERVER_ERROR"),
        ("memory", 500, "INTERNAL_SERVER_ERROR"),
        ("cancelled", 500, "INTERNAL_SERVER_ERROR"),
        ("stop", 500, "INTERNAL_SERVER_ERROR"),
    ],
)
def test_exceptions(tmp_path: Path, resource: str, name: str, status: int, code: str | None) -> None:
    with application(tmp_path, CODE) as app:
        answered, problem = app.ask("GET", f"/{resource}/{name}")
        assert (answered, problem["status"]) == (status, status)
        assert code is None or problem["code"] == code
        if status == 500:
            where, error = app.errors.pop()
            assert "answered by" in where and "resources.py:" in where and error is not None
            assert "x" not in problem["detail"].removeprefix("Internal Server Error")
        assert app.errors == [] and app.run(app.tables.Seat.get("never")) is None


@pytest.mark.parametrize("name", ["object", "class", "endless"])
def test_results_that_cannot_be_sent(tmp_path: Path, name: str) -> None:
    with application(tmp_path, CODE) as app:
        assert app.ask("GET", f"/Wrong/{name}")[0] == 500
        where, error = app.errors.pop()
        assert "Wrong.get" in where and isinstance(error, TypeError)


def test_a_value_that_is_nested_too_deep(tmp_path: Path) -> None:
    with application(tmp_path, CODE) as app:
        assert app.ask("GET", "/Deep/")[0] in (406, 500)


def test_an_endless_generator_ends_with_its_client(tmp_path: Path) -> None:
    with application(tmp_path, CODE) as app:
        node = app.node
        wire = node.connect()
        wire.sock.room = 200_000
        wire.sock.incoming.append(b"GET /Endless/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wire._loop.readers[wire.sock]()
        for _ in range(200):
            node.turn()
        assert 100_000 < len(wire.sock.sent) <= 200_000  # held back by the client that does not read
        wire.sock.incoming.append(ConnectionResetError())
        wire._loop.readers[wire.sock]()
        node.settle()
        assert app.ask("GET", "/Result/number") == (200, 5)


def test_an_item_that_cannot_be_sent(tmp_path: Path) -> None:
    with application(tmp_path, CODE) as app:
        status, items = app.ask("GET", "/Unfit/")
        assert status == 200 and items[0] == 1 and "error" in items[1] and len(items) == 2
        ((_, error),) = app.errors
        assert isinstance(error, TypeError) and "GET /Unfit/, answered by Unfit.get" in error.__notes__[0]
        app.errors.clear()


def test_a_handler_that_never_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    code = """
    import asyncio
    from svc import Resource, tables

    class Never(Resource):
        async def get(self, query=None):
            await tables.Seat.put("never", {"stock": 1})
            await asyncio.Event().wait()
    """
    with application(tmp_path, code) as app:
        node = app.node
        wire = node.connect()
        wire.send(b"GET /Never/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for seconds, expected in ((29, 0), (2, 1), (88, 1), (3, 2)):
            node.clock.advance(seconds)
            node.interface.running.sweep(node.clock.monotonic())
            node.settle()
            lines = [record.getMessage() for record in caplog.records if "has not answered" in record.getMessage()]
            assert len(lines) == expected
        assert "Never.get" in lines[0] and "resources.py:8" in lines[0]
        assert b"504" in wire.sock.sent.split(b"\r\n")[0] and b"did not answer within 120 seconds" in wire.sock.sent
        assert app.run(app.tables.Seat.get("never")) is None


WITH_RESPONSE = """
from svc import Resource, get_response, tables

class Marked(tables.Seat):
    def get(self, query=None):
        get_response().headers.set("X-Colour", "blue")
        self.stock = 9
        return super().get(query)

    def post(self, data, query=None):
        get_response().headers.set("X-Colour", "blue")
        return super().post(data, query)

    def delete(self, query=None):
        get_response().headers.set("X-Colour", "blue")
        return super().delete(query)

class Status(Marked):
    def get(self, query=None):
        get_response().status = 202
        return super().get(query)

class Read(tables.Seat):
    load_as_instance = False
    async def get(self, target):
        get_response().status = 202
        return await super().get(target)

class Stream(Resource):
    def get(self, query=None):
        get_response().headers.set("X-Colour", "blue")
        return iter([1, 2])

class Nothing(Resource):
    def get(self, query=None):
        get_response().headers.set("X-Colour", "blue")

class StreamStatus(Resource):
    def get(self, query=None):
        get_response().status = 202
        return iter([1, 2])
"""


def test_what_get_response_is_given_does_not_change_what_is_answered(tmp_path: Path) -> None:
    with application(tmp_path, WITH_RESPONSE) as app:
        app.run(app.tables.Show.put("f", {"title": "Faust"}))
        app.run(app.tables.Seat.put("a", {"stock": 1, "price": 2, "showId": "f"}))
        changed = {
            "": {"id": "a", "stock": 9, "price": 2, "showId": "f"},
            "?select(stock)": 9,
            "?select([id,stock])": ["a", 9],
            ".stock": 9,
        }
        same = {"?select(id,show{title})": {"id": "a", "show": {"title": "Faust"}}, ".price": 2, "?select(price)": 2}
        read = {"": {"id": "a", "stock": 1, "price": 2, "showId": "f"}, "?select(stock)": 1, "?select([id,stock])": ["a", 1], ".stock": 1}
        for name, status, expected in (("Marked", 200, changed | same), ("Status", 202, changed | same), ("Read", 202, read | same)):
            for query, body in expected.items():
                assert app.ask("GET", f"/{name}/a{query}") == (status, body), (name, query)
        for address, status, body in (("/Marked/?price=2", 200, [read[""]]), ("/Stream/", 200, [1, 2]), ("/Marked/a.nothing", 404, None)):
            answered, fields, found = app.answer("GET", address)
            assert (answered, fields["x-colour"]) == (status, "blue") and (body is None or found == body)
        assert app.ask("GET", "/Nothing/")[0] == app.ask("GET", "/Marked/none")[0] == 404
        status, fields, _ = app.answer("POST", "/Marked/", {"stock": 1})
        assert (status, fields["x-colour"], "location" in fields) == (201, "blue", True)
        status, fields, body = app.answer("DELETE", "/Marked/a")
        assert (status, fields["x-colour"], body) == (204, "blue", None)
        status, body = app.ask("GET", "/StreamStatus/")
        assert (status, "get_response" in body["detail"]) == (500, True)
        assert app.errors == []
