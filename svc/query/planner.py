"""Query + table definition + statistics -> Plan (spec: query §11, §6). Reads no records.

Every condition that an index or the primary key can serve is an *access path* (`access_paths`): a range of keys, which holds at least all
matches, at a cost, the number of entries in the range. Of an AND the cheapest access path is taken, and the other conditions filter what it finds.
Of an OR all members must have an access path, and their results are united. Without any access path the plan is a full scan.

A sort is free where the access path delivers the order: the primary key's own order, or the index on the first sort key. Walking that index
without a condition on it is one more access path; with a limit it costs only as many entries as it takes to find that many matches. Otherwise all
matches are collected and sorted.

A page after a cursor is the same query in the same order, narrowed to what sorts after a position. Ranges begin there where they deliver the
order, so that a page costs what its rows cost; elsewhere a test leaves out what comes before. Without a sort the cursor holds the order of
the first page, which is kept.

Results never depend on the choice, so figures may be old or rough; refusals (`refusals`) do not depend on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from svc.errors import BadValue, QueryError
from svc.query.access_paths import (
    FIXED_SIZE,
    SCALARS,
    AccessPath,
    collection_below,
    index_access_path,
    intersection,
    is_complete,
    key_access_path,
)
from svc.query.aggregate import check_aggregate
from svc.query.cursor import decode_cursor
from svc.query.definition_cache import Definitions
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
    RelatedCondition,
    ThroughRelated,
    Union,
    iter_members,
)
from svc.query.refusals import UNINDEXABLE, check_indexed, check_sort, live_refusal
from svc.query.resolve import Test, resolve_sort_key, resolve_where, typed_test
from svc.query.seek import begins_behind, ordered_behind, range_behind
from svc.query.select import validate_select
from svc.query.tables import COUNTED, AnyTable, Statistics, TableStatistics, is_volatile, rule_members
from svc.store.values.keys import NULL_KEY, after

CLOSED_SHARE, OPEN_SHARE = 0.1, 0.3  # of the table, for ranges of the primary key, which are not counted (§11.2)
USES, USES_OF_A_CHOICE = 1 << 20, 64  # of a kept plan: one that was chosen by statistics is planned again when these may have changed
MOST_PLANS = 64  # of one query, for as many tables, and callers who may see different parts of them
FEW = 50  # records that are read, and sorted, in less time than it takes to find a cheaper access path
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
    """Plan `query`. `txn` is the transaction from which statistics are read. `key_prefix` narrows to the collection of the records whose
    key begins with that text (`a/b/`, http §1.3). `allow_full_scan`: see query §11.8. A live query is refused: a plan is for
    one answer, and a live result is planned without `live`.

    The plan is kept with the query, so the same query is planned once; where there is a choice, again after some uses, when figures may
    have changed. Raises QueryError; IndexRebuilding (503) when the index that is needed is still being built.
    """
    if statistics is not None:
        return _plan(query, table, allow_full_scan, key_prefix, _Planner(table, statistics, query.enforce_execution_order))
    if is_volatile(table):
        return _plan(query, table, allow_full_scan, key_prefix, _Planner(table, TableStatistics(table, txn), query.enforce_execution_order))
    place = (id(table), allow_full_scan, key_prefix)
    kept = query.plans.get(place)
    if type(kept) is _CachedPlan and kept.uses and kept.definitions.hold(table):
        kept.uses -= 1
        return kept.plan
    planner = _Planner(table, TableStatistics(table, txn), query.enforce_execution_order)
    plan = _plan(query, table, allow_full_scan, key_prefix, planner)
    if place not in query.plans:
        if len(query.plans) >= MOST_PLANS:
            query.plans.clear()
        query.plans[place] = None  # most queries come once: what is kept is the second plan
    elif all(index.ready for index in table.indexes.values()):
        query.plans[place] = _CachedPlan(plan, USES_OF_A_CHOICE if planner.asked else USES)
    return plan


class _CachedPlan:
    """A plan kept for the next use of its query."""

    __slots__ = ("definitions", "plan", "uses")

    def __init__(self, plan: Plan, uses: int) -> None:
        self.plan = plan
        self.uses = uses
        self.definitions = Definitions(plan.table)


def _plan(query: Query, table: AnyTable, allow_full_scan: bool | None, key_prefix: str | None, planner: _Planner) -> Plan:
    where = resolve_names(query, table)
    if key_prefix is not None:
        collection = collection_below(table, key_prefix)
        where = collection if where is None else AllOf((collection, *iter_members(where)))
    return _plan_resolved(query, where, table, allow_full_scan, planner)


def resolve_names(query: Query, table: AnyTable, test: Test = typed_test) -> Predicate | None:
    """The predicate of the conditions of `query`, whose names are those that `table` declares. Raises QueryError for a name that cannot
    stand where it stands. `test`: see `resolve_where`."""
    if query.live:
        raise live_refusal()
    where = None if query.where is None else resolve_where(query.where, table, test)
    if query.aggregate is not None:
        check_aggregate(query, table)
    else:
        for key in query.sort:
            resolve_sort_key(key, table)
    if query.select is not None:
        validate_select(query.select, table)
    return where


def plan_resolved(query: Query, where: Predicate | None, table: AnyTable, txn: object, allow_full_scan: bool | None) -> Plan:
    """The plan of a query whose names are resolved, with `where` in the place of its conditions. Raises QueryError, IndexRebuilding."""
    return _plan_resolved(query, where, table, allow_full_scan, _Planner(table, TableStatistics(table, txn), query.enforce_execution_order))


def _plan_resolved(query: Query, where: Predicate | None, table: AnyTable, allow_full_scan: bool | None, planner: _Planner) -> Plan:
    sort = query.sort if query.aggregate is None else ()  # an aggregate sorts its rows
    if where is None:
        if query.aggregate is None:
            check_sort(sort, table, allow_full_scan)
        members: tuple[Predicate, ...] = ()
    else:
        if allow_full_scan is False and not _is_surely_indexed(where, table):
            check_indexed(where, table)
        members = where.members if type(where) is AllOf else (where,)
    rule = rule_members(table)
    members += rule
    if query.after is not None:
        return _plan_page(query, table, members, sort, planner)
    end = None if query.limit is None or query.aggregate is not None else query.offset + query.limit
    try:
        access, served, filter_, left = planner.choose(members, sort, end, None)
    except BadValue as error:
        raise QueryError(error.message, code="BAD_VALUE") from None
    order = None
    if query.aggregate is None:
        order = Order(sort) if sort else _order_of(access)
        if order is None and rule and (where is None or query.limit is not None):
            # What the caller asks for has an order, and pages: a rule must not take them away (spec: rows §1.5).
            access, served, filter_, left = planner.choose(members, (SortKey((table.primary_key,)),), end, None)
            order = Order()
    return Plan(table, query, access, served, filter_, left, query.offset, query.limit, order)


def _plan_page(query: Query, table: AnyTable, members: tuple[Predicate, ...], sort: tuple[SortKey, ...], planner: _Planner) -> Plan:
    """The plan of a page that begins after a cursor."""
    assert query.after is not None
    if query.aggregate is not None:
        raise QueryError("an aggregate has no pages, and takes no cursor", code="QUERY_SYNTAX")
    position: Position | None
    order, position = decode_cursor(query.after, table.name, sort, table.primary_key)
    before = position.before
    if not sort and order.index is None:
        sort = (SortKey((table.primary_key,)),)
    try:
        if order.index is not None:
            access, served, filter_, left = planner.choose_index(members, order.index, position)
            position = None
        else:
            end = None if query.limit is None else query.offset + query.limit
            access, served, filter_, left = planner.choose(members, sort, end, position)
            if not left and begins_behind(access):
                position = None
    except BadValue as error:
        raise QueryError(error.message, code="BAD_VALUE") from None
    return Plan(table, query, access, served, filter_, left, query.offset, query.limit, order, position, before)


def _is_surely_indexed(predicate: Predicate, table: AnyTable) -> bool:
    """The frequent case, an equality or a range of an indexed attribute, recognised without the whole rule."""
    if type(predicate) is not Comparison or len(predicate.path) > 1 or predicate.comparator in UNINDEXABLE:
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
        self.asked = False  # for statistics: the next choice may differ

    # choosing

    def choose(self, members: tuple[Predicate, ...], sort: tuple[SortKey, ...], end: int | None, position: Position | None) -> Choice:
        """The cheapest access path. `end`: offset + limit, None without a limit. `position`: in the order of `sort`, to begin after."""
        if len(members) == 1 and not sort:
            candidate = self._access_path(members[0])
            if candidate is not None and type(candidate.access) is not ThroughRelated:  # the frequent case: there is no choice
                return candidate.access, members, None if candidate.exact else members[0], ()
        candidates = self.access_paths(members)
        if sort:
            return self._choose_sorted(members, candidates, sort, end, position)
        best = self.cheapest(candidates)
        return best.access, best.served(members), self.rest(members, best), ()

    def choose_index(self, members: tuple[Predicate, ...], name: str, position: Position) -> Choice:
        """The access path through the index of `name`, whose order the first page had, from after an entry of it."""
        for candidate in self.access_paths(members):
            access = candidate.access
            if isinstance(access, IndexRange) and access.attribute == name:
                entry = (position.parts[0], position.primary)
                return range_behind(access, entry, descending=False), candidate.served(members), self.rest(members, candidate), ()
            if isinstance(access, Nothing):
                return access, candidate.served(members), self.rest(members, candidate), ()
        raise QueryError("the cursor belongs to another query", code="QUERY_SYNTAX")

    def _choose_sorted(
        self,
        members: tuple[Predicate, ...],
        candidates: list[AccessPath],
        sort: tuple[SortKey, ...],
        end: int | None,
        position: Position | None,
    ) -> Choice:
        """An access path without the order costs all its entries; one with it half of them (§11.2), and with a limit only as many as it takes to
        find so many matches, taking these to be spread evenly."""
        if len(candidates) == 1:
            ordered = self._maybe_ordered(candidates[0], sort, position)
            if ordered is not None:  # nothing to compare with: walking the whole index is never less
                return ordered, candidates[0].served(members), self.rest(members, candidates[0]), ()
        costs = [self.cost(candidate.access) for candidate in candidates]
        if costs and min(costs) <= FEW:
            candidate = candidates[costs.index(min(costs))]
            ordered = self._maybe_ordered(candidate, sort, position)
            return (
                ordered or candidate.access,
                candidate.served(members),
                self.rest(members, candidate),
                () if ordered is not None else sort,
            )
        total = float(self._statistics.record_count)
        matches = min(costs, default=total)
        walked = 0.5
        if end is not None:
            walked *= min(1.0, end / max(matches, 1.0))
        options = list(zip(candidates, costs, strict=True)) or [(AccessPath(KeyRange(), exact=True), total)]
        if _only_joins(candidates):
            options.append((AccessPath(KeyRange(), exact=True), SCAN_WITH_LOOKUPS * total))
        options += [(candidate, total) for candidate in self._sorted_paths(sort)]
        best: tuple[float, AccessPath, Access | None] | None = None
        for candidate, cost in options:
            ordered = self._maybe_ordered(candidate, sort, position)
            price = cost if ordered is None else cost * walked
            if best is None or price < best[0]:
                best = (price, candidate, ordered)
        assert best is not None
        _, candidate, ordered = best
        served, rest = candidate.served(members), self.rest(members, candidate)
        return (candidate.access, served, rest, sort) if ordered is None else (ordered, served, rest, ())

    def cheapest(self, candidates: list[AccessPath]) -> AccessPath:
        """Counts entries only if there is a choice. Without candidates it is a full scan."""
        if not candidates:
            return AccessPath(KeyRange(), exact=True)
        if self._in_order:
            return candidates[0]
        if _only_joins(candidates):
            candidates = [*candidates, AccessPath(KeyRange(), exact=True)]
        elif len(candidates) == 1:
            return candidates[0]
        else:
            candidates = sorted(candidates, key=_counting_effort)  # what is counted at once bounds how far the others are counted
        best, best_cost = candidates[0], self.cost(candidates[0].access)
        for candidate in candidates[1:]:
            if best_cost <= FEW:
                break
            cost = self.cost(candidate.access, min(int(best_cost) + 1, COUNTED)) * (1 if candidate.members else SCAN_WITH_LOOKUPS)
            if cost < best_cost:
                best, best_cost = candidate, cost
        return best

    def rest(self, members: tuple[Predicate, ...], candidate: AccessPath) -> Predicate | None:
        """The members that remain to be tested, cheapest test first unless the caller gave an order."""
        rest = [member for at, member in enumerate(members) if not (candidate.exact and at in candidate.members)]
        if not rest:
            return None
        if len(rest) == 1:
            return rest[0]
        if not self._in_order:
            rest.sort(key=_test_effort)
        return AllOf(tuple(rest))

    def access_paths(self, members: Sequence[Predicate]) -> list[AccessPath]:
        """All access paths to the matches of an AND. Ranges of one attribute become one, unless the attribute may hold lists: there each
        condition may be fulfilled by another element."""
        candidates: list[AccessPath] = []
        at_attribute: dict[str, int] = {}
        for at, member in enumerate(members):
            candidate = self._access_path(member)
            if candidate is None:
                continue
            candidate.members = (at,)
            access = candidate.access
            if isinstance(access, (IndexRange, KeyRange)) and isinstance(member, Comparison):
                name = member.path[0]
                known = at_attribute.get(name)
                multi = isinstance(access, IndexRange) and self._table.indexes[name].multi
                if known is not None and not multi:
                    candidates[known] = intersection(candidates[known], candidate)
                    continue
                at_attribute[name] = len(candidates)
            candidates.append(candidate)
        return candidates

    def _access_path(self, predicate: Predicate) -> AccessPath | None:
        match predicate:
            case Comparison():
                if predicate.path == (self._table.primary_key,):
                    return key_access_path(predicate)
                return index_access_path(predicate, self._table) if len(predicate.path) == 1 else None
            case Never():
                return AccessPath(Nothing(), exact=True)
            case AllOf():
                candidates = self.access_paths(predicate.members)
                if not candidates:
                    return None
                best = self.cheapest(candidates)
                rest = self.rest(predicate.members, best)
                return AccessPath(best.access if rest is None else Union((Branch(best.access, rest),)), exact=True)
            case AnyOf():
                return self._union_path(predicate)
            case RelatedCondition():
                return self._related_path(predicate)

    def _union_path(self, predicate: AnyOf) -> AccessPath | None:
        branches: list[Branch] = []
        for member in predicate.members:
            candidate = self._access_path(member)
            if candidate is None:
                return None
            if isinstance(candidate.access, Union) and candidate.exact:
                branches += candidate.access.branches
            elif candidate.access != Nothing():
                branches.append(Branch(candidate.access, None if candidate.exact else member))
        return AccessPath(Union(tuple(branches)) if branches else Nothing(), exact=True)

    def _related_path(self, related: RelatedCondition) -> AccessPath | None:
        """From the matches in the related table to the records that lead to them. It needs the index of the foreign key on our side."""
        relationship = related.relationship
        if relationship.from_ is not None and relationship.from_ != self._table.primary_key:
            index = self._table.indexes.get(relationship.from_)
            if index is None or not index.ready:
                return None
        inner = self._of_target(related)
        members = tuple(iter_members(related.where))
        best = inner.cheapest(inner.access_paths(members))
        self.asked = self.asked or inner.asked
        return AccessPath(ThroughRelated(related, Branch(best.access, inner.rest(members, best))), exact=True)

    def _of_target(self, related: RelatedCondition) -> _Planner:
        statistics = self._statistics
        txn = statistics.txn if isinstance(statistics, TableStatistics) else None
        return _Planner(related.target, TableStatistics(related.target, txn))

    # order

    def _sorted_paths(self, sort: tuple[SortKey, ...]) -> list[AccessPath]:
        """Walking everything in the order of the first sort key."""
        if len(sort[0].path) > 1:
            return []
        name = sort[0].path[0]
        if name == self._table.primary_key:
            return [AccessPath(KeyRange(), exact=True)]
        index = self._table.indexes.get(name)
        if index is None or not index.ready or not is_complete(self._table, name):
            return []
        if self._statistics.count(name, None, None) < self._statistics.record_count:
            return []  # values from before a change of the type may be objects or lists
        return [AccessPath(IndexRange(name, None, None), exact=True)]

    def _maybe_ordered(self, candidate: AccessPath, sort: tuple[SortKey, ...], position: Position | None) -> Access | None:
        """The access of `candidate` so that it delivers the order, None if it cannot; from behind `position`, if it can do that too."""
        access = candidate.access
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


def _counting_effort(candidate: AccessPath) -> int:
    """What is known, or is the count of one value, goes first."""
    access = candidate.access
    if isinstance(access, IndexRange):
        return 0 if access.single else 1
    return 2 if isinstance(access, (Union, ThroughRelated)) else 0


def _only_joins(candidates: list[AccessPath]) -> bool:
    """Whether there are candidates, and all lead through other tables: reading our own as a whole may be less than what these find there."""
    return bool(candidates) and all(isinstance(candidate.access, ThroughRelated) for candidate in candidates)


def _test_effort(predicate: Predicate) -> int:
    """Cheap tests go first: other tables last, groups before them, texts that are searched after what is compared."""
    match predicate:
        case RelatedCondition():
            return 4
        case AllOf() | AnyOf():
            return 3
        case Comparison():
            return 1 if predicate.comparator in UNINDEXABLE or len(predicate.path) > 1 else 0
        case Never():
            return 0


def estimated_matches(predicate: Predicate, table: AnyTable, txn: object) -> int | None:
    """The number of records that match, as far as an index or the primary key tells (§11.2); None if unknown."""
    planner = _Planner(table, TableStatistics(table, txn))
    try:
        candidates = planner.access_paths((predicate,))
        return round(min(planner.cost(candidate.access) for candidate in candidates)) if candidates else None
    except BadValue:
        return None


def estimated_cost(access: Access, table: AnyTable, txn: object) -> float:
    """The number of entries that an access looks at."""
    return _Planner(table, TableStatistics(table, txn)).cost(access)
