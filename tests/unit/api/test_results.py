"""svc.api.results, target: query objects, searches, and what is derived from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from svc.errors import ClientError, QueryError
from tests.support.application import Application, application

CODE = """
from svc import RequestTarget, Resource, tables, transaction

class Seat(tables.Seat):
    pass
"""


async def fill(app: Application) -> Any:
    await app.tables.Show.put("f", {"title": "Faust"})
    await app.tables.Show.put("m", {"title": "Medea"})
    for n in range(10):
        await app.tables.Seat.put(
            f"s{n}", {"stock": n, "price": n * 10, "showId": "f" if n < 5 else "m", "tags": ["even"] if n % 2 == 0 else []}
        )
    return app.tables.Seat


def run(path: Path, work: Any) -> None:
    with application(path, CODE) as app:
        app.run(work(app))


def test_query_objects(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        seats = await fill(app)
        query = {
            "conditions": [
                {"attribute": "price", "comparator": "less_than", "value": 80},
                {
                    "operator": "or",
                    "conditions": [{"attribute": ["show", "title"], "value": "Faust"}, {"attribute": "tags", "value": "even"}],
                },
            ],
            "sort": {"attribute": "price", "descending": True},
            "select": ["id", "price", {"name": "show", "select": ["title"]}],
            "limit": 3,
        }
        found = [seat async for seat in seats.search(query)]
        assert [seat.id for seat in found] == ["s6", "s4", "s3"] and found[1].show["title"] == "Faust"
        assert [each.id async for each in seats.search([{"attribute": "stock", "comparator": "greater_than", "value": 7}])] == ["s8", "s9"]
        assert [each.id async for each in seats.search({"conditions": {"attribute": "stock", "value": 3}})] == ["s3"]
        assert [each.id async for each in seats.search(conditions=[{"attribute": "stock", "value": 3}])] == ["s3"]
        assert await seats.search({"select": "price", "limit": 2}).to_list() == [0, 10]
        assert await seats.search({"select": ["id", "stock"], "as_array": True, "limit": 1}).to_list() == [["s0", 0]]
        assert [each.id async for each in seats.get({"conditions": [{"attribute": "stock", "value": 4}]})] == ["s4"]
        one = await seats.get({"id": "s4", "select": ["stock", "price"]})
        assert dict(one) == {"stock": 4, "price": 40}
        assert [each.id async for each in seats.search(app.module.RequestTarget("/?price=gt=60&sort(-price)&limit(2)"))] == ["s9", "s8"]
        plan = await seats.search({"conditions": [{"attribute": "price", "value": 30}], "explain": True})
        assert "price" in str(plan)
        assert seats.search({"select": ["id", "price"]}).columns() == ["id", "price"]
        assert (await seats.get(app.module.RequestTarget("")))["name"] == "Seat"

    run(tmp_path, work)


def test_faulty_queries(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        seats = await fill(app)
        for faulty in (
            {"conditions": [{"attribute": "nothing", "value": 1}]},
            {"conditions": [{"attribute": "price", "comparator": "near", "value": 1}]},
            {"conditions": [{"attribute": "price", "comparator": "between", "value": [1]}]},
            {"limit": -1},
            {"unknown": 1},
            {"sort": {"attribute": "nothing"}},
            {"conditions": 5},
        ):
            with pytest.raises(QueryError):
                async for _ in seats.search(faulty):
                    raise AssertionError(faulty)
            with pytest.raises(QueryError):
                await seats.search(faulty)
        with pytest.raises(QueryError) as refused:
            await seats.search({"conditions": [{"attribute": "stock", "value": 1}], "allow_full_scan": False})
        assert refused.value.code == "NOT_INDEXED"
        with pytest.raises(TypeError, match="one argument"):
            await seats.get("a", "b")
        with pytest.raises(QueryError, match="position"):
            seats.parse_query("price=gt=1&sort(")

    run(tmp_path, work)


def test_what_is_derived_from_results(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        seats = await fill(app)
        made = []

        async def stock(seat: Any) -> int:
            made.append(seat.id)
            return seat.stock  # type: ignore[no-any-return]

        even = seats.search({}).filter(lambda seat: seat.stock % 2 == 0).map(stock)
        assert made == []
        assert await even.to_list() == [0, 2, 4, 6, 8]
        assert await even.slice(1, 3).to_list() == [2, 4]
        assert await seats.search({"limit": 2}).flat_map(lambda seat: [seat.id, seat.stock]).concat(["end"]).to_list() == [
            "s0",
            0,
            "s1",
            1,
            "end",
        ]
        collected: list[Any] = []
        await seats.search({"limit": 2}).map(lambda seat: seat.id).for_each(collected.append)
        assert collected == ["s0", "s1"]

        def fail(seat: Any) -> Any:
            if seat.stock == 2:
                raise ValueError("two")
            return seat.stock

        assert await seats.search({}).map(fail).map_error(str).to_list() == [0, 1, "two"]
        with pytest.raises(ValueError, match="two"):
            await seats.search({}).map(fail).to_list()
        async for seat in seats.search({}):
            assert seat.id == "s0"
            break
        results = await seats.search({"limit": 1})
        assert [each.id async for each in results] == ["s0"]
        assert await results.first() is not None
        with pytest.raises(ValueError, match="positions"):
            results.slice(-1)

    run(tmp_path, work)
    # the node's end checks that no snapshot is left


def test_results_as_answers(tmp_path: Path) -> None:
    code = """
    from svc import Resource, tables

    class Cheap(tables.Seat):
        def get(self, query=None):
            if self.is_collection and query.get("max"):
                limit = float(query.get("max"))
                query.delete("max")
                query.conditions = [*query.conditions, {"attribute": "price", "comparator": "less_than", "value": limit}]
            return super().get(query)

    class Names(Resource):
        def allow_read(self, user, target):
            return True
        def search(self, query):
            return tables.Seat.search({"sort": {"attribute": "price"}}).map(lambda seat: {"name": seat.id.upper()})

    class Plans(Resource):
        async def get(self, query=None):
            return await tables.Seat.search({"explain": True})
    """
    with application(tmp_path, code) as app:
        app.run(fill(app))
        assert [each["id"] for each in app.ask("GET", "/Cheap/?max=30")[1]] == ["s0", "s1", "s2"]
        assert [each["id"] for each in app.ask("GET", "/Cheap/?max=30&sort(-price)&limit(1)")[1]] == ["s2"]
        app.node.as_user(None)
        assert app.ask("GET", "/Names/")[1][:2] == [{"name": "S0"}, {"name": "S1"}]
        status, fields, body = app.answer("GET", "/Names/", Accept="text/csv")
        assert (status, fields["content-type"].split(";")[0]) == (200, "text/csv") and body.splitlines()[:2] == [b'"name"', b'"S0"']
        status, fields, body = app.answer("GET", "/Names/", Accept="application/x-msgpack")
        assert status == 200 and body[0] == 0x9A


def test_targets(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        target = app.module.RequestTarget("/42?price=gt=3&zone=UTC&zone=CET&limit(5)")
        assert (target.id, target.limit, target.search, target.pathname) == ("42", 5, "?price=gt=3&zone=UTC&zone=CET&limit(5)", "/42")
        assert target.get("zone") == "UTC" and target.get_all("zone") == ["UTC", "CET"] and target.get("none", 7) == 7
        assert target.conditions[0] == {"attribute": "price", "comparator": "greater_than", "value": "3"}
        target.set("zone", "a b&c")
        assert target.get("zone") == "a b&c" and list(target)[-1] == ("zone", "a b&c") and len(target.conditions) == 2
        target.delete("zone")
        assert not target.has("zone") and str(target) == "/42?price=gt=3&limit(5)"
        target.limit = 2
        assert target.limit == 2 and target.parse_error is None
        assert isinstance(app.module.RequestTarget("?price=gt=3&limit(").parse_error, QueryError)
        with pytest.raises(AttributeError):
            target.nothing  # noqa: B018
        with pytest.raises(ClientError):
            app.module.RequestTarget("/%ZZ")

    run(tmp_path, work)


def test_own_writes_are_found_by_key_and_by_searches(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        seats = await fill(app)
        async with app.module.transaction():
            await seats.put("s1", {"stock": 100, "price": 1000})
            await seats.delete("s2")
            await seats.put("new", {"stock": 200, "price": 5})
            seat = await seats.update("s3", {"stock": 300})
            assert (await seats.get("s1")).stock == 100 and await seats.get("s2") is None
            await seat.save()
            found = {each.id: each.stock async for each in seats.search({})}
            assert (found["s1"], found["new"], found["s3"], "s2" in found, len(found)) == (100, 200, 300, False, 10)
            assert [
                each.id async for each in seats.search({"conditions": [{"attribute": "price", "comparator": "greater_than", "value": 85}]})
            ] == ["s9", "s1"]
            sorted_ = seats.search({"sort": {"attribute": "price"}, "limit": 3, "offset": 1})
            assert [each.id async for each in sorted_] == ["new", "s3", "s4"]
            assert [each.id async for each in seats.search({"sort": {"attribute": "stock", "descending": True}, "limit": 2})] == [
                "s3",
                "new",
            ]
            assert await seats.search({"conditions": [{"attribute": "stock", "value": 300}], "select": ["id", "price"]}).to_list() == [
                {"id": "s3", "price": 30}
            ]
        assert (await seats.get("new")).stock == 200

    run(tmp_path, work)


ORDERED = """
from svc import tables, transaction

QUERIES = (
    {},
    {"limit": 3, "offset": 2},
    {"conditions": [{"attribute": "id", "comparator": "greater_than", "value": "s1"}]},
    {"conditions": [{"attribute": "price", "value": 1.0}], "limit": 2, "offset": 1},
)

async def compared():
    for number in range(6):
        await tables.Seat.put(f"s{number}", {"price": float(number % 3)})
    async with transaction():
        for key in ("a", "z", "s0"):
            await tables.Seat.put(key, {"price": 1.0})
        await tables.Seat.delete("s4")
        within = [[each.id for each in await tables.Seat.search(dict(query)).to_list()] for query in QUERIES]
    return within, [[each.id for each in await tables.Seat.search(dict(query)).to_list()] for query in QUERIES]
"""


def test_what_a_transaction_has_written_is_in_the_order_of_the_keys(tmp_path: Path) -> None:
    with application(tmp_path, ORDERED) as app:
        within, after = app.run(app.module.compared())
        assert within == after
        assert after[1] == ["s1", "s2", "s3"]
