"""How much work queries are: look-ups, slices, limits, snapshots."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.content.values import json_form
from svc.errors import ClientError
from svc.graphql import reading
from svc.graphql.answer import Answer, _held
from svc.graphql.reading import FieldReading
from svc.query.budget import QueryLimits, set_limits
from svc.store import Table
from tests.support.graphql import Shop, open_shop

SCHEMA = """
type Product @table @export { id: ID @primaryKey  name: String @indexed  brandId: ID @indexed  brand: Brand @relationship(from: brandId) }
type Brand @table @export { id: ID @primaryKey  name: String  products: [Product] @relationship(to: brandId) }
"""
RESOURCES = """
import asyncio

from svc import Resource, tables


class Removing(tables.Brand):
    async def get(self, query=None):
        await tables.Product.delete("0007")
        return await super().get(query)


class Many(Resource):
    def allow_read(self, user, target=None, context=None):
        return True

    async def get(self, query=None):
        for number in range(300):
            yield {"number": number}


class Listed(Many):
    def get(self, query=None):
        return [{"number": number} for number in range(300)]


class Waiting(Many):
    async def get(self, query=None):
        yield {"number": 1}
        await asyncio.Event().wait()


class Noting(tables.Product):
    async def get(self, query=None):
        await tables.Brand.put({"id": "noted", "name": "n"})
        return await super().get(query)
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_shop(tmp_path_factory.mktemp("app"), schema=SCHEMA, resources=RESOURCES, roles="") as shop:
        assert shop.app.post("/Brand/", [{"id": str(number), "name": f"b{number}"} for number in range(20)]).status == 201
        products = [{"id": f"{number:04}", "name": f"n{number % 7}", "brandId": str(number % 20)} for number in range(2000)]
        assert shop.app.post("/Product/", products).status == 201
        yield shop


def test_related_records_are_looked_up_once_each(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"get_by": 0, "get_many": 0}
    for name in counts:
        original = getattr(Table, name)

        def counting(self: Table, keys: Any, *rest: Any, name: str = name, original: Any = original) -> Any:
            if self.name == "Brand":
                listed = list(keys) if name == "get_many" else keys
                counts[name] += len(listed) if name == "get_many" else 1
                return original(self, listed, *rest)
            return original(self, keys, *rest)

        monkeypatch.setattr(Table, name, counting)
    rows = shop.data("{ Product { id brand { name } } }")["Product"]
    assert len(rows) == 2000 and rows[21]["brand"] == {"name": "b1"}
    assert 20 <= sum(counts.values()) <= 40  # as many as there are brands, not as there are products


def test_a_long_answer_is_made_in_slices(shop: Shop) -> None:
    data = shop.data("{ " + " ".join(f"a{number}: Product {{ id name brand {{ name }} }}" for number in range(10)) + " }")
    assert [len(data[f"a{number}"]) for number in range(10)] == [2000] * 10


def test_what_code_writes_is_there_and_is_kept(shop: Shop) -> None:
    data = shop.data('{ Noting(id: "0001") { id } }')
    assert data == {"Noting": [{"id": "0001"}]}
    assert shop.app.get("/Brand/noted").status == 200
    shop.app.delete("/Brand/noted")


def test_the_limits_of_an_operation(shop: Shop) -> None:
    try:
        set_limits(QueryLimits(bytes=100_000))
        status, code, message = shop.error("{ " + " ".join(f"a{number}: Product {{ id name }}" for number in range(10)) + " }")
        assert (status, code) == (400, "QUERY_TOO_LARGE") and "query.maxBytes" in message
        set_limits(QueryLimits(related_rows=1000))
        status, code, message = shop.error("{ Brand { products { brand { products { id } } } } }")
        assert (status, code) == (400, "QUERY_TOO_LARGE") and "query.maxRelatedRows" in message
    finally:
        set_limits(QueryLimits())


