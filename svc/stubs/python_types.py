"""Attributes as Python types: what records hold, and what conditions are compared with (spec: applications §11).

In generated text `_b` is `builtins`, `_d` `datetime`, `_y` `typing` and `_t` `svc._types`: attributes and tables may have any other name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from svc.store.schema import Attribute, Enumeration, Structure, TableDefinition, key_enum, key_type

_READ = {
    "ID": "_b.str",
    "String": "_b.str",
    "Int": "_b.int",
    "Long": "_b.int",
    "BigInt": "_b.int",
    "Float": "_b.float",
    "Boolean": "_b.bool",
    "Date": "_d.datetime",
    "Bytes": "_b.bytes",
    "Blob": "_t.Blob",
    "Any": "_y.Any",
}
_WRITTEN = {**_READ, "Blob": "_t.BlobValue"}
COMPARED = {
    "Text": "_b.str",
    "Number": "_b.float",
    "Boolean": "_b.bool",
    "Date": "_t.DateValue",
    "Bytes": "_b.bytes",
    "Blob": "_b.str | _b.bytes",
    "Any": "_y.Any",
}
"""Kind of a condition -> what it compares with."""

_KINDS = {"ID": "Text", "String": "Text", "Int": "Number", "Long": "Number", "BigInt": "Number", "Float": "Number"}
NUMBERS = frozenset(("Int", "Long", "Float", "BigInt"))

Structures = Mapping[Structure, str]
"""Structure -> name of its class."""


class PythonTypes:
    """The types of one table's attributes."""

    def __init__(self, definition: TableDefinition, structures: Structures) -> None:
        self._definition = definition
        self._structures = {structure.name: structures[structure] for structure in definition.structures}

    @property
    def key(self) -> str:
        if self._definition.split_segments:
            return "_t.SegmentedKey"
        kind = key_type(self._definition)
        enum = key_enum(self._definition)
        return "_t.AnyKey" if kind == "Any" else _READ[kind] if enum is None else _literal(enum)

    def read(self, attribute: Attribute) -> str:
        """What `record.name` is."""
        if self.is_key(attribute):
            return self.key
        kind = _scalar(_READ, attribute) or self._structures.get(attribute.type, "_y.Any")
        if attribute.elements:
            kind = f"_b.list[{optional(kind, attribute.element_required)}]"
        return optional(kind, attribute.required)

    def written(self, attribute: Attribute, *, increment: bool = False) -> str:
        """What may be stored."""
        if self.is_key(attribute):
            return self.key
        kind = _scalar(_WRITTEN, attribute) or self._structures.get(attribute.type, "_y.Any")
        if attribute.elements:
            kind = f"_b.list[{kind}]" if attribute.element_required or kind == "_y.Any" else f"_b.list[{kind}] | _b.list[{kind} | None]"
        elif increment and attribute.type in NUMBERS:
            kind = f"{kind} | _t.Increment"
        return optional(kind, attribute.required)

    def compared(self, attribute: Attribute) -> str:
        """What a condition compares it with, of a list its elements: one of COMPARED."""
        if self.is_key(attribute) and self._definition.split_segments:
            return "Any"
        return _KINDS.get(attribute.type) or (attribute.type if attribute.type in COMPARED else "Any")

    def is_key(self, attribute: Attribute) -> bool:
        return attribute.name == self._definition.primary_key

    def structure(self, attribute: Attribute) -> Structure | None:
        """The structure of nested objects."""
        return next((each for each in self._definition.structures if each.name == attribute.type), None)


def _scalar(types: Mapping[str, str], attribute: Attribute) -> str | None:
    return types.get(attribute.type) if attribute.enum is None else _literal(attribute.enum)


def _literal(enum: Enumeration) -> str:
    """
    >>> _literal(Enumeration("Status", ("OPEN", "CLOSED")))
    '_y.Literal["OPEN", "CLOSED"]'
    """
    return f"_y.Literal[{', '.join([json.dumps(value) for value in enum.values])}]"


def optional(kind: str, required: bool) -> str:
    """
    >>> optional("_b.int", False), optional("_y.Any", False), optional("_b.int", True)
    ('_b.int | None', '_y.Any', '_b.int')
    """
    return kind if required or kind == "_y.Any" else f"{kind} | None"
