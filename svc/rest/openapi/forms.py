"""The two documents: of all that the server takes and answers, and for generated clients (spec: http §10.2, §10.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from svc.content.registry import ContentTypes
from svc.resources import Registration
from svc.rest.openapi.access import TableAccess
from svc.rest.openapi.client_paths import QUERY_PARAMETERS, ClientResourcePaths, ClientTablePaths
from svc.rest.openapi.client_schemas import SHARED as CLIENT_SHARED
from svc.rest.openapi.client_schemas import ClientSchemas
from svc.rest.openapi.names import OperationNames
from svc.rest.openapi.paths import ResourcePaths, TablePaths
from svc.rest.openapi.responses import PARAMETERS, PROBLEM_SCHEMA, MediaTypes
from svc.rest.openapi.schemas import SHARED, Schema, TableSchemas


class Form(Protocol):
    """What makes the parts of one document. `types`: of bodies, answers and errors. `shared`, `parameters`: the components that there are
    whatever the tables are."""

    types: MediaTypes
    shared: Mapping[str, Schema]
    parameters: Mapping[str, Schema]

    def resource_paths(self, registration: Registration, verbs: frozenset[str], names: OperationNames) -> dict[str, Schema]:
        """Of a resource without a table."""

    def table_paths(
        self,
        registration: Registration,
        verbs: frozenset[str],
        names: OperationNames,
        access: TableAccess,
        name: str,
        types: Mapping[str, str],
    ) -> dict[str, Schema]:
        """`name`: of the schema of the table. `types`: enum type -> name of its schema."""

    def schemas(
        self, access: TableAccess, name: str, names: Mapping[str, str], verbs: frozenset[str], *, is_opened: bool
    ) -> Iterable[tuple[str, Schema]]:
        """(name, schema) of all that are of a table. `names`: of what its attributes refer to. `verbs`: see `ClientSchemas`."""


class WholeForm:
    """All types of bodies and answers."""

    def __init__(self, types: ContentTypes) -> None:
        self.types = MediaTypes.of(types)
        self.shared: Mapping[str, Schema] = {"Problem": PROBLEM_SCHEMA, **SHARED}
        self.parameters: Mapping[str, Schema] = PARAMETERS

    def resource_paths(self, registration: Registration, verbs: frozenset[str], names: OperationNames) -> dict[str, Schema]:
        return ResourcePaths(registration, verbs, names, self.types).paths()

    def table_paths(
        self,
        registration: Registration,
        verbs: frozenset[str],
        names: OperationNames,
        access: TableAccess,
        name: str,
        types: Mapping[str, str],
    ) -> dict[str, Schema]:
        return TablePaths(registration, verbs, names, self.types, access, name).paths()

    def schemas(
        self, access: TableAccess, name: str, names: Mapping[str, str], verbs: frozenset[str], *, is_opened: bool
    ) -> Iterable[tuple[str, Schema]]:
        return TableSchemas(access, name, names, is_opened=is_opened).components()


class ClientForm:
    """JSON, and one type for each body."""

    def __init__(self, types: ContentTypes) -> None:
        self.types = MediaTypes(("application/json",), ("application/json",), ("application/problem+json",))
        self.shared: Mapping[str, Schema] = {"Problem": PROBLEM_SCHEMA, **CLIENT_SHARED}
        self.parameters: Mapping[str, Schema] = {**PARAMETERS, **QUERY_PARAMETERS}
        self._taken: set[str] = set()

    def resource_paths(self, registration: Registration, verbs: frozenset[str], names: OperationNames) -> dict[str, Schema]:
        return ClientResourcePaths(registration, verbs, names).paths()

    def table_paths(
        self,
        registration: Registration,
        verbs: frozenset[str],
        names: OperationNames,
        access: TableAccess,
        name: str,
        types: Mapping[str, str],
    ) -> dict[str, Schema]:
        return ClientTablePaths(registration, verbs, names, access, name, types, self._taken).paths()

    def schemas(
        self, access: TableAccess, name: str, names: Mapping[str, str], verbs: frozenset[str], *, is_opened: bool
    ) -> Iterable[tuple[str, Schema]]:
        return ClientSchemas(access, name, names, verbs=verbs, is_opened=is_opened).components()


FORMS: Mapping[str, Callable[[ContentTypes], Form]] = {"": WholeForm, "json": ClientForm}
"""By the query of the address."""
