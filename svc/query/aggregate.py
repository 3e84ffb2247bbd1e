"""Rows made of many records: `count()`, `facet(a)`, `group(a,b;count,sum(x))`.

    count       {"count": n}
    facet       {"value": v, "count": n} for each value of an attribute, the most frequent first
    group       {"a": v, "b": w, "count": n, "sum.x": s ...} for each combination of values, in the order of the keys

Missing and null are one value. A list counts once for each of its different elements; a record whose list is empty is in no group, nor is one
with an object in the place of a key: exactly what an index holds. So some questions are answered by an index alone (`method_of`):

    entries     the number of entries in a range is the number of records
    values      the number of entries of each key is the number of records with this value
    ends        the smallest and the largest value are the first and the last
    records     everything else: each matching record is read, but only the attributes that are needed are decoded

Entries of records that have expired and are not yet removed are subtracted; if there are many of these, the records are read instead.
Memory is bounded by MAX_GROUPS, work by the slice of each `step`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from itertools import islice
from typing import Any

from svc.errors import BadValue, QueryError
from svc.query.access_paths import SCALARS
from svc.query.budget import Budget
from svc.query.compiled_plan import compiled_plan
from svc.query.functions import Column, Values, columns_of_paths, filter_of, index_keys_reader, values_reader
from svc.query.grouping import Groups, json_form
from svc.query.links import Links
from svc.query.nodes import Aggregate, Query
from svc.query.numbers import flat, plain_number
from svc.query.plan import AllOf, IndexRange, KeyRange, Nothing, Plan
from svc.query.relations import Lookups
from svc.query.resolve import is_many, related_table, required_attribute
from svc.query.sorting import Collector
from svc.query.sources import Pair
from svc.query.steps import in_steps
from svc.query.tables import AnyIndex, AnyTable
from svc.store.values.keys import LIST, NULL_KEY, NUMBER, after, index_key, is_cut
from svc.store.values.records import MISSING

MAX_EXPIRED = 512  # expired entries subtracted; with more of them the records are read
SLICE = 1024  # records in one step
SLICE_WITH_LOOKUPS = 128
VALUES_SLICE = 4096  # keys of an index in one step
MOST_RESTARTS = 3  # each on another snapshot
ROWS_SLICE = 128  # rows of the result made in one step

FUNCTIONS = ("count", "sum", "avg", "min", "max")


def row_names(aggregate: Aggregate) -> tuple[str, ...]:
    """The names in each row, in their order."""
    if aggregate.kind == "group":
        functions = [name if path is None else ".".join((name, *path)) for name, path in aggregate.functions]
        return (*map(".".join, aggregate.keys), *functions)
    return ("value", "count") if aggregate.kind == "facet" else ("count",)


def check_aggregate(query: Query, table: AnyTable) -> None:
    """Raises QueryError for what cannot be counted, or sorted by."""
    aggregate = query.aggregate
    assert aggregate is not None
    if aggregate.kind == "count" and not query.sort and query.select is None:
        return
    if query.select is not None:
        raise QueryError(f"{aggregate.kind}(...) has rows of its own, there is nothing to select", code="QUERY_SYNTAX")
    for path in aggregate.keys:
        _check_path(path, table)
    for name, argument in aggregate.functions:
        if name not in FUNCTIONS or (argument is None) != (name == "count"):
            raise QueryError(f"'{name}' is not a function of a group: {', '.join(FUNCTIONS)}", code="QUERY_SYNTAX")
        if argument is not None:
            _check_path(argument, table)
    names = row_names(aggregate)
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        raise QueryError(f"Two values of a row would be called {twice}", code="QUERY_SYNTAX")
    for key in query.sort:
        if ".".join(key.path) not in names:
            raise QueryError(
                f"{'.'.join(key.path)} is not in the rows of {aggregate.kind}(...) (these hold {', '.join(names)})",
                code="UNKNOWN_ATTRIBUTE",
            )


def method_of(plan: Plan) -> str:
    """How the rows are found: see the head of this module."""
    aggregate, access, table = plan.query.aggregate, plan.access, plan.table
    assert aggregate is not None
    if plan.filter is not None:
        return "records"
    everything = access == KeyRange()
    of_range = isinstance(access, IndexRange) and not access.distinct
    if aggregate.kind == "count" and (everything or of_range):
        return "entries"
    if _counts_only(aggregate) and len(aggregate.keys) == 1 and _is_indexed(aggregate.keys[0], table):
        name = aggregate.keys[0][0]
        if everything or (isinstance(access, IndexRange) and of_range and access.attribute == name and not table.indexes[name].multi):
            return "values"
    if aggregate.kind == "group" and not aggregate.keys and everything:
        paths = [path for function, path in aggregate.functions if function in ("min", "max") and path is not None]
        others = [function for function, _ in aggregate.functions if function in ("sum", "avg")]
        if not others and all(_is_indexed(path, table) and _type_of(path, table) in SCALARS for path in paths):
            return "ends"
    return "records"


_NOTHING = Collector(0)


class AggregateRows:
    """One execution of a plan with an aggregate: `step` returns [] until all has been counted."""

    __slots__ = (
        "_aggregate",
        "_budget",
        "_collector",
        "_examined",
        "_groups",
        "_has_begun",
        "_json",
        "_lookups",
        "_plan",
        "_restarts",
        "_source",
        "_wanted",
        "_work",
        "done",
        "keeps_rows",
    )

    def __init__(self, plan: Plan, txn: Any, *, json: bool = False) -> None:
        assert plan.query.aggregate is not None
        self._plan = plan
        self._aggregate = plan.query.aggregate
        self._json = json
        self._budget = Budget()
        self._lookups = Lookups(txn, self._budget)
        self._examined = 0  # entries of indexes, and rows
        self._source: Any = None
        self._wanted = None if self._aggregate.kind == "count" else plan.limit
        self._collector = _NOTHING
        self._work: Iterator[None] | None = None
        self._has_begun = False
        self._restarts = 0
        self._groups: Groups | None = None
        self.keeps_rows = False
        self.done = self._wanted == 0

    @property
    def examined(self) -> int:
        return self._examined + self._lookups.examined + (0 if self._source is None else self._source.examined)

    def step(self, max_rows: int) -> list[Any]:
        """Work for a slice; up to `max_rows` rows when all has been counted."""
        if self.done:
            return []
        if not self._has_begun:
            self._has_begun = True
            total = self._count_at_once() if self._aggregate.kind == "count" else None
            if total is not None:
                self.done = True
                return [{"count": total}]
            self._collector = Collector(None if self._wanted is None else self._plan.offset + self._wanted)
            self._work = self._find()
        if self._work is not None:
            if next(self._work, self) is not self:
                return []
            self._work = None
        count = max_rows if self._wanted is None else min(max_rows, self._wanted)
        rows = self._collector.take(count)
        if self._wanted is not None:
            self._wanted -= len(rows)
        self.done = len(rows) < count or self._wanted == 0 or self._aggregate.kind == "count"
        return rows

    step_pairs = step
    joins = has_weights = False
    is_costly = True

    def weight(self, value: object) -> int:
        return 1

    def let_go(self) -> None:
        """The snapshot was given up: keep nothing that refers to it. `move` goes on with another one."""
        if self._source is not None:
            self._examined += self._source.examined
        self._source = None
        if self._work is not None or not self._has_begun:
            self._work, self._has_begun = None, False
            self._free()
        self._lookups.let_go()

    def _free(self) -> None:
        self._collector.free()
        self._collector = _NOTHING
        if self._groups is not None:
            self._groups.free()
            self._groups = None

    def move(self, txn: Any) -> bool:
        """Go on with another snapshot: what is not counted to the end is counted again from the beginning, for none of it was returned. False if that was done
        too often."""
        self.let_go()
        if not self._has_begun:
            if self._restarts == MOST_RESTARTS:
                return False
            self._restarts += 1
        self._examined += self._lookups.examined
        self._lookups = Lookups(txn, self._budget)
        return True

    def next_cursor(self) -> None:
        """None: pages of groups are read with `limit`, there is no cursor."""
        return

    def close(self) -> None:
        self.done = True
        self._work = None
        self._source = None
        self._free()
        self._lookups.close()

    # ways to count; each gives way with `yield`

    def _find(self) -> Iterator[None]:
        """All rows into the collector, up to the first that is wanted."""
        method, collector = method_of(self._plan), self._collector
        if self._aggregate.kind == "count":
            total = (yield from self._count_entries()) if method == "entries" else None
            if total is None:
                total = yield from self._count_records()
            collector.add([(b"", {"count": total})])
            return
        row = self._ends() if method == "ends" else None
        if row is not None:
            collector.add([(b"", row)])
        else:
            groups = (yield from self._values()) if method == "values" else None
            if groups is None:
                groups = yield from self._records()
            rows = groups.rows(self._plan.query.sort, json=self._json)
            while some := list(islice(rows, ROWS_SLICE)):
                collector.add(some)
                while collector.busy:
                    yield
                    collector.work()
                yield
        skip = self._plan.offset
        while skip and (skipped := len(collector.take(min(skip, ROWS_SLICE)))):
            skip -= skipped
            yield

    def _count_at_once(self) -> int | None:
        """The count from the index or the table alone, if no expired entries have to be subtracted; None if records or entries must be read."""
        plan, txn = self._plan, self._lookups.txn
        table, access = plan.table, plan.access
        if plan.filter is not None or table.expired(txn, MAX_EXPIRED) != []:
            return None
        if type(access) is IndexRange:
            self._examined = 1
            return None if access.distinct else table.indexes[access.attribute].exact_count(txn, access.low, access.high)
        return table.entry_count(txn) if access == KeyRange() else None

    def _expired(self) -> list[Pair] | None:
        return self._plan.table.expired(self._lookups.txn, MAX_EXPIRED)

    def _count_entries(self) -> Generator[None, None, int | None]:
        """The number of records in a range of an index, or of all; None if there are many that have expired."""
        plan, txn = self._plan, self._lookups.txn
        table, access = plan.table, plan.access
        expired = self._expired()
        if expired is None:
            return None
        if not isinstance(access, IndexRange):
            return 0 if isinstance(access, Nothing) else table.record_count(txn)
        index = table.indexes[access.attribute]
        total = index.exact_count(txn, access.low, access.high)
        if total is None:
            total = 0
            values = index.values(txn, access.low, access.high)
            while some := list(islice(values, VALUES_SLICE)):
                total += sum([count for _, count in some])
                self._examined += len(some)
                yield
        else:
            self._examined += 1
        if expired and plan.served:
            total -= len(filter_of(AllOf(plan.served), table, Links())(expired, self._lookups))
        elif expired:
            total -= len(expired)
        return total

    def _values(self) -> Generator[None, None, Groups | None]:
        """The keys of an index with the number of their entries; None if the records must be read."""
        plan, txn, table = self._plan, self._lookups.txn, self._plan.table
        name = self._aggregate.keys[0][0]
        index = table.indexes[name]
        low, high = (plan.access.low, plan.access.high) if isinstance(plan.access, IndexRange) else (None, None)
        expired = self._expired()
        if expired is None or (_type_of((name,), table) not in SCALARS and _has_ambiguous_keys(index, txn)):
            return None
        value_of = values_reader(table, (name,))
        keys_of = index_keys_reader(table, name)
        gone = Counter([key for _, raw in expired for key in keys_of(raw)])
        groups = self._groups = Groups(self._aggregate, self._date_keys())
        values = index.values(txn, low, high)
        while some := list(islice(values, VALUES_SLICE)):
            self._examined += len(some)
            for key, count in some:
                if is_cut(key):
                    yield from self._absorb_cut(groups, key, index, value_of)
                elif count > gone[key]:
                    groups.add_count(key, count - gone[key])
            yield
        return groups

    def _absorb_cut(self, groups: Groups, key: bytes, index: AnyIndex, value_of: Values) -> Iterator[None]:
        """Several values share a key that was cut: count them by the records."""
        txn = self._lookups.txn
        entries = index.scan(txn, key, after(key))
        while some := list(islice(entries, SLICE)):
            self._examined += len(some)
            pairs = self._plan.table.get_many([stored for _, stored in some], txn)
            column = [[e for e in flat([value_of(raw)[0]]) if _has_key(e, key)] for _, raw in pairs]
            groups.add([column], len(column))
            yield

    def _ends(self) -> dict[str, Any] | None:
        """One row of smallest and largest values; None if the records must be read."""
        txn, table = self._lookups.txn, self._plan.table
        row: dict[str, Any] = {}
        for function, path in self._aggregate.functions:
            if path is None:
                if self._expired() is None:
                    return None
                row[function] = table.record_count(txn)
                continue
            index, value_of = table.indexes[path[0]], values_reader(table, (path[0],))
            value: Any = None
            looked = 0
            for key, stored in islice(index.scan(txn, after(NULL_KEY), None, reverse=function == "max"), MAX_EXPIRED):
                looked += 1
                pairs = table.get_many((stored,), txn)
                if pairs:
                    value = next((e for e in flat([value_of(pairs[0][1])[0]]) if not is_cut(key) and _has_key(e, key)), None)
                    if value is None:
                        return None
                    break
            self._examined += looked
            if value is None and looked == MAX_EXPIRED:
                return None
            value = plain_number(value)
            row[".".join((function, *path))] = json_form(value) if self._json else value
        return row

    def _count_records(self) -> Generator[None, None, int]:
        total = 0
        for pairs in self._matches():
            if pairs is None:
                yield
            else:
                total += len(pairs)
        return total

    def _records(self) -> Generator[None, None, Groups]:
        aggregate, table = self._aggregate, self._plan.table
        groups = self._groups = Groups(aggregate, self._date_keys())
        paths = (*aggregate.keys, *[path for _, path in aggregate.functions if path is not None])
        links = Links()
        columns = columns_of_paths(paths, table, links)
        for pairs in self._matches(joins=len(links) > 0):
            if pairs is None:
                yield
            elif pairs:
                raws = [raw for _, raw in pairs]
                groups.add([_without_missing(column) for column in columns(raws, self._lookups)], len(raws))
        return groups

    def _matches(self, *, joins: bool = False) -> Iterator[list[Pair] | None]:
        """The records that are counted, a list at a time; None between two slices."""
        compiled = compiled_plan(self._plan, self._json)
        lookups = self._lookups
        for _ in lookups.preparation(compiled.scanned):
            yield None
        self._source = source = compiled.start(lookups)
        at_once = SLICE_WITH_LOOKUPS if joins or compiled.joins else SLICE
        while not source.done:
            self._budget.end_batch()
            pairs = source.take(at_once)
            if compiled.test is not None:
                testing = in_steps(compiled.test, pairs, lookups)
                while True:
                    try:
                        next(testing)
                    except StopIteration as ready:
                        pairs = ready.value
                        break
                    yield None
            yield pairs
            if not source.done:
                yield None

    def _date_keys(self) -> tuple[bool | None, ...]:
        """For each key whether it is declared as a date; None if nothing is declared."""
        table = self._plan.table
        kinds = [_type_of(path, table) for path in self._aggregate.keys]
        return tuple([kind == "Date" if kind in SCALARS else None for kind in kinds])


def _counts_only(aggregate: Aggregate) -> bool:
    return all(path is None for _, path in aggregate.functions)


def _is_indexed(path: tuple[str, ...], table: AnyTable) -> bool:
    index = table.indexes.get(path[0]) if len(path) == 1 else None
    return index is not None and index.ready


def _type_of(path: tuple[str, ...], table: AnyTable) -> str:
    """The declared type at the end of a path, `Any` if nothing is declared."""
    attribute = table.attributes.get(path[0])
    if attribute is None:
        return "Any"
    if attribute.relationship is not None:
        return _type_of(path[1:], related_table(table, attribute))
    return attribute.type if len(path) == 1 else "Any"


def _check_path(path: tuple[str, ...], table: AnyTable) -> None:
    """A value of the record, of its nested objects, or of a record that a to-one relationship leads to. Raises QueryError."""
    attribute = required_attribute(table, path[0])
    if attribute.relationship is None:
        return
    if len(path) == 1:
        raise QueryError(f"{path[0]} is a relationship, an attribute of it is needed ({path[0]}.<attribute>)", code="UNUSABLE_OPERATOR")
    if is_many(attribute, table):
        raise QueryError(f"{path[0]} leads to many records, groups and functions take to-one relationships only", code="UNUSABLE_OPERATOR")
    _check_path(path[1:], related_table(table, attribute))


def _has_ambiguous_keys(index: AnyIndex, txn: Any) -> bool:
    """Whether there are keys that do not tell the value: numbers that may be dates, lists with such numbers."""
    return any(next(index.scan(txn, bytes((kind,)), bytes((kind + 1,))), None) is not None for kind in (NUMBER, LIST))


def _has_key(element: Any, key: bytes) -> bool:
    try:
        return index_key(_present(element)) == key
    except BadValue:
        return False


def _present(value: Any) -> Any:
    return None if value is MISSING else value


def _without_missing(column: Column) -> Column:
    return [None if value is MISSING else value for value in column] if MISSING in column else column
