"""Types, keys and directives as schemas (spec: http §10.2, schema-and-store §5)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest

from svc.rest.openapi.schemas import BASE64_SHOWN, BASE64_TAKEN, DATE_SHOWN, DATE_TAKEN
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.conversion import date_from_text
from svc.store.values.validation import Validator

Documents = Callable[..., dict[str, Any]]


def properties_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    return document["components"]["schemas"][name]["properties"]  # type: ignore[no-any-return]


def test_types_have_their_names_as_format(document_of: Documents) -> None:
    shown = properties_of(
        document_of(
            """type A @table @export { id: ID @primaryKey
            a: String b: Int c: Long d: BigInt e: Float f: Boolean g: Date h: Bytes i: Any j k: [Float] l: Blob }"""
        ),
        "A",
    )
    kinds = {name: (schema.get("type"), schema.get("format")) for name, schema in shown.items()}
    assert kinds == {
        "id": ("string", "ID"),
        "a": ("string", None),
        "b": ("integer", "Int"),
        "c": ("integer", "Long"),
        "d": ("integer", "BigInt"),
        "e": ("number", "Float"),
        "f": ("boolean", "Boolean"),
        "g": ("string", "Date"),
        "h": ("string", "Bytes"),
        "i": (None, None),
        "j": (None, None),
        "k": ("array", None),
        "l": (None, "Blob"),
    }
    assert (shown["b"]["minimum"], shown["b"]["maximum"]) == (-(2**31), 2**31 - 1)
    assert (shown["c"]["minimum"], shown["c"]["maximum"]) == (-(2**53), 2**53)
    assert shown["id"]["maxLength"] == 659


def test_null_is_allowed_unless_required(document_of: Documents) -> None:
    document = document_of("type A @table @export { id: ID @primaryKey a: Int b: Int! c: [Int] d: [Int!]! e: P f: P! } type P { x: Int! }")
    schemas = document["components"]["schemas"]
    assert schemas["A"]["required"] == ["id", "b", "d", "f"]
    assert schemas["A.body"]["required"] == ["b", "d", "f"]
    assert "required" not in schemas["A.changes"]
    shown = schemas["A"]["properties"]
    assert shown["a"]["nullable"] and "nullable" not in shown["b"]
    assert shown["c"]["nullable"] and shown["c"]["items"]["nullable"]
    assert "nullable" not in shown["d"] and "nullable" not in shown["d"]["items"]
    assert shown["e"] == {"anyOf": [{"$ref": "#/components/schemas/P"}, {"type": "object", "nullable": True, "enum": [None]}]}
    assert shown["f"] == {"$ref": "#/components/schemas/P"}
    assert schemas["P"]["required"] == ["x"]


def test_what_is_not_written_is_only_in_answers(document_of: Documents) -> None:
    document = document_of(
        """type A @table @export { id: ID @primaryKey n: Int twice: Int @computed(from: "n * 2") at: Date @updatedTime
        bId: ID @indexed b: B @relationship(from: "bId") }
        type B @table { id: ID @primaryKey all: [A] @relationship(to: "bId") }"""
    )
    shown = properties_of(document, "A")
    assert [name for name, schema in shown.items() if schema.get("readOnly")] == ["twice", "at", "b"]
    assert set(properties_of(document, "A.body")) == {"id", "n", "at", "bId"}
    assert properties_of(document, "B")["all"] == {"type": "array", "items": {"$ref": "#/components/schemas/A"}, "readOnly": True}


def test_sealed_hidden_and_described(document_of: Documents) -> None:
    document = document_of(
        '''
        """About A."""
        type A @table @export @sealed { id: ID @primaryKey
          """About n."""
          n: Int  secret: Int @hidden  p: P }
        type P @sealed { """About x.""" x: Int  y: Int @hidden }
        '''
    )
    schemas = document["components"]["schemas"]
    for name in ("A", "A.body", "A.changes", "P"):
        assert schemas[name]["additionalProperties"] is False
        assert not {"secret", "y"} & set(schemas[name]["properties"])
    assert schemas["A"]["description"] == "About A."
    assert schemas["A"]["properties"]["n"]["description"] == schemas["A.body"]["properties"]["n"]["description"] == "About n."
    assert schemas["P"]["properties"]["x"]["description"] == "About x."


def test_a_nested_type_has_a_second_schema_only_where_its_bodies_differ(document_of: Documents) -> None:
    document = document_of(
        "type A @table @export { id: ID @primaryKey p: P q: Q r: R } type P { x: Int } type Q { since: Date } type R { q: [Q] p: P }"
    )
    schemas = document["components"]["schemas"]
    assert {"P", "Q", "Q.body", "R", "R.body"} <= set(schemas) and "P.body" not in schemas
    assert schemas["A.body"]["properties"]["p"]["anyOf"][0] == {"$ref": "#/components/schemas/P"}
    assert schemas["A.body"]["properties"]["r"]["anyOf"][0] == {"$ref": "#/components/schemas/R.body"}
    assert schemas["R.body"]["properties"]["q"]["items"]["anyOf"][0] == {"$ref": "#/components/schemas/Q.body"}


@pytest.mark.parametrize(
    ("kind", "path", "body"),
    [
        ("ID", {"type": "string", "format": "ID", "minLength": 1, "maxLength": 659}, None),
        ("Int", {"type": "integer", "format": "Int", "minimum": -(2**31), "maximum": 2**31 - 1}, None),
        ("Float", {"type": "number", "format": "Float"}, None),
        (
            "Any",
            {"type": "string", "minLength": 1, "maxLength": 659},
            {"anyOf": [{"type": "string", "minLength": 1, "maxLength": 659}, {"type": "number"}]},
        ),
    ],
)
def test_keys(document_of: Documents, kind: str, path: dict[str, Any], body: dict[str, Any] | None) -> None:
    document = document_of(f"type A @table @export {{ key: {kind} @primaryKey }}")
    assert document["paths"]["/A/{key}"]["parameters"] == [{"name": "key", "in": "path", "required": True, "schema": path}]
    assert properties_of(document, "A")["key"] == (body or path)
    assert "type" not in properties_of(document, "A.body")["key"], "the address decides, whatever the body says"


def test_keys_of_several_segments(document_of: Documents) -> None:
    key = properties_of(document_of("type A @table @export @splitSegments { id: ID @primaryKey }"), "A")["id"]
    check = jsonschema_rs.Draft4Validator(key)
    assert all(map(check.is_valid, ["a", ["a", "b"], "a/b"]))
    assert not any(map(check.is_valid, [1, ["a"], ["a/b", "c"], None]))


# --- patterns say what the store does --------------------------------------------------------------------------------------------------

DATES = [
    "2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29", "2024-02-30", "2024-04-31", "2024-12-31", "2024-13-01", "2024-00-10", "2024-1-1",
    "0000-01-01", "0001-01-01", "9999-12-31", "20240105", "2024-01-05T20:07", "2024-01-05T20:07Z", "2024-01-05t20:07z", "2024-01-05 20:07:27",
    "2024-01-05T20:07:27.9", "2024-01-05T20:07:27,9+01", "2024-01-05T20:07:27+0130", "2024-01-05T20:07:27+01:30", "2024-01-05T24:00", "2024-01-05T20",
    "2024-01-05T20:60", "2024-01-05T20:07:27+1", "2024-01-05T20:07:27+24:00", "2024-01-05T20:07:60", "now", "",
]  # fmt: skip


@pytest.mark.parametrize("text", DATES)
def test_date_pattern_takes_what_the_store_takes(text: str) -> None:
    value = date_from_text(text)
    assert bool(re.search(DATE_TAKEN, text)) == (value is not None)
    if value is not None:
        assert re.search(DATE_SHOWN, value.isoformat(timespec="milliseconds").replace("+00:00", "Z"))


BASE64 = ["", "AA", "AA=", "AA==", "AA===", "AAA", "AAA=", "AAA==", "AAAA", "AAAA=", "A", "AAAAA", "-_==", "AA==AA==", "A A=", "\n"]


@pytest.mark.parametrize("text", BASE64)
def test_base64_pattern_takes_what_the_store_takes(text: str) -> None:
    validator = Validator(TableDefinition("A", attributes=(Attribute("raw", "Bytes"),)))
    try:
        validator.record({"raw": text})
        accepted = True
    except Exception:
        accepted = False
    assert bool(re.search(BASE64_TAKEN.replace("$", r"\Z"), text)) == accepted
    assert not re.search(BASE64_SHOWN.replace("$", r"\Z"), text) or accepted


def test_enums_list_their_values_and_null(document_of: Documents) -> None:
    document = document_of(
        'enum U { KG PIECE } type A @table @export { id: U @primaryKey a: U! @indexed b: U c: [U] p: P } type P { x: U } "Y" enum V { Z }'
    )
    schemas = document["components"]["schemas"]
    values = {"type": "string", "enum": ["KG", "PIECE"]}
    or_null = {"type": "string", "enum": ["KG", "PIECE", None], "nullable": True}
    for name in ("A", "A.body"):
        shown = schemas[name]["properties"]
        assert (shown["a"], shown["b"]) == (values, or_null)
        assert shown["c"] == {"type": "array", "items": or_null, "nullable": True}
    assert schemas["A"]["properties"]["id"] == values
    assert schemas["P"]["properties"]["x"] == or_null
    assert schemas["A.form"]["properties"]["b"] == {"type": "string", "enum": ["KG", "PIECE", ""]}
    path = document["paths"]["/A/{id}"]
    assert [each["schema"] for each in path["parameters"]] == [values]
    conditions = {each["name"]: each["schema"] for each in document["paths"]["/A/"]["get"]["parameters"] if "name" in each}
    assert conditions["a"] == or_null
