"""What searches have in common: remembered bodies, the caller's rights, the plan (spec: operations §3.2, security §5.4, §5.6)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from svc.api.context import Context
from svc.auth.roles import Role, TableRights, rights
from svc.auth.users import User
from svc.errors import AccessViolation, ClientError
from svc.operations.call import Call
from svc.operations.node import Node
from svc.operations.search_fields import SearchReader
from svc.query import Plan, plan_query
from svc.query.authorization import narrow_query
from svc.query.convert import typed_pair, typed_value
from svc.query.matching import CLOSED_RANGES, comparable
from svc.query.nodes import Comparator, Condition, Filter, Group, Query
from svc.query.shaped_plan import UNRESTRICTED, Reader
from svc.query.tables import AnyTable, is_volatile
from svc.resources import PlannedQuery
from svc.store import Table
from svc.store.system import RAW_ANALYTICS_TABLE, SECRETS, SYSTEM

WINDOW_MS = 10_000

_LOW = (Comparator.GREATER_THAN, Comparator.GREATER_THAN_EQUAL, Comparator.EQUALS)
_HIGH = (Comparator.LESS_THAN, Comparator.LESS_THAN_EQUAL, Comparator.EQUALS)


def within_window(where: Filter | None, table: AnyTable, now_ms: float) -> tuple[Filter, bool]:
    """The filter narrowed to the window, and whether it might have found more. Raises QueryError for an invalid time."""
    members = where.members if isinstance(where, Group) and where.operator == "and" else () if where is None else (where,)
    low, high = _ends(members, table)
    if low is None:
        end = now_ms if high is None else high
        low = end - WINDOW_MS
        cut = True
    else:
        end = low + WINDOW_MS
        cut = end < (now_ms if high is None else high)
    return Group("and", (Condition((table.primary_key,), Comparator.BETWEEN, (low, end)), *members)), cut


def _ends(members: Iterable[Filter], table: AnyTable) -> tuple[float | None, float | None]:
    """The ends of the range of keys that every member allows, as far as conditions on the key itself tell."""
    key = table.primary_key
    attribute = table.attributes.get(key)
    lows: list[float] = []
    highs: list[float] = []
    for member in members:
        if not isinstance(member, Condition) or member.path != (key,):
            continue
        comparator = member.comparator
        if comparator in CLOSED_RANGES:
            pair = typed_pair(member.value, member.conversion, attribute, key)
            lows += _moment(pair[0])
            highs += _moment(pair[1])
        elif comparator in _LOW or comparator in _HIGH:
            value = _moment(typed_value(member.value, member.conversion, attribute, key))
            if comparator in _LOW:
                lows += value
            if comparator in _HIGH:
                highs += value
    return max(lows, default=None), min(highs, default=None)


def _moment(value: object) -> list[float]:
    found = comparable(value)
    return [found] if isinstance(found, int | float) and not isinstance(found, bool) else []


_logger = logging.getLogger("svc.operations")


def table_of(call: Call, reader_of_faults: Callable[[SearchReader], object]) -> Table:
    """The table of the call. If there is none, the faults of the body come first: `reader_of_faults` is given a reader to find them."""
    try:
        return call.table
    except ClientError:
        reader_of_faults(SearchReader(None))
        raise


def reader_for(call: Call, table: Table, *, leaf_operator: bool = False) -> SearchReader:
    view = call.node.searches.view(table)
    return SearchReader(view, leaf_operator=leaf_operator, is_open=view is not table)


def planned(call: Call, table: Table, query: Query, began: float) -> PlannedQuery:
    """The rows that a query finds for the caller. `began`: monotonic, when reading the body did."""
    if table.database.name == SYSTEM and table.name == RAW_ANALYTICS_TABLE:
        query = _windowed(call, table, query)
    query, visible = narrowed(call, table, query)
    plan = plan_query(query, seen(call, table), table.database.snapshot(), allow_full_scan=True)
    return rows_of(call, table, plan, visible, began)


def seen(call: Call, table: Table) -> AnyTable:
    """The table as searches of the caller see it."""
    view = call.node.searches.view(table)
    return view if view is not table else call.seen(table)


def loaded(call: Call, table: Table, rows: Callable[[], PlannedQuery]) -> Any:
    """The rows that a query finds; of a table with a source an awaitable, if some of them have to be loaded."""
    return rows() if table.caching is None or call.is_check else table.caching.find(rows, Context(call.user))


def planned_text(call: Call, table: Table, text: str, began: float) -> PlannedQuery:
    """The same for a query in the query language. Raises QueryError."""
    view, texts = call.node.searches.view(table), call.node.searches.texts
    query = texts.known(text, view)
    if query is None:
        if table.database.name != SYSTEM:
            reader, visible = _reader(call, table)
            seen_table = call.seen(table)
            plan = None
            if not is_volatile(seen_table):
                plan = texts.shapes.maybe_plan(text, seen_table, table.database.snapshot(), reader, True)
            if plan is not None:
                return rows_of(call, table, plan, visible, began)
        query = texts.parse(text, view)
    return planned(call, table, query, began)


def rows_of(call: Call, table: Table, plan: Plan, visible: frozenset[str] | None, began: float) -> PlannedQuery:
    return PlannedQuery(table, plan, visible, call.node.clock.monotonic() - began)


def narrowed(call: Call, table: Table, query: Query) -> tuple[Query, frozenset[str] | None]:
    """The query that the caller may run, and the attributes of whole records that may be shown, None: all. Raises AccessViolation."""
    reader, visible = _reader(call, table)
    return query if reader is UNRESTRICTED else narrow_query(query, table, reader), visible


def _reader(call: Call, table: Table) -> tuple[Reader, frozenset[str] | None]:
    """Whose rights narrow a query, and the attributes of whole records that may be shown, None: all.

    Full rights on this table say nothing of those that its relationships lead to.
    """
    user, may = call.user, call.rights
    if not call.authorized:
        if table.name not in SECRETS or table.database.name != SYSTEM:
            return UNRESTRICTED, None
        # Its secrets are never shown.
        user = _super_user(call.node)
        may = rights(user, table)
    if may.all and (call.is_super_user or not _has_relationships(table)):
        return UNRESTRICTED, None
    return user, _visible(may)


def _visible(may: TableRights) -> frozenset[str] | None:
    return may.readable


def _has_relationships(table: Table) -> bool:
    return any(attribute.relationship is not None for attribute in table.attributes.values())


def _super_user(node: Node) -> User:
    return User("", True, Role("super_user", "super_user", {"super_user": True}, databases=node.store.databases))


def _windowed(call: Call, table: Table, query: Query) -> Query:
    """At most 10 s of raw analytics, for super users only."""
    if not call.is_super_user:
        raise AccessViolation(call.user)
    where, cut = within_window(query.where, table, call.node.clock.wall() * 1000)
    if cut:
        _logger.warning("%s of %s: only 10 s of raw analytics are searched at one time", call.name, table.name)
    return replace(query, where=where)
