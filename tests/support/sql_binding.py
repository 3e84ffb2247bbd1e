"""Tables of SQLite in place of those of a store, for tests of binding: what a statement is bound to can be run, and gives values back as the engine does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import apsw

from svc.clock import FakeClock
from svc.errors import NotFound, QueryError
from svc.sql.binding import bind_query
from svc.sql.bound import BoundQuery, Decoding
from svc.sql.catalogue import PLAIN_TYPES, ColumnType, ColumnView, TableView, schema_name
from svc.sql.errors import MissingRights
from svc.sql.functions import WorkMeter, register
from svc.sql.nodes import Query
from svc.sql.parser import parse
from svc.sql.tables.index_only import CountView, GroupsView
from svc.store.values.records import decode_payload, encode_payload


def columns(spec: str, key: str = "id") -> tuple[ColumnView, ...]:
    """`name:TEXT flag:BOOLEAN *price:REAL ~computed:TEXT`; `*`: indexed; `~`: not part of `*`."""
    found: list[ColumnView] = []
    for each in spec.split():
        name, _, type_name = each.lstrip("~*").partition(":")
        alias = f"{name}:2" if any(other.name.lower() == name.lower() for other in found) else ""
        is_indexed, is_shown = each.startswith("*"), not each.startswith("~")
        found.append(ColumnView(name, ColumnType[type_name or "TEXT"], name == key, is_indexed, is_shown=is_shown, alias=alias))
    return tuple(found)


class FakeCatalogue:
    """`tables`: (database, table) -> all columns. `hidden`: columns that the caller may not read, `unknown`: of which he may not even know."""

    def __init__(
        self, tables: Mapping[tuple[str, str], tuple[ColumnView, ...]], hidden: Iterable[str] = (), unknown: Iterable[str] = ()
    ) -> None:
        self.all = tables
        self.hidden, self.unknown = frozenset(hidden), frozenset(unknown)
        self.views: dict[tuple[str, str], TableView] = {}
        for (database, name), found in tables.items():
            table: Any = SimpleNamespace(name=name, database=SimpleNamespace(name=database), definition=None)
            readable = tuple(column for column in found if column.name not in self.hidden | self.unknown)
            self.views[database, name] = TableView(table, readable)

    @property
    def key(self) -> object:
        return None

    def view(self, database: str, table: str, at: int = -1) -> TableView:
        if (database, table) not in self.views:
            raise NotFound(f"Table '{database}.{table}' does not exist")
        return self.views[database, table]

    def rights(self, table: Any) -> Any:
        raise NotImplementedError

    def column_missing(self, view: TableView, name: str, at: int) -> Exception:
        if name in self.hidden and any(column.name == name for column in self.all[view.table.database.name, view.table.name]):
            return MissingRights(SimpleNamespace(), [(view.table.database.name, view.table.name, "read", name)])
        return QueryError(f"unknown column {name}", code="UNKNOWN_ATTRIBUTE", position=at)

    def databases(self) -> list[str]:
        return sorted({database for database, _ in self.all})


def bound(text: str, catalogue: FakeCatalogue, **options: Any) -> BoundQuery:
    query = parse(text)
    assert isinstance(query, Query)
    return bind_query(query, catalogue, text, **options)


def value_face(value: Any) -> Any:
    """What a column has for a value of a record."""
    if isinstance(value, (list, dict)):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    return value


def exact_face(value: Any) -> Any:
    is_itself = (
        value is None or isinstance(value, (str, float)) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63)
    )
    return value if is_itself else encode_payload(value)


def decoded(value: Any, decoding: Decoding) -> Any:
    if decoding is Decoding.EXACT:
        return decode_payload(value) if isinstance(value, bytes) else value
    if decoding is Decoding.BOOLEAN:
        return {0: False, 1: True}.get(value, value)
    if decoding is Decoding.JSON:
        return None if value is None else json.loads(value)
    return int(value) if decoding is Decoding.BIG and value is not None else value


class FakeFigures:
    """`counts`: of records, by the name of the table; attributes in `unusable` have no groups."""

    def __init__(self, counts: Mapping[str, int] | None = None, unusable: Iterable[str] = ()) -> None:
        self.counts = counts or {}
        self.unusable = frozenset(unusable)

    def record_count(self, view: TableView) -> int:
        return self.counts.get(view.table.name, 0)

    def size(self, view: TableView) -> int:
        return 100 * self.record_count(view)

    def groups(self, view: TableView, attribute: str) -> GroupsView | None:
        return None if attribute in self.unusable else GroupsView(view, view.by_name[attribute])

    def count(self, view: TableView) -> CountView:
        return CountView(view)


class Rows:
    """Records in SQLite, as the tables of a catalogue have them."""

    def __init__(self, catalogue: FakeCatalogue, records: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]) -> None:
        self.catalogue = catalogue
        self.connection = apsw.Connection(":memory:")
        self.connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        register(self.connection, WorkMeter(FakeClock()))  # no statement takes long
        for database in catalogue.databases():
            self.connection.execute(f"ATTACH ':memory:' AS \"{schema_name(database)}\"")
        for (database, name), view in catalogue.views.items():
            names = []
            for column in view.columns:
                affinity = column.type.name if column.type in (*PLAIN_TYPES, ColumnType.REAL) else ""
                quoted = column.sql_name.replace('"', '""')
                names.append(f'"{quoted}" {affinity}' + (" PRIMARY KEY" if column.is_key else ""))
                if column.type not in PLAIN_TYPES:
                    names.append(f'"{column.exact_name}"')
            without = " WITHOUT ROWID" if any(column.is_key for column in view.columns) else ""
            target = f'"{schema_name(database)}"."{name}"'
            self.connection.execute(f"CREATE TABLE {target} ({', '.join(names)}){without}")
            for record in records.get((database, name), ()):
                values: list[Any] = []
                for column in view.columns:
                    value = record.get(column.name)
                    values.append(value_face(value))
                    if column.type not in PLAIN_TYPES:
                        values.append(exact_face(value))
                self.connection.execute(f"INSERT INTO {target} VALUES ({', '.join('?' * len(values))})", values)

    def add_counts(self) -> None:
        """The tables that `FakeFigures` tells of."""
        for (_, name), view in self.catalogue.views.items():
            schema = f'"{view.schema}"'
            self.connection.execute(f'CREATE VIEW {schema}."{CountView(view).sql_name}" AS SELECT COUNT(*) AS n FROM "{name}"')
            for column in view.columns:
                value, exact = [each.replace('"', '""') for each in (column.sql_name, column.exact_name)]
                target = GroupsView(view, column).sql_name.replace('"', '""')
                columns = f'"{value}" AS value, "{exact}" AS exact, COUNT(*) AS n'
                self.connection.execute(f'CREATE VIEW {schema}."{target}" AS SELECT {columns} FROM "{name}" GROUP BY "{value}"')

    def run(self, query: BoundQuery, parameters: Mapping[int | str, Any] | None = None) -> list[tuple[Any, ...]]:
        given = []
        for index, name in enumerate(query.parameters):
            value = (parameters or {})[name]
            given.append(exact_face(value) if index in query.exact_parameters else value_face(value))
        rows = self.connection.execute(query.text, [*given, *query.constants])
        return [tuple(decoded(value, column.decoding) for value, column in zip(row, query.columns, strict=True)) for row in rows]

    def run_any(self, text: str) -> None:
        """Whether SQLite takes it. Every parameter is 1."""
        query = bound(text, self.catalogue)
        self.run(query, dict.fromkeys(query.parameters, 1))

    def ask(self, text: str, parameters: Mapping[int | str, Any] | None = None) -> list[tuple[Any, ...]]:
        return self.run(bound(text, self.catalogue), parameters)


TABLES = {
    ("data", "person"): columns(
        "id name age:INTEGER score:REAL active:BOOLEAN born:DATE tags:JSON raw:BYTES big:BIG any:ANY secret hidden ~title"
    ),
    ("data", "pet"): columns("id owner name active:BOOLEAN any:ANY secret"),
    ("data", "Odd"): columns('key:ANY order a"b Name name', "key"),
    ("empty", "nothing"): columns("~id"),
    ("shop", "sale"): columns("id:INTEGER *person *amount:REAL at:DATE any:ANY"),
}
ALL = FakeCatalogue(TABLES)
NARROW = FakeCatalogue(TABLES, hidden=("secret",), unknown=("hidden",))
RECORDS: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("data", "person"): [
        {"id": "a", "name": "Ann", "age": 30, "score": 1.5, "active": True, "born": "2000-01-05T00:00:00.000Z", "tags": ["x", 1], "raw": b"\0a",
         "big": 2**70, "any": True, "secret": "s", "title": "Dr"},
        {"id": "b", "name": "Bob", "age": 20, "active": False, "big": 5, "any": [1, 2]},
        {"id": "c", "name": "Cy", "active": True, "any": "1", "secret": "7"},
        {"id": "d", "name": "Dee", "age": 20, "any": 1},
    ],
    ("data", "pet"): [
        {"id": "p", "owner": "a", "name": "Rex", "active": True, "any": True},
        {"id": "q", "owner": "b", "name": "Tom", "any": {"a": 1}},
        {"id": "r", "owner": "zz", "name": "Ann", "active": False, "any": 1},
    ],
    ("shop", "sale"): [
        {"id": 1, "person": "a", "amount": 2.5, "at": "2024-01-01T00:00:00.000Z", "any": "true"},
        {"id": 2, "person": "a", "amount": 4.0, "any": True},
        {"id": 3, "person": "b", "any": 7},
    ],
}  # fmt: skip


def printed(text: str, catalogue: FakeCatalogue = ALL, **options: Any) -> str:
    """The SQL that SQLite gets, with `^` for the mark of exact faces, without the quotes of plain names, and functions in upper case without `svc_`,
    and literals that are given as parameters in braces."""
    query = bound(text, catalogue, **options)
    found = re.sub(r'"([\w@^:]+)"', r"\1", query.text.replace("\x1f", "^"))
    numbered = dict(enumerate(zip(query.constants, query.holes, strict=True), len(query.parameters) + 1))
    for number in sorted(numbered, reverse=True):  # ?12 before ?1
        value, place = numbered[number]
        if place is not None:
            found = found.replace(f"?{number}", f"{{{value!r}}}")
    return re.sub(r"\b(?:svc_)?([a-z]\w*)\(", lambda match: f"{match[1].upper()}(", found)


def named(text: str, catalogue: FakeCatalogue = ALL) -> list[str]:
    return [column.name for column in bound(text, catalogue).columns]


def fault(text: str, catalogue: FakeCatalogue = ALL, **options: Any) -> QueryError:
    """The error of a statement that cannot be bound."""
    try:
        found = bound(text, catalogue, **options)
    except QueryError as error:
        return error
    raise AssertionError(f"bound to {found.text}")
