"""The directives of schema files: which there are, what their arguments may be (spec: schema-and-store §1.8, §1.10, §2, §3).

Arguments are lenient in form (`300`, `"300"`; `networkId`, `"networkId"`; `true`, `"true"`) and strict in sense. What is not known is a
warning and ignored, what is known and cannot be right is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any, Protocol

from svc.apps.schema_syntax import Directive, SourcePosition, Value
from svc.config.origins import hint, nearest
from svc.store.schema import ON_DELETE, VectorIndex


class Report(Protocol):
    def warn(self, message: str, position: SourcePosition, *, unknown: bool = False) -> None: ...

    def fail(self, message: str, position: SourcePosition) -> None: ...


Reader = Callable[[Value], object]
"""A value of a schema file -> what it means. Raises ValueError saying what it must be."""

Specification = Mapping[str, Mapping[str, Reader]]
"""Directive -> argument -> reader of its value."""

Arguments = dict[str, Any]

MAX_NAME = 250  # characters of a name that the store uses (spec: operations §1.5)
MAX_NUMBER = 2**53


def text(value: Value) -> str:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("must be a string")


def any_value(value: Value) -> Value:
    return value


def name(value: Value) -> str:
    found = text(value)
    if not found:
        raise ValueError("must not be empty")
    return found


def name_list(value: Value) -> tuple[str, ...]:
    return tuple([name(element) for element in value]) if isinstance(value, list) else (name(value),)


def flag(value: Value) -> bool:
    words = {"true": True, "false": False}
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise ValueError("must be true or false")


def number(value: Value) -> int | float:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise ValueError("must be a number")
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
        raise ValueError("must be a number")
    if abs(value) > MAX_NUMBER:
        raise ValueError("is too large")
    return int(value) if value == int(value) else value


def not_negative(value: Value) -> int | float:
    found = number(value)
    if found < 0:
        raise ValueError("must not be negative")
    return found


def positive(value: Value) -> int | float:
    found = number(value)
    if found <= 0:
        raise ValueError("must be greater than 0")
    return found


def count(value: Value) -> int:
    found = positive(value)
    if not isinstance(found, int):
        raise ValueError("must be a whole number")
    return found


def share(value: Value) -> float:
    found = number(value)
    if not 0 <= found <= 1:
        raise ValueError("must be between 0 and 1")
    return found


def one_of(*choices: str) -> Reader:
    def read(value: Value) -> str:
        found = text(value)
        if found not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return found

    return read


def stored_name(value: Value) -> str:
    """A name of a database or table (spec: operations §1.5), which is also a name in the file system."""
    found = name(value)
    if len(found) > MAX_NAME or found in (".", "..") or any(not " " <= character <= "~" or character in "/`" for character in found):
        raise ValueError(f"must be a name of 1 to {MAX_NAME} printable ASCII characters without / and backtick")
    return found


CHECK: Mapping[str, Reader] = {"expr": name, "message": text}

PROTOCOLS = ("rest", "graphql", "mqtt", "ws", "sse", "mcp")

TYPE_DIRECTIVES: Specification = {
    "table": {
        "table": stored_name,
        "database": stored_name,
        "schema": stored_name,
        "expiration": not_negative,
        "eviction": not_negative,
        "scanInterval": positive,
        "audit": flag,
        "replicate": flag,
    },
    "export": {"name": text, **dict.fromkeys(PROTOCOLS, flag)},
    "renamedFrom": {"name": stored_name},
    "sealed": {},
    "hidden": {},
    "splitSegments": {},
    "check": CHECK,
    "account": {},
    "allow": {},  # read by `schema_rules`
}

VECTOR_ARGUMENTS: Mapping[str, tuple[str, Reader]] = {
    "distance": ("distance", one_of("cosine", "euclidean", "dotProduct")),
    "M": ("m", count),
    "efConstruction": ("ef_construction", count),
    "efConstructionSearch": ("ef_construction_search", count),
    "mL": ("ml", positive),
    "optimizeRouting": ("optimize_routing", share),
    "quantization": ("quantization", one_of("int8")),
    "filterExpansion": ("filter_expansion", positive),
}

FIELD_DIRECTIVES: Specification = {
    "primaryKey": {},
    "indexed": {"type": text, **{argument: reader for argument, (_, reader) in VECTOR_ARGUMENTS.items()}},
    "relationship": {"from": name, "to": name, "onDelete": one_of(*ON_DELETE)},
    "renamedFrom": {"name": name},
    "computed": {"from": text, "version": text},
    "createdTime": {},
    "updatedTime": {},
    "expiresAt": {},
    "embed": {"source": name, "model": name},
    "enumerable": {},
    "hidden": {},
    "default": {"value": any_value},
    "unique": {},
    "check": CHECK,
    "allow": {"role": name_list},
}


def read_directives(
    directives: Iterable[Directive], known: Specification, elsewhere: Specification, report: Report
) -> dict[str, Arguments]:
    """Directive -> its arguments, null ones left out. `elsewhere`: the directives that are valid in the other context."""
    found: dict[str, Arguments] = {}
    for directive in directives:
        readers = known.get(directive.name)
        if readers is None:
            meant = hint(nearest(directive.name, known), "@")
            reason = "has no effect here" if directive.name in elsewhere else f"is not known and was ignored{meant}"
            report.warn(f"the directive @{directive.name} {reason}", directive.position, unknown=directive.name not in elsewhere)
        elif directive.name in found:
            report.warn(f"@{directive.name} is repeated: the first counts", directive.position)
        else:
            found[directive.name] = _read_arguments(directive, readers, report)
    return found


def _read_arguments(directive: Directive, readers: Mapping[str, Reader], report: Report) -> Arguments:
    arguments: Arguments = {}
    for argument, value in directive.arguments.items():
        reader = readers.get(argument)
        if reader is None:
            report.warn(f"@{directive.name} has no argument {argument}: it was ignored", directive.position, unknown=True)
        elif value is not None:
            try:
                arguments[argument] = reader(value)
            except ValueError as error:
                report.fail(f"@{directive.name}: {argument} {error}", directive.position)
    return arguments


def vector_index(arguments: Arguments) -> VectorIndex:
    """The vector index that the arguments of `@indexed(type: "HNSW", ...)` describe."""
    values = {field: arguments[argument] for argument, (field, _) in VECTOR_ARGUMENTS.items() if argument in arguments}
    return VectorIndex(**values)
