"""Query + table definition + figures -> Plan (contract: schema-and-store §11, http §6.6). Reads no records.

The theory. Every condition that an index or the primary key can serve is a *way* to the records (`ways`): a range of keys, which holds at
least all matches, at a cost, the number of entries in the range. Of an AND one way is taken and the rest filters what it finds; of an OR all
members must have one, and their results are united. No way at all is a full scan.

A sort is free where the way delivers the order: the primary key's own order, or the index on the first sort key. Walking that index
without a condition on it is one more way; with a limit it costs only as many entries as it takes to find so many matches. Otherwise all matches are
collected and sorted.

A page behind a cursor is the same query in the same order, narrowed to what sorts behind a place. Ranges begin there where they deliver the
order, so that a page costs what its rows cost; elsewhere what comes before is left out by a test. Without a sort the cursor tells which
order the first page had, and that one is kept.

Results never depend on the choice, so figures may be old or rough; refusals (`refusals`) do not depend on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from svc.errors import BadValue, QueryError
from svc.query.aggregate import check_aggregate
from svc.query.cursor import decode_cursor
from svc.query.memo import Definitions
from svc.query.nodes import Query, SortKey
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
    Order,
    OrderedIndex,
    Plan,
    Position,
    Predicate,
    Related,
    ThroughRelated,
    Union,
    iter_members,
)
from svc.query.refusals import NO_WAY, check_indexed, check_sort, live_refusal
from svc.query.resolve import resolve_sort_key, resolve_where
from svc.query.seek import begins_behind, ordered_behind, range_behind
from svc.query.select import validate_select
from svc.query.tables import COUNTED, AnyTable, Statistics, TableStatistics
from svc.query.ways import FIXED_SIZE, SCALARS, Way, collection_below, index_way, intersection, is_complete, key_way
from svc.store.keys import NULL_KEY, after

PREFIX_SHARE, CLOSED_SHARE, OPEN_SHARE = 0.05, 0.1, 0.3  # of the table, for ranges of the primary key, which nobody has counted (§11.2)
USES, USES_OF_A_CHOICE = 1 << 20, 64  # of a kept plan: one that was chosen by figures is made anew when these may have changed
FEW = 50  # records that are read, and sorted, in less time than it takes to look for another way to them
SCAN_WITH_LOOKUPS = 2  # entries that a record of a full scan counts as, if related records have to be looked up for it

# (access, what it serves, what is left to filter, what is left to sort)
Choice = tuple[Access, tuple[Predicate, ...], Predicate | None, tuple[SortKey, ...]]


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
    key begins with that text (`a/b/`, http §1.3). `allow_full_scan`: see schema-and-store §11.8. A live query is refused: what is planned is
    answered once, and who follows a result plans the query without that mark.

    The plan is kept with the query, so the same query is planned once; where there is a choice, again after some uses, when figures may
    have changed. Raises QueryError; IndexRebuilding (503) when the index that is needed is still being built.
    """
    if statistics is not None:
        return _plan(query, table, allow_full_scan, key_prefix, _Planner(table, statistics, query.enforce_execution_order))
    place = (id(table), allow_full_scan, key_prefix)
    kept = query.plans.get(place)
    if type(kept) is _Kept and kept.uses and kept.definitions.hold(table):
        kept.uses -= 1
        return kept.plan
    planner = _Planner(table, TableStatistics(table, txn), query.enforce_execution_order)
    plan = _plan(query, table, allow_full_scan, key_prefix, planner)
    if place not in query.plans:
        query.plans[place] = None  # most queries come once: what is kept is the second plan
    elif all(index.ready for index in table.indexes.values()):
        query.plans[place] = _Kept(plan, USES_OF_A_CHOICE if planner.asked else USES)
    return plan


class _Kept:
    """A plan that waits for the next use of its query."""

    __slots__ = ("definitions", "plan", "uses")

    def __init__(self, plan: Plan, uses: int) -> None:
        self.plan = plan
        self.uses = uses
        self.definitions = Definitions(plan.table)


