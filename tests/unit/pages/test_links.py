from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from svc.pages.links import Variants, can_be_sorted, conditions_of, equal_to, printed, with_conditions
from svc.query.nodes import Query
from svc.query.url import parse_query
from svc.store.schema import Attribute


@pytest.mark.parametrize(
    ("value", "query"),
    [
        ("UA", "code==UA"),
        ("a b&c", "code==a%20b%26c"),
        ("null", "code==%6Eull"),
        ("x*", "code==x%2A"),
        (5, "code==5"),
        (1.5, "code==1%2E5"),
        (True, ""),
        (None, ""),
        (["a"], ""),
    ],
)
def test_a_query_for_one_value(value: Any, query: str) -> None:
    assert equal_to("code", value) == query


def test_another_order_begins_at_the_first_page() -> None:
    variants = Variants(parse_query("price=gt=5&sort(name)&limit(20,30)"))
    assert variants.orders_by("price")[1] == "?price=gt=5&sort(-price)&limit(10)"
    assert Variants(Query()).orders_by("a b<>")[0] == "?sort(a%20b%3C%3E)"


def test_conditions_one_by_one() -> None:
    query = parse_query("a==1&(b==2|c==3)&d[e==4]&sort(f)&limit(5)")
    variants = Variants(query)
    assert variants.conditions == ["a==1", "(b==2|c==3)", "d[e==4]"]
    assert variants.without(0) == "?(b==2|c==3)&d[e==4]&sort(f)&limit(5)"
    assert Variants(parse_query("a==1")).without(0) == "?"
    lone = Variants(parse_query("a==1|b==2"))
    assert lone.conditions == ["(a==1|b==2)"] and parse_query(lone.conditions[0]).where == parse_query("a==1|b==2").where
    assert printed(with_conditions(query, conditions_of(query)[1:])) == "?(b==2|c==3)&d[e==4]&sort(f)&limit(5)"
    assert conditions_of(Query()) == ()


def test_a_long_query_is_not_repeated() -> None:
    """A page has hundreds of links, and a query a thousand conditions."""
    long = Variants(parse_query("&".join(f"name!={number}" for number in range(1000))))
    assert long.conditions == [] and not long.orders_by("price")[1] and not long.with_value("name", "a")
    assert not Variants(parse_query(f"select({','.join(map(str, range(1000)))})")).orders_by("price")[0]
    assert not Variants(Query()).with_value("name", "a" * 5000) and not equal_to("name", "a" * 5000)


@pytest.mark.parametrize(
    ("attribute", "query", "scans", "expected"),
    [
        (Attribute("id"), "", False, True),
        (Attribute("name"), "", False, True),
        (Attribute("building"), "", False, False),
        (Attribute("stock"), "", False, False),
        (Attribute("stock"), "name==a", False, True),
        (Attribute("stock"), "", True, True),
        (Attribute("photo", "Blob"), "name==a", True, False),
        (Attribute("sum", computed_from="a + b"), "name==a", True, False),
    ],
)
def test_what_can_be_sorted(attribute: Attribute, query: str, scans: bool, expected: bool) -> None:
    table: Any = SimpleNamespace(primary_key="id", indexes={"name": SimpleNamespace(ready=True), "building": SimpleNamespace(ready=False)})
    assert can_be_sorted(attribute, table, parse_query(query), scans=scans) is expected
