"""svc.api.transactions, context: one transaction for a call, its own writes visible, undone by an exception."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from svc.errors import ClientError, PreconditionFailed
from svc.store.snapshots import SnapshotLimits
from tests.support.application import Application, application
from tests.support.snapshots import reader_slots

CODE = """
import asyncio
from svc import Abort, ClientError, Resource, Response, get_context, get_response, get_user, tables, transaction

class Two(Resource):
    async def post(self, data, query=None):
        await tables.Seat.put("a", {"stock": 1})
        assert (await tables.Seat.get("a")).stock == 1
        await asyncio.sleep(0)
        await tables.Journal.create({"seat": "a"})
        if data["how"] == "raise":
            raise ClientError("no", 409)
        if data["how"] == "defect":
            raise KeyError("no")
        if data["how"] == "abort":
            raise Abort(Response(status=418, data={"short": "stout"}))
        if data["how"] == "commit":
            await get_context().transaction.commit()
            await tables.Seat.put("b", {"stock": 2})
            raise ClientError("the first one stays")
        if data["how"] == "undo":
            transaction.abort()
        if data["how"] == "linger":
            asyncio.create_task(linger())
        return {"user": get_user().username}

async def linger():
    for _ in range(5):
        await asyncio.sleep(0)
    await tables.Seat.put("later", {"lastBuyer": get_user().username})

class Status(Resource):
    def get(self, query=None):
        get_response().status = 202
        get_response().headers.set("X-Colour", "blue")
        return {"ok": True}
