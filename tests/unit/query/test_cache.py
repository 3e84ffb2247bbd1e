import pytest

from svc.errors import QueryError
from svc.query import QueryCache
from svc.query.nodes import Comparator
from svc.store.schema import Attribute, TableDefinition
from tests.support.shop import FakeTable, brand_definition, shop


def test_a_text_is_parsed_once():
    products, _ = shop()
    cache = QueryCache()
    query = cache.parse("name=a", products)
    assert cache.parse("".join(["name", "=a"]), products) is query
    assert len(cache) == 1


def test_what_a_text_means_depends_on_the_definition():
    plain = FakeTable(brand_definition())
    other = FakeTable(TableDefinition("Other", attributes=(Attribute("id", "ID", primary_key=True), Attribute("lt", "Int"))))
    cache = QueryCache()
    assert cache.parse("id=gt=1&lt=2", plain).where.comparator is Comparator.GTLT
    assert len(cache.parse("id=gt=1&lt=2", other).where.members) == 2
    # A changed definition is another one, even of a table of the same name; and the old one is not taken for it as long as it is remembered.
    changed = FakeTable(TableDefinition("Brand", attributes=(*brand_definition().attributes, Attribute("lt", "Int"))))
    assert len(cache.parse("id=gt=1&lt=2", changed).where.members) == 2
    assert len(cache) == 3


def test_the_least_recently_used_goes_first():
    products, _ = shop()
    cache = QueryCache(max_entries=2)
    first = cache.parse("name=a", products)
    second = cache.parse("name=b", products)
    assert cache.parse("name=a", products) is first
    cache.parse("name=c", products)
    assert len(cache) == 2
    assert cache.parse("name=a", products) is first
    assert cache.parse("name=b", products) is not second


def test_long_texts_are_not_remembered_and_the_sum_of_all_is_bounded():
    products, _ = shop()
    cache = QueryCache(max_characters=1000, max_length=400)
    cache.parse("name=" + "x" * 396, products)
    assert len(cache) == 0
    for number in range(100):
        cache.parse("name=" + "x" * 350 + str(number), products)
        assert len(cache) <= 2
    assert len(cache) == 2
    for number in range(300):
        cache.parse(f"name={number}", products)
    assert len(cache) <= 1000 / len("name=0")


def test_faults_are_not_remembered():
    products, _ = shop()
    cache = QueryCache()
    for _ in range(2):
        with pytest.raises(QueryError):
            cache.parse("name", products)
    assert len(cache) == 0
