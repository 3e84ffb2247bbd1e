"""The tables of a store beside tables of SQLite with the same values: every statement finds the same (spec: sql §9, §10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from math import inf
from random import Random
from typing import Any
from unittest import mock

import apsw
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from svc.errors import KeyConflict
from svc.sql.tables import access, cursors, finding, module, read_state
from svc.sql.tables.read_state import ReadState
from svc.store import Table, raw_chunks
from svc.store.indexes.index import Index
from svc.store.values.keys import encode_key
from tests.support.profile import examples
from tests.support.sql_tables import LOOSE, NUMBERED, TYPED, SqlTables

LONG = "z" * 300
TEXTS = [
    "",
    "a",
    "B",
    "ab",
    "Ab",
    "abc",
    "b",
    "10",
    "5",
    " 5",
    "05",
    "5.0",
    "+5",
    "5e0",
    "4.9999999999999999999",
    "2024-01-05",
    "true",
    "[1]",
    "é",
    "zz",
]
TEXTS += [
    "[",
    "{",
    '"x"',
    "~",
    LONG + "a",
    LONG + "b",
    LONG[:256],
    LONG[:257],
    "a\0b",
    "a\1b",
    "-1",
    "18446744073709551616",
    "2024-01-05T00:00:00.000Z",
]
MOMENT = datetime(2024, 1, 5, tzinfo=UTC)
DATES = [
    MOMENT,
    MOMENT + timedelta(milliseconds=1),
    MOMENT + timedelta(hours=5),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, tzinfo=UTC),
]
INTEGERS = [0, 1, -1, 5, 10, 2**31 - 1]
DOUBLES = [0.5, -0.5, 5, 1, 0, 5.5, 1e300, -1e300, 2**53, 2**53 + 1, 2.0**60, 2**100, 1e-300]
BIG = [0, 5, -5, 2**63 - 1, -(2**63), 2**63, 2**64, -(2**64), -(2**70), 10**30]
BYTES = [b"", b"a", b"a\0", b"ab", b"\xff" * 600, b"\xff" * 601]
LISTS: list[Any] = [[], ["a"], ["a", "B"], ["5"], [None]]
ANY: list[Any] = [
    *TEXTS,
    *INTEGERS,
    0.5,
    5.5,
    2**64,
    -(2**70),
    True,
    False,
    *DATES[:3],
    b"a",
    b"abc",
    [],
    [1],
    ["a"],
    [5, 5],
    {"x": 1},
    {},
    {1: 2},
    {1, 2},
]

LITERALS: list[Any] = [
    *TEXTS,
    *INTEGERS,
    *map(float, DOUBLES),
    2**63 - 1,
    -(2**63),
    9.3e18,
    1e19,
    float("inf"),
    b"a",
    b"",
    None,
    "2024",
    "2024-01",
    "2024-01-05 00",
    "2024-01-05T05",
    "2024-01-05T00:00:00.001Z",
    "9999-12-31",
    "2024-13",
    "0",
    "1",
    "1.0",
]
PATTERNS = [
    "a%",
    "A%",
    "a_",
    "%b",
    "",
    "%",
    "ab",
    "5%",
    "2024%",
    "2024-01-05%",
    "[%",
    "{%",
    "z" * 290 + "%",
    "é%",
    "aB%",
    "a*",
    "ab?",
    "[ab]*",
    "*",
    "5*",
    "abcdefgh%",
]

Asked = tuple[str, list[Any], bool]  # text, parameters, whether the order of the rows is total
Data = dict[str, list[dict[str, Any]]]

COLUMNS = {
    "Typed": {
        "id": ["k", "k1", "K2", "5", "05", "a", "", "z" * 600, "y" * 480, "10", "é"],
        "s": TEXTS,
        "i": INTEGERS,
        "f": DOUBLES,
        "b": [True, False],
        "d": DATES,
        "y": BYTES,
        "g": BIG,
        "tags": LISTS,
        "a": ANY,
        "plain": ANY,
    },
    "Loose": {
        "id": [*INTEGERS, 2.5, 2**63, -(2**63), 2**64 - 1, "a", "5", "05", "18446744073709551616", "[1]", "é", ("a", 1), ("b",)],
        "a": ANY,
        "x": ANY,
    },
    "Numbered": {"id": [*INTEGERS, 2, 3, 4], "s": TEXTS, "f": DOUBLES, "u": list(range(12))},
}
OPERATORS = ["=", "<", "<=", ">", ">=", "<>", "IS", "IS NOT"]


@st.composite
def records(draw: Any) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for name, columns in COLUMNS.items():
        keys = draw(
            st.lists(
                st.sampled_from(columns["id"]),
                max_size=9,
                unique_by=lambda key: (isinstance(key, str), key if not isinstance(key, tuple) else str(key)),
            )
        )
        rows = []
        unique = draw(st.permutations(range(12)))
        for number, key in enumerate(keys):
            row = {"id": key}
            for column, values in columns.items():
                if column == "u":
                    row["u"] = unique[number]
                elif column != "id" and draw(st.integers(0, 3)):
                    row[column] = draw(st.sampled_from([*values, None]))
            rows.append(row)
        found[name] = rows
    return found


def literal(value: Any) -> str:
    return str(apsw.format_sql_value(value)) if not isinstance(value, float) or value - value == 0 else "9e999"


class Conditions:
    """Draws conditions over the columns of some aliases."""

    def __init__(self, draw: Callable[[Any], Any], tables: dict[str, str]) -> None:
        self._draw = draw
        self._columns = [f"{alias}.{column}" for alias, table in tables.items() for column in COLUMNS[table]]
        self.parameters: list[Any] = []

    def pick(self, choices: Any) -> Any:
        return self._draw(st.sampled_from(choices))

    def value(self) -> str:
        value = self.pick(LITERALS)
        if self.pick((True, False)):
            self.parameters.append(value)
            return "?"
        return literal(value)

    def operand(self) -> str:
        return self.pick(self._columns) if self._draw(st.integers(0, 3)) == 0 else self.value()

    def condition(self, depth: int = 1) -> str:
        kind = self._draw(st.integers(0, 9 if depth else 7))
        column = self.pick(self._columns)
        if kind <= 2:
            collation = self.pick(("", "", "", "", " COLLATE NOCASE", " COLLATE RTRIM"))
            return f"{column} {self.pick(OPERATORS)} {self.operand()}{collation}"
        if kind == 3:
            return (
                f"{column} {self.pick(('IN', 'IN', 'NOT IN'))} ({', '.join([self.value() for _ in range(self._draw(st.integers(0, 4)))])})"
            )
        if kind == 4:
            return f"{column} BETWEEN {self.value()} AND {self.value()}"
        if kind == 5:
            pattern = self.pick(PATTERNS)
            if self.pick((True, False)):
                self.parameters.append(pattern)
                pattern = "?"
            else:
                pattern = literal(pattern)
            return f"{column} {self.pick(('LIKE', 'GLOB', 'NOT LIKE'))} {pattern}"
        if kind == 6:
            return f"{column} IS {self.pick(('NULL', 'NOT NULL'))}"
        if kind == 7:
            return f"{column} > {self.value()} AND {column} {self.pick(('<', '<='))} {self.value()}"
        return f"({self.condition(depth - 1)} {self.pick(('AND', 'OR'))} {self.condition(depth - 1)})"


@st.composite
def statements(draw: Any) -> tuple[str, list[Any], bool]:
    """(text, parameters, whether the order of the rows is total)"""
    kind = draw(st.integers(0, 9))
    table = draw(st.sampled_from(tuple(COLUMNS)))
    if kind <= 5:
        conditions = Conditions(draw, {"t": table})
        where = f" WHERE {conditions.condition(2)}" if draw(st.integers(0, 4)) else ""
        columns = list(COLUMNS[table])
        shown = draw(st.sampled_from(["t.*", "t.id", f"t.{draw(st.sampled_from(columns))}, t.id", "COUNT(*)"]))
        text = f'SELECT {shown} FROM "@data"."{table}" AS t{where}'
        if kind >= 2 and shown != "COUNT(*)":
            by = draw(st.lists(st.sampled_from(columns), max_size=2))
            order = ", ".join([f"t.{column}{draw(st.sampled_from(('', ' DESC', '', ' COLLATE NOCASE')))}" for column in [*by, "id"]])
            limit = draw(st.sampled_from(("", " LIMIT 3", " LIMIT 2 OFFSET 2", " LIMIT -1 OFFSET 1", " LIMIT 0")))
            return f"{text} ORDER BY {order}{limit}", conditions.parameters, "COLLATE" not in order
        return text, conditions.parameters, False
    if kind <= 7:
        other = draw(st.sampled_from(tuple(COLUMNS)))
        conditions = Conditions(draw, {"t": table, "u": other})
        one, two = draw(st.sampled_from(tuple(COLUMNS[table]))), draw(st.sampled_from(tuple(COLUMNS[other])))
        join = draw(st.sampled_from(("JOIN", "LEFT JOIN", "CROSS JOIN", "RIGHT JOIN", "FULL JOIN")))
        on = f"t.{one} {draw(st.sampled_from(('=', '=', '=', '<', 'IS')))} u.{two}"
        where = f" WHERE {conditions.condition(1)}" if draw(st.booleans()) else ""
        text = f'SELECT t.id, u.id FROM "@data"."{table}" AS t {join} "@data"."{other}" AS u ON {on}{where}'
        return text, conditions.parameters, False
    conditions = Conditions(draw, {"t": table})
    column = draw(st.sampled_from(tuple(COLUMNS[table])))
    where = f" WHERE {conditions.condition(1)}" if draw(st.booleans()) else ""
    if kind == 8:
        text = f'SELECT t.{column}, COUNT(*) FROM "@data"."{table}" AS t{where} GROUP BY t.{column} ORDER BY 1, 2'
        return text, conditions.parameters, True
    function = draw(st.sampled_from(("MIN", "MAX", "COUNT", "COUNT(DISTINCT ")))
    call = f"{function}t.{column})" if "(" in function else f"{function}(t.{column})"
    return f'SELECT {call} FROM "@data"."{table}" AS t{where}', conditions.parameters, False


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlTables]:
    made = SqlTables(tmp_path_factory.mktemp("sql") / "database", (TYPED, LOOSE, NUMBERED))
    yield made
    made.close()


def check(tables: SqlTables, asked: list[Asked]) -> None:
    for text, parameters, is_total in asked:
        expected, found = tables.expect(text, parameters), tables.ask(text, parameters)
        if is_total:
            assert found == expected, (text, parameters, tables.explain(text, parameters))
        else:
            assert sorted(map(repr, found)) == sorted(map(repr, expected)), (text, parameters, tables.explain(text, parameters))


@pytest.fixture(autouse=True)
def indexes_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are small here: indexes would hardly be used."""
    monkeypatch.setattr(access, "_FETCH", 0.001)
    monkeypatch.setattr(access, "_ENTRY", 0.001)


