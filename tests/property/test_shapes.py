"""Queries planned by their shape beside the same queries parsed and planned as a whole: nodes, plans and rows are the same, with one cache while
definitions, indexes, tables and roles change."""

from __future__ import annotations

import json
import random
import re
from dataclasses import fields, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from svc.auth.roles import Role
from svc.auth.users import User
from svc.errors import Problem, QueryError
from svc.query import QueryCache, parse_query, plan_query, print_query
from svc.query.authorization import narrow_query
from svc.query.execution import execute
from svc.query.explain import explain
from svc.query.form import may_be_form
from svc.query.nodes import Bound, Condition, Conversion, Group
from svc.query.shape_cache import ShapeCache
from svc.query.shaped_plan import UNRESTRICTED
from svc.query.shapes import cut, decoded, filled, pattern_of, template_of
from svc.store import Store, StoreSettings
from svc.store.schema import Attribute
from tests.property.test_query import PIECES
from tests.support import plans
from tests.support.node import Node
from tests.support.profile import examples, half_by_day
from tests.support.rows import next_rows

SEEDS = st.integers(0, 2**32)

# --- nodes -------------------------------------------------------------------------------------------------------------------------------

VALUES = [
    "5",
    "-1",
    "2.5",
    "a",
    "ab",
    "b/c",
    "null",
    "nulls",
    "true",
    "2024-01-05",
    "007",
    "a%20b",
    "%2A",
    "%6Eull",
    "a:b",
    "number",
    "gt",
    "%C3%A9",
]
VALUES += [
    "it's",
    "1e3",
    "a,b",
    "x" * 300,
    "%zz",
    "%FF",
    "",
    "a*",
    "date:1",
    "number:5",
    "string:x",
    "a+b",
    "é",
    "(a)",
    "%000",
    "\0000",
    "\0",
]
PATTERNS = [
    "a==?",
    "price=gt=?&lt=?",
    "price=ge=number:5&=le=?",
    "(a=?|b.c!=?)",
    "[a=sw=?&b=ct=?]",
    "a[b=?&limit(2)]",
    "a[]=?",
    "lt=?",
    "a[select(b[c=?])]",
]
PATTERNS += [
    "select(a[b=?])",
    "x=a<?",
    "b.c==?&b.d==?",
    "((b.c==?))",
    "a=b&c=?",
    "a%5B==?",
    "a%20b=?",
    "sort(a,-b)",
    "limit(1,2)",
    "count()",
    "=lt=?",
    "?",
]
TOKENS = st.sampled_from(PATTERNS * 3 + ["&", "&", "&", "&", "|"] * 4 + PIECES)


def filled_in(pattern: str, values: list[str]) -> str:
    for value in values:
        pattern = pattern.replace("?", value, 1)
    return pattern


def fill(node, values):
    """The filter of a template with values in the places of its slots."""
    if isinstance(node, Condition):
        return replace(node, value=filled(node.value, values))
    if isinstance(node, Group):
        return replace(node, members=tuple([fill(member, values) for member in node.members]))
    where = node.query.where
    return replace(node, query=replace(node.query, where=None if where is None else fill(where, values)))


@st.composite
def pairs(draw):
    """Two strings that are made of one pattern."""
    pattern = (
        "&".join(draw(st.lists(TOKENS, min_size=1, max_size=3))) if draw(st.booleans()) else "".join(draw(st.lists(TOKENS, max_size=8)))
    )
    count = pattern.count("?")
    values = st.lists(st.sampled_from(VALUES) | st.sampled_from(VALUES[:10]), min_size=count, max_size=count)
    return filled_in(pattern, draw(values)), filled_in(pattern, draw(values))


@settings(max_examples=half_by_day(400))
@given(pairs())
@example(("a==5&b==string:%000", "a==6&b==string:%000"))
@example(("a=b=5", "a=b=6"))
@example(("price=gt=5&lt=7", "price=gt=5&lt=gt"))
def test_strings_of_one_shape_have_the_same_nodes_but_for_values(pair):
    first, second = pair
    shape, other = cut(first), cut(second)
    if shape is None or other is None or shape[0] != other[0]:
        return
    declared = frozenset(("price", "ge")).__contains__
    template = template_of(first, declared)
    assert template == template_of(second, declared)
    if template is None:
        return
    for text, values in ((first, shape[1]), (second, other[1])):
        try:
            expected = parse_query(text, declared)
        except QueryError:
            with pytest.raises(QueryError):
                decoded(values)
            continue
        assert replace(template, where=fill(template.where, decoded(values))) == expected


