"""Which column a name means, as SQLite finds it: in the sources of a query, then in those of the queries around it (spec: sql §2).

Where SQLite takes names as equal that differ in case only, here the one that is written the same comes first: attributes may differ in case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from svc.sql.binding.names import Names
from svc.sql.binding.sources import AmbiguousName, MergedColumn, Source, SourceColumn
from svc.sql.nodes import Expression

Found = TypeVar("Found")


class Entry:
    """A source in the order of FROM. `kind`: of its join with those before it. `merged`: those of its columns that USING has made one with earlier ones."""

    __slots__ = ("kind", "merged", "source")

    def __init__(self, source: Source, kind: str = "") -> None:
        self.source = source
        self.kind = kind
        self.merged: list[SourceColumn] = []

    def merges(self, column: SourceColumn) -> bool:
        return any(column is each for each in self.merged)


class Scope:
    """The names that the expressions of one SELECT may use.

    `outer`: the scope of the query around it; `tables`: the common tables it may name (`CommonTables`), or None. `aliases`: of its result columns, once
    they are bound, with their expressions; `positions`: the numbers, from 1, of those that ORDER BY may name, which are those of `*` as well.
    `no_aggregates`, `no_windows`: where in the statement expressions are bound, "" if there may be any. `aggregates`: those calls that compute over the rows
    of this query, by their identity.
    """

    __slots__ = (
        "_called", "_columns", "_merged",
        "aggregates", "aliases", "depth", "entries", "has_windows", "no_aggregates", "no_windows", "outer", "positions", "tables", "windows",
    )  # fmt: skip

    def __init__(self, outer: Scope | None, tables: Any) -> None:
        self.outer = outer
        self.tables = tables
        self.entries: list[Entry] = []
        self.aliases: Names[Expression] = Names()
        self.positions: Names[int] = Names()
        self.no_aggregates = ""
        self.no_windows = ""
        self.aggregates: dict[int, Expression] = {}
        self.has_windows = False
        self.depth = 0  # of the deepest of the relations among its sources
        self.windows: Names[str] = Names()  # each its name in SQLite
        self._merged: dict[tuple[int, ...], MergedColumn] = {}
        self._columns: dict[str, SourceColumn | None] = {}
        self._called: dict[tuple[str, str], list[Source]] = {}

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._columns.clear()
        self._called.clear()

    @property
    def has_right_joins(self) -> bool:
        return any(entry.kind in ("RIGHT", "FULL") for entry in self.entries)

    def sources(self) -> list[Source]:
        return [entry.source for entry in self.entries]

    def column(self, name: str) -> SourceColumn | None:
        """The column that a name alone means in this scope. Raises AmbiguousName."""
        if name not in self._columns:
            self._columns[name] = self.find(name, True) or self.find(name, False)
        return self._columns[name]

    def find(self, name: str, is_exact: bool) -> SourceColumn | None:
        found: SourceColumn | None = None
        count = 0
        parts: list[SourceColumn] = []  # of a FULL JOIN
        for entry in self.entries:
            column = entry.source.find(name, is_exact)
            if column is None:
                continue
            if found is not None:
                if not entry.merges(column):
                    parts = []
                elif entry.kind == "RIGHT":
                    count, parts = 0, []
                elif entry.kind == "FULL":
                    parts.append(found)
                else:
                    continue
            count += 1
            found = column
        if count > 1 and found is not None:
            if len(parts) != count - 1:
                raise AmbiguousName(name)
            return self._merged.setdefault(tuple(map(id, (*parts, found))), MergedColumn([*parts, found]))
        return found

    def called(self, table: str, database: str = "") -> list[Source]:
        """The sources of this name."""
        found = self._called.get((table, database))
        if found is None:
            found = _first_found(
                lambda is_exact: [each for entry in self.entries for each in entry.source.called(table, database, is_exact)]
            )
            self._called[table, database] = found
        return found

    def shown(self) -> list[SourceColumn]:
        """What `*` stands for: a column of USING once."""
        has_right_joins = self.has_right_joins
        found = []
        for index, entry in enumerate(self.entries):
            for column in entry.source.shown():
                if entry.merges(column):
                    continue
                later = self.entries[index + 1 :] if has_right_joins else []
                if any(each.name.casefold() == column.name.casefold() for entry in later for each in entry.merged):
                    found.append(self.column(column.name) or column)
                else:
                    found.append(column)
        return found


def column_of(sources: Iterable[Source], name: str) -> SourceColumn | None:
    """The column of this name in one of these sources. Raises AmbiguousName."""
    found = _first_found(lambda is_exact: [column for source in sources if (column := source.find(name, is_exact)) is not None])
    if len(found) > 1:
        raise AmbiguousName(name)
    return found[0] if found else None


def _first_found(find: Callable[[bool], list[Found]]) -> list[Found]:
    """What is found with names as they are written, else in any case."""
    return find(True) or find(False)
