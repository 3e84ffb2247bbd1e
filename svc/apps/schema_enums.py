"""The enum types of an application's schema files (spec: schema-and-store §5.2)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from svc.apps.schema_declaration import SchemaFault
from svc.apps.schema_directives import MAX_NAME
from svc.apps.schema_syntax import EnumDeclaration, SourcePosition
from svc.store.schema import SCALAR_TYPES, Enumeration
from svc.store.values.conversion import printable

MAX_VALUES = 1000  # of one type: a value is looked for among them, and documents show all of them


class EnumTypes:
    """`valid`: those that attributes can have, by name. `rejected`: the names of those that have errors."""

    def __init__(self, faults: list[SchemaFault]) -> None:
        self.valid: dict[str, Enumeration] = {}
        self.rejected: set[str] = set()
        self._faults = faults
        self._declared: list[tuple[str, EnumDeclaration]] = []

    def add(self, path: str, declaration: EnumDeclaration) -> None:
        self._declared.append((path, declaration))

    def read(self, types: Collection[str]) -> None:
        """Once all are known. `types`: the names of the other types of the application."""
        for path, declaration in self._declared:
            faults = [SchemaFault(path, message, position, True) for message, position in _faults_of(declaration, types)]
            found = Enumeration(declaration.name, declaration.values, declaration.description)
            known = self.valid.get(declaration.name)
            if known is not None and known.values != found.values:
                faults.append(
                    SchemaFault(path, f"the enum {printable(found.name)} is declared differently elsewhere", declaration.position, True)
                )
            for directive in declaration.directives:
                message = f"the directive @{directive.name} has no effect on an enum"
                self._faults.append(SchemaFault(path, message, directive.position, False))
            if faults:
                self._faults += faults
                self.rejected.add(declaration.name)
            else:
                self.valid.setdefault(found.name, found)
        for name in self.rejected:
            self.valid.pop(name, None)


def _faults_of(declaration: EnumDeclaration, types: Collection[str]) -> Iterator[tuple[str, SourcePosition]]:
    name, position = declaration.name, declaration.position
    if name in SCALAR_TYPES:
        yield f"{name} is a built-in type and cannot be declared", position
    if name in types:
        yield f"{printable(name)} is declared as a type and as an enum", position
    if len(name) > MAX_NAME:
        yield f"{printable(name)} is longer than {MAX_NAME} characters", position
    if not declaration.values:
        yield f"the enum {printable(name)} has no values", position
    if len(declaration.values) > MAX_VALUES:
        yield f"the enum {printable(name)} has more than {MAX_VALUES} values", position
    seen: set[str] = set()
    for value, where in zip(declaration.values, declaration.positions, strict=True):
        if value in seen:
            yield f"{printable(name)}.{printable(value)} is declared twice", where
        elif len(value) > MAX_NAME:
            yield f"{printable(name)}.{printable(value)} is longer than {MAX_NAME} characters", where
        seen.add(value)