def test_nothing_is_left_behind(shop: Shop) -> None:
    store = shop.app._instance.server.store
    before = len(store.snapshots)
    shop.ask("{ " + " ".join(f"a{number}: Product {{ id }}" for number in range(30)) + " }")
    shop.ask("{ " + " ".join(f"a{number}: Product {{ id }}" for number in range(30)) + " b: Product(brandId: [1]) { id } }")
    assert len(store.snapshots) == before


def test_a_long_document_is_parsed_on_a_thread(shop: Shop) -> None:
    names = " ".join(f"x{number}: id" for number in range(2000))
    (row,) = shop.data(f'{{ Product(id: "0001") {{ {names} }} }}')["Product"]
    assert row["x1999"] == "0001" and len(json.dumps(row)) > 10_000
    assert shop.error("{" + names)[:2] == (400, "QUERY_SYNTAX")


def test_without_the_entry_there_is_no_such_path(tmp_path: Path) -> None:
    with open_shop(tmp_path / "app", "false", schema=SCHEMA, resources="", roles="") as shop:
        answer = shop.app.post("/graphql", {"query": "{ Product { id } }"})
        assert (answer.status, answer.headers["Content-Type"]) == (404, "application/problem+json")


def test_all_fields_see_one_snapshot(shop: Shop) -> None:
    """What code of the application writes and commits meanwhile is not seen by the fields behind it."""
    data = shop.data('{ a: Product(id: "0007") { id } Removing(id: "1") { id } b: Product(id: "0007") { id } }')
    assert data == {"a": [{"id": "0007"}], "Removing": [{"id": "1"}], "b": [{"id": "0007"}]}
    assert shop.app.get("/Product/0007").status == 404
    shop.app.put("/Product/0007", {"name": "n0", "brandId": "7"})


@pytest.mark.parametrize(
    ("selection", "count"),
    [
        (" ".join(f"a{number}: name" for number in range(1000)), 1000),
        (" ".join(f"a{number}: brand {{ name }}" for number in range(400)), 400),
        (" ".join(f"a{number}" for number in range(500)), 500),
    ],
)
def test_wide_selections(shop: Shop, selection: str, count: int) -> None:
    rows = shop.data(f'{{ Product(brandId: "3") {{ id {selection} }} }}')["Product"]
    assert len(rows) == 100
    for row in rows:
        assert len(row) == count + 1
        others = [value for name, value in row.items() if name != "id"]
        assert all(value == others[0] for value in others)
    assert rows[0]["a7"] in (None, {"name": "b3"}, f"n{int(rows[0]['id']) % 7}")


def test_an_anonymous_caller_sends_short_documents(shop: Shop) -> None:
    names = " ".join(f"x{number}: id" for number in range(2000))
    assert shop.error(f"{{ Product {{ {names} }} }}", user=None)[:2] == (401, "UNAUTHENTICATED")
    assert shop.error("{ Product { id } }", user=None)[:2] == (401, "UNAUTHENTICATED")


def test_a_kept_document_is_as_long_for_an_anonymous_caller(shop: Shop) -> None:
    text = "{ __typename } #" + "x" * 20_000
    assert shop.data(text) == {"__typename": "Query"}
    assert shop.error(text, user=None)[:2] == (401, "UNAUTHENTICATED")


def test_another_operation_of_a_kept_document_is_made_on_a_thread(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "query A { Brand(id: 1) { ...F } } query B { Brand(id: 2) { ...F } } fragment F on X { "
        + " ".join(f"a{n}: id" for n in range(400))
        + " }"
    )
    execution = shop.app._instance.server.interfaces.graphql.execution
    in_thread, calls = execution._in_thread, []

    def counting(*arguments: Any) -> Any:
        calls.append(arguments[0].__name__)
        return in_thread(*arguments)

    monkeypatch.setattr(execution, "_in_thread", counting)
    for name in "ABAB":
        (row,) = shop.data(text, operationName=name)["Brand"]
        assert row["a7"] == ("1" if name == "A" else "2")
    assert calls.count("_prepared") == 2


