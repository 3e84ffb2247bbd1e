import pytest

from svc.errors import QueryError
from svc.query import parse_query
from svc.query.form import maybe_form


def nothing(name):
    return False


@pytest.mark.parametrize("text", ["", "a=1&b==x%20y", "name==a%28b%29&sort(-a)", "a%3Db==5", "[a=1|b=2]&limit(3)", "_a=1"])
def test_what_is_in_the_language_already(text):
    assert maybe_form(text, nothing) is None


def test_positions_lead_back_to_what_was_sent():
    text = "price%3Dgt=5&name==x&_sort=a,b&select%28c%29="
    form = maybe_form(text, nothing)
    assert form is not None and form.text == "price=gt=5&name==x&sort(a,b)&select(c)"
    assert [form.position(form.text.index(part)) for part in ("price", "gt", "name", "x", "sort", "b)", "select", "c)")] == [
        0,
        0,
        13,
        19,
        21,
        21,
        31,
        31,
    ]
    query = parse_query(text)
    assert [member.position for member in query.where.members] == [0, 13]
    assert [key.position for key in query.sort] == [21, 21] and query.select.items[0].position == 31


@pytest.mark.parametrize(
    ("text", "code", "position"),
    [
        ("_limit=3&a=zz=1", "UNUSABLE_OPERATOR", 10),
        ("a%3Dzz=1&b=1", "UNUSABLE_OPERATOR", 0),
        ("_limit=3&a==number:x", "BAD_VALUE", 12),
        ("_limit=3&a=1|", "QUERY_SYNTAX", 13),
    ],
)
def test_faults_have_their_position_in_what_was_sent(text, code, position):
    with pytest.raises(QueryError) as caught:
        parse_query(text)
    assert (caught.value.code, caught.value.position) == (code, position)


def test_what_is_not_unicode_is_shown_escaped():
    with pytest.raises(QueryError) as caught:
        parse_query("_limit=5\udccf")
    caught.value.message.encode()


def test_an_encoded_value_is_data_whatever_is_in_it():
    query = parse_query("select%28id%29=&price%3E=5&name=a%7Cid%3E0%29&_limit=3")
    assert query == parse_query("select(id)&price>=5&name=a%7Cid%3E0%29&limit(3)")


def test_a_range_in_two_parameters():
    assert parse_query("price%3Dgt=5&lt=1+0") == parse_query("price=gt=5&lt=1%200")


@pytest.mark.parametrize(
    ("text", "same"),
    [("_=1731930000", ""), ("a=1&_=5", "a=1"), ("_=&a=gt=1&lt=5", "a=gt=1&lt=5"), ("_=1&_limit=3&_=2", "limit(3)")],
)
def test_what_libraries_add_against_caches_is_left_out(text, same):
    assert parse_query(text) == parse_query(same)


@pytest.mark.parametrize("text", ["_==5", "_=abc", "_=gt=5", "__=5", "[_=5]", "_=5|a=1"])
def test_other_uses_of_that_name_are_conditions(text):
    assert parse_query(text).where is not None


def test_an_attribute_of_that_name_can_be_asked_for():
    assert parse_query("_=5", "_".__eq__).where.path == ("_",)