"""


@pytest.mark.parametrize(
    ("how", "status", "left"),
    [
        ("return", 200, ["a"]),
        ("raise", 409, []),
        ("defect", 500, []),
        ("abort", 418, []),
        ("commit", 400, ["a"]),
        ("undo", 200, []),
        ("linger", 200, ["a", "later"]),
    ],
)
def test_what_a_handler_leaves(tmp_path: Path, how: str, status: int, left: list[str]) -> None:
    with application(tmp_path, CODE) as app:
        answered, body = app.ask("POST", "/Two/", {"how": how})
        assert answered == status, body
        app.node.settle()
        assert [each.id for each in app.run(app.tables.Seat.search({}).to_list())] == left
        assert len(app.ask("GET", "/Journal/")[1]) == ("a" in left)
        if how == "linger":
            assert app.run(app.tables.Seat.get("later")).lastBuyer == "admin"
        app.errors.clear()


def test_the_status_of_plain_data(tmp_path: Path) -> None:
    with application(tmp_path, CODE) as app:
        status, fields, body = app.answer("GET", "/Status/")
        assert (status, fields["x-colour"], body) == (202, "blue", {"ok": True})


def run(path: Path, work: Any) -> None:
    with application(path, CODE) as app:
        app.run(work(app, app.module.transaction))


def test_both_forms_of_transaction(tmp_path: Path) -> None:
    async def work(app: Application, transaction: Any) -> None:
        seats = app.tables.Seat

        async def ten(txn: Any) -> float:
            for n in range(10):
                await seats.patch(str(n), {"price": 10})
            assert (await seats.get("3")).price == 10
            return txn.timestamp  # type: ignore[no-any-return]

        assert await transaction(ten) > 0
        assert len(await seats.search({}).to_list()) == 10
        with pytest.raises(KeyError):
            async with transaction() as txn:
                await seats.delete("3")
                assert await seats.get("3") is None
                async with transaction() as inner:
                    assert inner is txn
                raise KeyError
        assert (await seats.get("3")).price == 10
        async with transaction() as txn:
            await seats.put("x", {"stock": 1})
            await txn.commit()
            await seats.put("y", {"stock": 1})
            txn.abort()
            with pytest.raises(ClientError, match="aborted"):
                await seats.put("z", {"stock": 1})
        assert [(await seats.get(key)) is not None for key in "xyz"] == [True, False, False]
        with pytest.raises(TypeError, match="needs a function"):
            await transaction()
        with pytest.raises(TypeError):
            transaction(5)
        with pytest.raises(RuntimeError, match="no open transaction"):
            transaction.abort()

    run(tmp_path, work)


def test_two_reads_agree_until_the_snapshot_is_reset(tmp_path: Path) -> None:
    async def work(app: Application, transaction: Any) -> None:
        seats = app.tables.Seat
        await seats.put("a", {"stock": 1})
        async with transaction() as txn:
            assert (await seats.get("a")).stock == 1
            other = app.node._loop.create_task(_alone(seats.put("a", {"stock": 2})), context=_empty())
            await other
            assert (await seats.get("a")).stock == 1
            assert [each.stock async for each in seats.search({})] == [1]
            txn.reset_read_snapshot()
            assert (await seats.get("a")).stock == 2

    run(tmp_path, work)


async def _alone(call: Any) -> None:
    await call


def _empty() -> Any:
    from contextvars import Context

    return Context()


def test_an_expected_version(tmp_path: Path) -> None:
    async def work(app: Application, transaction: Any) -> None:
        seats = app.tables.Seat
        await seats.put("a", {"stock": 1})
        version = (await seats.get("a")).get_updated_time()
        await seats.put("a", {"stock": 2})
        with pytest.raises(PreconditionFailed):
            async with transaction():
                context = app.module.get_context()
                context.if_version = version
                await seats.put("a", {"stock": 3})
        assert (await seats.get("a")).stock == 2
        async with transaction():
            app.module.get_context().if_version = (await seats.get("a")).get_updated_time()
            await seats.put("a", {"stock": 3})
            await seats.put("b", {"stock": 3})
        assert (await seats.get("a")).stock == (await seats.get("b")).stock == 3

    run(tmp_path, work)


def test_a_call_that_is_not_awaited_is_not_made_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    code = """
    from svc import Resource, tables

    class Careless(Resource):
        def get(self, query=None):
            tables.Seat.put("lost", {"stock": 1})
            return "done"
    """
    with application(tmp_path, code) as app:
        assert app.ask("GET", "/Careless/") == (200, "done")
        assert app.run(app.tables.Seat.get("lost")) is None
        lines = [record.getMessage() for record in caplog.records if "never awaited" in record.getMessage()]
        assert len(lines) == 1 and lines[0].endswith("resources.py:6, in get")


def test_nothing_is_left_of_cancelled_handlers(tmp_path: Path) -> None:
    code = """
    import asyncio
    from svc import Resource, tables, transaction

    class Waits(Resource):
        async def get(self, query=None):
            await tables.Seat.put("never", {"stock": 1})
            await tables.Seat.get("a")
            async for seat in tables.Seat.search({}):
                await asyncio.Event().wait()
            async with transaction():
                await asyncio.Event().wait()
    """
    with application(tmp_path, code) as app:
        app.run(app.tables.Seat.put("a", {"stock": 1}))
        for _ in range(5):
            wire = app.node.connect()
            wire.send(b"GET /Waits/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert wire.sock.sent == b""
            wire.sock.incoming.append(ConnectionResetError())
            wire._loop.readers[wire.sock]()
            app.node.settle()
        app.node.settle()
        assert len(app.node.store.snapshots) == 0 and not app.node.interface.running.open
        assert app.run(app.tables.Seat.get("never")) is None


def test_very_many_open_transactions_leave_snapshots_for_others(tmp_path: Path) -> None:
    code = """
    import asyncio
    from svc import tables, transaction

    async def one(go_on):
        async with transaction():
            before = (await tables.Seat.get("a")).stock
            found = await tables.Seat.search({}).to_list()
            await go_on.wait()
            return before, (await tables.Seat.get("a")).stock, len(found)

    async def work(ask):
        await tables.Seat.put("a", {"stock": 1})
        await tables.Seat.put("b", {"stock": 1})
        go_on = asyncio.Event()
        waiting = [asyncio.create_task(one(go_on)) for _ in range(1500)]
        for _ in range(200):
            await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        await tables.Seat.put("a", {"stock": 2})
        assert ask() == 2
        go_on.set()
        return await asyncio.gather(*waiting)
    """
    with application(tmp_path, code) as app:
        node = app.node

        def ask() -> Any:
            return node.interface.tables.Seat._table.record_count()

        found = app.run(app.module.work(ask), turns=100_000)
        assert {(before, rows) for before, _, rows in found} == {(1, 2)}
        assert [after for _, after, _ in found] == [1] * 1500
        assert len(node.store.snapshots) == 0


def test_transactions_over_very_many_states_go_on_with_the_newest(tmp_path: Path) -> None:
    code = """
    import asyncio
    from svc import tables, transaction

    async def one(number, go_on):
        async with transaction():
            before = (await tables.Seat.get("a")).stock
            await go_on.wait()
            return before == number, (await tables.Seat.get("a")).stock

    async def work(slots):
        go_on = asyncio.Event()
        waiting, most = [], 0
        for number in range(20):
            await tables.Seat.put("a", {"stock": number})
            waiting.append(asyncio.create_task(one(number, go_on)))
            for _ in range(3):
                await asyncio.sleep(0)
            most = max(most, slots())
        go_on.set()
        return most, await asyncio.gather(*waiting)
    """
    with application(tmp_path, code) as app:
        store = app.node.store
        store.snapshots.limits = SnapshotLimits(most=4)
        env = store.databases["data"].env
        before = reader_slots(env)
        most, found = app.run(app.module.work(lambda: reader_slots(env)), turns=100_000)
        assert most <= before + 6
        assert found == [(True, 19)] * 16 + [(True, number) for number in range(16, 20)]
        assert len(store.snapshots) == 0


def test_very_many_searches_under_way_share_a_snapshot(tmp_path: Path) -> None:
    code = """
    import asyncio
    from svc import tables

    async def one(go_on):
        async for seat in tables.Seat.search({}):
            await go_on.wait()
        return "found"

    async def work(slots):
        await tables.Seat.put("a", {"stock": 1})
        go_on = asyncio.Event()
        waiting = [asyncio.create_task(one(go_on)) for _ in range(1500)]
        for _ in range(50):
            await asyncio.sleep(0)
        assert (await tables.Seat.get("a")).stock == 1
        taken = slots()
        go_on.set()
        return taken, await asyncio.gather(*waiting)
    """
    with application(tmp_path, code) as app:
        env = app.node.store.databases["data"].env
        before = reader_slots(env)
        taken, found = app.run(app.module.work(lambda: reader_slots(env)), turns=100_000)
        assert found == ["found"] * 1500 and taken <= before + 2


EXPIRING = """
from svc import Resource, get_context, tables

