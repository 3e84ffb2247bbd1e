"""svc.sql.tables.access: which way a statement takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from svc.store.schema import Attribute, TableDefinition
from tests.support.sql_tables import SqlTables

ITEM = TableDefinition(
    "Item",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("category", "String", indexed=True),
        Attribute("rank", "Int", indexed=True),
        Attribute("price", "Float", indexed=True),
        Attribute("day", "Date", indexed=True),
        Attribute("sku", "String", indexed=True, unique=True),
        Attribute("loose", "Any", indexed=True),
        Attribute("tags", "String", elements=True, indexed=True),
        Attribute("brand", "ID"),
    ),
)
BRAND = TableDefinition("Brand", attributes=(Attribute("id", "ID", primary_key=True), Attribute("name", "String")))
COUNT = 500


@pytest.fixture
def tables(open_tables: Callable[..., SqlTables]) -> SqlTables:
    tables = open_tables(ITEM, BRAND)
    items = [
        {
            "id": f"i{n:03}",
            "category": f"c{n % 50:02}",
            "rank": n * 7 % COUNT,
            "price": n + 0.5,
            "day": f"2024-01-{n % 28 + 1:02}",
            "sku": f"s{n}",
            "loose": n % 100,
            "tags": ["a", f"t{n % 5}"],
            "brand": f"b{n % 10}",
        }
        for n in range(COUNT)
    ]
    tables.fill({"Item": items, "Brand": [{"id": f"b{n}", "name": f"Brand {n}"} for n in range(10)]})
    return tables


ITEMS = 'FROM "@data"."Item" AS i'


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        # the key
        (f"SELECT * {ITEMS} WHERE id = 'i001'", "key: equal, about 1 row"),
        (f"SELECT * {ITEMS} WHERE id = ?", "key: equal, about 1 row"),
        (f"SELECT * {ITEMS} WHERE id = ? AND rank > 5 AND category = 'c01'", "key: equal, about 1 row"),
        (f"SELECT * {ITEMS} WHERE id IN (?, ?)", "key: equal, about 1 row"),
        (f"SELECT * {ITEMS} WHERE id >= 'i010' AND id < 'i020'", "key: range, about 10 rows"),
        (f"SELECT * {ITEMS} WHERE id LIKE 'i01%'", "key: prefix, about 10 rows"),
        (f"SELECT * {ITEMS} ORDER BY id", "scan, in order, about 500 rows"),
        (f"SELECT * {ITEMS} ORDER BY id DESC LIMIT 3", "scan, in descending order, about 3 rows"),
        (f"SELECT * {ITEMS} WHERE id > 'i400' ORDER BY id, rank", "key: range, in order, about 99 rows"),
        # equality by an index
        (f"SELECT * {ITEMS} WHERE category = 'c01'", "index category: equal, about 10 rows"),
        (f"SELECT * {ITEMS} WHERE category = ?", "index category: equal, about 10 rows"),
        (f"SELECT * {ITEMS} WHERE category IS ?", "index category: equal, about 10 rows"),
        (f"SELECT * {ITEMS} WHERE category = 'nothing'", "index category: equal, about 1 row"),
        (f"SELECT * {ITEMS} WHERE sku = ?", "index sku: equal, about 1 row"),
        (f"SELECT * {ITEMS} WHERE category IN ('c01', 'c02')", "index category: equal, about 10 rows"),
        (f"SELECT * {ITEMS} WHERE rank IS NULL", "index rank: null, about 1 row"),
        (f"SELECT * {ITEMS} WHERE loose = 5", "index loose: equal, about 5 rows"),
        (f"SELECT * {ITEMS} WHERE category = ? ORDER BY id", "index category: equal, in order, about 10 rows"),
        (f"SELECT * {ITEMS} WHERE category = ? ORDER BY id DESC LIMIT 2", "index category: equal, in descending order, about 2 rows"),
        # the better one of two
        (f"SELECT * {ITEMS} WHERE category = 'c01' AND rank = 7", "index rank: equal, about 1 row"),
        (f"SELECT * {ITEMS} WHERE category = ? AND sku = ?", "index sku: equal, about 1 row"),
        (f"SELECT * {ITEMS} WHERE rank > 10 AND price > 495", "index price: range, about 5 rows"),
        # ranges
        (f"SELECT * {ITEMS} WHERE rank BETWEEN 10 AND 19", "index rank: range, about 10 rows"),
        (f"SELECT * {ITEMS} WHERE price > 490", "index price: range, about 10 rows"),
        (f"SELECT * {ITEMS} WHERE day >= '2024-01-28'", "index day: range, about 17 rows"),
        (f"SELECT * {ITEMS} WHERE loose >= 5 AND loose < 7", "index loose: range, about 10 rows"),
        (f"SELECT * {ITEMS} WHERE category LIKE 'c0%' AND category > 'c08'", "index category: prefix, about 10 rows"),
        (f"SELECT * {ITEMS} WHERE category GLOB 'c01*'", "index category: prefix, about 10 rows"),
        (f"SELECT * {ITEMS} WHERE rank < 5", "index rank: range, about 5 rows"),
        # order
        (f"SELECT * {ITEMS} ORDER BY rank LIMIT 5", "index rank: all, in order, about 5 rows"),
        (f"SELECT * {ITEMS} ORDER BY rank DESC, id DESC LIMIT 5", "index rank: all, in descending order, about 5 rows"),
        (f"SELECT * {ITEMS} WHERE rank > 400 ORDER BY rank LIMIT 5", "index rank: range, in order, about 5 rows"),
        (f"SELECT rank, COUNT(*) {ITEMS} GROUP BY rank", "index rank: all, without records, in order, about 500 rows"),
        (f"SELECT DISTINCT category {ITEMS}", "index category: all, without records, in order, about 500 rows"),
        (f"SELECT MAX(rank) {ITEMS}", "index rank: all, without records, in descending order, about 500 rows"),
        (f"SELECT id, rank {ITEMS} WHERE rank > 490", "index rank: range, without records, about 9 rows"),
        # what an index does not help with
        (f"SELECT * {ITEMS} WHERE brand = 'b1'", "scan, about 500 rows"),
        (f"SELECT * {ITEMS} WHERE category LIKE '%1'", "scan, about 500 rows"),
        (f"SELECT * {ITEMS} WHERE category = 'c01' COLLATE NOCASE", "scan, about 500 rows"),
        (f"SELECT * {ITEMS} WHERE category || '' = 'c01'", "scan, about 500 rows"),
        (f"SELECT * {ITEMS} WHERE loose > 95", "scan, about 500 rows"),
        (f"SELECT * {ITEMS} WHERE tags = 't1'", "scan, about 500 rows"),
        (f"SELECT * {ITEMS} WHERE rank <> 5", "scan, about 500 rows"),
    ],
)
def test_the_way_of_a_statement(tables: SqlTables, statement: str, expected: str) -> None:
    lines = tables.explain(statement, [None] * statement.count("?")).split("\n")
    assert lines[0].partition(": ")[2] == expected
    assert not lines[1:]


@pytest.mark.parametrize(
    "order",
    [
        "rank DESC, id",
        "loose",
        "category COLLATE NOCASE",
        "rank, price",
        "tags",
        "rank NULLS LAST",
        "id COLLATE NOCASE",
        "price, rank, id",
        "-rank",
    ],
)
def test_orders_that_sqlite_has_to_make(tables: SqlTables, order: str) -> None:
    assert "USE TEMP B-TREE" in tables.explain(f"SELECT * {ITEMS} ORDER BY {order}")


def test_joins_look_up_the_inner_table(tables: SqlTables) -> None:
    joined = f'{ITEMS} JOIN "@data"."Brand" AS b ON b.id = i.brand'
    assert tables.explain(f"SELECT b.name {joined} WHERE i.category = 'c01'").split("\n") == [
        "SCAN i: index category: equal, about 10 rows",
        "SCAN b: key: equal, about 1 row",
    ]
    assert tables.explain(f"SELECT b.name {joined}").split("\n") == ["SCAN i: scan, about 500 rows", "SCAN b: key: equal, about 1 row"]
    turned = 'SELECT i.id FROM "@data"."Brand" AS b JOIN "@data"."Item" AS i ON i.category = b.name'
    assert tables.explain(turned).split("\n") == [
        "SCAN b: scan, about 10 rows",
        "SCAN i: index category: equal, without records, about 10 rows",
    ]


def test_either_of_two_indexes(tables: SqlTables) -> None:
    statement = f"SELECT id {ITEMS} WHERE category = 'c01' OR rank = 7"
    plan = tables.explain(statement)
    assert "MULTI-INDEX OR" in plan and "index category" in plan and "index rank" in plan
    assert sorted(tables.ask(statement)) == sorted([(f"i{n:03}",) for n in range(COUNT) if n % 50 == 1 or n * 7 % COUNT == 7])


def test_offset_skips_what_need_not_be_decoded(tables: SqlTables) -> None:
    expected = [(f"i{n:03}",) for n in range(COUNT)]
    assert tables.ask(f"SELECT id {ITEMS} ORDER BY id LIMIT 3 OFFSET 400") == expected[400:403]
    assert tables.ask(f"SELECT id {ITEMS} ORDER BY id DESC LIMIT 3 OFFSET 499") == expected[:1]
    assert tables.ask(f"SELECT id {ITEMS} LIMIT ? OFFSET ?", ["2", "5"]) == expected[5:7]
    assert tables.ask(f"SELECT id {ITEMS} LIMIT -1 OFFSET -5") == expected
    assert tables.ask(f"SELECT rank {ITEMS} ORDER BY rank LIMIT 2 OFFSET 300") == [(300,), (301,)]
    assert tables.ask(f"SELECT id {ITEMS} WHERE category = 'c01' ORDER BY id LIMIT 2 OFFSET 8") == [("i401",), ("i451",)]
    assert tables.ask(f"SELECT id {ITEMS} WHERE category = ? ORDER BY id LIMIT 2 OFFSET 8", ["c01"]) == [("i401",), ("i451",)]
    assert tables.ask(f"SELECT id {ITEMS} WHERE rank >= 450 AND rank < 1000 AND brand = 'b0' LIMIT 1 OFFSET 1") != []


def test_offset_of_compound_queries_is_not_skipped(tables: SqlTables) -> None:
    expected = [f"i{n:03}" for n in range(COUNT)]
    both = f"SELECT id {ITEMS} WHERE id < 'i003' UNION ALL SELECT id {ITEMS}"
    assert [row[0] for row in tables.ask(f"{both} LIMIT 3 OFFSET 4")] == expected[1:4]
    nested = f"SELECT * FROM (SELECT id {ITEMS} ORDER BY id LIMIT 5 OFFSET 5) LIMIT 2 OFFSET 2"
    assert [row[0] for row in tables.ask(nested)] == expected[7:9]


def test_a_limit_is_all_that_is_read(tables: SqlTables) -> None:
    tables.rows.clear()
    assert len(tables.ask(f"SELECT id, brand {ITEMS} ORDER BY rank LIMIT 3")) == 3
    assert sum(tables.rows) == 3


def test_nothing_is_known_of_the_state(tables: SqlTables) -> None:
    """Statements can be prepared without one: to be explained."""
    tables.modules.source = None
    assert "index category: equal" in tables.explain(f"SELECT * {ITEMS} WHERE category = 'c01'")
    assert "key: range" in tables.explain(f"SELECT * {ITEMS} WHERE id > 'a'")


def test_an_index_that_is_being_built_is_not_used(tables: SqlTables, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tables.modules.state
    assert state is not None
    state._ready.update(dict.fromkeys(tables.table("Item").index_list, False))
    statement = f"SELECT id {ITEMS} WHERE category = 'c01' ORDER BY rank LIMIT 2"
    assert "scan" in tables.explain(statement)
    assert tables.ask(statement) == [("i001",), ("i251",)] or len(tables.ask(statement)) == 2


def test_attributes_in_doubt_have_no_index(tables: SqlTables) -> None:
    from dataclasses import replace

    changed = tuple([replace(each, type="Int") if each.name == "category" else each for each in ITEM.attributes])
    tables.define(replace(ITEM, attributes=changed))
    tables.read()
    assert tables.views["Item"].doubtful == {"category"}
    assert "scan" in tables.explain(f"SELECT * {ITEMS} WHERE category = 'c01'")
    assert len(tables.ask(f"SELECT * {ITEMS} WHERE category = 'c01'")) == 10
    assert "index rank" in tables.explain(f"SELECT * {ITEMS} WHERE rank = 5")


def test_nothing_is_read_for_conditions_that_nothing_fulfils(tables: SqlTables) -> None:
    tables.rows.clear()
    values: list[Any] = [5, None, b"c01"]
    for value in values:
        assert tables.ask(f"SELECT id {ITEMS} WHERE category = ?", [value]) == []
    assert sum(tables.rows) == 0