@settings(max_examples=half_by_day(400))
@given(pairs())
@example(("price=gt=5&lt=7", "price=gt=5&lt=gt"))
@example(("a==1&b==2*", "a==null&b==null*"))
@example(("a==1*&b==2", "a==null*&b==2"))
@example(("_count==1&a==2", "_count==exact&a==2"))
def test_a_pattern_matches_strings_of_its_shape_only(pair):
    first = pair[0]
    shape = cut(first)
    if shape is None:
        return
    pattern = pattern_of(shape[0])
    for text in pair:
        found = pattern.fullmatch(text)
        if found is not None:
            assert cut(text) == (shape[0], list(found.groups()))
            assert may_be_form(text) == may_be_form(first) or "%" in first
    if all(re.fullmatch("[a-z0-9.]+", value) for value in shape[1]):
        assert pattern.fullmatch(first)


# --- plans and rows ----------------------------------------------------------------------------------------------------------------------

WORDS = [
    "",
    "a",
    "b",
    "ab",
    "B",
    "é",
    "x" * 300,
    "0",
    "1",
    "2",
    "2.5",
    "-1",
    "007",
    "null",
    "true",
    "false",
    "TRUE",
    "1970-01-01",
    "1970-13-01",
    "e/1",
    "f",
    "0.0",
]


def worded(node, source):
    """The same conditions, with values that are strings as a URL has them."""
    if isinstance(node, Condition):
        if isinstance(node.value, tuple):
            low, high = (source.choice(WORDS[1:]) for _ in range(2))
            if source.random() < 0.2:
                ends = [Bound(low, Conversion.CONVERTING), Bound(source.choice([None, 1, "a"]), Conversion.FORCED)]
                source.shuffle(ends)
                return replace(node, value=tuple(ends), conversion=Conversion.CONVERTING)
            return replace(node, value=(low, high), conversion=Conversion.CONVERTING)
        conversion = Conversion.CONVERTING
        if node.conversion is Conversion.TEXT:
            conversion = Conversion.TEXT
        elif node.comparator in plans.COMPARED[:2] and source.random() < 0.3:
            conversion = Conversion.STRICT
        return replace(node, value=source.choice(WORDS[1:]), conversion=conversion)
    if isinstance(node, Group):
        return replace(node, members=tuple([worded(member, source) for member in node.members]))
    where = node.query.where
    return replace(node, query=replace(node.query, where=None if where is None else worded(where, source)))


def revalued(node, source):
    """The same with other values, of the same conversion."""
    if isinstance(node, Condition):
        if isinstance(node.value, tuple):
            ends = [
                replace(end, value=source.choice(WORDS[1:])) if isinstance(end, Bound) and isinstance(end.value, str) else end
                for end in node.value
            ]
            return replace(node, value=tuple([source.choice(WORDS[1:]) if isinstance(end, str) else end for end in ends]))
        return replace(node, value=source.choice(WORDS[1:]))
    if isinstance(node, Group):
        return replace(node, members=tuple([revalued(member, source) for member in node.members]))
    where = node.query.where
    return replace(node, query=replace(node.query, where=None if where is None else revalued(where, source)))


def pattern(source, name):
    """A query with conditions, of any kind."""
    while True:
        query = plans.counted(source, name) if source.random() < 0.3 else plans.query(source, name)
        if query.where is not None:
            break
    query = replace(query, where=worded(query.where, source), enforce_execution_order=False)
    if query.aggregate is None and source.random() < 0.5:
        query = replace(query, select=plans.selection(source, name))
    return query


def role(source, tables):
    """A role that reads some tables, and of some of these some attributes."""
    given = {}
    for name, table in tables.items():
        rights = {"read": source.random() < 0.9, "insert": False, "update": False, "delete": False}
        if source.random() < 0.5:
            listed = [a.name for a in table.definition.attributes if source.random() < 0.8]
            rights["attribute_permissions"] = [{"attribute_name": a, "read": True, "insert": False, "update": False} for a in listed]
        given[name] = rights
    database = next(iter(tables.values())).database
    return Role("r", "r", {database.name: {"tables": given}}, databases={database.name: database})


