from types import SimpleNamespace

from svc.query.definition_cache import Definitions
from tests.support.shop import FakeTable, brand_definition, product_definition


def test_a_related_table_that_is_made_again_is_another_one():
    database = SimpleNamespace(tables={})
    products = FakeTable(product_definition(), database)
    brands = FakeTable(brand_definition(), database)
    definitions, of_brands = Definitions(products), Definitions(brands)
    assert definitions.hold(products) and of_brands.hold(brands)
    again = FakeTable(brand_definition(), database)
    assert again.definition == brands.definition
    assert not definitions.hold(products) and not of_brands.hold(again)
