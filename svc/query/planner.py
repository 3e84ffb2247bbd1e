"""Query + table definition + figures -> Plan (contract: schema-and-store §11, http §6.6). Reads no records.

The theory. Every condition that an index or the primary key can serve is a *way* to the records: a range of keys, which holds at least all
matches (`exact`: nothing else), at a cost, the number of entries in the range. Of an AND one way is taken and the rest filters what it
finds; of an OR all members must have one, and their results are united. No way at all is a full scan.

A sort is free where the way delivers the order: the primary key's own order, or the index on the first sort key. Walking that index
without a condition on it is one more way; with a limit it costs only as many entries as it takes to find so many matches. Otherwise all matches are
collected and sorted.

Results never depend on the choice, so figures may be old or rough; only refusals (NOT_INDEXED, INDEX_REBUILDING) do not depend on them.
"""

from __future__ import annotations

from collections.abc import Sequence

from svc.errors import BadValue, IndexRebuilding, QueryError
from svc.query.matching import CLOSED_RANGES
from svc.query.nodes import Comparator, Query, SortKey
from svc.query.plan import (
    Access,
    AllOf,
    AnyOf,
    Branch,
    Comparison,
    IndexRange,
    KeyLookup,
    KeyRange,
    Never,
    Nothing,
    OrderedIndex,
    Plan,
    Predicate,
    Related,
    ThroughRelated,
    Union,
    iter_members,
)
from svc.query.resolve import resolve_sort_key, resolve_where
from svc.query.select import validate_select
from svc.query.tables import AnyTable, Statistics, TableStatistics
from svc.store.keys import (
    FALSE_KEY,
    INDEX_CHARACTERS,
    MAX_STORED,
    NULL_KEY,
    TRUE_KEY,
    after,
    encode_key,
    index_key,
    index_prefix_range,
    is_cut,
    kind_range,
    list_prefix_range,
    prefix_range,
    storage_key,
)

PREFIX_SHARE, CLOSED_SHARE, OPEN_SHARE = 0.05, 0.1, 0.3  # of the table, for ranges of the primary key, which nobody has counted (§11.2)
_SCALARS = frozenset(("ID", "String", "Int", "Long", "Float", "BigInt", "Boolean", "Date", "Bytes"))
_FIXED_SIZE = frozenset(("Int", "Long", "Float", "Boolean", "Date"))  # types whose index keys are never cut
_LOW_ENDS = {Comparator.GREATER_THAN: True, Comparator.GREATER_THAN_EQUAL: False}
_NO_WAY = frozenset((Comparator.CONTAINS, Comparator.ENDS_WITH, Comparator.NOT_EQUAL))
_OPERATOR_NAMES = {Comparator.CONTAINS: "contains", Comparator.ENDS_WITH: "ends_with", Comparator.NOT_EQUAL: "not_equal"}


def plan_query(
    query: Query,
    table: AnyTable,
    txn: object = None,
    *,
    allow_full_scan: bool | None = None,
    key_prefix: str | None = None,
    statistics: Statistics | None = None,
) -> Plan:
    """Plan `query`. `txn` is the transaction in which figures are looked up. `key_prefix` narrows to the collection of the records whose
    key begins with that text (`a/b/`, http §1.3). `allow_full_scan`: see schema-and-store §11.8.

    Raises QueryError; IndexRebuilding (503) when the index that is needed is still being built.
    """
    planner = _Planner(table, statistics if statistics is not None else TableStatistics(table, txn), query.enforce_execution_order)
    predicate = None if query.where is None else resolve_where(query.where, table)
    if key_prefix is not None:
        collection = _collection(table, key_prefix)
        predicate = collection if predicate is None else AllOf((collection, *iter_members(predicate)))
    for key in query.sort:
        resolve_sort_key(key, table)
    if query.select is not None:
        validate_select(query.select, table)
    if predicate is None:
        planner.check_sort(query.sort, allow_full_scan)
    elif allow_full_scan is False:
        planner.check_indexed(predicate)
    try:
        access, served, filter_, sort = planner.choose(predicate, query)
    except BadValue as error:
        raise QueryError(error.message, code="BAD_VALUE") from None
    return Plan(table, query, access, served, filter_, sort, query.offset, query.limit)


class _Way:
    """One way to the matches of an AND: `members` are the positions of those conditions that it serves, `exact` whether it finds only their
    matches. `cost` is asked for when there is something to compare with."""

    __slots__ = ("access", "exact", "members")

    def __init__(self, access: Access, exact: bool, members: tuple[int, ...] = ()) -> None:
        self.access = access
        self.exact = exact
        self.members = members

    def served(self, members: tuple[Predicate, ...]) -> tuple[Predicate, ...]:
        return tuple([members[at] for at in self.members])