def _plan(query: Query, table: AnyTable, allow_full_scan: bool | None, key_prefix: str | None, planner: _Planner) -> Plan:
    if query.live:
        raise live_refusal()
    predicate = None if query.where is None else resolve_where(query.where, table)
    if key_prefix is not None:
        collection = collection_below(table, key_prefix)
        predicate = collection if predicate is None else AllOf((collection, *iter_members(predicate)))
    sort = query.sort
    if query.aggregate is not None:
        check_aggregate(query, table)
        sort = ()  # of its rows
    for key in sort:
        resolve_sort_key(key, table)
    if query.select is not None:
        validate_select(query.select, table)
    if predicate is None:
        if query.aggregate is None:
            check_sort(sort, table, allow_full_scan)
        members: tuple[Predicate, ...] = ()
    else:
        if allow_full_scan is False and not _is_surely_indexed(predicate, table):
            check_indexed(predicate, table)
        members = predicate.members if type(predicate) is AllOf else (predicate,)
    order: Order | None = None
    position: Position | None = None
    if query.after is not None:
        if query.aggregate is not None:
            raise QueryError("an aggregate has no pages, and takes no cursor", code="QUERY_SYNTAX")
        order, position = decode_cursor(query.after, table.name, sort, table.primary_key)
        if not sort and order.index is None:
            sort = (SortKey((table.primary_key,)),)
    try:
        if order is not None and order.index is not None:
            assert position is not None
            access, served, filter_, left = planner.choose_index(members, order.index, position)
            position = None
        else:
            end = None if query.limit is None or query.aggregate is not None else query.offset + query.limit
            access, served, filter_, left = planner.choose(members, sort, end, position)
            if position is not None and not left and begins_behind(access):
                position = None
    except BadValue as error:
        raise QueryError(error.message, code="BAD_VALUE") from None
    if query.aggregate is None and order is None:
        order = Order(sort) if sort else _order_of(access)
    return Plan(table, query, access, served, filter_, left, query.offset, query.limit, order, position)


def _is_surely_indexed(predicate: Predicate, table: AnyTable) -> bool:
    """The frequent case, an equality or a range of an indexed attribute, recognised without the whole rule."""
    if type(predicate) is not Comparison or len(predicate.path) > 1 or predicate.comparator in NO_WAY:
        return False
    index = table.indexes.get(predicate.path[0])
    return index is not None and index.ready


def _order_of(access: Access) -> Order | None:
    """The order of an access that was chosen for a query without sort."""
    if type(access) is IndexRange:
        return Order(index=access.attribute)
    return Order() if isinstance(access, (KeyRange, KeyLookup, Nothing)) else None


