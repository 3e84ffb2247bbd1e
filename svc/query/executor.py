"""Runs a plan on a transaction, a slice at a time (contract: schema-and-store §11.4-§11.7, §11.13).

    source -> filter -> [collect and sort] -> offset, limit -> shape

A plan is *compiled* once: its filter, its sort and its selection become functions. Those that read other tables need the transaction, so a
plan with joins is compiled for each run.

`Rows` is what a caller holds. `step` does a bounded piece of work and may find nothing; between two steps the caller may look at the
clock, serve others, wait for room in an output buffer. Memory grows with the result only where it must be sorted, and then a limit
bounds it too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svc.query.matching import Matcher, compile_predicate, leaves, names_of, sort_bytes
from svc.query.nodes import Select, SelectItem, SortKey
from svc.query.plan import (
    Access,
    AllOf,
    AnyOf,
    Branch,
    IndexRange,
    KeyLookup,
    KeyRange,
    Nothing,
    OrderedIndex,
    Plan,
    Predicate,
    Related,
    ThroughRelated,
    Union,
)
from svc.query.relations import follower, source_name, source_names
from svc.query.resolve import is_many, related_table, resolve_where
from svc.query.select import compile_select, computed_reader, enumerable_select, joins
from svc.query.sources import (
    EmptySource,
    FilteredSource,
    IndexSource,
    JoinSource,
    KeySource,
    OrderedSource,
    Pair,
    ScanSource,
    Source,
    UnionSource,
)
from svc.query.tables import AnyTable
from svc.store.records import MISSING, decode, decode_json, projection
from svc.store.schema import Attribute, Relationship

SLICE = 256  # entries looked at in one step, 1-2 ms when each is decoded
FIRST_SLICE = 32  # the first step of a filtered plan: most queries with a limit are answered by it
MEMO_ENTRIES = 4096  # related records remembered within one execution, so that many records of one brand read it once

_INVERTED = bytes(range(255, -1, -1))

Test = Callable[[bytes], bool]


class Rows:
    """One execution of a plan. What it returns: raw records, or selected values if the plan selects."""

    __slots__ = ("_collected", "_compiled", "_held", "_next", "_skip", "_slice", "_source", "_wanted", "done")

    def __init__(self, plan: Plan, txn: Any, *, json: bool = False) -> None:
        compiled = _compiled(plan, txn, json)
        self._compiled = compiled
        self._source = compiled.start(plan.access, txn)
        self._held: list[Pair] = []  # found and not yet returned, from `_next` on
        self._next = 0
        self._skip = plan.offset
        self._wanted = plan.limit  # rows still to return, None: all
        self._collected = None if compiled.sort_key is None else _Collector(compiled.sort_key, plan.offset, plan.limit)
        self._slice = FIRST_SLICE
        self.done = plan.limit == 0

    def next_batch(self, max_rows: int) -> list[Any]:
        """Up to `max_rows` rows; [] means that there are no more. Works until it has found one: see `step`."""
        while not self.done:
            rows = self.step(max_rows)
            if rows:
                return rows
        return []

    def step(self, max_rows: int) -> list[Any]:
        """Look at up to SLICE entries and return up to `max_rows` rows, maybe none; `done` tells whether more can come."""
        pairs = self.step_pairs(max_rows)
        shape = self._compiled.shape
        if shape is None:
            return [raw for _, raw in pairs]
        return [shape(raw) for _, raw in pairs]

    def step_pairs(self, max_rows: int) -> list[Pair]:
        """The same as `step`, but (stored primary key, raw record) whatever the plan selects: for deletes."""
        wanted = self._wanted
        count = max_rows if wanted is None or wanted > max_rows else wanted
        if self._next >= len(self._held) and not self.done:
            self._find(count)
        held, start = self._held, self._next
        end = start + count
        if start == 0 and len(held) <= count:
            found = held
            self._held = []
        else:
            found = held[start:end]
            self._next = end
            if end >= len(held):
                self._held, self._next = [], 0
        if wanted is not None:
            self._wanted = wanted - len(found)
            if self._wanted <= 0:
                self.close()
                return found
        if self._source.done and not self._held and self._collected is None:
            self.done = True
        return found

    def close(self) -> None:
        """Let go of the store's iterators. Harmless when done."""
        self.done = True
        self._source = EmptySource()
        self._held, self._next = [], 0
        self._collected = None

    def _find(self, count: int) -> None:
        """Fill `_held` with what the next slice finds."""
        test = self._compiled.test
        collected = self._collected
        if collected is not None:
            pairs = self._source.take(SLICE)
            collected.add(pairs if test is None else [pair for pair in pairs if test(pair[1])])
            if self._source.done:
                self._held, self._next = collected.result(), 0
                self._skip = 0
                self._collected = None
            return
        if test is None:
            pairs = self._source.take(min(count + self._skip, SLICE))
        else:
            pairs = [pair for pair in self._source.take(self._slice) if test(pair[1])]
            self._slice = SLICE
        if self._skip:
            skipped = min(self._skip, len(pairs))
            self._skip -= skipped
            del pairs[:skipped]
        self._held, self._next = pairs, 0