class _Planner:
    __slots__ = ("_in_order", "_statistics", "_table")

    def __init__(self, table: AnyTable, statistics: Statistics, in_order: bool = False) -> None:
        self._table = table
        self._statistics = statistics
        self._in_order = in_order

    # refusals

    def check_indexed(self, predicate: Predicate) -> None:
        """Raise unless the predicate is index-backed (http §6.6)."""
        fault = self._fault(predicate)
        if fault is not None:
            raise fault

    def check_sort(self, sort: tuple[SortKey, ...], allow_full_scan: bool | None) -> None:
        """A sort without any condition needs an index, or the primary key (schema-and-store §11.9)."""
        if not sort or allow_full_scan:
            return
        name = sort[0].path[0]
        if sort[0].path == (self._table.primary_key,):
            return
        index = self._table.indexes.get(name) if len(sort[0].path) == 1 else None
        if index is None:
            raise QueryError(f"{'.'.join(sort[0].path)} is not indexed and not combined with any other conditions", code="NOT_INDEXED")
        if not index.ready:
            raise IndexRebuilding(name)

    def _fault(self, predicate: Predicate) -> QueryError | IndexRebuilding | None:
        """Why the predicate is not index-backed, None if it is. Of several reasons: an index that is being built, else the first."""
        match predicate:
            case Never():
                return None
            case Comparison():
                return self._test_fault(predicate)
            case Related():
                return self._related_fault(predicate)
            case AllOf():
                first: QueryError | IndexRebuilding | None = None
                for member in predicate.members:
                    fault = self._fault(member)
                    if fault is None:
                        return None
                    if first is None or (isinstance(fault, IndexRebuilding) and not isinstance(first, IndexRebuilding)):
                        first = fault
                return first
            case AnyOf():
                faults = [fault for fault in map(self._fault, predicate.members) if fault is not None]
                return next((fault for fault in faults if isinstance(fault, QueryError)), faults[0] if faults else None)

    def _test_fault(self, test: Comparison) -> QueryError | IndexRebuilding | None:
        name = ".".join(test.path)
        index = None
        if test.path != (self._table.primary_key,):
            index = self._table.indexes.get(test.path[0]) if len(test.path) == 1 else None
            if index is None:
                return QueryError(f'"{name}" is not indexed, can not search for this attribute', code="NOT_INDEXED")
        if test.comparator in _NO_WAY and not (test.comparator is Comparator.NOT_EQUAL and test.value is None):
            return QueryError(
                f"Can not use {_OPERATOR_NAMES[test.comparator]} operator without combining with a condition that uses an index, "
                f"can not search for attribute {name}",
                code="NOT_INDEXED",
            )
        return IndexRebuilding(name) if index is not None and not index.ready else None

    def _related_fault(self, related: Related) -> QueryError | IndexRebuilding | None:
        """Backed by the index on the last attribute, or by the one on the foreign key: then the related table is scanned once."""
        relationship = related.relationship
        if relationship.to is not None:
            holder, key = related.target, relationship.to
        else:
            holder, key = self._table, relationship.from_ or ""
        index = holder.indexes.get(key)
        if key == holder.primary_key or (index is not None and index.ready):
            return None
        if related.where is None:
            return QueryError(f'"{related.name}" is not indexed, can not search for this attribute', code="NOT_INDEXED")
        return _Planner(related.target, TableStatistics(related.target, None))._fault(related.where)

    # choosing

    def choose(
        self, predicate: Predicate | None, query: Query
    ) -> tuple[Access, tuple[Predicate, ...], Predicate | None, tuple[SortKey, ...]]:
        """(access, what it serves, what is left to filter, what is left to sort)."""
        members = tuple(iter_members(predicate))
        ways = self._ways(members)
        if query.sort:
            return self._choose_sorted(members, ways, query.sort, query)
        best = self._cheapest(ways)
        return best.access, best.served(members), self._rest(members, best), ()

    def _choose_sorted(
        self, members: tuple[Predicate, ...], ways: list[_Way], sort: tuple[SortKey, ...], query: Query
    ) -> tuple[Access, tuple[Predicate, ...], Predicate | None, tuple[SortKey, ...]]:
        """A way without the order costs all its entries; one with it half of them (§11.2), and with a limit only as many as it takes to
        find so many matches, taking these to be spread evenly."""
        if len(ways) == 1:
            ordered = self._maybe_ordered(ways[0], sort)
            if ordered is not None:  # nothing to compare with: walking the whole index is never less
                return ordered, ways[0].served(members), self._rest(members, ways[0]), ()
        costs = [self._cost(way.access) for way in ways]
        total = float(self._statistics.record_count)
        matches = min(costs, default=total)
        walked = 0.5
        if query.limit is not None:
            walked *= min(1.0, (query.offset + query.limit) / max(matches, 1.0))
        options = list(zip(ways, costs, strict=True)) or [(_Way(KeyRange(), exact=True), total)]
        options += [(way, total) for way in self._sort_way(sort)]
        best: tuple[float, _Way, Access | None] | None = None
        for way, cost in options:
            ordered = self._maybe_ordered(way, sort)
            price = cost if ordered is None else cost * walked
            if best is None or price < best[0]:
                best = (price, way, ordered)
        assert best is not None
        _, way, ordered = best
        served, rest = way.served(members), self._rest(members, way)
        return (way.access, served, rest, sort) if ordered is None else (ordered, served, rest, ())

    def _cheapest(self, ways: list[_Way]) -> _Way:
        """Counts only if there is a choice. Without ways it is a full scan."""
        if not ways:
            return _Way(KeyRange(), exact=True)
        if len(ways) == 1 or self._in_order:
            return ways[0]
        return min(ways, key=lambda way: self._cost(way.access))

    def _rest(self, members: tuple[Predicate, ...], way: _Way) -> Predicate | None:
        """What remains to be tested of the members, cheapest test first unless the caller gave an order."""
        rest = [member for at, member in enumerate(members) if not (way.exact and at in way.members)]
        if not rest:
            return None
        if not self._in_order:
            rest.sort(key=_test_effort)
        return rest[0] if len(rest) == 1 else AllOf(tuple(rest))

    def _ways(self, members: Sequence[Predicate]) -> list[_Way]:
        """All ways to the matches of an AND. Ranges of one attribute become one, unless the attribute may hold lists: there each
        condition may be fulfilled by another element."""
        ways: list[_Way] = []
        at_attribute: dict[str, int] = {}
        for at, member in enumerate(members):
            way = self._way(member)
            if way is None:
                continue
            way.members = (at,)
            access = way.access
            if isinstance(access, (IndexRange, KeyRange)) and isinstance(member, Comparison):
                name = member.path[0]
                known = at_attribute.get(name)
                multi = isinstance(access, IndexRange) and self._table.indexes[name].multi
                if known is not None and not multi:
                    ways[known] = _intersection(ways[known], way)
                    continue
                at_attribute[name] = len(ways)
            ways.append(way)
        return ways

    def _way(self, predicate: Predicate) -> _Way | None:
        match predicate:
            case Comparison():
                if predicate.path == (self._table.primary_key,):
                    return _key_way(predicate)
                return self._index_way(predicate) if len(predicate.path) == 1 else None
            case Never():
                return _Way(Nothing(), exact=True)
            case AllOf():
                ways = self._ways(predicate.members)
                if not ways:
                    return None
                best = self._cheapest(ways)
                rest = self._rest(predicate.members, best)
                return _Way(best.access if rest is None else Union((Branch(best.access, rest),)), exact=True)
            case AnyOf():
                return self._union_way(predicate)
            case Related():
                return self._related_way(predicate)

    def _union_way(self, predicate: AnyOf) -> _Way | None:
        branches: list[Branch] = []
        for member in predicate.members:
            way = self._way(member)
            if way is None:
                return None
            if isinstance(way.access, Union) and way.exact:
                branches += way.access.branches
            elif way.access != Nothing():
                branches.append(Branch(way.access, None if way.exact else member))
        return _Way(Union(tuple(branches)) if branches else Nothing(), exact=True)

    def _related_way(self, related: Related) -> _Way | None:
        """From the matches in the related table to the records that lead to them. It needs the index of the foreign key on our side."""
        relationship = related.relationship
        if relationship.from_ is not None and relationship.from_ != self._table.primary_key:
            index = self._table.indexes.get(relationship.from_)
            if index is None or not index.ready:
                return None
        inner = _Planner(related.target, TableStatistics(related.target, self._txn()))
        members = tuple(iter_members(related.where))
        best = inner._cheapest(inner._ways(members))
        return _Way(ThroughRelated(related, Branch(best.access, inner._rest(members, best))), exact=True)

    def _txn(self) -> object:
        statistics = self._statistics
        return statistics.txn if isinstance(statistics, TableStatistics) else None

    def _index_way(self, test: Comparison) -> _Way | None:
        name = test.path[0]
        index = self._table.indexes.get(name)
        if index is None or not index.ready:
            return None
        comparator, value = test.comparator, test.value
        if isinstance(value, (list, tuple)) and comparator not in CLOSED_RANGES:
            return None  # an index holds the elements of a list, never a list as a whole
        if comparator is Comparator.EQUALS:
            low = index_key(value)
            return _Way(IndexRange(name, low, after(low), single=True), exact=not is_cut(low))
        if comparator is Comparator.NOT_EQUAL:
            # Empty lists and objects are not null but in no index: only where these cannot be, the index has all records.
            if value is None and self._is_complete(name):
                return _Way(IndexRange(name, after(NULL_KEY), None), exact=True)
            return None
        if comparator is Comparator.STARTS_WITH:
            assert isinstance(value, str)
            low, high = index_prefix_range(value)
            exact = len(value) <= INDEX_CHARACTERS and len(low) < MAX_STORED - 1
            return _Way(IndexRange(name, low, high, distinct=index.multi), exact)
        ends = _range_ends(test)
        if ends is None:
            return None
        low, high, exact = ends
        if low >= high:
            return _Way(Nothing(), exact=True)
        return _Way(IndexRange(name, low, high, distinct=index.multi), exact)

    def _is_complete(self, name: str) -> bool:
        """Whether every record has exactly one entry in the index of `name`."""
        attribute = self._table.attributes.get(name)
        return attribute is not None and not attribute.elements and attribute.type in _SCALARS and not self._table.indexes[name].multi

    # order

    def _sort_way(self, sort: tuple[SortKey, ...]) -> list[_Way]:
        """Walking everything in the order of the first sort key."""
        if len(sort[0].path) > 1:
            return []
        name = sort[0].path[0]
        if name == self._table.primary_key:
            return [_Way(KeyRange(), exact=True)]
        index = self._table.indexes.get(name)
        if index is None or not index.ready or not self._is_complete(name):
            return []
        if self._statistics.count(name, None, None) < self._statistics.record_count:
            return []  # values from before a change of the type may be objects or lists
        return [_Way(IndexRange(name, None, None), exact=True)]

    def _maybe_ordered(self, way: _Way, sort: tuple[SortKey, ...]) -> Access | None:
        """The access of `way` so that it delivers the order, None if it cannot."""
        access = way.access
        first = sort[0]
        if isinstance(access, Nothing) or (isinstance(access, KeyLookup) and len(access.keys) <= 1):
            return access
        if len(first.path) > 1:
            return None
        name = first.path[0]
        if name == self._table.primary_key:
            # Keys are unique, so what else is sorted by does not matter.
            if isinstance(access, KeyRange):
                return KeyRange(access.low, access.high, first.descending)
            if isinstance(access, IndexRange) and access.single:
                return IndexRange(access.attribute, access.low, access.high, access.distinct, single=True, reverse=first.descending)
            return None
        if not isinstance(access, IndexRange) or access.attribute != name or self._table.indexes[name].multi:
            return None
        attribute = self._table.attributes.get(name)
        if attribute is None or attribute.type not in _SCALARS or attribute.elements:
            return None
        if len(sort) == 1 and attribute.type in _FIXED_SIZE and (not first.descending or access.single):
            return access
        return OrderedIndex(name, access.low, access.high, sort)

    # cost

    def _cost(self, access: Access) -> float:
        """The number of records that are looked at, counted or estimated."""
        match access:
            case Nothing():
                return 0.0
            case KeyLookup():
                return float(len(access.keys))
            case KeyRange():
                if access.low is None and access.high is None:
                    return float(self._statistics.record_count)
                share = CLOSED_SHARE if access.low is not None and access.high is not None else OPEN_SHARE
                return share * self._statistics.record_count + 1
            case IndexRange() | OrderedIndex():
                return float(self._statistics.count(access.attribute, access.low, access.high))
            case Union():
                return sum([self._cost(branch.access) for branch in access.branches])
            case ThroughRelated():
                return self._join_cost(access)

    def _join_cost(self, access: ThroughRelated) -> float:
        """The related records that are looked at, spread over ours: each leads to as many of ours as the average one."""
        related = access.related
        inner = _Planner(related.target, TableStatistics(related.target, self._txn()))
        found = inner._cost(access.inner.access)
        if related.relationship.from_ is None:
            return 2 * found
        return found + found * self._statistics.record_count / max(inner._statistics.record_count, 1)


