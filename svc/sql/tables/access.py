"""BestIndex: of the ways through a table that serve the conditions of a statement, the cheapest (spec: sql §9).

A way serves comparisons of one column, the primary key or an indexed one; SQLite tests most conditions again, since ranges may have more (`spans`,
`comparing`). It may give the order that is asked for. Costs are in records of a scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log2, prod
from typing import Any, NamedTuple

from svc.sql.catalogue import ColumnType
from svc.sql.tables.comparing import has_exact_span, is_left_to_us
from svc.sql.tables.plans import Order, Plan, Way, plan_text
from svc.sql.tables.read_state import ReadState
from svc.sql.tables.shape import ORDERED, TableShape
from svc.sql.tables.spans import (
    COMPARISONS,
    EQ,
    GE,
    GLOB,
    IS,
    IS_NULL,
    LIKE,
    LIMIT,
    LT,
    NOT_NULL,
    OFFSET,
    Span,
    intersection,
    key_span_of,
    span_of,
)

_PATTERNS = frozenset((LIKE, GLOB))
_SERVED = COMPARISONS | _PATTERNS | {NOT_NULL, IS_NULL}

_BEGIN = 4.0  # the cost of beginning to read
_FETCH = 2.5  # of a record that an index leads to
_ENTRY = 0.8  # of an entry, if that is enough
_UNKNOWN_COUNT = 1000  # records of a table whose state is not known
# Of all entries, those that a condition finds whose value is not known yet. A range is taken for a small one: to read few records one by one for nothing costs
# some times what a scan does, but to scan for few costs thousands of times what they do.
_SHARES = {EQ: 0.01, IS: 0.01, LIKE: 0.2, GLOB: 0.2, NOT_NULL: 0.95, IS_NULL: 0.05}
_RANGE = 0.05  # of each end


class Term(NamedTuple):
    """One condition `column operator value` that SQLite offers. `place`: among its constraints. `value`: None if it is not known yet."""

    place: int
    operator: int
    value: Any

    @property
    def is_known(self) -> bool:
        """Whether its span is."""
        return self.value is not None or self.operator in (IS_NULL, NOT_NULL)


@dataclass(slots=True)
class Candidate:
    """`column`: place in the view. `rows`, `cost`: estimates. `is_exact`: it has nothing but what fulfils the terms. `is_sorted`: to be in order
    the entries have to be sorted."""

    way: Way
    column: int
    terms: list[Term] = field(default_factory=list)
    rows: float = 0.0
    cost: float = 0.0
    order: Order = Order.ANY
    is_descending: bool = False
    is_index_only: bool = False
    is_exact: bool = False
    is_sorted: bool = False


def choose(info: Any, shape: TableShape, state: ReadState | None, is_plain: bool = False) -> None:
    """Tell SQLite the best way. `info`: its `IndexInfo`. `state` None: nothing is known of the table yet. `is_plain`: see `comparing`."""
    used = shape.used(frozenset(info.colUsed))
    terms, limit, offset = _terms(info, shape)
    keys = [term for term in terms.get(shape.key, ()) if term.operator == EQ]
    if keys and not info.nOrderBy:  # nothing is better
        _tell(info, shape, Candidate(Way.KEY, shape.key, keys[:1], 1.0, _BEGIN), used, limit, offset, is_plain)
        return
    count = _UNKNOWN_COUNT if state is None else state.record_count(shape.table)
    order = [(info.get_aOrderBy_iColumn(number) - 1, info.get_aOrderBy_desc(number)) for number in range(info.nOrderBy)]
    candidates = [Candidate(Way.SCAN, shape.key, rows=count, cost=_BEGIN + count, is_exact=True)]
    if shape.key in terms:
        candidates.append(_key_candidate(shape, terms.get(shape.key, []), count, state))
    for column, index in shape.indexes.items():
        if (column in terms or (order and order[0][0] == column)) and (state is None or state.is_ready(shape.table, index)):
            candidates.append(_index_candidate(shape, column, terms.get(column, []), used, count, state))
    for each in candidates:
        _add_order(each, shape, order)
    is_served = sum(map(len, terms.values())) == info.nConstraint - (limit is not None) - (offset is not None)
    best = min(
        candidates,
        key=lambda each: _total(each, bool(order), limit if is_served and len(each.terms) == sum(map(len, terms.values())) else None),
    )
    _tell(info, shape, best, used, limit, offset, is_plain)


def _terms(info: Any, shape: TableShape) -> tuple[dict[int, list[Term]], Term | None, Term | None]:
    """(the terms of each column that a way may go by, LIMIT, OFFSET)"""
    found: dict[int, list[Term]] = {}
    limit = offset = None
    for place in range(info.nConstraint):
        if not info.get_aConstraint_usable(place):
            continue
        operator = info.get_aConstraint_op(place)
        if operator == LIMIT:
            limit = Term(place, operator, info.get_aConstraint_rhs(place))
        elif operator == OFFSET:
            offset = Term(place, operator, info.get_aConstraint_rhs(place))
        elif operator in _SERVED:
            column = info.get_aConstraint_iColumn(place) - 1
            if column not in shape.indexes and column != shape.key:
                continue
            # LIKE comes with bounds that ignore case, which are no ranges of keys.
            if operator in COMPARISONS and info.get_aConstraint_collation(place) != "BINARY":
                continue
            # All values of IN at once would be possible, but apsw 3.54 fails when a sub-select has none: so SQLite asks for one after the other.
            found.setdefault(column, []).append(Term(place, operator, info.get_aConstraint_rhs(place)))
    for column, terms in found.items():
        if shape.kinds[column] is not ColumnType.TEXT and any(term.operator in _PATTERNS for term in terms):
            # Bounds that SQLite has made of the pattern leave out bytes, which the pattern may match.
            found[column] = [term for term in terms if term.operator not in (GE, LT)]
    return found, limit, offset


# --- candidates ---------------------------------------------------------------------------------------------------------------------------


def _key_candidate(shape: TableShape, terms: list[Term], count: int, state: ReadState | None) -> Candidate:
    kind = shape.kinds[shape.key]
    way = Candidate(Way.KEY, shape.key, terms)
    spans = [] if state is None else [key_span_of(kind, term.operator, term.value) for term in terms if term.is_known]
    rows = float(count)
    if spans and state is not None:
        rows = min(rows, state.count(shape.table, None, _intersected(spans).bounds))
    unknown = [term.operator for term in terms if state is None or not term.is_known]
    is_one = EQ in unknown or IS in unknown
    rows = min(rows, 1.0 if is_one else count * prod([_SHARES.get(operator, _RANGE) for operator in unknown]))
    way.rows = rows
    way.cost = _BEGIN + rows
    way.is_exact = all(has_exact_span(kind, term.operator, term.value) for term in terms)
    return way


def _index_candidate(
    shape: TableShape, column: int, terms: list[Term], used: Sequence[int], count: int, state: ReadState | None
) -> Candidate:
    kind, index = shape.kinds[column], shape.indexes[column]
    way = Candidate(Way.INDEX, column, terms)
    spans = [] if state is None else [span_of(kind, term.operator, term.value) for term in terms if term.is_known]
    rows = float(count)
    if spans and state is not None:
        span = _intersected(spans)
        if not span.unlisted:
            rows = min(rows, state.count(shape.table, index, span.bounds))
    unknown = [term.operator for term in terms if state is None or not term.is_known]
    if state is not None and (EQ in unknown or IS in unknown):
        rows = min(rows, state.average(shape.table, index))
    else:
        rows = min(rows, count * prod([_SHARES.get(operator, _RANGE) for operator in unknown]))
    way.rows = rows
    way.is_index_only = shape.has_all(column, used)
    way.cost = _BEGIN + rows * (_ENTRY if way.is_index_only else _FETCH)
    way.is_exact = all(has_exact_span(kind, term.operator, term.value) for term in terms)
    return way


def _intersected(spans: Sequence[Span]) -> Span:
    found = spans[0]
    for span in spans[1:]:
        found = intersection(found, span)
    return found


def _add_order(way: Candidate, shape: TableShape, order: Sequence[tuple[int, bool]]) -> None:
    """Note whether it gives the rows in this order: (column, descending) of each term."""
    if not order:
        return
    column, descending = order[0]
    if way.way is not Way.INDEX:
        if column == shape.key and (len(order) == 1 or shape.key_kind is not ColumnType.REAL):
            way.order, way.is_descending = Order.COLUMN, descending
        return
    kind = shape.kinds[way.column]
    if column == way.column and kind in ORDERED:
        # Of doubles from 2**53 on, equal values may have several keys.
        is_by_key = len(order) > 1 and order[1] == (shape.key, descending) and kind is not ColumnType.REAL
        if len(order) == 1 or is_by_key:
            way.order, way.is_descending = Order.COLUMN, descending
    elif column == shape.key:
        way.order, way.is_descending = Order.KEY, descending
        way.is_sorted = [term.operator for term in way.terms] not in ([EQ], [IS])


def _total(way: Candidate, is_ordered: bool, limit: Term | None) -> float:
    """The cost with that of sorting. `limit`: of the rows, if nothing but it and the way decides how many are read."""
    has_order = way.order is not Order.ANY and not way.is_sorted
    if limit is not None and type(limit.value) is int and limit.value >= 0 and (has_order or not is_ordered) and way.rows > limit.value:
        return _BEGIN + (way.cost - _BEGIN) * limit.value / way.rows
    return way.cost if has_order or not is_ordered else way.cost + way.rows * (1 + log2(way.rows + 1) / 10)


def _tell(
    info: Any,
    shape: TableShape,
    way: Candidate,
    used: tuple[int, ...],
    limit: Term | None,
    offset: Term | None,
    is_plain: bool,
) -> None:
    number = 0
    operators = tuple([term.operator for term in way.terms])
    is_left = (
        len(operators) > 0
        and is_left_to_us(shape.kinds[way.column], operators, is_plain=is_plain)
        and not shape.view.columns[way.column].is_computed
    )
    for term in way.terms:
        number += 1
        info.set_aConstraintUsage_argvIndex(term.place, number)
        if is_left:
            info.set_aConstraintUsage_omit(term.place, True)
    is_whole = number + (limit is not None) + (offset is not None) == info.nConstraint  # nothing else decides which rows there are
    has_order = way.order is not Order.ANY
    has_limit = limit is not None and is_whole and (has_order or not info.nOrderBy)
    has_offset = offset is not None and has_limit and (way.is_exact or is_left) and not shape.view.is_narrowed
    rows = way.rows
    if limit is not None and has_limit:
        number += 1
        info.set_aConstraintUsage_argvIndex(limit.place, number)
        if type(limit.value) is int and limit.value >= 0 and offset is None:
            rows = min(rows, limit.value)
    if offset is not None and has_offset:
        info.set_aConstraintUsage_argvIndex(offset.place, number + 1)
        info.set_aConstraintUsage_omit(offset.place, True)
    plan = Plan(
        way.way,
        way.column,
        used,
        operators,
        way.order,
        way.is_descending,
        way.is_index_only,
        has_limit,
        has_offset,
        is_left,
    )
    name = shape.view.columns[way.column].name if way.way is Way.INDEX else ""
    info.idxStr = plan_text(plan, name, None if shape.view.is_narrowed else max(1, round(rows)))
    info.estimatedRows = max(1, round(rows))
    info.estimatedCost = max(way.cost, 1.0)
    info.orderByConsumed = has_order
