"""The parsed bodies of recent searches, and the tables as searches see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from svc.query import QueryCache
from svc.query.nodes import Query
from svc.query.tables import AnyTable
from svc.store import Table
from svc.store.schema import Attribute, TableDefinition
from svc.store.system import ANALYTICS_TABLE, SYSTEM


class OpenTable:
    """The table itself but for `attributes`, which lack nothing that is asked for by name."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._definition = table.definition
        self._attributes = _Attributes(table.attributes)

    @property
    def attributes(self) -> dict[str, Attribute]:
        if self.table.definition is not self._definition:
            self._definition = self.table.definition
            self._attributes = _Attributes(self.table.attributes)
        return self._attributes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.table, name)


class _Attributes(dict[str, Attribute]):
    def get(self, name: str, default: Any = None) -> Any:
        return self[name]

    def __missing__(self, name: str) -> Attribute:
        return Attribute(name)


_MAX_ENTRIES = 1024
_MAX_BYTES = 1 << 18  # of all bodies that are remembered; their nodes take many times that
_MAX_LENGTH = 2048  # of one body: a longer one is rarely sent twice

# What a body cannot be turned into bytes for: then it is not remembered.
_NO_KEY = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)
_encode = msgspec.msgpack.Encoder().encode


class SearchCache:
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
        # Most bodies come once, so what is kept is the second one. The definition stays alive with it, so its id is not reused.
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
    """Whether its records have properties that are not declared and may be searched."""
    return table.name == ANALYTICS_TABLE and table.database.name == SYSTEM
