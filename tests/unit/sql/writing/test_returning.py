"""svc.sql.writing.returning: RETURNING."""

from datetime import UTC, datetime
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.errors import NotUnique, QueryTooLarge
from svc.sql.writing import collector
from svc.store import Store, Table
from svc.store.writing import preview
from tests.support.sql_writes import Sql, records_of
from tests.unit.store.writing.test_long_write import Turns


def test_new_records_with_all_that_they_get(sql: Sql, strict: Table) -> None:
    (row,) = sql("INSERT INTO data.Strict (need) VALUES (5) RETURNING *, label AS label, need * 2, upper(must) AS Loud")
    (record,) = records_of(strict)
    assert row == {
        "key": record["key"], "mail": None, "nick": None, "must": "default", "need": 5, "color": None, "small": None, "made": record["made"],
        "changed": record["changed"], "label": "default", "need * 2": 10, "Loud": "DEFAULT",
    }  # fmt: skip
    assert list(row)[-3:] == ["label", "need * 2", "Loud"] and isinstance(row["made"], datetime)


def test_the_rows_come_in_the_order_of_the_statement(sql: Sql, items: Table) -> None:
    assert sql("INSERT INTO data.Item (id, n) VALUES (3, 1), (1, 2), (2, 3) RETURNING id") == [{"id": 3}, {"id": 1}, {"id": 2}]
    assert sql("UPDATE data.Item SET n = 0 ORDER BY n DESC LIMIT 3 RETURNING id") == [{"id": 2}, {"id": 1}, {"id": 3}]
    assert sql("DELETE FROM data.Item ORDER BY id DESC LIMIT 3 RETURNING id") == [{"id": 3}, {"id": 2}, {"id": 1}]


def test_records_that_were_skipped_have_no_row(sql: Sql, items: Table) -> None:
    sql("INSERT INTO data.Item (id, n) VALUES (1, 1)")
    assert sql("INSERT INTO data.Item (id, n) VALUES (1, 5), (2, 5), (2, 6) RETURNING id, n") == [{"id": 2, "n": 5}]
    assert sql("INSERT INTO data.Item (id, n) VALUES (1, 5) RETURNING id, n") == []
    assert sql("UPDATE data.Item SET n = 5 WHERE id = 99 RETURNING id, n") == []


def test_updated_records_are_as_they_are_now_and_deleted_ones_as_they_were(sql: Sql, items: Table) -> None:
    sql("INSERT INTO data.Item (id, n, flag, tags, any) VALUES (1, 1, TRUE, '[\"a\"]', ?), (2, 2, FALSE, NULL, 5)", [{"x": [True]}])
    rows = sql("UPDATE data.Item SET n = n + 10 RETURNING id, n, flag, tags, any, double, n > 11 AS large")
    assert rows == [
        {"id": 1, "n": 11, "flag": True, "tags": ["a"], "any": {"x": [True]}, "double": 22, "large": 0},
        {"id": 2, "n": 12, "flag": False, "tags": None, "any": 5, "double": 24, "large": 1},
    ]
    assert rows[0]["flag"] is True
    assert sql("DELETE FROM data.Item WHERE id = 1 RETURNING n, any, id AS gone, id, id") == [
        {"n": 11, "any": {"x": [True]}, "gone": 1, "id": 1, "id1": 1}
    ]
    assert len(records_of(items)) == 1


def test_values_are_those_of_records(sql: Sql, items: Table) -> None:
    day = datetime(2024, 1, 5, tzinfo=UTC)
    sql("INSERT INTO data.Item (id, day, data, any) VALUES (1, '2024-01-05', x'00', ?)", [{"when": day}])
    for statement in ("UPDATE data.Item SET n = 2 RETURNING day, data, any", "DELETE FROM data.Item RETURNING day, data, any"):
        assert sql(statement) == [{"day": day, "data": b"\x00", "any": {"when": day}}]


def test_sub_selects_see_what_was_written(sql: Sql, store: Store, items: Table) -> None:
    sql("INSERT INTO data.Item (id, n) VALUES (1, 1), (2, 2)")
    assert sql("UPDATE data.Item SET n = 10 WHERE id = 1 RETURNING (SELECT sum(n) FROM data.Item) AS total") == [{"total": 12}]
    assert sql("INSERT INTO data.Item (id, n) VALUES (3, 3) RETURNING (SELECT count(*) FROM data.Item)") == [
        {"(SELECT COUNT(*) FROM data.Item)": 3}
    ]


def test_sub_selects_see_what_is_deleted(sql: Sql, items: Table) -> None:
    sql("INSERT INTO data.Item (id, n) VALUES (1, 1), (2, 2)")
    assert sql("DELETE FROM data.Item RETURNING id, (SELECT sum(n) FROM data.Item) AS total") == [
        {"id": 1, "total": 3},
        {"id": 2, "total": 3},
    ]


