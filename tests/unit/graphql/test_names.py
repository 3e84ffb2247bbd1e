"""The names of fields and types."""

from contextlib import closing
from pathlib import Path

from svc.graphql.names import Names, graphql_name
from svc.query import QueryCache
from svc.resources import Resource, Resources, table_resource
from svc.store import Store, StoreSettings, Table
from svc.store.schema import Attribute, Structure, TableDefinition


class One(Resource):
    pass


class Two(Resource):
    pass


def test_characters_that_names_have_no_place_for() -> None:
    assert graphql_name("my goods/größe") == "my_goods_gr__e"
    assert graphql_name("") is None
    assert graphql_name("7up") is None
    assert graphql_name("__schema") is None
    assert graphql_name("--x") is None


def test_an_exact_name_wins_and_two_that_collide_have_none() -> None:
    resources = Resources()
    names = Names(resources)
    resources.set("shop/Order", One)
    assert names.find("shop_Order") is resources["shop/Order"]
    resources.set("shop-Order", Two)
    assert names.find("shop_Order") is None
    resources.set("shop_Order", Two)
    assert names.find("shop_Order") is resources["shop_Order"]
    resources.remove("shop_Order")
    resources.remove("shop-Order")
    assert names.find("shop_Order") is resources["shop/Order"]


def test_what_has_no_field() -> None:
    resources = Resources()
    names = Names(resources)
    resources.set("tour/:city", One)
    resources.set("Secret", One, {"graphql": False})
    resources.set("__type", One)
    assert names.all() == {}
    resources.set("Rest", One, {"rest": False})
    assert list(names.all()) == ["Rest"]


def test_a_fault_is_found() -> None:
    resources = Resources()
    names = Names(resources)
    resources.set("One", One)
    resources.set("One", Two)
    found = names.find("One")
    assert found is not None
    assert found.fault


def define(store: Store, definition: TableDefinition) -> Table:
    return store.open_database(definition.database).define_table(definition)


def test_types_have_names_of_their_own(tmp_path: Path) -> None:
    with closing(Store(tmp_path, StoreSettings(write_async=True))) as store:
        place = Structure("Brand", (Attribute("city", "String"),))
        first = define(store, TableDefinition("Brand", attributes=(Attribute("id", "ID", primary_key=True),)))
        second = define(store, TableDefinition("Brand", "other", attributes=(Attribute("id", "ID", primary_key=True),)))
        query = define(store, TableDefinition("Query", attributes=(Attribute("id", "ID", primary_key=True),)))
        nested = define(
            store,
            TableDefinition("Nested", attributes=(Attribute("id", "ID", primary_key=True), Attribute("at", "Brand")), structures=(place,)),
        )
        inner = define(store, TableDefinition("In ner", attributes=(Attribute("id", "ID", primary_key=True),)))
        resources = Resources()
        names = Names(resources)
        for path, table in (("Brand", first), ("x/Brand", second), ("Query", query), ("Nested", nested), ("also", first)):
            resources.set(path, table_resource(table, store, QueryCache()))
        assert names.type_name(first) == "Brand"
        assert names.type_name(second) == "x_Brand"
        assert names.type_name(query) == "data_Query"
        assert names.type_name(nested, "Brand") == "data_Brand"
        assert names.type_name(inner) == "In_ner"
        assert names.name_of(resources["also"]) == "Brand"
        before = names.state
        changed = Structure("Spot", (Attribute("city", "String"),))
        define(
            store,
            TableDefinition("Nested", attributes=(Attribute("id", "ID", primary_key=True), Attribute("at", "Spot")), structures=(changed,)),
        )
        assert names.state != before
        assert names.type_name(nested, "Spot") == "Spot"
