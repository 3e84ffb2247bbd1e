import pytest

from svc.errors import QueryError
from svc.query import parse_query
from svc.query.hints import PARAMETERS as HINTED
from svc.query.plain_parameters import PARAMETERS, maybe_empty_parameter


@pytest.mark.parametrize(
    ("plain", "language"),
    [
        ("_select=id,name", "select(id,name)"),
        ("_select=id", "select(id)"),
        ("_select=id%2Cbrand%7Bname%7D", "select(id,brand{name})"),
        ("_select=id&_select=name", "select(id,name)"),
        ("_select=id,+name", "select(id,name)"),
        ("_select=brand[name==a+b]", "select(brand[name==a b])"),
        ("_sort=-price,name", "sort(-price,name)"),
        ("_sort=%2Bprice&_sort=-name", "sort(+price,-name)"),
        ("_limit=20", "limit(20)"),
        ("_limit=20&_offset=40", "limit(40,60)"),
        ("_offset=40&a=1&_limit=20", "limit(40,60)&a=1"),
        ("_offset=40", "limit(40,)"),
        ("_after=abc", "after(abc)"),
        ("_live=true", "live()"),
        ("_live=false&a=1", "a=1"),
        ("_facet=brand.name", "facet(brand.name)"),
        ("_group=brandId;count,sum(price)", "group(brandId;count,sum(price))"),
        ("_where=a=1|b==2", "[a=1|b==2]"),
        ("c=3&_where=a%3D%3Dx%252By%26b%3Dgt%3D1&_where=d=1", "c=3&[a==x%2By&b=gt=1]&[d=1]"),
        ("_where=a==x(&b=1", "[a==x(]&b=1"),
        ("_select=&_sort=&_limit=&_offset=&_where=&_live=&_count=&a=1", "a=1"),
    ],
)
def test_the_same_as_the_call(plain, language):
    assert parse_query(plain) == parse_query(language)


def test_count_is_of_the_whole_query():
    assert parse_query("a=1&_count=exact").counted
    assert not parse_query("a=1").counted


@pytest.mark.parametrize(
    ("text", "what", "position"),
    [
        ("a=1&_limit=x", "_limit is 'x'", 4),
        ("_limit=-1", "_limit is '-1'", 0),
        ("_offset=1%29", "_offset is '1)'", 0),
        ("_limit=1&_limit=2", "_limit a second time", 0),
        ("_limit=999999999999999999&_offset=1", "too large", 26),
        ("_limit=5&limit(3)", "_limit beside limit(...)", 0),
        ("limit(3)&_offset=5", "_offset beside limit(...)", 9),
        ("a=1|b=2&sort(a)&_sort=b", "_sort beside sort(...)", 16),
        ("select%28id%29=&_select=b", "_select beside select(...)", 16),
        ("_live=yes", "_live is 'yes'", 0),
        ("_count=about", "_count is 'about'", 0),
        ("_count=exact&count()", "'_count' together with 'count(...)'", 0),
        ("live()&_count=exact", "'_count' together with 'live(...)'", 7),
        ("_where=a=1]%26[b=2", "brackets in _where", 0),
        ("_where=limit(3)", "'limit(...)' inside a group", 0),
        ("_select=a)%26limit(3", "brackets in _select", 0),
        ("_sort=a%26b", "expected", 0),
        ("_after=.", "expected a cursor", 0),
        ("_limit=%zz", "bad percent-encoding in _limit", 0),
        ("_limit=%ff", "not UTF-8 in _limit", 0),
        ("_limit=3&a=gt=", "expected a value", 9 + 5),
    ],
)
def test_faults(text, what, position):
    with pytest.raises(QueryError) as caught:
        parse_query(text)
    assert caught.value.code == "QUERY_SYNTAX"
    assert what in caught.value.message
    assert caught.value.position == position
    assert f"at position {position} in '{text}'" in caught.value.message


def test_a_table_with_such_an_attribute():
    for name in PARAMETERS:
        with pytest.raises(QueryError, match=f"the table has an attribute {name}.*{name}==value"):
            parse_query(f"a=1&{name}=exact", {name}.__contains__)
        assert parse_query(f"{name}==5", {name}.__contains__).where is not None


def test_elsewhere_they_are_names():
    assert parse_query("[_limit=5]").where == parse_query("_limit===5").where
    assert parse_query("_limits=5").where is not None
    assert parse_query("_limit==5").limit is None


def test_empty_ones():
    assert maybe_empty_parameter("a=1&_where=&b=1") == "_where"
    assert maybe_empty_parameter("_limit=") == "_limit"
    assert maybe_empty_parameter("_limit=1&a=&x_limit=") is None


def test_hints_know_all_of_them():
    assert set(HINTED) == set(PARAMETERS)
