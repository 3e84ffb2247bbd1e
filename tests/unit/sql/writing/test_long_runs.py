"""svc.sql.writing.long_runs: statements that take more than a turn."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from svc.errors import NotFound, Overloaded, QueryTooLarge, ServerError, StoreFailure
from svc.sql.running import ThreadRun
from svc.store import Store, Table
from svc.store.schema import TableDefinition
from svc.store.writing import long_write
from tests.support.sql_writes import Sql, open_snapshots, put, records_of
from tests.unit.store.writing.test_long_write import Turns


def numbers(table: Table) -> list[Any]:
    return [record["n"] for record in records_of(table)]


def test_a_long_update_beside_single_writes(sql: Sql, turns: Turns, store: Store, counted: Table) -> None:
    task = turns.start(sql.whole("UPDATE data.Item SET n = n + 1"))
    others: list[asyncio.Task[Any]] = []
    for number in range(5):
        turns.turn()
        others.append(turns.start(sql.whole(f"UPDATE data.Item SET n = n * 10 WHERE id = {number}")))
    assert not task.done()
    turns.until(lambda: task.done() and all(other.done() for other in others))
    turns.turn()
    assert task.result()["message"] == "updated 80 of 80 records" and numbers(counted) == [10] * 5 + [1] * 75
    assert sql.engine.long_reads == 1


def test_two_long_updates_add_up(sql: Sql, turns: Turns, counted: Table) -> None:
    tasks = [turns.start(sql.whole("UPDATE data.Item SET n = n + 1")) for _ in range(3)]
    turns.until(lambda: all(task.done() for task in tasks))
    turns.turn()
    assert numbers(counted) == [3] * 80


def test_one_that_reads_for_too_long_is_begun_again(sql: Sql, turns: Turns, store: Store, counted: Table) -> None:
    sql.engine.most_rows = 0
    task = turns.start(sql.whole("UPDATE data.Item SET n = n + 1 WHERE id = 3 RETURNING n"))
    turns.until(task.done)
    assert task.result() == [{"n": 1}] and sum(numbers(counted)) == 1
    task = turns.start(sql.whole("INSERT INTO data.Item (id, n) SELECT max(id) + 1, 5 FROM data.Item"))
    turns.until(task.done)
    assert task.result()["inserted_hashes"] == [80]


def test_returning_that_takes_too_long_begins_again(sql: Sql, turns: Turns, counted: Table) -> None:
    read = sql.engine.read_now

    def slow(reading: Any, *arguments: Any) -> Any:
        sql.engine.most_rows = 0 if reading.given else 1000
        return read(reading, *arguments)

    sql.engine.read_now = slow
    task = turns.start(sql.whole("UPDATE data.Item SET n = n + 1 WHERE id = 3 RETURNING n"))
    turns.until(task.done)
    assert task.result() == [{"n": 1}] and sql.engine.long_reads == 2 and sum(numbers(counted)) == 1


def test_who_cannot_wait_makes_it_begin_again(sql: Sql, turns: Turns, store: Store, counted: Table) -> None:
    batches = []

    def disturb() -> None:
        batches.append(sql.engine.reads)
        if len(batches) == 2:
            put(store, counted, 0, wait=True, n=100)

    sql.engine.on_batch = disturb
    task = turns.start(sql.whole("UPDATE data.Item SET n = n + 1"))
    turns.until(task.done)
    turns.turn()
    assert task.result()["message"] == "updated 80 of 80 records" and numbers(counted) == [101] + [1] * 79 and sql.engine.long_reads == 2


def test_it_gives_up_when_that_happens_again_and_again(sql: Sql, turns: Turns, store: Store, counted: Table) -> None:
    sql.engine.on_batch = lambda: put(store, counted, 0, wait=True, n=100)
    task = turns.start(sql.whole("UPDATE data.Item SET n = n + 1"))
    turns.until(task.done)
    turns.turn()
    assert isinstance(task.exception(), Overloaded) and numbers(counted) == [100] + [0] * 79
    assert sql.engine.long_reads == long_write.RESTARTS + 1


def test_a_table_that_is_changed_meanwhile(sql: Sql, turns: Turns, store: Store, counted: Table) -> None:
    def change() -> None:
        sql.engine.on_batch = lambda: None
        counted.database.define_table(TableDefinition("Item", attributes=counted.definition.attributes[:3]))

    sql.engine.on_batch = change
    task = turns.start(sql.whole("UPDATE data.Item SET n = n + 1"))
    turns.until(task.done)
    assert isinstance(task.exception(), ServerError) and numbers(counted) == [0] * 80
    sql.engine.on_batch = lambda: counted.database.drop_table("Item")
    task = turns.start(sql.whole("UPDATE data.Item SET n = n + 1"))
    turns.until(task.done)
    assert isinstance(task.exception(), NotFound)


@pytest.mark.parametrize("moment", ["read", "written"])
def test_who_goes_away_leaves_nothing(sql: Sql, turns: Turns, store: Store, counted: Table, moment: str) -> None:
    before = open_snapshots(store)
    task = turns.start(sql.whole("UPDATE data.Item SET n = n + 1 RETURNING n"))
    if moment == "read":
        turns.until(lambda: sql.engine.reads == 1)
    else:
        turns.until(lambda: sql.engine.long_reads == 2)  # the second is that of RETURNING
        turns.until(lambda: sql.engine.reads == 0)
    task.cancel()
    turns.until(task.done)
    turns.turn()
    assert task.cancelled() and numbers(counted) == [0] * 80 and counted.database.env.holder is None
    assert open_snapshots(store) == before
    put(store, counted, 0, n=5)
    turns.turn()
    assert numbers(counted)[0] == 5


def test_a_query_that_fails_in_the_middle_writes_nothing(sql: Sql, turns: Turns, store: Store, counted: Table) -> None:
    before = open_snapshots(store)

    def fail() -> None:
        raise StoreFailure("no")

    sql.engine.on_batch = fail
    for statement in (
        "UPDATE data.Item SET n = n + 1",
        "DELETE FROM data.Item",
        "INSERT INTO data.Item (id) SELECT id + 100 FROM data.Item",
    ):
        task = turns.start(sql.whole(statement))
        turns.until(task.done)
        assert isinstance(task.exception(), StoreFailure)
    del task
    turns.turn()
    assert numbers(counted) == [0] * 80 and open_snapshots(store) == before


def test_readers_see_all_of_it_or_nothing(sql: Sql, turns: Turns, counted: Table) -> None:
    task = turns.start(sql.whole("UPDATE data.Item SET n = n + 1"))
    while not task.done():
        assert set(numbers(counted)) in ({0}, {1})
        turns.turn()


def test_many_deletions_and_what_they_entail(sql: Sql, turns: Turns, store: Store, counted: Table, children: Any) -> None:
    child = children("cascade")
    turns.finish(sql.whole(f"INSERT INTO data.{child.name} (id, itemId) SELECT id, id / 10 FROM data.Item"))
    turns.turn()
    answer = turns.finish(sql.whole("DELETE FROM data.Item WHERE id < 6"))  # of 60 records that go as well
    turns.turn()
    assert answer["message"] == "6 of 6 records successfully deleted" and len(records_of(child)) == 20
    turns.finish(sql.whole("DELETE FROM data.Item"))
    assert records_of(counted) == records_of(child) == []


def test_subscribers_hear_of_a_long_one(sql: Sql, turns: Turns, store: Store, counted: Table) -> None:
    heard: list[Any] = []
    store.on_commit.append(lambda database, entries: heard.extend(entries))
    turns.finish(sql.whole("UPDATE data.Item SET n = n + 1"))
    turns.turn()
    assert {(entry.user, entry.operation, entry.changed) for entry in heard} == {("anna", 2, ("n",))} and len(heard) == 80


def test_a_hundred_thousand_cannot_be_held(sql: Sql, turns: Turns, counted: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql.engine, "most_memory", 30_000)
    for statement in ("UPDATE data.Item SET name = 'x'", "DELETE FROM data.Item"):
        task = turns.start(sql.whole(statement))
        turns.until(task.done)
        problem: Any = task.exception()
        assert problem.code == "QUERY_TOO_LARGE" and "sql.maxMemory" in problem.message and "LIMIT" in problem.message
    turns.turn()
    assert numbers(counted) == [0] * 80
    assert turns.finish(sql.whole("DELETE FROM data.Item LIMIT 60"))["message"] == "60 of 60 records successfully deleted"


@pytest.fixture
def threaded(store: Store, items: Table) -> Iterator[Sql]:
    with ThreadPoolExecutor(2) as executor:
        found = Sql(store, executor)
        yield found
        found.close()
    store.check()


def test_threads_read_while_others_write(threaded: Sql, turns: Turns, store: Store, items: Table) -> None:
    rows = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 3000) SELECT x, 0 FROM c"
    turns.finish(threaded.whole(f"INSERT INTO data.Item (id, n) {rows}"))
    turns.turn()
    tasks = [turns.start(threaded.whole(f"UPDATE data.Item SET n = n + 1 {returning}")) for returning in ("", "RETURNING n", "")]
    others = []
    for number in range(1, 30):
        turns.turn()
        others.append(turns.start(threaded.whole(f"UPDATE data.Item SET n = n + 100 WHERE id = {number}")))
    turns.until(lambda: all(task.done() for task in (*tasks, *others)))
    turns.turn()
    assert all(task.result() for task in (*tasks, *others)) and len(tasks[1].result()) == 3000
    assert numbers(items) == [103] * 29 + [3] * 2971


def test_who_goes_away_waits_until_the_thread_has_left_what_it_reads(
    threaded: Sql, turns: Turns, store: Store, items: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, items, 1, n=1)
    turns.turn()
    may_go, inside = Event(), Event()
    step = ThreadRun._step

    def wait(run: ThreadRun, *args: Any) -> Any:
        inside.set()
        may_go.wait(60)
        return step(run, *args)

    monkeypatch.setattr(ThreadRun, "_step", wait)
    threaded.engine.most_rows = 0
    before = open_snapshots(store)
    task = turns.start(threaded.whole("UPDATE data.Item SET n = n + 1"))
    turns.until(inside.is_set)
    task.cancel()
    for _ in range(5):
        turns.turn()
    assert not task.done() and open_snapshots(store)["data"] == before["data"] + 1
    may_go.set()
    turns.until(task.done)
    assert task.cancelled() and open_snapshots(store) == before and items.database.env.holder is None and numbers(items) == [1]


class FakeSource:
    """What a table with a source is cached from. `before`: what happens before it has written."""

    def __init__(self, before: Any = None) -> None:
        self.written: list[Any] = []
        self.before = before

    def write_through(self, writes: list[Any], holder: Any) -> Any:
        self.written += [(write.id if write.key else None, write.data) for write in writes]
        return None if self.before is None else self._wait()

    async def _wait(self) -> None:
        self.before()
        await asyncio.sleep(0)


@pytest.mark.parametrize("waits", [False, True])
def test_a_source_writes_first(sql: Sql, turns: Turns, counted: Table, waits: bool) -> None:
    source = FakeSource((lambda: None) if waits else None)
    counted.cache(source)
    rows = turns.finish(sql.whole("UPDATE data.Item SET n = n + 1 WHERE id < 2 RETURNING id, n"))
    assert rows == [{"id": 0, "n": 1}, {"id": 1, "n": 1}] and source.written == [(0, {"n": 1}), (1, {"n": 1})]
    turns.finish(sql.whole("INSERT INTO data.Item (id, n) VALUES (100, 1)"))
    assert turns.finish(sql.whole("INSERT INTO data.Item (id, n) VALUES (101, 1 + 1), (0, 5) RETURNING n")) == [{"n": 2}]
    turns.finish(sql.whole("DELETE FROM data.Item WHERE id = 1"))
    assert len(source.written) == 5
    turns.turn()
    assert turns.finish(sql.whole("UPDATE data.Item SET n = 7"))["message"] == "updated 81 of 81 records"
    task = turns.start(sql.whole("UPDATE data.Item SET n = 8 RETURNING n"))
    turns.until(task.done)
    assert isinstance(task.exception(), QueryTooLarge) and "source" in str(task.exception())
    assert set(numbers(counted)) == {7} and len(source.written) == 5 + 81
    counted.cache(None)


def test_a_source_that_refuses_prevents_it(sql: Sql, counted: Table) -> None:
    def refuse() -> None:
        raise StoreFailure("no")

    counted.cache(FakeSource())
    counted.caching.write_through = lambda writes, holder: refuse()
    assert isinstance(sql.fault("UPDATE data.Item SET n = n + 1 WHERE id < 2"), StoreFailure)
    counted.cache(None)
    assert set(numbers(counted)) == {0}