class Short(Resource):
    async def post(self, data, query=None):
        get_context().expires_at = data["at"]
        await tables.Seat.put("a", {"stock": 1})
        await tables.Seat.create({"id": "b", "stock": 1})
        seat = await tables.Seat.update("c", {"stock": 5})
        await tables.Seat.patch("d", {"stock": 1})
"""


def test_what_is_written_expires_when_the_context_says(tmp_path: Path) -> None:
    with application(tmp_path, EXPIRING) as app:
        at = app.node.clock.wall() * 1000 + 5000
        assert app.ask("POST", "/Short/", {"at": at})[0] == 204
        seats = app.tables.Seat
        app.run(seats.put("e", {"stock": 1}))
        assert [app.run(seats.get(key)).get_expires_at() for key in "abcde"] == [at, at, at, at, None]
        app.node.clock.advance(6)
        assert [app.run(seats.get(key)) is None for key in "abcde"] == [True, True, True, True, False]
        for wrong in ("soon", True, -1, 1e300):
            assert app.ask("POST", "/Short/", {"at": wrong})[0] == 500
        app.node.store.check()


def test_a_transaction_outside_of_requests_that_is_never_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    code = """
    from svc import tables, transaction

    async def work():
        await transaction().__aenter__()
        await tables.Seat.put("never", {"stock": 1})
    """
    with application(tmp_path, code) as app:
        app.run(app.module.work())
        gc.collect()
        assert app.run(app.tables.Seat.get("never")) is None and len(app.node.store.snapshots) == 0
        lines = [record.getMessage() for record in caplog.records if "never left" in record.getMessage()]
        assert len(lines) == 1 and lines[0].endswith("resources.py:5, in work")


LOST = """
import asyncio
from svc import ClientError, Resource, tables, transaction

