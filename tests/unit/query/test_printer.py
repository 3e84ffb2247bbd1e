from datetime import UTC, datetime

import pytest

from svc.query import parse_query, print_query
from svc.query.nodes import Comparator, Condition, Conversion, Group, Query, Select, SelectItem, SortKey


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        ("a=1", "a===1"),
        ("a=eq=1|b<2&c=1", "(a==1|b=lt=2&c===1)"),
        ("a>1&lt=2", "a=gt=1&=lt=2"),
        ("(a=1&b=2)&c=3", "(a===1&b===2)&c===3"),
        ("a==x*&b==null&c==string:null", "a=sw=x&b==null&c==string:null"),
        ("a==date:1000", "a==date:1970-01-01T00%3A00%3A01%2E000Z"),
        ("limit(2,5)&sort(-a,b.c)&x=1", "x===1&sort(-a,b.c)&limit(2,5)"),
        ("select([a,b{c}])", "select([a,b{c}])"),
        ("select(a,)", "select(a,)"),
        ("count()&a=1|b=1", "(a===1|b===1)&count()"),
        ("facet(a.b)", "facet(a.b)"),
        ("group(a,b;sum(x.y))&limit(1)", "limit(1)&group(a,b;sum(x.y))"),
        ("group(a)", "group(a;count)"),
        ("group(;sum(a),count)", "group(;sum(a),count)"),
        ("after(x)&a=1", "a===1&after(x)"),
        ("p[a=1&limit(2)]", "p[a===1&limit(2)]"),
        ("[a.b=1]&((a.c=2))&(d=3)&a.e=4", "(a.b===1)&(a.c===2)&d===3&a.e===4"),
        ("[a.b=1]", "(a.b===1)"),
        ("(a.b=1)|a.c=2", "((a.b===1)|a.c===2)"),
    ],
)
def test_the_canonical_form(text, printed):
    assert print_query(parse_query(text)) == printed
    assert parse_query(printed) == parse_query(text)


def test_an_offset_and_a_count():
    query = Query(offset=3, counted=True)
    assert print_query(query) == "limit(3,)&_count=exact"
    assert parse_query("limit(3,)&_count=exact") == query


def test_a_group_of_one_is_printed_as_its_member():
    member = Condition(("a",), Comparator.EQUALS, datetime(2024, 1, 1, tzinfo=UTC), Conversion.FORCED)
    assert print_query(Query(Group("and", (member,)))) == print_query(Query(member))


@pytest.mark.parametrize(
    "query",
    [
        Query(Condition(("a",), Comparator.EQUALS, b"x", Conversion.FORCED)),
        Query(Condition(("a",), Comparator.PREFIX, ("x",))),
        Query(select=Select((SelectItem(("a,b",)),))),
        Query(sort=(SortKey(("a{",)),)),
    ],
)
def test_what_the_language_cannot_say_is_a_value_error(query):
    with pytest.raises(ValueError, match="no form"):
        print_query(query)
