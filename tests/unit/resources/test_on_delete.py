"""`onDelete:` on every way by which a record is deleted (spec: schema-and-store §4.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import svc.testing

SCHEMA = """
type Customer @table @export { id: ID @primaryKey name: String @indexed }
type Order @table @export {
  id: ID @primaryKey
  customerId: ID @indexed
  customer: Customer @relationship(from: customerId, onDelete: cascade)
}
type Bill @table @export {
  id: ID @primaryKey
  orderId: ID @indexed
  order: Order @relationship(from: orderId, onDelete: restrict)
}
type Copy @table @export {
  id: ID @primaryKey
  customerId: ID @indexed
  customer: Customer @relationship(from: customerId, onDelete: cascade)
}
"""
CODE = """
from svc import Resource, tables

class Source:
    def get(self, id):
        return {"customerId": "c"}
    def delete(self, id):
        raise AssertionError("what a source has is not deleted")

tables.Copy.sourced_from(Source())

class Erase(Resource):
    async def post(self, data, target=None):
        await tables.Order.create({"id": "just made", "customerId": "c"})
        await tables.Customer.delete("c")
        return "done"
"""
CLERK = {"data": {"Customer": {"read": True, "delete": True}}}
BOOK_KEEPER = {"data": {name: {"read": True, "delete": True} for name in ("Customer", "Order", "Bill")}}
VAGUE = "A record cannot be deleted: other records refer to it"
PRECISE = "Order 'o' cannot be deleted: 1 record refers to it by Bill.orderId, such as Bill 'b'"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    directory: Path = tmp_path_factory.mktemp("shop")
    (directory / "config.yaml").write_text(
        "rest: true\ngraphql: {extended: true}\ngraphqlSchema: {files: '*.graphql'}\nresources: {files: '*.py'}\n"
    )
    (directory / "schema.graphql").write_text(SCHEMA)
    (directory / "resources.py").write_text(CODE)
    with svc.testing.app(directory) as app:
        yield app


@pytest.fixture(autouse=True)
def records(shop: Any) -> None:
    for name in ("Bill", "Order", "Customer"):
        shop.delete(f"/{name}/")
    shop.put("/Customer/c", {"name": "x"})
    shop.put("/Order/o", {"customerId": "c"})


def orders(shop: Any) -> list[str]:
    return [order["id"] for order in shop.get("/Order/").json]


def test_requests_operations_documents_and_code(shop: Any) -> None:
    ways: tuple[tuple[str, Callable[[], Any], Any], ...] = (
        ("one record", lambda: shop.delete("/Customer/c", user=CLERK).status, 204),
        ("a query", lambda: shop.delete("/Customer/?name=x", user=CLERK).status, 204),
        ("an operation", lambda: shop.operation("delete", table="Customer", ids=["c"])["deleted_hashes"], ["c"]),
        ("code", lambda: shop.post("/Erase", {}).json, "done"),
        ("a document", lambda: shop.post("/graphql", {"query": 'mutation { delete_Customer(id: "c") }'}).status, 200),
    )
    for name, way, expected in ways:
        shop.put("/Customer/c", {"name": "x"})
        shop.put("/Order/o", {"customerId": "c"})
        assert (name, way(), orders(shop)) == (name, expected, [])


def test_who_may_read_it_learns_what_refers_to_a_record(shop: Any) -> None:
    shop.put("/Bill/b", {"orderId": "o"})
    for user, detail in ((CLERK, VAGUE), (BOOK_KEEPER, PRECISE), ({"data": {**BOOK_KEEPER["data"], "Order": {"read": False}}}, VAGUE)):
        for path in ("/Customer/c", "/Customer/"):
            answer = shop.delete(path, user=user)
            assert (answer.status, answer.json["code"], answer.json["detail"]) == (409, "STILL_REFERENCED", detail)
    answer = shop.post("/graphql", {"query": 'mutation { delete_Customer(id: "c") }'})
    assert answer.json["errors"][0]["message"] == PRECISE and answer.json["errors"][0]["extensions"]["code"] == "STILL_REFERENCED"
    assert orders(shop) == ["o"] and shop.get("/Customer/c").status == 200


def test_copies_of_what_a_source_has_stay(shop: Any) -> None:
    assert shop.get("/Copy/1").json["customerId"] == "c"
    assert shop.delete("/Customer/c").status == 204
    assert shop.get("/Copy/1").json["customerId"] == "c"


def test_events_tell_of_each_record(shop: Any) -> None:
    events = shop.events("/Order/")
    shop.delete("/Customer/c")
    shop.settle()
    assert [(event["type"], event["id"]) for event in events.take()][-1] == ("delete", "o")
    events.close()


def test_a_collection_with_many(shop: Any) -> None:
    shop.post("/Order/", [{"id": f"o{n}", "customerId": "c"} for n in range(300)])
    answer = shop.delete("/Customer/", user=CLERK)
    assert (answer.status, answer.headers["x-deleted-count"]) == (204, "1") and orders(shop) == []