def execute(plan: Plan, txn: Any, *, json: bool = False) -> Rows:
    """Begin to run `plan`; the same as `plan.run`."""
    return Rows(plan, txn, json=json)


class _Collector:
    """All matches, or the first offset + limit of them, in sort order.

    Sort keys are bytes that end with the primary key, so no two are equal. With a limit the list is cut back whenever it has grown to
    twice what is wanted; what sorts behind the last one kept is not taken in at all.
    """

    __slots__ = ("_bound", "_keep", "_offset", "_rows", "_sort_key")

    def __init__(self, sort_key: Callable[[Pair], bytes], offset: int, limit: int | None) -> None:
        self._sort_key = sort_key
        self._offset = offset
        self._keep = None if limit is None else offset + limit
        self._rows: list[tuple[bytes, Pair]] = []
        self._bound: bytes | None = None

    def add(self, pairs: list[Pair]) -> None:
        sort_key, bound, rows = self._sort_key, self._bound, self._rows
        if bound is None:
            rows += [(sort_key(pair), pair) for pair in pairs]
        else:
            rows += [(key, pair) for pair in pairs if (key := sort_key(pair)) < bound]
        keep = self._keep
        if keep is not None and len(rows) > 2 * keep + SLICE:
            rows.sort()
            del rows[keep:]
            self._bound = rows[-1][0]

    def result(self) -> list[Pair]:
        self._rows.sort()
        return [pair for _, pair in self._rows[self._offset : self._keep]]


class _Compiled:
    """The functions of a plan. `start` makes the source of an access."""

    __slots__ = ("json", "plan", "shape", "sort_key", "test")

    def __init__(self, plan: Plan, txn: Any, json: bool) -> None:
        self.plan = plan
        self.json = json
        table = plan.table
        joined = _Joined(txn)
        self.test = None if plan.filter is None else joined.test(plan.filter, table)
        self.sort_key = joined.sort_key(plan.sort, table) if plan.sort else None
        select = plan.query.select
        self.shape: Callable[[bytes], Any] | None = None
        if select is not None:
            where = None if plan.query.where is None or not joins(select, table) else resolve_where(plan.query.where, table)
            self.shape = compile_select(select, table, json=json, read_related=joined.reader, where=where, sort=plan.query.sort)

    def start(self, access: Access, txn: Any) -> Source:
        return _Joined(txn).source(access, self.plan.table)


def _compiled(plan: Plan, txn: Any, json: bool) -> _Compiled:
    kept = plan.compiled
    if isinstance(kept, _Compiled) and kept.json is json:
        return kept
    compiled = _Compiled(plan, txn, json)
    if not _reads_others(plan):
        plan.compiled = compiled
    return compiled