def _collection(table: AnyTable, key_prefix: str) -> Predicate:
    """The records below a key (http §1.3): text keys that start with the text, or longer list keys."""
    path = (table.primary_key,)
    if not table.definition.split_segments:
        return Comparison(path, Comparator.STARTS_WITH, key_prefix)
    attribute = table.attributes.get(table.primary_key)
    kind = attribute.type if attribute is not None else "Any"
    segments: list[object] = []
    for segment in key_prefix.removesuffix("/").split("/"):
        if kind in ("ID", "String"):
            segments.append(segment)
        else:
            segments.append(int(segment) if segment.isascii() and segment.removeprefix("-").isdecimal() else segment)
    return Comparison(path, Comparator.PREFIX, tuple(segments))


def _key_way(test: Comparison) -> _Way | None:
    """Conditions on the primary key, which is in order by itself."""
    comparator, value = test.comparator, test.value
    if comparator is Comparator.EQUALS:
        if value is None or isinstance(value, bool):
            return _Way(Nothing(), exact=True)
        return _Way(KeyLookup((storage_key(encode_key(value)),)), exact=True)
    if comparator is Comparator.NOT_EQUAL:
        return _Way(KeyRange(), exact=True) if value is None else None
    if comparator is Comparator.STARTS_WITH:
        assert isinstance(value, str)
        low, high = prefix_range(value)
    elif comparator is Comparator.PREFIX:
        assert isinstance(value, tuple)
        low, high = list_prefix_range(value)
    else:
        ends = _range_ends(test, of_key=True)
        if ends is None:
            return None
        low, high, _ = ends
    if low >= high:
        return _Way(Nothing(), exact=True)
    return _Way(KeyRange(low, high), exact=True)


