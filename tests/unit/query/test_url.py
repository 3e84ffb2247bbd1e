from datetime import UTC, datetime

import pytest

from svc.errors import QueryError, QuerySyntaxError
from svc.query.calls import MAX_DEPTH, MAX_PATH
from svc.query.nodes import Bound, Comparator, Condition, Conversion, Group, Query, RelationFilter, SortKey
from svc.query.url import MAX_TEXT, parse_query

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
        ("a%5B%5D=1", A),
        ("a%21%3D=1", condition("a", NE, "1", STRICT)),
        ("%5ba=1%7cb=1%5d", Group("or", (A, B))),
        # an empty value is not a missing one
        ("a==", condition("a", EQ, "")),
        ("a!=&b=1", Group("and", (condition("a", NE, ""), B))),
        ("a=&b=1", Group("and", (condition("a", EQ, "", STRICT), B))),
        # empty terms
        ("&a=1&&&b=1&", Group("and", (A, B))),
        ("a=1&|b=1", Group("or", (A, B))),
        ("(&a=1&)", A),
        # parentheses belong to a value outside of groups, brackets never
        ("a=f(x)&b=1", Group("and", (condition("a", EQ, "f(x)", STRICT), B))),
        ("[a=f(x)]", condition("a", EQ, "f(x)", STRICT)),
        ("(a=f%28x%29)", condition("a", EQ, "f(x)", STRICT)),
        # a wildcard is one for == and =eq= only, and what has another type has none
        ("a=eq=x*", condition("a", Comparator.STARTS_WITH, "x", TEXT)),
        ("a==string:x*", condition("a", Comparator.STARTS_WITH, "x", TEXT)),
        ("a!=x%2A", condition("a", NE, "x*")),
        ("a!=string:x%2A", condition("a", NE, "x*", FORCED)),
        ("a!==x*", condition("a", NE, "x*", STRICT)),
        ("a=gt=x*", condition("a", GT, "x*")),
        ("a=sw=x*", condition("a", Comparator.STARTS_WITH, "x*", TEXT)),
        ("a===x*", condition("a", EQ, "x*", STRICT)),
        # text operators take text
        ("a=ct=null", condition("a", Comparator.CONTAINS, "null", TEXT)),
        ("a=ew=number:5", condition("a", Comparator.ENDS_WITH, "number:5", TEXT)),
        ("a=gt=null", condition("a", GT, None, FORCED)),
        # a range goes on behind empty terms, with the other end first, with an end of its own type
        ("a=le=2&&=gt=1", condition("a", Comparator.GTLE, ("1", "2"))),
        ("b.a=ge=date:0&lt=null", condition("b.a", Comparator.GELT, (datetime(1970, 1, 1, tzinfo=UTC), None), FORCED)),
        ("(a=ge=1&lt=2)|b=1", Group("or", (condition("a", Comparator.GELT, ("1", "2")), B))),
        ("b[a=ge=1&lt=2]", RelationFilter(("b",), Query(condition("a", Comparator.GELT, ("1", "2"))))),
        ("a=gt", condition("a", EQ, "gt", STRICT)),
        # names
        ("a b=1", condition("a b", EQ, "1", STRICT)),
        ("a%20b=1", condition("a b", EQ, "1", STRICT)),
        ("a+b=1", condition("a+b", EQ, "1", STRICT)),
        ("select=1", condition("select", EQ, "1", STRICT)),
        ("é=ü", condition("é", EQ, "ü", STRICT)),
        # relation filters
        ("a[b=1]", RelationFilter(("a",), Query(B))),
        ("a[b=1&sort(-c)&limit(3)]", RelationFilter(("a",), Query(B, None, (SortKey(("c",), True),), 0, 3))),
    ],
)
def test_conditions(text, where):
    assert parse_query(text).where == where


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
        ("a[]", 2, "an empty relation filter"),
        ("a=gt=", 5, "expected a value after '=gt='"),
        ("b=1&a<", 6, "expected a value after '<'"),
        ("a=sw=&b=1", 5, "expected a value after '=sw='"),
        ("a=ge=1&lt=", 10, "expected a value after 'lt='"),
        ("a=ge=1&=lt=", 11, "expected a value after '=lt='"),
        ("b>&a=1", 2, "expected a value after '>'"),
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
    [
        "a=in=1",
        "a==x*y",
        "a!=x*",
        "a!=*",
        "a=ne=*x",
        "a!=string:x*",
        "(a=1|a!=x*)",
        "a==*x",
        "a==**",
        "a=GT=1",
        "(a>1)&=lt=2",
        "a>1&limit(1)&lt=2",
        "a>1|lt=2",
        "a==x*&lt=2",
        "a[b=1]&lt=2",
        "lt=5",
        "a=1&lt=5",
        "a>1&gt=2",
        "a>1&lt=2&lt=3",
        "(a>1)&lt=2",
        "a>1&b=1&lt=2",
        "a==1&lt=2",
    ],
)
def test_unusable_operators(text):
    with pytest.raises(QueryError) as caught:
        parse_query(text)
    assert caught.value.code == "UNUSABLE_OPERATOR"
    assert caught.value.position is not None and f"at position {caught.value.position} in '{text}'" in caught.value.message


