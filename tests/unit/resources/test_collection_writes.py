"""Writes to a collection that could be meant otherwise than they would be understood change nothing (spec: http §2.1, §4.2)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import svc.testing

SCHEMA = """
type Plain @table @export { id: ID @primaryKey  name: String @indexed }
type Coded @table { id: ID @primaryKey  name: String @indexed }
type Shown @table @export { id: ID @primaryKey  name: String @indexed  brand: Plain @relationship(from: name) @enumerable }
"""
CODE = """
from svc import Resource, tables

class Coded(tables.Coded):
    def delete(self, target=None):
        return super().delete(target)

class Run(Resource):
    async def post(self, data, target=None):
        return await eval(data["code"], {"tables": tables})

    def delete(self, target=None):
        return True
"""
TABLES = ("Plain", "Coded")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    directory: Path = tmp_path_factory.mktemp("shop")
    (directory / "config.yaml").write_text("rest: true\ngraphqlSchema: {files: '*.graphql'}\nresources: {files: '*.py'}\n")
    (directory / "schema.graphql").write_text(SCHEMA)
    (directory / "resources.py").write_text(CODE)
    with svc.testing.app(directory) as app:
        yield app


@pytest.fixture(autouse=True)
def records(shop: Any) -> None:
    for table in ("Plain", "Coded", "Shown"):
        assert shop.delete(f"/{table}/").status == 204, "the whole collection, without a query"
        assert shop.put(f"/{table}/", [{"id": "1", "name": "a"}, {"id": "2", "name": "b"}]).status == 204


def names(shop: Any, table: str) -> list[str]:
    return [record["name"] for record in shop.get(f"/{table}/").json]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("path", ["/", "/1", "/?name=a", "/1/"])
def test_a_delete_with_a_body(shop: Any, table: str, path: str) -> None:
    for body in (["1"], {"id": "1"}, " "):
        answer = shop.request("DELETE", f"/{table}{path}", data=body if isinstance(body, str) else json.dumps(body))
        assert (answer.status, answer.json["code"]) == (400, "BAD_BODY") and "into the address" in answer.json["detail"]
    assert names(shop, table) == ["a", "b"]


def test_a_delete_with_a_body_of_code_that_is_no_table(shop: Any) -> None:
    assert shop.request("DELETE", "/Run/1", data="[1]").status < 300


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("query", ["?", "?&", "?&&", "?_=123", "?_=1&", "?sort(-name)", "?_sort=name", "?_limit=", "?_select="])
def test_a_delete_with_a_query_without_a_condition(shop: Any, table: str, query: str) -> None:
    answer = shop.delete(f"/{table}/{query}")
    assert (answer.status, answer.json["code"]) == (400, "QUERY_SYNTAX")
    assert shop.delete(f"/{table}{query}").status in (400, 405)
    assert names(shop, table) == ["a", "b"]


@pytest.mark.parametrize("table", TABLES)
def test_a_delete_with_a_limit_or_a_condition(shop: Any, table: str) -> None:
    assert shop.delete(f"/{table}/?sort(-name)&limit(1)").status == 204
    assert names(shop, table) == ["a"]
    assert shop.delete(f"/{table}/?name=a&_=5").headers["x-deleted-count"] == "1"


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("field", ["If-Match", "If-None-Match", "If-Unmodified-Since"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "/", None), ("DELETE", "/?name=a", None), ("DELETE", "/1/", None), ("PUT", "/", [{"id": "1", "name": "z"}]),
        ("PUT", "/", {"id": "1", "name": "z"}), ("PUT", "", [{"id": "1", "name": "z"}]), ("POST", "/", {"id": "3", "name": "z"}),
    ],
)  # fmt: skip
def test_a_condition_on_a_collection(shop: Any, table: str, field: str, method: str, path: str, body: Any) -> None:
    value = "Fri, 27 Nov 2026 12:00:00 GMT" if "Since" in field else "*"
    answer = shop.request(method, f"/{table}{path}", data=None if body is None else json.dumps(body), headers={field: value})
    assert (answer.status, answer.json["code"]) == (400, "PRECONDITION_NOT_POSSIBLE")
    assert answer.json["detail"].startswith(f"{field} is a condition on one record")
    assert names(shop, table) == ["a", "b"]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("path", ["/?name=b", "?name=b", "/1/?name=b", "/?limit(1)", "/?sort(name)"])
def test_a_put_with_a_query(shop: Any, table: str, path: str) -> None:
    for body in ([{"id": "1", "name": "z"}], {"id": "1", "name": "z"}):
        answer = shop.put(f"/{table}{path}", body)
        assert (answer.status, answer.json["code"]) == (400, "QUERY_SYNTAX")
    assert names(shop, table) == ["a", "b"]
    assert shop.put(f"/{table}/?_=17", [{"id": "1", "name": "z"}]).status == 204


def test_those_who_may_do_nothing_learn_nothing(shop: Any) -> None:
    nobody = {"data": {"Shown": {"read": True}}}
    for path, headers in (("/Plain/?", {}), ("/Plain/", {"If-Match": "*"})):
        assert shop.delete(path, headers=headers, user=nobody).status == 403
    assert shop.request("DELETE", "/Plain/", data="[1]", user=nobody).status == 403
    assert shop.put("/Plain/?name=a", [], user=nobody).status == 403


@pytest.mark.parametrize(
    "given", ["{}", "[]", "{'id': None}", "{'id': ''}", "{'conditions': []}", "None", "id=None", "{'sort': {'attribute': 'name'}}"]
)
def test_code_whose_query_is_empty(shop: Any, given: str) -> None:
    for table in ("Plain", "Shown"):
        answer = shop.post("/Run", {"code": f"tables.{table}.delete({given})"})
        assert answer.status in (400, 500) and names(shop, table) == ["a", "b"]


def test_code_that_deletes_all(shop: Any) -> None:
    for table in ("Plain", "Shown"):
        assert shop.post("/Run", {"code": f"tables.{table}.delete({{'name': 'a'}})"}).status >= 400
        assert shop.post("/Run", {"code": f"tables.{table}.delete([{{'attribute': 'name', 'value': 'a'}}])"}).json is True
        assert names(shop, table) == ["b"]
        assert shop.post("/Run", {"code": f"tables.{table}.delete()"}).json is True
        assert names(shop, table) == []
