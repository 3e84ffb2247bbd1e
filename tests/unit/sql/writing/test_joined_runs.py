"""svc.sql.writing.joined_runs: statements within a transaction of an application."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from svc.api.context import Context
from svc.api.transactions import Transaction
from svc.awaitables import is_waiting, settled
from svc.errors import NotUnique, Problem, QueryError, QueryTooLarge, RecordExists
from svc.sql.writing.collector import RecordChanged
from svc.store import Store, Table
from svc.store.schema import Attribute, TableDefinition
from tests.support.snapshots import give_up_snapshots
from tests.support.sql_writes import Sql, User, records_of
from tests.unit.store.writing.test_long_write import Turns


class Application:
    """Code with a transaction of its own."""

    def __init__(self, sql: Sql, turns: Turns) -> None:
        self.sql = sql
        self.turns = turns
        self.context = Context(User())  # type: ignore[arg-type]
        self.transaction = Transaction(sql.store, self.context)
        self.transaction.is_lasting = True

    async def ask(self, text: str, parameters: Any = None) -> Any:
        return await self.sql.whole(text, parameters, joined=self.transaction, context=self.context)

    async def commit(self) -> None:
        waiting = settled(self.transaction.apply())
        if is_waiting(waiting):
            await waiting
        self.transaction.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run it to its end, and the turn as well; raises what it raises."""
        result = self.turns.finish(work)
        self.turns.turn()
        return result

    def refused(self, work: Coroutine[Any, Any, Any]) -> Problem:
        with pytest.raises(Problem) as problem:
            self.run(work)
        self.transaction.abort()
        self.transaction.close()
        self.turns.turn()
        return problem.value


@pytest.fixture
def application(sql: Sql, turns: Turns) -> Iterator[Callable[[], Application]]:
    made: list[Application] = []

    def make() -> Application:
        made.append(Application(sql, turns))
        return made[-1]

    yield make
    for each in made:
        if not each.transaction.is_closed:
            each.transaction.abort()
            each.transaction.close()


@pytest.fixture
def two(sql: Sql, items: Table) -> Table:
    sql("INSERT INTO data.Item (id, n, name) VALUES (1, 10, 'a'), (2, 20, 'b')")
    return items


def test_statements_see_what_the_transaction_has_written(sql: Sql, two: Table, application: Callable[[], Application]) -> None:
    app = application()

    async def work() -> None:
        app.transaction.writes.put(two, 3, {"n": 30})
        assert (await app.ask("UPDATE data.Item SET n = n + 1"))["message"] == "updated 3 of 3 records"
        assert await app.ask("UPDATE data.Item SET n = n + 1 WHERE id > 1 RETURNING id, n") == [{"id": 2, "n": 22}, {"id": 3, "n": 32}]
        assert await app.ask("INSERT INTO data.Item (id, n) VALUES (3, 0), (4, 0)") == {
            "message": "inserted 1 of 2 records",
            "inserted_hashes": [4],
            "skipped_hashes": [3],
        }
        assert (await app.ask("DELETE FROM data.Item WHERE n IN (11, 22)"))["deleted_hashes"] == [1, 2]
        assert await app.ask("DELETE FROM data.Item WHERE id = 3 RETURNING n") == [{"n": 32}]
        assert (await app.ask("INSERT INTO data.Item (id, n) VALUES (1, 1)"))["inserted_hashes"] == [1]
        answer = await app.ask(
            "INSERT INTO data.Item (id, n) VALUES (1, 5), (4, 5) ON CONFLICT (id) DO UPDATE SET n = n + excluded.n RETURNING id, n"
        )
        assert answer == [{"id": 1, "n": 6}, {"id": 4, "n": 5}]
        assert records_of(two) == [{"id": 1, "n": 10, "name": "a"}, {"id": 2, "n": 20, "name": "b"}], "it is seen before it is committed"
        await app.commit()

    app.run(work())
    assert records_of(two) == [{"id": 1, "n": 6}, {"id": 4, "n": 5}]