class _Planner:
    __slots__ = ("_in_order", "_statistics", "_table", "asked")

    def __init__(self, table: AnyTable, statistics: Statistics, in_order: bool = False) -> None:
        self._table = table
        self._statistics = statistics
        self._in_order = in_order
        self.asked = False  # for figures: another time there may be another choice

    # choosing

    def choose(self, members: tuple[Predicate, ...], sort: tuple[SortKey, ...], end: int | None, position: Position | None) -> Choice:
        """The cheapest way. `end`: offset + limit, None without a limit. `position`: the place in the order of `sort` to begin behind."""
        if len(members) == 1 and not sort:
            way = self._way(members[0])
            if way is not None and type(way.access) is not ThroughRelated:  # the frequent case: there is no choice
                return way.access, members, None if way.exact else members[0], ()
        ways = self.ways(members)
        if sort:
            return self._choose_sorted(members, ways, sort, end, position)
        best = self.cheapest(ways)
        return best.access, best.served(members), self.rest(members, best), ()

    def choose_index(self, members: tuple[Predicate, ...], name: str, position: Position) -> Choice:
        """The way through the index of `name`, whose order the first page had, from behind an entry of it."""
        for way in self.ways(members):
            access = way.access
            if isinstance(access, IndexRange) and access.attribute == name:
                entry = (position.parts[0], position.primary)
                return range_behind(access, entry, descending=False), way.served(members), self.rest(members, way), ()
            if isinstance(access, Nothing):
                return access, way.served(members), self.rest(members, way), ()
        raise QueryError("the cursor belongs to another query", code="QUERY_SYNTAX")

    def _choose_sorted(
        self,
        members: tuple[Predicate, ...],
        ways: list[Way],
        sort: tuple[SortKey, ...],
        end: int | None,
        position: Position | None,
    ) -> Choice:
        """A way without the order costs all its entries; one with it half of them (§11.2), and with a limit only as many as it takes to
        find so many matches, taking these to be spread evenly."""
        if len(ways) == 1:
            ordered = self._maybe_ordered(ways[0], sort, position)
            if ordered is not None:  # nothing to compare with: walking the whole index is never less
                return ordered, ways[0].served(members), self.rest(members, ways[0]), ()
        costs = [self.cost(way.access) for way in ways]
        if costs and min(costs) <= FEW:
            way = ways[costs.index(min(costs))]
            ordered = self._maybe_ordered(way, sort, position)
            return ordered or way.access, way.served(members), self.rest(members, way), () if ordered is not None else sort
        total = float(self._statistics.record_count)
        matches = min(costs, default=total)
        walked = 0.5
        if end is not None:
            walked *= min(1.0, end / max(matches, 1.0))
        options = list(zip(ways, costs, strict=True)) or [(Way(KeyRange(), exact=True), total)]
        if _only_joins(ways):
            options.append((Way(KeyRange(), exact=True), SCAN_WITH_LOOKUPS * total))
        options += [(way, total) for way in self._sort_way(sort)]
        best: tuple[float, Way, Access | None] | None = None
        for way, cost in options:
            ordered = self._maybe_ordered(way, sort, position)
            price = cost if ordered is None else cost * walked
            if best is None or price < best[0]:
                best = (price, way, ordered)
        assert best is not None
        _, way, ordered = best
        served, rest = way.served(members), self.rest(members, way)
        return (way.access, served, rest, sort) if ordered is None else (ordered, served, rest, ())

    def cheapest(self, ways: list[Way]) -> Way:
        """Counts only if there is a choice. Without ways it is a full scan."""
        if not ways:
            return Way(KeyRange(), exact=True)
        if self._in_order:
            return ways[0]
        if _only_joins(ways):
            ways = [*ways, Way(KeyRange(), exact=True)]
        elif len(ways) == 1:
            return ways[0]
        else:
            ways = sorted(ways, key=_counting_effort)  # what is counted at once bounds how far the others are counted
        best, best_cost = ways[0], self.cost(ways[0].access)
        for way in ways[1:]:
            if best_cost <= FEW:
                break
            cost = self.cost(way.access, min(int(best_cost) + 1, COUNTED)) * (1 if way.members else SCAN_WITH_LOOKUPS)
            if cost < best_cost:
                best, best_cost = way, cost
        return best

    def rest(self, members: tuple[Predicate, ...], way: Way) -> Predicate | None:
        """What remains to be tested of the members, cheapest test first unless the caller gave an order."""
        rest = [member for at, member in enumerate(members) if not (way.exact and at in way.members)]
        if not rest:
            return None
        if len(rest) == 1:
            return rest[0]
        if not self._in_order:
            rest.sort(key=_test_effort)
        return AllOf(tuple(rest))

    def ways(self, members: Sequence[Predicate]) -> list[Way]:
        """All ways to the matches of an AND. Ranges of one attribute become one, unless the attribute may hold lists: there each
        condition may be fulfilled by another element."""
        ways: list[Way] = []
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
                    ways[known] = intersection(ways[known], way)
                    continue
                at_attribute[name] = len(ways)
            ways.append(way)
        return ways

    def _way(self, predicate: Predicate) -> Way | None:
        match predicate:
            case Comparison():
                if predicate.path == (self._table.primary_key,):
                    return key_way(predicate)
                return index_way(predicate, self._table) if len(predicate.path) == 1 else None
            case Never():
                return Way(Nothing(), exact=True)
            case AllOf():
                ways = self.ways(predicate.members)
                if not ways:
                    return None
                best = self.cheapest(ways)
                rest = self.rest(predicate.members, best)
                return Way(best.access if rest is None else Union((Branch(best.access, rest),)), exact=True)
            case AnyOf():
                return self._union_way(predicate)
            case Related():
                return self._related_way(predicate)

    def _union_way(self, predicate: AnyOf) -> Way | None:
        branches: list[Branch] = []
        for member in predicate.members:
            way = self._way(member)
            if way is None:
                return None
            if isinstance(way.access, Union) and way.exact:
                branches += way.access.branches
            elif way.access != Nothing():
                branches.append(Branch(way.access, None if way.exact else member))
        return Way(Union(tuple(branches)) if branches else Nothing(), exact=True)

    def _related_way(self, related: Related) -> Way | None:
        """From the matches in the related table to the records that lead to them. It needs the index of the foreign key on our side."""
        relationship = related.relationship
        if relationship.from_ is not None and relationship.from_ != self._table.primary_key:
            index = self._table.indexes.get(relationship.from_)
            if index is None or not index.ready:
                return None
        inner = self._of_target(related)
        members = tuple(iter_members(related.where))
        best = inner.cheapest(inner.ways(members))
        self.asked = self.asked or inner.asked
        return Way(ThroughRelated(related, Branch(best.access, inner.rest(members, best))), exact=True)

    def _of_target(self, related: Related) -> _Planner:
        statistics = self._statistics
        txn = statistics.txn if isinstance(statistics, TableStatistics) else None
        return _Planner(related.target, TableStatistics(related.target, txn))

    # order

    def _sort_way(self, sort: tuple[SortKey, ...]) -> list[Way]:
        """Walking everything in the order of the first sort key."""
        if len(sort[0].path) > 1:
            return []
        name = sort[0].path[0]
        if name == self._table.primary_key:
            return [Way(KeyRange(), exact=True)]
        index = self._table.indexes.get(name)
        if index is None or not index.ready or not is_complete(self._table, name):
            return []
        if self._statistics.count(name, None, None) < self._statistics.record_count:
            return []  # values from before a change of the type may be objects or lists
        return [Way(IndexRange(name, None, None), exact=True)]

    def _maybe_ordered(self, way: Way, sort: tuple[SortKey, ...], position: Position | None) -> Access | None:
        """The access of `way` so that it delivers the order, None if it cannot; from behind `position`, if it can do that too."""
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
                behind = None if position is None else position.primary
                return KeyRange(access.low, access.high, first.descending, behind)
            if isinstance(access, IndexRange) and access.single:
                assert access.low is not None
                entry = None if position is None else (access.low, position.primary)
                return replace(access, reverse=first.descending, behind=entry)
            return None
        if not isinstance(access, IndexRange) or access.attribute != name or self._table.indexes[name].multi:
            return None
        attribute = self._table.attributes.get(name)
        if attribute is None or attribute.type not in SCALARS or attribute.elements:
            return None
        ordered: IndexRange | OrderedIndex = OrderedIndex(name, access.low, access.high, sort)
        if len(sort) == 1 and attribute.type in FIXED_SIZE and (not first.descending or access.single):
            ordered = access
        return ordered if position is None else ordered_behind(ordered, sort, position)

    # cost

    def cost(self, access: Access, most: int = COUNTED) -> float:
        """The number of records that are looked at, counted or estimated. What costs more than `most` may be given less than it costs, but
        not less than that."""
        self.asked = True
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
                return float(self._statistics.count(access.attribute, access.low, access.high, most))
            case Union():
                return sum([self.cost(branch.access, most) for branch in access.branches])
            case ThroughRelated():
                return self._join_cost(access)

    def _join_cost(self, access: ThroughRelated) -> float:
        """The related records that are looked at, and what they lead to: each to as many of ours as the average one."""
        from_ = access.related.relationship.from_
        inner = self._of_target(access.related)
        found = inner.cost(access.inner.access)
        if from_ is None or from_ == self._table.primary_key:
            return 2 * found
        leading = self._statistics.count(from_, None, None) - self._statistics.count(from_, NULL_KEY, after(NULL_KEY))
        return found + found * max(leading, 0) / max(inner._statistics.record_count, 1)


