"""Attributes and tables as schemas of OpenAPI 3.0 (spec: http §10.2; schema-and-store §5 says what each type accepts and shows).

What is read and what may be written differ, so a table has several schemas:

    Product           a record as it is answered, in JSON form
    Product.property  one of its properties
    Product.body      a record as PUT takes it at its address
    Product.new       a record as POST takes it
    Product.keyed     a record as PUT takes it, and its key, at the address of the table
    Product.changes   the properties that PATCH sets
    Product.form, .form.new, .form.keyed, .form.changes: the same as fields of a form, which is flat

and a type of nested objects a second one, `Place.body`, where the two differ. `null` is allowed where the schema says `nullable`; a reference has no
place for that word, so it becomes one of two.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from svc.rest.openapi.access import TableAccess
from svc.store.schema import Attribute, Enumeration, Structure, TableDefinition, key_enum, key_type
from svc.store.values.conversion import INT_MAX, INT_MIN, KEY_LIMIT, LONG_MAX, MAX_DATE_MS, MIN_DATE_MS
from svc.store.values.keys import MAX_KEY_CHARACTERS

Schema = dict[str, Any]

_DAY = (
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
)
DATE_SHOWN = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$"
DATE_TAKEN = f"^(?!0000){_DAY}(?:[Tt ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.,][0-9]+)?)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?)?$"
BASE64_SHOWN = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
BASE64_TAKEN = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$"
DECIMAL = "^-?[0-9]{1,301}$"

_INT: Schema = {"type": "integer", "format": "Int", "minimum": INT_MIN, "maximum": INT_MAX}
_LONG: Schema = {"type": "integer", "format": "Long", "minimum": -LONG_MAX, "maximum": LONG_MAX}
_BIGINT: Schema = {"type": "integer", "format": "BigInt", "description": "At most 1000 bits."}

SHOWN: Mapping[str, Schema] = {
    "ID": {"type": "string", "format": "ID"},
    "String": {"type": "string"},
    "Int": _INT,
    "Long": _LONG,
    "BigInt": _BIGINT,
    "Float": {"type": "number", "format": "Float"},
    "Boolean": {"type": "boolean", "format": "Boolean"},
    "Date": {"type": "string", "format": "Date", "pattern": DATE_SHOWN},
    "Bytes": {"type": "string", "format": "Bytes", "pattern": BASE64_SHOWN},
    "Blob": {"format": "Blob", "description": "Its text if it is text, else its `description`, `contentType` and `size`."},
    "Any": {},
}


def reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


# What would be long in every place. The names are none that a type can have.
SHARED: Mapping[str, Schema] = {
    "svc.BigInt": {"anyOf": [_BIGINT, {"type": "string", "format": "BigInt", "pattern": DECIMAL}]},
    "svc.Date": {
        "anyOf": [
            {"type": "string", "format": "Date", "pattern": DATE_TAKEN, "description": "ISO 8601; without a zone it is UTC."},
            {"type": "number", "description": "Milliseconds since 1970-01-01.", "minimum": MIN_DATE_MS, "maximum": MAX_DATE_MS},
        ]
    },
}

TAKEN: Mapping[str, Schema] = {
    **SHOWN,
    "BigInt": reference("svc.BigInt"),
    "Date": reference("svc.Date"),
    "Bytes": {"type": "string", "format": "Bytes", "pattern": BASE64_TAKEN},
    "Blob": {"type": "string", "format": "Blob"},
}
_DIFFERENT = frozenset(name for name, schema in TAKEN.items() if schema is not SHOWN[name])

_INCREMENTS = frozenset(("Int", "Long", "BigInt", "Float"))

# As text of a URL. Numbers are not held to the range of their type there: no record is beyond it.
_QUERIED: Mapping[str, Schema] = {
    "Int": {"type": "integer", "format": "Int"},
    "Long": {"type": "integer", "format": "Long"},
    "BigInt": {"type": "integer", "format": "BigInt"},
    "Float": SHOWN["Float"],
    "Boolean": SHOWN["Boolean"],
    "Date": SHARED["svc.Date"],
    "ID": SHOWN["ID"],
    "Bytes": {"type": "string", "format": "Bytes"},
}


def array_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def described(schema: Schema, description: str) -> Schema:
    if not description:
        return schema
    if "$ref" in schema:  # whose neighbours do not count
        return {"allOf": [schema], "description": description}
    return schema | {"description": description}


_NULL: Schema = {"type": "object", "nullable": True, "enum": [None]}


def nullable(schema: Schema) -> Schema:
    """The schema that allows null besides. Without a type it does so already."""
    if "anyOf" in schema:
        return schema | {"anyOf": [nullable(schema["anyOf"][0]), *schema["anyOf"][1:]]}
    if "$ref" in schema or "allOf" in schema:
        return {"anyOf": [schema, _NULL]}
    if "enum" in schema:
        return schema | {"nullable": True, "enum": [*schema["enum"], None]}
    return schema | {"nullable": True} if "type" in schema else schema


def shown_type(attribute: Attribute) -> Schema | None:
    """A value, of a list an element, as it is answered; None: of a type that is no scalar."""
    return SHOWN.get(attribute.type) if attribute.enum is None else _values_of(attribute.enum)


def taken_type(attribute: Attribute) -> Schema | None:
    """The same as it may be written."""
    return TAKEN.get(attribute.type) if attribute.enum is None else _values_of(attribute.enum)


def _values_of(enum: Enumeration) -> Schema:
    return described({"type": "string", "enum": list(enum.values)}, enum.description)


def query_schema(attribute: Attribute) -> Schema | None:
    """What a value of `attribute=value` in a query must be, None if it cannot be compared so."""
    if attribute.relationship is not None or attribute.type == "Blob":
        return None
    if attribute.enum is not None:
        return _values_of(attribute.enum)
    if attribute.type in _QUERIED:
        return _QUERIED[attribute.type]
    return {"type": "string"} if attribute.type in SHOWN else None


def key_in_path(definition: TableDefinition) -> Schema:
    """The key as part of an address: several segments are sent with %2F between them, or as they are."""
    enum = key_enum(definition)
    if enum is not None:
        return _values_of(enum)
    kind = key_type(definition)
    if definition.split_segments or kind not in _KEYS:
        return {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARACTERS}
    return _KEYS[kind]


_NO_SLASH: Schema = {"minLength": 0, "pattern": "^[^/]*$"}
_EMPTY: Schema = {"type": "string", "maxLength": 0}  # counts as missing

_KEYS: Mapping[str, Schema] = {
    "ID": {"type": "string", "format": "ID", "minLength": 1, "maxLength": MAX_KEY_CHARACTERS},
    "String": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARACTERS},
    "Int": _INT,
    "Long": _LONG,
    "BigInt": {"type": "integer", "format": "BigInt", "minimum": 1 - KEY_LIMIT, "maximum": KEY_LIMIT - 1},
    "Float": SHOWN["Float"],
}


def key_in_record(definition: TableDefinition) -> Schema:
    enum = key_enum(definition)
    if enum is not None:
        return _values_of(enum)
    kind = key_type(definition)
    alone: Schema = _KEYS.get(kind) or {"anyOf": [_KEYS["String"], {"type": "number"}]}
    if not definition.split_segments:
        return alone
    segments = array_of(_segment(alone))
    return {"anyOf": [alone, segments | {"minItems": 2, "description": "A key of several segments."}]}


def _segment(key: Schema) -> Schema:
    """A segment of a list key, where `key` is one alone."""
    if "anyOf" in key:
        return {"anyOf": [key["anyOf"][0] | _NO_SLASH, key["anyOf"][1]]}
    return key | _NO_SLASH if key["type"] == "string" else key


def _one_of(schema: Schema) -> Schema:
    return array_of(schema) | {"minItems": 1, "maxItems": 1}


def key_in_body(definition: TableDefinition) -> Schema:
    """The key as a body may give it."""
    schema = key_in_record(definition)
    if key_type(definition) == "BigInt":
        return {"anyOf": [schema, {"type": "string", "pattern": "^-?[0-9]{1,19}$"}]}
    if definition.split_segments:
        alone, segments = schema["anyOf"]
        return {"anyOf": [alone, segments, _one_of(_segment(alone) | ({"minLength": 1} if alone.get("type") == "string" else {}))]}
    return schema


def key_may_be_missing(definition: TableDefinition) -> bool:
    """Whether POST makes one."""
    return key_type(definition) != "Float" and key_enum(definition) is None


def _form_value(schema: Schema) -> Schema:
    """An empty field and the word stand for null, unless its type is text."""
    if schema.get("type") == "string":
        return schema | {"enum": [*schema["enum"], ""]} if "enum" in schema else schema
    return {"anyOf": [*schema.get("anyOf", [schema]), {"type": "string", "enum": ["", "null"]}]}


class TableSchemas:
    """The component schemas of one table.

    `names`: type -> name of its component, for the types of nested objects of this table and for related ones; a related type that is not in it is
    shown as an object of no declared shape. `is_opened`: code of an application may show and take more than the role of the caller allows.
    """

    def __init__(self, access: TableAccess, name: str, names: Mapping[str, str], *, is_opened: bool = False) -> None:
        definition = access.definition
        self._access = access
        self._definition = definition
        self._is_sealed = definition.sealed and not is_opened
        self._is_closed = not (access.is_open or is_opened)
        self._name = name
        self._names = names
        self._structures = {structure.name: structure for structure in definition.structures}
        self._different = self._find_different()

    def components(self) -> Iterator[tuple[str, Schema]]:
        """(name, schema) of everything that is this table's own."""
        definition = self._definition
        yield self._name, self._record()
        yield f"{self._name}.body", self._body(self._access.writable)
        yield f"{self._name}.new", self._keyed(new=True)
        yield f"{self._name}.keyed", self._keyed(new=False)
        yield f"{self._name}.changes", self._changes()
        yield f"{self._name}.property", self._property()
        yield f"{self._name}.form", self._form(partial=False)
        yield f"{self._name}.form.new", self._keyed_form(new=True)
        yield f"{self._name}.form.keyed", self._keyed_form(new=False)
        yield f"{self._name}.form.changes", self._form(partial=True)
        for structure in definition.structures:
            name = self._names[structure.name]
            yield name, self._structure(structure, body=False)
            if structure.name in self._different:
                yield f"{name}.body", self._structure(structure, body=True)

    def _form(self, *, partial: bool) -> Schema:
        """A record as the fields of a form: scalars, and lists of them as repeated fields. `partial`: what PATCH sets."""
        definition = self._definition
        key: Schema = {"type": _KEYS.get(key_type(definition), TAKEN["String"])["type"]}  # the address decides, but it must be readable
        properties: dict[str, Schema] = {definition.primary_key: _form_value(key)}
        required: list[str] = []
        for attribute in self._access.writable:
            schema = taken_type(attribute)
            if schema is not None and attribute.type not in ("Any", "Blob"):
                may_be_null = not (attribute.element_required if attribute.elements else attribute.required)
                schema = _form_value(schema) if may_be_null else schema
                properties[attribute.name] = {"anyOf": [array_of(schema) | {"minItems": 1}, schema]} if attribute.elements else schema
                if attribute.required and not (
                    partial or attribute.created_time or attribute.updated_time or attribute.embed or attribute.default
                ):
                    required.append(attribute.name)
        schema = self._object(properties, required, self._is_closed) | {"minProperties": 1}
        return schema if self._is_closed else schema | {"additionalProperties": {"type": "string"}}

    # --- the schemas of a table --------------------------------------------------------------------------------------------------

    def _record(self) -> Schema:
        definition = self._definition
        readable = self._access.readable
        properties = {a.name: self._shown_property(a) for a in readable}
        if definition.primary_key in properties:
            key = definition.attribute(definition.primary_key)
            properties[definition.primary_key] = described(key_in_record(definition), key.description if key else "")
        required = [a.name for a in readable if a.stored and (a.required or a.name == definition.primary_key)]
        return self._object(properties, required, self._is_sealed, definition.description)

    def _shown_property(self, attribute: Attribute) -> Schema:
        if attribute.relationship is not None:
            related = self._shown(attribute)
            if not attribute.elements:
                related = {"allOf": [related]} if "$ref" in related else related
            return described(related, attribute.description) | {"readOnly": True}
        schema = self._shown(attribute)
        schema = described(schema if attribute.required else nullable(schema), attribute.explained)
        if attribute.computed_from is not None or attribute.created_time or attribute.updated_time:
            schema = ({"allOf": [schema]} if "$ref" in schema else schema) | {"readOnly": True}
        return schema

    def _body(self, attributes: tuple[Attribute, ...]) -> Schema:
        properties = self._key_property()
        for attribute in attributes:
            properties[attribute.name] = self._given_property(attribute)
        required = [a.name for a in attributes if a.required and not (a.created_time or a.updated_time or a.embed or a.default)]
        return self._object(properties, required, self._is_closed, self._definition.description)

    def _keyed(self, *, new: bool) -> Schema:
        """A record as the body of a request to the collection gives it. `new`: a key is made for a record without one, where keys can be made."""
        access = self._access
        body = self._body(access.creatable) if new and access.creatable != access.writable else reference(f"{self._name}.body")
        return {"allOf": [body, self._with_key(new=new, form=False)]}

    def _keyed_form(self, *, new: bool) -> Schema:
        return {"allOf": [reference(f"{self._name}.form"), self._with_key(new=new, form=True)]}

    def _with_key(self, *, new: bool, form: bool) -> Schema:
        name = self._definition.primary_key
        key = key_in_body(self._definition)
        if new and key_may_be_missing(self._definition):
            value = _form_value(key) if form else nullable(key)
            missing = [_EMPTY, _one_of(_EMPTY)] if self._definition.split_segments else [_EMPTY]
            return {"type": "object", "properties": {name: {"anyOf": [value, *missing]}}}
        return {"type": "object", "properties": {name: key}, "required": [name]}

    def _property(self) -> Schema:
        """Any one of the properties of a record."""
        choices: list[Schema] = []
        for attribute in self._access.readable:
            schema = self._shown(attribute)
            schema = schema if attribute.required else nullable(schema)
            if schema not in choices:
                choices.append(schema)
        return {} if {} in choices or not choices else {"anyOf": choices}

    def _changes(self) -> Schema:
        properties = self._key_property()
        for attribute in self._access.writable:
            schema = self._taken_property(attribute)
            if attribute.type in _INCREMENTS and not attribute.elements:
                amount = {"type": SHOWN[attribute.type]["type"]}  # the range is that of the sum
                increment = self._object({"__op__": {"type": "string", "enum": ["add"]}, "value": amount}, ["__op__", "value"])
                choices = schema.get("anyOf", [schema])
                schema = {"anyOf": [*choices, described(increment, "Adds `value`, exactly among concurrent writers.")]}
            properties[attribute.name] = schema
        return self._object(properties, [], self._is_closed, self._definition.description)

    def _key_property(self) -> dict[str, Schema]:
        attribute = self._definition.attribute(self._definition.primary_key)
        if attribute is not None and attribute.hidden:
            return {}
        return {self._definition.primary_key: {"description": "The address of the record decides; a value given here is not looked at."}}

    # --- parts ---------------------------------------------------------------------------------------------------------------------

    def _structure(self, structure: Structure, *, body: bool) -> Schema:
        properties: dict[str, Schema] = {}
        for attribute in structure.attributes:
            if attribute.hidden or (body and not attribute.stored):
                continue
            properties[attribute.name] = self._taken_property(attribute) if body else self._shown_property(attribute)
        required = [a.name for a in structure.attributes if a.required and a.stored and not a.hidden]
        return self._object(properties, required, structure.sealed, structure.description)

    def _shown(self, attribute: Attribute) -> Schema:
        """A value as it is answered, null aside."""
        return self._list(attribute, shown_type(attribute), body=False)

    def _taken_property(self, attribute: Attribute) -> Schema:
        schema = self._list(attribute, taken_type(attribute), body=True)
        description = attribute.explained
        if attribute.created_time or attribute.updated_time:
            description = f"{description} A given value is replaced by the time of the write.".lstrip()
        return described(schema if attribute.required else nullable(schema), description)

    def _given_property(self, attribute: Attribute) -> Schema:
        """The same in a whole record: a new one that lacks it gets its default."""
        schema = self._taken_property(attribute)
        if not attribute.default:
            return schema
        return ({"allOf": [schema]} if "$ref" in schema else schema) | {"default": json.loads(attribute.default)}

    def _list(self, attribute: Attribute, schema: Schema | None, *, body: bool) -> Schema:
        if schema is None:
            name = self._names.get(attribute.type)
            if name is None:
                schema = {"type": "object"} if attribute.relationship is not None else {}
            else:
                schema = reference(f"{name}.body" if body and attribute.type in self._different else name)
        if not attribute.elements:
            return schema
        return array_of(schema if attribute.element_required or attribute.relationship is not None else nullable(schema))

    @staticmethod
    def _object(properties: dict[str, Schema], required: list[str], sealed: bool = False, description: str = "") -> Schema:
        schema: Schema = {"type": "object", "properties": properties}
        if description:
            schema["description"] = description
        if required:
            schema["required"] = required
        if sealed:
            schema["additionalProperties"] = False
        return schema

    def _find_different(self) -> frozenset[str]:
        """The types of nested objects that are taken in another form than they are shown, directly or through a type inside."""
        different: set[str] = set()
        while True:
            more = {
                structure.name
                for structure in self._structures.values()
                if structure.name not in different
                and any(a.type in _DIFFERENT or a.type in different or not a.stored for a in structure.attributes)
            }
            if not more:
                return frozenset(different)
            different |= more
