"""ON CONFLICT: what becomes of a row whose record exists (spec: sql §5).

A record exists if there is one with the same primary key, or with the same value of a `@unique` attribute that the clause names. Of several clauses the
first that applies counts; after all of them a row whose key exists is skipped. `excluded.x` is what the row would have made of x: the clause asks a query
over the table and the rows that met a record, in which the columns of `excluded` have names that no unqualified name is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from svc.errors import ClientError, QueryError
from svc.sql.bound import BoundQuery
from svc.sql.catalogue import ColumnType, ColumnView
from svc.sql.errors import unknown_column
from svc.sql.nodes import Binary, Column, Conflict, Join, Query, Select, SelectItem, TableRef
from svc.sql.writing.assignments import Assignments, ReadNames
from svc.sql.writing.collector import Collector
from svc.sql.writing.context import WriteContext
from svc.sql.writing.reading import Columns, Reading, Row, Steps
from svc.sql.writing.record_checks import RowFaults, own_blobs
from svc.sql.writing.returning import KEY, as_value, key_view
from svc.sql.writing.targets import WriteTarget, WrittenColumn, as_key
from svc.store.indexes.index import Index
from svc.store.values.keys import Key, encode_key
from svc.store.writing.constraints import find_rival, values_of

EXCLUDED = "\x1dexcluded"
_PREFIX = "\x1d"  # of its columns, which are numbered


class Met(NamedTuple):
    """`key`: of the record that exists."""

    key: Key
    is_update: bool


class ConflictRules:
    """Those of one INSERT. `columns`: that are set by DO UPDATE; `decide`: whether more than the existence of keys counts."""

    def __init__(
        self, conflicts: Sequence[Conflict], inserted: Sequence[WrittenColumn], target: WriteTarget, context: WriteContext
    ) -> None:
        """`inserted`: the columns of the rows."""
        self._table = target.table
        names = frozenset(column.name for column in inserted)
        self._clauses = [_Clause(conflict, names, target, context) for conflict in conflicts]
        self.columns = tuple([column for clause in self._clauses for column in clause.columns])
        self.decide = bool(self.columns) or any(clause.indexes for clause in self._clauses)
        self.begin()

    def begin(self) -> None:
        """Nothing has been written yet."""
        self._keys: set[Key] = set()  # of the statement's own records
        self._values: dict[str, set[bytes]] = {index.attribute: set() for clause in self._clauses for index in clause.indexes}
        self._updated: dict[Key, _Clause] = {}
        self.refused: set[Key] = set()
        for clause in self._clauses:
            clause.rows = []

    def meet(self, collector: Collector, key: Key, record: dict[str, Any]) -> Met | None:
        """What becomes of a row; None: its record is made. Raises ClientError if DO UPDATE would change a record for the second time."""
        whole = self._table.validator.complete(record, is_new=True) if self.decide else record
        for clause in self._clauses:
            met = self._of_clause(clause, collector, key, whole)
            if met is not None:
                if clause.update is None:
                    return Met(met, False)
                if met in self._keys or met in self._updated:
                    raise _twice(met)
                self._updated[met] = clause
                clause.rows.append((met, whole | {self._table.primary_key: as_value(key)}))
                return Met(met, True)
        if key in self._keys or key in self._updated or collector.read(key) is not None:
            return Met(key, False)
        self._keys.add(key)
        for attribute, seen in self._values.items():
            seen.update([encode_key(value) for _, value in values_of(self._table.indexes[attribute], whole)])
        return None

    def _of_clause(self, clause: _Clause, collector: Collector, key: Key, record: dict[str, Any]) -> Key | None:
        """The key of the record that the clause finds."""
        if clause.is_of_key and (key in self._keys or collector.read(key) is not None):
            return key
        for index in clause.indexes:
            for entry, value in values_of(index, record):
                if encode_key(value) in self._values[index.attribute]:
                    if clause.update is not None:
                        raise _twice(key)
                    return key
                rival, _ = find_rival(collector.txn, self._table, index, entry, value, b"", collector.wall_ms)
                if rival is not None:
                    raw = self._table.read(rival, collector.txn)
                    assert raw is not None
                    if not collector.can_see(rival, raw):
                        continue  # the write will fail, and tell no more than that
                    return as_key(self._table.key_of(raw))  # type: ignore[no-any-return]
        return None

    def update(self, collector: Collector) -> Steps[list[Key]]:
        """Collect the updates. Returns their keys, in the order of the rows; those for which WHERE does not hold are `refused`."""
        done: set[Key] = set()
        for clause in self._clauses:
            if clause.rows:
                yield from clause.steps(collector, done)
        self.refused = self._updated.keys() - done
        return [key for key in self._updated if key in done]


class _Clause:
    """`is_of_key`, `indexes`: what is compared. `update`: the query of DO UPDATE. `rows`: (key that exists, record of the row)."""

    def __init__(self, conflict: Conflict, inserted: frozenset[str], target: WriteTarget, context: WriteContext) -> None:
        self._table = target.table
        self.rows: list[tuple[Key, dict[str, Any]]] = []
        self.is_of_key, self.indexes = _compared(conflict, target)
        self.columns: tuple[WrittenColumn, ...] = ()
        self.update: BoundQuery | None = None
        if conflict.assignments:
            self._assignments = Assignments(conflict.assignments, target, context, "update")
            self.columns = self._assignments.columns
            self.update, self._excluded, self._used, self._names = context.once(lambda: self._bound(conflict, inserted, target, context))

    def _bound(
        self, conflict: Conflict, inserted: frozenset[str], target: WriteTarget, context: WriteContext
    ) -> tuple[BoundQuery, Columns, tuple[str, ...], ReadNames]:
        key = key_view(target, context)
        excluded = _Excluded(inserted, target)
        items = (SelectItem(target.column(key.name)), *excluded.replaced(self._assignments.items))
        where = excluded.replaced(conflict.where)
        source = Join(TableRef(EXCLUDED), target.ref, on=Binary("=", target.column(key.name), Column(KEY, EXCLUDED)))
        columns = {EXCLUDED: (replace(key, name=KEY, is_key=False), *excluded.views.values())}
        query = context.bind(Query(Select(items, source, where)), columns)
        return query, columns, tuple(excluded.views), ReadNames((items[1:], where), target)

    def steps(self, collector: Collector, done: set[Key]) -> Steps[None]:
        assert self.update is not None
        table, names = self._table, self._names
        faults = RowFaults(table, numbers_rows=False)

        def receive(rows: list[Row]) -> None:
            for row in rows:
                key: Key = as_key(row[0])
                done.add(key)
                given = self._assignments.values(row[1:])
                try:
                    changes = table.validator.changes(given, source="json")
                except ClientError as error:
                    faults.add(0, given | {table.primary_key: row[0]}, error)
                    continue
                changes = own_blobs(changes, partial(collector.read, key))
                collector.update(key, changes, names)

        given = [(as_value(key), *[record.get(name) for name in self._used]) for key, record in self.rows]
        yield Reading(self.update, receive, self._excluded, {EXCLUDED: given})
        faults.check()


def _compared(conflict: Conflict, target: WriteTarget) -> tuple[bool, tuple[Index, ...]]:
    """Whether the primary key is compared, and the indexes of unique attributes that are. What is compared tells which record has a value, so the caller has to
    have the right to read it."""
    table = target.table
    if conflict.target_where is not None:
        raise QueryError("ON CONFLICT takes no WHERE behind its column: it concerns all records", code="QUERY_SYNTAX", position=conflict.at)
    unique = {index.attribute: index for index in table.index_list if index.unique}
    if not conflict.columns:
        return True, tuple([index for name, index in unique.items() if target.may_read(name)])
    names = [target.resolved(name) for name in conflict.columns]
    if names == [table.primary_key]:
        return True, ()
    if len(names) == 1 and names[0] in unique:
        if target.may_read(names[0]):
            return False, (unique[names[0]],)
        if (fault := target.lacks_read(names[0])) is not None:
            raise fault
    shown = ", ".join(conflict.columns)
    raise QueryError(
        f"ON CONFLICT ({shown}) needs the primary key of the table, or one of its attributes that are @unique",
        code="UNKNOWN_ATTRIBUTE",
        position=conflict.at,
    )


class _Excluded:
    """The columns of `excluded` that a clause names. `views`: by the name of the attribute."""

    def __init__(self, inserted: frozenset[str], target: WriteTarget) -> None:
        self._inserted = inserted
        self._target = target
        self.views: dict[str, ColumnView] = {}

    def replaced(self, node: Any) -> Any:
        """The tree with the columns of `excluded` under their own names."""
        if type(node) is Column and node.table.lower() == "excluded" and not node.database:
            return self._column(node)
        if type(node) is tuple:
            return tuple([self.replaced(part) for part in node])
        if not is_dataclass(node) or isinstance(node, type):
            return node
        changed = {}
        for part in fields(node):
            value = getattr(node, part.name)
            new = self.replaced(value)
            if new is not value and new != value:
                changed[part.name] = new
        return replace(node, **changed) if changed else node

    def _column(self, column: Column) -> Column:
        target = self._target
        name = target.resolved(column.name)
        if name not in self.views:
            attribute = target.table.attributes.get(name)
            if not attribute.stored if attribute is not None else name not in self._inserted:
                raise unknown_column(f"excluded.{column.name}", position=column.at)
            if not target.may_read(name):  # the value may be a default
                raise target.lacks_read(name) or unknown_column(f"excluded.{column.name}", position=column.at)
            self.views[name] = ColumnView(f"{_PREFIX}{len(self.views)}", ColumnType.ANY)
        return replace(column, name=self.views[name].name, table=EXCLUDED)


def _twice(key: Key) -> ClientError:
    return ClientError(
        f"ON CONFLICT DO UPDATE cannot change a record twice: two rows of the statement are the record {as_value(key)!r}", code="VALIDATION"
    )
