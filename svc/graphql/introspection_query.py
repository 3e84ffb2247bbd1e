"""The fields `__schema` and `__type` over a schema (spec: graphql §8.1; GraphQL §4.2). Pure: run on any thread.

The types of introspection, and what resolves their fields, are those of graphql-core. It is run here, for what lists of lists multiply has to be bounded: an
answer is made as JSON from the inside out, what is selected of one type only once, and its bytes are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from graphql import (
    GraphQLInputObjectType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLSchema,
    OperationType,
    get_argument_values,
    introspection_types,
    is_leaf_type,
    validate,
)
from graphql.language import (
    ArgumentNode,
    BooleanValueNode,
    ConstListValueNode,
    ConstObjectValueNode,
    ConstValueNode,
    DocumentNode,
    EnumValueNode,
    FieldNode,
    FloatValueNode,
    IntValueNode,
    NameNode,
    NullValueNode,
    OperationDefinitionNode,
    SelectionSetNode,
    StringValueNode,
)
from graphql.type import SchemaMetaFieldDef, TypeMetaFieldDef
from graphql.validation import (
    FieldsOnCorrectTypeRule,
    KnownArgumentNamesRule,
    MaxIntrospectionDepthRule,
    ProvidedRequiredArgumentsRule,
    ScalarLeafsRule,
    UniqueArgumentNamesRule,
    ValuesOfCorrectTypeRule,
)

from svc.errors import Problem
from svc.graphql.faults import DocumentError, fault_at
from svc.graphql.selection import TYPE_NAME, Field
from svc.graphql.values import literal

ROOTS = {"__schema": SchemaMetaFieldDef, "__type": TypeMetaFieldDef}
MAX_FIELDS = 2000  # fragments counted wherever they are used; tools ask for about 200
# An answer may take so much work, and so many bytes, counted again in each list or object that they are within: some, and some for each field, argument and
# member of the schema. What tools ask for takes 7 steps and 1 KB of these.
STEPS, STEPS_EACH = 50_000, 25
BYTES, BYTES_EACH = 1 << 20, 4000

_RULES = (
    FieldsOnCorrectTypeRule,
    ScalarLeafsRule,
    KnownArgumentNamesRule,
    UniqueArgumentNamesRule,
    ProvidedRequiredArgumentsRule,
    ValuesOfCorrectTypeRule,
    MaxIntrospectionDepthRule,
)

_encode = msgspec.json.Encoder().encode
_TYPE = introspection_types["__Type"]
Complete = Callable[[Any], bytes]


def asked_nodes(fields: tuple[Field, ...], variables: Mapping[str, Any]) -> tuple[list[FieldNode], str]:
    """The fields with fragments and variables put in their places, and the same as text that tells them from others. Raises DocumentError."""
    text: list[str] = []
    nodes = _nodes(fields, variables, text, [MAX_FIELDS])
    return nodes, "".join(text)


def _nodes(fields: tuple[Field, ...], variables: Mapping[str, Any], text: list[str], left: list[int]) -> list[FieldNode]:
    nodes = []
    for field in fields:
        left[0] -= 1
        if left[0] < 0:
            raise fault_at(field.node, f"A query of the schema selects at most {MAX_FIELDS} fields.")
        node = field.node
        text += (field.key, ":", field.name)
        arguments = []
        for argument in field.arguments:
            value = literal(argument.value, variables, "Argument", lists=True)
            text.append(f"({argument.name.value}={value!r})")
            arguments.append(ArgumentNode(name=argument.name, value=_constant(value, argument), loc=argument.loc))
        selection = None
        if field.nested is not None:
            text.append("{")
            selection = SelectionSetNode(selections=tuple(_nodes(field.nested, variables, text, left)))
            text.append("}")
        text.append(" ")
        alias = None if field.key == field.name else NameNode(value=field.key)
        nodes.append(FieldNode(alias=alias, name=node.name, arguments=tuple(arguments), selection_set=selection, loc=node.loc))
    return nodes


def _constant(value: Any, argument: ArgumentNode) -> ConstValueNode:
    """A value of an argument as a literal; what introspection has no use for is one that does not fit, and is refused by validation."""
    loc = argument.value.loc
    if isinstance(argument.value, EnumValueNode):
        return EnumValueNode(value=value, loc=loc)
    if isinstance(value, str):
        return StringValueNode(value=value, loc=loc)
    if isinstance(value, bool):
        return BooleanValueNode(value=value, loc=loc)
    if value is None:
        return NullValueNode(loc=loc)
    if isinstance(value, int):
        return IntValueNode(value=str(value), loc=loc)
    if isinstance(value, float):
        return FloatValueNode(value=str(value), loc=loc)
    return ConstObjectValueNode(fields=(), loc=loc) if isinstance(value, dict) else ConstListValueNode(values=(), loc=loc)


def schema_size(schema: GraphQLSchema) -> int:
    """How many fields, arguments and members of input types it has."""
    size = 0
    for type_ in schema.type_map.values():
        if isinstance(type_, GraphQLObjectType):
            size += sum([1 + len(field.args) for field in type_.fields.values()])
        elif isinstance(type_, GraphQLInputObjectType):
            size += len(type_.fields)
    return size


def run_introspection(nodes: list[FieldNode], schema: GraphQLSchema) -> dict[str, bytes]:
    """The JSON of each field by its key. Raises DocumentError for what is no query of a schema, or asks for more than tools do by far."""
    selection = SelectionSetNode(selections=tuple(nodes))
    operation = OperationDefinitionNode(operation=OperationType.QUERY, selection_set=selection)
    for error in validate(schema, DocumentNode(definitions=(operation,)), _RULES, max_errors=1):
        place = error.locations[0] if error.locations else None
        raise DocumentError(error.message, location=None if place is None else (place.line, place.column))
    run = _Run(schema_size(schema))
    found: dict[str, bytes] = {}
    for node in nodes:
        root = ROOTS[node.name.value]
        arguments = get_argument_values(root, node)
        value = schema if root is SchemaMetaFieldDef else schema.get_type(arguments["name"])
        try:
            found[node.name.value if node.alias is None else node.alias.value] = run.completing(root.type, node)(value)
        except _TooMuch:
            raise fault_at(node, "The answer to the query of the schema is too large: ask for less at once.", "QUERY_TOO_LARGE") from None
    return found


class _TooMuch(Problem):
    """The run is ended."""

    def __init__(self) -> None:
        super().__init__("", 400)


class _Run:
    def __init__(self, size: int) -> None:
        self._bytes = BYTES + size * BYTES_EACH
        self._steps = STEPS + size * STEPS_EACH

    def completing(self, type_: Any, node: FieldNode) -> Complete:
        """What makes JSON of the values of a field of this type."""
        if isinstance(type_, GraphQLNonNull):
            return self.completing(type_.of_type, node)
        if isinstance(type_, GraphQLList):
            return self._list(self.completing(type_.of_type, node))
        if is_leaf_type(type_):
            serialize = type_.serialize
            return lambda value: b"null" if value is None else _encode(serialize(value))
        assert isinstance(type_, GraphQLObjectType) and node.selection_set is not None
        return self._object(type_, node.selection_set)

    def _list(self, complete: Complete) -> Complete:
        def made(value: Any) -> bytes:
            return b"null" if value is None else self._counted(b"[" + b",".join([complete(each) for each in value]) + b"]")

        return made

    def _object(self, type_: GraphQLObjectType, selection: SelectionSetNode) -> Complete:
        steps: list[tuple[bytes, Callable[..., Any] | None, dict[str, Any], Complete]] = []
        for node in selection.selections:
            assert isinstance(node, FieldNode)
            name = node.name.value
            before = (b"," if steps else b"{") + _encode(name if node.alias is None else node.alias.value) + b":"
            if name == TYPE_NAME:
                constant = _encode(type_.name)
                steps.append((before, None, {}, lambda _, constant=constant: constant))  # type: ignore[misc]
            else:
                definition = type_.fields[name]
                steps.append((before, definition.resolve, get_argument_values(definition, node), self.completing(definition.type, node)))

        def made(value: Any) -> bytes:
            if value is None:
                return b"null"
            self._steps -= len(steps)
            if self._steps < 0:
                raise _TooMuch
            pieces: list[bytes] = []
            for before, resolve, arguments, complete in steps:
                pieces.append(before)
                pieces.append(complete(value if resolve is None else resolve(value, None, **arguments)))
            pieces.append(b"}")
            return self._counted(b"".join(pieces))

        if type_ is not _TYPE:
            return made
        known: dict[int, bytes] = {}  # by the id of a type, which the schema keeps

        def known_or_made(value: Any) -> bytes:
            found = known.get(id(value))
            if found is None:
                found = known[id(value)] = made(value)
            return found

        return known_or_made

    def _counted(self, made: bytes) -> bytes:
        self._bytes -= len(made)
        if self._bytes < 0:
            raise _TooMuch
        return made
