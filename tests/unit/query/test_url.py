from datetime import UTC, datetime

import pytest

from svc.errors import QueryError, QuerySyntaxError
from svc.query.nodes import Aggregate, Bound, Comparator, Condition, Conversion, Group, Query, RelationFilter, Select, SelectItem, SortKey
from svc.query.url import MAX_DEPTH, parse_query

EQ, NE, GT, GE, LT, LE = (
    Comparator.EQUALS,
    Comparator.NOT_EQUAL,
    Comparator.GREATER_THAN,
    Comparator.GREATER_THAN_EQUAL,
    Comparator.LESS_THAN,
    Comparator.LESS_THAN_EQUAL,
)
CONVERTING, STRICT, TEXT, FORCED = Conversion.CONVERTING, Conversion.STRICT, Conversion.TEXT, Conversion.FORCED


def condition(name, comparator, value, conversion=CONVERTING):
    return Condition(tuple(name.split(".")), comparator, value, conversion)


A, B, C = (condition(name, EQ, "1", STRICT) for name in "abc")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a=1", A),
        ("a===1", A),
        ("a[]=1", A),
        ("(a=1)", A),
        ("[[a=1]]", A),
        ("&&a=1&", A),
        ("a==1", condition("a", EQ, "1")),
        ("a=eq=1", condition("a", EQ, "1")),
        ("a!=1", condition("a", NE, "1")),
        ("a=ne=1", condition("a", NE, "1")),
        ("a!==1", condition("a", NE, "1", STRICT)),
        ("a<1", condition("a", LT, "1")),
        ("a<=1", condition("a", LE, "1")),
        ("a>1", condition("a", GT, "1")),
        ("a>=1", condition("a", GE, "1")),
        ("a=lt=1", condition("a", LT, "1")),
        ("a=sw=1", condition("a", Comparator.STARTS_WITH, "1", TEXT)),
        ("a=ct=1", condition("a", Comparator.CONTAINS, "1", TEXT)),
        ("a=ew=1", condition("a", Comparator.ENDS_WITH, "1", TEXT)),
        ("b.a=1", condition("b.a", EQ, "1", STRICT)),
        ("a=", condition("a", EQ, "", STRICT)),
        ("a=gt=string:", Condition(("a",), GT, "", Conversion.FORCED)),
        ("a=f(x)!,.<y>", condition("a", EQ, "f(x)!,.<y>", STRICT)),
        # precedence
        ("a=1&b=1|c=1", Group("or", (Group("and", (A, B)), C))),
        ("a=1|b=1&c=1", Group("or", (A, Group("and", (B, C))))),
        ("a=1&(b=1|c=1)", Group("and", (A, Group("or", (B, C))))),
        ("a=1&[b=1|c=1]", Group("and", (A, Group("or", (B, C))))),
        ("a=1|b=1&limit(5)", Group("or", (A, B))),
        # chained ranges
        ("a=gt=1&lt=2", condition("a", Comparator.GTLT, ("1", "2"))),
        ("a=ge=1&=le=2", condition("a", Comparator.BETWEEN, ("1", "2"))),
        ("a=lt=2&ge=1", condition("a", Comparator.GELT, ("1", "2"))),
        ("a>1&le=2", condition("a", Comparator.GTLE, ("1", "2"))),
        ("a>1&&le=2&b=1", Group("and", (condition("a", Comparator.GTLE, ("1", "2")), B))),
        ("a>number:1&le=2", condition("a", Comparator.GTLE, (Bound(1, FORCED), Bound("2", CONVERTING)))),
        ("a>1&lt==2", Group("and", (condition("a", GT, "1"), condition("lt", EQ, "2")))),
        # decoding
        ("a==b%26c%3Dd", condition("a", EQ, "b&c=d")),
        ("a=b+c", condition("a", EQ, "b c", STRICT)),
        ("a==b+c", condition("a", EQ, "b+c")),
        ("a===b+c", condition("a", EQ, "b+c", STRICT)),
        ("a%2Eb=1", Condition(("a.b",), EQ, "1", STRICT)),
        # what a value says about its type
        ("a==null", condition("a", EQ, None, FORCED)),
        ("a==n%75ll", condition("a", EQ, "null")),
        ("a=null", condition("a", EQ, "null", STRICT)),
        ("a==number:2.5", condition("a", EQ, 2.5, FORCED)),
        ("a==number:12345678901234567890", condition("a", EQ, 12345678901234567890, FORCED)),
        ("a!=boolean:True", condition("a", NE, True, FORCED)),
        ("a==string:x:y", condition("a", EQ, "x:y", FORCED)),
        ("a==string%3Ax", condition("a", EQ, "string:x")),
        ("a==date:1000", condition("a", EQ, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), FORCED)),
        ("a=gt=date:2024-01-05T20%3A07Z", condition("a", GT, datetime(2024, 1, 5, 20, 7, tzinfo=UTC), FORCED)),
        ("a=gt=2024-01-05T20:07:27Z", condition("a", GT, "2024-01-05T20:07:27Z")),
        # wildcards
        ("a==x*", condition("a", Comparator.STARTS_WITH, "x", TEXT)),
        ("a==*", condition("a", Comparator.STARTS_WITH, "", TEXT)),
        ("a==x%2A", condition("a", EQ, "x*")),
        ("a=x*", condition("a", EQ, "x*", STRICT)),
        # tolerance
        ("%28a=1%7Cb=1%29&c=1", Group("and", (Group("or", (A, B)), C))),
        ("a%3E=1", condition("a", GE, "1")),
        ("a==x%28y%29", condition("a", EQ, "x(y)")),
        # relation filters
        ("a[b=1]", RelationFilter(("a",), Query(B))),
        ("a[b=1&sort(-c)&limit(3)]", RelationFilter(("a",), Query(B, None, (SortKey(("c",), True),), 0, 3))),
    ],
)
def test_conditions(text, where):
    assert parse_query(text).where == where


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("", Query()),
        ("&", Query()),
        ("limit(5)", Query(limit=5)),
        ("limit(2,5)", Query(offset=2, limit=3)),
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
    ],
)
def test_calls(text, query):
    assert parse_query(text) == query


