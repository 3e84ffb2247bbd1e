"""Plain records: what `Validator.record` would make of them, or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from svc.content.json_type import decode_json
from svc.errors import ClientError
from svc.store.schema import Attribute, Enumeration, Relationship, Structure, TableDefinition
from svc.store.values.validation import Validator

COLOUR = Enumeration("Colour", ("red", "green"))
STRUCTURES = (
    Structure("Closed", (Attribute("n", "Int", required=True), Attribute("more", "Closed")), sealed=True),
    Structure("WithBlob", (Attribute("b", "Blob"),), sealed=True),
    Structure("Around", (Attribute("w", "WithBlob"),), sealed=True),
    Structure("Open", (Attribute("n", "Int"),)),
)
ATTRIBUTES = (
    Attribute("id", "ID", primary_key=True),
    Attribute("name", "String", required=True),
    Attribute("size", "Int"),
    Attribute("far", "Long"),
    Attribute("price", "Float"),
    Attribute("huge", "BigInt"),
    Attribute("is", "Boolean"),
    Attribute("day", "Date"),
    Attribute("bytes", "Bytes"),
    Attribute("file", "Blob"),
    Attribute("any", "Any"),
    Attribute("tags", "String", elements=True),
    Attribute("files", "Blob", elements=True),
    Attribute("anies", "Any", elements=True),
    Attribute("colour", "String", enum=COLOUR),
    Attribute("closed", "Closed"),
    Attribute("around", "Around"),
    Attribute("open", "Open"),
    Attribute("made", "Float", created_time=True, required=True),
    Attribute("level", "Int", required=True, default="1"),
    Attribute("sum", "Int", computed_from="size + 1"),
    Attribute("other", "Other", relationship=Relationship("Other", "id")),
)
VALIDATOR = Validator(TableDefinition("T", attributes=ATTRIBUTES, structures=STRUCTURES))


def plain(text: str) -> dict[str, Any] | None:
    """What becomes of a body with what every record needs."""
    record = decode_json(('{"id": "k", "name": "n", "level": 2' + (", " if text else "") + text + "}").encode())
    found = VALIDATOR.plain_records.maybe_record(record)
    try:
        expected = VALIDATOR.record(record)
    except ClientError:
        expected = None
    assert found is None or (found == expected and list(found.items()) == list((expected or {}).items()))
    assert found is None or list(map(type, found.values())) == list(map(type, (expected or {}).values()))
    return found


@pytest.mark.parametrize(
    "text",
    [
        "", '"size": 5', '"size": 5.0', '"size": -2147483648', '"far": 9007199254740992', '"price": 5', '"price": 5.5', '"price": 9223372036854775807',
        '"huge": 5', '"is": true', '"day": "2024-01-05"', '"day": 5', '"bytes": "YWI="', '"file": null', '"any": 5', '"any": "x"', '"any": 2.5',
        '"tags": []', '"tags": ["a", null]', '"colour": "red"', '"closed": {"n": 1, "more": {"n": 2}}', '"made": 5', '"name": "ü", "size": null',
        '"name": "a\\u0000\\ud83d\\ude00"', '"size": 1, "size": 2', '"around": null', '"anies": null',
    ],
)  # fmt: skip
def test_plain(text: str) -> None:
    assert plain(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        '"size": 2147483648', '"size": 5.5', '"size": "5"', '"size": true', '"far": 9007199254740994', '"price": 1e300', '"price": false',
        '"price": 99999999999999999999', '"is": 1', '"name": null', '"name": 5', '"level": null', '"day": "x"', '"bytes": "%"', '"file": "a"',
        '"file": {"description": "Blob: text/plain, 1 bytes", "contentType": "text/plain", "size": 1}', '"any": {}', '"any": []', '"tags": [5]',
        '"tags": "a"', '"files": ["a"]', '"anies": ["a"]', '"anies": []', '"colour": "blue"', '"closed": {"m": 1}', '"closed": {}', '"around": {}',
        '"open": {}', '"undeclared": 1', '"undeclared": null', '"sum": 1', '"other": {}', '"id": null', '"id": 5', '"made": null', '"huge": 1e30',
    ],
)  # fmt: skip
def test_not_plain(text: str) -> None:
    assert plain(text) is None


def test_what_is_required() -> None:
    found = VALIDATOR.plain_records
    assert found.maybe_record({"id": "k", "name": "n", "level": 1}) is not None
    assert found.maybe_record({"id": "k", "level": 1}) is None
    assert found.maybe_record({"id": "k", "name": "n"}) is None  # whether it may be missing is known where it is written


def test_it_is_made_once() -> None:
    assert VALIDATOR.plain_records is VALIDATOR.plain_records


def test_a_table_that_declares_nothing() -> None:
    assert Validator(TableDefinition("T")).plain_records.maybe_record({"id": "k"}) is None
