"""Rows of few records beside those of `select` and of the executor's sort."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from svc.query.functions import sort_keys
from svc.query.links import Links
from svc.query.list_rows import MOST_BYTES, selecting, sorting, whole
from svc.query.nodes import Select, SelectItem, SortKey
from svc.query.relations import Lookups
from svc.store.values.records import decode_json_many
from tests.support.shop import shop

NOW = datetime(2024, 1, 5, tzinfo=UTC)


def sorted_as(keys, records, name="id"):
    """The values of an attribute in the order of a list, None: it declines; else they are in that of the executor."""
    products, _ = shop([{"id": f"p{number:02}", **record} for number, record in enumerate(records)])
    pairs = sorted(products.raws.items())
    found = sorting(keys, products, whole)([raw for _, raw in pairs], None)
    if found is None:
        return None
    codes = sort_keys(keys, products, Links())(pairs, Lookups(None))
    expected = [raw for _, (_, raw) in sorted(zip(codes, pairs, strict=True))]
    assert found == decode_json_many(expected)
    return [record.get(name) for record in found]


def values(name, *given):
    return [{} if value is Ellipsis else {name: value} for value in given]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("stock", (3, 1, 2, 1, 2**53)),
        ("stock", (3, None, 1, ..., 2, None)),
        ("price", (2.5, 1, 2, -0.5, 2**53 + 1, float(2**53), 1)),
        ("price", (..., 2.5, 1)),
        ("name", ("b", "a", "ab", "", "é", "B", "a\0", "a\1", "a", "\U0001f600", "\uffff")),
        ("name", ("b", None, "a")),
        ("name", ("x" * 300 + "b", "x" * 300 + "a")),
        ("inStock", (True, False, None, True)),
        ("listDate", (NOW, datetime(1970, 1, 1, tzinfo=UTC), None, NOW)),
        ("stock", ()),
    ],
)
def test_orders(name, given, descending):
    assert sorted_as([SortKey((name,), descending)], values(name, *given)) is not None
    assert (
        sorted_as([SortKey((name,), descending), SortKey(("stock" if name == "price" else "price",), not descending)], values(name, *given))
        is not None
    )


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("stock", (3, "a")),
        ("stock", (3, 2.5)),
        ("stock", (1, True)),
        ("price", (1, "a", 2.5)),
        ("price", (1, float("nan"))),
        ("price", (1.5, 10**400)),
        ("name", ("a", NOW)),
        ("name", ("a", 5)),
        ("name", ("a", ["b"])),
        ("inStock", (True, 1)),
        ("listDate", (NOW, 5)),
        ("listDate", (NOW, "2024-01-05T00:00:00.000Z")),
    ],
)
def test_values_of_other_types(name, given):
    assert sorted_as([SortKey((name,))], values(name, *given)) is None


def test_a_date_elsewhere_does_not_matter():
    found = sorted_as([SortKey(("name",))], [{"name": "b", "listDate": NOW}, {"name": "a", "specs": {"at": NOW}}], "name")
    assert found == ["a", "b"]


@pytest.mark.parametrize("path", [("specs",), ("tags",), ("image",), ("brand", "name"), ("specs", "a"), ("nope",)])
def test_what_is_not_sorted(path):
    products, _ = shop()
    assert sorting([SortKey(path)], products, whole) is None


def related(products, brands, *items):
    products, _ = shop(products, brands)
    found = selecting(Select(tuple(items)), products)(list(products.raws.values()), None)
    return None if found is None else msgspec.to_builtins(found)


BRAND = SelectItem(("brand",), Select((SelectItem(("name",)),)))


def test_the_record_that_a_relationship_leads_to():
    brands = [{"id": "k", "name": "K"}, {"id": 5, "name": "five"}, {"id": "x" * 600, "name": "long"}]
    keys = ["k", 5, 5.0, "none", None, ..., "x" * 600, "k"]
    products = [{"id": f"p{number}", **({} if key is Ellipsis else {"brandId": key})} for number, key in enumerate(keys)]
    names = ["K", "five", "five", None, None, None, "long", "K"]
    expected = [{"id": f"p{number}"} | ({"brand": {"name": name}} if name else {}) for number, name in enumerate(names)]
    assert related(products, brands, SelectItem(("id",)), BRAND) == expected
    found = related(products, brands, BRAND, SelectItem(("brandId",)))
    assert found[0] == {"brand": {"name": "K"}, "brandId": "k"} and list(found[0]) == ["brand", "brandId"]
    assert found[3] == {"brandId": "none"} and found[4] == {"brandId": None} and found[5] == {}
    assert related(products, brands, SelectItem(("brand",)))[:1] == [{"brand": {"id": "k", "name": "K"}}]


@pytest.mark.parametrize("key", [["k"], True, {"a": 1}, NOW, b"k"])
def test_keys_that_lead_to_several_or_are_unusual(key):
    assert related([{"id": "p", "brandId": key}], [{"id": "k"}], SelectItem(("id",)), BRAND) is None


def test_too_long():
    text = "x" * (MOST_BYTES // 3)
    products, _ = shop([{"id": f"p{number}", "name": text} for number in range(4)])
    raws = list(products.raws.values())
    for rows in (
        whole,
        selecting(Select((SelectItem(("id",)),)), products),
        selecting(Select((SelectItem(("id",)),), "value"), products),
        sorting([SortKey(("name",))], products, whole),
        sorting([SortKey(("listDate",))], products, whole),
    ):
        assert rows(raws, None) is None and rows(raws[:2], None) is not None
    assert related([{"id": "p", "brandId": "k"}], [{"id": "k", "name": text * 4}], SelectItem(("id",)), BRAND) is None


def test_damage():
    products, _ = shop([{"id": "p", "name": "a"}])
    raws = [raw[:-1] for raw in products.raws.values()]
    for rows in (whole, selecting(Select((SelectItem(("id",)), SelectItem(("name",)))), products)):
        assert rows(raws, None) is None
