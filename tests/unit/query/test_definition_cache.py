from types import SimpleNamespace

from svc.query.definition_cache import MOST_PARTS, DefinitionCache, Definitions
from tests.support.shop import FakeTable, brand_definition, product_definition


def test_a_related_table_that_is_made_again_is_another_one():
    database = SimpleNamespace(tables={}, tables_version=0)
    products = FakeTable(product_definition(), database)
    brands = FakeTable(brand_definition(), database)
    definitions, of_brands = Definitions(products), Definitions(brands)
    assert definitions.hold(products) and of_brands.hold(brands)
    again = FakeTable(brand_definition(), database)
    assert again.definition == brands.definition
    assert not definitions.hold(products) and not of_brands.hold(again)


def test_a_cache_is_bounded_by_the_size_of_what_it_keeps():
    table = FakeTable(brand_definition(), SimpleNamespace(tables={}, tables_version=0))
    cache = DefinitionCache()
    for number in range(10):
        assert cache.get(table, number, lambda number=number: number, MOST_PARTS // 4) == number
        assert len(cache) <= 4
    assert cache.get(table, 9, lambda: "made again") == 9
    cache.get(table, "wide", lambda: 0, 10 * MOST_PARTS)
    assert len(cache) == 1
