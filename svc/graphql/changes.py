"""The fields of a mutation as changes of resources, and the values of their arguments (spec: graphql §7.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from graphql.language import ArgumentNode, ListValueNode, ObjectValueNode, ValueNode, VariableNode

from svc.errors import ClientError, ServerError
from svc.graphql.faults import fault_at, with_location
from svc.graphql.names import MUTATION_TYPE, Names
from svc.graphql.selection import TYPE_NAME, Field
from svc.graphql.values import BAD_VALUE, literal
from svc.resources import Resource

VERBS: Mapping[str, str] = {"create": "post", "put": "put", "patch": "patch", "delete": "delete"}
"""What a field begins with -> the verb of the resource."""
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "post": ("input",),
    "put": ("id", "input", "ifMatch"),
    "patch": ("id", "input", "ifMatch"),
    "delete": ("id", "ifMatch"),
}
_OPTIONAL = frozenset(("ifMatch",))

MAX_CHANGES = 500  # of one operation: they are applied in one turn if they concern several databases
MAX_COPIED = 1 << 24  # bytes of the values of variables that are used more than once
MAX_COPIED_DEPTH = 100


class Change:
    """One field. `resource` None: `__typename`."""

    __slots__ = ("arguments", "field", "name", "resource", "type_name", "verb")

    def __init__(
        self, field: Field, resource: type[Resource] | None, type_name: str, verb: str, arguments: dict[str, ArgumentNode]
    ) -> None:
        self.field = field
        self.name = field.name
        self.resource = resource
        self.type_name = type_name
        self.verb = verb
        self.arguments = arguments


def changes_of(fields: tuple[Field, ...], names: Names) -> list[Change]:
    """Raises DocumentError for what is no change of a resource that there is."""
    if len(fields) > MAX_CHANGES:
        raise fault_at(fields[MAX_CHANGES].node, f"A mutation has at most {MAX_CHANGES} fields.")
    return [_change(field, names) for field in fields]


def _change(field: Field, names: Names) -> Change:
    if field.name == TYPE_NAME:
        return Change(field, None, MUTATION_TYPE, "", {})
    prefix, _, name = field.name.partition("_")
    verb = VERBS.get(prefix)
    if verb is None or not name:
        raise fault_at(field.node, f"A mutation is create_, put_, patch_ or delete_ with the name of a resource, not '{field.name}'.")
    found = names.find(name)
    if found is None:
        raise fault_at(field.node, f"Resource `{name}` not found.", "NOT_FOUND")
    if found.fault:
        raise with_location(ServerError(found.fault), field.node)
    if verb == "delete" and field.nested is not None:
        raise fault_at(field.node, f"'{field.name}' is true or false: nothing can be selected from it.")
    if verb != "delete" and field.nested is None:
        raise fault_at(field.node, f"'{field.name}' needs a selection of the record's attributes, such as {{ id }}.")
    arguments: dict[str, ArgumentNode] = {}
    for argument in field.arguments:
        each = argument.name.value
        if each in arguments:
            raise fault_at(argument, f"The argument '{each}' is given twice.")
        if each not in ARGUMENTS[verb]:
            raise fault_at(argument, f"'{field.name}' takes {', '.join(ARGUMENTS[verb])}, not '{each}'.")
        arguments[each] = argument
    for each in ARGUMENTS[verb]:
        if each not in arguments and each not in _OPTIONAL:
            raise fault_at(field.node, f"'{field.name}' needs the argument '{each}'.", BAD_VALUE)
    return Change(field, found.resource, names.name_of(found), verb, arguments)


class Inputs:
    """The values of the arguments of an operation. What is written belongs to the store, so a variable that is used more than once is copied."""

    def __init__(self, changes: list[Change], variables: Mapping[str, Any]) -> None:
        self._variables = variables
        uses = Counter(name for change in changes for argument in change.arguments.values() for name in _variable_names(argument.value))
        self._has_shared = any(count > 1 and isinstance(variables.get(name), dict | list) for name, count in uses.items())
        self._left = MAX_COPIED

    def value(self, argument: ArgumentNode) -> Any:
        """Raises DocumentError, ClientError."""
        value = literal(argument.value, self._variables, "Argument", lists=True)
        return self._copied(value, 0) if self._has_shared else value

    def _copied(self, value: Any, depth: int) -> Any:
        kind = type(value)
        self._left -= len(value) if kind is str or kind is bytes else 16
        if self._left < 0:
            raise ClientError(f"The values of variables that are used more than once have more than {MAX_COPIED} bytes", code=BAD_VALUE)
        if kind is dict or kind is list:
            if depth == MAX_COPIED_DEPTH:
                raise ClientError(f"The input is nested deeper than {MAX_COPIED_DEPTH} levels", code=BAD_VALUE)
            if kind is list:
                return [self._copied(element, depth + 1) for element in value]
            return {name: self._copied(member, depth + 1) for name, member in value.items()}
        return value


def _variable_names(node: ValueNode) -> Iterator[str]:
    waiting: list[ValueNode] = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, VariableNode):
            yield each.name.value
        elif isinstance(each, ObjectValueNode):
            waiting += [member.value for member in each.fields]
        elif isinstance(each, ListValueNode):
            waiting += each.values
