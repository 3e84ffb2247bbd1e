"""svc.api.served: parts of records, raised responses, new keys: the same for plain and async handlers, through REST."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.application import ADMIN, Application, application, user_named

SCHEMA = """
type Product @table {
  id: ID @primaryKey  name: String @indexed  stock: Int  note: String  brandId: ID  brand: Brand @relationship(from: "brandId")
}
type Brand @table @export { id: ID @primaryKey  name: String }
type Number @table @export { id: Int @primaryKey  text: String }
type Counted @table { id: ID @primaryKey  n: Int  twice: Int @computed(from: "n * 2") @enumerable }
"""

RESOURCES = """
import asyncio, math
from svc import Abort, Response, get_context

class Product(tables.Product):
    def get(self, query=None):
        self.soldOut = self.stock == 0
        return super().get(query)

class Counted(tables.Product):
    def get(self, query=None):
        self.calls = 7
        get_context().last_modified = math.inf
        return super().get(query)

class Opened(tables.Product):
    def allow_read(self, user, target):
        return user is not None and user.username == "guest"

class OpenedLater(tables.Product):
    async def allow_read(self, user, target):
        await asyncio.sleep(0)
        return user is not None and user.username == "guest"

class Later(tables.Product):
    async def get(self, query=None):
        return super().get(query)

class Copied(tables.Product):
    @classmethod
    async def get(cls, target):
        record = await super().get(target.id)
        return None if record is None else {**record, "stock": -1}

class Other(Resource):
    def get(self, query=None):
        return tables.Counted.get("c")

class Stopped(Resource):
    def put(self, data, query=None):
        tables.Brand.put({"id": "b", "name": "Bee"}).run()
        raise Abort(Response(status=409, data={"reason": data["reason"]}))

    async def post(self, data, query=None):
        await tables.Brand.put({"id": "b", "name": "Bee"})
        raise Abort(Response(status=409, data={"reason": data["reason"]}))

class Note(Resource):
    async def post(self, data, query=None):
        made = await tables.Number.create({"text": "x"})
        return {"id": made.get_id()}
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with application(tmp_path_factory.mktemp("shop"), RESOURCES, SCHEMA) as app:
        assert app.ask("PUT", "/Brand/b1", {"name": "Acme"})[0] == 204
        assert app.ask("PUT", "/Product/p", {"name": "Pen", "stock": 0, "brandId": "b1", "note": None})[0] == 204
        app.run(app.tables.Counted.put({"id": "c", "n": 2}))
        yield app
        assert not app.errors


def got(shop: Application, target: str) -> tuple[int, Any]:
    status, value = shop.ask("GET", target)
    return status, value if status == 200 else value["detail"]


@pytest.mark.parametrize("resource", ["Product", "Later", "Copied"])
def test_a_property_of_a_record_is_its_value_however_the_handler_is_written(shop: Application, resource: str) -> None:
    assert got(shop, f"/{resource}/p.name") == (200, "Pen")
    assert got(shop, f"/{resource}/p/name") == (200, "Pen")
    assert got(shop, f"/{resource}/p.note") == (200, None)
    assert got(shop, f"/{resource}/q.name") == (404, "Record not found")
    assert got(shop, f"/{resource}/q/name") == (404, "Record not found")
    assert got(shop, f"/{resource}/p/nothing") == (404, "Record not found")


def test_a_property_is_what_the_handler_has_made_of_it(shop: Application) -> None:
    assert got(shop, "/Copied/p.stock") == (200, -1)
    assert got(shop, "/Copied/p.brand") == (404, "Record has no such property")
    assert got(shop, "/Product/p.brand") == (200, {"id": "b1", "name": "Acme"})
    assert got(shop, "/Later/p.brand") == (200, {"id": "b1", "name": "Acme"})


def test_a_selection_is_made_of_what_plain_and_async_handlers_return(shop: Application) -> None:
    assert got(shop, "/Product/p?select(name,soldOut)") == (200, {"name": "Pen", "soldOut": True})
    assert got(shop, "/Product/p?select(name,soldOut,brand{name})") == (200, {"name": "Pen", "soldOut": True, "brand": {"name": "Acme"}})
    assert got(shop, "/Product/p?select([soldOut,brand{name},note])") == (200, [True, {"name": "Acme"}, None])
    assert got(shop, "/Product/p?select(soldOut)") == (200, True)
    assert got(shop, "/Product/p?select(nothing,)") == (200, {})
    assert got(shop, "/Later/p?select(name,stock)") == (200, {"name": "Pen", "stock": 0})
    assert got(shop, "/Later/p?select(name,brand{name})") == (200, {"name": "Pen", "brand": {"name": "Acme"}})


