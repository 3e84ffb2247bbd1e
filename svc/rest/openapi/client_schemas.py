"""Tables as schemas for generated clients: JSON only, one type for each body (spec: http §10.3).

    Product         a record as it is answered
    ProductPart     the same where `_select` says which properties: none is certain
    ProductCreate   a record as POST takes it
    ProductKeyed    an element of a list that PUT takes, with its key
    ProductReplace  a record as PUT takes it at its address
    ProductUpdate   the properties that PATCH sets

and for a type of nested objects `Place` and `PlacePart`. OpenAPI 3.0 has no null beside a reference; generators take `nullable` beside `allOf` for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from svc.rest.openapi.access import TableAccess
from svc.rest.openapi.schemas import Schema, array_of, described, key_may_be_missing, reference
from svc.store.schema import Attribute, Enumeration, Structure, TableDefinition, key_enum

SHARED: Mapping[str, Schema] = {
    "Blob": {
        "type": "object",
        "description": "What stands for content that is not shown. Sent back, it means the content that is stored.",
        "required": ["description", "contentType"],
        "properties": {
            "description": {"type": "string"},
            "contentType": {"type": "string"},
            "size": {"type": "integer", "format": "int64"},
        },
    },
    "Increment": {
        "type": "object",
        "description": "Adds `value` to what is stored, exactly among concurrent writers.",
        "required": ["__op__", "value"],
        "properties": {"__op__": {"type": "string", "enum": ["add"]}, "value": {"type": "number"}},
        "additionalProperties": False,
    },
}

_TYPES: Mapping[str, Schema] = {
    "ID": {"type": "string"},
    "String": {"type": "string"},
    "Int": {"type": "integer", "format": "int32"},
    "Long": {"type": "integer", "format": "int64"},
    "BigInt": {"type": "integer"},
    "Float": {"type": "number", "format": "double"},
    "Boolean": {"type": "boolean"},
    "Date": {"type": "string", "format": "date-time"},
    "Bytes": {"type": "string", "format": "byte"},
    "Blob": {"anyOf": [{"type": "string"}, reference("Blob")]},
    "Any": {},
}
_INCREMENTS = frozenset(("Int", "Long", "BigInt", "Float"))


def is_automatic(attribute: Attribute) -> bool:
    """Whether the value of a stored attribute is set by the store."""
    return attribute.created_time or attribute.updated_time


def scalar(attribute: Attribute, names: Mapping[str, str]) -> Schema | None:
    """A value of the attribute, of a list an element; None: its type is no scalar. `names`: enum type -> name of its component."""
    return _TYPES.get(attribute.type) if attribute.enum is None else reference(names[attribute.enum.name])


def _key(definition: TableDefinition, names: Mapping[str, str]) -> Schema | None:
    """None for one of any type."""
    attribute = definition.attribute(definition.primary_key)
    return None if attribute is None or attribute.type == "Any" else scalar(attribute, names)


def key_schema(definition: TableDefinition, names: Mapping[str, str]) -> Schema:
    """A key in a record or a body."""
    alone = _key(definition, names) or {"anyOf": [{"type": "string"}, {"type": "number"}]}
    return {"anyOf": [alone, array_of({})]} if definition.split_segments else alone


def key_in_path(definition: TableDefinition, names: Mapping[str, str]) -> Schema:
    """A key in an address, where several segments are one text."""
    return {"type": "string"} if definition.split_segments else _key(definition, names) or {"type": "string"}


def condition_schema(attribute: Attribute, names: Mapping[str, str]) -> Schema | None:
    """A value that a query may compare with the attribute, None if it cannot be compared so."""
    if attribute.relationship is not None or attribute.type == "Blob" or attribute.vector is not None:
        return None
    return {"type": "string"} if attribute.type == "Any" else scalar(attribute, names)


def nullable(schema: Schema) -> Schema:
    """The schema that allows null besides. Without a type it does so already."""
    if not schema:
        return schema
    return ({"allOf": [schema]} if "$ref" in schema else schema) | {"nullable": True}


class ClientSchemas:
    """The component schemas of one table.

    `names`: type -> name of its component, for the types of nested objects and the enum types of this table, and for related ones. `verbs`: that the
    caller may use at any address of the table; bodies of others are left out. `is_opened`: code of an application may show and take more than the role of
    the caller allows.
    """

    def __init__(
        self, access: TableAccess, name: str, names: Mapping[str, str], *, verbs: Collection[str] = (), is_opened: bool = False
    ) -> None:
        self._access = access
        self._definition = access.definition
        self._name = name
        self._names = names
        self._verbs = verbs
        self._is_sealed = access.definition.sealed and not is_opened
        self._is_closed = not (access.is_open or is_opened)

    def components(self) -> Iterator[tuple[str, Schema]]:
        """(name, schema) of everything that is this table's own."""
        access, name, verbs = self._access, self._name, self._verbs
        yield name, self._record()
        yield f"{name}Part", self._part()
        if "post" in verbs:
            yield f"{name}Create", self._body(access.creatable, with_key=True, key_required=not key_may_be_missing(self._definition))
        if "put" in verbs:
            yield f"{name}Replace", self._body(access.writable)
            yield f"{name}Keyed", self._body(access.writable, with_key=True, key_required=True)
        if "patch" in verbs:
            yield f"{name}Update", self._changes()
        for structure in self._definition.structures:
            own = self._names[structure.name]
            yield own, self._structure(structure, "")
            yield f"{own}Part", self._structure(structure, "Part")
        for enum in self._enums():
            yield self._names[enum.name], described({"type": "string", "enum": list(enum.values)}, enum.description)

    def _enums(self) -> dict[Enumeration, None]:
        """Those of attributes that are in some schema or address."""
        access, definition = self._access, self._definition
        places = (access.readable, access.creatable, access.changeable, *[structure.attributes for structure in definition.structures])
        found = [attribute.enum for attributes in places for attribute in attributes]
        return {enum: None for enum in (key_enum(definition), *found) if enum is not None}

    # --- answers ---------------------------------------------------------------------------------------------------------------------

    def _record(self) -> Schema:
        readable = [a for a in self._access.readable if a.stored or a.enumerable]
        properties = {a.name: self._shown(a) for a in readable}
        required = [a.name for a in readable if a.stored and (a.required or a.name == self._definition.primary_key)]
        return _object(properties, required, self._is_sealed, self._definition.description)

    def _part(self) -> Schema:
        properties = {a.name: self._shown(a, part=True) for a in self._access.readable}
        return _object(properties, (), False, f"Some properties of a record. {self._definition.description}".rstrip())

    def _shown(self, attribute: Attribute, *, part: bool = False) -> Schema:
        """An attribute as answers have it."""
        definition = self._definition
        if attribute.name == definition.primary_key:
            return described(key_schema(definition, self._names), attribute.description)
        schema = self._value(attribute, "Part" if part else "")
        if attribute.relationship is not None:
            many = attribute.elements
            return described(schema if many else nullable(schema), attribute.description) | {"readOnly": True}
        schema = described(schema if attribute.required else nullable(schema), attribute.description)
        return schema | {"readOnly": True} if is_automatic(attribute) or attribute.computed_from is not None else schema

    # --- bodies ----------------------------------------------------------------------------------------------------------------------

    def _body(self, attributes: Iterable[Attribute], *, with_key: bool = False, key_required: bool = False) -> Schema:
        properties: dict[str, Schema] = {}
        required: list[str] = []
        definition = self._definition
        if with_key:
            properties[definition.primary_key] = key_schema(definition, self._names)
            required += [definition.primary_key] if key_required else []
        for attribute in attributes:
            if not is_automatic(attribute):
                properties[attribute.name] = self._taken(attribute, in_whole=True)
                if attribute.required and not (attribute.embed or attribute.default):
                    required.append(attribute.name)
        return _object(properties, required, self._is_closed, definition.description)

    def _changes(self) -> Schema:
        properties: dict[str, Schema] = {}
        for attribute in self._access.writable:
            if is_automatic(attribute):
                continue
            schema = self._taken(attribute)
            if attribute.type in _INCREMENTS and not attribute.elements:
                schema = described({"anyOf": [_TYPES[attribute.type], reference("Increment")]}, attribute.explained)
                schema = schema if attribute.required else schema | {"nullable": True}
            properties[attribute.name] = schema
        return _object(properties, (), self._is_closed, self._definition.description)

    def _taken(self, attribute: Attribute, *, in_whole: bool = False) -> Schema:
        """`in_whole`: in a record that gets defaults. They are told in words: generators take `default` for a property that has to be sent."""
        schema = self._value(attribute, "")
        said = f"{attribute.explained} Default: {attribute.default}." if in_whole and attribute.default else attribute.explained
        return described(schema if attribute.required else nullable(schema), said.strip())

    # --- parts -----------------------------------------------------------------------------------------------------------------------

    def _structure(self, structure: Structure, suffix: str) -> Schema:
        members = [a for a in structure.attributes if not a.hidden]
        properties: dict[str, Schema] = {}
        for attribute in members:
            schema = self._value(attribute, suffix)
            properties[attribute.name] = described(schema if attribute.required else nullable(schema), attribute.description)
        required = [a.name for a in members if a.required] if suffix != "Part" else ()
        return _object(properties, required, structure.sealed, structure.description)

    def _value(self, attribute: Attribute, suffix: str) -> Schema:
        """A value of the attribute, null aside. `suffix`: of the schemas of nested objects and related records."""
        schema = scalar(attribute, self._names)
        if schema is None:
            name = self._names.get(attribute.type)
            nothing_known: Schema = {"type": "object"} if attribute.relationship is not None else {}
            schema = nothing_known if name is None else reference(name + suffix)
        if not attribute.elements:
            return schema
        return array_of(schema if attribute.element_required or attribute.relationship is not None else nullable(schema))


def _object(properties: dict[str, Schema], required: Collection[str], closed: bool, description: str) -> Schema:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if description:
        schema["description"] = description
    if required:
        schema["required"] = list(required)
    if closed:
        schema["additionalProperties"] = False
    return schema