def changed(definition, source):
    """Another definition of the same table: an index more or less, an attribute of another type, away, or back."""
    attributes = list(definition.attributes)
    plain = [at for at, attribute in enumerate(attributes) if attribute.name in ("s", "n", "i", "b", "d", "t", "x")]
    at = source.choice(plain) if plain else 0
    kind = source.randrange(4)
    if kind == 0 and plain:
        attributes[at] = replace(attributes[at], indexed=not attributes[at].indexed)
    elif kind == 1 and plain:
        attributes[at] = replace(attributes[at], type=source.choice(["String", "Float", "Int", "Any", "Date", "Boolean"]))
    elif kind == 2 and plain:
        del attributes[at]
    else:
        missing = [name for name in ("s", "n", "i", "b", "d", "x", "lt") if definition.attribute(name) is None]
        if missing:
            attributes.append(Attribute(missing[0], source.choice(["String", "Float", "Any"]), indexed=source.random() < 0.5))
    return replace(definition, attributes=tuple(attributes))


def shown(plan, txn):
    """All of a plan but the conditions of its query, what it explains, and its rows in both forms."""
    known = {field.name: getattr(plan, field.name) for field in fields(plan) if field.compare}
    known["query"] = replace(plan.query, where=None)
    rows = []
    for is_json in (False, True):
        run = execute(plan, txn, json=is_json)
        try:
            while batch := next_rows(run, 3):
                rows += batch
        except Problem as error:
            rows.append(told(error))
    return known, explain(plan, txn), rows


def told(error):
    return type(error), error.message, error.status_code, getattr(error, "code", None), getattr(error, "position", None)


class World:
    """A store with two tables, in which everything changes, and one cache."""

    def __init__(self, path) -> None:
        self.store = Store(path, StoreSettings(write_async=True))
        self.count = 0

    def begin(self, source):
        self.count += 1
        self.database = self.store.open_database(f"d{self.count % 3}")
        for name in list(self.database.tables):
            self.database.drop_table(name)
        for definition in plans.definitions(source).values():
            self.database.define_table(definition)
            self.fill(definition.name, source)

    def fill(self, name, source):
        table = self.database.tables[name]
        transaction = self.store.begin()
        for record in plans.records(source)[name]:
            known = {a.name for a in table.definition.attributes}
            transaction.put(table, record["id"], {key: value for key, value in record.items() if key in known})
        transaction.apply()
        self.store.commit_turn()

    def change(self, source):
        name = source.choice("AB")
        kind = source.random()
        if kind < 0.5:
            self.database.define_table(changed(self.database.tables[name].definition, source))
        elif kind < 0.7:
            definition = self.database.tables[name].definition
            self.database.drop_table(name)
            self.database.define_table(definition)
            self.fill(name, source)
        else:
            self.fill(name, source)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    found = World(tmp_path_factory.mktemp("shapes"))
    yield found
    found.store.close()


def check_answer(cache, text, table, reader, scans) -> bool:
    """Whether it was planned by its shape; then as otherwise."""
    txn = table.database.snapshot()
    plan = cache.maybe_plan(text, table, txn, reader, scans)
    if plan is None:
        return False
    query = parse_query(text, table.attributes.__contains__)
    if reader is not UNRESTRICTED:
        query = narrow_query(query, table, reader)
    expected = plan_query(query, table, txn, allow_full_scan=scans)
    assert shown(plan, txn) == shown(expected, txn)
    return True


def run_case(world, seed) -> int:
    """How many answers were planned by their shapes."""
    source = random.Random(seed)
    world.begin(source)
    cache = ShapeCache(max_entries=source.choice([2, 256]))
    readers = [UNRESTRICTED, User("u", role=role(source, world.database.tables)), User("v", role=role(source, world.database.tables))]
    patterns = [(name, pattern(source, name)) for name in ("A", "B", source.choice("AB"))]
    found = 0
    for _ in range(40):
        kind = source.random()
        if kind < 0.08:
            world.change(source)
        elif kind < 0.14:
            readers[source.randint(1, 2)] = User("w", role=role(source, world.database.tables))
        name, query = source.choice(patterns)
        text = print_query(replace(query, where=revalued(query.where, source)))
        found += check_answer(
            cache,
            text,
            world.database.tables[name],
            source.choice([*readers, None] if source.random() < 0.2 else readers),
            source.choice([True, True, False, None]),
        )
    return found


