"""Random schemas, records and queries over them, for tests that hold plans beside brute force (`tests.support.brute`).

Two tables, A and B, with one attribute of each kind and relationships of each form between them and within A; which attributes are
indexed is drawn. Everything is drawn from a `random.Random`, so that a seed or the bytes of a fuzzer make a case.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from svc.query.nodes import Aggregate, Comparator, Condition, Conversion, Group, Query, RelationFilter, Select, SelectItem, SortKey
from svc.store.schema import Attribute, Relationship, TableDefinition

IDS = ["a", "b", "c", "d", "e/1", "e/2", "f" * 600, "g" * 600]
TEXTS = ["", "a", "b", "ab", "ba", "B", "é", "x" * 256, "x" * 256 + "a", "x" * 300 + "a", "x" * 300 + "b"]
NUMBERS = [0, 1, 2, 2.5, -1, -0.5, 2**53 + 1, 10**30, 1e-3]
MOMENTS = [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=n) for n in (0, 1, -1, 10**9)]
SCALARS = [None, True, False, *NUMBERS, *TEXTS, *MOMENTS, b"", b"a"]

_PLAIN = [
    ("s", "String", False, TEXTS),
    ("n", "Float", False, NUMBERS),
    ("i", "Int", False, [0, 1, 2]),
    ("b", "Boolean", False, [True, False]),
    ("d", "Date", False, MOMENTS),
    ("t", "String", True, TEXTS[:6]),
    ("x", "Any", False, None),
    ("k", "ID", False, ["a", "b", "c"]),
    ("fk", "ID", False, IDS),
    ("up", "ID", False, IDS),
    ("fks", "ID", True, IDS),
]
_RELATIONSHIPS = {
    "A": [
        ("one", "B", False, "fk", None),
        ("many", "B", True, "fks", None),
        ("parent", "A", False, "up", None),
        ("children", "A", True, None, "up"),
        ("alike", "B", True, "k", "k"),
        ("twins", "A", True, "k", "k"),
    ],
    "B": [("back", "A", True, None, "fk"), ("backs", "A", True, None, "fks"), ("owner", "A", False, "up", None)],
}
COMPARED = list(Comparator)[:6]
RANGES = [Comparator.BETWEEN, Comparator.GELT, Comparator.GTLE, Comparator.GTLT]
TEXT_TESTS = [Comparator.STARTS_WITH, Comparator.CONTAINS, Comparator.ENDS_WITH]


def definitions(source: random.Random) -> dict[str, TableDefinition]:
    found = {}
    for name in "AB":
        attributes = [Attribute("id", "ID", primary_key=True)]
        for attribute, kind, elements, _ in _PLAIN:
            attributes.append(Attribute(attribute, kind, elements, indexed=attribute == "k" or source.random() < 0.6))
        for attribute, target, elements, from_, to in _RELATIONSHIPS[name]:
            attributes.append(Attribute(attribute, target, elements, relationship=Relationship(target, from_, to)))
        found[name] = TableDefinition(name, attributes=tuple(attributes))
    return found


def anything(source: random.Random):
    kind = source.randrange(6)
    if kind == 0:
        return [source.choice(SCALARS) for _ in range(source.randrange(4))]
    if kind == 1:
        return {name: source.choice(SCALARS) for name in source.sample(["color", "size"], source.randrange(3))}
    return source.choice(SCALARS)


def record(source: random.Random, key: str) -> dict[str, object]:
    found: dict[str, object] = {"id": key}
    for name, _, elements, values in _PLAIN:
        if source.random() < 0.25:
            continue
        if values is None:
            found[name] = anything(source)
        elif source.random() < 0.15:
            found[name] = None
        elif elements:
            found[name] = [
                source.choice([*values, None]) if source.random() < 0.2 else source.choice(values) for _ in range(source.randrange(4))
            ]
        else:
            found[name] = source.choice(values)
    return found


def records(source: random.Random) -> dict[str, list[dict[str, object]]]:
    return {name: [record(source, key) for key in source.sample(IDS, source.randint(0, len(IDS)))] for name in "AB"}


def path(source: random.Random, table: str, depth: int = 2, *, through: float = 0.3, to_one: bool = False) -> tuple[str, ...]:
    """The path to a value: an attribute, inside an object, or through relationships."""
    if depth and source.random() < through:
        choices = [(name, target) for name, target, elements, _, _ in _RELATIONSHIPS[table] if not (to_one and elements)]
        name, target = source.choice(choices)
        return (name, *path(source, target, depth - 1, through=through, to_one=to_one))
    name = source.choice(["id", *[plain[0] for plain in _PLAIN]])
    return (name, source.choice(["color", "size"])) if name == "x" and source.random() < 0.4 else (name,)


def condition(source: random.Random, table: str) -> Condition:
    where = path(source, table)
    kind = source.random()
    if kind < 0.65:
        return Condition(where, source.choice(COMPARED), source.choice(SCALARS), Conversion.FORCED)
    if kind < 0.85:
        low, high = (
            (source.choice(NUMBERS), source.choice(NUMBERS)) if source.random() < 0.5 else (source.choice(SCALARS), source.choice(SCALARS))
        )
        return Condition(where, source.choice(RANGES), (low, high), Conversion.FORCED)
    return Condition(where, source.choice(TEXT_TESTS), source.choice(TEXTS), Conversion.TEXT)


def filters(source: random.Random, table: str, depth: int = 3):
    kind = source.random()
    if depth and kind < 0.35:
        members = tuple([filters(source, table, depth - 1) for _ in range(source.randint(2, 3))])
        return Group(source.choice(["and", "and", "or"]), members)
    if depth and kind < 0.45:
        name, target, *_ = source.choice(_RELATIONSHIPS[table])
        return RelationFilter((name,), Query(filters(source, target, depth - 1) if source.random() < 0.8 else None))
    return condition(source, table)


def sorts(source: random.Random, table: str) -> tuple[SortKey, ...]:
    count = source.choice([0, 1, 1, 2, 3])
    return tuple([SortKey(path(source, table, 1, through=0.15), source.random() < 0.5) for _ in range(count)])


def selection(source: random.Random, table: str, depth: int = 2) -> Select:
    names = source.sample(["id", "*", *[plain[0] for plain in _PLAIN]], source.randint(1, 4))
    items = [SelectItem((name,)) for name in names]
    for name, target, *_ in source.sample(_RELATIONSHIPS[table], source.randint(0, 2) if depth else 0):
        nested = selection(source, target, depth - 1) if source.random() < 0.7 else None
        items.insert(source.randint(0, len(items)), SelectItem((name,), nested))
    return Select(tuple(items))


def aggregate(source: random.Random, table: str) -> Aggregate:
    kind = source.choice(["count", "facet", "group", "group"])
    if kind == "count":
        return Aggregate("count")
    keys = {path(source, table, 2, to_one=True): None for _ in range(1 if kind == "facet" else source.randint(0, 2))}
    if kind == "facet":
        return Aggregate("facet", tuple(keys))
    functions: dict[tuple[str, tuple[str, ...] | None], None] = {}
    for _ in range(source.randint(1, 3)):
        name = source.choice(["count", "sum", "avg", "min", "max"])
        functions[name, None if name == "count" else path(source, table, 1, to_one=True)] = None
    return Aggregate("group", tuple(keys), tuple(functions))


def query(source: random.Random, table: str) -> Query:
    where = filters(source, table) if source.random() < 0.8 else None
    offset, limit = (source.randrange(3), source.randrange(5)) if source.random() < 0.5 else (0, None)
    return Query(where, None, sorts(source, table), offset, limit, enforce_execution_order=source.random() < 0.2)


def counted(source: random.Random, table: str) -> Query:
    from svc.query.aggregate import row_names

    made = replace(query(source, table), aggregate=aggregate(source, table), sort=())
    names = row_names(made.aggregate)
    if made.aggregate.kind != "count" and source.random() < 0.5:
        made = replace(made, sort=tuple([SortKey(tuple(name.split(".")), source.random() < 0.5) for name in source.sample(names, 1)]))
    return replace(made, offset=0, limit=None) if made.aggregate.kind == "count" else made


class AnyFigures:
    """Figures that have nothing to do with the data, so that any way may be the cheapest."""

    def __init__(self, source: random.Random) -> None:
        self._seed = source.random()
        self.record_count = source.choice([0, 3, 1000])

    def count(self, attribute: str, low: bytes | None, high: bytes | None, most: int = 0) -> int:
        return random.Random(f"{self._seed} {attribute} {low!r} {high!r}").choice([0, 1, 5, self.record_count])
