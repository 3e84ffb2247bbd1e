"""Recognises the records of JSON bodies that a table takes as they are, or with no more than their own values converted: almost all (spec: http §2.3).

It says yes only where `Validator.record` would, and then with the same result; it never says what is wrong. What is declared as a number, a text or a boolean
is recognised by its type, all attributes of a record in one call; others are left to the checkers that `Validator` has. It knows no undeclared properties,
and no blobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svc.store.schema import TableDefinition
from svc.store.values.conversion import INT_MAX, INT_MIN, LONG_MAX
from svc.store.values.type_checkers import Checker

_NONE = type(None)
_SCALARS = (str, int, float, bool)
_MOST = 2**63 - 1  # of numbers without a bound that matters here
_PLAIN: dict[str, tuple[type, ...]] = {
    "ID": (str,), "String": (str,), "Int": (int,), "Long": (int,), "Float": (int, float), "BigInt": (int,), "Boolean": (bool,),
}  # fmt: skip
_BOUNDS = {"Int": (INT_MIN, INT_MAX), "Long": (-LONG_MAX, LONG_MAX), "Float": (-_MOST, _MOST), "BigInt": (-_MOST, _MOST)}


class PlainRecords:
    """Those of one table, as it is defined. For values that `content.json_type` has decoded."""

    __slots__ = ("_admitted", "_bounds", "_checkers", "_required")

    def __init__(self, definition: TableDefinition, checkers: Mapping[str, Checker]) -> None:
        """`checkers`: those that `Validator` has for JSON."""
        with_blobs = _with_blobs(definition)
        admitted: set[tuple[str, type]] = set()
        bounds: list[tuple[str, int, int]] = []
        checked: list[tuple[str, Checker]] = []
        required: set[str] = set()
        for attribute in definition.attributes:
            name, kind = attribute.name, attribute.type
            if not attribute.stored:
                continue
            types: tuple[type, ...]
            if attribute.elements or attribute.enum is not None or kind not in _PLAIN:
                types = () if kind in with_blobs else (*_SCALARS, list, dict)
                if kind == "Any" and not attribute.elements:
                    types = _SCALARS
                checked.append((name, checkers[name]))
            else:
                types = _PLAIN[kind]
                if kind in _BOUNDS:
                    bounds.append((name, *_BOUNDS[kind]))
            admitted.update((name, each) for each in (*types, _NONE))
            if attribute.required or name == definition.primary_key:
                admitted.discard((name, _NONE))
            if attribute.required and name != definition.primary_key and not (attribute.created_time or attribute.updated_time):
                required.add(name)
        self._admitted = frozenset(admitted)
        self._bounds = tuple(bounds)
        self._checkers = tuple(checked)
        self._required = frozenset(required)

    def maybe_record(self, data: dict[str, Any]) -> dict[str, Any] | None:
        """The record to store for a full write, its key among its properties: `data` itself, or a copy with its properties in their order. None: it is not
        plain, and may be wrong."""
        if not self._admitted.issuperset(zip(data, map(type, data.values()), strict=True)) or not data.keys() >= self._required:
            return None
        for name, low, high in self._bounds:
            value = data.get(name)
            if value is not None and not low <= value <= high:
                return None
        return self._checked(data) if self._checkers else data

    def _checked(self, data: dict[str, Any]) -> dict[str, Any] | None:
        failures: list[str] = []
        changed: dict[str, Any] = {}
        for name, check in self._checkers:
            value = data.get(name)
            if value is not None:
                checked = check(value, name, failures, 0)
                if failures:
                    return None
                if checked is not value:
                    changed[name] = checked
        return data | changed if changed else data


def _with_blobs(definition: TableDefinition) -> frozenset[str]:
    """The types whose values may be, or hold, blobs, which are kept in files: those that may hold anything among them."""
    found = {"Blob", "Any"}
    structures = {structure.name: structure for structure in definition.structures}
    while True:
        more = {
            name
            for name, structure in structures.items()
            if name not in found and (not structure.sealed or any(attribute.type in found for attribute in structure.attributes))
        }
        if not more:
            return frozenset(found)
        found |= more
