from dataclasses import replace

import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from svc.errors import QueryError
from svc.query import parse_query, plan_query
from svc.query.execution import execute
from svc.query.shape_cache import ShapeCache
from svc.query.shaped_plan import UNRESTRICTED
from svc.query.shapes import cut
from svc.store.schema import Attribute
from svc.store.values.records import decode
from tests.support.rows import next_rows
from tests.support.shop import FakeTable, brand_definition, product_definition, shop

PRODUCTS = [{"id": f"p{number}", "name": "ab"[number % 2], "price": number, "brandId": "x"} for number in range(20)]


def plan_of(cache, text, table, reader=UNRESTRICTED, scans=False):
    return cache.maybe_plan(text, table, None, reader, scans)


def ids(plan):
    rows, found = execute(plan, None), []
    while batch := next_rows(rows, 7):
        found += batch
    return [decode(raw)["id"] for raw in found]


def test_a_shape_is_known_from_the_third_string_on():
    products, _ = shop(PRODUCTS)
    cache = ShapeCache()
    assert plan_of(cache, "price=ge=1&lt=2", products) is None and len(cache) == 0
    for low in range(3, 9):
        assert ids(plan_of(cache, f"price=ge={low}&lt={low + 2}", products)) == [f"p{low}", f"p{low + 1}"]
    assert len(cache) == 1


def test_plain_parameters_and_encoded_keys_have_shapes():
    products, _ = shop(PRODUCTS)
    for text in (
        "price%3Dge={0}&lt={1}&_limit=5",
        "_where=price%3Dge%3D{0}%26lt%3D{1}&_sort=id",
        "price=ge={0}&lt={1}&_count=exact&_offset=0",
    ):
        cache = ShapeCache()
        plan_of(cache, text.format(1, 2), products)
        for low in range(3, 9):
            assert ids(plan_of(cache, text.format(low, low + 2), products)) == [f"p{low}", f"p{low + 1}"]
        assert len(cache) == 1
        assert plan_of(cache, text.format(9, 10), products).query.counted == ("_count" in text)
    cache = ShapeCache()
    for low in range(5):
        assert plan_of(cache, f"price=ge={low}&limit(1)&_limit=2", products) is None  # a fault, though one of its forms is a known shape
        plan_of(cache, f"price=ge={low}&limit(1)&limit(2)", products)


def known_shape(table, text, **arguments):
    """A cache that knows the shape of a text which has the value 1."""
    cache = ShapeCache(**arguments)
    for number in (1, 2):
        cache.maybe_plan(text.replace("=1", f"={number}"), table, None, UNRESTRICTED, True)
    return cache


def test_the_second_time_a_string_is_parsed_because_it_may_come_again():
    products, _ = shop(PRODUCTS)
    cache = known_shape(products, "price=1")
    assert plan_of(cache, "price=5", products) is not None
    assert plan_of(cache, "price=5", products) is None


def test_faults_are_left_to_who_knows_positions():
    products, _ = shop(PRODUCTS)
    cache = known_shape(products, "price=1")
    for fault in ("price=abc", "price=%zz", "price=%FF"):
        assert plan_of(cache, fault, products) is None
        with pytest.raises(QueryError):
            plan_query(parse_query(fault), products)
    cache = known_shape(products, "name=ct=1")
    assert plan_of(cache, "name=ct=3", products, scans=False) is None, "it needs an index"
    assert plan_of(cache, "name=ct=3", products, scans=True) is not None


def test_what_is_not_planned_by_its_shape():
    products, _ = shop(PRODUCTS)
    for text in ("price=1&live()", "price=1&after(abc)", "nope=1", "count()", "price=null", "price=1&limit(1,0)", "price=1=2"):
        cache = known_shape(products, text)
        assert plan_of(cache, text.replace("=1", "=7"), products, scans=True) is None
    cache = known_shape(products, "price=1&name=%2561", max_length=20)
    assert plan_of(cache, "price=5&name=aaaaaaaaaaaaa", products) is None, "too long"