def _range_ends(test: Comparison, *, of_key: bool = False) -> tuple[bytes, bytes, bool] | None:
    """(low, high, exact) of the index keys, or encoded keys, in a range; it stays within the kind of its ends. None: it is no range."""
    comparators = CLOSED_RANGES.get(test.comparator)
    if comparators is not None:
        ends = zip(comparators, test.value, strict=True)  # type: ignore[call-overload]
    elif test.comparator in _LOW_ENDS or test.comparator in (Comparator.LESS_THAN, Comparator.LESS_THAN_EQUAL):
        ends = iter([(test.comparator, test.value)])
    else:
        return None
    exact = True
    low: bytes | None = None
    high: bytes | None = None
    kind_low, kind_high = b"", b""
    for comparator, value in ends:
        key = encode_key(value) if of_key else index_key(value)
        cut = not of_key and is_cut(key)
        exact = exact and not cut
        kind_low, kind_high = (FALSE_KEY, after(TRUE_KEY)) if isinstance(value, bool) else kind_range(value)
        if comparator in _LOW_ENDS:
            low = after(key) if _LOW_ENDS[comparator] and not cut else key
        else:
            high = after(key) if comparator is Comparator.LESS_THAN_EQUAL or cut else key
    return kind_low if low is None else low, kind_high if high is None else high, exact


