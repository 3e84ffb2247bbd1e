"""svc.realtime.live.subscription_index: where queries are filed. That all are found which match is a property (tests/property/test_live_queries.py)."""

import random

import pytest

from svc.query import parse_query
from svc.query.resolve import resolve_where
from svc.realtime.live.subscription_index import CLOSED, COARSE, EQUAL, FEW, KEY, OPEN, RangeIndex, SubscriptionIndex, intervals_of, keys_of
from svc.store.values.keys import encode_key
from svc.store.values.records import encode
from tests.support.shop import shop

PRODUCTS, _ = shop([], [])


def places(text):
    return intervals_of(resolve_where(parse_query(text, PRODUCTS.attributes.__contains__).where, PRODUCTS), PRODUCTS)


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
    index = SubscriptionIndex(PRODUCTS)
    texts = ["name==a", "name==b", "price=gt=1&lt=5", "id==p1", "tags==x", "price==null"]
    for text in texts:
        index.add(text, resolve_where(parse_query(text).where, PRODUCTS))
    index.add("all", None)
    assert len(index) == 7 and set(index) == {*texts, "all"}
    found = {}
    index.find_unindexed(found)
    index.find_by_key(encode_key("p1"), found)
    index.find_by_values(encode({"id": "p1", "name": "a", "price": 3, "tags": ["y", "x"]}, 1.0, 1, None), found)
    assert set(found) == {"all", "id==p1", "name==a", "price=gt=1&lt=5", "tags==x"}
    found = {}
    index.find_by_values(encode({"id": "p2"}, 1.0, 1, None), found)
    assert set(found) == {"price==null"}
    index.remove("name==a")
    index.remove("name==a")
    found = {}
    index.find_by_values(encode({"id": "p1", "name": "a"}, 1.0, 1, None), found)
    assert set(found) == {"price==null"}


def test_numbers_beyond_any_index_are_found_by_open_ranges():
    index = SubscriptionIndex(PRODUCTS)
    index.add("above", resolve_where(parse_query("any=gt=number:5").where, PRODUCTS))
    index.add("below", resolve_where(parse_query("any=lt=number:5").where, PRODUCTS))
    for value, name in ((10**400, "above"), (-(10**400), "below")):
        assert len(keys_of(value)) == 1
        found = {}
        index.find_by_values(encode({"id": "a", "any": value}, 1.0, 1, None), found)
        assert name in found


def found(ranges, key):
    items = {}
    ranges.find(key, items)
    return set(items)


def test_a_range_holds_its_low_end_and_not_its_high_one():
    ranges = RangeIndex()
    ranges.add(b"b", b"d", 1)
    assert [found(ranges, key) for key in (b"a", b"b", b"c\xff", b"d")] == [set(), {1}, {1}, set()]


def test_equal_ranges_are_one_and_removing_what_is_not_there_is_harmless():
    ranges = RangeIndex()
    ranges.add(b"a", b"b", 1)
    ranges.add(b"a", b"b", 2)
    assert len(ranges) == 1
    ranges.remove(b"a", b"b", 3)
    ranges.remove(b"x", b"y", 1)
    ranges.remove(b"a", b"b", 1)
    assert found(ranges, b"a") == {2}
    ranges.remove(b"a", b"b", 2)
    assert not len(ranges) and found(ranges, b"a") == set()


def test_a_range_that_comes_back_is_found_in_the_tree_it_never_left():
    ranges = RangeIndex()
    for number in range(3 * FEW):
        ranges.add(bytes([number]), bytes([number + 2]), number)
    ranges.remove(b"\x05", b"\x07", 5)
    assert found(ranges, b"\x06") == {6}
    ranges.add(b"\x05", b"\x07", "again")
    assert found(ranges, b"\x06") == {6, "again"}


@pytest.mark.parametrize("seed", range(30))
def test_random_ranges_are_found_as_in_a_list(seed):
    source = random.Random(seed)
    ranges, brute = RangeIndex(), {}
    for step in range(source.choice([50, 400])):
        low, high = sorted(bytes(source.randrange(30) for _ in range(2)) for _ in range(2))
        if low < high and source.random() < 0.6:
            ranges.add(low, high, step % 20)
            brute.setdefault((low, high), set()).add(step % 20)
        elif brute:
            place = source.choice(sorted(brute))
            item = source.choice(sorted(brute[place]))
            ranges.remove(*place, item)
            brute[place].discard(item)
            if not brute[place]:
                del brute[place]
        key = bytes(source.randrange(31) for _ in range(2))
        assert found(ranges, key) == {item for (low, high), items in brute.items() if low <= key < high for item in items}
        assert len(ranges) == len(brute)
