"""The fields `__schema` and `__type` of an operation."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from svc.graphql.faults import fault_at
from svc.graphql.selection import Field
from svc.messages import Request


class IntrospectionFields:
    def __init__(self, *arguments: Any) -> None:
        pass

    def prepare(self, fields: tuple[Field, ...], variables: Mapping[str, Any], request: Request) -> Generator[Any, Any, None]:
        for field in fields:
            if field.name in ("__schema", "__type"):
                raise fault_at(field.node, "Introspection is not available.")
        yield from ()

    def result(self, field: Field) -> Any:
        raise NotImplementedError
