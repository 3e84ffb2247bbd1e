"""Which tables figures may name to a reader (spec: analytics §8, §10): those it has some right on; super users see all, those of `system` too.

A path is the address of a resource: it is hidden where that is a hidden table. All others are no secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from svc.analytics.totals import OTHER
from svc.auth.roles import rights
from svc.auth.users import User
from svc.query.nodes import Comparator, Condition, Filter, Group
from svc.store.system import SYSTEM

if TYPE_CHECKING:
    from svc.operations.node import Node

_LABEL = re.compile(rb'[{,](database|table|path)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_OF_TABLES = ("cache-hit", "cache-resolution")  # metrics whose path is the name of a table


class VisibleNames:
    """Of one reader, as the definitions and rights are now. Not for super users."""

    def __init__(self, node: Node, user: User | None) -> None:
        self._tables = {
            (database.name, table.name)
            for database in list(node.store.databases.values())
            if database.name != SYSTEM
            for table in list(database.tables.values())
            if rights(user, table).any
        }
        self._databases = {database for database, _ in self._tables}
        self._names = {table for _, table in self._tables}
        self._hidden_paths = set()
        for registration in node.resources.values():
            table = getattr(registration.resource, "table", None)
            if table is not None and (table.database.name, table.name) not in self._tables:
                self._hidden_paths.add(registration.path)

    def lines(self, text: bytes) -> bytes:
        """The lines of an exposition without those of series that name what is hidden. `text`: whole lines."""
        return b"\n".join([line for line in text.split(b"\n") if line[:1] == b"#" or self._shows(line)])

    def _shows(self, line: bytes) -> bool:
        labels = {name.decode(): _ESCAPED.sub(_unescaped, value.decode()) for name, value in _LABEL.findall(line)}
        database, table, path = labels.get("database"), labels.get("table"), labels.get("path")
        if database is not None:
            is_other = database == OTHER and table in (None, OTHER)
            return is_other or (database in self._databases if table is None else (database, table) in self._tables)
        return (table is None or table in self._names or table == OTHER) and path not in self._hidden_paths

    def condition(self, metric: str) -> Filter | None:
        """What rows of `svc_analytics` have to fulfil besides, None: nothing."""
        if metric == "table-size":
            return _any(Group("and", (_equals("database", database), _equals("table", table))) for database, table in sorted(self._tables))
        if metric == "database-size":
            return _any(_equals("database", database) for database in sorted(self._databases))
        if metric in _OF_TABLES:
            return _any(_equals("path", name) for name in sorted(self._names))
        hidden = tuple(Condition(("path",), Comparator.NOT_EQUAL, path) for path in sorted(self._hidden_paths))
        return Group("and", hidden) if len(hidden) > 1 else hidden[0] if hidden else None


def _equals(attribute: str, value: str) -> Filter:
    return Condition((attribute,), Comparator.EQUALS, value)


def _any(conditions: Iterator[Filter]) -> Filter:
    found = tuple(conditions)
    if len(found) > 1:
        return Group("or", found)
    return found[0] if found else Condition(("id",), Comparator.LESS_THAN, 0)  # of no row


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]
