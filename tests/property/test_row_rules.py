"""Rules on rows beside brute force: what a caller finds is what the same query finds in a database that has only the records that the caller may read."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc.auth.roles import Role
from svc.auth.users import User
from svc.errors import QueryError
from svc.query import parse_query, plan_query, print_query
from svc.query.execution import execute
from svc.query.narrowing import view_of
from svc.query.nodes import Comparator, Condition, Conversion, Filter, Group, Query, RelationFilter
from svc.query.row_rules import iter_conditions
from svc.query.shaped_plan import ShapedPlan
from svc.query.shapes import cut, decoded, template_of
from svc.query.totals import total_plan
from svc.query.views import TableView
from svc.store import Store, StoreSettings
from svc.store.schema import Allow
from svc.store.values.records import decode
from tests.support import plans
from tests.support.brute import Brute
from tests.support.profile import half_by_day
from tests.support.rows import next_rows

SEEDS = st.integers(0, 2**32)
TO_B = frozenset(("one", "many", "alike"))  # relationships by which the rule of A may go to B; the rule of B goes nowhere
RELATIONSHIPS = frozenset(name for some in plans._RELATIONSHIPS.values() for name, *_ in some)
TYPES = {name: type_ for name, type_, *_ in plans._PLAIN}
OF_TYPE = {"String": str, "ID": str, "Float": (int, float), "Int": int, "Boolean": bool, "Date": datetime}
IMPOSSIBLE = Condition(("id",), Comparator.EQUALS, None, Conversion.FORCED)


def names(node: Filter) -> Iterator[str]:
    if isinstance(node, Condition):
        yield from node.path
    elif isinstance(node, Group):
        for member in node.members:
            yield from names(member)
    else:
        yield from node.path
        if node.query.where is not None:
            yield from names(node.query.where)


def rule_of(source: random.Random, table: str) -> Filter:
    """A condition that leads to B at most, and can be written."""
    allowed = TO_B if table == "A" else frozenset()
    while True:
        found = plans.filters(source, table, 2)
        if RELATIONSHIPS.isdisjoint(set(names(found)) - allowed):
            try:
                if parse_query(print_query(Query(found))).where is not None:
                    return found
            except (QueryError, ValueError, TypeError):
                continue


class Claims:
    """Values of the caller, put in the place of some values of a rule."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self.values: dict[str, object] = {}

    def named(self, node: Filter) -> tuple[Filter, Filter]:
        """(the rule with names, what it means)."""
        if isinstance(node, Condition):
            return self._condition(node)
        if isinstance(node, RelationFilter):
            if node.query.where is None:
                return node, node
            rule, meant = self.named(node.query.where)
            return replace(node, query=Query(rule)), replace(node, query=Query(meant))
        pairs = [self.named(member) for member in node.members]
        return replace(node, members=tuple([rule for rule, _ in pairs])), replace(node, members=tuple([meant for _, meant in pairs]))

    def _condition(self, node: Condition) -> tuple[Filter, Filter]:
        source = self._source
        expected = OF_TYPE.get(TYPES.get(node.path[-1], "ID"))
        fits = isinstance(node.value, expected or ()) and (expected is bool or not isinstance(node.value, bool))
        if not fits or node.comparator not in plans.COMPARED or source.random() < 0.4:
            return node, node
        name = f"c{len(self.values)}"
        rule = Condition(node.path, node.comparator, f"$user.claims.{name}", Conversion.CONVERTING)
        kind = source.random()
        if kind < 0.15:
            return rule, IMPOSSIBLE  # the caller has no such claim
        if kind < 0.4:
            others = [value for value in (*plans.TEXTS, *plans.NUMBERS, *plans.MOMENTS) if type(value) is type(node.value)]
            values = [node.value, *source.sample(others, min(len(others), 2))]
            self.values[name] = values
            each = tuple([replace(node, value=value) for value in values])
            return rule, Group("and" if node.comparator is Comparator.NOT_EQUAL else "or", each) if len(each) > 1 else each[0]
        self.values[name] = node.value
        return rule, node


class Ruled:
    """A store with pairs of tables, whose rules and records are others in each example."""

    def __init__(self, path) -> None:
        self.store = Store(path, StoreSettings(write_async=True))
        self.store.anonymous_role = lambda: None
        self.databases = []
        for number in range(4):
            definitions = plans.definitions(random.Random(number))
            database = self.store.open_database(f"d{number}")
            self.databases.append((definitions, {name: database.define_table(made) for name, made in definitions.items()}, database))

    def case(self, source: random.Random):
        """(the tables, their records, what the caller may read of them, the caller)."""
        definitions, tables, database = source.choice(self.databases)
        data = plans.records(source)
        transaction = self.store.begin()
        for table in tables.values():
            for _, raw in table.scan(database.snapshot()):
                transaction.delete(table, decode(raw)["id"])
        for name, table in tables.items():
            for record in data[name]:
                transaction.put(table, record["id"], dict(record))
        transaction.apply()
        self.store.commit_turn()
        claims = Claims(source)
        seen = dict(data)
        for name in "BA":
            allow: tuple[Allow, ...] = ()
            if source.random() < 0.8:
                rule, meant = claims.named(rule_of(source, name))
                allow = (Allow(("other",), read="false"), Allow(read=print_query(Query(rule))))
                seen[name] = Brute(definitions, {**data, **seen, name: data[name]}).run(Query(meant), name)
                seen[name] = [record for record in data[name] if record in seen[name]]
            table = tables[name]
            tables[name] = database.define_table(replace(definitions[name], allow=allow)) or table
        role = Role("reader", "reader", {}, databases=self.store.databases)
        return tables, definitions, data, seen, User("ann", role=role, claims=claims.values), database


