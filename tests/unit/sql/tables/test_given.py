"""svc.sql.tables.given"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from svc.sql.catalogue import ColumnType, ColumnView
from svc.sql.tables.values import from_exact
from tests.support.sql_tables import TYPED, SqlTables

COLUMNS = (
    ColumnView("id", ColumnType.TEXT),
    ColumnView("number", ColumnType.REAL),
    ColumnView("day", ColumnType.DATE),
    ColumnView("Number", ColumnType.ANY, alias="other"),
)
DAY = datetime(2024, 1, 5, tzinfo=UTC)
ROWS = [("a", 5, DAY, True), ("b", 2.5, None, [1]), ("c", None, None, None)]
NAME = '\x1dex"cluded'
TABLE = 'main."\x1dex""cluded"'


@pytest.fixture
def tables(open_tables: Callable[..., SqlTables]) -> SqlTables:
    tables = open_tables(TYPED)
    tables.fill({"Typed": [{"id": key, "s": f"s{key}"} for key in "abcd"]})
    tables.modules.declare_given(NAME, COLUMNS)
    tables.read(rows={NAME: ROWS})
    return tables


def test_values(tables: SqlTables) -> None:
    assert tables.ask(f"SELECT * FROM {TABLE}") == [
        ("a", 5.0, "2024-01-05T00:00:00.000Z", 1),
        ("b", 2.5, None, "[1]"),
        ("c", None, None, None),
    ]
    exact = tables.ask(f'SELECT "\x1fnumber", "\x1fday", "\x1fother" FROM {TABLE}')
    assert [tuple([from_exact(value, native=True) for value in row]) for row in exact] == [row[1:] for row in ROWS]


def test_conditions_and_joins(tables: SqlTables) -> None:
    joined = f'SELECT t.s, g.number FROM {TABLE} AS g JOIN "@data"."Typed" AS t ON t.id = g.id'
    assert tables.ask(joined) == [("sa", 5.0), ("sb", 2.5), ("sc", None)]
    assert tables.explain(joined).split("\n")[1] == "SCAN t: key: equal, about 1 row"
    assert tables.ask(f"SELECT id FROM {TABLE} WHERE number > 3 OR other IS NULL ORDER BY id DESC") == [("c",), ("a",)]
    assert tables.ask(f"SELECT COUNT(*) FROM {TABLE} AS x, {TABLE} AS y") == [(9,)]


def test_each_statement_has_its_own_rows(tables: SqlTables) -> None:
    tables.read(rows={NAME: []})
    assert tables.ask(f"SELECT * FROM {TABLE}") == []
    tables.read(rows={NAME: ROWS[:1] * 3})
    assert len(tables.ask(f"SELECT * FROM {TABLE}")) == 3


def test_other_columns_under_the_same_name(tables: SqlTables) -> None:
    tables.modules.declare_given(NAME, COLUMNS)
    tables.modules.declare_given(NAME, COLUMNS[:1])
    assert tables.ask(f"SELECT * FROM {TABLE}") == [("a",), ("b",), ("c",)]
