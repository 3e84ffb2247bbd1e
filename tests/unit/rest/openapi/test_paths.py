"""What each method takes and may answer (spec: http §2-§5, §10.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Documents = Callable[..., dict[str, Any]]

SCHEMA = """
type A @table @export { id: ID @primaryKey name: String @indexed size: Int @indexed plain: Int tags: [String] @indexed
  double: Int @computed(from: "size * 2") @indexed  bId: ID @indexed  b: B @relationship(from: "bId") }
type B @table { id: ID @primaryKey }
"""


@pytest.fixture
def paths(document_of: Documents) -> dict[str, Any]:
    return document_of(SCHEMA)["paths"]  # type: ignore[no-any-return]


def statuses(operation: dict[str, Any]) -> set[int]:
    return set(map(int, operation["responses"]))


EVERY = {400, 401, 403, 408, 414, 431}
WRITES = EVERY | {413, 415, 503, 507}


@pytest.mark.parametrize(
    ("path", "method", "expected"),
    [
        ("/A/", "get", EVERY | {200, 406, 503}),
        ("/A/", "put", WRITES | {204, 409}),
        ("/A/", "post", WRITES | {201, 406, 409}),
        ("/A/", "delete", EVERY | {204, 503, 507}),
        ("/A/", "options", {204, 408, 414, 431}),
        ("/A/{id}", "get", EVERY | {200, 206, 304, 404, 406, 412, 416}),
        ("/A/{id}", "put", WRITES | {204, 405, 409, 412}),
        ("/A/{id}", "patch", WRITES | {204, 405, 409, 412}),
        ("/A/{id}", "delete", EVERY | {204, 405, 412, 503, 507}),
        ("/A/{id}", "options", {204, 400, 408, 414, 431}),
        ("/A/{id}.{property}", "get", EVERY | {200, 304, 404, 406, 412}),
    ],
)
def test_statuses(paths: dict[str, Any], path: str, method: str, expected: set[int]) -> None:
    assert statuses(paths[path][method]) == expected


def test_methods(paths: dict[str, Any]) -> None:
    methods = {path: set(item) - {"parameters"} for path, item in paths.items()}
    assert methods == {
        "/A/": {"get", "put", "post", "delete", "options"},
        "/A/{id}": {"get", "put", "patch", "delete", "options"},
        "/A/{id}.{property}": {"get"},
    }


def test_every_reference_to_a_response_has_one(document_of: Documents) -> None:
    document = document_of(SCHEMA)
    names = document["components"]["responses"]
    for item in document["paths"].values():
        for operation in item.values():
            for response in operation["responses"].values() if "responses" in operation else ():
                if "$ref" in response:
                    assert response["$ref"].rpartition("/")[2] in names


def test_a_query_may_compare_what_is_indexed(paths: dict[str, Any], document_of: Documents) -> None:
    for method in ("get", "delete"):
        assert [p["name"] for p in paths["/A/"][method]["parameters"]] == ["id", "name", "size", "tags", "double", "bId"]
    everything = document_of(SCHEMA, config="graphqlSchema: {files: '*.graphql'}\nrest: {allowFullScan: true}")["paths"]
    assert [p["name"] for p in everything["/A/"]["get"]["parameters"]] == ["id", "name", "size", "plain", "tags", "double", "bId"]


def test_preconditions(paths: dict[str, Any]) -> None:
    def names(method: str) -> set[str]:
        return {parameter["$ref"].rpartition("/")[2] for parameter in paths["/A/{id}"][method]["parameters"]}

    assert names("get") == {"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "Range"}
    for method in ("put", "patch", "delete"):
        assert names(method) == {"If-Match", "If-None-Match", "If-Unmodified-Since"}
    assert "parameters" not in paths["/A/"]["put"]


def test_properties_of_a_record(paths: dict[str, Any]) -> None:
    key, name = paths["/A/{id}.{property}"]["parameters"]
    assert (key["name"], name["name"]) == ("id", "property")
    assert name["schema"]["enum"] == ["id", "name", "size", "plain", "tags", "double", "bId", "b"]


def test_a_key_called_property(document_of: Documents) -> None:
    paths = document_of("type A @table @export { property: ID @primaryKey }")["paths"]
    assert "/A/{property}.{property_name}" in paths


def test_bodies(document_of: Documents) -> None:
    document = document_of(SCHEMA)
    paths, schemas = document["paths"], document["components"]["schemas"]
    assert "application/x-ndjson" not in paths["/A/{id}"]["put"]["requestBody"]["content"], "a record is no list"
    for method, name in (("post", "A.new"), ("put", "A.keyed")):
        content = paths["/A/"][method]["requestBody"]["content"]
        one = {"$ref": f"#/components/schemas/{name}"}
        many = {"type": "array", "items": one}
        for kind in ("json", "cbor", "x-msgpack", "msgpack"):
            assert content[f"application/{kind}"] == {"schema": {"anyOf": [one, many]}}
        assert content["application/x-ndjson"]["schema"] == many | {"minItems": 1}
    assert "required" not in schemas["A.new"]["allOf"][1]
    assert schemas["A.keyed"]["allOf"][1]["required"] == ["id"]
    assert set(schemas["A.form"]["properties"]) == {"id", "name", "size", "plain", "tags", "bId"}


def test_a_float_key_has_to_be_given(document_of: Documents) -> None:
    schemas = document_of("type A @table @export { at: Float @primaryKey }")["components"]["schemas"]
    assert schemas["A.new"]["allOf"][1]["required"] == ["at"]


def test_one_property_is_any_of_them(document_of: Documents) -> None:
    schemas = document_of("type A @table @export { id: ID @primaryKey a: Int b: Int c: String! d: String! }")["components"]["schemas"]
    assert [choice.get("format") for choice in schemas["A.property"]["anyOf"]] == ["ID", "Int", None]
    assert document_of("type A @table @export { id: ID @primaryKey a: Any }")["components"]["schemas"]["A.property"] == {}


@pytest.mark.parametrize(
    ("schema", "put", "get"),
    [
        ("type A @table @export { id: ID @primaryKey }", True, True),
        ("type A @table @export { id: ID @primaryKey n: Int! }", False, True),
        ("type A @table @export @sealed { id: ID @primaryKey n: Int }", False, False),
        ("type A @table @export @sealed { id: ID @primaryKey contentType: String data: Any }", True, True),
    ],
    ids=["open", "required", "sealed", "declared"],
)
def test_content_of_any_type(document_of: Documents, schema: str, put: bool, get: bool) -> None:
    item = document_of(schema)["paths"]["/A/{id}"]
    assert ("application/octet-stream" in item["put"]["requestBody"]["content"]) == put
    assert ("*/*" in item["get"]["responses"]["200"]["content"]) == get
    assert ("206" in item["get"]["responses"]) == get


def test_options_need_nobody(paths: dict[str, Any]) -> None:
    for path in ("/A/", "/A/{id}"):
        assert paths[path]["options"]["security"] == []
    assert "Accept-Patch" in paths["/A/{id}"]["options"]["responses"]["204"]["headers"]
