"""svc.sql.writing.short_runs: statements within a turn."""

from typing import Any

import pytest

from svc.errors import StoreFailure
from svc.store import Store, Table
from svc.store.schema import Attribute, TableDefinition
from tests.support.sql_writes import Sql, open_snapshots, put, records_of


def numbers(table: Table) -> list[Any]:
    return [record["n"] for record in records_of(table)]


def test_two_updates_in_one_turn_add_up(sql: Sql, items: Table) -> None:
    sql("INSERT INTO data.Item (id, n) VALUES (1, 0)")
    results = [sql.begin("UPDATE data.Item SET n = n + 1 RETURNING n") for _ in range(3)]
    assert [result for result, _ in results] == [[{"n": 1}], [{"n": 2}], [{"n": 3}]]
    before = sql.store.stats().commits
    assert numbers(items) == [0], "it is seen before it is committed"
    sql.end_turn()
    assert all(context.pending_commit.outcome == (None,) for _, context in results)
    assert numbers(items) == [3] and sql.store.stats().commits == before + 1


def test_it_sees_what_the_turn_has_written_before(sql: Sql, store: Store, items: Table) -> None:
    put(store, items, 1, n=5)
    sql.begin("INSERT INTO data.Item (id, n) SELECT id + 1, n + 1 FROM data.Item")
    sql.begin("DELETE FROM data.Item WHERE n = 5")
    assert sql("UPDATE data.Item SET n = n * 2")["update_hashes"] == [2]
    assert records_of(items) == [{"id": 2, "n": 12}]


def test_one_that_fails_undoes_itself_only(sql: Sql, strict: Table) -> None:
    sql.begin("INSERT INTO data.Strict (key, mail, need) VALUES ('a', 'x', 1 + 0)")
    with pytest.raises(Exception, match="another record"):
        sql.begin("INSERT INTO data.Strict (key, mail, need) VALUES ('b', 'y', 1 + 0), ('c', 'x', 2)")
    sql.begin("UPDATE data.Strict SET need = 7")
    sql.end_turn()
    assert [(record["key"], record["need"]) for record in records_of(strict)] == [("a", 7)]


def test_a_commit_that_fails_is_told(sql: Sql, items: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    _, context = sql.begin("INSERT INTO data.Item (id) VALUES (1 + 0)")
    monkeypatch.setattr(type(items.database), "commit", lambda self: (_ for _ in ()).throw(StoreFailure("no")))
    items.database.env.abort()
    sql.store.commit_turn()
    assert isinstance(context.pending_commit.outcome[0], StoreFailure)
    monkeypatch.undo()
    items.database.env.end_snapshot()


def test_nothing_is_left_open(sql: Sql, store: Store, items: Table) -> None:
    other = store.open_database("other")
    other.define_table(TableDefinition("Item", database="other", attributes=(Attribute("id", "Int", primary_key=True),)))
    sql("INSERT INTO data.Item (id, n) VALUES (1, 1)")
    before = open_snapshots(store)
    for statement in (
        "INSERT INTO other.Item (id) SELECT id FROM data.Item",
        "INSERT INTO other.Item (id) VALUES (7 + 0) RETURNING (SELECT max(n) FROM data.Item)",
        "UPDATE data.Item SET n = (SELECT count(*) FROM other.Item) RETURNING *",
        "DELETE FROM other.Item WHERE id IN (SELECT n FROM data.Item)",
    ):
        sql(statement)
        assert sql.fault(statement.replace("other.Item", "other.Nothing")).status_code == 404
    assert before == open_snapshots(store)
