"""The names of schemas and operations (spec: http §10.2): those that generated clients call their types and functions by.

A schema is called as the type of the schema file, an operation by its verb and that type: `Product`, `listProducts`, `getProduct`. Which name is given does
not depend on who asks, so clients that were generated for two roles fit together; nor on the order in which applications were loaded. Names that differ
in case or punctuation only are the same to many generators, so they count as taken here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from svc.resources import Registration, TableResource
from svc.rest.openapi.access import tables_of
from svc.store import Table
from svc.store.schema import DEFAULT_DATABASE, Enumeration, Structure, enums_of

_FOREIGN = re.compile(r"[^A-Za-z0-9_]+")
_WORD = re.compile(r"[A-Za-z0-9]+")
_SIBILANTS = ("s", "x", "z", "ch", "sh")

TABLE_SUFFIXES = ("", "Create", "Keyed", "Part", "Replace", "Update")
STRUCTURE_SUFFIXES = ("", "Part")
STEP_TABLES = 64
RESERVED = ("Problem", "Blob", "Increment")


@dataclass(frozen=True, slots=True)
class OperationNames:
    """What follows the verb in the names of the operations at an address."""

    one: str
    many: str


def plural(word: str) -> str:
    """English, by the usual rules; a name that is no English word is still unlike its singular.

    >>> plural("Product"), plural("Category"), plural("Box"), plural("Day")
    ('Products', 'Categories', 'Boxes', 'Days')
    """
    lower = word.lower()
    if lower.endswith(_SIBILANTS):
        return word + "es"
    if lower.endswith("y") and lower[-2:-1] not in ("", *"aeiou"):
        return word[:-1] + "ies"
    return word + "s"


def words(path: str) -> str:
    """An address as a name.

    >>> words("all/kinds"), words("shop/:city/*rest"), words("7up")
    ('AllKinds', 'ShopCityRest', '_7up')
    """
    name = "".join([word[:1].upper() + word[1:] for word in _WORD.findall(path)])
    return f"_{name}" if name[:1].isdigit() else name or "Root"


class Names:
    """Of all resources that are exported, and of the tables that their relationships lead to."""

    def __init__(self) -> None:
        """Names are given by `steps`."""
        self._taken = {name.lower() for name in RESERVED}
        self._tables: dict[Table, str] = {}
        self._structures: dict[tuple[str, Structure], str] = {}
        self._enums: dict[tuple[str, Enumeration], str] = {}
        self._operations: dict[int, OperationNames] = {}

    def steps(self, registrations: Sequence[Registration]) -> Iterator[None]:
        """Give the names, in steps that are short where there are many tables."""
        tables = sorted(tables_of(registrations), key=lambda table: (*_rank(table), table.name))
        for number, table in enumerate(tables, 1):
            name = table.definition.type_name or table.name
            self._tables[table] = self._name(name, table.database.name, TABLE_SUFFIXES)
            if not number % STEP_TABLES:
                yield
        for number, table in enumerate(tables, 1):
            if not number % STEP_TABLES:
                yield
            for structure in table.definition.structures:
                identity = table.database.name, structure  # one type that several tables use is one schema
                if identity not in self._structures:
                    self._structures[identity] = self._name(structure.name, table.database.name, STRUCTURE_SUFFIXES)
            for enum in enums_of(table.definition):
                if (table.database.name, enum) not in self._enums:
                    self._enums[table.database.name, enum] = self._name(enum.name, table.database.name, ("",))
        yield
        yield from self._name_operations(registrations)

    def table(self, table: Table) -> str:
        return self._tables[table]

    def structure(self, table: Table, structure: Structure) -> str:
        return self._structures[table.database.name, structure]

    def enums(self, table: Table) -> dict[str, str]:
        """Name of each enum type -> name of its schema."""
        return {enum.name: self._enums[table.database.name, enum] for enum in enums_of(table.definition)}

    def operations(self, registration: Registration) -> OperationNames:
        return self._operations[id(registration)]

    def _name_operations(self, registrations: Iterable[Registration]) -> Iterator[None]:
        taken: set[str] = set()
        others: list[Registration] = []
        named: set[Table] = set()
        for number, registration in enumerate(sorted(registrations, key=lambda each: each.path), 1):
            if not number % STEP_TABLES:
                yield
            resource = registration.resource
            if issubclass(resource, TableResource) and not hasattr(resource, "application") and resource.table not in named:
                named.add(resource.table)
                self._operations[id(registration)] = _operation_names((self._tables[resource.table], words(registration.path)), taken)
            else:
                others.append(registration)
        for registration in others:
            self._operations[id(registration)] = _operation_names((words(registration.path),), taken)

    def _name(self, name: str, database: str, suffixes: tuple[str, ...]) -> str:
        """That of the type; with the database before it where another one has it."""
        base = _FOREIGN.sub("_", name) or "_"
        longer = words(database) + base[:1].upper() + base[1:]
        number = 1
        found = base
        while any(_folded(found + suffix) in self._taken for suffix in suffixes):
            found = longer if number == 1 else f"{longer}{number}"
            number += 1
        self._taken.update(_folded(found + suffix) for suffix in suffixes)
        return found


def _operation_names(candidates: tuple[str, ...], taken: set[str]) -> OperationNames:
    """Of the first candidate that no other resource has, or of the last with a number."""
    for candidate in candidates:
        one = candidate[:1].upper() + candidate[1:]
        if taken.isdisjoint((_folded(one), _folded(plural(one)))):
            break
    number = 1
    base = one
    while not taken.isdisjoint((_folded(one), _folded(plural(one)))):
        number += 1
        one = f"{base}{number}"
    taken |= {_folded(one), _folded(plural(one))}
    return OperationNames(one, plural(one))


def _rank(table: Table) -> tuple[bool, str]:
    return table.database.name != DEFAULT_DATABASE, table.database.name


def _folded(name: str) -> str:
    return name.replace("_", "").lower()
