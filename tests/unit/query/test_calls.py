"""The calls of the URL language; conditions are in test_url."""

import pytest

from svc.errors import QueryError, QuerySyntaxError
from svc.query.calls import MAX_CURSOR, MAX_PATH, is_cursor
from svc.query.nodes import (
    MAX_GROUP_FUNCTIONS,
    MAX_GROUP_KEYS,
    MAX_SORT_KEYS,
    Aggregate,
    Comparator,
    Condition,
    Conversion,
    Group,
    Query,
    Select,
    SelectItem,
    SortKey,
)
from svc.query.url import parse_query

A, B = (Condition((name,), Comparator.EQUALS, "1", Conversion.STRICT) for name in "ab")


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("", Query()),
        ("&", Query()),
        ("limit(5)", Query(limit=5)),
        ("limit(2,5)", Query(offset=2, limit=3)),
        ("limit(2,)", Query(offset=2)),
        ("limit(5)&limit(0)", Query(limit=0)),
        ("sort(a)", Query(sort=(SortKey(("a",)),))),
        ("sort(+a,-b.c)", Query(sort=(SortKey(("a",)), SortKey(("b", "c"), True)))),
        ("sort(%2Ba%2C-b)", Query(sort=(SortKey(("a",)), SortKey(("b",), True)))),
        ("select(a)", Query(select=Select((SelectItem(("a",)),), "value"))),
        ("select(a,)", Query(select=Select((SelectItem(("a",)),)))),
        ("select(*)", Query(select=Select((SelectItem(("*",)),)))),
        ("select(a,b.c)", Query(select=Select((SelectItem(("a",)), SelectItem(("b", "c")))))),
        ("select([a,b])", Query(select=Select((SelectItem(("a",)), SelectItem(("b",))), "array"))),
        ("select(a%7Bb%2Cc%7D)", parse_query("select(a{b,c})")),
        ("select(a%7bb%7bc%7d%2c%7d%2c)", parse_query("select(a{b{c},},)")),
        (
            "select(a[b==x%7By%2Cz])",
            Query(
                select=Select(
                    (SelectItem(("a",), None, Query(Condition(("b",), Comparator.EQUALS, "x{y,z", Conversion.CONVERTING))),), "value"
                )
            ),
        ),
        ("select(a[b=1&sort(%2Bc%2C-d)&limit(2)&select(e,)])", parse_query("select(a[b=1&sort(c,-d)&limit(2)&select(e,)])")),
        ("select(*,a)", Query(select=Select((SelectItem(("*",)), SelectItem(("a",)))))),
        ("select(a{*})", Query(select=Select((SelectItem(("a",), Select((SelectItem(("*",)),))),), "value"))),
        ("select($id,$record)", Query(select=Select((SelectItem(("$id",)), SelectItem(("$record",)))))),
        ("select(a)&select(b,)&sort(a)&sort(-b)", parse_query("select(b,)&sort(-b)")),
        ("limit(2%2C5)", Query(offset=2, limit=3)),
        ("limit%280%2C5%29&select%28a%2Cb%29", parse_query("limit(5)&select(a,b)")),
        ("limit(5,5)", Query(offset=5, limit=0)),
        ("limit(000005)", Query(limit=5)),
        ("sort(a,b)&a=1|b=1", Query(Group("or", (A, B)), sort=(SortKey(("a",)), SortKey(("b",))))),
        (
            "select(a{b{c},})",
            Query(select=Select((SelectItem(("a",), Select((SelectItem(("b",), Select((SelectItem(("c",)),))),))),), "value")),
        ),
        ("select(a[b=1])", Query(select=Select((SelectItem(("a",), None, Query(B)),), "value"))),
        ("a=1&limit(1)&b=1", Query(Group("and", (A, B)), limit=1)),
        ("a=1&count()", Query(A, aggregate=Aggregate("count"))),
        ("facet(a.b)", Query(aggregate=Aggregate("facet", (("a", "b"),)))),
        ("group(a)", Query(aggregate=Aggregate("group", (("a",),), (("count", None),)))),
        ("group(a;)", parse_query("group(a)")),
        ("group(;count,max(x))", Query(aggregate=Aggregate("group", (), (("count", None), ("max", ("x",)))))),
        ("group(%3Bcount)", parse_query("group(;count)")),
        (
            "group(a,b.c;count,sum(x),avg(x.y),min(x),max(x))&sort(-sum.x)&limit(3)",
            Query(
                None,
                None,
                (SortKey(("sum", "x"), True),),
                0,
                3,
                aggregate=Aggregate(
                    "group",
                    (("a",), ("b", "c")),
                    (("count", None), ("sum", ("x",)), ("avg", ("x", "y")), ("min", ("x",)), ("max", ("x",))),
                ),
            ),
        ),
        ("group(a%2Cb%3Bcount%2csum(x))", parse_query("group(a,b;count,sum(x))")),
        ("group%28a%3Bsum%28x%29%29", parse_query("group(a;sum(x))")),
        ("after(Aa0_-)&sort(a)", Query(sort=(SortKey(("a",)),), after="Aa0_-")),
        ("after(a)&after(b)", Query(after="b")),
        ("live()", Query(live=True)),
        ("live()&limit(2)&live()", Query(limit=2, live=True)),
        ("count()&live()", Query(aggregate=Aggregate("count"), live=True)),
    ],
)
def test_calls(text, query):
    assert parse_query(text) == query


