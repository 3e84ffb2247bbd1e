"""svc.sql.tables.row_forms: columns of all kinds of tables and records have their values, and the exact ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc.errors import QueryTooLarge, StoreFailure
from svc.sql.catalogue import ColumnType
from svc.sql.tables.row_forms import faces_of, forms_of, used_faces
from svc.sql.tables.shape import TableShape, quoted
from svc.sql.tables.values import from_exact
from svc.store.blobs import create_blob
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode
from tests.support.profile import examples
from tests.support.sql_tables import TYPED, SqlTables, face
from tests.unit.sql.tables.test_agreement import COLUMNS, records

PLAIN = (ColumnType.TEXT, ColumnType.INTEGER)


def has_exact(column: Any) -> bool:
    return column.type not in PLAIN


def check_columns(tables: SqlTables, name: str) -> None:
    """Every column, alone and with all others, by key, by scan and by an index."""
    table, view = tables.table(name), tables.views[name]
    stored = {face(view.columns[0], table.key_of(raw)): decode(raw) for _, raw in table.scan(tables.database.snapshot())}
    place = f'"@data".{quoted(view.sql_name)}'
    exact = {column: column.exact_name for column in view.columns if has_exact(column)}
    listed = [*[column.sql_name for column in view.columns], *exact.values()]
    every = ", ".join(map(quoted, listed))
    for row in tables.ask(f"SELECT {every} FROM {place}"):
        record = stored[row[0]]
        for column, value in zip(view.columns, row, strict=False):
            assert value == face(column, record.get(column.name)), column
        for column, value in zip(exact, row[len(view.columns) :], strict=True):
            kept = record.get(column.name)
            assert from_exact(value, native=True) == kept and (value is None) is (kept is None), column
            assert type(from_exact(value, native=True)) is type(kept)
        assert tables.ask(f"SELECT {every} FROM {place} WHERE {quoted(listed[0])} IS ?", [row[0]]) == [row]
        for column_name, value in zip(listed, row, strict=True):
            found = tables.ask(f"SELECT {quoted(column_name)} FROM {place} WHERE {quoted(listed[0])} IS ?", [row[0]])
            assert found == [(value,)], column_name
    for column, name in exact.items():
        both = tables.ask(f"SELECT {quoted(column.sql_name)}, {quoted(name)} FROM {place} ORDER BY 1, 2")
        expected = [(face(column, record.get(column.name)), record.get(column.name)) for record in stored.values()]
        assert sorted(map(repr, both)) == sorted([repr((value, pair[1])) for pair, (value, _) in zip(both, both, strict=True)])
        assert sorted([repr((value, from_exact(each, native=True))) for value, each in both]) == sorted(map(repr, expected))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from tests.support.sql_tables import LOOSE, NUMBERED

    made = SqlTables(tmp_path_factory.mktemp("forms") / "database", (TYPED, LOOSE, NUMBERED))
    yield made
    made.close()


@settings(max_examples=examples(40))
@given(records())
def test_columns_have_what_is_stored(tables: SqlTables, data: dict[str, Any]) -> None:
    tables.fill(data)
    for name in COLUMNS:
        check_columns(tables, name)


@settings(max_examples=examples(30))
@given(
    st.lists(
        st.fixed_dictionaries({name: st.sampled_from(COLUMNS["Loose"]["a"]) for name in ("s", "i", "f", "b", "d", "y", "g", "tags")}),
        max_size=8,
    )
)
def test_values_from_before_the_definition(open_loose: SqlTables, rows: list[dict[str, Any]]) -> None:
    """Anything may be anywhere."""
    tables = open_loose
    attributes = tuple([each if each.primary_key else replace(each, type="Any", elements=False) for each in TYPED.attributes])
    tables.define(replace(TYPED, name="Typed", attributes=attributes))
    tables.fill({"Typed": [{"id": f"k{number}"} | row for number, row in enumerate(rows)]})
    tables.define(TYPED)
    tables.read()
    check_columns(tables, "Typed")


@pytest.fixture(scope="module")
def open_loose(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = SqlTables(tmp_path_factory.mktemp("loose") / "database", ())
    yield made
    made.close()


def test_blobs(open_tables: Callable[..., SqlTables]) -> None:
    definition = TableDefinition(
        "Files", attributes=(Attribute("id", "ID", primary_key=True), Attribute("file", "Blob"), Attribute("a", "Any"))
    )
    tables = open_tables(definition)
    tables.fill({"Files": [{"id": "a", "file": create_blob("text"), "a": create_blob(b"\0", type="image/png")}]})
    ((file, other, exact),) = tables.ask('SELECT file, a->>\'contentType\', "\x1ffile" FROM "@data"."Files"')
    assert (file, other) == ('"text"', "image/png")
    assert from_exact(exact, native=True).read() == b"text" and from_exact(exact, native=False) == "text"


def test_computed_attributes(open_tables: Callable[..., SqlTables]) -> None:
    definition = TableDefinition(
        "Sums",
        attributes=(
            Attribute("id", "ID", primary_key=True),
            Attribute("a", "Int"),
            Attribute("double", "Int", computed_from="a * 2", indexed=True),
            Attribute("day", "Date", computed_from=""),
            Attribute("half", "Float", computed_from="a / 2"),
        ),
    )
    tables = open_tables(definition)
    tables.fill({"Sums": [{"id": "x", "a": 3}, {"id": "y", "a": 4}, {"id": "z"}]})
    assert tables.ask('SELECT id, double, day FROM "@data"."Sums" ORDER BY id') == [("x", 6, None), ("y", 8, None), ("z", None, None)]
    assert tables.ask('SELECT half, TYPEOF(half) FROM "@data"."Sums" ORDER BY id') == [(1.5, "real"), (2.0, "real"), (None, "null")]
    tables.table("Sums").set_computed_attribute("day", lambda record: datetime(2024, 1, record.get("a") or 1, tzinfo=UTC))
    assert tables.ask('SELECT day, "\x1fday" IS NOT NULL FROM "@data"."Sums" WHERE double = 8') == [("2024-01-04T00:00:00.000Z", 1)]
    assert "index double" in tables.explain('SELECT id FROM "@data"."Sums" WHERE double > 5')


def test_names_of_all_kinds(open_tables: Callable[..., SqlTables]) -> None:
    names = ("id", "Name", "name", "\x1fid", 'a"b', "back\\slash", "new\nline", "日本", "select", "x y", "hidden", "exact")
    attributes = tuple([Attribute(name, "ID" if name == "id" else "Any", primary_key=name == "id") for name in names])
    tables = open_tables(TableDefinition("Odd", attributes=attributes))
    tables.fill({"Odd": [{name: f"{name}!" for name in names}, {"id": "other", "Name": [1]}]})
    check_columns(tables, "Odd")


@pytest.mark.parametrize("count", [30, 62, 63, 64, 200])
def test_wide_tables(open_tables: Callable[..., SqlTables], count: int) -> None:
    """SQLite tells apart the first 63 columns only."""
    attributes = tuple([Attribute(f"a{number}", "Any" if number % 2 else "Int") for number in range(count)])
    tables = open_tables(TableDefinition("Wide", attributes=(Attribute("id", "ID", primary_key=True), *attributes)))
    rows: list[dict[str, Any]] = [{f"a{number}": number for number in range(count)} | {"id": "x"}, {"id": "y", f"a{count - 1}": 5}]
    tables.fill({"Wide": rows})
    check_columns(tables, "Wide")
    assert tables.ask(f'SELECT id FROM "@data"."Wide" WHERE a{count - 1} = 5') == [("y",)]
    assert tables.ask('SELECT COUNT(*), SUM(a2) FROM "@data"."Wide"') == [(2, 2)]


def test_too_many_columns_are_an_error(open_tables: Callable[..., SqlTables]) -> None:
    attributes = tuple([Attribute(f"a{number}", "Any") for number in range(1001)])
    with pytest.raises(QueryTooLarge, match=r"The table Wide has 1002 attributes, which are too many for SQL"):
        open_tables(TableDefinition("Wide", attributes=(Attribute("id", "ID", primary_key=True), *attributes)))


def test_used_faces() -> None:
    faces = faces_of(()) + tuple([None] * 100)  # type: ignore[arg-type]
    assert used_faces(faces, frozenset((0, 1, 5))) == (0, 4)  # type: ignore[arg-type]
    assert used_faces(faces, frozenset((0, 2, 63))) == (1, *range(62, 100))  # type: ignore[arg-type]


def test_a_record_that_is_damaged_is_a_failure(open_tables: Callable[..., SqlTables]) -> None:
    tables = open_tables(TYPED)
    tables.fill({"Typed": [{"id": "a", "s": "b"}, {"id": "c", "s": "d"}]})
    table = tables.table("Typed")
    for damage in (lambda raw: raw[:-1], lambda raw: raw[:17] + b"\x93\1\2\3", lambda raw: raw[:17] + b"\x81\xa1s\xd9"):
        ((stored, raw), *_) = table.scan(tables.database.snapshot())
        writer = tables.database.env.writer()
        writer.put(stored, damage(raw), True, True, False, table.primary)
        tables.read(writer)
        for statement in ("SELECT s FROM", "SELECT * FROM", "SELECT a FROM"):
            with pytest.raises(StoreFailure, match="A stored record is damaged"):
                tables.ask(f'{statement} "@data"."Typed"')
        tables.read()
        tables.database.env.abort()


def test_forms_are_tried_in_their_order(open_tables: Callable[..., SqlTables]) -> None:
    tables = open_tables(TYPED)
    shape = TableShape(tables.views["Typed"])
    assert len(forms_of(shape.view, shape.faces, ())) == 1
    assert len(forms_of(shape.view, shape.faces, (1, 2))) == 2
    assert shape.forms((1, 2)) is shape.forms((1, 2))
    tables.fill({"Typed": [{"id": f"k{number:03}", "a": number if number != 150 else [1]} for number in range(200)]})
    assert tables.ask('SELECT SUM(a) FROM "@data"."Typed" WHERE a < 1000') == [(sum(range(200)) - 150,)]
    assert tables.ask('SELECT a FROM "@data"."Typed" WHERE id >= \'k149\' LIMIT 3') == [(149,), ("[1]",), (151,)]