def test_another_definition_is_another_shape():
    products, _ = shop(PRODUCTS)
    cache = known_shape(products, "price=gt=1&lt=1")
    assert len(plan_of(cache, "price=gt=3&lt=5", products).served) == 1
    changed = replace(product_definition(), attributes=(*product_definition().attributes, Attribute("lt", "Int")))
    other = FakeTable(changed, products.database, PRODUCTS)
    assert plan_of(cache, "price=gt=4&lt=6", other) is None
    assert plan_of(cache, "price=gt=4&lt=7", other).filter is not None


def test_rights_are_part_of_the_key():
    products, _ = shop(PRODUCTS, [{"id": "x", "name": "b"}])
    products.database.name = "data"

    def reader(*names):
        listed = [{"attribute_name": name, "read": True, "insert": False, "update": False} for name in names]
        tables = {"Product": {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": listed}}
        return User("u", role=Role("r", "r", {"data": {"tables": tables}}, databases={"data": products.database}))

    cache = known_shape(products, "price=1&select(id,name,brand{name})")
    assert len(plan_of(cache, "price=3&select(id,name,brand{name})", products).select.items) == 3
    assert len(plan_of(cache, "price=4&select(id,name,brand{name})", products, reader("price", "name")).select.items) == 2
    assert plan_of(cache, "price=5&select(id,name,brand{name})", products, reader("name")) is None
    assert plan_of(cache, "price=6&select(id,name,brand{name})", products, User("v")) is None
    assert plan_of(cache, "price=8&select(id,name,brand{name})", products, None) is None
    assert len(plan_of(cache, "price=7&select(id,name,brand{name})", products).select.items) == 3


def test_functions_are_made_once_for_a_shape():
    products, _ = shop(PRODUCTS, [{"id": "x", "name": "b"}])
    cache = known_shape(products, "price=ge=1&sort(name)&select(id,brand{name})")
    shapes = set()
    for number in range(3, 6):
        plan = plan_of(cache, f"price=ge={number}&sort(name)&select(id,brand{{name}})", products)
        rows = execute(plan, None, json=True)
        assert len(next_rows(rows, 100)) == 20 - number
        shapes.add(plan.compiled[True].shape)
    assert len(shapes) == 1


def test_entries_and_characters_are_bounded():
    products, _ = shop(PRODUCTS)
    cache = ShapeCache(max_entries=3, max_characters=200)
    for number in range(50):
        for value in range(3):
            plan_of(cache, f"price={value}&limit({number})", products)
        assert len(cache) <= 3
    assert plan_of(cache, "price=9&limit(49)", products) is not None
    for value in range(3):
        plan_of(cache, f"price={value}&" + "&".join(["name=null"] * 30), products)
    assert len(cache) == 0
    plans = known_shape(products, "price=1")
    for number in range(100):
        plan_of(plans, f"price={number + 10}", FakeTable(products.definition, products.database))
    assert all(len(shape.plans) <= 8 for shape in plans._shapes.values())


def test_what_came_once_is_bounded():
    products = FakeTable(brand_definition())
    cache = ShapeCache()
    for number in range(3000):
        plan_of(cache, f"name={number}", products, scans=True)
        plan_of(cache, f"name={number}&limit({number})", products, scans=True)
    assert len(cache._strings_once) <= 1024 and len(cache._shapes_once) <= 1024


def test_the_plan_of_a_string_that_has_been_answered():
    products, _ = shop(PRODUCTS)
    cache = ShapeCache()
    shape, plan = cache.shaped_plan("price=gt=1&lt=2", products, UNRESTRICTED, False)
    assert shape == cut("price=gt=3&lt=4")[0] and len(cache) == 1
    assert cache.shaped_plan("price=gt=3&lt=4", products, UNRESTRICTED, False) == (shape, plan)
    assert ids(plan_of(cache, "price=gt=3&lt=6", products)) == ["p4", "p5"], "it is one of the known ones"
    for text in ("x" * 2000, "_limit=5&price=gt=1", "price%3Dgt=1", "sort(price)", "nope=1", "price=gt=1&live()", "price=%zz(&"):
        assert cache.shaped_plan(text, products, UNRESTRICTED, False) is None
    assert cache.shaped_plan("price=gt=1", products, UNRESTRICTED, False) is not None
    assert cache.shaped_plan("price=gt=1", products, User("u"), False) is None
