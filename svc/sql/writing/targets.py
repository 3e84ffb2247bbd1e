"""The table that a statement writes to, its columns, and the rights that this takes (spec: sql §5, security §5.4)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from svc.auth.roles import TableRights
from svc.errors import Problem, QueryError
from svc.sql.catalogue import EXACT, Catalogue, ColumnType, ColumnView, TableView
from svc.sql.errors import MissingRights, insert_mismatch, unknown_column
from svc.sql.nodes import Column, Star, TableRef
from svc.sql.writing.values import Convert, converter_of
from svc.store import Table
from svc.store.system import SYSTEM, SYSTEM_WRITE
from svc.store.writing.write_set import RowGuard

_TIMES = frozenset(("__createdtime__", "__updatedtime__"))


class WrittenColumn(NamedTuple):
    """`is_time`: what is written to it has no effect."""

    name: str
    convert: Convert | None = None
    is_key: bool = False
    is_time: bool = False


class WriteTarget:
    """`ref`: what the statement calls it. `rows`: what rules on rows say of the caller's writes to it."""

    def __init__(self, ref: TableRef, catalogue: Catalogue, user: object) -> None:
        if not ref.database:
            raise QueryError(f"schema not defined for table {ref.name}", code="QUERY_SYNTAX", position=ref.at)
        if ref.database == SYSTEM:
            raise Problem(SYSTEM_WRITE, 403)
        self.ref = ref
        self.table: Table = catalogue.table(ref.database, ref.name, ref.at)
        if self.table.database.name == SYSTEM:
            raise Problem(SYSTEM_WRITE, 403)
        self._rights = catalogue.rights(self.table)
        self.rows = catalogue.row_guard(self.table)
        self._user = user
        self._times = _TIMES.union(self.table.stamps)
        self._folded: dict[str, list[str]] | None = None

    @property
    def star(self) -> Star:
        """All its columns."""
        return Star(self.ref.alias or self.ref.name, "" if self.ref.alias else self.ref.database)

    def column(self, name: str) -> Column:
        """One of its columns, where it is a source of a query."""
        return Column(name, self.ref.alias or self.ref.name, "" if self.ref.alias else self.ref.database, is_quoted=True)

    def require(self, right: str, columns: Iterable[WrittenColumn] = ()) -> None:
        """Raise MissingRights unless the caller has this right, `insert`, `update` or `delete`, on the table and these of its columns."""
        may = self._rights
        place = (self.table.database.name, self.table.name, right)
        if not getattr(may, right):
            raise MissingRights(self._user, [(*place, "")], is_hidden=not may.any)
        if may.attributes is None:
            return
        given = [(column.name, may.attribute(column.name)) for column in columns if not column.is_time]
        missing = [(name, rights) for name, rights in given if not getattr(rights, right)]
        if missing:
            is_hidden = not any(rights.read or rights.insert or rights.update for _, rights in missing)
            raise MissingRights(self._user, [(*place, name) for name, _ in missing], is_hidden=is_hidden)

    def columns(self, names: Sequence[str], right: str) -> tuple[WrittenColumn, ...]:
        """The columns of these names, which have to be there, unless the table learns them. Raises MissingRights, QueryError."""
        found = tuple([self._column(self.resolved(name)) for name in names])
        self.require(right, found)
        seen: set[str] = set()
        for column in found:
            name = column.name
            if name not in self.table.attributes and not self.table.definition.dynamic and not column.is_time:
                raise unknown_column(f"{self.table.name}.{name}")
            if name in seen:
                raise QueryError(f"column {name} is given twice", code="QUERY_SYNTAX")
            seen.add(name)
        return found

    @cached_property
    def _known(self) -> Collection[str]:
        """The attributes that the caller has any right on: others do not exist for it."""
        may, names = self._rights, self.table.attributes
        if (may.read and may.readable is None) or (may.attributes is None and (may.insert or may.update)):
            return names
        given = {name: may.attribute(name) for name in names}
        return [name for name, right in given.items() if right.read or right.insert or right.update or name in self._times]

    def may_read(self, name: str) -> bool:
        return self._rights.attribute(name).read

    def lacks_read(self, name: str) -> MissingRights | None:
        """The error for an attribute that the caller may write, but not read; None for one that does not exist for it."""
        if name not in self._known:
            return None
        return MissingRights(self._user, [(self.table.database.name, self.table.name, "read", name)])

    def require_key(self) -> None:
        """Raise MissingRights unless the caller may read the primary key, whose name is told only to those who have a right on it."""
        table, key = self.table, self.table.primary_key
        if not self.may_read(key):
            told = key if self._rights.read and key in self._known else ""
            raise MissingRights(self._user, [(table.database.name, table.name, "read", told)])

    def resolved(self, name: str) -> str:
        """The name of the attribute that is meant: this one, else one that differs in upper and lower case only; else the name itself."""
        if name in self._known:
            return name
        if self._folded is None:
            self._folded = {}
            for known in self._known:
                self._folded.setdefault(known.casefold(), []).append(known)
        found = self._folded.get(name.casefold(), [name])
        return found[0] if len(found) == 1 else name

    def _column(self, name: str) -> WrittenColumn:
        attribute = self.table.attributes.get(name)
        return WrittenColumn(name, converter_of(attribute), name == self.table.primary_key, name in self._times)

    def shown_columns(self, count: int) -> tuple[WrittenColumn, ...]:
        """The columns that so many values are for, where none are named: those that records have, as far as the caller has any right on them, with or without
        the times that are set by themselves."""
        shown = [attribute.name for attribute in self.table.definition.attributes if attribute.stored and not attribute.hidden]
        names = [name for name in shown if name in self._known]
        if len(names) != count:
            names = [name for name in names if name not in self._times]
        if len(names) != count:
            raise insert_mismatch(self.ref.at)
        return self.columns(names, "insert")

    def learned(self, names: Iterable[str]) -> list[str]:
        """Those of these columns that the table has to learn."""
        if not self.table.definition.dynamic:
            return []
        resolved = dict.fromkeys([self.resolved(name) for name in names])
        return [name for name in resolved if name not in self.table.attributes and name not in self._times]


