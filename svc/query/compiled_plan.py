"""Compiles a plan: its access becomes a source of records, its filter, sort and selection functions of a batch of records.

A compiled plan depends on the definitions of its tables, not on a transaction; it is made once and kept with the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from svc.query.definition_cache import DefinitionCache
from svc.query.functions import Encoded, Filter, filter_of, index_keys_reader, position_bytes, sort_keys, sort_parts, values_reader
from svc.query.links import Link, Links, back
from svc.query.matching import reads_others
from svc.query.nodes import Select, SortKey
from svc.query.plan import (
    Access,
    AllOf,
    Branch,
    IndexRange,
    KeyLookup,
    KeyRange,
    Nothing,
    Order,
    OrderedIndex,
    Plan,
    Position,
    Predicate,
    ThroughRelated,
    Union,
    iter_members,
)
from svc.query.relations import Lookups, entries_of
from svc.query.select import Shape, compile_select
from svc.query.sources import (
    DistinctSource,
    EmptySource,
    FilteredSource,
    IndexSource,
    JoinSource,
    KeySource,
    OrderedSource,
    Pair,
    RowSource,
    ScanSource,
    UnionSource,
)
from svc.query.steps import SteppedFunction, Steps, in_steps
from svc.query.tables import AnyTable, rule_members


class CompiledPlan:
    """The functions of a plan. They depend on the definitions of its tables, not on a transaction."""

    __slots__ = ("_access", "floor", "joins", "joins_many", "scanned", "shape", "shape_joins", "sort_keys", "start", "table", "test")

    def __init__(self, plan: Plan, json: bool) -> None:
        table = self.table = plan.table
        links = Links()
        self._access = plan.access
        self.start = source_of(plan.access, table, links)
        self.test: Filter | None = None
        self.sort_keys: Encoded | None = None
        self.floor: bytes | None = None
        self.shape: Shape | None = None
        self.shape_joins = self.joins = self.joins_many = False
        self.scanned: list[Link] = []
        select = plan.query.select
        if plan.filter is None and not plan.sort and select is None and plan.position is None and not len(links):
            return  # the frequent case: records as an index has them
        all_links = [links]
        if plan.filter is not None:
            self.test = filter_of(plan.filter, table, links)
        if plan.sort:
            self.sort_keys, more = _sort_keys_of(plan)
            all_links.append(more)
        if plan.position is not None:
            assert plan.order is not None
            keys = plan.order.keys or (SortKey((table.primary_key,)),)
            self.floor = floor = position_bytes(keys, plan.position.parts or (plan.position.primary,), plan.position.primary)
            if self.sort_keys is None:
                keys_of, more = sort_keys_for(keys, table)
                self.test = _behind(floor, keys_of, self.test)
                all_links.append(more)
        if select is not None:
            self.shape, more = _shape_for(plan, select, json)
            self.shape_joins = len(more) > 0
            all_links.append(more)
        found = [link for some in all_links for link in some]
        if found:
            self.joins = True
            self.joins_many = any(link.many for link in found)
            self.scanned = [link for link in found if link.scans]

    def position(self, order: Order, last: Pair, lookups: Lookups) -> Position:
        """The place of a row."""
        if order.keys:
            columns = sort_parts(order.keys, self.table, Links())([last], lookups)
            return Position(tuple([column[0] for column in columns]), last[0])
        if order.index is None:
            return Position((), last[0])
        access = self._access
        assert isinstance(access, IndexRange)
        keys = index_keys_reader(self.table, order.index)(last[1])
        low, high = access.low or b"", access.high
        return Position((min(key for key in keys if key >= low and (high is None or key < high)),), last[0])


_shapes = DefinitionCache()
_sort_keys = DefinitionCache()


def sort_keys_for(keys: tuple[SortKey, ...], table: AnyTable) -> tuple[Encoded, Links]:
    """`functions.sort_keys`, and the relationships it goes through; made once for a table."""

    def make() -> tuple[Encoded, Links]:
        links = Links()
        return sort_keys(keys, table, links), links

    found: tuple[Encoded, Links] = _sort_keys.get(table, keys, make)
    return found


def prepare_select(select: Select, table: AnyTable) -> None:
    """Compile a selection for JSON, as a plan with no conditions on other tables will need it."""
    shape_of(select, table, (), True)


def shape_of(select: Select, table: AnyTable, sort: tuple[SortKey, ...], json: bool) -> tuple[Shape, Links]:
    """The function of a selection without conditions of its own, and the relationships it goes through; made once for a table."""

    def make() -> tuple[Shape, Links]:
        links = Links()
        return compile_select(select, table, links, json=json, sort=sort), links

    found: tuple[Shape, Links] = _shapes.get(table, (select, sort, json), make, _count_of(select))
    return found


def _count_of(select: Select) -> int:
    """The names in a selection, at all depths."""
    below = [item.nested if item.query is None else item.query.select for item in select.items]
    return len(below) + sum([_count_of(nested) for nested in below if nested is not None])


def _shape_for(plan: Plan, select: Select, json: bool) -> tuple[Shape, Links]:
    """The function of the selection, and the relationships it goes through; made once for a table, unless the conditions or the sort of
    the query have a say in what related records it shows."""
    shared: Any = plan.shared
    if shared is not None and json in shared:
        return shared[json]  # type: ignore[no-any-return]
    table = plan.table
    where: Predicate | None = None
    sort = tuple([key for key in plan.query.sort if len(key.path) > 1])
    if plan.query.where is not None:
        rule = set(map(id, rule_members(table)))  # it says what may be seen, not what is asked for
        members = [member for member in (*plan.served, *iter_members(plan.filter)) if reads_others(member) and id(member) not in rule]
        where = AllOf(tuple(members)) if members else None

    if where is not None:
        links = Links()
        return compile_select(select, table, links, json=json, where=where, sort=sort), links
    found = shape_of(select, table, sort, json)
    if shared is not None:  # values decide neither whether there are conditions on other tables, nor what is shown without them
        shared[json] = found
    return found


def _sort_keys_of(plan: Plan) -> tuple[Encoded, Links]:
    shared: Any = plan.shared
    if shared is None:
        return sort_keys_for(plan.sort, plan.table)
    found: tuple[Encoded, Links] | None = shared.get("sort")
    if found is None:
        found = shared["sort"] = sort_keys_for(plan.sort, plan.table)
    return found


def _behind(floor: bytes, keys_of: Encoded, test: Filter | None) -> Filter:
    """What `test` lets pass and sorts behind `floor`."""

    def passing(pairs: list[Pair], lookups: Lookups) -> list[Pair]:
        pairs = [pair for key, pair in zip(keys_of(pairs, lookups), pairs, strict=True) if key > floor]
        return pairs if test is None else test(pairs, lookups)

    def steps(pairs: list[Pair], lookups: Lookups) -> Steps[list[Pair]]:
        keys = yield from in_steps(keys_of, pairs, lookups)
        pairs = [pair for key, pair in zip(keys, pairs, strict=True) if key > floor]
        return pairs if test is None else (yield from in_steps(test, pairs, lookups))

    if type(keys_of) is SteppedFunction or type(test) is SteppedFunction:
        return SteppedFunction(steps)
    return passing


def compiled_plan(plan: Plan, json: bool) -> CompiledPlan:
    kept = plan.compiled.get(json)
    if kept is None:
        kept = plan.compiled[json] = CompiledPlan(plan, json)
    assert isinstance(kept, CompiledPlan)
    return kept


# sources

Start = Callable[[Lookups], RowSource]


def source_of(access: Access, table: AnyTable, links: Links) -> Start:
    """The function that starts a source for an execution."""
    match access:
        case IndexRange():
            return _index_source(access, table)
        case KeyRange():
            low, high, reverse, behind = access.low, access.high, access.reverse, access.behind
            return lambda lookups: ScanSource(table.scan(lookups.txn, low, high, reverse=reverse, behind=behind))
        case KeyLookup():
            keys = access.keys
            return lambda lookups: KeySource(table, lookups.txn, keys)
        case OrderedIndex():
            return _ordered_source(access, table, links)
        case Union():
            branches = [branch_of(branch, table, links) for branch in access.branches]
            return lambda lookups: UnionSource(start(lookups) for start in branches)
        case ThroughRelated():
            return _join_source(access, table, links)
        case Nothing():
            return lambda lookups: EmptySource()


def branch_of(branch: Branch, table: AnyTable, links: Links) -> Start:
    start = source_of(branch.access, table, links)
    if branch.filter is None:
        return start
    test = filter_of(branch.filter, table, links)
    return lambda lookups: FilteredSource(start(lookups), lambda pairs: in_steps(test, pairs, lookups))


def _index_source(access: IndexRange, table: AnyTable) -> Start:
    name, low, high, reverse, behind = access.attribute, access.low, access.high, access.reverse, access.behind
    index = table.indexes[name]
    if not access.distinct:
        return lambda lookups: IndexSource(table, lookups.txn, index.primaries(lookups.txn, low, high, reverse=reverse, behind=behind))
    keys_of = index_keys_reader(table, name)
    return lambda lookups: DistinctSource(
        table, lookups.txn, index.scan(lookups.txn, low, high, behind=behind), low=low, behind=behind, keys_of=keys_of
    )


def _ordered_source(access: OrderedIndex, table: AnyTable, links: Links) -> Start:
    keys_of = sort_keys(access.keys, table, links)
    index = table.indexes[access.attribute]
    return lambda lookups: OrderedSource(
        table,
        index,
        lookups.txn,
        (access.low, access.high),
        descending=access.keys[0].descending,
        sort_keys=lambda pairs: keys_of(pairs, lookups),
        sort_all=len(access.keys) > 1,
        behind=access.behind,
    )


def _join_source(access: ThroughRelated, table: AnyTable, links: Links) -> Start:
    related = access.related
    inner = branch_of(access.inner, related.target, links)
    link = back(related.relationship, table, related.target)
    values_of = values_reader(related.target, (link.source,))

    def start(lookups: Lookups) -> RowSource:
        def lead_back(pairs: list[Pair]) -> Iterable[bytes]:
            return entries_of(link, [values_of(raw)[0] for _, raw in pairs], lookups)

        return JoinSource(table, lookups.txn, inner(lookups), lead_back)

    return start
