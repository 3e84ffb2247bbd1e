"""svc.sql.tables.module"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import apsw
import pytest

from svc.errors import QueryTooLarge
from svc.sql.catalogue import schema_name
from svc.sql.tables import module
from svc.sql.tables.module import TableModules
from svc.sql.tables.views import table_view
from svc.store.schema import Attribute, TableDefinition
from tests.support.sql_tables import NUMBERED, TYPED, Source, SqlTables

SMALL = TableDefinition("Small", attributes=(Attribute("id", "ID", primary_key=True), Attribute("a", "Int")))


@pytest.fixture
def tables(open_tables: Callable[..., SqlTables]) -> SqlTables:
    tables = open_tables(TYPED)
    tables.fill({"Typed": [{"id": "a", "s": "b"}]})
    return tables


def test_a_table_is_declared_once(tables: SqlTables) -> None:
    tables.modules.declare(tables.views["Typed"], tables.views["Typed"])
    before = tables.ours.total_changes(), list(tables.ours.execute('SELECT name FROM "@data".sqlite_master'))
    tables.modules.declare(tables.views["Typed"])
    assert before == (tables.ours.total_changes(), [("Typed",)])


def test_another_definition_replaces_it(tables: SqlTables) -> None:
    assert tables.ask('SELECT s FROM "@data"."Typed"') == [("b",)]
    tables.define(replace(TYPED, attributes=(*TYPED.attributes, Attribute("more", "Int"))))
    tables.read()
    assert tables.ask('SELECT s, more FROM "@data"."Typed"') == [("b", None)]


def test_what_may_not_be_read_is_unknown(tables: SqlTables) -> None:
    tables.view(tables.table("Typed"), frozenset(("id", "i")))
    for name in ("s", "\x1fs", "tags", "rowid"):
        with pytest.raises(apsw.SQLError, match="no such column"):
            tables.ask(f'SELECT [{name}] FROM "@data"."Typed"')
    assert tables.ask('SELECT * FROM "@data"."Typed"') == [("a", None)]
    # Not even the key has to be readable.
    tables.view(tables.table("Typed"), frozenset(("s",)))
    assert tables.ask("SELECT * FROM \"@data\".\"Typed\" WHERE s = 'b' OR s LIKE 'b%'") == [("b",)]
    tables.modules.declare(table_view(tables.table("Typed"), frozenset()))
    assert tables.ask('SELECT COUNT(*) FROM "@data"."Typed"') == [(1,)]


def test_hidden_columns_are_not_shown(tables: SqlTables) -> None:
    assert len(tables.ask('SELECT * FROM "@data"."Typed"')[0]) == len(TYPED.attributes)


def test_nothing_can_be_written(tables: SqlTables) -> None:
    for statement in (
        'INSERT INTO "@data"."Typed" (id) VALUES (1)',
        'UPDATE "@data"."Typed" SET s = 1',
        'DELETE FROM "@data"."Typed"',
    ):
        with pytest.raises(apsw.Error):
            tables.ask(statement)
    assert len(tables.ask('SELECT * FROM "@data"."Typed"')) == 1


@pytest.mark.parametrize("name", ["other", 'a"b', "main", "temp", "x y", "日本", "a'b"])
def test_databases_of_all_names(tables: SqlTables, name: str) -> None:
    database = tables.store.open_database(name)
    view = table_view(database.define_table(SMALL))
    tables.modules.declare(view, tables.views["Typed"])
    tables.read(database.snapshot())
    quoted = '"' + view.schema.replace('"', '""') + '"'
    assert view.schema == schema_name(name)
    assert tables.ask(f'SELECT * FROM {quoted}."Small"') == []


def test_more_databases_than_can_be_attached(tables: SqlTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SCHEMAS", 3)
    views = [table_view(tables.store.open_database(f"d{number}").define_table(SMALL)) for number in range(5)]
    for _ in range(2):
        for view in views:
            tables.modules.declare(view, tables.views["Typed"])
            tables.read(view.table.database.snapshot())
            assert tables.ask(f'SELECT * FROM "{view.schema}"."Small"') == []
    with pytest.raises(QueryTooLarge, match="A statement can read 3 databases, not 4"):
        tables.modules.declare(*views[:4])
    tables.modules.declare(*views[:3])


def test_a_hundred_databases(tables: SqlTables) -> None:
    """As many as a connection of apsw can have."""
    view = tables.views["Typed"]
    for number in range(module.MOST_SCHEMAS + 20):
        tables.modules._attach(f"@d{number}")
    tables.modules.declare(view)
    assert len(list(tables.ours.execute("PRAGMA database_list"))) <= module.MOST_SCHEMAS + 1
    assert tables.ask('SELECT s FROM "@data"."Typed"') == [("b",)]


def test_a_declaration_that_fails_leaves_nothing(tables: SqlTables) -> None:
    attributes = tuple([Attribute(f"a{number}", "Any") for number in range(1100)])
    table = tables.database.define_table(replace(SMALL, attributes=(*SMALL.attributes, *attributes)))
    for _ in range(2):
        with pytest.raises(QueryTooLarge):
            tables.modules.declare(table_view(table))
    tables.modules.declare(table_view(tables.database.define_table(replace(SMALL, name="Other"))))


def test_tables_with_names_in_two_cases(open_tables: Callable[..., SqlTables]) -> None:
    tables = open_tables(SMALL)
    lower = tables.database.define_table(replace(SMALL, name="small"))
    tables.fill({"Small": [{"id": "upper", "a": 1}]})
    transaction = tables.store.begin()
    transaction.put(lower, "lower", {"a": 2})
    tables.store.commit_now(transaction)
    views = [table_view(tables.table("Small")), table_view(lower)]
    tables.modules.declare(*views)
    tables.read()
    one, two = [f'"@data"."{view.sql_name}"' for view in views]
    assert tables.ask(f"SELECT x.id, y.id FROM {one} AS x, {two} AS y") == [("upper", "lower")]


def test_two_connections(tables: SqlTables) -> None:
    """Each has its own source."""
    other = apsw.Connection(":memory:")
    modules = TableModules(other)
    modules.declare(tables.views["Typed"])
    before = tables.database.snapshot()
    modules.source = Source(before, 0.0)
    tables.modules.source = None
    assert list(other.execute('SELECT s FROM "@data"."Typed"')) == [("b",)]
    with pytest.raises(AssertionError, match="without a source"):
        tables.ask('SELECT s FROM "@data"."Typed"')
    other.close()


def test_a_source_is_asked_for_each_statement(tables: SqlTables) -> None:
    state = tables.modules.state
    tables.modules.source = tables.modules.source
    assert tables.modules.state is state
    tables.read()
    assert tables.modules.state is not state


def test_tables_are_connected_again_when_sqlite_has_forgotten_them(open_tables: Callable[..., SqlTables]) -> None:
    tables = open_tables(TYPED, NUMBERED)
    tables.fill({"Typed": [{"id": "a"}], "Numbered": []})
    # A failed statement of the schema makes SQLite read all schemas again.
    for _ in range(2):
        with pytest.raises(KeyError):
            tables.ours.execute('CREATE TABLE "@data".x AS SELECT 1; CREATE VIRTUAL TABLE "@data".y USING svc')
        tables.ours.execute('DROP TABLE IF EXISTS "@data".x')
        assert tables.ask('SELECT id FROM "@data"."Typed"') == [("a",)]


def test_any_number_of_connections_can_have_tables() -> None:
    """apsw has 33 places for modules of version 3 and later, in the whole process."""
    connections = [apsw.Connection(":memory:") for _ in range(100)]
    modules = [TableModules(connection) for connection in connections]
    assert len(modules) == 100
    for connection in connections:
        connection.close()
