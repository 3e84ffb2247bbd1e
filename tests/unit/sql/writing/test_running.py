"""svc.sql.writing.running: which way a statement goes, and what happens to it beside other writers."""

from typing import Any

import pytest

from svc.errors import NotFound
from svc.sql.parser import parse
from svc.sql.writing.running import queries_of_write
from svc.store import Store, Table
from svc.store.schema import Attribute, TableDefinition
from tests.support.sql_writes import Caller, Sql, put, records_of
from tests.unit.store.writing.test_long_write import Turns, many


def numbers(table: Table) -> list[Any]:
    return [record["n"] for record in records_of(table)]


def test_a_short_one_waits_behind_a_long_write(sql: Sql, turns: Turns, store: Store, items: Table) -> None:
    put(store, items, 1, n=1)
    turns.turn()
    first = turns.start(many(store, _seats(store)).apply_long())
    turns.until(lambda: items.database.env.holder is not None)
    task = turns.start(sql.whole("UPDATE data.Item SET n = n + 1 RETURNING n"))
    insert = turns.start(sql.whole("INSERT INTO data.Item (id, n) VALUES (2, 2)"))
    turns.turn()
    assert not task.done() and not insert.done()
    turns.until(lambda: first.done() and task.done() and insert.done())
    turns.turn()
    assert task.result() == [{"n": 2}] and numbers(items) == [2, 2] and sql.engine.long_reads == 0


def _seats(store: Store) -> Table:
    attributes = (Attribute("code", "ID", primary_key=True), Attribute("price", "Float"), Attribute("place", "String"))
    return store.databases["data"].define_table(TableDefinition("Seat", attributes=attributes, primary_key="code"))


def test_one_that_has_waited_is_for_the_table_as_it_is_then(sql: Sql, turns: Turns, store: Store, items: Table) -> None:
    put(store, items, 1, n=1)
    turns.turn()
    long = turns.start(many(store, _seats(store)).apply_long())
    turns.until(lambda: items.database.env.holder is not None)
    task = turns.start(sql.whole("UPDATE data.Item SET n = n + 1"))
    gone = turns.start(sql.whole("DELETE FROM data.Item WHERE id = 7"))
    turns.turn()
    items.database.drop_table("Item")
    turns.until(lambda: long.done() and task.done() and gone.done())
    assert isinstance(task.exception(), NotFound) and isinstance(gone.exception(), NotFound)


def test_what_a_dynamic_table_learns_waits_too(sql: Sql, turns: Turns, store: Store, loose: Table) -> None:
    turns.finish(sql.whole("INSERT INTO data.Loose (id) VALUES ('a')"))
    turns.turn()
    long = turns.start(many(store, _seats(store)).apply_long())
    turns.until(lambda: loose.database.env.holder is not None)
    tasks = [
        turns.start(sql.whole(text))
        for text in (
            "UPDATE data.Loose SET color = 'red' RETURNING color",
            "INSERT INTO data.Loose (id, shade) VALUES ('b', 'dark')",
            "INSERT INTO data.Loose (id, tone) VALUES ('c', 'x' || 'y') RETURNING tone",
        )
    ]
    turns.turn()
    assert not any(task.done() for task in tasks) and "color" not in loose.attributes and not long.done()
    turns.until(lambda: all(task.done() for task in tasks))
    turns.turn()
    assert tasks[0].result() == [{"color": "red"}] and tasks[2].result() == [{"tone": "xy"}]
    assert {record["id"]: (record.get("color"), record.get("shade"), record.get("tone")) for record in records_of(loose)} == {
        "a": ("red", None, None), "b": (None, "dark", None), "c": (None, None, "xy"),
    }  # fmt: skip


def test_what_a_statement_asks(sql: Sql, items: Table, loose: Table) -> None:
    statement: Any = parse("UPDATE data.Item SET n = n + 1 WHERE id > 5 RETURNING id")
    queries = queries_of_write(statement, "", None, Caller(), sql.engine)
    assert len(queries) == 2 and all(query.tables[0].table is items for query, _ in queries)
    plain: Any = parse("INSERT INTO data.Item (id) VALUES (1)")
    assert queries_of_write(plain, "", None, Caller(), sql.engine) == [] and records_of(items) == []


@pytest.mark.parametrize(
    ("statement", "plans"),
    [
        ("UPDATE data.Item SET n = n + 1 WHERE n = 5", 1),
        ("EXPLAIN UPDATE data.Item SET n = n + 1 WHERE n = 5 RETURNING *", 3),
        ("DELETE FROM data.Item RETURNING id", 1),
        ("INSERT INTO data.Item (id) VALUES (1)", 0),
        ("INSERT INTO data.Item (id) SELECT id + 1 FROM data.Item", 1),
        ("INSERT INTO data.Loose (id, new) VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET new = Loose.new + excluded.new RETURNING new", 4),
    ],
)
def test_its_plan(sql: Sql, items: Table, loose: Table, statement: str, plans: int) -> None:
    plan = sql.engine.run(statement, None, Caller(explain=True))
    assert plan["plan"].count("SCAN") == plans == len([step for step in plan["steps"] if "SCAN" in step["step"]]), plan["plan"]
    assert records_of(items) == records_of(loose) == [] and "new" not in loose.attributes
