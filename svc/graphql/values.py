"""Values of arguments and of variables (spec: graphql §4.1, §5). No types are checked: a value means what the attribute makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from math import isfinite
from typing import Any

from graphql.language import (
    BooleanValueNode,
    EnumValueNode,
    FloatValueNode,
    IntValueNode,
    ListValueNode,
    NonNullTypeNode,
    NullValueNode,
    ObjectValueNode,
    OperationDefinitionNode,
    StringValueNode,
    ValueNode,
    VariableNode,
)

from svc.graphql.faults import DocumentError, fault_at

BAD_VALUE = "BAD_VALUE"
MAX_DIGITS = 302  # of a number of 1000 bits
MAX_DEPTH = 50  # of objects within objects


class Variable:
    """A declared variable. `default`: None also without one, see `has_default`."""

    __slots__ = ("default", "has_default", "is_required", "name")

    def __init__(self, name: str, is_required: bool, has_default: bool, default: Any) -> None:
        self.name = name
        self.is_required = is_required
        self.has_default = has_default
        self.default = default


def declared_variables(operation: OperationDefinitionNode, *, lists: bool = False) -> tuple[Variable, ...]:
    """The variables of an operation. `lists`: defaults may be lists and enums, as in the extended form. Raises DocumentError."""
    found: dict[str, Variable] = {}
    for node in operation.variable_definitions or ():
        name = node.variable.name.value
        if name in found:
            raise fault_at(node, f"Variable ${name} is defined twice.")
        default = node.default_value
        value = None if default is None else literal(default, {}, "Value", lists=lists)
        found[name] = Variable(name, isinstance(node.type, NonNullTypeNode), default is not None, value)
    return tuple(found.values())


def resolved_variables(declared: tuple[Variable, ...], given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The values of all declared variables; others that are given are ignored. Raises DocumentError."""
    if not declared:
        return _NO_VARIABLES
    values: dict[str, Any] = {}
    for variable in declared:
        name = variable.name
        if given is not None and name in given:
            value = given[name]
            if value is None and variable.is_required:
                raise DocumentError(f"Variable ${name} must not be null.", code=BAD_VALUE)
        elif variable.is_required and not variable.has_default:
            raise DocumentError(f"Variable ${name} is required, but not provided.", code=BAD_VALUE)
        else:
            default = variable.default  # of a document that is kept: what a mutation writes is changed by the store
            value = deepcopy(default) if type(default) is dict or type(default) is list else default
            if value is None and variable.is_required:
                raise DocumentError(f"Variable ${name} must not be null.", code=BAD_VALUE)
        values[name] = value
    return values


_NO_VARIABLES: Mapping[str, Any] = {}


def literal(node: ValueNode, variables: Mapping[str, Any], place: str, *, lists: bool = False, depth: int = 0) -> Any:
    """The value of a literal: str, bool, int, float, None, a dict of these, or what a variable has.

    `place`: "Argument" or "Value", for messages. `lists`: lists are values, too, and an enum is its name. Raises DocumentError.
    """
    if isinstance(node, StringValueNode):
        return node.value
    if isinstance(node, VariableNode):
        name = node.name.value
        if name not in variables:
            raise fault_at(node, f"Variable ${name} is not defined.", BAD_VALUE)
        return variables[name]
    if isinstance(node, IntValueNode):
        if len(node.value) > MAX_DIGITS:
            raise fault_at(node, f"The number has more than {MAX_DIGITS} digits.", BAD_VALUE)
        return int(node.value)
    if isinstance(node, FloatValueNode):
        value = float(node.value)
        if not isfinite(value):
            raise fault_at(node, f"The number {node.value[:40]} is out of range.", BAD_VALUE)
        return int(value) if value.is_integer() and abs(value) <= 1 << 53 else value
    if isinstance(node, BooleanValueNode):
        return node.value
    if isinstance(node, NullValueNode):
        return None
    if isinstance(node, ObjectValueNode):
        if depth == MAX_DEPTH:
            raise fault_at(node, f"The value is nested deeper than {MAX_DEPTH} levels.", BAD_VALUE)
        members: dict[str, Any] = {}
        for member in node.fields:
            name = member.name.value
            if name in members:
                raise fault_at(member, f"'{name}' is given twice in an object.")
            members[name] = literal(member.value, variables, "Value", lists=lists, depth=depth + 1)
        return members
    if lists and isinstance(node, ListValueNode):
        if depth == MAX_DEPTH:
            raise fault_at(node, f"The value is nested deeper than {MAX_DEPTH} levels.", BAD_VALUE)
        return [literal(element, variables, "Value", lists=True, depth=depth + 1) for element in node.values]
    if lists and isinstance(node, EnumValueNode):
        return node.value
    raise fault_at(node, f"{place} type, {type(node).__name__.removesuffix('Node')}, is not supported.", BAD_VALUE)
