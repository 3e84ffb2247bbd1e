"""The names of resources and types in GraphQL (spec: graphql §4)."""

from __future__ import annotations

import re

from svc.query.tables import AnyTable
from svc.resources import Registration, Resources, TableResource

PROTOCOL = "graphql"
_FOREIGN = re.compile(r"[^_0-9A-Za-z]")
_NAME = re.compile(r"[_A-Za-z][_0-9A-Za-z]*").fullmatch


def graphql_name(path: str) -> str | None:
    """The name of what is registered at an address: each character that a name cannot have is `_`. None if that is no name.

    >>> graphql_name("shop/Product"), graphql_name("7up")
    ('shop_Product', None)
    """
    name = _FOREIGN.sub("_", path)
    return name if _NAME(name) is not None and not name.startswith("__") else None


class Names:
    """The resources that are exported to GraphQL, by name. Made again when the registry has changed."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._version = -1
        self._by_name: dict[str, Registration] = {}
        self._name_of: dict[int, str] = {}  # by the id of a registration, which `_by_name` keeps
        self._types: dict[int, tuple[AnyTable, str]] = {}

    @property
    def version(self) -> int:
        return self._resources.version

    def find(self, name: str) -> Registration | None:
        if self._version != self._resources.version:
            self._make()
        return self._by_name.get(name)

    def name_of(self, registration: Registration) -> str:
        return self._name_of.get(id(registration), registration.path)

    def all(self) -> dict[str, Registration]:
        """All of them, by name."""
        if self._version != self._resources.version:
            self._make()
        return self._by_name

    def type_name(self, table: AnyTable) -> str:
        """The name of the type of a table's records."""
        if self._version != self._resources.version:
            self._make()
        known = self._types.get(id(table))
        if known is None:
            known = self._types[id(table)] = table, _FOREIGN.sub("_", table.name)
        return known[1]

    def _make(self) -> None:
        self._version = self._resources.version
        found: dict[str, list[Registration]] = {}
        self._by_name = {}
        for registration in self._resources.values():
            if registration.pattern is not None or not registration.visible(PROTOCOL):
                continue
            name = graphql_name(registration.path)
            if name is None:
                continue
            if name == registration.path:
                self._by_name[name] = registration
            else:
                found.setdefault(name, []).append(registration)
        for name, those in found.items():
            if len(those) == 1 and name not in self._by_name:
                self._by_name[name] = those[0]
        self._name_of = {id(registration): name for name, registration in self._by_name.items()}
        self._types = {}
        for name, registration in self._by_name.items():
            resource = registration.resource
            if issubclass(resource, TableResource) and not hasattr(resource, "application"):
                self._types.setdefault(id(resource.table), (resource.table, name))
