"""What a query means, written down a second time without planner, indexes or encodings: slow, and obviously right.

Works on records as dicts and on parsed nodes whose values are typed already (conversion `FORCED` or `TYPED`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cmp_to_key

from svc.query.nodes import Comparator, Condition, Group, Query, RelationFilter

_RANGES = {
    Comparator.LESS_THAN: lambda order: order < 0,
    Comparator.LESS_THAN_EQUAL: lambda order: order <= 0,
    Comparator.GREATER_THAN: lambda order: order > 0,
    Comparator.GREATER_THAN_EQUAL: lambda order: order >= 0,
}
_PAIRS = {
    Comparator.BETWEEN: (Comparator.GREATER_THAN_EQUAL, Comparator.LESS_THAN_EQUAL),
    Comparator.GELT: (Comparator.GREATER_THAN_EQUAL, Comparator.LESS_THAN),
    Comparator.GTLE: (Comparator.GREATER_THAN, Comparator.LESS_THAN_EQUAL),
    Comparator.GTLT: (Comparator.GREATER_THAN, Comparator.LESS_THAN),
}


def rank(value):
    """(number of the kind, value within it)."""
    if value is None:
        return 0, 0
    if isinstance(value, bool):
        return 1, int(value)
    if isinstance(value, datetime):
        return 2, (value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000
    if isinstance(value, (int, float)):
        return 2, value
    if isinstance(value, str):
        return 3, [ord(character) for character in value]
    if isinstance(value, bytes):
        return 4, list(value)
    if isinstance(value, list):
        return (5, value) if all(has_place(element) for element in value) else (6, 0)
    return 6, 0


def has_place(value) -> bool:
    """Objects, and lists that hold one, have no place in the order: they come last."""
    return rank(value)[0] < 6


def compare(a, b) -> int:
    (kind_a, key_a), (kind_b, key_b) = rank(a), rank(b)
    if kind_a != kind_b:
        return -1 if kind_a < kind_b else 1
    if kind_a == 5:
        for left, right in zip(key_a, key_b, strict=False):
            order = compare(left, right)
            if order:
                return order
        return (len(key_a) > len(key_b)) - (len(key_a) < len(key_b))
    return (key_a > key_b) - (key_a < key_b)


def text_of(value):
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"
    return None


def element_matches(element, comparator, value) -> bool:
    if comparator is Comparator.EQUALS:
        return rank(element)[0] == rank(value)[0] and rank(element)[0] < 6 and compare(element, value) == 0
    if comparator in _RANGES:
        return value is not None and rank(element)[0] == rank(value)[0] and _RANGES[comparator](compare(element, value))
    if comparator in _PAIRS:
        low, high = _PAIRS[comparator]
        same = rank(value[0])[0] == rank(value[1])[0]
        return same and element_matches(element, low, value[0]) and element_matches(element, high, value[1])
    if comparator is Comparator.STARTS_WITH:
        return isinstance(element, str) and element.startswith(value)
    text = text_of(element)
    if text is None:
        return False
    return value in text if comparator is Comparator.CONTAINS else text.endswith(value)


def values_at(value, path):
    if isinstance(value, list):
        return [leaf for element in value for leaf in values_at(element, path)]
    if not path:
        return [value]
    return values_at(value.get(path[0]), path[1:]) if isinstance(value, dict) else [None]


def related(record, attribute, database):
    relationship = attribute.relationship
    records = database[relationship.table]
    value = record.get(relationship.from_ or "id")
    starts = [v for v in (value if isinstance(value, list) else [value]) if v is not None]
    found = []
    for start in starts:
        for other in records:
            ends = other.get(relationship.to or "id")
            if start in (ends if isinstance(ends, list) else [ends]) and other not in found:
                found.append(other)
    return found


class Brute:
    """`definitions` and `database` by name of the table."""

    def __init__(self, definitions, database) -> None:
        self.definitions = definitions
        self.database = database

    def matches(self, node, record, table) -> bool:
        if isinstance(node, Group):
            if node.operator == "or":
                return any(self.matches(member, record, table) for member in node.members)
            return self._all(node.members, record, table)
        return self._all((node,), record, table)

    def _all(self, members, record, table) -> bool:
        through = {}
        for node in members:
            attribute = None if isinstance(node, Group) else self.definitions[table].attribute(node.path[0])
            if isinstance(node, Condition) and attribute is not None and attribute.relationship is not None:
                through.setdefault(node.path[0], []).append(Condition(node.path[1:], node.comparator, node.value))
            elif isinstance(node, RelationFilter):
                others = related(record, attribute, self.database)
                target = attribute.relationship.table
                if not any(node.query.where is None or self.matches(node.query.where, other, target) for other in others):
                    return False
            elif isinstance(node, Group):
                if not self.matches(node, record, table):
                    return False
            elif not self.condition(node, record):
                return False
        for name, conditions in through.items():
            attribute = self.definitions[table].attribute(name)
            target = attribute.relationship.table
            if not any(self._all(tuple(conditions), other, target) for other in related(record, attribute, self.database)):
                return False
        return True

    def condition(self, node: Condition, record) -> bool:
        elements = values_at(record.get(node.path[0]), node.path[1:])
        if node.comparator is Comparator.NOT_EQUAL:
            return not any(element_matches(element, Comparator.EQUALS, node.value) for element in elements)
        return any(element_matches(element, node.comparator, node.value) for element in elements)

    def run(self, query: Query, table: str):
        rows = [r for r in self.database[table] if query.where is None or self.matches(query.where, r, table)]
        rows.sort(key=cmp_to_key(lambda a, b: compare(a["id"], b["id"])))
        for key in reversed(query.sort):
            rows.sort(key=cmp_to_key(lambda a, b, key=key: self._order(a, b, key)))
        end = None if query.limit is None else query.offset + query.limit
        return rows[query.offset : end]

    @staticmethod
    def _order(a, b, key) -> int:
        order = compare(a.get(key.path[0]), b.get(key.path[0]))
        return -order if key.descending else order