@pytest.fixture(autouse=True, scope="module")
def long_cursors():
    """Keys of 600 characters and several sort keys make cursors longer than a URL should be; here all pages are wanted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("svc.query.cursor.MAX_CHARACTERS", 1 << 16)
        yield


@pytest.fixture(scope="module")
def ruled(tmp_path_factory):
    found = Ruled(tmp_path_factory.mktemp("rules"))
    yield found
    found.store.close()


def drain(rows):
    found = []
    while batch := next_rows(rows, 3):
        found += batch
    assert rows.done
    return found


def ids(rows):
    return [decode(raw)["id"] for raw in drain(rows)]


def planned(query, view, txn):
    return plan_query(query, view, txn, allow_full_scan=True)


def same_rows(query, found, expected, everything):
    if query.sort or query.where is None:
        assert sorted(found) == sorted(expected) if not query.sort and query.limit is None else len(found) == len(expected)
        if query.sort:
            assert found == expected
        assert set(found) <= set(everything)
    elif query.limit is None:
        assert sorted(found) == sorted(expected)
    else:
        assert len(found) == len(expected) and set(found) <= set(everything) and len(set(found)) == len(found)


@settings(max_examples=half_by_day(150))
@given(SEEDS)
def test_a_caller_finds_what_is_found_in_a_database_of_what_may_be_read(ruled, seed):
    source = random.Random(seed)
    tables, definitions, _data, seen, user, database = ruled.case(source)
    brute, txn = Brute(definitions, seen), database.snapshot()
    for _ in range(4):
        name = source.choice("AB")
        view = view_of(user, tables[name])
        assert (view is tables[name]) == all(not table.definition.allow for table in tables.values())
        query = plans.query(source, name)
        everything = [record["id"] for record in brute.run(Query(query.where), name)]
        plan = planned(query, view, txn)
        same_rows(query, ids(execute(plan, txn)), [record["id"] for record in brute.run(query, name)], everything)
        assert drain(execute(total_plan(plan, txn), txn)) == [{"count": len(everything)}]

        query = plans.counted(source, name)
        assert drain(execute(planned(query, view, txn), txn)) == brute.run(query, name)

        query = replace(plans.query(source, name), select=plans.selection(source, name), limit=None, offset=0)
        query = query if query.sort else replace(query, sort=(plans.SortKey(("id",)),))
        expected = [brute.shape(record, query.select, name, query.where, query.sort) for record in brute.run(query, name)]
        assert drain(execute(planned(query, view, txn), txn)) == expected

        query = replace(plans.query(source, name), offset=0, limit=2)
        found, cursor = [], None
        while True:
            rows = execute(planned(replace(query, after=cursor), view, txn), txn)
            found += ids(rows)
            cursor = rows.next_cursor()
            if cursor is None:
                break
        if planned(query, view, txn).order is not None:
            assert len(set(found)) == len(found)
            assert set(found) == {record["id"] for record in brute.run(Query(query.where), name)}


@settings(max_examples=half_by_day(80))
@given(SEEDS)
def test_one_record_is_there_or_not(ruled, seed):
    """By its key, and by a view that a rule about another action narrows."""
    source = random.Random(seed)
    tables, _, _data, seen, user, database = ruled.case(source)
    txn = database.snapshot()
    for name, table in tables.items():
        view = view_of(user, table)
        if type(view) is not TableView:
            continue
        there = [decode(raw)["id"] for stored, raw in table.scan(txn) if view.holds("read", stored, raw, txn)]
        assert sorted(there) == sorted(record["id"] for record in seen[name])
        related = view.database.tables[name]
        assert sorted(decode(raw)["id"] for _, raw in related.scan(txn)) == sorted(there)
        keys = [stored for stored, _ in table.scan(txn)]
        assert [stored for stored in keys if related.get_by(stored, txn) is not None] == [
            stored for stored, _ in related.get_many(keys, txn)
        ]
        assert related.get_many_plain(keys, txn) is None or not table.definition.allow


@settings(max_examples=half_by_day(60))
@given(SEEDS)
def test_queries_of_one_shape_are_those_of_each_caller(ruled, seed):
    source = random.Random(seed)
    tables, definitions, _data, seen, user, database = ruled.case(source)
    other = User("bob", role=user.role, claims={name: value for name, value in (user.claims or {}).items() if source.random() < 0.5})
    brute, txn = Brute(definitions, seen), database.snapshot()
    name = source.choice("AB")
    text = f"k=={source.choice('abc')}&sort(id)"
    shape = cut(text)
    assert shape is not None
    table = tables[name]
    template = template_of(text, table.attributes.__contains__)
    assert template is not None
    for caller in (user, other, user):
        view = view_of(caller, table)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("svc.query.shaped_plan.narrow_query", lambda query, *_: query)
            plan = ShapedPlan(template, view, caller, True).plan(decoded(shape[1]), view, txn)
        found = ids(execute(plan, txn))
        assert found == ids(execute(planned(parse_query(text), view, txn), txn))
        if caller is user:
            query = Query(Condition(("k",), Comparator.EQUALS, text[3], Conversion.FORCED), sort=(plans.SortKey(("id",)),))
            assert found == [record["id"] for record in brute.run(query, name)]


def test_names_of_rules_are_found_by_iter_conditions():
    where = parse_query("a==1|(b==2&c[d==3])").where
    assert where is not None
    assert [condition.path[0] for condition in iter_conditions(where)] == ["a", "b", "d"]
