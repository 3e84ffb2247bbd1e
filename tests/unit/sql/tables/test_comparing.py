"""svc.sql.tables.comparing: conditions that SQLite does not test are tested as it would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.sql.catalogue import ColumnType
from svc.sql.tables import access, finding
from svc.sql.tables.comparing import comparison
from svc.sql.tables.read_state import ReadState
from svc.sql.tables.spans import EQ, GE, GT, LE, LT
from svc.sql.tables.values import column_value
from tests.support.sql_tables import TYPED, SqlTables

OPERATORS = {EQ: "=", GT: ">", GE: ">=", LT: "<", LE: "<="}
NUMERALS = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"[ +-]?[0-9]{1,25}(\.[0-9]{0,20})?(e[+-]?[0-9]{1,3})? ?", fullmatch=True),
    st.sampled_from(["5", "05", " 5", "5.0", "5x", "0x5", "", "1e3", "9007199254740993", "Inf", ".5", "5."]),
)
VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-10, 10),
    st.floats(allow_nan=False),
    st.sampled_from([0.5, 5.0, -0.0, 1e20, 2.0**53]),
    NUMERALS,
    st.text(max_size=3),
    st.binary(max_size=2),
)
SQLITE = apsw.Connection(":memory:")
SQLITE.execute("CREATE TABLE columns (text TEXT, integer INTEGER, real REAL)")


@given(st.sampled_from(["text", "integer", "real"]), st.sampled_from(sorted(OPERATORS)), VALUES, VALUES)
def test_as_sqlite_compares(column, operator, own, other):
    kind = ColumnType[column.upper()]
    SQLITE.execute("DELETE FROM columns")
    SQLITE.execute(f"INSERT INTO columns ({column}) VALUES (?)", (own,))
    stored = SQLITE.execute(f"SELECT {column} FROM columns").get
    expected = SQLITE.execute(f"SELECT {column} {OPERATORS[operator]} ? FROM columns", (other,)).get
    # What a column of numbers has is what SQLite would have.
    assert comparison(kind, operator, other)(column_value(kind, stored)) == bool(expected)


LONG = "z" * 300
ROWS = [
    {"id": f"k{number:03}", "s": text, "i": number % 7, "f": number / 4}
    for number, text in enumerate(["a", "5", "5.0", "05", LONG + "a", LONG + "b", LONG, "", "1.0e+20", "B", None] * 4)
]
PARAMETERS = [None, 0, 1, 5, 5.0, -1, 2.5, 1e20, 2**60, "a", "5", " 5", "5.0", "05", "1e0", "2.50", "x", "", LONG, LONG + "a", b"", b"\x05"]


@pytest.fixture(params=[True, False])
def tables(request: pytest.FixtureRequest, open_tables: Callable[..., SqlTables], monkeypatch: pytest.MonkeyPatch) -> SqlTables:
    """Whose plans go by indexes, whatever that costs."""
    monkeypatch.setattr(access, "_FETCH", 0.001)
    monkeypatch.setattr(access, "_ENTRY", 0.001)
    made = open_tables(TYPED)
    made.modules.is_plain = request.param
    made.fill({"Typed": ROWS})
    return made


CONDITIONS = [
    "s = ?", "id = ?", "i = ?", "f = ?", "i > ?", "i >= ? AND i < 5", "f < ?", "f <= ? AND f > 1", "f > ? AND i = 2", "s IN (?, 'a')",
    "i IN (?, 3)", "s = ? OR i = 2",
]  # fmt: skip


def check(tables: SqlTables, condition: str, value: Any) -> None:
    for order in ("ORDER BY id", "ORDER BY id DESC LIMIT 3", "ORDER BY id LIMIT 3 OFFSET 1", "ORDER BY f, id"):
        text = f'SELECT id, s, i, f FROM "@data"."Typed" WHERE {condition} {order}'
        assert tables.ask(text, (value,)) == tables.expect(text, (value,)), text


@pytest.mark.parametrize("condition", CONDITIONS)
def test_rows_are_those_of_sqlite(tables: SqlTables, condition: str) -> None:
    for value in PARAMETERS:
        check(tables, condition, value)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_an_index_that_cannot_be_used_any_more(tables: SqlTables, condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements that were prepared before find the same without it."""
    for value in (2, "a"):
        check(tables, condition, value)
    with monkeypatch.context() as patch:
        patch.setattr(ReadState, "is_ready", lambda *_: False)
        for value in (2, "a", 5, LONG):
            check(tables, condition, value)
    monkeypatch.setattr(ReadState, "has_plain_keys", lambda *_: False)
    for value in (2, "a", 5, LONG):
        check(tables, condition, value)


def test_what_is_offset_is_counted_among_what_is_found(tables: SqlTables, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'SELECT id FROM "@data"."Typed" WHERE i = 2 LIMIT 3 OFFSET 2'
    expected = tables.ask(text)
    assert expected == tables.expect(text) and len(expected) == 3
    monkeypatch.setattr(ReadState, "is_ready", lambda *_: False)
    assert tables.ask(text) == expected


@pytest.mark.parametrize("order", ["ORDER BY id", "ORDER BY id DESC", "ORDER BY id LIMIT 5"])
def test_many_entries_are_not_sorted(tables: SqlTables, monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    text = f'SELECT id, i FROM "@data"."Typed" WHERE f >= ? {order}'
    assert "index f: range, in" in tables.explain(text, (1,))
    expected = tables.expect(text, (1,))
    assert tables.ask(text, (1,)) == expected
    tables.rows.clear()
    monkeypatch.setattr(finding, "MOST_SORTED", 10)
    assert tables.ask(text, (1,)) == expected
    assert sum(tables.rows) > len(ROWS)  # some entries, and all records