def test_it_need_not_wait(sql: Sql, two: Table, application: Callable[[], Application], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql.store.slices, "run", lambda steps: all(True for _ in steps))
    app = application()
    result, _ = sql.begin("UPDATE data.Item SET n = n + 1 RETURNING n", joined=app.transaction)
    with pytest.raises(StopIteration) as stopped:
        result.send(None)
    assert stopped.value.value == [{"n": 11}, {"n": 21}]


READ = "UPDATE data.Item SET n = n + 1, flag = TRUE WHERE id = 1"
OTHERS = {
    "UPDATE data.Item SET n = 100 WHERE id = 1": True,
    "DELETE FROM data.Item WHERE id = 1": True,
    "UPDATE data.Item SET name = 'z' WHERE id = 1": False,
    "UPDATE data.Item SET n = 10 WHERE id = 1": False,
    "UPDATE data.Item SET flag = FALSE WHERE id = 1": False,
    "UPDATE data.Item SET n = 100 WHERE id = 2": False,
}


@pytest.mark.parametrize("repeated", [1, 2])
@pytest.mark.parametrize("other", OTHERS)
def test_what_was_read_has_to_hold_when_it_is_committed(
    sql: Sql, two: Table, application: Callable[[], Application], other: str, repeated: int
) -> None:
    app = application()

    async def work() -> None:
        for _ in range(repeated):
            await app.ask(READ)
        sql(other)
        await app.commit()

    if OTHERS[other]:
        problem = app.refused(work())
        assert isinstance(problem, RecordChanged) and problem.status_code == 409
    else:
        app.run(work())
        assert records_of(two)[0]["n"] == 10 + repeated and records_of(two)[0]["flag"] is True


@pytest.mark.parametrize(
    ("statement", "other", "is_conflict"),
    [
        ("DELETE FROM data.Item WHERE n = 10", "UPDATE data.Item SET n = 11 WHERE id = 1", True),
        ("DELETE FROM data.Item WHERE n = 10", "DELETE FROM data.Item WHERE id = 1", True),
        ("DELETE FROM data.Item WHERE n = 10", "UPDATE data.Item SET name = 'x' WHERE id = 1", False),
        ("UPDATE data.Item SET n = 0 WHERE double = 20", "UPDATE data.Item SET name = 'x' WHERE id = 1", True),
        ("UPDATE data.Item SET n = 0", "UPDATE data.Item SET n = 5 WHERE id = 1", False),
        ("UPDATE data.Item SET n = 0", "DELETE FROM data.Item WHERE id = 1", True),
        ("INSERT INTO data.Item (id, n) VALUES (7, 7)", "INSERT INTO data.Item (id, n) VALUES (7, 8)", True),
        ("INSERT INTO data.Item (id, n) VALUES (1, 7)", "DELETE FROM data.Item WHERE id = 1", False),
        (
            "INSERT INTO data.Item (id, n) VALUES (1, 7) ON CONFLICT (id) DO UPDATE SET n = n + excluded.n",
            "UPDATE data.Item SET n = 11 WHERE id = 1",
            True,
        ),
        (
            "INSERT INTO data.Item (id, n) VALUES (1, 7) ON CONFLICT (id) DO UPDATE SET n = excluded.n",
            "UPDATE data.Item SET n = 11 WHERE id = 1",
            False,
        ),
    ],
)
def test_nothing_is_lost(
    sql: Sql, two: Table, application: Callable[[], Application], statement: str, other: str, is_conflict: bool
) -> None:
    app = application()

    async def work() -> None:
        await app.ask(statement)
        sql(other)
        await app.commit()

    if is_conflict:
        problem = app.refused(work())
        assert isinstance(problem, RecordChanged | RecordExists) and problem.status_code == 409
    else:
        app.run(work())


def test_of_two_transactions_that_read_the_same_one_fails(sql: Sql, two: Table, application: Callable[[], Application]) -> None:
    first, second = application(), application()

    async def work() -> None:
        for app in (first, second):
            await app.ask(READ)
        await second.commit()
        await first.commit()

    assert isinstance(first.refused(work()), RecordChanged)
    assert records_of(two)[0]["n"] == 11


