"""Tables as SQL shows them: which columns there are, and of what type (spec: sql §3)."""

from __future__ import annotations

from svc.sql.catalogue import EXACT, ColumnType, ColumnView, TableView
from svc.store import Table
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.leftovers import read_note
from svc.store.schema import Attribute
from svc.store.schema_changes import OTHER_TYPE

_TYPES = {
    "ID": ColumnType.TEXT,
    "String": ColumnType.TEXT,
    "Int": ColumnType.INTEGER,
    "Long": ColumnType.INTEGER,
    "Float": ColumnType.REAL,
    "BigInt": ColumnType.BIG,
    "Boolean": ColumnType.BOOLEAN,
    "Date": ColumnType.DATE,
    "Bytes": ColumnType.BYTES,
    "Blob": ColumnType.JSON,
    "Any": ColumnType.ANY,
}


def table_view(table: Table, readable: frozenset[str] | None = None, *, is_narrowed: bool = False, action: str = "") -> TableView:
    """The columns of a table of these names, None: all, in the order of its definition; relationships are none. On the loop: it reads the turn's snapshot.
    `is_narrowed`, `action`: as of a TableView."""
    names: set[str] = set()
    columns = []
    for number, attribute in enumerate(_attributes(table)):
        name = attribute.name
        if attribute.relationship is not None or (readable is not None and name not in readable):
            continue
        is_clear = EXACT not in name and name.casefold() not in names
        names.add(name.casefold())
        is_computed = attribute.computed_from is not None
        columns.append(
            ColumnView(
                name,
                column_type(table, attribute),
                is_key=name == table.primary_key,
                is_indexed=name in table.indexes,
                is_computed=is_computed,
                is_shown=attribute.enumerable or not is_computed,
                alias="" if is_clear else f"column{EXACT}{number}",
            )
        )
    return TableView(
        table,
        tuple(columns),
        sql_name=_sql_name(table),
        doubtful=_doubtful(table),
        is_narrowed=is_narrowed,
        action=action if is_narrowed else "",
    )


def column_type(table: Table, attribute: Attribute) -> ColumnType:
    if attribute.elements:
        return ColumnType.JSON
    if attribute.enum is not None:
        return ColumnType.TEXT
    if attribute.name == table.primary_key and table.definition.split_segments:
        return ColumnType.ANY  # texts, and lists of segments
    return _TYPES.get(attribute.type, ColumnType.JSON)


def _attributes(table: Table) -> tuple[Attribute, ...]:
    declared = table.definition.attributes
    if table.primary_key in table.attributes:
        return declared
    return (Attribute(table.primary_key, primary_key=True), *declared)


def _sql_name(table: Table) -> str:
    """Its name, unless SQLite would take it for that of another table."""
    folded = table.name.casefold()
    is_clear = EXACT not in table.name and all(name == table.name or name.casefold() != folded for name in table.database.tables)
    return table.name if is_clear else f"table{EXACT}{table.number}"


def _doubtful(table: Table) -> frozenset[str]:
    try:
        note = read_note(table, table.database.snapshot())
    except LmdbError as error:
        raise store_problem(error, table.database.env.path) from error
    return frozenset() if note is None else frozenset([name for kind, name in note.doubts if kind == OTHER_TYPE])
