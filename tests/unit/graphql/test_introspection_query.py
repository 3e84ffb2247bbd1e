"""Work and size of answers about a large schema are bounded."""

import json
from typing import Any

import pytest
from graphql import GraphQLSchema, build_client_schema, get_introspection_query

from svc.graphql.document import parse_document
from svc.graphql.faults import DocumentError
from svc.graphql.introspection_query import asked_nodes, run_introspection, schema_size
from svc.graphql.schema_types import build_schema
from svc.graphql.selection import Selections, refuse_directives
from svc.graphql.visible import Kind, Visible, VisibleAttribute, VisibleResource, VisibleType

TABLES, ATTRIBUTES = 300, 10


@pytest.fixture(scope="module")
def large() -> GraphQLSchema:
    types = {f"T{number}": table(number) for number in range(TABLES)}
    resources = [VisibleResource(name, name, type_, (), True, True, ("post", "put", "patch", "delete")) for name, type_ in types.items()]
    return build_schema(Visible(resources, types), extended=True)


def table(number: int) -> VisibleType:
    key = VisibleAttribute("id", "ID", Kind.SCALAR, False, True, True, "")
    own = [VisibleAttribute(f"a{each}", "String", Kind.SCALAR, False, False, True, "Some words.") for each in range(ATTRIBUTES)]
    next_one = VisibleAttribute("next", f"T{(number + 1) % TABLES}", Kind.RELATED, True, False, True, "")
    return VisibleType(f"T{number}", "", (key, *own, next_one), (key, *own), key)


def ask(query: str, schema: GraphQLSchema, variables: Any = None) -> dict[str, bytes]:
    document = parse_document(query)
    fields = Selections(document.fragments, refuse_directives).fields(document.operation(None).selection_set)
    return run_introspection(asked_nodes(fields, variables or {})[0], schema)


def test_what_tools_ask_of_a_large_schema(large: GraphQLSchema) -> None:
    found = ask(get_introspection_query(specified_by_url=True, input_value_deprecation=True, schema_description=True), large)
    assert len(found["__schema"]) < 500 * schema_size(large)
    client = build_client_schema({"__schema": json.loads(found["__schema"])})
    assert len(client.type_map) > 3 * TABLES


@pytest.mark.parametrize(
    "query",
    [
        "{ "
        + " ".join(f"s{n}: __schema {{ types {{ fields {{ type {{ fields {{ name type {{ name }} }} }} }} }} }}" for n in range(100))
        + " }",
        "{ __schema { types { fields { " + " ".join(f"a{n}: name" for n in range(1900)) + " } } } }",
        "{ __schema { types { " + " ".join(f"a{n}: fields {{ name args {{ name }} }}" for n in range(400)) + " } } }",
        "{ __schema { types { fields { " + " ".join(f"a{n}: args {{ n: name t: type {{ name }} }}" for n in range(200)) + " } } } }",
    ],
    ids=["roots", "leaves", "lists", "arguments"],
)
def test_what_would_be_too_large_is_refused(large: GraphQLSchema, query: str) -> None:
    with pytest.raises(DocumentError, match="too large") as caught:
        ask(query, large)
    assert caught.value.code == "QUERY_TOO_LARGE"
    assert caught.value.location is not None


@pytest.mark.parametrize("value", [True, None, 3, 2.5, [1], {"a": 1}])
def test_values_that_do_not_fit(large: GraphQLSchema, value: Any) -> None:
    with pytest.raises(DocumentError):
        ask("query ($v: X) { __type(name: $v) { name } }", large, {"v": value})


def test_an_enum_is_no_string(large: GraphQLSchema) -> None:
    with pytest.raises(DocumentError):
        ask("{ __type(name: T1) { name } }", large)
    assert ask('{ __type(name: "T1") { name } none: __type(name: "T") { name } }', large) == {"__type": b'{"name":"T1"}', "none": b"null"}
