"""Exact faces and back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from svc.sql.functions import EXACT_OF
from svc.sql.functions.exact import exact_face, exact_of_plain, plain_value
from svc.store.values.records import decode_payload, encode_payload
from tests.unit.sql.functions.conftest import Value

VALUES = [
    None,
    True,
    False,
    0,
    1,
    -(2**63),
    2**63,
    2**70,
    1.5,
    "a",
    "",
    b"",
    b"\x01",
    datetime(2024, 1, 5, tzinfo=UTC),
    [1, True],
    {"a": None},
    {1: 2},
]


@pytest.mark.parametrize("value", VALUES)
def test_values_come_back(value: object) -> None:
    found = plain_value(exact_face(value))
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("value", [None, 1, 1.5, "a", 2**63 - 1])
def test_what_sqlite_has_is_its_own_face(value: object) -> None:
    assert exact_face(value) is value and exact_of_plain(value) is value


@pytest.mark.parametrize("blob", [b"", b"\x01", encode_payload([1])])
def test_blobs_become_faces(value: Value, blob: bytes) -> None:
    assert decode_payload(value(f"{EXACT_OF}(?)", blob)) == blob
    assert value(f"{EXACT_OF}(?)", "a") == "a" and value(f"{EXACT_OF}(?)", None) is None