@pytest.mark.parametrize("turns", range(4))
def test_a_request_that_is_cancelled_at_any_place(shop: Shop, turns: int) -> None:
    instance = shop.app._instance
    snapshots = instance.server.store.snapshots
    before, held, others = snapshots.readers, _held.size, asyncio.all_tasks(instance.loop)
    pending = shop.app.send("POST", "/graphql", {"query": "{ a: Product { id } Many { number } b: Product { id } Waiting { number } }"})
    for _ in range(turns):
        instance.loop.call_soon(instance.loop.stop)
        instance.loop.run_forever()
    if turns == 3:
        instance.rest()
    (task,) = asyncio.all_tasks(instance.loop) - others or {None}
    if task is not None:
        assert snapshots.readers > before
        instance.loop.call_soon(task.cancel)  # as the server does when a client leaves
        instance.rest()
        assert snapshots.readers == before and _held.size == held
    pending.cancel()


def test_a_request_that_is_cancelled_before_it_goes_on(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = shop.app._instance
    snapshots = instance.server.store.snapshots
    before = snapshots.readers
    start = FieldReading.start
    rest: list[Any] = []

    def begin(self: FieldReading) -> Any:
        rest.append(start(self))
        assert snapshots.readers > before
        raise ClientError("gone")

    monkeypatch.setattr(FieldReading, "start", begin)
    assert shop.ask("{ a: Product { id } Many { number } }")[0] == 400
    assert rest[0] is not None
    rest.clear()
    assert snapshots.readers == before


def test_wide_selections_of_code_are_made_a_few_rows_at_a_time(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counting(rows: Any) -> Any:
        made.append(len(rows) if isinstance(rows, list) else 1)
        return json_form(rows)

    monkeypatch.setattr(reading, "json_form", counting)
    names = " ".join(f"a{number}: number" for number in range(500))
    for resource in ("Listed", "Many"):
        made.clear()
        rows = shop.data(f"{{ {resource} {{ {names} }} }}")[resource]
        assert [row["a7"] for row in rows] == list(range(300)) and len(rows[0]) == 500
        assert made == [1] * 300


def test_fields_of_long_documents_that_depend_on_variables(tmp_path: Path) -> None:
    names = " ".join(f"a{number}: id @skip(if: $skip)" for number in range(400))
    with open_shop(tmp_path / "app", "{extended: true}", schema=SCHEMA, resources="", roles="") as shop:
        shop.app.put("/Brand/1", {"name": "b"})
        for skip in (True, False, True):
            (row,) = shop.data(f"query ($skip: Boolean!) {{ Brand(id: 1) {{ id {names} }} }}", {"skip": skip})["Brand"]
            assert len(row) == (1 if skip else 401)
        assert shop.error(f"query ($skip: Boolean!) {{ Brand(id: 1) {{ id {names} }} }}", {"skip": 1})[:2] == (400, "BAD_VALUE")


def test_answers_that_wait_have_a_limit_together(shop: Shop) -> None:
    before = _held.size
    answers = []
    try:
        limit = 100_000 + before  # a request of another test may be under way
        size = limit - (before + 1000) // 4
        set_limits(QueryLimits(bytes=limit))
        for _ in range(4):
            answer = Answer()
            answer.add(b"x" * size)
            answers.append(answer)
        assert _held.size == before + 4 * size
        status, code, message = shop.error("{ Product { id name } }")
        assert (status, code) == (503, "OVERLOADED") and "no room for another one" in message
        answers.pop().body()
        last = iter(answers.pop().body())
        next(last)
        del last
        assert shop.data('{ Product(id: "0001") { id } }')["Product"] == [{"id": "0001"}]
    finally:
        set_limits(QueryLimits())
        answers.clear()
        del answer
    assert _held.size == before
