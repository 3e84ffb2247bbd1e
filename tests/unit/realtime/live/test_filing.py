"""svc.realtime.live.filing: where queries are filed. That all are found which match is a property (tests/property/test_live_queries.py)."""

import pytest

from svc.query import parse_query
from svc.query.resolve import resolve_where
from svc.realtime.live.filing import CLOSED, COARSE, EQUAL, KEY, OPEN, Filing, keys_of, places_of
from svc.store.values.keys import encode_key
from svc.store.values.records import encode
from tests.unit.query.fakes import shop

PRODUCTS, _ = shop([], [])


def places(text):
    return places_of(resolve_where(parse_query(text, PRODUCTS.attributes.__contains__).where, PRODUCTS), PRODUCTS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id==p1", [(KEY, "")]),
        ("name==a", [(EQUAL, "name")]),
        ("price==null", [(COARSE, "price")]),
        ("inStock==true", [(COARSE, "inStock")]),
        ("price=gt=1&lt=5", [(CLOSED, "price")]),
        ("price=gt=1", [(OPEN, "price")]),
        ("name==a*", [(CLOSED, "name")]),
        ("name==*", [(OPEN, "name")]),
        ("id=ge=a&le=b", [(CLOSED, "")]),
        ("id==a*", [(CLOSED, "")]),
        ("inStock==true&price=gt=1&name==a&stock=gt=3", [(EQUAL, "name")]),
        ("inStock==true&price=gt=1", [(OPEN, "price")]),
        ("name=ct=a&inStock==true", [(COARSE, "inStock")]),
        ("name==a|name==b", [(EQUAL, "name"), (EQUAL, "name")]),
        ("name==a|price=gt=1", [(EQUAL, "name"), (OPEN, "price")]),
        ("(name==a|name==b)&id==p1", [(KEY, "")]),
        ("price=gt=5&lt=1", []),
        ("specs.color==red", None),
        ("name=ct=a", None),
        ("price!=1", None),
        ("brand.name==a", None),
        ("name==a|brand.name==a", None),
        ("brand.name==a&name==b", [(EQUAL, "name")]),
    ],
)
def test_a_query_is_filed_under_the_condition_that_says_most(text, expected):
    found = places(text)
    assert (None if found is None else [(place.rank, place.name) for place in found]) == expected


def test_a_very_long_or_is_found_always():
    assert places("|".join([f"name==a{number}" for number in range(65)])) is None
    assert len(places("|".join([f"name==a{number}" for number in range(64)]))) == 64


def test_a_change_finds_what_it_may_concern_and_nothing_else():
    filing = Filing(PRODUCTS)
    texts = ["name==a", "name==b", "price=gt=1&lt=5", "id==p1", "tags==x", "price==null"]
    for text in texts:
        filing.add(text, resolve_where(parse_query(text).where, PRODUCTS))
    filing.add("all", None)
    assert len(filing) == 7 and set(filing) == {*texts, "all"}
    found = {}
    filing.find_always(found)
    filing.find_by_key(encode_key("p1"), found)
    filing.find_by_values(encode({"id": "p1", "name": "a", "price": 3, "tags": ["y", "x"]}, 1.0, 1, None), found)
    assert set(found) == {"all", "id==p1", "name==a", "price=gt=1&lt=5", "tags==x"}
    found = {}
    filing.find_by_values(encode({"id": "p2"}, 1.0, 1, None), found)
    assert set(found) == {"price==null"}
    filing.remove("name==a")
    filing.remove("name==a")
    found = {}
    filing.find_by_values(encode({"id": "p1", "name": "a"}, 1.0, 1, None), found)
    assert set(found) == {"price==null"}


def test_numbers_beyond_any_index_are_found_by_open_ranges():
    filing = Filing(PRODUCTS)
    filing.add("above", resolve_where(parse_query("any=gt=number:5").where, PRODUCTS))
    filing.add("below", resolve_where(parse_query("any=lt=number:5").where, PRODUCTS))
    for value, name in ((10**400, "above"), (-(10**400), "below")):
        assert len(keys_of(value)) == 1
        found = {}
        filing.find_by_values(encode({"id": "a", "any": value}, 1.0, 1, None), found)
        assert name in found