@settings(max_examples=half_by_day(100), deadline=None)
@given(SEEDS)
def test_a_plan_by_shape_is_the_plan_of_the_whole_query(world, seed):
    run_case(world, seed)


def test_most_queries_are_planned_by_their_shapes(world):
    """Else the test above shows nothing."""
    assert sum([run_case(world, seed) for seed in range(10)]) > 80


# --- answers -----------------------------------------------------------------------------------------------------------------------------

QUERIES = [
    "name==?",
    "price=ge=?&lt=?",
    "brand.name==?&price>?",
    "brand[name==?&sort(name)]&sort(-price)",
    "(name=?|tags=?)&limit(1,3)",
    "stock=?",
]
QUERIES += [
    "listDate=ge=?",
    "inStock==?&select(name,brand{name})",
    "tags=sw=?&count()",
    "price!=?&group(stock;sum(price))",
    "id=?&sort(nope)",
    "id==?",
]
QUERIES += [
    "name==?&select(id)&sort(name)&limit(2)",
    "specs.color=?&tags=?",
    "nope=?",
    "price=lt=?&live()",
    "name=ct=?",
    "price=gt=?&select([id,price])",
]
ASKED = [
    "a",
    "b",
    "5",
    "2.5",
    "-1",
    "true",
    "null",
    "%zz",
    "%FF",
    "a%20b",
    "b*",
    "a+b",
    "number:5",
    "2024-01-05",
    "1e400",
    "nan",
    "p3",
    "string:a",
    "(a)",
]


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    found = Node(tmp_path_factory.mktemp("answers") / "store")
    wire = found.connect()
    brands = [{"id": name, "name": name} for name in "ab"]
    products = [
        {
            "id": f"p{number}",
            "name": "ab5"[number % 3],
            "price": number / 2,
            "tags": ["a", "b"][: number % 3],
            "stock": number % 4,
            "brandId": "abc"[number % 3],
        }
        for number in range(30)
    ]
    assert wire.ask("POST", "/Brand/", json.dumps(brands).encode())[0] == 201
    assert wire.ask("POST", "/Product/", json.dumps(products).encode())[0] == 201
    yield found
    found.close()


def answer(node, text, fields):
    """Status, fields, body of the whole answer."""
    status, answered, body = node.connect().ask("GET", f"/Product/?{text}", fields=fields)
    return status, {name: value for name, value in answered.items() if name != "server-timing"}, body


@settings(max_examples=examples(60), deadline=None)
@given(SEEDS)
def test_answers_are_the_same(node, seed):
    source = random.Random(seed)
    rights = [
        {"attribute_name": name, "read": True, "insert": False, "update": False} for name in ("name", "price", "tags", "brand", "brandId")
    ]
    nothing = {"insert": False, "update": False, "delete": False}
    tables = {"Product": {"read": True, "attribute_permissions": rights, **nothing}, "Brand": {"read": source.random() < 0.5, **nothing}}
    users = [
        None,
        *[
            User("u", role=Role("r", "r", given, databases=node.store.databases))
            for given in ({"super_user": True}, {"data": {"tables": tables}})
        ],
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QueryCache, "known", lambda self, text, table: None)
        real = ShapeCache.maybe_plan
        by_shape = []

        def noted(*arguments):
            by_shape.append(real(*arguments))
            return by_shape[-1]

        for pattern in source.choices(QUERIES, k=2):
            for _ in range(10):
                text = filled_in(pattern, source.choices(ASKED, k=2))
                node.as_user(source.choice(users))
                fields = source.choice([{}, {"Prefer": "explain"}, {"Accept": "text/csv"}])
                patch.setattr(ShapeCache, "maybe_plan", noted)
                found = answer(node, text, fields)
                patch.setattr(ShapeCache, "maybe_plan", lambda *arguments: None)
                assert found == answer(node, text, fields)
        assert by_shape
