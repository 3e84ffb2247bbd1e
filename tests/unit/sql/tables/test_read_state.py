"""svc.sql.tables.read_state: how many entries there are, about."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from svc.sql.catalogue import ColumnType
from svc.sql.tables.read_state import COUNTED, ReadState
from svc.sql.tables.spans import EQ, GE, GT, LT, Span, intersection, key_span_of, span_of, whole_span
from svc.store.definitions import build_key
from svc.store.schema import Attribute, TableDefinition
from tests.support.sql_tables import LOOSE, TYPED, Source, SqlTables

COUNT = 1000
MANY = TableDefinition(
    "Many",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("text", "String", indexed=True),
        Attribute("number", "Int", indexed=True),
        Attribute("few", "String", indexed=True),
        Attribute("u", "Int", indexed=True, unique=True),
        Attribute("empty", "Int", indexed=True),
    ),
)


@pytest.fixture
def tables(open_tables: Callable[..., SqlTables]) -> SqlTables:
    tables = open_tables(MANY)
    rows = [{"id": f"k{n:04}", "text": f"t{n:04}", "number": n - 500, "few": f"f{n % 10}", "u": n} for n in range(COUNT)]
    tables.fill({"Many": rows})
    return tables


@pytest.fixture
def state(tables: SqlTables) -> ReadState:
    assert tables.modules.state is not None
    return tables.modules.state


def between(kind: ColumnType, low: object, high: object) -> Span:
    return intersection(span_of(kind, GE, low), span_of(kind, LT, high))


def test_few_are_counted(tables: SqlTables, state: ReadState) -> None:
    table = tables.table("Many")
    number, few = table.indexes["number"], table.indexes["few"]
    for _ in range(2):
        assert state.count(table, number, between(ColumnType.INTEGER, 5, 25).bounds) == 20
        assert state.count(table, number, span_of(ColumnType.INTEGER, EQ, 10_000).bounds) == 0
        assert state.count(table, few, span_of(ColumnType.TEXT, EQ, "f3").bounds) == 100
        keys = intersection(key_span_of(ColumnType.TEXT, GE, "k0100"), key_span_of(ColumnType.TEXT, LT, "k0110"))
        assert state.count(table, None, keys.bounds) == 10


@pytest.mark.parametrize(("low", "high"), [(-500, 0), (0, 500), (-250, 250), (100, 400)])
def test_many_numbers_are_estimated(tables: SqlTables, state: ReadState, low: int, high: int) -> None:
    table = tables.table("Many")
    found = state.count(table, table.indexes["number"], between(ColumnType.INTEGER, low, high).bounds)
    assert found == pytest.approx(high - low, rel=0.05)


@pytest.mark.parametrize(("low", "high"), [("t0000", "t0500"), ("t0250", "t0750"), ("t09", "u"), ("a", "t01"), ("t0100", "t0400")])
def test_many_texts_are_estimated(tables: SqlTables, state: ReadState, low: str, high: str) -> None:
    table = tables.table("Many")
    expected = len([n for n in range(COUNT) if low <= f"t{n:04}" < high])
    found = state.count(table, table.indexes["text"], between(ColumnType.TEXT, low, high).bounds)
    assert found == pytest.approx(expected, rel=0.15)
    keys = intersection(
        key_span_of(ColumnType.TEXT, GE, low.replace("t", "k")), key_span_of(ColumnType.TEXT, LT, high.replace("t", "k").replace("u", "l"))
    )
    assert state.count(table, None, keys.bounds) == pytest.approx(expected, rel=0.15)


def test_all_of_them(tables: SqlTables, state: ReadState) -> None:
    table = tables.table("Many")
    for name, kind in (("text", ColumnType.TEXT), ("number", ColumnType.INTEGER), ("few", ColumnType.TEXT), ("empty", ColumnType.INTEGER)):
        assert state.count(table, table.indexes[name], whole_span(kind).bounds) == pytest.approx(COUNT, rel=0.05)
    assert state.record_count(table) == COUNT


def test_averages(tables: SqlTables, state: ReadState) -> None:
    table = tables.table("Many")
    averages = {name: state.average(table, index) for name, index in table.indexes.items()}
    assert averages == {"text": 1.0, "number": 1.0, "few": 100.0, "u": 1.0, "empty": 1.0}
    assert state.average(table, table.indexes["few"]) == 100.0


def test_values_of_all_kinds(open_tables: Callable[..., SqlTables]) -> None:
    tables = open_tables(LOOSE)
    values = [None, True, 5, 2.5, -(10**30), "a", "", "\0", b"", b"\xff" * 700, "z" * 700, ["a", None], {}]
    tables.fill({"Loose": [{"id": n, "a": values[n % len(values)], "x": "same"} for n in range(300)]})
    table, state = tables.table("Loose"), tables.modules.state
    assert state is not None
    for bounds in (whole_span(ColumnType.ANY).bounds, span_of(ColumnType.ANY, GT, 5).bounds, span_of(ColumnType.ANY, LT, "b").bounds):
        for name in ("a", "x"):
            assert 0 <= state.count(table, table.indexes[name], bounds) <= 400
            assert state.average(table, table.indexes[name]) > 1


def test_an_empty_table(open_tables: Callable[..., SqlTables]) -> None:
    tables = open_tables(TYPED)
    tables.read()
    table, state = tables.table("Typed"), tables.modules.state
    assert state is not None
    assert state.count(table, table.indexes["s"], whole_span(ColumnType.TEXT).bounds) == state.record_count(table) == 0
    assert state.average(table, table.indexes["s"]) == 1.0
    assert state.has_plain_keys(table) and state.is_clean(table)


def test_an_index_is_ready_when_this_state_has_all_of_it(tables: SqlTables) -> None:
    table = tables.table("Many")
    index = table.indexes["text"]
    writer = tables.database.env.writer()
    writer.put(build_key(table.number, "text"), b"", True, True, False, tables.database.definitions)
    assert not ReadState(Source(writer, 0.0)).is_ready(table, index)
    tables.database.env.abort()
    assert ReadState(Source(tables.database.snapshot(), 0.0)).is_ready(table, index)


def test_computed_values_that_have_no_function_yet(open_tables: Callable[..., SqlTables]) -> None:
    definition = TableDefinition(
        "C", attributes=(Attribute("id", "ID", primary_key=True), Attribute("c", "Int", computed_from="", indexed=True))
    )
    tables = open_tables(definition)
    table = tables.table("C")
    tables.read()
    assert tables.modules.state is not None and not tables.modules.state.is_ready(table, table.indexes["c"])
    assert tables.ask('SELECT id FROM "@data"."C" WHERE c = 5') == []


def test_what_has_expired_is_not_clean(tables: SqlTables) -> None:
    table = tables.table("Many")
    tables.fill({"Many": [{"id": "a"}, {"id": "b"}]}, {"a": (tables.clock.wall() + 5) * 1000})
    assert tables.modules.state is not None and tables.modules.state.is_clean(table)
    tables.clock.advance(10)
    tables.read()
    assert not tables.modules.state.is_clean(table)


def test_copies_of_what_a_source_has_are_never_clean(tables: SqlTables, state: ReadState) -> None:
    table = tables.table("Many")
    assert state.is_clean(table)
    table.cache(object())
    tables.read()
    assert tables.modules.state is not None and not tables.modules.state.is_clean(table)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["a", "b", 5, -5, 2.5], True),
        ([2**63 - 1, -(2**63)], True),
        ([2**63], False),
        ([-(2**63) - 1], False),
        ([("a", 1)], False),
        (["a", ("a", 1)], False),
        (["a", 2**63, "b"], False),
        ([1e300, -1e300], False),
        ([], True),
    ],
)
def test_keys_in_the_order_of_sqlite(open_tables: Callable[..., SqlTables], keys: list[object], expected: bool) -> None:
    """Doubles beyond 64 bits are in order, too, but they look like integers."""
    tables = open_tables(LOOSE)
    tables.fill({"Loose": [{"id": key} for key in keys]})
    assert tables.modules.state is not None and tables.modules.state.has_plain_keys(tables.table("Loose")) is expected


def test_no_more_are_counted_than_needed(tables: SqlTables, state: ReadState) -> None:
    assert COUNTED < COUNT / 10  # else the tests of estimates test nothing