def test_the_alias_of_the_table_can_be_used(sql: Sql, items: Table) -> None:
    assert sql("INSERT INTO data.Item AS i (id, n) VALUES (1, 1) RETURNING i.id, i.*")[0]["id"] == 1
    assert sql("UPDATE data.Item AS i SET n = 2 RETURNING i.n, *")[0]["n"] == 2
    assert sql("UPDATE data.Item i SET n = i.n + 1 RETURNING i.n") == [{"n": 3}]
    assert sql("DELETE FROM data.Item AS i WHERE i.n = 2 RETURNING i.id") == []
    assert sql("DELETE FROM data.Item i RETURNING i.n + 1 AS more") == [{"more": 4}]


@pytest.mark.parametrize("statement", ["UPDATE data.Item SET n = n + 1 RETURNING {}", "INSERT INTO data.Item (id) VALUES (2) RETURNING {}"])
def test_if_it_fails_nothing_is_written(sql: Sql, items: Table, statement: str) -> None:
    sql("INSERT INTO data.Item (id, n) VALUES (1, 1)")
    before = records_of(items)
    read = sql.engine.read_now

    def refuse(reading: Any, *arguments: Any) -> Any:
        if reading.given:
            raise QueryTooLarge("no", budget="rows")
        return read(reading, *arguments)

    sql.engine.read_now = refuse
    assert isinstance(sql.fault(statement.format("n")), QueryTooLarge)
    sql.engine.read_now = read
    assert records_of(items) == before
    assert sql.fault(statement.format("count(*)")).status_code == 400 and records_of(items) == before


def test_a_constraint_that_fails_comes_first(sql: Sql, strict: Table) -> None:
    sql("INSERT INTO data.Strict (key, mail, need) VALUES ('a', 'a@x', 1)")
    assert isinstance(sql.fault("INSERT INTO data.Strict (mail, need) VALUES ('a@x', 1) RETURNING key"), NotUnique)


@pytest.mark.parametrize("is_long", [False, True])
def test_the_times_are_those_that_are_stored(sql: Sql, turns: Turns, strict: Table, clock: FakeClock, is_long: bool) -> None:
    if is_long:
        sql.engine.most_rows = 0
    clock.advance(0.0004)
    rows = turns.finish(sql.whole("INSERT INTO data.Strict (need) VALUES (1 + 1), (2 + 1) RETURNING key, made, changed"))
    turns.turn()
    assert sql.engine.long_reads == (2 if is_long else 0)
    assert {row["key"]: (row["made"], row["changed"]) for row in rows} == {
        record["key"]: (record["made"], record["changed"]) for record in records_of(strict)
    }
    clock.advance(60)
    rows = turns.finish(sql.whole("UPDATE data.Strict SET need = need + 1 RETURNING key, made, changed, need"))
    turns.turn()
    assert {row["key"]: (row["made"], row["changed"], row["need"]) for row in rows} == {
        record["key"]: (record["made"], record["changed"], record["need"]) for record in records_of(strict)
    }
    assert all(row["made"] < datetime.fromtimestamp(row["changed"] / 1000, UTC) for row in rows)


def test_of_many_records(sql: Sql, turns: Turns, items: Table) -> None:
    rows = ", ".join(f"({number})" for number in range(1, 201))
    found = turns.finish(sql.whole(f"INSERT INTO data.Item (n) VALUES {rows} RETURNING id, n, double"))
    stored = [(record["id"], record["n"]) for record in records_of(items)]
    assert [(row["id"], row["n"]) for row in found] == stored and found[5]["double"] == found[5]["n"] * 2
    found = turns.finish(sql.whole("UPDATE data.Item SET n = -n WHERE n > 100 RETURNING n"))
    assert sorted(row["n"] for row in found) == list(range(-200, -100))
    found = turns.finish(sql.whole("DELETE FROM data.Item WHERE n < 0 RETURNING n"))
    assert len(found) == 100 and len(records_of(items)) == 100


def test_more_than_memory_holds(sql: Sql, turns: Turns, items: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ", ".join(f"({number}, {number} + 0)" for number in range(200))
    monkeypatch.setattr(preview, "MOST_PREVIEWED", 100)
    for text in (
        f"INSERT INTO data.Item (id, n) VALUES {rows} RETURNING n",
        "INSERT INTO data.Item (id) VALUES (1000 + 0) RETURNING hex(name) AS x",
    ):
        task = turns.start(sql.whole(text))
        turns.until(task.done)
        if "1000" in text:
            assert task.result() == [{"x": ""}]
        else:
            assert isinstance(task.exception(), QueryTooLarge) and "RETURNING" in str(task.exception())
    monkeypatch.undo()
    monkeypatch.setattr(sql.engine, "most_memory", 200_000)
    long = "x" * 10_000
    task = turns.start(sql.whole(f"INSERT INTO data.Item (id, n) VALUES {rows} RETURNING '{long}' AS long"))
    turns.until(task.done)
    assert isinstance(task.exception(), QueryTooLarge) and "return so many values" in str(task.exception())
    assert len(records_of(items)) == 1 and collector._WRITE * 200 < 200_000
