"""The fields `__schema` and `__type` of an operation (spec: graphql §8): schemas by role, made and asked on a helper thread, and the answers that are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from concurrent.futures import Executor
from typing import Any

from graphql import GraphQLSchema

from svc.auth.roles import Role
from svc.auth.users import user_of
from svc.graphql.introspection_query import ROOTS, asked_nodes, run_introspection
from svc.graphql.names import Names
from svc.graphql.schema_types import build_schema
from svc.graphql.selection import Field
from svc.graphql.visible import visible_resources
from svc.messages import Request

_KEPT_SCHEMAS = 8
_KEPT_BYTES = 8 << 20  # of the answers of one schema


class _RoleSchema:
    """The schema of a role: `schema` is there when it has been made. `state`: of the names, for which it is valid."""

    __slots__ = ("answers", "role", "schema", "size", "state")

    def __init__(self, role: Role | None, state: tuple[int, ...], schema: asyncio.Future[GraphQLSchema]) -> None:
        self.role = role
        self.state = state
        self.schema = schema
        self.answers: dict[str, Mapping[str, bytes]] = {}
        self.size = 0

    def keep(self, text: str, answer: Mapping[str, bytes]) -> None:
        """The oldest go first; what is larger than all may be is not kept."""
        size = len(text) + sum(map(len, answer.values()))
        if text in self.answers or size > _KEPT_BYTES:
            return
        self.answers[text] = answer
        self.size += size
        while self.size > _KEPT_BYTES:
            oldest = next(iter(self.answers))
            self.size -= len(oldest) + sum(map(len, self.answers.pop(oldest).values()))


class Introspection:
    """Of one endpoint."""

    def __init__(self, names: Names, loop: asyncio.AbstractEventLoop, executor: Executor) -> None:
        self._names = names
        self._loop = loop
        self._executor = executor
        self._known: dict[tuple[int, bool], _RoleSchema] = {}  # by the id of the role, which is kept, and the form

    def described(
        self, fields: tuple[Field, ...], variables: Mapping[str, Any], request: Request, *, extended: bool
    ) -> Generator[Any, Any, Mapping[str, bytes]]:
        """The JSON of those of the fields that ask for the schema, by their keys. Yields what has to be awaited, None between. Raises DocumentError."""
        asked = tuple([field for field in fields if field.name in ROOTS])
        if not asked:
            return {}
        nodes, text = asked_nodes(asked, variables)
        described = yield from self._described(request, extended)
        found = described.answers.get(text)
        if found is None:
            schema = yield asyncio.shield(described.schema)
            found = yield self._loop.run_in_executor(self._executor, run_introspection, nodes, schema)
            described.keep(text, found)
        return found

    def _described(self, request: Request, extended: bool) -> Generator[Any, Any, _RoleSchema]:
        user = user_of(request)
        role = self._names.role_of(user)
        place = id(role), extended
        found, state = self._valid(place, role), self._names.state
        if found is None:
            steps = visible_resources(self._names, user)
            visible = yield from steps
            found = self._valid(place, role)  # another request may have been faster
            if found is None:
                schema = self._loop.run_in_executor(self._executor, lambda: build_schema(visible, extended=extended))
                found = self._known[place] = _RoleSchema(role, state, schema)
                while len(self._known) > _KEPT_SCHEMAS:
                    del self._known[next(iter(self._known))]
        return found

    def _valid(self, place: tuple[int, bool], role: Role | None) -> _RoleSchema | None:
        """What is known of a role, if it is still right; as the one that was used last."""
        found = self._known.pop(place, None)
        if found is None or found.role is not role or found.state != self._names.state or _has_failed(found.schema):
            return None
        self._known[place] = found
        return found


def _has_failed(future: asyncio.Future[Any]) -> bool:
    return future.done() and (future.cancelled() or future.exception() is not None)