@pytest.mark.parametrize(
    "value", ["number:5*", "date:2024*", "boolean:*", "number:x", "number:", "number:1e999", "boolean:1", "date:tomorrow", "date:"]
)
def test_a_forced_type_that_does_not_fit_is_a_bad_value(value):
    with pytest.raises(QueryError, match="Invalid value for attribute a: ") as caught:
        parse_query(f"a=={value}")
    assert caught.value.code == "BAD_VALUE"
    assert caught.value.position == 3


def test_nesting_is_limited():
    parse_query("(" * MAX_DEPTH + "a=1" + ")" * MAX_DEPTH)
    for opening, closing in ("()", "[]"):
        with pytest.raises(QuerySyntaxError, match="nesting"):
            parse_query(opening * (MAX_DEPTH + 1) + "a=1" + closing * (MAX_DEPTH + 1))
    with pytest.raises(QuerySyntaxError, match="nesting"):
        parse_query("select(" + "a{" * 40 + "b" + "}" * 40 + ")")


def test_paths_and_texts_are_limited():
    longest = ".".join(["a"] * MAX_PATH)
    assert len(parse_query(f"{longest}=1&sort({longest})&select({longest})").sort[0].path) == MAX_PATH
    for text in (f"{longest}.a=1", f"sort({longest}.a)", f"select({longest}.a)", f"facet({longest}.a)", f"group({longest}.a)"):
        with pytest.raises(QuerySyntaxError, match="a path of more than"):
            parse_query(text)
    parse_query("&" * MAX_TEXT)
    with pytest.raises(QuerySyntaxError, match="more than 16384 characters"):
        parse_query("&" * (MAX_TEXT + 1))


def test_a_long_query_is_shown_around_the_fault():
    with pytest.raises(QuerySyntaxError) as caught:
        parse_query("a=1&" * 500 + "b=(]" + "&a=1" * 500)
    assert caught.value.position == 2003
    assert "'..." in caught.value.message and "b=(]" in caught.value.message and len(caught.value.message) < 400


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a=GT=1", "did you mean =gt=?"),
        ("a=gte=1", "did you mean =ge=?"),
        ("a=startswith=x", "did you mean =sw=?"),
        ("a=starts_with=x", "did you mean =sw=?"),
        ("a=greater-than=5", "did you mean =gt=?"),
        ("a=eqq=1", "did you mean =eq=?"),
        ("a=xyz=1", "operators are =eq= =ne="),
        ("b.a=in=(x,y,z)&c=1", "alternatives are written [b.a=x|b.a=y|b.a=z]"),
        ("a=in=5", "alternatives are written [a=1|a=2]"),
        ("a=out=x,y", "this is written a!=x&a!=y"),
        ("a=between=3,7", "a range is written a=ge=3&le=7"),
        ("a=like=x*", "=sw= finds the beginning"),
        ("a=isnull=true", "a==null finds what is missing"),
        ("a==b=c", "= in a value is written %3D"),
        ("a==[b]", "[ in a value is written %5B"),
        ("(a==b(c))", "( in a value is written %28"),
        ("a,b=1", ", in a name is written %2C"),
        ("a!1", "! in a name is written %21"),
        ("a==x*y", "%2A is a literal star"),
        ("a=50%", "a percent sign is written %25"),
        ("a", "a condition is written a==value"),
        ("a:5", "a condition is written a==value"),
        ("a%3D5", "an operator must not be percent-encoded"),
        ("a%253D5", "the query is percent-encoded twice"),
        ("a%20gt%205", "a condition is written a=gt=value"),
        ("a+like+x", "=sw= finds the beginning"),
        ("a%20not%20in%20(1,2)", "this is written a!=1&a!=2"),
        ("a=gt=5%20and%20b=lt=3", "conditions are joined with & and |"),
        ("a=gt=5+OR+b=lt=3", "conditions are joined with & and |"),
        ("(a=1&b=2", "')' to close the '(' at position 0 but found the end"),
        ("c=1&[a=1|b=1", "']' to close the '[' at position 4 but found the end"),
        ("select(a,b{c)", "'}' to close the '{' at position 10 but found ')'"),
        ("select(a[b=1)", "']' to close the '[' at position 8 but found ')'"),
        ("group(a;sum(b)", "')' to close the '(' at position 5 but found the end"),
        ("a>1&ge=2", "one of gt, ge and one of lt, le"),
        ("lt=2", "lt alone is an attribute only if the table declares it"),
        ("orderby(a)", "did you mean sort(...)?"),
        ("order%20by(a)", "did you mean sort(...)?"),
        ("order_by(a)", "did you mean sort(...)?"),
        ("Select(a)", "did you mean select(...)?"),
        ("fields(a)", "did you mean select(...)?"),
        ("limitt(1)", "did you mean limit(...)?"),
        ("offset(1)", "limit(start,end) skips"),
        ("group-by(a)", "did you mean group(...)?"),
        ("distinct(a)", "did you mean facet(...)?"),
        ("sum(a)", "functions stand inside group(a;sum(x))"),
        ("and(a,b)", "conditions are joined with & and |"),
        ("eq(a,1)", "a condition is written a=gt=1"),
        ("in(a,(1,2))", "alternatives are written [a=1|a=2]"),
        ("xyz(a)", "calls are select, sort, limit"),
        ("group(a;summ(b))", 'did you mean "sum"?'),
        ("limit(-1)", "limit(count) or limit(start,end)"),
    ],
)
def test_a_fault_that_can_be_guessed_comes_with_a_hint(text, hint):
    with pytest.raises(QueryError) as caught:
        parse_query(text)
    assert hint in caught.value.message
