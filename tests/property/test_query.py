"""The query language against its inverse, and every plan against brute force."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from svc.errors import QueryError
from svc.query import parse_query, plan_query, print_query, query_from_mapping, query_to_mapping
from svc.query.execution import execute
from svc.query.explain import explain
from svc.query.nodes import Aggregate, Bound, Comparator, Condition, Conversion, Group, Query, RelationFilter, Select, SelectItem, SortKey
from svc.store.values.records import decode
from tests.support.brute import Brute
from tests.support.profile import half_by_day
from tests.support.rows import next_rows
from tests.support.shop import brand_definition, product_definition, shop

# nodes that the language can say

NAMES = st.one_of(
    st.sampled_from(["id", "name", "lt", "ge", "a b", "é", "*", "-x", "+y", "$id", "100%", "a.b", "a=b", "a&b", "select", "null"]),
    st.text("abc-+*.&=%/:;~é ", min_size=1, max_size=4),
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
CALL_PATHS = st.lists(NAMES.filter(lambda name: name != "*"), min_size=1, max_size=3).map(tuple)
TEXTS = st.text(max_size=6) | st.sampled_from(["null", "true", "5", "string:x", "date:", "a*", "*", "a+b", "(a)", "[", "%", "%41", ":", ""])
SAID = TEXTS.filter(bool)  # what can stand in a range or be looked for in a text
DATES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(
    lambda d: d.replace(microsecond=d.microsecond // 1000 * 1000, tzinfo=UTC)
)
FORCED = st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS | DATES
COMPARED = (
    Comparator.EQUALS,
    Comparator.NOT_EQUAL,
    Comparator.LESS_THAN,
    Comparator.LESS_THAN_EQUAL,
    Comparator.GREATER_THAN,
    Comparator.GREATER_THAN_EQUAL,
)
RANGES = (Comparator.BETWEEN, Comparator.GELT, Comparator.GTLE, Comparator.GTLT)

CONDITIONS = st.one_of(
    st.builds(Condition, PATHS, st.sampled_from(COMPARED[:2]), TEXTS, st.just(Conversion.CONVERTING)),
    st.builds(Condition, PATHS, st.sampled_from(COMPARED[2:]), SAID, st.just(Conversion.CONVERTING)),
    st.builds(Condition, PATHS, st.sampled_from(COMPARED), FORCED, st.just(Conversion.FORCED)),
    st.builds(Condition, PATHS, st.sampled_from(COMPARED[:2]), TEXTS, st.just(Conversion.STRICT)),
    st.builds(
        Condition,
        PATHS,
        st.sampled_from((Comparator.STARTS_WITH, Comparator.CONTAINS, Comparator.ENDS_WITH)),
        SAID,
        st.just(Conversion.TEXT),
    ),
    st.builds(Condition, PATHS, st.just(Comparator.STARTS_WITH), st.just(""), st.just(Conversion.TEXT)),
    st.builds(Condition, PATHS, st.sampled_from(RANGES), st.tuples(SAID, SAID), st.just(Conversion.CONVERTING)),
    st.builds(Condition, PATHS, st.sampled_from(RANGES), st.tuples(FORCED, FORCED), st.just(Conversion.FORCED)),
    st.builds(
        Condition,
        PATHS,
        st.sampled_from(RANGES),
        st.tuples(
            st.builds(Bound, SAID, st.just(Conversion.CONVERTING)),
            st.builds(Bound, FORCED, st.just(Conversion.FORCED)),
        )
        .flatmap(st.permutations)
        .map(tuple),
        st.just(Conversion.CONVERTING),
    ),
)


@st.composite
def conditions(draw):
    """The same, with a short repr: Hypothesis prints strategies within strategies in full."""
    return draw(CONDITIONS)


@st.composite
def selects(draw):
    return draw(SELECTS)


@st.composite
def filters_of_any_depth(draw):
    return draw(st.recursive(conditions(), groups, max_leaves=8))


def relation_filters(filters):
    queries = st.builds(Query, st.none() | filters, st.none() | selects(), SORTS, st.just(0), st.none() | st.integers(0, 9))
    return st.builds(RelationFilter, NAMES.map(lambda name: (name,)), queries.filter(lambda query: query != Query()))


def groups(filters):
    members = st.lists(filters, min_size=2, max_size=4).map(tuple)
    return st.builds(Group, st.sampled_from(["and", "or"]), members) | relation_filters(filters)


SORTS = st.lists(st.builds(SortKey, CALL_PATHS, st.booleans()), max_size=2).map(tuple)
ITEMS = st.recursive(
    st.builds(SelectItem, CALL_PATHS) | st.just(SelectItem(("*",))),
    lambda items: st.builds(
        SelectItem,
        NAMES.filter(lambda name: name != "*").map(lambda name: (name,)),
        st.builds(Select, st.lists(items, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=5,
)
SELECTS = st.builds(Select, st.lists(ITEMS, min_size=1, max_size=3).map(tuple), st.sampled_from(["object", "array"])) | st.builds(
    Select, ITEMS.filter(lambda item: item.path != ("*",)).map(lambda item: (item,)), st.just("value")
)
NAMES_IN_GROUPS = NAMES.filter(lambda name: not set(name) & set(",;"))
GROUP_PATHS = st.lists(NAMES_IN_GROUPS, min_size=1, max_size=3).map(tuple)
FUNCTIONS = st.just(("count", None)) | st.tuples(st.sampled_from(["sum", "avg", "min", "max"]), GROUP_PATHS)
AGGREGATES = st.one_of(
    st.just(Aggregate("count")),
    st.builds(Aggregate, st.just("facet"), st.tuples(PATHS)),
    st.builds(
        Aggregate,
        st.just("group"),
        st.lists(GROUP_PATHS, max_size=3, unique=True).map(tuple),
        st.lists(FUNCTIONS, min_size=1, max_size=3, unique=True).map(tuple),
    ),
)
CURSORS = st.from_regex("[A-Za-z0-9_-]{1,20}", fullmatch=True)
LIMITS = st.tuples(st.just(0), st.none()) | st.tuples(st.integers(0, 9), st.integers(0, 9))


@st.composite
def whole_queries(draw):
    """Whole queries: with rows that are selected and paged, or with an aggregate."""
    where = draw(st.none() | filters_of_any_depth())
    sort, limits = draw(SORTS), draw(LIMITS)
    if draw(st.booleans()):
        return Query(where, None, sort, *limits, aggregate=draw(AGGREGATES), live=draw(st.booleans()))
    after = draw(st.none() | CURSORS)
    return Query(where, draw(st.none() | selects()), sort, *limits, after=after, live=after is None and draw(st.booleans()))


@settings(max_examples=half_by_day(100))
@given(whole_queries())
@example(Query(Condition(("lt",), Comparator.EQUALS, "5", Conversion.STRICT)))
@example(Query(Condition(("a",), Comparator.EQUALS, "null", Conversion.CONVERTING)))
def test_parsing_what_is_printed_gives_the_same_nodes(query):
    text = print_query(query)
    assert text.isascii()
    assert parse_query(text) == query
    assert print_query(parse_query(text)) == text


PIECES = [
    "a",
    "price",
    "=",
    "==",
    "=gt=",
    "=lt=",
    "&",
    "|",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ".",
    "*",
    "%",
    "%7C",
    "%5B",
    "%zz",
    "lt",
    "<",
    ">",
]
PIECES += [
    "!=",
    "!",
    "select(",
    "sort(",
    "limit(",
    "+",
    "-",
    "5",
    "null",
    "number:",
    "date:",
    "[]=",
    "$id",
    "é",
    "\ud800",
    "\0",
    "%FF",
    ":",
    "=in=",
    "count()",
    "facet(",
    "group(",
    "after(",
    ";",
    "%3B",
    "%2C",
    "sum(",
    "price)",
    " and ",
    "%253D",
]


@given(st.text(max_size=30) | st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
@example("&" * 50)
@example("(" * 40 + "a=1" + ")" * 40)
@example("limit(" + "9" * 5000 + ")")
@example("a==number:" + "9" * 5000)
def test_any_text_is_a_query_or_a_query_fault(text):
    products, _ = shop([{"id": "a", "price": 5}])
    try:
        query = parse_query(text)
        plan = plan_query(query, products, None, allow_full_scan=True)
    except QueryError as error:
        assert error.status_code == 400
        assert error.code in ("QUERY_SYNTAX", "UNUSABLE_OPERATOR", "BAD_VALUE", "UNKNOWN_ATTRIBUTE", "NOT_INDEXED")
        error.message.encode()
        return
    drain(plan)


# query objects

PLAIN = st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS | DATES
VALUES = st.recursive(PLAIN | st.binary(max_size=3), lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4)
TYPED_CONDITIONS = st.builds(
    Condition, PATHS, st.sampled_from([comparator for comparator in Comparator if comparator not in RANGES]), VALUES
) | st.builds(Condition, PATHS, st.sampled_from(RANGES), st.tuples(VALUES, VALUES))


@st.composite
def mapped_filters(draw):
    def groups(inner):
        members = st.lists(inner, min_size=2, max_size=3).map(tuple)
        related = st.builds(Query, st.none() | inner, st.none() | mapped_selects(), SORTS, st.integers(0, 9), st.none() | st.integers(0, 9))
        relations = st.builds(RelationFilter, NAMES.map(lambda name: (name,)), related)
        return st.builds(Group, st.sampled_from(["and", "or"]), members) | relations

    return draw(st.recursive(TYPED_CONDITIONS, groups, max_leaves=6))


@st.composite
def mapped_selects(draw, depth=2):
    plain = st.builds(SelectItem, CALL_PATHS)
    items = plain | st.just(SelectItem(("*",)))
    if depth:
        single = NAMES.filter(lambda name: name != "*").map(lambda name: (name,))
        related = st.builds(
            Query, st.none() | TYPED_CONDITIONS, st.none() | mapped_selects(depth - 1), SORTS, st.integers(0, 9), st.integers(0, 9)
        )
        items |= st.builds(SelectItem, single, mapped_selects(depth - 1)) | st.builds(SelectItem, single, st.none(), related)
    if draw(st.booleans()):
        return Select((draw(items.filter(lambda item: item.path != ("*",))),), "value")
    return Select(tuple(draw(st.lists(items, min_size=1, max_size=3))), draw(st.sampled_from(["object", "array"])))


@st.composite
def mapped_queries(draw):
    where = draw(st.none() | mapped_filters())
    rest = (draw(SORTS), draw(st.integers(0, 9)), draw(st.none() | st.integers(0, 9)), draw(st.booleans()), draw(st.booleans()))
    if draw(st.booleans()):
        return Query(where, None, *rest, aggregate=draw(AGGREGATES))
    after = draw(st.none() | CURSORS)
    live = after is None and not rest[3] and draw(st.booleans())
    return Query(where, draw(st.none() | mapped_selects()), *rest, after=after, live=live)


@settings(max_examples=half_by_day(100))
@given(mapped_queries())
def test_reading_the_mapping_of_a_query_gives_the_same_nodes(query):
    mapping = query_to_mapping(query)
    assert query_from_mapping(mapping) == query
    assert query_to_mapping(query_from_mapping(mapping)) == mapping


MEMBERS = st.sampled_from(
    [
        *("conditions", "operator", "attribute", "comparator", "value", "select", "name", "sort", "descending", "next", "limit", "offset"),
        *("aggregate", "group", "facet", "functions", "after", "explain"),
    ]
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(
        ["and", "or", "equals", "<", "between", "prefix", "sw", "id", "name", "price", "tags", "brand", "brand.name", "*", "count"]
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(MEMBERS | st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def nearly_queries(draw):
    """Objects with the right members, and anything or nearly the right thing in them."""
    names = st.sampled_from(["id", "name", "price", "tags", "specs.color", "brand", "brand.name", "listDate", "any", "nope"]) | JSON
    comparators = st.sampled_from([*map(str, Comparator), "<", "===", "sw", "like"]) | st.none()
    values = JSON | DATES | st.binary(max_size=3) | st.integers(10**290, 10**320) | st.just("\ud800")
    leaf = st.fixed_dictionaries({"attribute": names, "value": values}, optional={"comparator": comparators})
    conditions = st.recursive(
        leaf,
        lambda inner: st.fixed_dictionaries(
            {"conditions": st.lists(inner | JSON, max_size=3) | inner},
            optional={"operator": st.sampled_from(["and", "or"]) | JSON, "attribute": names},
        ),
        max_leaves=4,
    )
    items = st.recursive(
        names,
        lambda inner: st.fixed_dictionaries({"name": names}, optional={"select": inner | st.lists(inner), "limit": JSON}),
        max_leaves=3,
    )
    sorts = st.fixed_dictionaries({"attribute": names}, optional={"descending": st.booleans() | JSON})
    functions = st.lists(
        st.just("count") | st.dictionaries(st.sampled_from(["sum", "avg", "min", "max"]), names, max_size=2) | JSON, max_size=3
    )
    aggregates = (
        st.just("count")
        | st.builds(lambda path: {"facet": path}, names)
        | st.fixed_dictionaries({"group": names | st.lists(names, max_size=2)}, optional={"functions": functions})
    )
    return draw(
        st.fixed_dictionaries(
            {},
            optional={
                "conditions": st.lists(conditions | JSON, max_size=3) | conditions,
                "operator": st.sampled_from(["and", "or"]),
                "select": items | st.lists(items, max_size=3) | JSON,
                "asArray": st.booleans(),
                "sort": sorts | st.builds(lambda first, then: {**first, "next": then}, sorts, sorts) | JSON,
                "limit": st.integers(-1, 5) | JSON,
                "offset": st.integers(-1, 5) | JSON,
                "explain": st.booleans(),
                "aggregate": aggregates | JSON,
                "after": CURSORS | JSON,
            },
        )
    )


@settings(max_examples=half_by_day(100))
@given(JSON | nearly_queries())
def test_any_object_is_a_query_or_a_query_fault(data):
    products, _ = shop([{"id": "a", "price": 5, "tags": ["b"], "any": [1, "a"], "brandId": "x"}], [{"id": "x", "name": "b"}])
    try:
        query = query_from_mapping(data)
        plan = plan_query(query, products, None, allow_full_scan=True)
        drain(plan)
    except QueryError as error:
        assert error.status_code == 400
        assert error.code in ("QUERY_SYNTAX", "UNUSABLE_OPERATOR", "BAD_VALUE", "UNKNOWN_ATTRIBUTE", "NOT_INDEXED")
        error.message.encode()


# plans

SHORT = st.sampled_from(["", "a", "b", "ab", "ba", "aa", "z", "B", "é"])
LONG = st.sampled_from(["x" * 256 + end for end in ("", "a", "b", "ab")] + ["é" * 300, "é" * 301])
NUMBERS = st.sampled_from([0, 1, 2, 2.5, -1, 2**53 + 1, 2**53, -0.5, 10**30])
MOMENTS = st.sampled_from([datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=n) for n in (0, 1, 2, -1)])
SCALARS = st.none() | st.booleans() | NUMBERS | SHORT | LONG | MOMENTS | st.sampled_from([b"", b"a"])
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["color", "size"]), inner, max_size=2),
    max_leaves=4,
)
IDS = st.sampled_from(["a", "b", "c", "d", "a/1", "a/2", "b/1", "e" * 600, "f" * 600])


def optional(**fields):
    return st.fixed_dictionaries({}, optional=fields)


PRODUCTS = st.lists(
    st.builds(
        lambda key, rest: {"id": key, **rest},
        IDS,
        optional(
            name=st.none() | SHORT | LONG,
            price=st.none() | st.sampled_from([0, 1, 2, 2.5, -1]),
            inStock=st.none() | st.booleans(),
            tags=st.none() | st.lists(st.none() | SHORT, max_size=3),
            listDate=st.none() | MOMENTS,
            stock=st.none() | st.integers(0, 2),
            specs=ANYTHING,
            any=ANYTHING,
            brandId=st.none() | IDS,
            resellerIds=st.lists(IDS, max_size=3),
        ),
    ),
    max_size=12,
    unique_by=lambda record: record["id"],
)
BRANDS = st.lists(
    st.builds(lambda key, rest: {"id": key, **rest}, IDS, optional(name=st.none() | SHORT, country=st.none() | SHORT)),
    max_size=5,
    unique_by=lambda record: record["id"],
)

OWN = ["id", "name", "price", "inStock", "tags", "listDate", "stock", "specs", "any"]
PRODUCT_PATHS = [*[(name,) for name in OWN], ("specs", "color"), ("any", "color", "size")]
BRAND_PATHS = [("id",), ("name",), ("country",)]
THROUGH_BRAND = [(name, *path) for name in ("brand", "resellers") for path in BRAND_PATHS]
THROUGH_PRODUCTS = [
    (name, *path) for name in ("products", "resold", "namesakes") for path in [("price",), ("name",), ("stock",), ("brand", "name")]
]


def typed_conditions(paths):
    def valued(comparators, values):
        return st.builds(Condition, st.sampled_from(paths), st.sampled_from(comparators), values, st.just(Conversion.FORCED))

    return st.one_of(
        valued(COMPARED, SCALARS),
        valued(RANGES, st.tuples(SCALARS, SCALARS)),
        valued((Comparator.STARTS_WITH, Comparator.CONTAINS, Comparator.ENDS_WITH), SHORT | LONG).map(
            lambda node: Condition(node.path, node.comparator, node.value, Conversion.TEXT)
        ),
    )


NO_FILTERS = st.nothing()


def typed_queries(paths, sorts, filters=NO_FILTERS):
    wheres = st.recursive(
        typed_conditions(paths) | filters,
        lambda inner: st.builds(Group, st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3).map(tuple)),
        max_leaves=5,
    )
    keys = st.lists(st.builds(SortKey, st.sampled_from([(name,) for name in sorts]), st.booleans()), max_size=2).map(tuple)
    limits = st.tuples(st.just(0), st.none()) | st.tuples(st.integers(0, 3), st.integers(0, 4))
    return st.builds(
        lambda where, sort, limit, in_order: Query(where, None, sort, *limit, enforce_execution_order=in_order),
        st.none() | wheres,
        keys,
        limits,
        st.booleans(),
    )


SOME_BRAND = st.builds(
    lambda name, where: RelationFilter((name,), Query(where)),
    st.sampled_from(["brand", "resellers"]),
    st.none() | typed_conditions(BRAND_PATHS),
)


def drain(plan, step=3):
    rows = execute(plan, None)
    found = []
    while batch := next_rows(rows, step):
        assert len(batch) <= step
        found += batch
    assert rows.done
    return found


def check(query, table, brute):
    plan = plan_query(query, table, None, allow_full_scan=True)
    explain(plan)
    expected = [record["id"] for record in brute.run(query, table.name)]
    found = [decode(raw)["id"] for raw in drain(plan)]
    assert len(set(found)) == len(found)
    if query.sort or query.where is None:
        assert found == expected
    elif query.limit is None:
        assert sorted(found) == sorted(expected)
    else:
        everything = [record["id"] for record in brute.run(Query(query.where), table.name)]
        assert len(found) == len(expected) and set(found) <= set(everything)


def brute_of(products, brands):
    return Brute({"Product": product_definition(), "Brand": brand_definition()}, {"Product": products, "Brand": brands})


@settings(max_examples=half_by_day(100))
@given(PRODUCTS, typed_queries(PRODUCT_PATHS, OWN))
def test_a_plan_finds_what_brute_force_finds(products, query):
    table, _ = shop(products)
    check(query, table, brute_of(products, []))


@settings(max_examples=half_by_day(100))
@given(PRODUCTS, BRANDS, typed_queries(PRODUCT_PATHS[:5] + THROUGH_BRAND, OWN, SOME_BRAND))
def test_a_plan_with_a_join_to_one_finds_what_brute_force_finds(products, brands, query):
    table, _ = shop(products, brands)
    check(query, table, brute_of(products, brands))


@settings(max_examples=half_by_day(100))
@given(PRODUCTS, BRANDS, typed_queries(BRAND_PATHS + THROUGH_PRODUCTS, ["id", "name"]))
def test_a_plan_with_a_join_to_many_finds_what_brute_force_finds(products, brands, query):
    _, table = shop(products, brands)
    check(query, table, brute_of(products, brands))


@settings(max_examples=half_by_day(100))
@given(PRODUCTS, typed_queries(PRODUCT_PATHS, OWN), st.sampled_from(["a/", "b/", "e", "x"]))
def test_a_collection_below_a_key_holds_what_begins_with_it(products, query, prefix):
    table, _ = shop(products)
    inside = [record for record in products if record["id"].startswith(prefix)]
    plan = plan_query(query, table, None, allow_full_scan=True, key_prefix=prefix)
    expected = [record["id"] for record in brute_of(inside, []).run(query, "Product")]
    found = [decode(raw)["id"] for raw in drain(plan)]
    assert len(found) == len(expected)
    if query.sort or query.limit is None:
        assert sorted(found) == sorted(expected)


@given(typed_queries(PRODUCT_PATHS, OWN))
def test_a_query_is_refused_or_backed_by_an_index_whatever_the_figures(query):
    few, _ = shop([{"id": "a"}])
    many, _ = shop([{"id": str(n), "price": n, "name": "a"} for n in range(20)])

    def outcome(table):
        try:
            plan_query(query, table, None, allow_full_scan=False)
        except QueryError as error:
            return error.code
        return None

    assert outcome(few) == outcome(many)


def test_the_step_of_a_scan_without_matches_is_bounded():
    table, _ = shop([{"id": f"{n:05}", "stock": 1} for n in range(2000)])
    plan = plan_query(parse_query("stock=2"), table, None, allow_full_scan=True)
    rows = execute(plan, None)
    steps = 0
    while not rows.done:
        before = table.scanned
        assert rows.step(10) == []
        assert table.scanned - before <= 256
        steps += 1
    assert steps >= 2000 / 256


if __name__ == "__main__":
    pytest.main([__file__, "-n0"])
