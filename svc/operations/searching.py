"""What searches have in common: remembered bodies, the caller's rights, the plan (contract: operations §3.2, security §5.4, §5.6)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from svc.auth.roles import Role, TableRights, rights
from svc.auth.users import User
from svc.errors import AccessViolation, ClientError
from svc.operations.call import Call
from svc.operations.node import Node
from svc.operations.open_table import OpenTable
from svc.operations.raw_window import within_window
from svc.operations.search_fields import SearchReader
from svc.query import Plan, QueryCache, plan_query
from svc.query.authorization import narrow_query
from svc.query.nodes import Query
from svc.query.tables import AnyTable
from svc.resources import PlannedQuery
from svc.store import Table
from svc.store.schema import TableDefinition
from svc.store.system import ANALYTICS_TABLE, RAW_ANALYTICS_TABLE, SYSTEM, USER_TABLE

_logger = logging.getLogger("svc.operations")

_MAX_ENTRIES = 1024
_MAX_BYTES = 1 << 18  # of all bodies that are remembered; their nodes take many times that
_MAX_LENGTH = 2048  # of one body: a longer one is rarely sent twice

# What a body cannot be turned into bytes for: then it is not remembered.
_NO_KEY = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)
_encode = msgspec.msgpack.Encoder().encode


class Searches:
    """What a node remembers of its searches: clients repeat themselves, and with the nodes of a query its plan is kept.

    A body is known by its MessagePack form, in which 5, 5.0 and "5" differ. What it means depends on the definition of the table, so a changed
    one is another key; who asks has no part in it.
    """

    def __init__(self) -> None:
        self._open: dict[str, OpenTable] = {}
        self.clear()

    def clear(self) -> None:
        """Forget all of them."""
        self.texts = QueryCache()
        self._bodies: dict[tuple[int, bytes], tuple[TableDefinition, Query]] = {}
        self._bytes = 0
        self._once: set[tuple[int, bytes]] = set()

    def __len__(self) -> int:
        return len(self._bodies)

    def query(self, table: Table, members: tuple[Any, ...], make: Callable[[], Query]) -> Query:
        """What `make` makes of these members of a body, or has made of the same before. Faults are not remembered."""
        try:
            body = _encode(members)
        except _NO_KEY:
            return make()
        if len(body) > _MAX_LENGTH:
            return make()
        definition = table.definition
        key = (id(definition), body)
        found = self._bodies.get(key)
        if found is not None:
            return found[1]
        query = make()
        # Most bodies come once, so what is kept is the second one. The definition stays alive with it, so nobody else has its id.
        if key in self._once:
            self._once.remove(key)
            self._keep(key, (definition, query))
        else:
            if len(self._once) >= _MAX_ENTRIES:
                self._once.clear()
            self._once.add(key)
        return query

    def _keep(self, key: tuple[int, bytes], entry: tuple[TableDefinition, Query]) -> None:
        """The oldest goes first; one that is still sent is back after two more times."""
        bodies = self._bodies
        bodies[key] = entry
        self._bytes += len(key[1])
        while len(bodies) > _MAX_ENTRIES or self._bytes > _MAX_BYTES:
            oldest = next(iter(bodies))
            del bodies[oldest]
            self._bytes -= len(oldest[1])

    def view(self, table: Table) -> AnyTable:
        """The table as searches see it."""
        if not is_open(table):
            return table
        known = self._open.get(table.name)
        if known is None or known.table is not table:
            known = self._open[table.name] = OpenTable(table)
        return known


def is_open(table: Table) -> bool:
    """Whether its records have properties that nobody declared and everybody may ask for."""
    return table.name == ANALYTICS_TABLE and table.database.name == SYSTEM


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
    plan = plan_query(query, call.node.searches.view(table), table.database.snapshot(), allow_full_scan=True)
    return rows_of(call, table, plan, visible, began)


def rows_of(call: Call, table: Table, plan: Plan, visible: frozenset[str] | None, began: float) -> PlannedQuery:
    return PlannedQuery(table, plan, visible, call.node.clock.monotonic() - began)


def narrowed(call: Call, table: Table, query: Query) -> tuple[Query, frozenset[str] | None]:
    """The query that the caller may run, and the attributes of whole records that may be shown, None: all. Raises AccessViolation.

    Full rights on this table say nothing of those that its relationships lead to.
    """
    user, may = call.user, call.rights
    if not call.authorized:
        if table.name != USER_TABLE or table.database.name != SYSTEM:
            return query, None
        # Its secrets are shown to nobody.
        user = _super_user(call.node)
        may = rights(user, SYSTEM, USER_TABLE)
    if may.all and (call.is_super_user or not _has_relationships(table)):
        return query, None
    return narrow_query(query, table, user), _visible(may)


def _visible(may: TableRights) -> frozenset[str] | None:
    return None if may.attributes is None else may.readable


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
