"""Short lists: the whole execution of the queries of one shape (`shapes`), as one function of their values.

    values -> the ends of one range of one index -> stored keys -> records -> [test] -> [sort] -> rows
              (list_ranges)                                                   (list_rows)

It is made for the shapes with one way to their records: of the conditions, which are all joined by AND and look at no other table, those on attributes with
an index are an equality or a range of one of them. So the planner has no choice either, whatever the values are, and what it would do is here done once. A rule
on rows (`tables.rule_members`) is tested of the records that are found so; where it goes through a relationship, each leads to one other record at most.

Invariant: *what such a function returns is what `executor.RecordRows`, or `aggregate.AggregateRows`, would have found.* It declines, with None or a Problem,
whatever it does not know for sure: values that stand for nothing or are too long for an index, more than MOST records or MOST_BYTES, records that expire, are
compressed or have a former form, values to sort by that are not of the declared type. Then nothing has happened, and the general path takes over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from svc.query.budget import query_limits
from svc.query.functions import filter_of
from svc.query.links import Links
from svc.query.list_ranges import Ends, Values, ends_of
from svc.query.list_rows import Rows, are_few, as_stored, selecting, sorting, whole, whole_with
from svc.query.matching import reads_others
from svc.query.nodes import Aggregate, Comparator, Query
from svc.query.plan import AllOf, Comparison, Predicate, iter_members
from svc.query.planner import FEW
from svc.query.relations import Lookups
from svc.query.shaped_plan import ShapedPlan, filled_predicate
from svc.query.tables import AnyIndex, AnyTable, rule_members

MOST = 127  # index entries: with one row more an answer begins before all are found
MOST_COUNTED = 1024  # values in a range that are counted without a cache
_MOST_HELD = 1 << 22  # bytes, as budgets count them: more than any of this holds

Find = Callable[[Values, Any], list[Any] | None]
Sieve = Callable[[list[bytes], list[bytes], Any], list[bytes]]
"""From stored keys and their records to those of the records that the caller may see."""

_NO_LOOKUPS = Lookups(None)


class CompiledList:
    """`find`: (values, transaction) -> rows; None: it declines. It may raise Problem, which is to be taken for the same.

    `kind`: rows are "records" as they are stored, "values" in JSON form, or a "count", one value. `find` is to be called only while the plan that it was
    made from `holds`.
    """

    __slots__ = ("find", "kind")

    def __init__(self, find: Find, kind: str) -> None:
        self.find = find
        self.kind = kind


def compiled_list(plan: ShapedPlan, table: AnyTable, *, json: bool) -> CompiledList | None:
    """What finds the rows of the queries of a shape; made once for its plan. `json`: in JSON form, the only one in which something is selected.

    None: there is more to say about them than their values.
    """
    if json not in plan.lists:
        plan.lists[json] = _compile(plan.query, plan.where, table, json)
    return cast("CompiledList | None", plan.lists[json])


def _compile(query: Query, where: Predicate, table: AnyTable, json: bool) -> CompiledList | None:
    if table.computed:
        return None
    served: list[Comparison] = []
    rest: list[Predicate] = []
    for member in iter_members(where):
        if not isinstance(member, Comparison):
            return None
        is_served = member.path[0] == table.primary_key or member.path[0] in table.indexes
        (served if is_served else rest).append(member)
    rule = rule_members(table)
    sieve, related = _sieve_of(rule, table)
    if related is None:
        return None
    paths = {member.path for member in served}
    index = table.indexes.get(served[0].path[0]) if len(paths) == 1 and len(served[0].path) == 1 else None
    ends = None if index is None else ends_of(served, index)
    most = _most_of(query, served, rule, table)
    if index is None or ends is None or not most:
        return None
    if query.aggregate is not None:
        is_count = not rest and not rule and query == Query(query.where, aggregate=Aggregate("count"))
        return CompiledList(_counting(table, index, ends), "count") if is_count else None
    rows = _rows_of(query, table, json)
    if rows is None or query.limit == 0 or query != Query(query.where, query.select, query.sort, query.offset, query.limit):
        return None
    from svc.query.record_tests import records_test, text_equality

    equal = text_equality(rule, table) if rows is whole else None
    if equal is not None:
        rows, sieve = whole_with(*equal, records_test(rule, table)), None
    find = _finding(table, index, ends, most, sieve, tuple(rest), rows, _key_order(query, table))
    is_costly = query.sort or query.select is not None or related
    if query.offset or query.limit is not None:
        find = _cut(find, query.offset, query.limit)
    return CompiledList(_within_budget(find, MOST * (1 + related)) if is_costly else find, "values" if json else "records")


def _rows_of(query: Query, table: AnyTable, json: bool) -> Rows | None:
    rows: Rows | None = whole if json else as_stored
    if query.select is not None:
        rows = selecting(query.select, table) if json else None
    keys = [key.path for key in query.sort]
    own = (table.primary_key,)
    sort = query.sort[: keys.index(own)] if own in keys else query.sort  # behind the key nothing is left to sort
    return rows if rows is None or not sort else sorting(sort, table, rows)


def _key_order(query: Query, table: AnyTable) -> bool | None:
    """Whether records that are equal otherwise come by their keys in descending order; None: they come in the order of the index."""
    if not query.sort:
        return None
    return next((key.descending for key in query.sort if key.path == (table.primary_key,)), False)


def _most_of(query: Query, served: list[Comparison], rule: tuple[Predicate, ...], table: AnyTable) -> int:
    """The number of index entries up to which rows without a sort come in the same order, whatever the planner chooses: a rule that an index serves is another
    way to them. 0: they may not."""
    others = [member for member in rule if _may_lead(member, table)]
    if query.sort or not others:
        return MOST
    if len(served) > 1 or served[0].comparator is not Comparator.EQUALS:
        return 0
    if all(type(member) is Comparison and member.comparator is Comparator.EQUALS for member in others):
        return MOST  # by their keys, too
    return FEW  # for so few it looks for no other


def _may_lead(member: Predicate, table: AnyTable) -> bool:
    """Whether there may be an access path to what fulfils it."""
    return type(member) is not Comparison or member.path[0] == table.primary_key or member.path[0] in table.indexes


def _sieve_of(rule: tuple[Predicate, ...], table: AnyTable) -> tuple[Sieve | None, int | None]:
    """What leaves out the records that the caller may not see, None: there are none; and through how many relationships it looks for that. The latter is None
    if a record may lead to many others."""
    if not rule:
        return None, 0
    if not any(map(reads_others, rule)):
        from svc.query.record_tests import records_test

        test = records_test(rule, table)
        return lambda keys, raws, txn: test(raws), 0
    links = Links()
    passing = filter_of(AllOf(rule), table, links)
    if any(link.many or link.relationship.to not in (None, link.target.primary_key) for link in links):
        return None, None
    return lambda keys, raws, txn: [raw for _, raw in passing(list(zip(keys, raws, strict=True)), Lookups(txn))], len(links)


def _finding(
    table: AnyTable,
    index: AnyIndex,
    ends: Ends,
    most: int,
    sieve: Sieve | None,
    rest: tuple[Predicate, ...],
    rows: Rows,
    descending: bool | None,
) -> Find:
    """`most`: index entries. `descending`: see `_key_order`."""

    def find(values: Values, txn: Any) -> list[Any] | None:
        span = ends(values)
        keys = None if span is None else index.few(txn, span[0], span[1], most)
        if keys is None:
            return None
        if descending is not None:
            keys.sort(reverse=descending)
        raws = table.get_many_plain(keys, txn)
        if raws is None:
            return None
        if rest or sieve is not None:
            if not are_few(raws):
                return None
            if rest:
                test = filter_of(AllOf(tuple([filled_predicate(member, values) for member in rest])), table, Links())
                pairs = test(list(zip(keys, raws, strict=True)), _NO_LOOKUPS)
                keys, raws = [key for key, _ in pairs], [raw for _, raw in pairs]
            if sieve is not None:
                raws = sieve(keys, raws, txn)
        return rows(raws, txn)

    return find


def _cut(find: Find, offset: int, limit: int | None) -> Find:
    """Without the first rows. Declines if there are as many as asked for: then there may be another page."""

    def find_page(values: Values, txn: Any) -> list[Any] | None:
        found = find(values, txn)
        return None if found is None or (limit is not None and len(found) - offset >= limit) else found[offset:]

    return find_page


def _within_budget(find: Find, most: int) -> Find:
    """Declines where queries may cost so little that this one could cost more. `most`: related records that it reads."""

    def find_within(values: Values, txn: Any) -> list[Any] | None:
        limits = query_limits()
        return find(values, txn) if limits.related_rows > most and limits.bytes > _MOST_HELD else None

    return find_within


def _counting(table: AnyTable, index: AnyIndex, ends: Ends) -> Find:
    def find(values: Values, txn: Any) -> list[Any] | None:
        span = ends(values)
        if span is None or table.expired(txn, 0) != []:
            return None
        low, high = span
        count = index.count_of(txn, low) if high is None else index.exact_count(txn, low, high, MOST_COUNTED)
        return None if count is None else [{"count": count}]

    return find