@pytest.fixture
def small_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of records and entries, and little is remembered."""
    for place, name, number in (
        (raw_chunks, "FIRST", 2),
        (raw_chunks, "MOST", 3),
        (finding, "FIRST", 2),
        (finding, "MOST", 3),
        (cursors, "FEW", 1),
        (cursors, "MOST_REMEMBERED", 3),
        (read_state, "COUNTED", 2),
    ):
        monkeypatch.setattr(place, name, number)


ASKED = st.lists(statements(), min_size=25, max_size=25)


@settings(max_examples=examples(60))
@given(records(), ASKED)
def test_statements_find_what_sqlite_finds(tables: SqlTables, data: Data, asked: list[Asked]) -> None:
    tables.fill(data)
    check(tables, asked)


@settings(max_examples=examples(30))
@given(records(), ASKED)
def test_in_small_lists(small_lists: None, tables: SqlTables, data: Data, asked: list[Asked]) -> None:
    tables.fill(data)
    check(tables, asked)


@settings(max_examples=examples(30))
@given(records(), ASKED, st.randoms(use_true_random=False))
def test_expired_records_are_not_there(small_lists: None, tables: SqlTables, data: Data, asked: list[Asked], random: Random) -> None:
    now = tables.clock.wall()
    expiry = {row["id"]: (now + random.choice((5, 5, 5000))) * 1000 for rows in data.values() for row in rows if random.random() < 0.4}
    tables.fill(data, expiry)
    tables.clock.advance(10)
    for name, rows in data.items():
        tables.fill_native(name, [row for row in rows if expiry.get(row["id"], inf) > (now + 10) * 1000])
    tables.read()
    check(tables, asked)


@settings(max_examples=examples(30))
@given(records(), records(), ASKED, st.randoms(use_true_random=False))
def test_pending_writes_are_there(small_lists: None, tables: SqlTables, data: Data, more: Data, asked: list[Asked], random: Random) -> None:
    tables.fill(data)
    transaction = tables.store.begin()
    for name, rows in data.items():
        table = tables.table(name)
        kept = {encode_key(row["id"]): row for row in rows}
        for key, row in list(kept.items()):
            if random.random() < 0.4:
                transaction.delete(table, row["id"])
                del kept[key]
        for row in more[name]:
            row.pop("u", None)
            record = table.validator.record({each: value for each, value in row.items() if each != "id"}, source="native")
            transaction.put(table, row["id"], record)
            kept[encode_key(row["id"])] = row
        tables.fill_native(name, list(kept.values()))
    try:
        for _ in transaction.previewing(tables.database, tables.database.snapshot()):
            pass
        tables.read(transaction.preview(tables.database).txn)
        check(tables, asked)
    except KeyConflict:
        reject()
    finally:
        transaction.abort()
        tables.read()


@settings(max_examples=examples(30))
@given(records(), ASKED, st.randoms(use_true_random=False))
def test_plans_hold_when_an_index_is_being_built_again(
    small_lists: None, tables: SqlTables, data: Data, asked: list[Asked], random: Random
) -> None:
    tables.fill(data)
    is_planning = False
    choose = module.choose

    def plan(*args: Any) -> None:
        nonlocal is_planning
        is_planning = True
        choose(*args)
        is_planning = False

    def is_ready(state: ReadState, table: Table, index: Index) -> bool:
        return is_planning or state._ready.setdefault(index, random.random() < 0.5)

    with mock.patch.object(module, "choose", plan), mock.patch.object(ReadState, "is_ready", is_ready):
        for each in asked:
            tables.read()
            check(tables, [each])
