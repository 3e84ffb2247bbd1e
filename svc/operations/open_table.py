"""A table whose records have properties of every name: rows of analytics, where each metric has fields of its own (spec: analytics §6, §8).

Conditions and sort keys may name what the definition does not declare; that is untyped and in no index.
"""

from __future__ import annotations

from typing import Any

from svc.store import Table
from svc.store.schema import Attribute


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