@pytest.mark.parametrize(
    ("text", "position", "part"),
    [
        ("(a=1&limit(5))", 5, "'limit(...)' inside a group"),
        ("limit(5)|a=1", 8, "expected a condition"),
        ("group-by(a)", 0, "unknown call 'group-by'"),
        ("order(a)", 0, "did you mean sort(...)?"),
        ("limit(-1)", 6, "not negative"),
        ("limit(5,2)", 8, "before its start"),
        ("limit(x)", 6, "not negative"),
        ("limit(1,2,3)", 9, "expected ')'"),
        ("limit()", 6, "not negative"),
        ("select()", 7, "the name of an attribute"),
        ("select(a", 8, "expected ')'"),
        ("select(a{})", 9, "the name of an attribute"),
        ("sort()", 5, "the name of an attribute"),
        ("count(a)", 6, "facet(a) counts"),
        ("facet()", 6, "the name of an attribute"),
        ("facet(a,b)", 7, "expected ')'"),
        ("group()", 6, "the name of an attribute"),
        ("group(;)", 7, "expected a function"),
        ("group(,a)", 6, "the name of an attribute"),
        ("group(a,a)", 8, "'a' a second time"),
        ("group(a;sum)", 11, "sum needs an attribute"),
        ("group(a;median(x))", 8, "unknown function 'median'"),
        ("group(a;count,)", 14, "expected a function"),
        ("group(a;sum(x),sum(x))", 15, "'sum' a second time"),
        ("group(a;count(x))", 13, "takes no attribute"),
        ("count()&facet(a)", 8, "a second aggregate"),
        ("count()&select(a)", 8, "'count(...)' together with 'select(...)'"),
        ("select(a)&count()", 10, "'count(...)' together with 'select(...)'"),
        ("after(a)&facet(a)", 9, "'facet(...)' together with 'after(...)'"),
        ("b[count()]", 2, "'count(...)' inside a relation filter"),
        ("(a=1&count())", 5, "'count(...)' inside a group"),
        ("after()", 6, "expected a cursor"),
        ("live(a)", 5, "expected ')'"),
        ("live()&after(a)", 7, "'live()' together with 'after(...)'"),
        ("after(a)&live()", 9, "'live()' together with 'after(...)'"),
        ("brand[live()]", 6, "'live(...)' inside a relation filter"),
        ("after(a.b)", 7, "expected ')'"),
        ("after(" + "a" * 4097 + ")", 6, "expected a cursor"),
    ],
)
def test_faults_have_a_position_and_say_what_is_wrong(text, position, part):
    with pytest.raises(QuerySyntaxError) as caught:
        parse_query(text)
    assert part in caught.value.message
    assert f"at position {position} " in caught.value.message
    assert caught.value.position == position


@pytest.mark.parametrize("query", ["sort({})", "_sort={}", "related[a=1&sort({})]"])
def test_sort_keys_are_limited(query: str) -> None:
    """Each is a column that every record of a sort is encoded by: thousands held the loop for half a second a step."""
    names = ",".join(f"a{n}" for n in range(MAX_SORT_KEYS))
    with pytest.raises(QueryError, match="more than 32 attributes to sort by"):
        parse_query(query.format(f"{names},-b"))
    if "related" not in query:
        assert len(parse_query(query.format(names)).sort) == MAX_SORT_KEYS


def test_groups_are_limited():
    """A name more takes a microsecond for each one before it, and a value in each group."""
    keys = ",".join(f"a{n}" for n in range(MAX_GROUP_KEYS))
    functions = ",".join(f"sum(a{n})" for n in range(MAX_GROUP_FUNCTIONS))
    aggregate = parse_query(f"group({keys};{functions})").aggregate
    assert aggregate is not None and (len(aggregate.keys), len(aggregate.functions)) == (MAX_GROUP_KEYS, MAX_GROUP_FUNCTIONS)
    with pytest.raises(QueryError, match="more than 32 attributes to group by"):
        parse_query(f"group({keys},b)")
    with pytest.raises(QueryError, match="more than 128 functions"):
        parse_query(f"group(a;{functions},count)")


def test_paths_are_limited():
    longest = ".".join(["a"] * MAX_PATH)
    assert len(parse_query(f"sort({longest})&select({longest})").sort[0].path) == MAX_PATH
    for text in (f"sort({longest}.a)", f"select({longest}.a)", f"facet({longest}.a)", f"group({longest}.a)", f"group(a;sum({longest}.a))"):
        with pytest.raises(QueryError, match="a path of more than 64 names"):
            parse_query(text)


def test_cursors():
    assert is_cursor("aZ09_-") and is_cursor("a" * MAX_CURSOR)
    for text in ("", "a b", "a=", "é", "a\n", "a" * (MAX_CURSOR + 1)):
        assert not is_cursor(text)