def test_null_is_a_value_of_a_selection(shop: Application) -> None:
    for resource in ("Product", "Later"):
        for name in ("note", "nothing"):
            assert got(shop, f"/{resource}/p?select({name})") == (200, None), (resource, name)


def test_entity_tags_are_those_of_the_record_unless_the_answer_has_more(shop: Application) -> None:
    tag = shop.answer("GET", "/Later/p")[1]["etag"]
    assert shop.answer("GET", "/Product/p")[1]["etag"] == tag
    assert shop.answer("GET", "/Product/p", If_None_Match=tag)[0] == 304
    assert "etag" not in shop.answer("GET", "/Product/p?select(name,brand{name})")[1]
    assert "etag" not in shop.answer("GET", "/Counted/p")[1]
    assert shop.answer("GET", "/Counted/p", If_None_Match=tag)[0] == 200


@pytest.mark.parametrize("resource", ["Opened", "OpenedLater"])
def test_a_class_with_rights_alone_answers_as_its_table(shop: Application, resource: str) -> None:
    shop.node.as_user(user_named("guest"))
    try:
        status, fields, value = shop.answer("GET", f"/{resource}/p")
        assert (status, "etag" in fields, value["name"]) == (200, True, "Pen")
        assert got(shop, f"/{resource}/p?select(stock,note)") == (200, {"stock": 0, "note": None})
        assert got(shop, f"/{resource}/?name=Pen&select(name)") == (200, ["Pen"])
        assert got(shop, f"/{resource}/p.stock") == (200, 0)
        assert got(shop, f"/{resource}")[1]["records"] == f"/{resource}/"
        assert shop.ask("PUT", f"/{resource}/p", {})[0] == 403
        shop.node.as_user(user_named("other"))
        assert [shop.ask("GET", f"/{resource}{rest}")[0] for rest in ("/p", "/?name=Pen", "/p.stock", "")] == [403] * 4
        shop.node.as_user(None)
        assert shop.ask("GET", f"/{resource}/p")[0] == 401
    finally:
        shop.node.as_user(ADMIN)


def test_a_record_of_another_table_has_its_computed_attributes_whatever_the_query_is(shop: Application) -> None:
    whole = {"id": "c", "n": 2, "twice": 4}
    assert got(shop, "/Other/") == (200, whole)
    assert got(shop, "/Other/p?select(n)") == (200, whole)


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_response_that_is_raised_has_its_data_and_undoes_the_writes(shop: Application, method: str) -> None:
    status, fields, value = shop.answer(method, "/Stopped/1", {"reason": "no"})
    assert (status, value) == (409, {"reason": "no"})
    assert fields["content-type"] == "application/json"
    assert got(shop, "/Brand/b")[0] == 404


def test_new_records_of_a_table_with_numbers_as_keys(shop: Application) -> None:
    status, fields, value = shop.answer("POST", "/Note", {})
    assert (status, "location" in fields) == (200, False)  # what was created is of another table
    assert got(shop, f"/Number/{value['id']}") == (200, {"id": value["id"], "text": "x"})


def test_bodies_that_cannot_be_sent_are_a_defect_and_not_a_broken_connection(tmp_path: Path) -> None:
    code = """
    from svc import Response
    class Made(tables.Seat):
        def get(self, query):
            return {
                "mapping": lambda: Response({"a": 1}),
                "list": lambda: Response(["a"]),
                "number": lambda: Response(5),
                "record": lambda: Response(self),
                "status": lambda: Response("a", status=999),
                "text": lambda: Response("a"),
                "pieces": lambda: Response(iter([b"a", b"b"])),
            }[query.get("way")]()
    """
    with application(tmp_path, code) as app:
        for way in ("mapping", "list", "number", "record", "status"):
            assert app.ask("GET", f"/Made/x?way={way}")[0] == 500, way
        assert len(app.errors) == 5
        assert app.ask("GET", "/Made/x?way=text") == (200, b"a")
        assert app.ask("GET", "/Made/x?way=pieces") == (200, b"ab")


def test_a_record_inside_an_answer_is_its_properties(tmp_path: Path) -> None:
    code = """
    class Inside(tables.Seat):
        def get(self):
            self.more = 1
            return {"self": self, "list": [self]}
    """
    with application(tmp_path, code) as app:
        app.run(app.tables.Seat.put("a", {"stock": 1}))
        record = {"id": "a", "stock": 1, "more": 1}
        assert app.ask("GET", "/Inside/a") == (200, {"self": record, "list": [record]})
