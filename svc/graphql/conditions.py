"""The arguments of a field as conditions: every one is an equality, and all of them hold (spec: graphql §4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphql.language import ArgumentNode

from svc.errors import QueryError
from svc.graphql.faults import fault_at
from svc.graphql.values import BAD_VALUE, MAX_DEPTH, literal
from svc.query.resolve import related_table
from svc.query.tables import AnyTable

Path = tuple[str, ...]
MAX_CONDITIONS = 1000  # of a field, with the objects that they stand in

LIST_OPTIONS = frozenset(("_limit", "_offset", "_sort", "_after", "_where"))
"""Arguments of lists in the extended form: no attribute of a resource has such a name (spec: graphql §7)."""


def argument_values(
    arguments: tuple[ArgumentNode, ...], variables: Mapping[str, Any], *, extended: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(values of the conditions, values of the list options) by the names of the arguments. Raises DocumentError."""
    values: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for argument in arguments:
        name = argument.name.value
        if name in values or name in options:
            raise fault_at(argument, f"The argument '{name}' is given twice.")
        is_option = extended and name in LIST_OPTIONS
        value = literal(argument.value, variables, "Argument", lists=extended)
        if is_option:
            options[name] = value
        else:
            if isinstance(value, list):
                raise fault_at(argument, "Argument type, ListValue, is not supported.", BAD_VALUE)
            values[name] = value
    return values, options


def table_conditions(values: Mapping[str, Any], table: AnyTable) -> tuple[list[Path], list[Any]]:
    """The paths of attributes, and the value that each of them has to be equal to. Objects are conditions on what is below an attribute.

    Names are not examined here: to callers who may not read all of a table nothing is said of what it has. Raises QueryError.
    """
    return _Conditions().of_members(values, table)


def nested_mapping(values: Mapping[str, Any]) -> tuple[list[Path], list[Any]]:
    """The same for a resource of which no table is known."""
    return _Conditions().of_members(values, None)


class _Conditions:
    """Collects them. `_members`: of all objects, also of those that are no condition."""

    def __init__(self) -> None:
        self._paths: list[Path] = []
        self._values: list[Any] = []
        self._members = 0

    def of_members(self, values: Mapping[str, Any], table: AnyTable | None) -> tuple[list[Path], list[Any]]:
        for name, value in values.items():
            self._add(name, value, table, ())
        return self._paths, self._values

    def _add(self, name: str, value: Any, table: AnyTable | None, before: Path) -> None:
        """`table`: whose attribute `name` is, None within nested objects."""
        if type(name) is not str:
            raise _bad_value("The members of an object have names, which are strings.")
        self._members += 1
        if self._members > MAX_CONDITIONS:
            raise _bad_value(f"The field has more than {MAX_CONDITIONS} conditions.")
        related: AnyTable | None = None
        if table is not None:
            if name == "id" and name not in table.attributes:
                name = table.primary_key
            attribute = table.attributes.get(name)
            if attribute is not None and attribute.relationship is not None:
                related = related_table(table, attribute)
            elif attribute is None and value == {}:
                value = None  # no condition, but the name is to be refused
        path = (*before, name)
        if type(value) is dict:
            if len(path) > MAX_DEPTH:
                raise _bad_value(f"The conditions are nested deeper than {MAX_DEPTH} levels.")
            for member, each in value.items():
                self._add(member, each, related, path)
            return
        if isinstance(value, list):
            raise _bad_value("Value type, ListValue, is not supported.")
        self._paths.append(path)
        self._values.append(value)


def _bad_value(message: str) -> QueryError:
    return QueryError(message, code=BAD_VALUE)
