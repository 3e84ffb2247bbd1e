"""The names of resources and types in GraphQL (spec: graphql §4, §8.2).

A field is called as its resource is, a type as the resource that answers with it. All types share one set of names: those of GraphQL, of resources, of other
tables, of embedded types. Which name a type gets does not depend on who asks, so `__typename` is the same for all.
"""

from __future__ import annotations

import re
from typing import Any

from svc.auth.roles import Role
from svc.auth.users import User
from svc.query.tables import AnyTable
from svc.resources import Registration, Resources, TableResource
from svc.store.schema import DEFAULT_DATABASE, SCALAR_TYPES, Enumeration, Structure, enums_of

PROTOCOL = "graphql"
QUERY_TYPE, MUTATION_TYPE, SUBSCRIPTION_TYPE = "Query", "Mutation", "Subscription"
_FOREIGN = re.compile(r"[^_0-9A-Za-z]")
_NAME = re.compile(r"[_A-Za-z][_0-9A-Za-z]*").fullmatch
_RESERVED = frozenset((*SCALAR_TYPES, QUERY_TYPE, MUTATION_TYPE, SUBSCRIPTION_TYPE))


def is_name(name: str) -> bool:
    """Whether GraphQL has a place for it: names that begin with `__` are its own."""
    return _NAME(name) is not None and not name.startswith("__")


def graphql_name(path: str) -> str | None:
    """The GraphQL name of an address: invalid characters become `_`. None if the result is not a valid name.

    >>> graphql_name("shop/Product"), graphql_name("7up")
    ('shop_Product', None)
    """
    name = _FOREIGN.sub("_", path)
    return name if is_name(name) else None


class Names:
    """The resources that are exported to GraphQL, and the types, by name. Made again when the registry or a definition has changed."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._version = -1
        self._by_name: dict[str, Registration] = {}
        self._name_of: dict[int, str] = {}  # of the type, by the id of a registration, which `_by_name` keeps
        self._databases: list[Any] = []  # of the exported tables
        self._generations: list[int] = []
        self._types: dict[tuple[int, str], tuple[AnyTable, str]] = {}  # by the id of the table, and the name of a structure or enum, or ""

    @property
    def state(self) -> tuple[int, ...]:
        """Is another one when a resource or a definition has changed."""
        if self._version != self._resources.version:
            self._make()
        return self._version, *[database.generation for database in self._databases]

    def role_of(self, user: User | None) -> Role | None:
        """The role by whose rights a caller sees them."""
        if self._version != self._resources.version:
            self._make()
        if user is not None and user.role is not None:
            return user.role
        return self._databases[0].store.anonymous_role() if self._databases else None

    def find(self, name: str) -> Registration | None:
        """The resource of a field at the top level."""
        if self._version != self._resources.version:
            self._make()
        return self._by_name.get(name)

    def all(self) -> dict[str, Registration]:
        """All of them, by name."""
        if self._version != self._resources.version:
            self._make()
        return self._by_name

    def name_of(self, registration: Registration) -> str:
        """The name of the type of what a resource answers with."""
        self._refresh()
        return self._name_of.get(id(registration), registration.path)

    def type_name(self, table: AnyTable, structure: str = "") -> str:
        """The name of the type of a table's records, or of a type or an enum that is used in them."""
        self._refresh()
        known = self._types.get((id(table), structure))
        return known[1] if known is not None else graphql_name(structure or table.name) or "_"

    def _refresh(self) -> None:
        if self._version != self._resources.version or self._generations != [database.generation for database in self._databases]:
            self._make()

    def _make(self) -> None:
        self._version = self._resources.version
        self._by_name = _named(self._resources)
        tables = {
            id(found.resource.table): found.resource.table for found in self._by_name.values() if issubclass(found.resource, TableResource)
        }
        databases = {table.database.name: table.database for table in tables.values()}
        self._databases = [databases[name] for name in sorted(databases, key=lambda name: (name != DEFAULT_DATABASE, name))]
        self._generations = [database.generation for database in self._databases]
        self._name_types()

    def _name_types(self) -> None:
        taken = set(_RESERVED)
        types: dict[tuple[int, str], tuple[AnyTable, str]] = {}
        name_of: dict[int, str] = {}
        own: list[tuple[str, Registration, Any]] = []
        for name, registration in self._by_name.items():
            resource = registration.resource
            if issubclass(resource, TableResource) and not hasattr(resource, "application"):
                own.append((name, registration, resource.table))
            else:
                name_of[id(registration)] = _unique(name, "", taken)
        for name, registration, table in sorted(own, key=lambda each: (each[0] != each[2].name, each[0])):
            place = id(table), ""
            if place not in types:
                types[place] = table, _unique(name, table.database.name, taken)
            name_of[id(registration)] = types[place][1]
        structures: dict[tuple[str, Structure], str] = {}
        enums: dict[tuple[str, Enumeration], str] = {}
        for database in self._databases:
            tables = sorted(database.tables.values(), key=lambda table: table.name)
            for table in tables:
                if (id(table), "") not in types:
                    types[id(table), ""] = table, _unique(table.name, database.name, taken)
            for table in tables:
                for structure in table.definition.structures:
                    # One type that several tables use has one name.
                    identity = (database.name, structure)
                    if identity not in structures:
                        structures[identity] = _unique(structure.name, database.name, taken)
                    types[id(table), structure.name] = table, structures[identity]
                for enum in enums_of(table.definition):
                    named = (database.name, enum)
                    if named not in enums:
                        enums[named] = _unique(enum.name, database.name, taken)
                    types[id(table), enum.name] = table, enums[named]
        self._types, self._name_of = types, name_of  # at once: plans are made on other threads, too


def _named(resources: Resources) -> dict[str, Registration]:
    """What is exported, by name. Of two that would have one name both are left out; one whose address is the name has it."""
    exact: dict[str, Registration] = {}
    found: dict[str, list[Registration]] = {}
    for registration in resources.values():
        if registration.pattern is not None or not registration.visible(PROTOCOL):
            continue
        name = graphql_name(registration.path)
        if name is None:
            continue
        if name == registration.path:
            exact[name] = registration
        else:
            found.setdefault(name, []).append(registration)
    for name, those in found.items():
        if len(those) == 1 and name not in exact:
            exact[name] = those[0]
    return dict(sorted(exact.items()))


def _unique(name: str, database: str, taken: set[str]) -> str:
    """A name that is not taken yet: with the database before it, or a number behind it, if it has to be."""
    base = _FOREIGN.sub("_", name)
    base = base if is_name(base) else "T" + base.lstrip("_")
    candidate, number = base, 1
    if candidate in taken and database:
        candidate = base = _FOREIGN.sub("_", f"{database}_{base}") if is_name(_FOREIGN.sub("_", database)) else base
    while candidate in taken:
        number += 1
        candidate = f"{base}_{number}"
    taken.add(candidate)
    return candidate
