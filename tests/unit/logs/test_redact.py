"""Bodies of operations in the log: no secrets, bounded, whatever was sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc.logs.redact import HIDDEN, MAX_ITEMS, MAX_TEXT, MAX_VALUES, is_secret, redacted
from tests.support.profile import half_by_day

SECRET = (
    "password PASSWORD auth_password operation_token refresh_token token tokens secret secret_access_key clientSecret private_key privateKey payload key"
    " keys authorization credentials replication_credentials api_key cookie passphrase aws_access_key_id envelope"
)
OTHER = "username table ids primary_key hash_attribute operationTokenTimeout authentication_operationTokenTimeout public_key certificate monkey keystone"


@pytest.mark.parametrize("name", SECRET.split())
def test_secret_names(name: str) -> None:
    assert is_secret(name)
    assert redacted({name: "S3CRET"}) == {name: HIDDEN}
    assert redacted({"inner": [{name: {"a": "S3CRET"}}]}) == {"inner": [{name: HIDDEN}]}


@pytest.mark.parametrize("name", OTHER.split())
def test_other_names(name: str) -> None:
    assert redacted({name: "x"}) == {name: "x"}


def test_what_an_operation_declares_secret() -> None:
    assert redacted({"value": "S3CRET", "name": "n"}, frozenset({"value"})) == {"value": HIDDEN, "name": "n"}
    assert redacted({"password": None}) == {"password": None}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://ann:S3CRET@host/x", "https://***@host/x"),
        ("git+https://S3CRET@github.com/a/b#v1", "git+https://***@github.com/a/b#v1"),
        ("https://b.s3.example/x?a=1&X-Amz-Signature=S3CRET&b=2", "https://b.s3.example/x?a=1&X-Amz-Signature=***&b=2"),
        ("https://h/?token=S3CRET", "https://h/?token=***"),
        ("https://host/plain?x=1", "https://host/plain?x=1"),
        ("a@b.example", "a@b.example"),
    ],
)
def test_addresses_lose_their_credentials(text: str, shown: str) -> None:
    assert redacted({"url": text, "urls": [text]}) == {"url": shown, "urls": [shown]}


def test_records_are_counted_and_long_things_cut() -> None:
    found = redacted(
        {"operation": "insert", "records": [{"a": 1}], "data": "a,b\n1,2", "ids": list(range(1000)), "sql": "x" * 10_000, "raw": b"abc"}
    )
    assert found == {
        "operation": "insert",
        "records": "1 item",
        "data": "7 characters",
        "ids": "1000 items",
        "sql": "x" * MAX_TEXT + "... (10000 characters)",
        "raw": "3 bytes",
    }
    many = redacted({f"a{number}": 1 for number in range(1000)})
    assert len(many) == MAX_ITEMS + 1
    assert many["..."] == f"{1000 - MAX_ITEMS} more"


def test_nesting_is_bounded() -> None:
    deep: Any = "S3CRET"
    for _ in range(100_000):
        deep = [deep]
    assert redacted({"a": deep}) == {"a": [[[["1 item"]]]]}
    wide = [[[1] * MAX_ITEMS] * MAX_ITEMS] * MAX_ITEMS
    assert len(json.dumps(redacted({"a": wide}))) < MAX_VALUES * 100


def test_the_body_is_not_changed() -> None:
    body = {"password": "x", "inner": {"token": "y"}}
    redacted(body)
    assert body == {"password": "x", "inner": {"token": "y"}}


@settings(max_examples=half_by_day(100))
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers() | st.booleans(), inner),
        max_leaves=50,
    )
)
def test_anything_is_shown_as_json(value: Any) -> None:
    json.dumps(redacted({"a": value}))
    json.dumps(redacted({"records": value, "password": value}))
