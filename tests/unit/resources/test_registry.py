from typing import Any

from svc.resources.registry import Resources
from svc.resources.resource import Resource


class Product(Resource):
    name = "Product"


class Other(Resource):
    name = "Other"


def test_the_longest_whole_segments_win() -> None:
    resources = Resources()
    resources.set("shop", Other)
    resources.set("/shop/Product/", Product)
    match = resources.get_match("/shop/Product/42")
    assert match is not None
    assert (match.path, match.relative_url, match.Resource) == ("shop/Product", "/42", Product)
    match = resources.get_match("/shop/Products")
    assert match is not None
    assert (match.path, match.relative_url) == ("shop", "/Products")
    assert resources.get_match("/Shop") is None


def test_an_address_before_an_extension() -> None:
    resources = Resources()
    resources.set("Product", Product)
    match = resources.get_match("/Product.csv")
    assert match is not None
    assert match.relative_url == ".csv"
    assert resources.get_match("/Product.csv/x") is None


def test_the_root_is_the_last_resort() -> None:
    resources = Resources()
    resources.set("", Other)
    resources.set("Product", Product)
    match = resources.get_match("/anything/else")
    assert match is not None
    assert (match.path, match.relative_url) == ("", "/anything/else")


def test_export_flags_hide_by_protocol() -> None:
    resources = Resources()
    resources.set("Product", Product, {"rest": False})
    assert resources.get_match("/Product", "rest") is None
    assert resources.get_match("/Product", "mqtt") is not None
    assert resources.get_match("/Product") is not None


def test_two_resources_at_one_address_conflict_and_a_reload_does_not() -> None:
    resources = Resources()
    resources.set("Product", Product)
    assert resources.set("Product", type("Product", (Resource,), {"name": "Product"})).fault == ""
    assert resources.set("Product", Other).fault == "Conflicting paths for Product"
    resources.remove("Product")
    assert "Product" not in resources


def test_a_table_that_is_gone_has_no_address() -> None:
    table: Any = object()
    gone = type("Gone", (Resource,), {"table": table, "name": "Gone"})
    resources = Resources()
    resources.set("Gone", gone)
    resources.set("also/here", gone)
    resources.set("quiet", gone, {"rest": False})
    resources.set("Other", Resource)
    assert resources.addresses_of(table) == ["/Gone", "/also/here"]
    resources.remove_table(table)
    assert list(resources) == ["Other"] and resources.addresses_of(table) == []
