"""The OpenAPI document of a server (spec: http §10.2), built table by table so that a large schema does not hold the loop."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import msgspec

from svc.auth.users import User
from svc.content.registry import ContentTypes
from svc.messages import HeaderPairs, Response
from svc.resources import Registration, Resources, TableResource
from svc.rest.openapi.access import View, related_of
from svc.rest.openapi.forms import FORMS, Form
from svc.rest.openapi.names import Names
from svc.rest.openapi.responses import HEADERS, problem_responses
from svc.rest.openapi.schemas import Schema
from svc.store import Table

OPENAPI = "3.0.3"
TITLE = "svc HTTP REST interface"
SECURITY: Schema = {
    "basicAuth": {"type": "http", "scheme": "basic"},
    "bearerAuth": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
}

AT_ONCE = 1 << 18  # bytes of a document that is sent as a whole
_TAG_LENGTH = 32  # characters

_encode = msgspec.json.Encoder().encode


def exported(resources: Resources) -> list[Registration]:
    """What answers over REST and is to be shown, by address."""
    found = [r for r in resources.values() if r.visible("rest") and not r.fault]
    found = [r for r in found if not (issubclass(r.resource, TableResource) and r.resource.table.definition.hidden)]
    return sorted(found, key=lambda registration: registration.path)


class Builder:
    """Makes the members of `paths` and `schemas`, those of one table at a time."""

    def __init__(self, resources: Resources, form: Form, view: View) -> None:
        self._registrations = exported(resources)
        self._form = form
        self._view = view
        self._names = Names()
        self._waiting: dict[Table, frozenset[str]] = {}  # tables whose schemas are made or will be, with the verbs that need them
        self._opened: set[Table] = set()

    def paths(self) -> Iterator[dict[str, Schema]]:
        """Those of each resource, after some that are empty, while names are found. To be exhausted before `schemas` is asked for."""
        for _ in self._names.steps(self._registrations):
            yield {}
        for registration in self._registrations:
            verbs = self._view.verbs(registration)
            if verbs:
                yield self._paths_of(registration, verbs)

    def _paths_of(self, registration: Registration, verbs: frozenset[str]) -> dict[str, Schema]:
        resource, names = registration.resource, self._names.operations(registration)
        if not issubclass(resource, TableResource):
            return self._form.resource_paths(registration, verbs, names)
        table = resource.table
        self._waiting[table] = self._waiting.get(table, frozenset()) | verbs
        if resource.own_rights:
            self._opened.add(table)
        access, name = self._view.table(table), self._names.table(table)
        return self._form.table_paths(registration, verbs, names, access, name, self._names.enums(table))

    def schemas(self) -> Iterator[dict[str, Schema]]:
        """Those of each table: the exported ones, and what they lead to by their relationships."""
        yield dict(self._form.shared)
        given: set[str] = set()  # two tables may have a type of nested objects in common
        waiting = list(self._waiting)
        for table in waiting:  # related tables are added at its end
            own = self._form.schemas(
                self._view.table(table),
                self._names.table(table),
                self._names_in(table, waiting),
                self._waiting[table],
                is_opened=table in self._opened,
            )
            some = {name: schema for name, schema in own if name not in given}
            given.update(some)
            yield some

    def _names_in(self, table: Table, waiting: list[Table]) -> dict[str, str]:
        """The names of the schemas that those of the table refer to. Related tables are added to `waiting`."""
        names = {structure.name: self._names.structure(table, structure) for structure in table.definition.structures}
        names |= self._names.enums(table)
        for attribute in self._view.table(table).readable:
            related = related_of(table, attribute)
            if related is not None and not related.definition.hidden:
                names[attribute.type] = self._names.table(related)
                if related not in self._waiting:
                    self._waiting[related] = frozenset()
                    waiting.append(related)
        return names


def _document(server_url: str, version: str, form: Form) -> dict[str, Any]:
    """The document without what depends on the resources, which is at its end."""
    return {
        "openapi": OPENAPI,
        "info": {"title": TITLE, "version": version},
        "servers": [{"url": server_url}],
        "security": [{"basicAuth": []}, {"bearerAuth": []}],
        "components": {
            "securitySchemes": SECURITY,
            "parameters": form.parameters,
            "headers": HEADERS,
            "responses": problem_responses(form.types),
            "schemas": {},
        },
        "paths": {},
    }


def openapi_document(
    resources: Resources, server_url: str, version: str, content_types: ContentTypes, user: User | None, form: str = ""
) -> dict[str, Any]:
    """The whole document at once, for `user`. `form`: one of `FORMS`."""
    made = FORMS[form](content_types)
    builder = Builder(resources, made, View(user))
    document = _document(server_url, version, made)
    for paths in builder.paths():
        document["paths"] |= paths
    for schemas in builder.schemas():
        document["components"]["schemas"] |= schemas
    return document


class EncodedDocument:
    """The same as bytes, made in steps: iterate until the end, each step is a table. The address of the server is put in afterwards."""

    def __init__(self, resources: Resources, version: str, content_types: ContentTypes, user: User | None, form: str = "") -> None:
        self._resources = resources
        self._version = version
        self._form = FORMS[form](content_types)
        self._view = View(user)
        self._before = b""  # up to the address of the server
        self._after: list[bytes] = []
        self._length = 0
        self._digest = sha256()
        self.has_paths = False

    def __iter__(self) -> Iterator[None]:
        builder = Builder(self._resources, self._form, self._view)
        paths: list[bytes] = []
        for some in builder.paths():
            self._add(paths, some)
            yield
        schemas: list[bytes] = []
        for some in builder.schemas():
            self._add(schemas, some)
            yield
        self.has_paths = bool(paths)
        frame = _encode(_document("", self._version, self._form))
        self._digest.update(frame)
        self._before, _, rest = frame.partition(b'""')  # the address is the only empty text
        before_schemas, _, rest = rest.partition(b'"schemas":{}')
        before_paths = rest.removesuffix(b"}}")
        self._after = [before_schemas, b'"schemas":{', *schemas, b"}", before_paths, *paths, b"}}"]
        self._length = len(self._before) + sum(map(len, self._after))

    def _add(self, pieces: list[bytes], members: dict[str, Schema]) -> None:
        if not members:
            return
        piece = _encode(members)[1:-1]
        self._digest.update(piece)
        pieces.append(b"," + piece if pieces else piece)

    def __len__(self) -> int:
        """Bytes, without the address."""
        return self._length

    def is_current(self, user: User | None) -> bool:
        """Whether it would be the same for `user`, as far as tables and rights go."""
        return self._view.is_current(user)

    def tag(self, server_url: str) -> str:
        """The entity tag, without quotes."""
        digest = self._digest.copy()
        digest.update(server_url.encode())
        return digest.hexdigest()[:_TAG_LENGTH]

    def response(self, server_url: str, pairs: HeaderPairs) -> Response:
        """The document as an answer with these header fields; a long one is a stream of known length."""
        pieces = self.pieces(server_url)
        pairs = [("Content-Type", "application/json"), *pairs]
        length = sum(map(len, pieces))
        if length <= AT_ONCE:
            return Response(b"".join(pieces), 200, pairs=pairs)
        return Response(iter(pieces), 200, pairs=[*pairs, ("Content-Length", str(length))])

    def pieces(self, server_url: str) -> list[bytes]:
        """The document, a table in each piece: joined, that of a large schema is too long for one step."""
        return [self._before, _encode(server_url), *self._after]
