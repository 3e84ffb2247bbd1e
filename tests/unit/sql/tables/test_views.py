"""svc.sql.tables.views"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from svc.sql.catalogue import ColumnType
from svc.sql.tables.views import table_view
from svc.store.schema import Attribute, Enumeration, Relationship, Structure, TableDefinition
from tests.support.sql_tables import SqlTables

EVERYTHING = TableDefinition(
    "Everything",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("s", "String", indexed=True),
        Attribute("state", "String", enum=Enumeration("State", ("ON", "OFF"))),
        Attribute("i", "Int"),
        Attribute("l", "Long"),
        Attribute("f", "Float"),
        Attribute("g", "BigInt"),
        Attribute("b", "Boolean"),
        Attribute("d", "Date"),
        Attribute("y", "Bytes"),
        Attribute("file", "Blob"),
        Attribute("a", "Any"),
        Attribute("place", "Place"),
        Attribute("tags", "String", elements=True),
        Attribute("brand", "Brand", relationship=Relationship("Brand", from_="s")),
        Attribute("shout", "String", computed_from="s + '!'", enumerable=True),
        Attribute("secret", "Int", computed_from="i + 1"),
    ),
    structures=(Structure("Place", (Attribute("city", "String"),)),),
)


@pytest.fixture
def tables(open_tables: Callable[..., SqlTables]) -> SqlTables:
    return open_tables(EVERYTHING)


def test_columns_and_their_types(tables: SqlTables) -> None:
    view = table_view(tables.table("Everything"))
    t = ColumnType
    assert {column.name: column.type for column in view.columns} == {
        "id": t.TEXT,
        "s": t.TEXT,
        "state": t.TEXT,
        "i": t.INTEGER,
        "l": t.INTEGER,
        "f": t.REAL,
        "g": t.BIG,
        "b": t.BOOLEAN,
        "d": t.DATE,
        "y": t.BYTES,
        "file": t.JSON,
        "a": t.ANY,
        "place": t.JSON,
        "tags": t.JSON,
        "shout": t.TEXT,
        "secret": t.INTEGER,
    }
    assert [column.name for column in view.columns if column.is_key] == ["id"]
    assert [column.name for column in view.columns if column.is_indexed] == ["s"]
    assert [column.name for column in view.columns if column.is_computed] == ["shout", "secret"]
    assert [column.name for column in view.columns if not column.is_shown] == ["secret"]
    assert (view.schema, view.sql_name, view.doubtful) == ("@data", "Everything", frozenset())


def test_what_may_not_be_read_is_no_column(tables: SqlTables) -> None:
    view = table_view(tables.table("Everything"), frozenset(("s", "shout", "brand", "nothing")))
    assert [column.name for column in view.columns] == ["s", "shout"]
    assert table_view(tables.table("Everything"), frozenset()).columns == ()


def test_learned_attributes_are_columns(tables: SqlTables) -> None:
    table = tables.database.define_table(TableDefinition("Dynamic", attributes=(Attribute("id", primary_key=True),), dynamic=True))
    view = table_view(table)
    assert [column.name for column in view.columns] == ["id"] and view.is_current
    tables.database.learn_attributes(table, {"id": 1, "colour": "red"})
    assert not view.is_current
    assert [(column.name, column.type, column.is_indexed) for column in table_view(table).columns[1:]] == [("colour", ColumnType.ANY, True)]


def test_a_key_that_is_not_declared_is_a_column(tables: SqlTables) -> None:
    table = tables.database.define_table(TableDefinition("Bare", attributes=(Attribute("a", "Int"),)))
    assert [(column.name, column.is_key, column.type) for column in table_view(table).columns] == [
        ("id", True, ColumnType.ANY),
        ("a", False, ColumnType.INTEGER),
    ]


def test_keys_of_segments_are_of_any_type(tables: SqlTables) -> None:
    definition = TableDefinition("Split", attributes=(Attribute("id", "String", primary_key=True),), split_segments=True)
    assert table_view(tables.database.define_table(definition)).columns[0].type is ColumnType.ANY


def test_names_that_sqlite_takes_for_one(tables: SqlTables) -> None:
    names = ("id", "Name", "name", "NAME", "\x1fid", "straße", 'a"b', "x")
    table = tables.database.define_table(
        TableDefinition("Cases", attributes=tuple([Attribute(name, "Any", primary_key=name == "id") for name in names]))
    )
    view = table_view(table)
    assert [column.name for column in view.columns] == list(names)
    assert [column.sql_name for column in view.columns] == ["id", "Name", "column\x1f2", "column\x1f3", "column\x1f4", "straße", 'a"b', "x"]
    assert [column.exact_name for column in view.columns[:3]] == ["\x1fid", "\x1fName", "\x1fcolumn\x1f2"]


def test_tables_that_sqlite_takes_for_one(tables: SqlTables) -> None:
    upper = tables.table("Everything")
    lower = tables.database.define_table(replace(EVERYTHING, name="everything"))
    odd = tables.database.define_table(replace(EVERYTHING, name="a\x1fcount"))
    names = [table_view(table).sql_name for table in (upper, lower, odd)]
    assert names == [f"table\x1f{table.number}" for table in (upper, lower, odd)]


def test_values_from_before_a_definition(tables: SqlTables) -> None:
    tables.fill({"Everything": [{"id": "a", "s": "5", "i": 5}]})
    changed = tuple([replace(each, type="Int") if each.name == "s" else each for each in EVERYTHING.attributes if each.name != "shout"])
    table = tables.database.define_table(replace(EVERYTHING, attributes=changed))
    assert table_view(table).doubtful == {"s"}
