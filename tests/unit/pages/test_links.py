from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from svc.pages.links import can_be_sorted, conditions_of, equal_to, printed, sorted_by, with_conditions
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
    query = parse_query("price=gt=5&sort(name)&limit(20,30)")
    assert sorted_by(query, "price", descending=True) == "?price=gt=5&sort(-price)&limit(10)"
    assert sorted_by(Query(), "a b<>", descending=False) == "?sort(a%20b%3C%3E)"


def test_conditions_one_by_one() -> None:
    query = parse_query("a==1&(b==2|c==3)&d[e==4]&limit(5)")
    conditions = conditions_of(query)
    assert [printed(Query(each)) for each in conditions] == ["?a==1", "?(b==2|c==3)", "?d[e==4]"]
    assert printed(with_conditions(query, conditions[1:])) == "?(b==2|c==3)&d[e==4]&limit(5)"
    assert printed(with_conditions(query, ())) == "?limit(5)"
    assert conditions_of(Query()) == () and len(conditions_of(parse_query("a==1|b==2"))) == 1


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
