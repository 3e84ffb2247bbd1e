"""Caches of what is made from the definitions of tables and is valid as long as these do not change: plans, compiled functions."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

from svc.query.tables import AnyTable, is_volatile
from svc.store.schema import TableDefinition

MOST = 512  # entries, after which a cache is cleared
MOST_PARTS = 20_000  # of all entries


class Definitions:
    """The definitions that a plan for `table` may depend on: its own and, if it has relationships, all of its database, with the tables themselves:
    one that was dropped and made again is another."""

    __slots__ = ("_is_related", "_parts", "_table", "_version")

    def __init__(self, table: AnyTable) -> None:
        self._table = table
        self._is_related = any(attribute.relationship is not None for attribute in table.attributes.values())
        self._parts = self._current()
        self._version = table.database.tables_version

    def hold(self, table: AnyTable) -> bool:
        """Whether they are still those of `table`."""
        if self._table is not table:
            return False
        version = table.database.tables_version
        if version != self._version:  # one of the tables of the database has changed
            if self._parts != self._current():
                return False
            self._version = version
        return True

    def differ_in_rules(self, table: AnyTable) -> bool:
        """Whether they are still those of `table`, but for rules on rows."""
        return self._table is table and _without_rules(self._parts) == _without_rules(self._current())

    def _current(self) -> list[object]:
        table = self._table
        if not self._is_related:
            return [table.definition, table.computed]
        return [part for other in list(table.database.tables.values()) for part in (other, other.definition, other.computed)]


def _without_rules(parts: list[object]) -> list[object]:
    return [replace(part, allow=()) if isinstance(part, TableDefinition) else part for part in parts]


class DefinitionCache:
    """Functions made for a table, by table and key."""

    __slots__ = ("_entries", "_parts")

    def __init__(self) -> None:
        self._entries: dict[tuple[int, Hashable], tuple[Definitions, Any]] = {}
        self._parts = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, table: AnyTable, key: Hashable, make: Callable[[], Any], parts: int = 1) -> Any:
        """The cached result of `make` for this key, as long as the definitions are the same; else calls `make`. `parts`: the size of what it makes."""
        if is_volatile(table):
            return make()
        place = (id(table), key)
        found = self._entries.get(place)
        if found is not None and found[0].hold(table):
            return found[1]
        made = make()
        self._parts += parts
        if len(self._entries) >= MOST or self._parts > MOST_PARTS:
            self._entries.clear()
            self._parts = parts
        self._entries[place] = (Definitions(table), made)
        return made
