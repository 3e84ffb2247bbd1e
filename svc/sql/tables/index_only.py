"""What an index or a count answers without records, as tables (spec: sql §9): binding asks them in place of the tables that statements name.

    GroupsView   the values of an indexed column that occur, with the number of records that have each: `value`, `n`, and `exact`, which is hidden
    CountView    one row with the number of records: `n`

They are exact whatever state the table is in. Where the index cannot answer, because it is being built or does not know all records, these are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from svc.sql.catalogue import EXACT, ColumnType, ColumnView, TableView
from svc.sql.tables.comparing import sort_place
from svc.sql.tables.given import ListCursor
from svc.sql.tables.plans import Order, Plan, Way, plan_text, read_plan
from svc.sql.tables.read_state import ReadState
from svc.sql.tables.row_forms import Reader
from svc.sql.tables.shape import CUT, ORDERED, affinity, entry_reader, has_cut, quoted
from svc.sql.tables.spans import COMPARISONS, IS_NULL, NOT_NULL, Span, intersection, span_of, whole_span
from svc.sql.tables.values import column_value, exact_value
from svc.store import Table
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.indexes.build import value_reader
from svc.store.indexes.index import Index
from svc.store.raw_chunks import ALL, entry_chunks, fetched_chunks, record_chunks, value_chunks
from svc.store.values.keys import after, decode_key, index_keys, is_cut
from svc.store.values.records import encode_payload

if TYPE_CHECKING:
    from svc.sql.tables.module import TableModules

VALUE = 1  # column of SQLite
DOUBLE_BYTES = 9  # of the key of a number: what it has in common with others that are the same double
UNKNOWN_COUNT = 1000  # groups of a table whose state is not known


def can_group(view: TableView, name: str) -> bool:
    """Whether an index has the groups of this column, as long as it is not being built."""
    column = view.by_name.get(name)
    return (
        column is not None
        and column.is_indexed
        and column.type in ORDERED
        and name in view.table.indexes
        and name not in view.doubtful
        and not view.table.is_caching
    )


@dataclass(frozen=True, slots=True)
class GroupsView:
    """`column`: one for which `can_group` holds."""

    view: TableView
    column: ColumnView

    @property
    def schema(self) -> str:
        return self.view.schema

    @property
    def sql_name(self) -> str:
        return f"{self.view.sql_name}{EXACT}groups{EXACT}{self.column.sql_name}"

    def connect(self, modules: TableModules) -> tuple[str, Any]:
        declaration = (
            f"CREATE TABLE x({quoted(EXACT)} HIDDEN PRIMARY KEY, value {affinity(self.column.type)}, exact HIDDEN, n INTEGER) WITHOUT ROWID"
        )
        return declaration, _GroupsTable(modules, self)


@dataclass(frozen=True, slots=True)
class CountView:
    view: TableView

    @property
    def schema(self) -> str:
        return self.view.schema

    @property
    def sql_name(self) -> str:
        return f"{self.view.sql_name}{EXACT}count"

    def connect(self, modules: TableModules) -> tuple[str, Any]:
        return f"CREATE TABLE x({quoted(EXACT)} HIDDEN PRIMARY KEY, n INTEGER) WITHOUT ROWID", _CountTable(modules, self.view.table)


# --- groups -------------------------------------------------------------------------------------------------------------------------------


class _SpecialTable:
    def __init__(self, modules: TableModules) -> None:
        self._modules = modules

    @property
    def state(self) -> ReadState:
        state = self._modules.state
        assert state is not None, "a statement runs without a source"
        return state

    def count(self, number: int) -> None:
        self._modules.on_rows(number)

    def Disconnect(self) -> None:
        pass

    Destroy = Disconnect


class _GroupsTable(_SpecialTable):
    """Its rows are (index key, number), or, if that does not tell the value, (value, number, index key)."""

    def __init__(self, modules: TableModules, groups: GroupsView) -> None:
        super().__init__(modules)
        self.table: Table = groups.view.table
        self.index: Index = groups.view.table.indexes[groups.column.name]
        self.kind = groups.column.type
        self._name = groups.column.name
        number = itemgetter(1)
        self.entry_readers: tuple[Reader, ...] = (itemgetter(0), entry_reader(self.kind, False), entry_reader(self.kind, True), number)
        convert = partial(column_value, self.kind)
        self.readers: tuple[Reader, ...] = (
            lambda row: row[2] + encode_payload(row[0]),
            lambda row: convert(row[0]),
            lambda row: exact_value(row[0]),
            number,
        )

    def BestIndexObject(self, info: Any) -> bool:
        operators: list[int] = []
        span = whole_span(self.kind)
        for place in range(info.nConstraint):
            operator = info.get_aConstraint_op(place)
            is_served = operator in (IS_NULL, NOT_NULL) or (operator in COMPARISONS and info.get_aConstraint_collation(place) == "BINARY")
            if info.get_aConstraint_iColumn(place) == VALUE and info.get_aConstraint_usable(place) and is_served:
                operators.append(operator)
                info.set_aConstraintUsage_argvIndex(place, len(operators))
                value = info.get_aConstraint_rhs(place)
                if value is not None or operator in (IS_NULL, NOT_NULL):
                    span = intersection(span, span_of(self.kind, operator, value))
        is_ordered = info.nOrderBy == 1 and info.get_aOrderBy_iColumn(0) == VALUE
        rows = self._rows(span)
        plan = Plan(
            Way.INDEX,
            0,
            (),
            tuple(operators),
            Order.COLUMN if is_ordered else Order.ANY,
            is_descending=is_ordered and info.get_aOrderBy_desc(0),
            is_index_only=True,
        )
        info.idxStr = plan_text(plan, self._name, rows)
        info.estimatedRows, info.estimatedCost, info.orderByConsumed = rows, float(rows), is_ordered
        return True

    def _rows(self, span: Span) -> int:
        state = self._modules.state
        if state is None:
            return UNKNOWN_COUNT
        return max(1, int(state.count(self.table, self.index, span.bounds) / state.average(self.table, self.index)))

    def Open(self) -> ListCursor:
        return _GroupsCursor(self)


class _GroupsCursor(ListCursor):
    __slots__ = ("_groups", "_table")

    def __init__(self, table: _GroupsTable) -> None:
        super().__init__(())
        self._table = table

    def Filter(self, number: int, text: str, args: tuple[Any, ...]) -> None:
        plan, kind = read_plan(text), self._table.kind
        span = whole_span(kind)
        for operator, value in zip(plan.terms, args, strict=False):
            span = intersection(span, span_of(kind, operator, value))
        self.rows = chain.from_iterable(self._batches(span, plan.is_descending))
        self.row = next(self.rows, None)

    def _batches(self, span: Span, descending: bool) -> Iterator[Sequence[Any]]:
        owner = self._table
        table, index, state = owner.table, owner.index, owner.state
        groups = _Groups(table, index, state, owner.count)
        if table.is_caching or not state.is_ready(table, index):
            self.readers = owner.readers
            yield groups.of_records(owner.kind, descending)
            return
        chunks = groups.of_index(span, descending)
        for found in chunks:
            if owner.kind is ColumnType.REAL and any(len(key) > DOUBLE_BYTES for key, _ in found):
                self.readers = owner.readers
                yield from groups.of_doubles(chain((found,), chunks))
            elif owner.kind in CUT and has_cut(found):
                self.readers = owner.readers
                yield groups.of_cut_keys(found, descending)
            else:
                self.readers = owner.entry_readers
                yield found


class _Groups:
    """Of the records of a table, as rows of _GroupsTable."""

    __slots__ = ("_count", "_index", "_now_ms", "_state", "_table", "_txn", "_value_of")

    def __init__(self, table: Table, index: Index, state: ReadState, count: Callable[[int], object]) -> None:
        self._table = table
        self._index = index
        self._state = state
        self._txn = state.source.txn(table)
        self._now_ms = state.now_ms
        self._count = count
        self._value_of = value_reader(index)

    def of_index(self, span: Span, descending: bool) -> Iterator[list[tuple[bytes, int]]]:
        gone = None if self._state.is_clean(self._table) else self._expired()
        for found in value_chunks(self._index, self._txn, span.bounds, self._count, reverse=descending):
            yield found if gone is None else [(key, left) for key, number in found if (left := number - gone[key])]

    def _expired(self) -> Counter[bytes]:
        """The number of entries of each key whose records do not exist any more."""
        table, txn = self._table, self._txn
        found: Counter[bytes] = Counter()
        try:
            for stored in table.expiry.keys(txn, self._now_ms, table.entry_count(txn)):
                self._count(1)
                raw = table.read(stored, txn)
                if raw is not None:
                    found.update(index_keys(self._value_of(raw)))
        except LmdbError as error:
            raise store_problem(error, table.database.env.path) from error
        return found

    def of_cut_keys(self, found: Sequence[tuple[bytes, int]], descending: bool) -> list[tuple[Any, int, bytes]]:
        """Those of keys of which some have a part of the value only."""
        rows: list[tuple[Any, int, bytes]] = []
        for key, number in found:
            if is_cut(key):
                rows += [(value, each, key) for value, each in sorted(self._values_of(key).items(), reverse=descending)]
            else:
                rows.append((decode_key(key), number, key))
        return rows

    def _values_of(self, key: bytes) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for entries in entry_chunks(self._index, self._txn, ((key, after(key)),), self._count):
            for raws in fetched_chunks(self._table, self._txn, [primary for _, primary in entries], self._now_ms):
                found.update(map(self._value_of, raws))
        return found

    @staticmethod
    def of_doubles(chunks: Iterable[Sequence[tuple[bytes, int]]]) -> Iterator[list[tuple[Any, int, bytes]]]:
        """Those of numbers, where keys that follow each other may be the same double."""
        for _, group in groupby(chain.from_iterable(chunks), key=lambda each: each[0][:DOUBLE_BYTES]):
            keys = list(group)
            yield [(decode_key(keys[0][0]), sum([number for _, number in keys]), keys[0][0])]

    def of_records(self, kind: ColumnType, descending: bool) -> list[tuple[Any, int, bytes]]:
        convert = partial(column_value, kind)
        values: dict[Any, Any] = {}
        numbers: Counter[Any] = Counter()
        for raws in record_chunks(self._table, self._txn, ALL, self._now_ms, self._count):
            for raw in raws:
                value = self._value_of(raw)
                face = convert(value)
                values.setdefault(face, value)
                numbers[face] += 1
        return [(values[face], numbers[face], b"") for face in sorted(numbers, key=sort_place, reverse=descending)]


# --- counts -------------------------------------------------------------------------------------------------------------------------------


class _CountTable(_SpecialTable):
    def __init__(self, modules: TableModules, table: Table) -> None:
        super().__init__(modules)
        self._table = table

    def BestIndexObject(self, info: Any) -> bool:
        info.idxStr = "count of records, 1 row\x1f[]"
        info.estimatedRows, info.estimatedCost = 1, 1.0
        return True

    def Open(self) -> ListCursor:
        return _CountCursor(self)

    def number(self) -> int:
        table, state = self._table, self.state
        txn = state.source.txn(table)
        if table.is_caching:
            return sum(map(len, record_chunks(table, txn, ALL, state.now_ms, self.count)))
        try:
            expired = 0
            for each in table.expiry.counts(txn, state.now_ms):
                self.count(1)
                expired += each
            return table.entry_count(txn) - expired
        except LmdbError as error:
            raise store_problem(error, table.database.env.path) from error


class _CountCursor(ListCursor):
    __slots__ = ("_table",)

    def __init__(self, table: _CountTable) -> None:
        super().__init__((_itself, _itself))
        self._table = table

    def Filter(self, number: int, text: str | None, args: tuple[Any, ...]) -> None:
        self.row, self.rows = self._table.number(), iter(())


def _itself(row: Any) -> Any:
    return row