def test_a_declared_attribute_may_be_called_lt():
    assert parse_query("a>1&lt=2", {"lt"}.__contains__).where == Group("and", (condition("a", GT, "1"), condition("lt", EQ, "2", STRICT)))


@pytest.mark.parametrize(
    ("text", "position", "part"),
    [
        ("a", 1, "expected an operator but found the end"),
        ("a&b=1", 1, "expected an operator but found '&'"),
        ("=1", 0, "a condition begins with the name of an attribute"),
        ("a=1|", 4, "each side of | needs one"),
        ("|a=1", 0, "expected a condition"),
        ("a=1||b=1", 4, "expected a condition"),
        ("()", 1, "expected a condition but found ')'"),
        ("(a=1", 4, "expected ')'"),
        ("(a=1]", 4, "']'"),
        ("a=1)b=2", 5, "found '='"),
        ("a=b=c", 1, "Unknown query comparator"),
        ("a==b=c", 4, "= in a value is written %3D"),
        ("a={}", 2, "{ in a value is written %7B"),
        ("a..b=1", 2, "the name of an attribute"),
        ("a==%zz", 3, "bad percent-encoding"),
        ("a==%ff", 3, "not UTF-8"),
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
        ("a[]", 2, "an empty relation filter"),
        ("count(a)", 6, "facet(a) counts"),
        ("facet()", 6, "the name of an attribute"),
        ("facet(a,b)", 7, "expected ')'"),
        ("group()", 6, "the name of an attribute"),
        ("group(;count)", 6, "the name of an attribute"),
        ("group(a,a)", 8, "'a' a second time"),
        ("group(a;sum)", 11, "sum needs an attribute"),
        ("group(a;median(x))", 8, "unknown function 'median'"),
        ("group(a;count,)", 14, "expected a function"),
        ("group(a;sum(x),sum(x))", 15, "'sum' a second time"),
        ("group(a;count(x))", 13, "expected ')'"),
        ("count()&facet(a)", 8, "a second aggregate"),
        ("count()&select(a)", 8, "'count(...)' together with 'select(...)'"),
        ("select(a)&count()", 10, "'count(...)' together with 'select(...)'"),
        ("after(a)&facet(a)", 9, "'facet(...)' together with 'after(...)'"),
        ("b[count()]", 2, "'count(...)' inside a relation filter"),
        ("(a=1&count())", 5, "'count(...)' inside a group"),
        ("after()", 6, "expected a cursor"),
        ("after(a.b)", 7, "expected ')'"),
        ("after(" + "a" * 4097 + ")", 6, "expected a cursor"),
        ("a=gt=", 5, "expected a value for greater_than"),
        ("b=1&a<", 6, "expected a value for less_than"),
        ("a=sw=&b=1", 5, "expected a value for starts_with"),
        ("a=ge=1&lt=", 10, "expected a value for less_than"),
        ("a.b[c=1]", 3, "nested"),
        ("\ud800=1", 0, "not Unicode text"),
    ],
)
def test_faults_have_a_position_and_say_what_is_wrong(text, position, part):
    with pytest.raises(QueryError) as caught:
        parse_query(text)
    assert part in caught.value.message
    assert f"at position {position} " in caught.value.message
    assert caught.value.status_code == 400


@pytest.mark.parametrize(
    "text",
    ["a=in=1", "a==x*y", "lt=5", "a=1&lt=5", "a>1&gt=2", "a>1&lt=2&lt=3", "(a>1)&lt=2", "a>1&b=1&lt=2", "a==1&lt=2"],
)
def test_unusable_operators(text):
    with pytest.raises(QueryError) as caught:
        parse_query(text)
    assert caught.value.code == "UNUSABLE_OPERATOR"


@pytest.mark.parametrize("value", ["number:x", "number:", "number:1e999", "boolean:1", "date:tomorrow", "date:"])
def test_a_forced_type_that_does_not_fit_is_a_bad_value(value):
    with pytest.raises(QueryError, match="Invalid value for attribute a: ") as caught:
        parse_query(f"a=={value}")
    assert caught.value.code == "BAD_VALUE"


def test_nesting_is_limited():
    parse_query("(" * MAX_DEPTH + "a=1" + ")" * MAX_DEPTH)
    for opening, closing in ("()", "[]"):
        with pytest.raises(QuerySyntaxError, match="nesting"):
            parse_query(opening * (MAX_DEPTH + 1) + "a=1" + closing * (MAX_DEPTH + 1))
    with pytest.raises(QuerySyntaxError, match="nesting"):
        parse_query("select(" + "a{" * 40 + "b" + "}" * 40 + ")")
