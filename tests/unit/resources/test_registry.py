from types import SimpleNamespace
from typing import Any

from svc.resources import TableResource
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
    again = type("Product", (Resource,), {"name": "Product"})
    assert resources.set("Product", again).fault == ""
    assert resources.set("Product", Other).fault == "Conflicting paths for Product"
    assert resources.set("Product", Product).fault == "Conflicting paths for Product", "a reload of one of the two settles nothing"
    assert resources["Product"].fault
    resources.remove("Product")
    assert "Product" not in resources
    assert resources.set("Product", Other).fault == ""


def table_at(path: str, table: Any) -> type[TableResource]:
    return type("Exported", (TableResource,), {"table": table, "name": path, "properties": {}})


def table_called(name: str, database: str = "data") -> Any:
    return SimpleNamespace(name=name, database=SimpleNamespace(name=database))


def test_two_tables_at_one_address_conflict_until_one_goes() -> None:
    first, second, elsewhere = table_called("A"), table_called("B"), table_called("A", "other")
    resources = Resources()
    resources.set("x", table_at("x", first))
    assert resources.set("x", table_at("x", second)).fault == "Conflicting paths for x"
    assert resources.set("x", table_at("x", elsewhere)).fault == "Conflicting paths for x", "a table of that name in another database"
    resources.remove_table(elsewhere)
    assert resources["x"].fault == "Conflicting paths for x"
    assert resources.addresses_of(first) == resources.addresses_of(second) == []
    resources.remove_table(second)
    assert resources["x"].fault == "" and resources.addresses_of(first) == ["/x"]
    found = resources.get_match("/x/1")
    assert found is not None and found.Resource.table is first  # type: ignore[attr-defined]
    resources.remove_table(first)
    assert "x" not in resources and resources.get_match("/x/1") is None


def test_a_name_that_no_path_can_have_is_percent_encoded() -> None:
    resources = Resources()
    resources.set("my goods/größe", Product)
    match = resources.get_match("/my%20goods/gr%C3%B6%C3%9Fe/42")
    assert match is not None and (match.path, match.relative_url) == ("my goods/größe", "/42")
    assert resources["my goods/größe"].resource is Product and list(resources) == ["my goods/größe"]
    assert resources.path_to("my goods/größe", "42") == "/my%20goods/gr%C3%B6%C3%9Fe/42"
    resources.remove("my goods/größe")
    assert not resources and resources.get_match("/my%20goods/gr%C3%B6%C3%9Fe/42") is None


def test_the_same_table_may_take_its_address_again() -> None:
    resources = Resources()
    resources.set("x", table_at("x", table_called("A")))
    assert resources.set("x", table_at("x", table_called("A"))).fault == ""


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
