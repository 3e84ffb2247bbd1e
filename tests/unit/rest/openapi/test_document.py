"""Which resources the document has, and under which names (spec: http §10.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from openapi_spec_validator import OpenAPIV30SpecValidator

from svc.content.registry import ContentTypes
from svc.resources import Resource
from svc.rest.openapi import names, openapi_document
from svc.rest.openapi.document import EncodedDocument
from tests.support.node import APP, Node
from tests.unit.rest.openapi.conftest import ADMIN

Documents = Callable[..., dict[str, Any]]
Nodes = Callable[..., Node]

TYPES = ContentTypes.built_in()


def test_frame(document_of: Documents) -> None:
    document = document_of("type A @table @export { id: ID @primaryKey }")
    assert (document["openapi"], document["info"]["title"]) == ("3.0.3", "svc HTTP REST interface")
    assert document["servers"] == [{"url": "http://localhost"}]
    schemes = document["components"]["securitySchemes"]
    assert schemes["basicAuth"] == {"type": "http", "scheme": "basic"}
    assert (schemes["bearerAuth"]["type"], schemes["bearerAuth"]["scheme"]) == ("http", "bearer")
    assert document["security"] == [{"basicAuth": []}, {"bearerAuth": []}]


def test_only_what_rest_exports_and_nobody_hides(document_of: Documents) -> None:
    document = document_of(
        """
        type Shown @table @export { id: ID @primaryKey hiddenOne: Hidden @relationship(from: "hiddenId") hiddenId: ID @indexed }
        type Kept @table { id: ID @primaryKey }
        type Elsewhere @table @export(rest: false) { id: ID @primaryKey }
        type Hidden @table @export @hidden { id: ID @primaryKey }
        """
    )
    assert list(document["paths"]) == ["/Shown/", "/Shown/{id}", "/Shown/{id}.{property}"]
    assert {name.partition(".")[0] for name in document["components"]["schemas"]} == {"Problem", "Shown", "svc"}
    assert document["components"]["schemas"]["Shown"]["properties"]["hiddenOne"] == {"type": "object", "readOnly": True}


def test_related_tables_are_described_wherever_relationships_lead(document_of: Documents) -> None:
    document = document_of(
        """
        type A @table @export { id: ID @primaryKey b: B @relationship(from: "bId") bId: ID @indexed }
        type B @table { id: ID @primaryKey c: [C] @relationship(to: "bId") }
        type C @table { id: ID @primaryKey bId: ID @indexed }
        """
    )
    schemas = document["components"]["schemas"]
    assert schemas["A"]["properties"]["b"] == {"allOf": [{"$ref": "#/components/schemas/B"}], "readOnly": True}
    assert schemas["B"]["properties"]["c"] == {"type": "array", "items": {"$ref": "#/components/schemas/C"}, "readOnly": True}
    assert "C" in schemas


def test_types_of_one_name_are_told_apart(document_of: Documents) -> None:
    document = document_of(
        'type A @table(database: "one") @export(name: "x/a") { id: ID @primaryKey }',
        'type A @table(database: "two") @export(name: "y/a") { id: ID @primaryKey place: Problem }\ntype Problem { x: Int }',
    )
    schemas = document["components"]["schemas"]
    assert {"A", "TwoA", "Problem", "TwoProblem"} <= set(schemas)
    assert {"/x/a/", "/y/a/{id}"} <= set(document["paths"])
    assert schemas["TwoA"]["properties"]["place"]["anyOf"][0] == {"$ref": "#/components/schemas/TwoProblem"}


def test_resources_at_a_conflicting_address_are_left_out(node_of: Nodes) -> None:
    node = node_of("type A @table @export { id: ID @primaryKey }")

    class Other(Resource):
        name = "Other"

    node.resources.set("A", Other)
    assert openapi_document(node.resources, "/", "1", TYPES, ADMIN)["paths"] == {}


def test_a_resource_of_an_application_has_the_verbs_it_implements(node_of: Nodes) -> None:
    node = node_of("type A @table @export { id: ID @primaryKey }")

    class Own(Resource):
        name = "Own"
        verbs = frozenset({"get", "patch"})

    node.resources.set("deep/Own", Own)
    document = openapi_document(node.resources, "/", "1", TYPES, ADMIN)
    OpenAPIV30SpecValidator(document).validate()
    assert set(document["paths"]["/deep/Own/"]) == {"get", "options"}
    assert set(document["paths"]["/deep/Own/{id}"]) == {"parameters", "get", "patch", "options"}


@pytest.mark.parametrize("types", [TYPES, ContentTypes()], ids=["built in", "none"])
def test_encoded_document_is_the_same(node_of: Nodes, types: ContentTypes) -> None:
    schema = """
        type A @table @export { id: ID @primaryKey place: Place parent: B @relationship(from: "bId") bId: ID @indexed }
        type B @table { id: ID @primaryKey place: Place }
        type Place { since: Date }
    """
    for resources in (node_of(schema).resources, node_of("type A @table { id: ID @primaryKey }").resources):
        encoded = EncodedDocument(resources, "1", types, ADMIN)
        assert len(list(encoded)) >= 1
        body = b"".join(encoded.pieces('http://"quoted"'))
        assert msgspec.json.decode(body) == openapi_document(resources, 'http://"quoted"', "1", types, ADMIN)
        for name in ("A", "Place", "Place.body"):
            assert body.count(f'"{name}":{{"type"'.encode()) <= 1  # decoding would hide a repeated name


def test_it_is_built_a_table_at_a_time(node_of: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    node = node_of("\n".join(f"type T{n} @table @export {{ id: ID @primaryKey }}" for n in range(20)))
    document = EncodedDocument(node.resources, "1", TYPES, ADMIN)
    assert len(list(document)) == 42  # the names, each table twice, and the problem
    pieces = document.pieces("http://localhost")
    assert len(pieces) > 40 and max(map(len, pieces)) < sum(map(len, pieces)) // 4, "no piece has several tables"
    monkeypatch.setattr(names, "STEP_TABLES", 5)
    again = EncodedDocument(node.resources, "1", TYPES, ADMIN)
    assert len(list(again)) == 54, "names in steps: three times four"
    assert again.pieces("http://localhost") == pieces


def test_operation_ids_are_unique(tmp_path: Any) -> None:
    node = Node(tmp_path, APP)
    document = openapi_document(node.resources, "/", "1", TYPES, ADMIN)
    node.close()
    OpenAPIV30SpecValidator(document).validate()
    names = [operation["operationId"] for item in document["paths"].values() for operation in item.values() if "operationId" in operation]
    assert len(names) == len(set(names)) > 50
