"""The OpenAPI document of a server (spec: http §10.2), built table by table so that a large schema does not hold the loop."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from svc.content.registry import ContentTypes
from svc.resources import Registration, Resources, TableResource
from svc.rest.openapi.paths import ResourcePaths, TablePaths
from svc.rest.openapi.responses import HEADERS, PARAMETERS, PROBLEM_SCHEMA, MediaTypes, problem_responses
from svc.rest.openapi.schemas import SHARED, Schema, TableSchemas
from svc.store import Table
from svc.store.schema import Structure, TableDefinition

OPENAPI = "3.0.3"
TITLE = "svc HTTP REST interface"
SECURITY: Schema = {
    "basicAuth": {"type": "http", "scheme": "basic"},
    "bearerAuth": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]")

_encode = msgspec.json.Encoder().encode


def exported(resources: Resources) -> list[Registration]:
    """What answers over REST and is to be shown, by address."""
    found = [r for r in resources.values() if r.visible("rest") and not r.fault]
    found = [r for r in found if not (issubclass(r.resource, TableResource) and r.resource.table.definition.hidden)]
    return sorted(found, key=lambda registration: registration.path)


class Builder:
    """Makes the members of `paths` and `schemas`, those of one table at a time."""

    def __init__(self, resources: Resources, types: MediaTypes) -> None:
        self.described: list[tuple[Table, TableDefinition]] = []
        self._registrations = exported(resources)
        self._types = types
        self._names: dict[Table, str] = {}  # of tables whose schemas are made or will be
        self._waiting: list[Table] = []
        self._taken: set[str] = {"problem", *map(str.lower, SHARED)}
        self._structures: dict[tuple[str, Structure], str] = {}

    def paths(self) -> Iterator[dict[str, Schema]]:
        """Those of each resource. To be exhausted before `schemas` is asked for."""
        for registration in self._registrations:  # all, so that a table that is exported has its own name
            if issubclass(registration.resource, TableResource):
                self._name_of(registration.resource.table)
        for registration in self._registrations:
            resource, path = registration.resource, registration.path
            if issubclass(resource, TableResource):
                name, _ = self._schemas_of(resource.table)
                yield TablePaths(resource, path, self._types, name).paths()
            else:
                yield ResourcePaths(resource, path, self._types).paths()

    def schemas(self) -> Iterator[dict[str, Schema]]:
        """Those of each table: the exported ones, and what they lead to by their relationships."""
        yield {"Problem": PROBLEM_SCHEMA, **SHARED}
        given: set[str] = set()  # two tables may have a type of nested objects in common
        done = 0
        while done < len(self._waiting):  # related tables are added at its end
            table = self._waiting[done]
            self.described.append((table, table.definition))
            some = {name: schema for name, schema in self._schemas_of(table)[1].components() if name not in given}
            given.update(some)
            yield some
            done += 1

    def _schemas_of(self, table: Table) -> tuple[str, TableSchemas]:
        definition = table.definition
        names: dict[str, str] = {}
        for structure in definition.structures:
            # One type that several tables use is one component.
            identity = (table.database.name, structure)
            if identity not in self._structures:
                self._structures[identity] = self._unique(structure.name, table.database.name)
            names[structure.name] = self._structures[identity]
        for attribute in definition.attributes:
            if attribute.relationship is not None and not attribute.hidden:
                related = table.database.tables.get(attribute.relationship.table)
                if related is not None and not related.definition.hidden:
                    names[attribute.type] = self._name_of(related)
        name = self._name_of(table)
        return name, TableSchemas(definition, name, names)

    def _name_of(self, table: Table) -> str:
        name = self._names.get(table)
        if name is None:
            name = self._names[table] = self._unique(table.definition.type_name or table.name, table.database.name)
            self._waiting.append(table)
        return name

    def _unique(self, name: str, database: str) -> str:
        """A name for a component: that of the type, with the database before it where two have the same."""
        base = _NOT_IN_NAMES.sub("_", name) or "_"
        candidates = [base, _NOT_IN_NAMES.sub("_", f"{database}.{name}")]
        number = 1
        while candidates[0].lower() in self._taken:
            candidates.pop(0)
            if not candidates:
                number += 1
                candidates.append(f"{base}.{number}")
        self._taken.add(candidates[0].lower())
        return candidates[0]


def _document(server_url: str, version: str, types: MediaTypes) -> dict[str, Any]:
    """The document without what depends on the resources, which is at its end."""
    return {
        "openapi": OPENAPI,
        "info": {"title": TITLE, "version": version},
        "servers": [{"url": server_url}],
        "security": [{"basicAuth": []}, {"bearerAuth": []}],
        "components": {
            "securitySchemes": SECURITY,
            "parameters": PARAMETERS,
            "headers": HEADERS,
            "responses": problem_responses(types),
            "schemas": {},
        },
        "paths": {},
    }


def openapi_document(resources: Resources, server_url: str, version: str, content_types: ContentTypes) -> dict[str, Any]:
    """The whole document at once."""
    types = MediaTypes.of(content_types)
    builder = Builder(resources, types)
    document = _document(server_url, version, types)
    for paths in builder.paths():
        document["paths"] |= paths
    for schemas in builder.schemas():
        document["components"]["schemas"] |= schemas
    return document


class EncodedDocument:
    """The same as bytes, made in steps: iterate until the end, each step is a table. The address of the server is put in afterwards."""

    def __init__(self, resources: Resources, version: str, content_types: ContentTypes) -> None:
        self._resources = resources
        self._version = version
        self._types = MediaTypes.of(content_types)
        self._before = self._after = b""
        self._described: list[tuple[Table, TableDefinition]] = []

    def __iter__(self) -> Iterator[None]:
        builder = Builder(self._resources, self._types)
        paths: list[bytes] = []
        for some in builder.paths():
            paths += (b",", _encode(some)[1:-1])
            yield
        schemas: list[bytes] = []
        for some in builder.schemas():
            schemas += (b",", _encode(some)[1:-1])
            yield
        self._described = builder.described
        frame = _encode(_document("", self._version, self._types))
        self._before, _, rest = frame.partition(b'""')  # the address is the only empty text
        before_schemas, _, rest = rest.partition(b'"schemas":{}')
        before_paths = rest.removesuffix(b"}}")
        self._after = b"".join(
            [before_schemas, b'"schemas":{', *schemas[1:], b"}", before_paths, *paths[1:], b"}}"]
        )  # one copy: it may be long

    @property
    def is_current(self) -> bool:
        """Whether the tables are still defined as they were. Definitions are replaced, never changed."""
        return all(table.definition is definition for table, definition in self._described)

    def body(self, server_url: str) -> bytes:
        return b"".join([self._before, _encode(server_url), self._after])
