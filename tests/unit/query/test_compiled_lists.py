"""Which shapes are compiled, and what their functions find or decline."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from svc.errors import Problem
from svc.query.budget import QueryLimits, query_limits, set_limits
from svc.query.compiled_lists import MOST, compiled_list
from svc.query.shape_cache import ShapeCache
from svc.query.shaped_plan import UNRESTRICTED
from svc.query.shapes import cut, decoded
from svc.store.schema import Attribute
from svc.store.values.records import decode
from tests.support.shop import FakeTable, product_definition, shop

PRODUCTS = [
    {"id": f"p{number}", "name": "ab"[number % 2], "price": number // 2, "stock": -number, "tags": ["x", "y"][: number % 3], "brandId": "k"}
    for number in range(8)
]
BRANDS = [{"id": "k", "name": "K", "country": "C"}]


def compiled(text, table, *, json=True):
    plan = ShapeCache().shaped_plan(text, table, UNRESTRICTED, True)
    return None if plan is None else compiled_list(plan[1], table, json=json)


def rows(text, table):
    found = compiled(text, table).find(decoded(cut(text)[1]), None)
    return None if found is None else msgspec.to_builtins(found)


def ids(text, table):
    found = rows(text, table)
    return None if found is None else [row["id"] for row in found]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("name==a", "values"),
        ("price=gt=1&lt=3", "values"),
        ("price=ge=1&price=le=3", "values"),
        ("price=le=3&price=ge=1", "values"),
        ("price>1", "values"),
        ("name==a*", "values"),
        ("tags==x", "values"),
        ("any==x", "values"),
        ("name==a&stock=1", "values"),
        ("stock=1&price=ge=number:1&lt=2", "values"),
        ("name==a&sort(stock)", "values"),
        ("name==a&sort(stock,-id,price)", "values"),
        ("name==a&sort(listDate)", "values"),
        ("name==a&select(id,name)", "values"),
        ("name==a&select(id,brand)", "values"),
        ("name==a&select(id,brand{name})", "values"),
        ("name==a&select(brandId,brand{name,country})", "values"),
        ("name==a&select(name)", "values"),
        ("name==a&select([id,name])", "values"),
        ("name==a&select(*,$id)", "values"),
        ("name==a&limit(5)", "values"),
        ("name==a&limit(2,)", "values"),
        ("name==a&count()", "count"),
    ],
)
def test_shapes_that_are(text, kind):
    products, _ = shop(PRODUCTS, BRANDS)
    assert compiled(text, products).kind == kind
    native = compiled(text, products, json=False)
    assert native is None if "select" in text else native.kind == ("count" if kind == "count" else "records")


@pytest.mark.parametrize(
    "text",
    [
        "id==p1",
        "stock==1",
        "name==a&price==1",
        "name==a|name==b",
        "name==a&(stock=1|stock=2)",
        "price=gt=1&price=gt=2",
        "price==1&price=gt=2",
        "name!=a",
        "name=ct=a",
        "tags=gt=x",
        "tags=gt=x&lt=y",
        "tags==x*",
        "brand.name==a&name==a",
        "name==string:a&stock=1",
        "name==a&sort(specs)",
        "name==a&sort(tags)",
        "name==a&sort(any)",
        "name==a&sort(brand.name)",
        "name==a&select(id,resellers{id})",
        "name==a&select(id,brand{products{id}})",
        "name==a&select(id,brand[name==x])",
        "name==a&select(id,brand,resellers)",
        "name==a&facet(stock)",
        "name==a&stock=1&count()",
        "name==a&_count=exact",
        "name==a&limit(0)",
    ],
)
def test_shapes_that_are_not(text):
    products, _ = shop(PRODUCTS, BRANDS)
    assert compiled(text, products) is None


def test_rows():
    products, _ = shop(PRODUCTS, BRANDS)
    assert ids("name==a", products) == ["p0", "p2", "p4", "p6"]
    assert ids("name==none", products) == []
    assert ids("price=ge=1&lt=3", products) == ids("price=ge=1&price=lt=3", products) == ["p2", "p3", "p4", "p5"]
    assert ids("price=ge=3&lt=1", products) == []
    assert ids("name==a&sort(stock)", products) == ["p6", "p4", "p2", "p0"]
    assert ids("price=le=3&sort(-name,price)", products) == ["p1", "p3", "p5", "p7", "p0", "p2", "p4", "p6"]
    assert ids("price=ge=0&sort(-id)", products) == [f"p{number}" for number in reversed(range(8))]
    assert ids("price=ge=0&sort(name,-id)", products)[:4] == ["p6", "p4", "p2", "p0"]
    assert ids("name==a&stock=lt=-3", products) == ["p4", "p6"]
    assert ids("name==a&limit(1,9)", products) == ["p2", "p4", "p6"]
    assert rows("name==a&count()", products) == [{"count": 4}]
    assert rows("price=gt=1&count()", products) == [{"count": 4}]
    assert rows("name==b&select(stock,brand{name},id)&sort(stock)", products)[0] == {"stock": -7, "brand": {"name": "K"}, "id": "p7"}
    native = compiled("name==a&sort(stock)", products, json=False).find(["b"], None)
    assert [decode(raw)["id"] for raw in native] == ["p7", "p5", "p3", "p1"]


def test_the_same_for_each_content_type_of_json():
    products, _ = shop(PRODUCTS)
    plan = ShapeCache().shaped_plan("name==a", products, UNRESTRICTED, True)[1]
    assert (
        compiled_list(plan, products, json=True)
        is compiled_list(plan, products, json=True)
        is not compiled_list(plan, products, json=False)
    )


@pytest.mark.parametrize("text", ["price==x", "price=gt=x", "price=gt=1&lt=x", "listDate=gt=a"])
def test_values_of_another_type_are_told_by_the_general_way(text):
    products, _ = shop(PRODUCTS)
    usual = text.replace("x", "5") if "price" in text else "listDate=gt=1"
    with pytest.raises(Problem):
        compiled(usual, products).find(cut(text)[1], None)


@pytest.mark.parametrize("text", [f"name=={'x' * 300}", f"name=gt={'x' * 300}", f"name=ge=a&le={'x' * 300}", f"name=={'x' * 300}*"])
def test_values_that_are_declined(text):
    products, _ = shop(PRODUCTS)
    assert ids(text, products) is None


def test_too_many_records():
    products, _ = shop([{"id": f"p{number:03}", "name": "a" if number < MOST else "b"} for number in range(2 * MOST + 1)])
    assert len(rows("name==a", products)) == MOST and rows("name==b", products) is None
    assert rows("name==b&count()", products) == [{"count": MOST + 1}]


def test_a_page_that_is_full_is_declined():
    products, _ = shop(PRODUCTS)
    assert ids("name==a&limit(3)", products) is None and ids("name==a&limit(4)", products) is None
    assert len(ids("name==a&limit(5)", products)) == 4


def test_a_budget_that_could_be_too_small():
    products, _ = shop(PRODUCTS, BRANDS)
    limits = query_limits()
    try:
        for some in (QueryLimits(related_rows=1), QueryLimits(bytes=1000)):
            set_limits(some)
            assert rows("name==a", products) is not None
            assert rows("name==a&sort(stock)", products) is rows("name==a&select(id,brand)", products) is None
    finally:
        set_limits(limits)


def test_computed_attributes_are_left_alone():
    definition = product_definition()
    attributes = (*definition.attributes, Attribute("double", "Float", computed_from="price * 2"))
    assert compiled("name==a", FakeTable(replace(definition, attributes=attributes))) is None
