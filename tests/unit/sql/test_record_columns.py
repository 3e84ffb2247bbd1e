"""Results with most of a record: SQLite hands on the record, and what comes out is the same as column by column."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import svc.sql.binding
from svc.sql.catalogue import RECORD
from svc.sql.options import SqlOptions
from svc.store.schema import Attribute, TableDefinition
from tests.support.sql_engine import SqlStore, reads

ITEM = TableDefinition(
    "Item",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("name", "String", indexed=True),
        Attribute("rank", "Long", indexed=True),
        Attribute("price", "Float"),
        Attribute("active", "Boolean"),
        Attribute("made", "Date"),
        Attribute("tags", "String", elements=True),
        Attribute("big", "BigInt"),
        Attribute("other", "Any"),
        Attribute("brand", "ID", indexed=True),
        Attribute("twice", "Long", computed_from="rank * 2"),
    ),
)
BRAND = TableDefinition(
    "Brand",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("name", "String"),
        Attribute("since", "Int"),
        Attribute("logo", "Bytes"),
    ),
)
ODD = TableDefinition(
    "Odd", attributes=(Attribute("id", "ID", primary_key=True), Attribute('a"b', "Int"), Attribute("d e", "Int"), Attribute("f", "Any"))
)
FULL = {
    "id": "a", "name": "one", "rank": 1, "price": 5, "active": True, "made": datetime(2024, 1, 5, tzinfo=UTC), "tags": ["x"],
    "big": 2**70, "other": {"k": [1, True, datetime(2024, 1, 5, tzinfo=UTC)]}, "brand": "x",
}  # fmt: skip
ALL_ITEM = "id, name, rank, price, active, made, tags, big, other, brand"

HANDED_ON = [
    "SELECT * FROM data.Item",
    f"SELECT {ALL_ITEM} FROM data.Item",
    "SELECT twice, * FROM data.Item ORDER BY rank DESC, id",
    "SELECT id, name, id AS again, rank, price, made, twice FROM data.Item WHERE rank > 0",
    "SELECT UPPER(name) AS upper, id, name, rank + 1, active, big, other, tags FROM data.Item ORDER BY 1, 2 DESC",
    "SELECT * FROM data.Item ORDER BY 4, 1 LIMIT 2 OFFSET 1",
    "SELECT * FROM data.Item AS i JOIN data.Brand AS b ON b.id = i.brand ORDER BY i.id",
    "SELECT i.*, b.name FROM data.Item AS i LEFT JOIN data.Brand AS b ON b.id = i.brand ORDER BY i.id",
    "SELECT b.*, i.rank FROM data.Brand AS b LEFT JOIN data.Item AS i ON b.id = i.brand ORDER BY b.id, i.id",
    "SELECT i.*, b.* FROM data.Item AS i LEFT JOIN data.Brand AS b ON b.id = i.brand ORDER BY i.id",
    "SELECT i.*, b.* FROM data.Item AS i FULL JOIN data.Brand AS b ON b.id = i.brand ORDER BY i.id, b.id",
    "SELECT a.*, b.* FROM data.Item AS a JOIN data.Item AS b ON a.rank < b.rank ORDER BY a.id, b.id",
    'SELECT * FROM data.Odd ORDER BY "d e"',
    "SELECT * FROM data.Item WHERE name = 'one' OR rank = 3 ORDER BY id",
    "SELECT *, ROW_NUMBER() OVER (ORDER BY rank DESC) AS n FROM data.Item ORDER BY id",
]
COLUMN_BY_COLUMN = [
    "SELECT id, name, rank FROM data.Item",
    "SELECT id, name, since, COUNT(*) FROM data.Brand GROUP BY id, name, since",
    "SELECT DISTINCT id, name, since, logo FROM data.Brand",
    "SELECT * FROM data.Brand UNION ALL SELECT * FROM data.Brand",
    "SELECT * FROM (SELECT * FROM data.Brand) AS b",
    "WITH b AS (SELECT * FROM data.Brand) SELECT * FROM b",
]


@pytest.fixture
def tables(tmp_path):
    made = SqlStore(tmp_path, [ITEM, BRAND, ODD])
    made.put("Item", [FULL, {"id": "b", "name": "two", "rank": 2, "brand": "none", "price": 2.5, "undeclared": 1}, {"id": "c", "rank": 3}])
    made.put("Brand", [{"id": "x", "name": "X", "since": 1990, "logo": b"\0\xff"}, {"id": "y"}])
    made.put("Odd", [{"id": "k", 'a"b': 1, "d e": 2, "f": [1]}, {"id": "l"}])
    yield made
    made.close()


def texts(tables: SqlStore) -> list[str]:
    return [prepared.bound.text for prepared in tables.engine._prepared.values() if prepared.bound is not None]


def forget(tables: SqlStore) -> None:
    tables.engine._prepared.clear()
    tables.engine._shapes.clear()


def column_by_column(tables: SqlStore, text: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Any:
    forget(tables)
    with monkeypatch.context() as patch:
        patch.setattr(svc.sql.binding, "hand_on_records", lambda relation: ())
        rows = tables.ask(text, **options)
    assert not any(RECORD in each for each in texts(tables))
    forget(tables)
    return rows


@pytest.mark.parametrize("text", HANDED_ON)
def test_what_comes_out_is_the_same(tables, monkeypatch, text):
    expected = column_by_column(tables, text, monkeypatch)
    rows = tables.ask(text)
    assert any(RECORD in each for each in texts(tables))
    assert rows == expected and len(rows) > 0
    assert [list(map(type, row)) for row in rows] == [list(map(type, row)) for row in expected]


@pytest.mark.parametrize("text", COLUMN_BY_COLUMN)
def test_other_results(tables, text):
    assert tables.ask(text)
    assert not any(RECORD in each for each in texts(tables))


def test_values_are_those_that_are_stored(tables):
    assert tables.ask("SELECT * FROM data.Item WHERE id = 'a'") == [list(FULL.values())]
    ((price,),) = tables.ask("SELECT price FROM data.Item WHERE id = 'a'")
    assert type(price) is int


def test_what_may_not_be_read_is_not_read_from_the_record(tables, monkeypatch):
    user = tables.user({"Item": reads("id", "name", "price", "made", "tags")})
    expected = column_by_column(tables, "SELECT * FROM data.Item", monkeypatch, user=user)
    rows = tables.ask("SELECT * FROM data.Item", user=user)
    assert any(RECORD in each for each in texts(tables))
    assert rows == expected and [len(row) for row in rows] == [5, 5, 5]


def test_no_statement_can_name_the_record(tables):
    for name in (f'"{RECORD}"', f"`{RECORD}`", f"[{RECORD}]"):
        with pytest.raises(Exception, match=r"unknown column|Invalid SQL"):
            tables.ask(f"SELECT {name} FROM data.Item")


def test_on_a_thread(tmp_path):
    tables = SqlStore(tmp_path, [ITEM], SqlOptions())
    try:
        tables.put("Item", [{"id": f"k{n:05}", "rank": n, "price": n / 4} for n in range(5000)])
        rows = tables.ask("SELECT * FROM data.Item ORDER BY price DESC")
        assert [row[0] for row in rows] == [f"k{n:05}" for n in range(4999, -1, -1)] and rows[0][2:4] == [4999, 1249.75]
    finally:
        tables.close()
