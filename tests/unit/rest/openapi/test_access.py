"""The document shows what a caller may do, and nothing else (spec: http §10.2, security §5.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openapi_spec_validator import OpenAPIV30SpecValidator

from svc.auth.roles import Role
from svc.auth.users import User
from svc.content.registry import ContentTypes
from svc.resources import Resource
from svc.rest.openapi import openapi_document
from tests.support.node import Node

Nodes = Callable[..., Node]

SCHEMA = """
type A @table @export { id: ID @primaryKey name: String @indexed price: Float @indexed secret: String @indexed made: Date @createdTime
  bId: ID @indexed b: B @relationship(from: "bId") kept: String @hidden }
type B @table @export @sealed { id: ID @primaryKey title: String! all: [A] @relationship(to: "bId") }
"""


def rights(read: bool = False, insert: bool = False, update: bool = False, delete: bool = False, **attributes: str) -> dict[str, Any]:
    """`attributes`: name -> letters of `riu`."""
    listed = [
        {"attribute_name": name, "read": "r" in given, "insert": "i" in given, "update": "u" in given} for name, given in attributes.items()
    ]
    return {"read": read, "insert": insert, "update": update, "delete": delete, "attribute_permissions": listed}


def seen_by(node: Node, **tables: dict[str, Any]) -> dict[str, Any]:
    user = User("ann", role=Role("r", "r", {"data": {"tables": tables}}, databases=node.store.databases))
    document = openapi_document(node.resources, "/", "1", ContentTypes.built_in(), user)
    OpenAPIV30SpecValidator(document).validate()
    return document


def methods(document: dict[str, Any]) -> dict[str, set[str]]:
    return {path: set(item) - {"parameters", "options"} for path, item in document["paths"].items()}


def properties(document: dict[str, Any], name: str) -> set[str]:
    return set(document["components"]["schemas"][name].get("properties", ()))


def test_a_reader_sees_no_writes_and_not_the_other_table(node_of: Nodes) -> None:
    document = seen_by(node_of(SCHEMA), A=rights(read=True))
    assert methods(document) == {"/A/": {"get"}, "/A/{id}": {"get"}, "/A/{id}.{property}": {"get"}}
    assert "B" not in document["components"]["schemas"]
    assert properties(document, "A") == {"id", "name", "price", "secret", "made", "bId"}, "the relationship leads where it may not read"


def test_a_writer_without_the_right_to_read(node_of: Nodes) -> None:
    document = seen_by(node_of(SCHEMA), B=rights(insert=True))
    assert methods(document) == {"/B/": {"put", "post"}, "/B/{id}": {"put", "patch"}}
    assert properties(document, "B") == set()
    assert properties(document, "B.body") == {"id", "title"}


def test_only_to_delete(node_of: Nodes) -> None:
    document = seen_by(node_of(SCHEMA), A=rights(delete=True))
    assert methods(document) == {"/A/": {"delete"}, "/A/{id}": {"delete"}}
    assert document["paths"]["/A/"]["delete"]["parameters"] == [], "a condition would tell what may not be read"


def test_attributes_have_rights_of_their_own(node_of: Nodes) -> None:
    document = seen_by(node_of(SCHEMA), A=rights(read=True, insert=True, update=True, name="ri", price="riu"))
    schemas = document["components"]["schemas"]
    assert properties(document, "A") == {"id", "name", "price"}
    assert [p["name"] for p in document["paths"]["/A/"]["get"]["parameters"]] == ["id", "name", "price"]
    assert document["paths"]["/A/{id}.{property}"]["parameters"][1]["schema"]["enum"] == ["id", "name", "price"]
    assert properties(document, "A.body") == {"id", "name", "price"}
    assert schemas["A.body"]["additionalProperties"] is False, "what is not listed may not be written"
    assert "secret" not in str(document) and "kept" not in str(document)


def test_readers_of_some_attributes_see_no_others(node_of: Nodes) -> None:
    """Not either where everyone may read some: then there is no list of what may be written, because nothing may be."""
    node = node_of(SCHEMA)
    everyone = Role("anonymous", "anonymous", {"data": {"tables": {"A": rights(read=True, price="r")}}}, databases=node.store.databases)
    own = {"data": {"tables": {"A": rights(read=True, name="r")}}}
    user = User("ann", role=Role("r", "r", own, databases=node.store.databases, anonymous=everyone))
    document = openapi_document(node.resources, "/", "1", ContentTypes.built_in(), user)
    assert properties(document, "A") == {"id", "name", "price"} and "secret" not in str(document)


def test_what_a_new_record_may_have_can_differ(node_of: Nodes) -> None:
    document = seen_by(node_of(SCHEMA), A=rights(insert=True, update=True, name="i", price="u"))
    assert set(document["components"]["schemas"]["A.new"]["allOf"][0]["properties"]) == {"id", "name"}
    assert properties(document, "A.changes") == {"id", "name", "price"}


def test_tables_of_others_do_not_show(node_of: Nodes) -> None:
    document = seen_by(node_of(SCHEMA), B=rights(read=True))
    assert set(methods(document)) == {"/B/", "/B/{id}", "/B/{id}.{property}"}
    assert '"A"' not in str(document) and "/A" not in str(document)


def test_code_that_decides_itself_is_shown_to_all(node_of: Nodes) -> None:
    node = node_of(SCHEMA)

    class Open(Resource):
        name = "Open"
        verbs = frozenset({"get", "post", "delete"})
        own_rights = frozenset({"allow_read", "allow_create"})

    class Closed(Resource):
        name = "Closed"
        verbs = frozenset({"get"})

    node.resources.set("Open", Open)
    node.resources.set("Closed", Closed)
    assert methods(seen_by(node)) == {"/Open/": {"get", "post"}, "/Open/{id}": {"get", "post"}}


def test_addresses_with_parameters(node_of: Nodes) -> None:
    node = node_of(SCHEMA)

    class Tour(Resource):
        name = "Tour"
        verbs = frozenset({"get"})
        own_rights = frozenset({"allow_read"})

    node.resources.set("tour/:city", Tour)
    node.resources.set("files/*path", Tour)
    paths = seen_by(node)["paths"]
    assert set(paths) == {"/tour/{city}", "/tour/{city}/{id}", "/files/{path}"}
    assert [p["name"] for p in paths["/tour/{city}/{id}"]["parameters"]] == ["city", "id"]
