"""Databases and tables as one caller sees them (spec: sql §3, §6).

    Catalogue    all that a caller may read: finds a table by the name it has in a statement, or says why it cannot be used
    TableView    one table with the columns that the caller may read; others are not known to SQLite at all
    ColumnView   one of these columns

A column has up to two faces in SQLite. Under its own name it has the value that statements compute with: text, a number, bytes or null. Where a
record may hold something that this loses (a boolean, a date, an object, an integer beyond 64 bits), there is a hidden column beside it, `exact_name`,
with the same value as `exact_value` encodes it: statements whose result is the column itself read that one, and get back what is stored.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

from svc.auth.roles import TableRights
from svc.store import Table
from svc.store.writing.write_set import RowGuard

if TYPE_CHECKING:
    from svc.sql.row_filters import RowFilter

EXACT = "\x1f"  # before the name of a column: its hidden face. No attribute has a name that begins with it
RECORD = EXACT * 2  # the name of a hidden column: the record as it is stored


class ColumnType(IntEnum):
    """How the values of an attribute look to SQLite, and what they compare like (spec: sql §3)."""

    TEXT = 0  # String, ID, enumerations
    INTEGER = 1  # Int, Long
    REAL = 2  # Float
    BOOLEAN = 3  # 1 and 0
    DATE = 4  # ISO 8601 text with ms and Z
    JSON = 5  # lists, structures: JSON text
    BYTES = 6  # a BLOB
    BIG = 7  # BigInt: an integer, beyond 64 bits its digits as text
    ANY = 8  # undeclared types: each value by its own


PLAIN_TYPES = frozenset((ColumnType.TEXT, ColumnType.INTEGER))  # that have one face only


@dataclass(frozen=True, slots=True)
class ColumnView:
    """`is_shown`: part of `*`. `is_computed`: not stored, but computed from the record. `alias`: what SQLite calls it, if that cannot be its name."""

    name: str
    type: ColumnType
    is_key: bool = False
    is_indexed: bool = False
    is_computed: bool = False
    is_shown: bool = True
    alias: str = ""

    @property
    def sql_name(self) -> str:
        """Its name in SQLite, for which upper and lower case are the same."""
        return self.alias or self.name

    @property
    def exact_name(self) -> str:
        """The column to be read where the value itself is the result."""
        return self.sql_name if self.type in PLAIN_TYPES else EXACT + self.sql_name


class TableView:
    """A table and the columns of it that may be read, in the order of the definition. Two callers who may read the same share one.

    `schema`, `sql_name`: the names of its database and its own in SQLite. It stands for one definition of the table: `is_current` is False once that has
    changed. `doubtful`: attributes of which records may have values that do not fit the definition, from before it. `is_narrowed`: each caller sees those
    records only that a rule lets it see (`row_filters`); with an `action`, `update` or `delete`, those for which the rule about that holds, too.
    """

    __slots__ = ("action", "by_name", "columns", "definition", "doubtful", "is_narrowed", "schema", "sql_name", "table")

    def __init__(
        self,
        table: Table,
        columns: tuple[ColumnView, ...],
        *,
        sql_name: str = "",
        doubtful: frozenset[str] = frozenset(),
        is_narrowed: bool = False,
        action: str = "",
    ) -> None:
        self.table = table
        self.sql_name = (sql_name or table.name) + (EXACT + action if action else "")
        self.is_narrowed = is_narrowed
        self.action = action
        self.doubtful = doubtful
        self.definition = table.definition
        self.columns = columns
        self.by_name: Mapping[str, ColumnView] = {column.name: column for column in columns}
        self.schema = schema_name(table.database.name)

    @property
    def is_current(self) -> bool:
        return self.table.definition is self.definition and self.table.is_there


def schema_name(database: str) -> str:
    """The name of a database in SQLite, which has some of its own: `main`, `temp`."""
    return f"@{database}"


class Catalogue(Protocol):
    """What one caller sees. `key`: equal for callers who see the same; bound statements and connections are kept by it."""

    @property
    def key(self) -> Hashable: ...

    def view(self, database: str, table: str, at: int = -1) -> TableView:
        """A table that the caller may read. Raises NotFound (404) for one that does not exist, `MissingRights` without any right to read it."""

    def table(self, database: str, table: str, at: int = -1) -> Table:
        """A table on which the caller has any right, to be written to. Raises NotFound (404), `MissingRights` without any right."""

    def view_to_write(self, database: str, table: str, action: str, at: int = -1) -> TableView:
        """As `view`, with the records only that the caller may `update` or `delete`."""

    def rights(self, table: Table) -> TableRights:
        """All rights of the caller on a table, for what a statement writes."""

    def row_guard(self, table: Table) -> RowGuard | None:
        """What rules on rows say of the caller's writes to a table."""

    def column_missing(self, view: TableView, name: str, at: int) -> Exception:
        """The error for a column that `view` does not have: `MissingRights` if the table has it, else 400 UNKNOWN_ATTRIBUTE with the nearest name."""

    def databases(self) -> list[str]:
        """The names of databases in which anything may be read, for hints."""


class StatementSource(Protocol):
    """What the cursors of a running statement read: one state of each database. `wall_ms`: the time of the statement, by which records have expired."""

    @property
    def wall_ms(self) -> float: ...

    def txn(self, table: Table) -> Any:
        """The read transaction (`svc.store.env.Txn`, or an `Overlay`) to read this table with. Raises SnapshotLost."""

    def row_filter(self, view: TableView) -> RowFilter:
        """What the caller may see of a view that `is_narrowed`."""

    def rows(self, name: str) -> Sequence[Sequence[Any]]:
        """The rows that are given for this statement under a name, as the values of records are."""
