"""The compiled form of a live query: how its result is kept up to date, and the functions that this needs.

    STATELESS      conditions on the record itself, and no order: a change of a record tells by itself how the result changes
    MATERIALIZED   an order, a limit, or relationships that can be followed both ways: the keys of the result are kept, and the records that a change may
                   concern are rechecked
    RECOMPUTED     relationships that cannot be followed backwards without scanning a table, and aggregates: the query is run again

A live query with a limit has an order, by default that of the primary key: without one, its result would be arbitrary records.

Rules on rows are conditions like others (spec: rows §1.6): that of the table is one more member of the AND, and those of the tables that relationships lead to
decide what is found there. What they lead to is followed whatever values they are about; where they name attributes of the account's record, or `$now`, the
result is at least MATERIALIZED, and `renewed` when these have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from svc.errors import ClientError, QueryError
from svc.query import plan_query
from svc.query.access_paths import collection_below
from svc.query.aggregate import row_names
from svc.query.compiled_plan import compiled_plan, sort_keys_for
from svc.query.definition_cache import Definitions
from svc.query.functions import Encoded, Filter, filter_of, values_reader
from svc.query.links import Link, Links, back
from svc.query.matching import reads_others
from svc.query.narrowing import is_view, real_table
from svc.query.nodes import Query, Select, SelectItem, SortKey
from svc.query.plan import AllOf, AnyOf, Plan, Predicate, RelatedCondition, iter_members
from svc.query.relations import Lookups, entries_of
from svc.query.resolve import is_many, related_table, resolve_where
from svc.query.select import Shape, enumerable_select
from svc.query.tables import AnyTable, rule_members
from svc.store import Table
from svc.store.env import Txn
from svc.store.schema import Relationship

if TYPE_CHECKING:
    from svc.realtime.viewpoint import Viewpoint

STATELESS, MATERIALIZED, RECOMPUTED = "stateless", "materialized", "recomputed"

MAX_WINDOW = 10_000  # offset + limit: this many rows are compared with each change
MIN_SLACK = 32  # rows known behind a window, so that it need not be read again with each row that leaves it


class LiveQuerySpec:
    """A query of a table, narrowed to the rights of a user.

    `query`: without `live`, but with an order if it needs one. `keep`: rows known of a window, its `end` and some more. `has_index`: events have an
    `index`. `test`: finds the records that satisfy the conditions; None: there are none, or they cannot be tested on one record. `viewpoint`: of the callers,
    if rules narrow what they may see. `account_names`: the attributes of the account's record that rules name. `is_volatile`: they name `$now`.
    """

    __slots__ = (
        "_account_values",
        "_allow_full_scan",
        "_given",
        "_seen",
        "account_names",
        "aggregate_keys",
        "chains",
        "definitions",
        "end",
        "has_index",
        "is_volatile",
        "keep",
        "mode",
        "offset",
        "plan",
        "predicate",
        "prefix",
        "query",
        "shape",
        "sort_keys",
        "table",
        "test",
        "viewpoint",
    )

    def __init__(
        self, query: Query, table: Table, prefix: str | None, allow_full_scan: bool | None, txn: Txn, viewpoint: Viewpoint | None = None
    ) -> None:
        """Raises QueryError; IndexRebuilding if the index that is needed is being built; ClientError for a window that is too large."""
        self.viewpoint = viewpoint
        self._given, self._allow_full_scan = query, allow_full_scan
        view: AnyTable = table if viewpoint is None else viewpoint.view(txn)
        self._seen = view
        if query.after is not None or query.explain:
            raise QueryError("live() cannot be combined with a cursor or with explain: its result has no pages", code="QUERY_SYNTAX")
        query = replace(query, live=False)
        if table.has_enumerable and query.select is None and query.aggregate is None:
            query = replace(query, select=enumerable_select(table))
        plan_query(query, view, txn, allow_full_scan=allow_full_scan, key_prefix=prefix)  # refuses what is refused without live()
        self.offset, self.end = _window(query)
        if (self.end is not None or self.offset) and not query.sort:
            query = replace(query, sort=(SortKey((table.primary_key,)),))
        self.query = query
        self.table = table
        self.prefix = prefix
        self.keep = None if self.end is None else self.end + max(MIN_SLACK, self.end // 2)
        self.has_index = bool(query.sort) or (query.aggregate is not None and query.aggregate.kind != "count")
        run = query if query.aggregate is not None else replace(query, offset=0, limit=self.keep)
        # A full scan is allowed here: the plan above was checked, and an order that is added is no reason to refuse.
        self.plan: Plan = plan_query(run, view, txn, allow_full_scan=True, key_prefix=prefix)
        self.definitions = Definitions(table)
        asked = _predicate(query, view, prefix)
        self.predicate = _with_rule(asked, view)
        self.chains: list[Chain] = chains_of(query, asked, view)
        self.is_volatile = False
        self.account_names: tuple[str, ...] = ()
        if viewpoint is not None:
            self.is_volatile, self.account_names = _named_in(viewpoint, [table.name, *[chain[-1].target.name for chain in self.chains]])
        self._account_values = self._values_now(view)
        self.mode = _mode(query, self.chains, is_fixed=self.is_fixed)
        self.test: Filter | None = None
        if self.predicate is not None and not (self.mode == RECOMPUTED and reads_others(self.predicate)):
            self.test = filter_of(self.predicate, view, Links())
        self.shape: Shape | None = None
        self.sort_keys: Encoded | None = None
        self.aggregate_keys: tuple[str, ...] = ()
        if query.aggregate is not None:
            self.aggregate_keys = row_names(query.aggregate)[: len(query.aggregate.keys)]
            return
        if query.select is not None:
            self.shape = compiled_plan(self.plan, False).shape
        if query.sort:
            self.sort_keys, _ = sort_keys_for(query.sort, view)

    @property
    def is_fixed(self) -> bool:
        """Whether it stays as it is until definitions change, or rights."""
        return not (self.is_volatile or self.account_names)

    def _values_now(self, view: AnyTable) -> str:
        return repr([view.database.viewer.value(name) for name in self.account_names])

    def renewed(self, txn: Txn) -> tuple[LiveQuerySpec, bool]:
        """(the same query as it is to be now, whether its rows may be others: the account's record has changed). Raises what making it raises."""
        assert self.viewpoint is not None
        view = self.viewpoint.view(txn)
        has_changed = self._account_values != self._values_now(view)
        if has_changed or (self.is_volatile and view is not self._seen):
            return LiveQuerySpec(self._given, self.table, self.prefix, self._allow_full_scan, txn, self.viewpoint), has_changed
        return self, False


def _named_in(viewpoint: Viewpoint, tables: Iterable[str]) -> tuple[bool, tuple[str, ...]]:
    """What the rules about reading these tables name of the caller and of the time."""
    from svc.query.row_rules import NOW
    from svc.query.viewer import names_account

    names = {name for table in tables for rule in viewpoint.rules.of(table, "read") or () for name in rule.values}
    return NOW in names, tuple(sorted(name for name in names if names_account((name,))))


def _window(query: Query) -> tuple[int, int | None]:
    """(offset, offset + limit) of a query for records; (0, None) if it has neither, or is an aggregate."""
    if query.aggregate is not None:
        return 0, None
    end = None if query.limit is None else query.offset + query.limit
    if (end or query.offset) > MAX_WINDOW:
        raise ClientError(f"A live query follows at most the first {MAX_WINDOW} records of an order, make offset and limit smaller")
    return query.offset, end


def _predicate(query: Query, table: AnyTable, prefix: str | None) -> Predicate | None:
    """The resolved conditions, and that of the key prefix."""
    predicate = None if query.where is None else resolve_where(query.where, table)
    if prefix is None:
        return predicate
    below = collection_below(table, prefix)
    return below if predicate is None else AllOf((below, *iter_members(predicate)))


def _with_rule(predicate: Predicate | None, view: AnyTable) -> Predicate | None:
    members = rule_members(view)
    if not members:
        return predicate
    return AllOf((*members, *(() if predicate is None else iter_members(predicate))))


def _mode(query: Query, chains: list[Chain], *, is_fixed: bool) -> str:
    if query.aggregate is not None:
        return RECOMPUTED
    if chains:
        return MATERIALIZED if all(is_followed_back(chain) for chain in chains) else RECOMPUTED
    return MATERIALIZED if query.sort or not is_fixed else STATELESS


MAX_LEADING_RECORDS = 1024  # records; with more of them the whole query is run again


class Hop(NamedTuple):
    """One relationship, from the records of `table` to those of `target`."""

    table: AnyTable
    relationship: Relationship
    target: AnyTable
    many: bool


Chain = tuple[Hop, ...]
"""A path of relationships from the table of a query to another one. With each chain a query also has its prefixes."""


def chains_of(query: Query, predicate: Predicate | None, table: AnyTable) -> list[Chain]:
    """All chains of a query, in its conditions, selection, order and aggregate, and in rules on rows. `predicate`: its conditions, resolved."""
    found: dict[tuple[tuple[str, str, str | None, str | None], ...], Chain] = {}
    for chain in (*_of_rules(table, ()), *_of_query(query, predicate, table, ())):
        found.setdefault(tuple([(h.table.name, h.target.name, h.relationship.from_, h.relationship.to) for h in chain]), chain)
    return list(found.values())


def is_followed_back(chain: Chain) -> bool:
    """Whether each of its relationships can be followed in both directions without scanning a table."""
    for hop in chain:
        if hop.target.definition.split_segments or hop.table.definition.split_segments:
            return False  # a key that names a list as a string is found by its parts, not by a value of an index
        if Link(hop.relationship, hop.table, hop.target, hop.many).scans or back(hop.relationship, hop.table, hop.target).scans:
            return False
    return True


def records_leading_to(chain: Chain, raws: list[bytes], lookups: Lookups) -> list[bytes] | None:
    """The stored keys of the records at the start of a chain that lead to one of the records `raws` at its end; None: too many."""
    for at in range(len(chain) - 1, -1, -1):
        hop = chain[at]
        link = back(hop.relationship, hop.table, hop.target)
        values_of = values_reader(hop.target, (link.source,))
        keys = list(islice(entries_of(link, [values_of(raw)[0] for raw in raws], lookups), MAX_LEADING_RECORDS + 1))
        if len(keys) > MAX_LEADING_RECORDS:
            return None
        if not at or not keys:
            return keys
        raws = [raw for _, raw in hop.table.get_many(dict.fromkeys(keys), lookups.txn)]
    return []


def _hop(table: AnyTable, relationship: Relationship, target: AnyTable, many: bool) -> Hop:
    """Between the tables themselves: what a change leads back to may have been there before it."""
    return Hop(real_table(table), relationship, real_table(target), many)


def _to(chain: Chain, target: AnyTable) -> Iterator[Chain]:
    """The chain, and those that what is there at its end depends on."""
    yield chain
    yield from _of_rules(target, chain)


def _of_rules(table: AnyTable, before: Chain) -> Iterator[Chain]:
    if is_view(table):
        from svc.query.rule_faults import structure_of

        for rule in table.database.rules.of(table.name, "read") or ():
            predicate = structure_of(rule.node, table)
            if predicate is not None:
                yield from _of_predicate(predicate, table, before)


def _of_query(query: Query, predicate: Predicate | None, table: AnyTable, before: Chain) -> Iterator[Chain]:
    if predicate is not None:
        yield from _of_predicate(predicate, table, before)
    if query.select is not None:
        yield from _of_select(query.select, table, before)
    if query.aggregate is None:
        for key in query.sort:
            yield from _of_path(key.path, table, before)
    else:
        for path in (*query.aggregate.keys, *[path for _, path in query.aggregate.functions if path is not None]):
            yield from _of_path(path, table, before)


def _of_predicate(predicate: Predicate, table: AnyTable, before: Chain) -> Iterator[Chain]:
    if isinstance(predicate, (AllOf, AnyOf)):
        for member in predicate.members:
            yield from _of_predicate(member, table, before)
    elif isinstance(predicate, RelatedCondition):
        chain = (*before, _hop(table, predicate.relationship, predicate.target, predicate.many))
        yield from _to(chain, predicate.target)
        if predicate.where is not None:
            yield from _of_predicate(predicate.where, predicate.target, chain)


def _of_select(select: Select, table: AnyTable, before: Chain) -> Iterator[Chain]:
    for item in select.items:
        attribute = table.attributes.get(item.path[0])
        if attribute is None or attribute.relationship is None:
            continue
        target = related_table(table, attribute)
        chain = (*before, _hop(table, attribute.relationship, target, is_many(attribute, table)))
        yield from _to(chain, target)
        if len(item.path) > 1:
            yield from _of_select(Select((SelectItem(item.path[1:], item.nested, item.query),)), target, chain)
        elif item.nested is not None:
            yield from _of_select(item.nested, target, chain)
        if item.query is not None:
            where = None if item.query.where is None else resolve_where(item.query.where, target)
            yield from _of_query(item.query, where, target, chain)


def _of_path(path: tuple[str, ...], table: AnyTable, before: Chain) -> Iterator[Chain]:
    attribute = table.attributes.get(path[0])
    if attribute is not None and attribute.relationship is not None:
        target = related_table(table, attribute)
        chain = (*before, _hop(table, attribute.relationship, target, is_many(attribute, table)))
        yield from _to(chain, target)
        if len(path) > 1:
            yield from _of_path(path[1:], target, chain)