class LearningCatalogue:
    """A catalogue in which a table has what it is about to learn already (`catalogue.Catalogue`): for binding alone."""

    def __init__(self, below: Catalogue, table: Table, names: Iterable[str]) -> None:
        self._below = below
        self._table = table
        self._columns = tuple([ColumnView(name, ColumnType.ANY) for name in names])

    @property
    def key(self) -> Hashable:
        return self._below.key

    def view(self, database: str, table: str, at: int = -1) -> TableView:
        view = self._below.view(database, table, at)
        return self._learned(view)

    def view_to_write(self, database: str, table: str, action: str, at: int = -1) -> TableView:
        return self._learned(self._below.view_to_write(database, table, action, at))

    def _learned(self, view: TableView) -> TableView:
        if view.table is not self._table:
            return view
        columns, name = (*view.columns, *self._columns), view.sql_name.removesuffix(EXACT + view.action) if view.action else view.sql_name
        return TableView(view.table, columns, sql_name=name, is_narrowed=view.is_narrowed, action=view.action)

    def row_guard(self, table: Table) -> RowGuard | None:
        return self._below.row_guard(table)

    def table(self, database: str, table: str, at: int = -1) -> Table:
        return self._below.table(database, table, at)

    def rights(self, table: Table) -> TableRights:
        return self._below.rights(table)

    def column_missing(self, view: TableView, name: str, at: int) -> Exception:
        return self._below.column_missing(view, name, at)

    def databases(self) -> list[str]:
        return self._below.databases()


class TargetCatalogue:
    """A catalogue in which the table that a statement changes has no records but those that the caller may `update` or `delete`: where it is what is changed,
    not wherever else the statement reads it."""

    def __init__(self, below: Catalogue, ref: TableRef, action: str) -> None:
        self._below = below
        self._at = ref.at
        self._action = action
        self.key = below.key
        self.table, self.rights, self.row_guard = below.table, below.rights, below.row_guard
        self.column_missing, self.databases, self.view_to_write = below.column_missing, below.databases, below.view_to_write

    def view(self, database: str, table: str, at: int = -1) -> TableView:
        if at == self._at:
            return self._below.view_to_write(database, table, self._action, at)
        return self._below.view(database, table, at)


def as_key(value: Any) -> Any:
    """A key as a record has it, as a key: a list is a tuple."""
    return tuple(value) if type(value) is list else value