def _counting_effort(way: Way) -> int:
    """What is known, or is the count of one value, goes first."""
    access = way.access
    if isinstance(access, IndexRange):
        return 0 if access.single else 1
    return 2 if isinstance(access, (Union, ThroughRelated)) else 0


def _only_joins(ways: list[Way]) -> bool:
    """Whether there are ways, and all lead through other tables: reading our own as a whole may be less than what these find there."""
    return bool(ways) and all(isinstance(way.access, ThroughRelated) for way in ways)


def _test_effort(predicate: Predicate) -> int:
    """Cheap tests go first: other tables last, groups before them, texts that are searched after what is compared."""
    match predicate:
        case Related():
            return 4
        case AllOf() | AnyOf():
            return 3
        case Comparison():
            return 1 if predicate.comparator in NO_WAY or len(predicate.path) > 1 else 0
        case Never():
            return 0


def estimated_matches(predicate: Predicate, table: AnyTable, txn: object) -> int | None:
    """The number of records that match, as far as an index or the primary key tells (§11.2); None: nothing is known."""
    planner = _Planner(table, TableStatistics(table, txn))
    try:
        ways = planner.ways((predicate,))
        return round(min(planner.cost(way.access) for way in ways)) if ways else None
    except BadValue:
        return None


def estimated_cost(access: Access, table: AnyTable, txn: object) -> float:
    """The number of entries that an access looks at."""
    return _Planner(table, TableStatistics(table, txn)).cost(access)