def test_times_are_no_change(sql: Sql, strict: Table, application: Callable[[], Application]) -> None:
    sql("INSERT INTO data.Strict (key, need) VALUES ('a', 1)")
    app = application()

    async def work() -> None:
        for _ in range(3):
            assert (await app.ask("UPDATE data.Strict SET need = need + 1 WHERE changed > 0 RETURNING made"))[0]["made"].year == 2026
        await app.commit()

    app.run(work())
    assert records_of(strict)[0]["need"] == 4


def test_a_statement_that_fails_leaves_the_transaction_as_it_was(
    sql: Sql, two: Table, strict: Table, application: Callable[[], Application], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = application()
    refused: list[type] = []

    async def attempt(text: str) -> None:
        try:
            await app.ask(text)
        except Problem as problem:
            refused.append(type(problem))

    async def work() -> None:
        await app.ask("UPDATE data.Item SET n = n + 1")
        await app.ask("INSERT INTO data.Strict (key, mail, need) VALUES ('a', 'x', 1)")
        await attempt("INSERT INTO data.Strict (key, mail, need) VALUES ('b', 'y', 1), ('c', 'x', 1)")
        await attempt("UPDATE data.Item SET n = n + 1 RETURNING nothing")
        read = sql.engine.read_now

        def fail(reading: Any, *arguments: Any) -> Any:
            if reading.given:
                raise QueryTooLarge("no", budget="rows")
            return read(reading, *arguments)

        monkeypatch.setattr(sql.engine, "read_now", fail)
        await attempt("UPDATE data.Item SET n = n + 100 RETURNING n")
        monkeypatch.undo()
        assert await app.ask("UPDATE data.Item SET n = n + 1 RETURNING n") == [{"n": 12}, {"n": 22}]
        await app.commit()

    app.run(work())
    assert refused == [NotUnique, QueryError, QueryTooLarge]
    assert [record["n"] for record in records_of(two)] == [12, 22] and [record["key"] for record in records_of(strict)] == ["a"]


def test_keys_and_new_attributes(sql: Sql, loose: Table, items: Table, application: Callable[[], Application]) -> None:
    app = application()

    async def work() -> None:
        rows = await app.ask("INSERT INTO data.Loose (color) VALUES ('red'), (lower('BLUE')) RETURNING id, color")
        assert [row["color"] for row in rows] == ["red", "blue"]
        keys = (await app.ask("INSERT INTO data.Item (n) VALUES (1), (2)"))["inserted_hashes"]
        assert await app.ask("UPDATE data.Item SET n = n + 1 RETURNING id, n") == [{"id": keys[0], "n": 2}, {"id": keys[1], "n": 3}]
        await app.commit()

    app.run(work())
    assert len(records_of(loose)) == len(records_of(items)) == 2


def test_a_table_that_learns_in_the_middle(sql: Sql, loose: Table, application: Callable[[], Application]) -> None:
    sql("INSERT INTO data.Loose (id, color) VALUES ('a', 'x')")
    app = application()

    async def work() -> None:
        assert await app.ask("UPDATE data.Loose SET color = 'y' RETURNING color") == [{"color": "y"}]
        app.transaction.writes.put(loose, "b", {"color": "z", "size": 1})
        assert app.transaction.get_raw(loose, "b") is not None
        assert await app.ask("UPDATE data.Loose SET shade = color || size RETURNING shade, color") == [
            {"shade": None, "color": "y"},
            {"shade": "z1", "color": "z"},
        ]
        assert await app.ask("DELETE FROM data.Loose WHERE shade = 'z1' OR size = 5 RETURNING id") == [{"id": "b"}]
        await app.commit()

    app.run(work())
    assert [(record["id"], record["color"]) for record in records_of(loose)] == [("a", "y")]


def test_other_databases_are_seen_with_what_was_written_to_them(
    sql: Sql, store: Store, two: Table, application: Callable[[], Application]
) -> None:
    other = store.open_database("other")
    attributes = (Attribute("id", "Int", primary_key=True), Attribute("n", "Int"))
    table = other.define_table(TableDefinition("Copy", database="other", attributes=attributes))
    app = application()

    async def work() -> None:
        await app.ask("UPDATE data.Item SET n = n + 1")
        await app.ask("INSERT INTO other.Copy (id, n) SELECT id, n FROM data.Item")
        assert await app.ask("UPDATE other.Copy SET n = (SELECT sum(n) FROM data.Item) WHERE id = 1 RETURNING n") == [{"n": 32}]
        await app.commit()

    app.run(work())
    assert records_of(table) == [{"id": 1, "n": 32}, {"id": 2, "n": 21}]


def test_many_records(sql: Sql, turns: Turns, items: Table, application: Callable[[], Application]) -> None:
    app = application()
    rows = ", ".join(f"({number}, {number})" for number in range(200))

    async def work() -> None:
        assert (await app.ask(f"INSERT INTO data.Item (id, n) VALUES {rows}"))["message"] == "inserted 200 of 200 records"
        sql.engine.most_rows = 0
        found = await app.ask("UPDATE data.Item SET n = -n RETURNING n")
        assert [row["n"] for row in found] == [-number for number in range(200)]
        await app.ask("DELETE FROM data.Item WHERE id >= 100")
        sql.engine.most_rows = 1000
        await app.commit()

    app.run(work())
    assert [record["n"] for record in records_of(items)] == [-number for number in range(100)]


def test_a_conflict_of_a_long_commit(sql: Sql, turns: Turns, items: Table, application: Callable[[], Application]) -> None:
    rows = ", ".join(f"({number}, {number})" for number in range(100))
    turns.finish(sql.whole(f"INSERT INTO data.Item (id, n) VALUES {rows}"))
    app = application()

    async def work() -> None:
        await app.ask("UPDATE data.Item SET n = n + 1")
        sql("UPDATE data.Item SET n = 7 WHERE id = 99")
        await app.commit()

    assert isinstance(app.refused(work()), RecordChanged)
    assert sum(record["n"] for record in records_of(items)) == sum(range(99)) + 7


def test_what_two_tasks_of_one_transaction_do_at_the_same_time_is_not_lost(
    sql: Sql, two: Table, application: Callable[[], Application]
) -> None:
    app = application()
    sql.engine.most_rows = 0

    async def work() -> None:
        await asyncio.gather(*[app.ask("UPDATE data.Item SET n = n + 1") for _ in range(3)])
        await app.commit()

    try:
        app.run(work())
    except RecordChanged:
        app.transaction.abort()
        app.transaction.close()
        app.turns.turn()
        assert [record["n"] for record in records_of(two)] == [10, 20]
    else:
        assert [record["n"] for record in records_of(two)] == [13, 23]


def test_its_snapshot_may_be_another_one_later(sql: Sql, store: Store, two: Table, application: Callable[[], Application]) -> None:
    app = application()

    async def work() -> None:
        await app.ask("UPDATE data.Item SET n = n + 1")
        give_up_snapshots(store)
        await app.ask("UPDATE data.Item SET n = n + 1")
        await app.commit()

    app.run(work())
    assert [record["n"] for record in records_of(two)] == [12, 22]


def test_parameters_may_be_changed_before_the_commit(sql: Sql, two: Table, application: Callable[[], Application]) -> None:
    app = application()

    async def work() -> None:
        given: dict[str, Any] = {"a": [1]}
        await app.ask("UPDATE data.Item SET any = ? WHERE id = 1", [given])
        await app.ask("INSERT INTO data.Item (id, any) VALUES (3, ?)", [given])
        given["a"].append(2)
        given["b"] = 1
        await app.commit()

    app.run(work())
    assert [record.get("any") for record in records_of(two)] == [{"a": [1]}, None, {"a": [1]}]


def test_when_records_expire(sql: Sql, two: Table, application: Callable[[], Application]) -> None:
    app = application()
    app.context.state.expires_at = sql.store.clock.wall() * 1000 - 1000

    async def work() -> None:
        await app.ask("INSERT INTO data.Item (id, n) VALUES (5, 5)")
        await app.commit()

    app.run(work())
    assert two.get_raw(5) is None and len(records_of(two)) == 2