class Both(tables.Seat):
    async def post(self, data, query=None):
        other = await tables.Seat.update(self.get_id())
        self.update()
        self.stock = 1
        other.price = 2.0
        return "done"

class Deleted(tables.Seat):
    def delete(self, query=None):
        self.update()
        self.lastBuyer = "me"
        return super().delete(query)

async def write_beside(count):
    for number in range(count):
        await tables.Plain.put(f"p{number}", {"stock": number})
        await asyncio.sleep(0)

class Long(Resource):
    async def post(self, data, query=None):
        for number in range(3000):
            await tables.Journal.put(f"j{number}", {"seat": "x"})
        asyncio.create_task(write_beside(50))
        if data == "commit":
            await asyncio.gather(transaction.commit(), tables.Plain.put("beside", {"stock": 2}))
        return "done"

class Rules(tables.Seat):
    def validate(self, record, partial=False):
        if record.get("stock") == 13:
            raise ClientError("unlucky")

class Caught(Resource):
    async def post(self, data, query=None):
        await Rules.put("wrong", {"stock": 13})
        await tables.Seat.put("beside", {"stock": 1})
        try:
            await transaction.commit()
        except ClientError:
            await tables.Seat.put("after", {"stock": 1})
        return "done"

async def again():
    seat = await tables.Seat.update("again")
    for attempt in range(2):
        try:
            async with transaction():
                seat.stock = 5
                if not attempt:
                    raise KeyError
        except KeyError:
            pass

async def begun_before():
    seat = await tables.Seat.update("before")
    seat.stock = 5
    async with transaction():
        seat.price = 6.0
"""


def test_two_updatables_of_one_record_are_both_saved(tmp_path: Path) -> None:
    with application(tmp_path, LOST) as app:
        assert app.ask("POST", "/Both/b", {})[0] == 200
        assert dict(app.run(app.tables.Seat.get("b"))) == {"id": "b", "stock": 1, "price": 2.0}


def test_changes_that_a_failed_transaction_has_not_saved_are_saved_by_the_next(tmp_path: Path) -> None:
    with application(tmp_path, LOST) as app:
        app.run(app.module.again())
        assert app.run(app.tables.Seat.get("again")).stock == 5


def test_changes_from_before_a_transaction_are_saved_with_those_made_in_it(tmp_path: Path) -> None:
    with application(tmp_path, LOST) as app:
        app.run(app.module.begun_before())
        assert dict(app.run(app.tables.Seat.get("before"))) == {"id": "before", "stock": 5, "price": 6.0}


def test_changes_of_a_record_that_is_deleted_after_them_do_not_bring_it_back(tmp_path: Path) -> None:
    with application(tmp_path, LOST) as app:
        app.run(app.tables.Seat.put("d", {"stock": 1}))
        assert app.ask("DELETE", "/Deleted/d")[0] == 204
        assert app.run(app.tables.Seat.get("d")) is None


@pytest.mark.parametrize(("how", "count"), [("return", 50), ("commit", 51)])
def test_what_a_task_writes_while_its_request_is_committed_is_written(tmp_path: Path, how: str, count: int) -> None:
    with application(tmp_path, LOST) as app:
        assert app.ask("POST", "/Long/", how)[0] == 200
        app.node.settle()
        for _ in range(300):
            app.node.turn()
        assert len(app.run(app.tables.Plain.search({}).to_list())) == count


def test_a_commit_that_fails_leaves_nothing_for_the_next(tmp_path: Path) -> None:
    with application(tmp_path, LOST) as app:
        assert app.ask("POST", "/Caught/", {})[0] == 200
        assert [each.id for each in app.run(app.tables.Seat.search({}).to_list())] == ["after"]
