"""svc.query.explain: plans in words and figures."""

import json
from datetime import UTC, datetime

import pytest

from svc.query import parse_query, plan_query
from svc.query.explain import Explanation, explain
from svc.query.nodes import Comparator, Condition, Group, Query
from tests.support.shop import shop

RECORDS = [
    {"id": f"p{n:03}", "name": "abc"[n % 3], "price": n, "tags": ["x", "y"][: n % 3], "stock": n % 5, "brandId": f"b{n % 2}"}
    for n in range(100)
]
PRODUCTS, BRANDS = shop(RECORDS, [{"id": "b0", "name": "zero"}, {"id": "b1", "name": "one", "country": "c"}])


def plan(text, table=PRODUCTS, **options):
    return plan_query(parse_query(text, table.attributes.__contains__), table, None, **{"allow_full_scan": True, **options})


def explained(text, table=PRODUCTS):
    explanation = Explanation(plan(text, table), None)
    steps = 1
    while not explanation.step():
        steps += 1
    assert steps < 10
    return explanation.result(None)


def test_conditions_in_the_order_of_execution():
    assert explain(plan("stock=1&price=gt=90&sort(name)&select(id)")) == {
        "conditions": [
            {"attribute": "price", "comparator": "greater_than", "value": 90, "estimatedRows": 9, "access": "index"},
            {"attribute": "stock", "comparator": "equals", "value": 1, "estimatedRows": None},
        ],
        "operator": "and",
        "postOrdering": [{"attribute": "name", "descending": False}],
        "selectApplied": True,
    }
    assert explain(plan("price=5|name=a"))["operator"] == "or"
    assert explain(plan("")) == {"conditions": [], "operator": "and", "postOrdering": None, "selectApplied": False}
    assert explain(plan("brand.name=one"))["conditions"] == [
        {
            "attribute": "brand",
            "operator": "and",
            "conditions": [{"attribute": "name", "comparator": "equals", "value": "one", "estimatedRows": 1}],
            "estimatedRows": 51,
            "access": "join",
        }
    ]


@pytest.mark.parametrize(
    ("text", "access"),
    [
        ("", "full scan, ascending"),
        ("sort(-id)", "full scan, descending"),
        ("id=p001", 'primary key, id = "p001"'),
        ("id=ge=p001&lt=p01", 'primary key, "p001" <= id < "p01", ascending'),
        ("id=sw=p0", 'primary key, id starts with "p0", ascending'),
        ("price=ge=20&lt=60", "index price, 20 <= price < 60, ascending"),
        ("price=gt=20&sort(-price)", "index price, 20 < price, descending"),
        ("price=le=20&sort(price,name)", "index price, price <= 20, ascending, equal ones by name"),
        ("price!=null", "index price, price is not null, ascending"),
        ("price==null", "index price, price = null, ascending"),
        ("name=a&sort(-stock)", 'index name, name = "a", ascending, sorted in memory by -stock'),
        ("name==a*", 'index name, name starts with "a", ascending'),
        ("name=" + "x" * 300, 'index name, name = "' + "x" * 59 + "..., ascending"),
        ("tags=gt=a", 'index tags, "a" < tags, ascending, each record once'),
        ("listDate=gt=2024-01-05T20%3A07Z", 'index listDate, "2024-01-05T20:07:00.000Z" < listDate, ascending'),
        ("price=gt=5&price=lt=3", "nothing can match"),
        ("price=5|name=a", 'union of (index price, price = 5, ascending; index name, name = "a", ascending)'),
        ("brand.name=one", 'join from Brand: index name, name = "one", ascending; then Product by index brandId'),
        ("count()", "full scan, ascending, counted from its entries"),
        ("facet(name)", "full scan, ascending, counted from its keys"),
        ("stock=1&count()", "full scan, ascending, counted from the records"),
    ],
)
def test_an_access_in_words(text, access):
    assert explained(text)["access"] == access


def test_what_an_execution_found():
    found = explained("name=a&stock=1&limit(3)")
    assert (found["estimatedRows"], found["actualRows"], found["examined"]) == (3, 3, 32)
    found = explained("price=ge=20&lt=60")
    assert (found["estimatedRows"], found["actualRows"], found["examined"]) == (40, 40, 40)
    assert explained("count()")["actualRows"] == 1
    found = explained("products.price=5", BRANDS)
    assert (found["actualRows"], found["examined"]) == (1, 2)


VALUES = [None, True, 5, 2.5, 10**300, "é\0", b"\0\xff", datetime(2024, 1, 5, tzinfo=UTC), [1, "a", b"b", datetime(2024, 1, 5, tzinfo=UTC)]]


@pytest.mark.parametrize("number", range(len(VALUES)))
@pytest.mark.parametrize("name", ["any", "specs"])
def test_every_kind_of_value_has_a_json_form(name, number):
    value = VALUES[number]
    group = Group("and", (Condition((name,), Comparator.EQUALS, value), Condition((name,), Comparator.NOT_EQUAL, value)))
    found = plan_query(Query(group), PRODUCTS, None, allow_full_scan=True)
    json.dumps(explain(found))
    explanation = Explanation(found, None)
    while not explanation.step():
        pass
    json.dumps(explanation.result(None))
