"""Short lists by one function of their values beside the executor: the same bytes, while definitions, indexes, tables, records and roles change."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings

from svc.auth.users import User
from svc.errors import Problem
from svc.query import parse_query, plan_query, print_query
from svc.query.authorization import narrow_query
from svc.query.compiled_lists import MOST, compiled_list
from svc.query.execution import execute
from svc.query.nodes import Aggregate, Comparator, Condition, Conversion, Group, Query, Select, SelectItem, SortKey
from svc.query.shape_cache import ShapeCache
from svc.query.shaped_plan import UNRESTRICTED
from svc.query.shapes import cut, decoded, pattern_of
from svc.store.values.records import decode_json_many
from tests.property.test_shapes import SEEDS, World, revalued, role
from tests.support import plans
from tests.support.profile import half_by_day
from tests.support.rows import next_rows

KEYS = [*plans.IDS, *[f"r{number}" for number in range(20)]]
COMPARED = [Comparator.EQUALS] * 6 + [
    Comparator.GREATER_THAN,
    Comparator.GREATER_THAN_EQUAL,
    Comparator.LESS_THAN,
    Comparator.LESS_THAN_EQUAL,
    Comparator.STARTS_WITH,
]
USUAL = {"s": ["a", "b"], "k": ["a", "b"], "n": [1, 2, 2.5], "i": [0, 1], "fk": ["a", "b", "r1"], "x": ["a", 1], "t": [["a"], ["a", "b"]]}
WORDS = ["a", "b", "1", "2", "0", "2.5", "true", "1970-01-01"]
OWN = ["s", "n", "i", "b", "d", "t", "x", "k"]


class Lists(World):
    """With more records, of which some expire, are long, or have what nobody has declared."""

    def fill(self, name, source):
        table = self.database.tables[name]
        transaction = self.store.begin()
        for key in source.sample(KEYS, source.randrange(len(KEYS))):
            record = plans.record(source, key)
            known = {a.name for a in table.definition.attributes}
            record = {name: value for name, value in record.items() if name in known}
            for name, values in USUAL.items():
                if name in record and source.random() < 0.6:
                    record[name] = source.choice(values)
            if record and source.random() < 0.05:  # as from before a change of the definition
                record[source.choice([*record])] = source.choice([*plans.SCALARS, float("nan"), ["a"], {"a": 1}])
                record["id"] = key
            kind = source.random()
            if kind < 0.05:
                record["undeclared"] = plans.anything(source)
            elif kind < 0.07:
                record["undeclared"] = "long" * source.choice([500, 5000, 20_000])
            if source.random() < 0.1:  # another order
                record = dict(reversed(record.items()))
            if source.random() < 0.2:
                transaction.put(table, key, {"id": key})
            else:
                transaction.put(table, key, record, expires_at=source.choice([1.0, 1e15]) if source.random() < 0.04 else None)
        transaction.apply()
        self.store.commit_turn()


def condition(source, name, comparators):
    comparator = source.choice(comparators)
    if comparator is Comparator.STARTS_WITH:
        return Condition((name,), comparator, "a", Conversion.TEXT)
    if source.random() < 0.2 and comparator is not Comparator.EQUALS:
        return Condition((name,), source.choice(plans.RANGES), ("0", "2"), Conversion.CONVERTING)
    strict = comparator is Comparator.EQUALS and source.random() < 0.3
    return Condition((name,), comparator, "a", Conversion.STRICT if strict else Conversion.CONVERTING)


def pattern(source, table):
    """A query, mostly of those that are compiled."""
    names = [name for name in OWN if name in table.attributes]
    indexed = [name for name in names if name in table.indexes]
    members = [condition(source, source.choice(indexed if source.random() < 0.95 else names), COMPARED)]
    others = [name for name in names if name not in table.indexes]
    for _ in range(source.choice([0, 0, 0, 1, 2])):
        others = others if source.random() < 0.9 else names
        if others:
            members.append(condition(source, source.choice(others), [*COMPARED, Comparator.NOT_EQUAL, Comparator.CONTAINS]))
    source.shuffle(members)
    query = Query(members[0] if len(members) == 1 else Group("and", tuple(members)))
    kind = source.random()
    if kind < 0.1:
        return replace(query, aggregate=Aggregate("count"))
    if kind < 0.5:
        query = replace(query, select=selection(source, table))
    if source.random() < 0.6:
        keys = source.sample([*names, "id"], source.choice([1, 1, 2]))
        query = replace(query, sort=tuple([SortKey((key,), source.random() < 0.5) for key in keys]))
    if source.random() < 0.2:
        query = replace(query, offset=source.randrange(3), limit=source.choice([None, 1, 5, 50]))
    return query


def valued(node, source):
    """With values that are often there."""
    if isinstance(node, Group):
        return replace(node, members=tuple([valued(member, source) for member in node.members]))
    if source.random() < 0.2:
        return revalued(node, source)
    if isinstance(node.value, tuple):
        return replace(node, value=(source.choice(WORDS), source.choice(WORDS)))
    return replace(node, value=source.choice(WORDS))


def selection(source, table):
    kind = source.random()
    if kind < 0.15:
        return plans.selection(source, table.name)
    names = [name for name in (*OWN, "id", "fk", "up", "nope") if name in table.attributes or name == "nope"]
    items = [SelectItem((name,)) for name in source.sample(names, source.randint(1, 4))]
    if kind < 0.6:
        relation = source.choice(["one", "parent", "children"] if table.name == "A" else ["owner", "back"])
        nested = None
        if source.random() < 0.7:
            nested = Select(tuple([SelectItem((name,)) for name in source.sample(["id", "s", "n", "d"], 2)]))
            if source.random() < 0.2:
                nested = Select((*nested.items, SelectItem(("owner" if relation == "one" else "parent",), Select((SelectItem(("id",)),)))))
        items.insert(source.randint(0, len(items)), SelectItem((relation,), nested))
    elif kind < 0.7:
        return Select(tuple(items), source.choice(["array", "value"] if len(items) == 1 else ["array"]))
    return Select(tuple(items))


def all_rows(plan, txn, json):
    run = execute(plan, txn, json=json)
    rows = []
    try:
        while batch := next_rows(run, MOST + 1):
            rows += batch
        return rows, run.next_cursor()
    finally:
        run.close()


def check(cache, text, table, reader, hits) -> None:
    """The rows of one query, if they are found by a function of its values."""
    found = cache.shaped_plan(text, table, reader, True)
    if found is None:
        return
    name, plan = found
    assert plan.holds(table, reader)
    values = decoded(cut(text)[1])
    matched = pattern_of(name).fullmatch(text)
    assert matched is None or list(matched.groups()) == values
    txn = table.database.snapshot()
    for json in (True, False):
        compiled = compiled_list(plan, table, json=json)
        if compiled is None:
            continue
        assert compiled_list(plan, table, json=json) is compiled
        hits["compiled"] += 1
        try:
            rows = compiled.find(values, txn)
        except Problem:
            continue
        if rows is None:
            hits["declined"] += 1
            continue
        hits[f"{compiled.kind} {'selected ' if plan.query.select else ''}{'sorted' if plan.query.sort else ''}"] += 1
        hits["some"] += len(rows) > 1
        query = parse_query(text, table.attributes.__contains__)
        if reader is not UNRESTRICTED:
            query = narrow_query(query, table, reader)
        expected, cursor = all_rows(plan_query(query, table, txn, allow_full_scan=True), txn, json)
        assert cursor is None
        if compiled.kind == "records":
            assert rows == expected
            continue
        if json and query.select is None and query.aggregate is None:
            expected = decode_json_many(expected)
        encode = msgspec.json.encode if json else msgspec.msgpack.encode
        assert encode(rows) == encode(expected), text


def run_case(world, seed, hits) -> None:
    source = random.Random(seed)
    world.begin(source)
    cache = ShapeCache(max_entries=source.choice([2, 256]))
    readers = [UNRESTRICTED, None, User("u", role=role(source, world.database.tables))]
    patterns = [(name, pattern(source, world.database.tables[name])) for name in "AAABB"]
    for _ in range(40):
        kind = source.random()
        if kind < 0.08:
            world.change(source)
        elif kind < 0.12:
            readers[2] = User("w", role=role(source, world.database.tables))
        name, query = source.choice(patterns)
        text = print_query(replace(query, where=valued(query.where, source)))
        check(cache, text, world.database.tables[name], source.choice([*readers, UNRESTRICTED]), hits)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    found = Lists(tmp_path_factory.mktemp("lists"))
    yield found
    found.store.close()


@settings(max_examples=half_by_day(200), deadline=None)
@given(SEEDS)
def test_a_compiled_list_has_the_rows_of_the_executor(world, seed):
    run_case(world, seed, Counter())


def test_most_are_compiled_and_found(world):
    """Else the test above shows nothing."""
    hits = Counter()
    for seed in range(20):
        run_case(world, seed, hits)
    print(hits)
    assert hits["compiled"] > 200 and hits["declined"] < hits["compiled"] / 2
