"""`__schema` and `__type`: what tools make of them, and what a caller may see of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from graphql import (
    GraphQLInputObjectType,
    GraphQLObjectType,
    GraphQLSchema,
    build_client_schema,
    build_schema,
    get_introspection_query,
    get_named_type,
    is_introspection_type,
    parse,
    print_schema,
    validate,
)
from graphql.type import validate_schema
from hypothesis import given, settings

from tests.support.graphql import RESOURCES, ROLES, SUPER_USER, Shop, open_shop
from tests.support.profile import examples
from tests.unit.graphql.test_rights import NAMES, permissions, whole

QUERY = get_introspection_query(specified_by_url=True, input_value_deprecation=True, schema_description=True, directive_is_repeatable=True)
DECIDING = """

class Shown(tables.Product):
    def allow_read(self, user, target=None, context=None):
        return True


class Taken(tables.Product):
    def allow_create(self, user, data, target=None, context=None):
        return True
"""

CLERK, BUYER = {"role": "clerk"}, {"role": "buyer"}

OTHER_SCHEMA = """
type Node @table @export {
  id: ID @primaryKey
  parent: Node @relationship(from: parentId)
  parentId: ID @indexed
  children: [Node] @relationship(to: parentId)
  at: Tree
}
"Holds itself."
type Tree { label: String  below: [Tree]  __own: String }
type NodeFilter @table @export { id: ID @primaryKey }
type String_ @table @export(name: "Query") { id: ID @primaryKey }
type Aside @table @export @hidden { id: ID @primaryKey }
type Notes @table @export {
  "The key."
  number: Long @primaryKey
  "What it says." text: String @indexed
  made: Date @createdTime
  raw: Bytes  big: BigInt  file: Blob  flag: Boolean  many: [Int!]
  kept: String @hidden
  aside: Aside @relationship(from: asideId)
  asideId: ID @indexed
}
"""


def schema_for(shop: Shop, user: Any = SUPER_USER) -> GraphQLSchema:
    return build_client_schema(shop.data(QUERY, user=user))


def names_in(schema: GraphQLSchema) -> set[str]:
    """All names of fields, members of inputs and arguments, but those of introspection."""
    found: set[str] = set()
    for type_ in schema.type_map.values():
        if isinstance(type_, GraphQLObjectType | GraphQLInputObjectType) and not is_introspection_type(type_):
            found.update(type_.fields)
        if isinstance(type_, GraphQLObjectType) and not is_introspection_type(type_):
            for field in type_.fields.values():
                found.update(field.args)
    return found


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    roles = ROLES + "writer:\n  data:\n    Product: {insert: true, attributes: {name: {insert: true}}}\n"
    with open_shop(tmp_path_factory.mktemp("app"), "{extended: true}", roles=roles, resources=RESOURCES + DECIDING) as shop:
        yield shop


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_shop(tmp_path_factory.mktemp("app"), schema=OTHER_SCHEMA, resources="", roles="{}") as shop:
        yield shop


def test_tools_get_a_valid_schema(shop: Shop, extended: Shop, other: Shop) -> None:
    for each in (shop, extended, other):
        for user in (SUPER_USER, CLERK, BUYER) if each is shop else (SUPER_USER,):
            schema = schema_for(each, user)
            assert validate_schema(schema) == []
            build_schema(print_schema(schema))


def test_queries_are_valid_to_clients(shop: Shop) -> None:
    schema = schema_for(shop)
    for query in (
        '{ Product(id: "1", brand: {name: "Acme"}) { id price brand { name products { name } } place { city shelf { row } } label meta } }',
        "query ($name: String!) { Product(name: $name) { id __typename } Brand { name } }",
        '{ shop_Order(id: 1) { number product { name } } Ticket(code: "c1", id: "x") { title } Weather(id: "x") { id } }',
    ):
        assert validate(schema, parse(query)) == []
        variables = {"name": "name 1"} if "$name" in query else None
        assert shop.ask(query, variables)[0] == 200
    assert validate(schema, parse("{ Product { nothing } }"))
    assert [directive.name for directive in schema.directives] == ["specifiedBy"]
    assert schema.mutation_type is None


def test_types_of_attributes(other: Shop) -> None:
    schema = schema_for(other)
    types: Any = schema.type_map
    notes = {name: str(field.type) for name, field in types["Notes"].fields.items()}
    assert notes == {
        "number": "Long!",
        "text": "String",
        "made": "Date",
        "raw": "Bytes",
        "big": "BigInt",
        "file": "Blob",
        "flag": "Boolean",
        "many": "[Int]",
        "asideId": "ID",
    }
    assert types["Notes"].fields["number"].description == "The key."
    assert set(types["Query"].fields["Notes"].args) == {"number", "id", "text", "made", "raw", "big", "flag", "many", "asideId"}
    assert "Aside" not in types
    node = {name: str(field.type) for name, field in types["Node"].fields.items()}
    assert node == {"id": "ID!", "parent": "Node", "parentId": "ID", "children": "[Node!]!", "at": "Tree"}
    assert {name: str(field.type) for name, field in types["Tree"].fields.items()} == {"label": "String", "below": "[Tree]"}
    assert types["Tree"].description == "Holds itself."
    assert str(types["Query"].fields["Node"].args["parent"].type) == "NodeFilter_2"
    assert types["Date"].specified_by_url
    # The name of the type that is said of a record is that of its type.
    assert str(types["Query"].fields["Query"].type) == "[data_Query!]!"
    assert other.app.put("/Query/1", {}).status == 204
    assert other.data("{ Query { __typename } }") == {"Query": [{"__typename": "data_Query"}]}


def test_what_a_role_may_not_read_is_not_there(shop: Shop) -> None:
    clerk = schema_for(shop, CLERK)
    types: Any = clerk.type_map
    assert set(types["Product"].fields) == {"id", "name", "price", "brandId", "brand"}
    assert set(types["ProductFilter"].fields) == {"id", "name", "price", "brandId", "brand"}
    assert set(types["Query"].fields) == {"Brand", "Product", "Dear", "Weather", "Numbers", "Broken", "Marked"}
    assert "Place" not in types
    assert "secret" not in str(shop.data(QUERY, user=CLERK))
    buyer: Any = schema_for(shop, BUYER).type_map
    assert "Brand" not in buyer
    assert "brand" not in buyer["Product"].fields
    assert "brand" not in buyer["Query"].fields["Product"].args
    assert shop.data('{ __type(name: "Brand") { name } }', user=BUYER) == {"__type": None}
    assert shop.data('{ __type(name: "Brand") { name } }', user=CLERK) == {"__type": {"name": "Brand"}}
    anonymous: Any = schema_for(shop, None).type_map
    assert set(anonymous["Query"].fields) == {"Weather", "Numbers", "Broken"}


def test_no_error_tells_of_what_is_hidden(shop: Shop) -> None:
    for query in (
        '{ __type(name: "Product") { secre } }',
        '{ __type(nam: "Brand") { name } }',
        "{ __schema { Brand } }",
        '{ __type(name: "Bran") { fields(secret: true) { name } } }',
    ):
        status, code, message = shop.error(query, user=None)
        assert (status, code) == (400, "QUERY_SYNTAX")
        for hidden in ("Product", "secret", "Brand"):
            assert hidden not in message or hidden in query


def test_nothing_visible(other: Shop) -> None:
    schema = schema_for(other, None)
    assert schema.query_type is not None
    assert schema.query_type.fields == {}


@settings(max_examples=examples(15), deadline=None)
@given(product=permissions((*NAMES, "brand")), brand=permissions(("id", "name", "country")))
def test_every_name_may_be_read(shop: Shop, product: Any, brand: Any) -> None:
    user = {"permission": {"data": {"tables": {"Product": whole(product), "Brand": whole(brand)}}}}
    schema = schema_for(shop, user)
    for name, field in schema.query_type.fields.items() if schema.query_type is not None else ():
        if name not in ("Product", "Brand"):
            continue
        type_: Any = get_named_type(field.type)
        for attribute, each in type_.fields.items():
            nested = " { __typename }" if isinstance(get_named_type(each.type), GraphQLObjectType) else ""
            assert shop.ask(f"{{ {name} {{ {attribute}{nested} }} }}", user=user)[0] == 200
        for argument, each in field.args.items():
            value = "{}" if isinstance(get_named_type(each.type), GraphQLInputObjectType) else "null"
            status, body = shop.ask(f"{{ {name}({argument}: {value}) {{ __typename }} }}", user=user)
            assert status == 200 or body["errors"][0]["extensions"]["code"] == "NOT_INDEXED"


def test_variables_aliases_and_fragments(shop: Shop) -> None:
    query = (
        "query ($n: String!) { a: __type(name: $n) { ...F } __typename __schema { queryType { ... { n: name } __typename } } }"
        " fragment F on __Type { k: kind }"
    )
    assert shop.data(query, {"n": "Place"}) == {
        "a": {"k": "OBJECT"},
        "__typename": "Query",
        "__schema": {"queryType": {"n": "Query", "__typename": "__Type"}},
    }
    assert shop.data(query, {"n": "Nothing"})["a"] is None
    assert shop.error(query, {"n": 3})[:2] == (400, "QUERY_SYNTAX")
    both = shop.data('{ Product(id: "1") { name } __type(name: "Place") { name } }')
    assert both == {"Product": [{"name": "name 1"}], "__type": {"name": "Place"}}


def test_faults_have_their_places(shop: Shop) -> None:
    status, body = shop.ask("{\n  __schema { types }\n}")
    assert status == 400
    assert body["errors"][0]["locations"] == [{"line": 2, "column": 14}]


def test_lists_within_lists_are_bounded(shop: Shop) -> None:
    deep = "{ __schema { types { fields { type { fields { type { fields { name } } } } } } } }"
    assert "depth" in shop.error(deep)[2]
    many = "{ __schema { types { " + " ".join(f"a{number}: name" for number in range(2100)) + " } } }"
    assert "2000" in shop.error(many)[2]


def test_a_changed_definition_is_seen(tmp_path: Path) -> None:
    with open_shop(tmp_path / "app", schema=OTHER_SCHEMA, resources="", roles="{}") as shop:
        assert "added" not in names_in(schema_for(shop))
        answer = shop.app.operation("create_attribute", schema="data", table="Notes", attribute="added")
        assert answer
        assert "added" in names_in(schema_for(shop))


def test_switched_off(tmp_path: Path) -> None:
    with open_shop(tmp_path / "app", "{introspection: false}", schema=OTHER_SCHEMA, resources="", roles="{}") as shop:
        assert shop.error("{ __schema { queryType { name } } }") == (400, "QUERY_SYNTAX", "Introspection is switched off.")
        assert shop.data("{ Node { __typename } }") == {"Node": []}


def test_the_extended_form(extended: Shop) -> None:
    schema = schema_for(extended)
    types: Any = schema.type_map
    assert {directive.name for directive in schema.directives} == {"include", "skip", "specifiedBy"}
    options = {"_limit", "_offset", "_sort", "_where"}
    assert set(types["Brand"].fields["products"].args) == options
    assert options | {"_after"} < set(types["Query"].fields["Product"].args)
    mutations = types["Mutation"].fields
    assert {name: str(each.type) for name, each in mutations["patch_Product"].args.items()} == {
        "id": "ID!",
        "input": "ProductInput!",
        "ifMatch": "String",
    }
    assert str(mutations["create_Product"].type) == "Product"
    assert str(mutations["delete_Product"].type) == "Boolean"
    assert "label" not in types["ProductInput"].fields
    assert "brand" not in types["ProductInput"].fields
    assert str(types["ProductInput"].fields["place"].type) == "PlaceInput"
    assert set(types["Subscription"].fields["Product"].args) == set(types["Query"].fields["Product"].args) - {"_after"}
    assert "Weather" not in types["Subscription"].fields
    assert options < set(types["Query"].fields["Dear"].args)
    for query in ("{ Dear(_limit: 1) { id } }", '{ Brand(_sort: ["-name"]) { products(_limit: 1, _where: "price=gt=3") { id } } }'):
        assert validate(schema, parse(query)) == []
        assert extended.ask(query)[0] == 200


def test_mutations_are_those_that_a_role_may_make(extended: Shop) -> None:
    mutation: Any = schema_for(extended, CLERK).mutation_type
    assert not any("Product" in name for name in mutation.fields)
    schema = schema_for(extended, {"role": "writer"})
    types: Any = schema.type_map
    assert {name for name in types["Mutation"].fields if "Product" in name} == {"create_Product", "put_Product", "patch_Product"}
    assert set(types["ProductInput"].fields) == {"id", "name"}
    assert set(types["Product"].fields) == {"id"}
    assert "Product" not in types["Query"].fields


def test_the_role_decides_what_code_does_not(extended: Shop) -> None:
    every = {f"{change}_{name}" for name in ("Shown", "Taken") for change in ("create", "put", "patch", "delete")}
    for user, lists, changes in (
        (SUPER_USER, {"Shown", "Taken"}, every),
        (BUYER, {"Shown", "Taken"}, {"create_Taken", "put_Taken", "patch_Taken"}),
        ({"role": "writer"}, {"Shown"}, every - {"delete_Shown", "delete_Taken"}),
        (None, {"Shown"}, {"create_Taken", "put_Taken", "patch_Taken"}),
    ):
        types: Any = schema_for(extended, user).type_map
        assert {"Shown", "Taken"} & set(types["Query"].fields) == lists, user
        assert every & set(types["Mutation"].fields) == changes, user
    assert extended.ask('mutation { create_Shown(input: {name: "n"}) { name } }', user={"role": "writer"})[0] == 200
    assert extended.ask('mutation { create_Shown(input: {name: "n"}) { name } }', user=BUYER)[0] == 403


def test_the_schema_of_a_role_changes_with_its_rights(tmp_path: Path) -> None:
    roles = "reader:\n  data:\n    Notes: {read: true}\n"
    with open_shop(tmp_path / "app", schema=OTHER_SCHEMA, resources="", roles=roles) as shop:
        user = {"role": "reader"}
        assert {"Notes"} == set(schema_for(shop, user).type_map["Query"].fields)  # type: ignore[attr-defined]
        permission = {
            "data": {"tables": {"Node": {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}}}
        }
        shop.app.operation("alter_role", id="reader", role="reader", permission=permission)
        assert {"Node"} == set(schema_for(shop, user).type_map["Query"].fields)  # type: ignore[attr-defined]
