"""svc.api.transactions, table: what code reads of what it has written, and where what is wrong with it is raised."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from svc.errors import ClientError, Problem
from svc.store.writing import preview
from tests.support.application import Application, application

SCHEMA = """
type Show @table @export { id: ID @primaryKey title: String @indexed seats: [Seat] @relationship(to: "showId") }
type Seat @table { id: ID @primaryKey stock: Int @check(expr: "stock >= 0") code: String @unique showId: ID @indexed
  show: Show @relationship(from: "showId", onDelete: cascade) label: String }
type Need @table { id: ID @primaryKey name: String! @unique }
"""
CODE = """
from svc import ClientError, Resource, tables, transaction

class Seat(tables.Seat):
    load_as_instance = False

    async def post(self, target, data):
        try:
            await tables.Seat.create(data)
        except ClientError as error:
            await tables.Show.put("failed", {"title": error.code})
            return {"code": error.code}
        return {"code": ""}

class Found(Resource):
    async def post(self, data, query=None):
        await tables.Show.put("f", {"title": "Faust"})
        await tables.Seat.put("s1", {"showId": "f"})
        return tables.Seat.search({"conditions": [{"attribute": ["show", "title"], "value": "Faust"}], "select": ["id"]})
"""


def run(tmp_path: Path, work: Callable[[Application], Any]) -> Any:
    with application(tmp_path, CODE, SCHEMA) as app:
        return app.run(work(app))


async def keys(found: Any) -> list[Any]:
    return [record["id"] async for record in found]


def test_what_a_deletion_entails_is_seen(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        tables = app.tables
        await tables.Show.put("f", {})
        await tables.Seat.put("s1", {"showId": "f", "stock": 1, "label": "old"})
        async with app.module.transaction():
            await tables.Show.delete("f")
            assert await tables.Seat.get("s1") is None
            assert await keys(tables.Seat.search({})) == []
            await tables.Seat.create({"id": "s1", "stock": 2})
            assert dict(await tables.Seat.get("s1")) == {"id": "s1", "stock": 2}
            await tables.Seat.patch("s1", {"code": "x"})
        assert dict(await tables.Seat.get("s1")) == {"id": "s1", "stock": 2, "code": "x"}

    run(tmp_path, work)


def test_an_instance_of_what_a_deletion_took_is_read_again(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        tables = app.tables
        await tables.Show.put("f", {})
        await tables.Seat.put("s1", {"showId": "f", "stock": 1})
        async with app.module.transaction():
            seat = await tables.Seat.update("s1")
            assert seat.stock == 1
            await tables.Show.delete("f")
            assert seat.stock is None and not seat.does_exist()

    run(tmp_path, work)


def test_a_patch_of_what_a_deletion_took_begins_with_nothing(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        tables = app.tables
        await tables.Show.put("f", {})
        await tables.Seat.put("s1", {"showId": "f", "stock": 1})
        async with app.module.transaction():
            await tables.Show.delete("f")
            seat = await tables.Seat.update("s1", {"label": "new"})
            assert not seat.does_exist()
            await seat.save()
            assert dict(await tables.Seat.get("s1")) == {"id": "s1", "label": "new"}
        assert dict(await tables.Seat.get("s1")) == {"id": "s1", "label": "new"}

    run(tmp_path, work)


def test_counts_and_pages(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        seats = app.tables.Seat
        await seats.put([{"id": f"s{n}", "stock": n} for n in range(4)])
        async with app.module.transaction():
            await seats.put("s4", {"stock": 4})
            await seats.delete("s0")
            counted = [dict(row) async for row in seats.search({"aggregate": "count"})]
            assert counted == [{"count": 4}]
            assert (await seats.get_record_count()).record_count == 4
            await seats.delete({"conditions": [{"attribute": "stock", "comparator": "greater_than", "value": 2}]})
            assert await keys(seats.search({})) == ["s1", "s2"]
            show = await app.tables.Show.create({"id": "f"})
            await seats.patch("s1", {"showId": "f"})
            assert await keys((await app.tables.Show.get("f")).seats) == ["s1"] and show.get_id() == "f"

    run(tmp_path, work)


def test_a_search_that_goes_on_does_not_meet_what_is_written_meanwhile(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        seats = app.tables.Seat
        async with app.module.transaction():
            await seats.put([{"id": f"s{n}", "code": f"{n}"} for n in range(5)])
            met = 0
            async for seat in seats.search(
                {"sort": {"attribute": "code"}, "conditions": [{"attribute": "code", "comparator": "greater_than", "value": ""}]}
            ):
                await seats.patch(seat.id, {"code": f"9{seat.code}"})
                await seats.put(f"{seat.id}!", {})
                met += 1
            assert met == 5
            assert len(await keys(seats.search({}))) == 10

    run(tmp_path, work)


@pytest.mark.parametrize(("data", "code"), [({"id": "s2", "code": "x"}, "NOT_UNIQUE"), ({"id": "s2", "stock": -1}, "CHECK_FAILED")])
def test_what_is_wrong_is_raised_where_it_is_awaited(tmp_path: Path, data: dict[str, Any], code: str) -> None:
    with application(tmp_path, CODE, SCHEMA) as app:
        app.ask("POST", "/Seat/", {"id": "s1", "code": "x"})
        status, fields, body = app.answer("POST", "/Seat/", data)
        assert (status, body) == (200, {"code": code}) and "location" not in fields
        assert app.ask("GET", "/Show/failed")[1]["title"] == code
        assert app.run(keys(app.tables.Seat.search({}))) == ["s1"], "the handler went on without it"


@pytest.mark.parametrize("verb", ["put", "patch", "create", "post", "save"])
def test_each_verb(tmp_path: Path, verb: str) -> None:
    async def work(app: Application) -> None:
        seats = app.tables.Seat
        await seats.put("s1", {"code": "x"})
        async with app.module.transaction():
            with pytest.raises(ClientError) as raised:
                if verb == "save":
                    await (await seats.update("s2", {"code": "x"})).save()
                elif verb in ("put", "patch"):
                    await getattr(seats, verb)("s2", {"code": "x"})
                elif verb == "create":
                    await seats.create({"id": "s2", "code": "x"})
                else:
                    await seats.post(None, {"id": "s2", "code": "x"})
            assert raised.value.code == "NOT_UNIQUE"
            await seats.put("s3", {"code": "y"})
        assert await keys(seats.search({})) == ["s1", "s3"]

    run(tmp_path, work)


def test_a_patch_that_makes_a_record_which_lacks_something(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        async with app.module.transaction():
            with pytest.raises(ClientError, match="name"):
                await app.tables.Need.patch("n", {"id": "n"})
            await app.tables.Need.put("m", {"name": "Mo"})
        assert await keys(app.tables.Need.search({})) == ["m"]

    run(tmp_path, work)


def test_records_exchange_their_values_in_one_call(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        seats = app.tables.Seat
        await seats.put([{"id": "a", "code": "1"}, {"id": "b", "code": "2"}])
        async with app.module.transaction():
            await seats.put([{"id": "a", "code": "2"}, {"id": "b", "code": "1"}])
            with pytest.raises(ClientError):
                await seats.put("a", {"code": "1"})
        assert [(seat.id, seat.code) async for seat in seats.search({})] == [("a", "2"), ("b", "1")]

    run(tmp_path, work)


@pytest.mark.parametrize("element", [{"id": "a", "stock": -1}, {"id": "a", "stock": "no"}])
def test_of_a_list_that_is_refused_nothing_is_written(tmp_path: Path, element: dict[str, Any]) -> None:
    async def work(app: Application) -> None:
        seats = app.tables.Seat
        async with app.module.transaction():
            await seats.put("first", {})
            with pytest.raises(ClientError):
                await seats.put([{"id": "b"}, element])
            await seats.put("last", {})
        assert await keys(seats.search({})) == ["first", "last"]

    run(tmp_path, work)


def test_a_long_list_that_is_refused_is_refused_at_the_end_as_well(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        seats = app.tables.Seat
        with pytest.raises(ClientError) as raised:
            async with app.module.transaction():
                with pytest.raises(ClientError):
                    await seats.put([{"id": f"s{n}", "code": f"{n % 70}"} for n in range(80)])
        assert raised.value.code == "NOT_UNIQUE"
        assert await keys(seats.search({})) == []

    run(tmp_path, work)


def test_a_result_that_a_handler_returns(tmp_path: Path) -> None:
    with application(tmp_path, CODE, SCHEMA) as app:
        assert app.ask("POST", "/Found/", {}) == (200, [{"id": "s1"}])


def test_each_write_is_carried_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carried_out = 0
    whole = preview.apply_write

    def counting(*arguments: Any) -> bool:
        nonlocal carried_out
        carried_out += 1
        return whole(*arguments)

    monkeypatch.setattr(preview, "apply_write", counting)

    async def work(app: Application) -> None:
        seats = app.tables.Seat
        log = app.node.store.databases["data"].log
        before = log.last_lsn
        async with app.module.transaction():
            for number in range(30):
                await seats.put(f"s{number}", {"code": f"{number}"})
                assert len(await keys(seats.search({}))) == number + 1
                with pytest.raises(ClientError):
                    await seats.put("other", {"code": "0"})
            assert log.last_lsn == before

    run(tmp_path, work)
    assert carried_out == 60


def test_a_transaction_that_is_too_large_for_its_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview, "MOST_PREVIEWED", 20)

    async def work(app: Application) -> None:
        shows = app.tables.Show
        async with app.module.transaction() as txn:
            await shows.put([{"id": f"s{n}"} for n in range(30)])
            for _ in range(2):
                with pytest.raises(ClientError) as raised:
                    await keys(shows.search({}))
                assert raised.value.code == "TRANSACTION_TOO_LARGE"
            await txn.commit()
            assert len(await keys(shows.search({}))) == 30

    run(tmp_path, work)


def test_what_has_failed_is_over_with_its_commit(tmp_path: Path) -> None:
    async def work(app: Application) -> None:
        shows = app.tables.Show
        async with app.module.transaction() as txn:
            for _ in range(2):
                with pytest.raises(ClientError):
                    await shows.put([*[{"id": f"s{n}"} for n in range(600)], {"id": 5}])
                with pytest.raises(ClientError):
                    await txn.commit()
                await shows.put("after", {})
                await txn.commit()
        assert await keys(shows.search({})) == ["after"]

    run(tmp_path, work)


def test_a_write_that_is_cancelled_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(app: Application) -> None:
        seats = app.tables.Seat
        async with app.module.transaction() as txn:
            monkeypatch.setattr(app.node.store.slices, "run", lambda steps: next(steps, steps) is steps)  # one step in each slice
            task = asyncio.ensure_future(seats.put([{"id": f"s{n}", "code": f"c{n}"} for n in range(30)]))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as raised:
                await task
            monkeypatch.undo()
            await seats.put("other", {})
            await txn.commit()
            assert raised.value is not None, "what was cancelled is still referred to"
            assert await keys(seats.search({})) == ["other"]

    run(tmp_path, work)


def test_a_list_that_is_cancelled_has_the_commit_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(app: Application) -> None:
        shows = app.tables.Show
        monkeypatch.setattr(app.node.store.slices, "run", lambda steps: next(steps, steps) is steps)  # one step in each slice
        with pytest.raises(Problem, match="cancelled before its end") as raised:
            async with app.module.transaction():
                task = asyncio.ensure_future(shows.put([{"id": f"s{n}"} for n in range(600)]))
                for _ in range(2):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
        assert raised.value.status_code == 503
        monkeypatch.undo()
        assert await keys(shows.search({})) == []

    run(tmp_path, work)


@pytest.mark.parametrize("written", ["cascade", "bytes"])
def test_what_makes_a_transaction_too_large_for_its_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    """Whatever it is, no more of it is carried out than there is room for."""
    monkeypatch.setattr(preview, "MOST_PREVIEWED", 20)
    carried_out = 0

    class Counted(preview._PreviewWrites):
        def remove_record(self, *arguments: Any) -> None:
            nonlocal carried_out
            carried_out += 1
            super().remove_record(*arguments)

    monkeypatch.setattr(preview, "_PreviewWrites", Counted)

    async def work(app: Application) -> None:
        shows, seats = app.tables.Show, app.tables.Seat
        await shows.put("f", {})
        await seats.put([{"id": f"s{n:03}", "showId": "f"} for n in range(200)])
        with pytest.raises(ValueError, match="undone"):
            async with app.module.transaction():
                if written == "cascade":
                    await shows.delete("f")
                else:
                    text = "".join(map(str, range(3000)))  # it is stored in half as much
                    await shows.put([{"id": f"b{n}", "label": text} for n in range(4)])
                for _ in range(2):
                    with pytest.raises(ClientError) as raised:
                        await keys(seats.search({}))
                    assert raised.value.code == "TRANSACTION_TOO_LARGE"
                raise ValueError("undone")
        assert carried_out < 60
        assert len(await keys(seats.search({}))) == 200

    run(tmp_path, work)