def _reads_others(plan: Plan) -> bool:
    """Whether the compiled functions depend on the transaction because they read other tables."""
    table = plan.table
    if joins(plan.query.select, table) or _has_related(plan.filter):
        return True
    return any((found := table.attributes.get(key.path[0])) is not None and found.relationship is not None for key in plan.sort)


def _has_related(predicate: Predicate | None) -> bool:
    if isinstance(predicate, (AllOf, AnyOf)):
        return any(map(_has_related, predicate.members))
    return isinstance(predicate, Related)


class _Joined:
    """Builds what needs a transaction: sources, and functions that may read related records."""

    __slots__ = ("_txn",)

    def __init__(self, txn: Any) -> None:
        self._txn = txn

    # sources

    def source(self, access: Access, table: AnyTable) -> Source:
        txn = self._txn
        match access:
            case IndexRange():
                entries = table.indexes[access.attribute].scan(txn, access.low, access.high, reverse=access.reverse)
                return IndexSource(table, txn, entries, distinct=access.distinct)
            case KeyRange():
                return ScanSource(table.scan(txn, access.low, access.high, reverse=access.reverse))
            case KeyLookup():
                return KeySource(table, txn, access.keys)
            case OrderedIndex():
                return OrderedSource(
                    table,
                    table.indexes[access.attribute],
                    txn,
                    access.low,
                    access.high,
                    descending=access.keys[0].descending,
                    sort_key=self.sort_key(access.keys, table),
                    sort_all=len(access.keys) > 1,
                )
            case Union():
                return UnionSource(self.branch(branch, table) for branch in access.branches)
            case ThroughRelated():
                related = access.related
                return JoinSource(self.branch(access.inner, related.target), self._lead_back(related, table))
            case Nothing():
                return EmptySource()

    def branch(self, branch: Branch, table: AnyTable) -> Source:
        source = self.source(branch.access, table)
        return source if branch.filter is None else FilteredSource(source, self.test(branch.filter, table))

    def _lead_back(self, related: Related, table: AnyTable) -> Callable[[bytes], list[Pair]]:
        """From a record of the related table to ours: the relationship the other way round."""
        relationship = related.relationship
        theirs = relationship.to or related.target.primary_key
        value_of = projection((theirs,))
        follow = follower(Relationship(table.name, from_=theirs, to=relationship.from_ or table.primary_key), table, self._txn)
        return lambda raw: follow(value_of(raw)[0])

    # functions

    def test(self, predicate: Predicate, table: AnyTable) -> Test:
        """The filter of a raw record; it decodes only what it looks at."""
        names = names_of(predicate, lambda related: source_names(related, table))
        matches = compile_predicate(predicate, names, table.primary_key, lambda related, known: self._related(related, known, table))
        values_of = values_reader(table, names)
        return lambda raw: matches(values_of(raw))

    def _related(self, related: Related, names: tuple[str, ...], table: AnyTable) -> Matcher:
        at = names.index(source_name(related.relationship, table))
        follow = follower(related.relationship, related.target, self._txn)
        test = None if related.where is None else self.test(related.where, related.target)
        memo: dict[bytes, bool] = {}

        def matches(values: tuple[object, ...]) -> bool:
            value = values[at]
            if value is None or value is MISSING:
                return False
            key = sort_bytes(value)
            known = memo.get(key)
            if known is None:
                known = any(test is None or test(raw) for _, raw in follow(value))
                if len(memo) < MEMO_ENTRIES:
                    memo[key] = known
            return known

        return matches

    def sort_key(self, keys: tuple[SortKey, ...], table: AnyTable) -> Callable[[Pair], bytes]:
        """Bytes that sort as the keys do, ties by primary key. No encoding is the beginning of another, so inverted ones descend."""
        parts = [(self._sort_value(key, table), key.descending) for key in keys]
        if len(parts) == 1:
            value, descending = parts[0]
            if descending:
                return lambda pair: value(pair[1]).translate(_INVERTED) + pair[0]
            return lambda pair: value(pair[1]) + pair[0]

        def total(pair: Pair) -> bytes:
            raw = pair[1]
            return b"".join([value(raw).translate(_INVERTED) if descending else value(raw) for value, descending in parts]) + pair[0]

        return total

    def _sort_value(self, key: SortKey, table: AnyTable) -> Callable[[bytes], bytes]:
        """The encoded value to sort by; of several related ones the smallest, descending the largest (http §6.8)."""
        attribute = table.attributes.get(key.path[0])
        if attribute is not None and attribute.relationship is not None:
            target = related_table(table, attribute)
            values_of = values_reader(table, (source_name(attribute.relationship, table),))
            follow = follower(attribute.relationship, target, self._txn)
            inner = self._sort_value(SortKey(key.path[1:], key.descending), target)
            choose = max if key.descending else min
            return lambda raw: choose([inner(related) for _, related in follow(values_of(raw)[0])], default=sort_bytes(None))
        values_of = values_reader(table, (key.path[0],))
        rest = key.path[1:]
        if not rest:
            return lambda raw: sort_bytes(values_of(raw)[0])
        choose = max if key.descending else min
        return lambda raw: choose(map(sort_bytes, leaves(values_of(raw)[0], rest)), default=sort_bytes(None))

    # selection of relationships

    def reader(
        self, table: AnyTable, attribute: Attribute, item: SelectItem, where: Predicate | None, sort: tuple[SortKey, ...], json: bool
    ) -> Callable[[bytes], Any]:
        """What a selected relationship gives for a record: an object, MISSING if there is none, or for a to-many one a list."""
        relationship = attribute.relationship
        assert relationship is not None
        target = related_table(table, attribute)
        follow = follower(relationship, target, self._txn)
        value_of = projection((source_name(relationship, table),))
        many = is_many(attribute, table)
        if not many:
            where = None  # it is there, or the record itself would not have matched
        shape = self._related_shape(item, target, where, sort, json)
        query = item.query
        tests = [] if where is None else [self.test(where, target)]
        offset, limit = 0, None
        if query is not None:
            if query.where is not None:
                tests.append(self.test(resolve_where(query.where, target), target))
            sort, offset, limit = query.sort or sort, query.offset, query.limit
        sort_key = self.sort_key(sort, target) if sort else None
        end = None if limit is None else offset + limit
        memo: dict[bytes, Any] = {}

        def read(raw: bytes) -> Any:
            value = value_of(raw)[0]
            key = sort_bytes(value)
            if not many and key in memo:
                return memo[key]
            pairs = [pair for pair in follow(value) if all(test(pair[1]) for test in tests)] if tests else follow(value)
            if sort_key is not None:
                pairs.sort(key=sort_key)
            shaped = [shape(related) for _, related in pairs[offset:end]]
            if many:
                return shaped
            result = shaped[0] if shaped else MISSING
            if len(memo) < MEMO_ENTRIES:
                memo[key] = result
            return result

        return read

    def _related_shape(
        self, item: SelectItem, target: AnyTable, where: Predicate | None, sort: tuple[SortKey, ...], json: bool
    ) -> Callable[[bytes], Any]:
        if len(item.path) > 1:
            rest = SelectItem(item.path[1:], item.nested, item.query)
            return compile_select(Select((rest,), "value"), target, json=json, read_related=self.reader, where=where, sort=sort)
        nested = item.nested if item.query is None else item.query.select
        if nested is None:
            nested = enumerable_select(target, related=True)
        if nested is not None:
            return compile_select(nested, target, json=json, read_related=self.reader, where=where, sort=sort)
        return decode_json if json else decode


def values_reader(table: AnyTable, names: tuple[str, ...]) -> Callable[[bytes], tuple[object, ...]]:
    """The values of these attributes of a raw record, stored or computed."""
    if any((found := table.attributes.get(name)) is not None and found.computed_from is not None for name in names):
        return computed_reader(table, names)
    return projection(names)
