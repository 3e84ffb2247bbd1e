"""Enum types in GraphQL: types of the extended form, strings in the other; written as names or as strings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from graphql import GraphQLEnumType, GraphQLString, build_client_schema, get_introspection_query, parse, validate

from tests.support.graphql import Shop, open_shop

SCHEMA = """
"Of an order."
enum Status { OPEN CLOSED }
type Order @table @export { id: ID @primaryKey  status: Status @indexed  past: [Status]  part: Part }
type Part { status: Status }
type Rate @table @export { status: Status @primaryKey  price: Float }
"""
WRITE = (
    'mutation { put_Order(id: "1", input: {status: OPEN, past: ["CLOSED", OPEN], part: {status: CLOSED}}) { status past part { status } } }'
)


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_shop(tmp_path_factory.mktemp("app"), "{extended: true}", schema=SCHEMA, resources="", roles="{}") as shop:
        yield shop


def test_the_extended_form_has_a_type(extended: Shop) -> None:
    schema = build_client_schema(extended.data(get_introspection_query()))
    status = schema.type_map["Status"]
    assert isinstance(status, GraphQLEnumType)
    assert (list(status.values), status.description) == (["OPEN", "CLOSED"], "Of an order.")
    order = schema.get_type("Order")
    assert order.fields["status"].type is status and order.fields["past"].type.of_type is status  # type: ignore[union-attr]
    assert schema.get_type("Part").fields["status"].type is status  # type: ignore[union-attr]
    assert schema.get_type("Rate").fields["status"].type.of_type is status  # type: ignore[union-attr]
    assert schema.query_type.fields["Order"].args["status"].type is status  # type: ignore[union-attr]
    assert schema.get_type("OrderInput").fields["status"].type is status  # type: ignore[union-attr]
    assert not validate(schema, parse("{ Order(status: OPEN) { id } }"))


def test_values_are_names_or_strings(extended: Shop) -> None:
    written = extended.data(WRITE)
    assert written == {"put_Order": {"status": "OPEN", "past": ["CLOSED", "OPEN"], "part": {"status": "CLOSED"}}}
    for condition in ("status: OPEN", 'status: "OPEN"', "part: {status: CLOSED}, status: OPEN"):
        assert extended.data(f"{{ Order({condition}) {{ id }} }}") == {"Order": [{"id": "1"}]}
    assert extended.data("query ($a: Status) { Order(status: $a) { id } }", {"a": "CLOSED"}) == {"Order": []}
    assert extended.data("mutation { put_Rate(id: OPEN, input: {price: 2}) { status price } }") == {
        "put_Rate": {"status": "OPEN", "price": 2}
    }


def test_other_values_are_refused(extended: Shop) -> None:
    for query in ("{ Order(status: NEW) { id } }", 'mutation { patch_Order(id: "1", input: {status: NEW}) { id } }'):
        status, body = extended.ask(query)
        assert status == 200 or status == 400
        assert "one of OPEN, CLOSED" in body["errors"][0]["message"]


def test_the_plain_form_has_strings(tmp_path_factory: pytest.TempPathFactory) -> None:
    with open_shop(tmp_path_factory.mktemp("app"), schema=SCHEMA, resources="", roles="{}") as shop:
        schema = build_client_schema(shop.data(get_introspection_query()))
        assert "Status" not in schema.type_map
        assert schema.get_type("Order").fields["status"].type is GraphQLString  # type: ignore[union-attr]
