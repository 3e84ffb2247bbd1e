"""The values of attributes that have few, with how often each comes: counted by indexes in a few steps, never by reading records (spec: http §7.8.5)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

from svc.errors import Problem
from svc.pages.cells import shortened
from svc.pages.labels import Labels
from svc.pages.links import Variants
from svc.query.nodes import Condition, Filter
from svc.store import Table
from svc.store.env import Txn
from svc.store.schema import Attribute
from svc.store.values.keys import decode_key

MOST_FACETS = 6  # attributes whose values are offered
MOST_LOOKED_AT = 24  # ... whose indexes are asked
MOST_VALUES = 12  # of one of them
_LONGEST = 60  # characters of a value
_NOT_TOLD = frozenset(("Any", "Blob", "Bytes", "Date"))  # whose index keys do not tell the value


@dataclass(slots=True)
class FacetValue:
    """`count`: records that have it, None where only some of them are asked for. `label`: what the record is called that it is the key of."""

    text: str
    href: str
    count: int | None
    label: str = ""


@dataclass(slots=True)
class Facet:
    """`href`: of the values with their numbers as a table, of the records that the query finds."""

    name: str
    href: str
    values: list[FacetValue]


def facets_of(table: Table, attributes: list[Attribute], conditions: tuple[Filter, ...], variants: Variants, labels: Labels) -> list[Facet]:
    """`attributes`: of which the caller may know how often each value comes in the table. `conditions`: of the query, whose attributes are left out.
    `labels`: of the records whose keys attributes hold."""
    if variants.is_empty or table.definition.expiration is not None:  # of what has expired an index does not know
        return []
    asked = {each.path[0] for each in conditions if isinstance(each, Condition)}
    found: list[Facet] = []
    txn = table.database.snapshot()
    candidates = [each for each in attributes if each.name not in asked and each.type not in _NOT_TOLD and each.name in table.indexes]
    for attribute in candidates[:MOST_LOOKED_AT]:
        values = _values(table, attribute.name, txn)
        if len(values) < 2:
            continue
        label_of = labels.of(attribute.name)
        told = [
            FacetValue(_text(value), href, None if conditions else count, "" if label_of is None else label_of(value))
            for value, count in sorted(values, key=lambda each: -each[1])
            if (href := variants.narrowed(attribute.name, value))
        ]
        found.append(Facet(shortened(attribute.name, _LONGEST), variants.counted(attribute.name), told))
        if len(found) == MOST_FACETS:
            break
    return found


def _values(table: Table, name: str, txn: Txn) -> list[tuple[Any, int]]:
    """(value, number of records) of each value; none, if they are many, or not told."""
    index = table.indexes[name]
    if name == table.primary_key or not index.ready or not index.has_values or index.unique:
        return []
    try:
        values = list(islice(index.values(txn), MOST_VALUES + 1))
        return [] if len(values) > MOST_VALUES else [(decode_key(key), count) for key, count in values]
    except (Problem, ValueError):  # it is being built; a long text, which has no value of its own there
        return []


def _text(value: Any) -> str:
    if value is None:
        return "null or missing"
    if isinstance(value, bool):
        return str(value).lower()
    return shortened(str(value), _LONGEST) or "(empty)"