def _intersection(first: _Way, second: _Way) -> _Way:
    """Two ranges of one attribute that holds one value: what lies in both."""
    one, other = first.access, second.access
    if isinstance(one, Nothing):
        return _Way(one, exact=True, members=first.members + second.members)
    assert isinstance(one, (IndexRange, KeyRange)) and isinstance(other, (IndexRange, KeyRange))
    low = one.low if other.low is None or (one.low is not None and one.low >= other.low) else other.low
    high = one.high if other.high is None or (one.high is not None and one.high <= other.high) else other.high
    members = first.members + second.members
    exact = first.exact and second.exact
    if low is not None and high is not None and low >= high:
        return _Way(Nothing(), exact=True, members=members)
    if isinstance(one, KeyRange):
        return _Way(KeyRange(low, high), exact, members)
    single = one.single or (isinstance(other, IndexRange) and other.single)
    return _Way(IndexRange(one.attribute, low, high, one.distinct, single), exact, members)


def _test_effort(predicate: Predicate) -> int:
    """Cheap tests go first: other tables last, groups before them, texts that are searched after what is compared."""
    match predicate:
        case Related():
            return 4
        case AllOf() | AnyOf():
            return 3
        case Comparison():
            return 1 if predicate.comparator in _NO_WAY or len(predicate.path) > 1 else 0
        case Never():
            return 0
