"""The document for generated clients: JSON, one type for each body and answer (spec: http §10.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV30SpecValidator

from svc.auth.roles import Role
from svc.auth.users import User
from svc.content.registry import ContentTypes
from svc.resources import Resource
from svc.rest.openapi import openapi_document
from tests.support.node import Node
from tests.unit.rest.openapi.conftest import ADMIN
from tests.unit.rest.openapi.test_access import rights

Nodes = Callable[..., Node]
Documents = Callable[..., dict[str, Any]]

SCHEMA = """
type A @table @export {
  id: ID @primaryKey
  text: String! @indexed
  small: Int
  large: Long!
  huge: BigInt
  share: Float @indexed
  flag: Boolean
  day: Date @indexed
  raw: Bytes
  loose: Any
  days: [Date]
  place: Place
  places: [Place!]
  photo: Blob
  secret: String @hidden
  double: Float @computed(from: "share * 2") @indexed
  made: Date! @createdTime
  bId: Int @indexed
  b: B @relationship(from: "bId")
  all: [B] @relationship(to: "aId") @enumerable
}
type B @table @sealed { id: Int @primaryKey aId: ID @indexed name: String! }
type Place { name: String! half: Float }
"""


@pytest.fixture
def client_document(node_of: Nodes) -> Documents:
    """As a super user gets it, or a user with rights on tables of the database `data`."""

    def make(schema: str = SCHEMA, tables: dict[str, Any] | None = None, config: str = "") -> dict[str, Any]:
        node = node_of(schema, config=config)
        user = ADMIN
        if tables is not None:
            user = User("ann", role=Role("r", "r", {"data": {"tables": tables}}, databases=node.store.databases))
        document = openapi_document(node.resources, "/", "1", ContentTypes.built_in(), user, "json")
        OpenAPIV30SpecValidator(document).validate()
        return document

    return make


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {op["operationId"]: op for item in document["paths"].values() for name, op in item.items() if name != "parameters"}


def property_of(document: dict[str, Any], schema: str, name: str) -> Any:
    return document["components"]["schemas"][schema]["properties"][name]


def test_one_type_for_each_body_and_answer(client_document: Documents) -> None:
    document = client_document()
    for name, operation in operations(document).items():
        contents = [operation["requestBody"]["content"]] if "requestBody" in operation else []
        contents += [r["content"] for status, r in operation["responses"].items() if status < "300" and "content" in r]
        for content in contents:
            if "Photo" in name:
                assert "application/octet-stream" in content
            else:
                assert list(content) == ["application/json"]
                assert "anyOf" not in content["application/json"]["schema"] and "oneOf" not in content["application/json"]["schema"]
    for response in document["components"]["responses"].values():
        assert list(response["content"]) == ["application/problem+json"]


def test_where_each_operation_is(client_document: Documents) -> None:
    document = client_document()
    found = {
        f"{method} {path}": op["operationId"]
        for path, item in document["paths"].items()
        for method, op in item.items()
        if method != "parameters"
    }
    assert found == {
        "get /A/": "listAs",
        "post /A/": "createA",
        "post /A": "createAs",
        "put /A/": "replaceAs",
        "delete /A/": "deleteAs",
        "get /A/.json": "selectAs",
        "get /A/{id}": "getA",
        "put /A/{id}": "replaceA",
        "patch /A/{id}": "updateA",
        "delete /A/{id}": "deleteA",
        "get /A/{id}/photo": "downloadAPhoto",
        "put /A/{id}/photo": "uploadAPhoto",
    }


def test_types(client_document: Documents) -> None:
    document = client_document()
    kinds = {
        name: (schema.get("type"), schema.get("format"), schema.get("nullable", False))
        for name, schema in document["components"]["schemas"]["A"]["properties"].items()
    }
    assert kinds == {
        "id": ("string", None, False),
        "text": ("string", None, False),
        "small": ("integer", "int32", True),
        "large": ("integer", "int64", False),
        "huge": ("integer", None, True),
        "share": ("number", "double", True),
        "flag": ("boolean", None, True),
        "day": ("string", "date-time", True),
        "raw": ("string", "byte", True),
        "loose": (None, None, False),
        "days": ("array", None, True),
        "place": (None, None, True),
        "places": ("array", None, True),
        "photo": (None, None, True),
        "made": ("string", "date-time", False),
        "bId": ("integer", "int32", True),
        "all": ("array", None, False),
    }, "computed attributes and relationships are only in answers that name them"
    assert property_of(document, "A", "days")["items"] == {"type": "string", "format": "date-time", "nullable": True}
    assert property_of(document, "A", "place") == {"allOf": [{"$ref": "#/components/schemas/Place"}], "nullable": True}
    assert property_of(document, "A", "places")["items"] == {"$ref": "#/components/schemas/Place"}


def test_what_is_required(client_document: Documents) -> None:
    schemas = client_document()["components"]["schemas"]
    required = {name: schema.get("required", []) for name, schema in schemas.items() if name.startswith("A")}
    assert required == {
        "A": ["id", "text", "large", "made"],
        "APart": [],
        "ACreate": ["text", "large"],
        "AKeyed": ["id", "text", "large"],
        "AReplace": ["text", "large"],
        "AUpdate": [],
    }


def test_what_the_store_sets_is_only_read(client_document: Documents) -> None:
    document = client_document()
    read_only = [name for name, schema in document["components"]["schemas"]["APart"]["properties"].items() if schema.get("readOnly")]
    assert read_only == ["double", "made", "b", "all"]
    for name in ("ACreate", "AReplace", "AKeyed", "AUpdate"):
        assert not {"double", "made", "b", "all", "secret"} & set(document["components"]["schemas"][name]["properties"])
    assert "id" not in document["components"]["schemas"]["AReplace"]["properties"], "the address says it"
    assert property_of(document, "ACreate", "place")["allOf"] == [{"$ref": "#/components/schemas/Place"}]


def test_defaults_and_demands_are_told(client_document: Documents) -> None:
    document = client_document("type A @table @export { id: ID @primaryKey size: Int! @default(value: 3) code: String @unique }")
    assert "required" not in document["components"]["schemas"]["ACreate"]
    assert property_of(document, "ACreate", "size") == {"type": "integer", "format": "int32", "description": "Default: 3."}
    assert "description" not in property_of(document, "AUpdate", "size")
    assert property_of(document, "AUpdate", "code")["description"] == "No two records have the same value."


def test_enum_types_are_schemas(client_document: Documents) -> None:
    document = client_document(
        """enum Status { OPEN CLOSED }
        enum Hidden { A }
        type A @table @export { id: Status @primaryKey status: Status @indexed all: [Status!] hidden: Hidden place: Place }
        type Place { status: Status! }""",
        tables={"A": rights(read=True, id="r", status="r", place="r")},
    )
    schemas = document["components"]["schemas"]
    of_status = {"$ref": "#/components/schemas/Status"}
    assert schemas["Status"] == {"type": "string", "enum": ["OPEN", "CLOSED"]} and "Hidden" not in schemas
    assert property_of(document, "A", "status") == {"allOf": [of_status], "nullable": True}
    assert property_of(document, "Place", "status") == property_of(document, "A", "id") == of_status
    assert document["paths"]["/A/{id}"]["parameters"][0]["schema"] == of_status
    assert {"name": "status", "in": "query", "schema": of_status} in operations(document)["listAs"]["parameters"]


def test_a_selection_has_parts_in_it(client_document: Documents) -> None:
    document = client_document()
    assert property_of(document, "APart", "b")["allOf"] == [{"$ref": "#/components/schemas/BPart"}]
    assert property_of(document, "APart", "places")["items"] == {"$ref": "#/components/schemas/PlacePart"}
    assert "required" not in document["components"]["schemas"]["BPart"]
    select = operations(document)["selectAs"]
    assert [p["name"] for p in select["parameters"] if p.get("required")] == ["_select"]


def test_parameters_of_a_list(client_document: Documents) -> None:
    found = operations(client_document())
    conditions = ["id", "text", "share", "day", "double", "bId"]
    names = {name: [p.get("name") or p["$ref"].rpartition("/")[2] for p in found[name]["parameters"]] for name in ("listAs", "deleteAs")}
    assert names["listAs"] == [*conditions, "_where", "_sort", "_limit", "_offset", "_after", "_count"]
    assert names["deleteAs"] == [*conditions, "_where", "_sort", "_limit"]
    day = next(p for p in found["listAs"]["parameters"] if p.get("name") == "day")
    assert day["schema"] == {"type": "string", "format": "date-time"}


def test_a_parameter_that_is_an_attribute_is_the_attribute(client_document: Documents) -> None:
    found = operations(client_document("type A @table @export { id: ID @primaryKey _limit: Int @indexed }"))
    assert [p["name"] for p in found["listAs"]["parameters"] if "name" in p] == ["id", "_limit"]
    assert "#/components/parameters/_limit" not in str(found["listAs"])


@pytest.mark.parametrize(
    ("declared", "path", "record", "made"),
    [
        ("n: Int @primaryKey", ("integer", "int32"), ("integer", "int32"), False),
        ("n: Float @primaryKey", ("number", "double"), ("number", "double"), True),
        ("n: BigInt @primaryKey", ("integer", None), ("integer", None), False),
        ("n: Any @primaryKey", ("string", None), (None, None), False),
    ],
)
def test_keys(client_document: Documents, declared: str, path: tuple[str | None, ...], record: tuple[str | None, ...], made: bool) -> None:
    document = client_document(f"type A @table @export {{ {declared} }}")
    key = document["paths"]["/A/{n}"]["parameters"][0]
    assert (key["schema"].get("type"), key["schema"].get("format")) == path
    shown = property_of(document, "A", "n")
    assert (shown.get("type"), shown.get("format")) == record
    assert ("n" in document["components"]["schemas"]["ACreate"].get("required", ())) == made


def test_a_reader_gets_no_bodies(client_document: Documents) -> None:
    document = client_document(tables={"A": rights(read=True, text="r", photo="r", b="r")})
    assert set(operations(document)) == {"listAs", "selectAs", "getA", "downloadAPhoto"}
    assert {name for name in document["components"]["schemas"] if name.startswith(("A", "B"))} == {"A", "APart", "Blob"}
    assert set(document["components"]["schemas"]["APart"]["properties"]) == {"id", "text", "photo"}


def test_rights_of_attributes_close_the_bodies(client_document: Documents) -> None:
    document = client_document(tables={"A": rights(insert=True, update=True, text="i", large="i", photo="u")})
    schemas = document["components"]["schemas"]
    assert set(schemas["ACreate"]["properties"]) == {"id", "text", "large"}
    assert set(schemas["AUpdate"]["properties"]) == {"text", "large", "photo"}
    assert schemas["ACreate"]["additionalProperties"] is False
    assert "uploadAPhoto" in operations(document) and "downloadAPhoto" not in operations(document)


def test_content_operations_of_two_tables_have_two_names(client_document: Documents) -> None:
    document = client_document(
        """type Plane @table @export { id: ID @primaryKey photoBig: Blob }
        type PlanePhoto @table @export { id: ID @primaryKey big: Blob }"""
    )
    assert {"uploadPlanePhotoBig", "uploadPlanePhotoBig2"} <= set(operations(document))


def test_a_resource_of_an_application(node_of: Nodes) -> None:
    node = node_of("type A @table { id: ID @primaryKey }")

    class Tour(Resource):
        name = "Tour"
        verbs = frozenset({"get", "post", "patch"})

    node.resources.set("tour/:city", Tour)
    document = openapi_document(node.resources, "/", "1", ContentTypes.built_in(), ADMIN, "json")
    OpenAPIV30SpecValidator(document).validate()
    assert set(operations(document)) == {"getTourCity", "postTourCity", "getTourCityById", "postTourCityById", "patchTourCityById"}
    assert [p["name"] for p in document["paths"]["/tour/{city}/{id}"]["parameters"]] == ["city", "id"]
    assert list(operations(document)["postTourCity"]["requestBody"]["content"]) == ["application/json"]


def test_the_endpoint_serves_it(node_of: Nodes) -> None:
    wire = node_of(SCHEMA).connect()
    whole, client = wire.ask("GET", "/openapi"), wire.ask("GET", "/openapi?json")
    assert (whole[0], client[0]) == (200, 200)
    assert b"text/csv" in whole[2] and b"text/csv" not in client[2]
    assert whole[1]["etag"] != client[1]["etag"]
    assert wire.ask("GET", "/openapi?json=", fields={"If-None-Match": client[1]["etag"]})[0] == 304
