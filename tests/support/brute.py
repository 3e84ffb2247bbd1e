"""What a query means, written down a second time without planner, indexes or encodings: slow, and obviously right.

Works on records as dicts and on parsed nodes whose values are typed already (conversion `FORCED` or `TYPED`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from functools import cmp_to_key
from itertools import product

from svc.query.nodes import Comparator, Condition, Group, Query, RelationFilter, SortKey

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
        if query.aggregate is not None:
            return self.aggregate(query, rows, table)
        rows = self.sorted(rows, query.sort, table)
        end = None if query.limit is None else query.offset + query.limit
        return rows[query.offset : end]

    def sorted(self, rows, sort, table):
        rows = sorted(rows, key=cmp_to_key(lambda a, b: compare(a["id"], b["id"])))
        for key in reversed(sort):
            values = {id(row): self.sort_value(row, key.path, key.descending, table) for row in rows}
            rows.sort(key=cmp_to_key(lambda a, b, v=values: compare(v[id(a)], v[id(b)])), reverse=False)
            if key.descending:
                rows = stable_reverse(rows, lambda a, b, v=values: compare(v[id(a)], v[id(b)]))
        return rows

    def sort_value(self, record, path, largest, table):
        """Of several values the smallest, or the largest; null if there is none."""
        attribute = self.definitions[table].attribute(path[0])
        if attribute is not None and attribute.relationship is not None:
            others = related(record, attribute, self.database)
            values = [self.sort_value(other, path[1:], largest, attribute.relationship.table) for other in others]
        elif len(path) == 1:
            values = [record.get(path[0])]
        else:
            values = values_at(record.get(path[0]), path[1:])
        if not values:
            return None
        best = values[0]
        for value in values[1:]:
            order = compare(value, best)
            if order > 0 if largest else order < 0:
                best = value
        return best

    # selection

    def is_many(self, attribute, table) -> bool:
        source = self.definitions[table].attribute(attribute.relationship.from_ or "")
        return attribute.relationship.to is not None or attribute.elements or (source is not None and source.elements)

    def demands(self, node, name):
        """Filters of related records, one of which a selected one has to pass; None: none."""
        if isinstance(node, Group) and node.operator == "or":
            found = [self.demands(member, name) for member in node.members]
            return None if None in found else [demand for demands in found for demand in demands]
        members = node.members if isinstance(node, Group) else () if node is None else (node,)
        joint, found = [], []
        for member in members:
            if isinstance(member, Group):
                found += self.demands(member, name) or []
            elif member.path[0] == name and isinstance(member, RelationFilter):
                found += [] if member.query.where is None else [member.query.where]
            elif member.path[0] == name:
                joint.append(Condition(member.path[1:], member.comparator, member.value))
        if joint:
            found.append(Group("and", tuple(joint)))
        return found or None

    def shape(self, record, select, table, where=None, sort=()):
        """An object; only names, `*`, relationships, and relationships with a nested selection."""
        result = {}
        for item in select.items:
            name = item.path[0]
            attribute = self.definitions[table].attribute(name)
            if name == "*":
                result.update(record)
            elif attribute is None or attribute.relationship is None:
                if name in record:
                    result[name] = record[name]
            else:
                target = attribute.relationship.table
                many = self.is_many(attribute, table)
                others = related_in_order(record, attribute, self.database, many)
                demands = self.demands(where, name)
                if many and demands is not None:
                    others = [other for other in others if any(self.matches(demand, other, target) for demand in demands)]
                through = tuple([SortKey(key.path[1:], key.descending) for key in sort if key.path[0] == name and len(key.path) > 1])
                if through and many:
                    others = self.sorted(others, through, target)
                below = None if demands is None else Group("or", tuple(demands)) if len(demands) > 1 else demands[0]
                shaped = [other if item.nested is None else self.shape(other, item.nested, target, below, through) for other in others]
                if many:
                    result[name] = shaped
                elif shaped:
                    result[name] = shaped[0]
        return result

    # aggregates

    def key_values(self, record, path, table):
        """The values of a path for groups and functions: the elements of a list each, a missing one is null."""
        attribute = self.definitions[table].attribute(path[0])
        if attribute is not None and attribute.relationship is not None:
            others = related_in_order(record, attribute, self.database, False)
            return self.key_values(others[0], path[1:], attribute.relationship.table) if others else [None]
        value = record.get(path[0])
        if len(path) > 1:
            return values_at(value, path[1:])
        return value if isinstance(value, list) else [value]

    def aggregate(self, query, rows, table):
        aggregate = query.aggregate
        if aggregate.kind == "count":
            return [{"count": len(rows)}]
        groups = []  # (key values, rows)
        for row in rows:
            options = []
            for path in aggregate.keys:
                different = []
                for value in self.key_values(row, path, table):
                    if has_place(value) and not any(same(value, other) for other in different):
                        different.append(value)
                options.append(different)
            for values in product(*options):
                group = next((group for group in groups if all(map(same, group[0], values))), None)
                if group is None:
                    groups.append((list(values), [row]))
                else:
                    group[1].append(row)
        for at, path in enumerate(aggregate.keys):  # a number is shown as a date only if all equal values are dates
            numbers = [value for row in rows for value in self.key_values(row, path, table) if type(value) in (int, float)]
            for values, _ in groups:
                if isinstance(values[at], datetime):
                    values[at] = next((number for number in numbers if same(number, values[at])), values[at])
        if not aggregate.keys and not groups:
            groups = [([], [])]
        names = ["value"] if aggregate.kind == "facet" else [".".join(path) for path in aggregate.keys]
        functions = [("count", None)] if aggregate.kind == "facet" else aggregate.functions
        result = []
        for values, members in groups:
            found = dict(zip(names, values, strict=True))
            for function, path in functions:
                found[function if path is None else ".".join((function, *path))] = self.function(function, path, members, table)
            result.append(found)
        keys = [SortKey((name,)) for name in names]
        order = [SortKey(("count",), True), *keys] if aggregate.kind == "facet" else keys
        for key in reversed((*query.sort, *(keys if query.sort else order))):
            name = ".".join(key.path)
            result.sort(key=cmp_to_key(lambda a, b, name=name: compare(a[name], b[name])))
            if key.descending:
                result = stable_reverse(result, lambda a, b, name=name: compare(a[name], b[name]))
        end = None if query.limit is None else query.offset + query.limit
        return result[query.offset : end]

    def function(self, function, path, rows, table):
        if function == "count":
            return len(rows)
        values = [value for row in rows for value in self.key_values(row, path, table)]
        if function in ("sum", "avg"):
            numbers = [Fraction(value) for value in values if type(value) in (int, float)]
            if function == "avg" and not numbers:
                return None
            total = sum(numbers, Fraction(0)) / (len(numbers) if function == "avg" else 1)
            is_whole = total.denominator == 1 and (
                abs(total) <= 2**53 or (function == "sum" and not any(type(value) is float for value in values))
            )
            return int(total) if is_whole else float(total)
        values = [value for value in values if value is not None and has_place(value)]
        best = None
        for value in values:
            order = 0 if best is None else compare(value, best)
            if best is None or (order > 0 if function == "max" else order < 0) or (order == 0 and isinstance(best, datetime)):
                best = value
        return best


def same(a, b) -> bool:
    return rank(a)[0] == rank(b)[0] and compare(a, b) == 0


def stable_reverse(rows, order):
    """Descending, equal ones in the order they had: `rows` is sorted ascending."""
    groups = []
    for row in rows:
        if groups and order(groups[-1][-1], row) == 0:
            groups[-1].append(row)
        else:
            groups.append([row])
    return [row for group in reversed(groups) for row in group]


def related_in_order(record, attribute, database, many):
    """In the order of an array of keys; else by the key of the other records."""
    relationship = attribute.relationship
    found = related(record, attribute, database)
    value = record.get(relationship.from_ or "id")
    if relationship.to is None and isinstance(value, list):
        return [other for key in value for other in found if key is not None and other["id"] == key]
    if relationship.to is not None:
        found.sort(key=cmp_to_key(lambda a, b: compare(a["id"], b["id"])))
    return found if many else found[:1]
