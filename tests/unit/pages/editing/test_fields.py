"""Values as fields of a form and back (spec: http §7.8)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from svc.pages.editing.fields import (
    ABSENT,
    LONGEST_TEXT,
    NULL,
    VALUE,
    FieldFault,
    field_of,
    json_value,
    name_of,
    rest_field,
    token_of,
    value_of,
)
from svc.store.schema import Attribute, Enumeration
from svc.store.values.records import MISSING

ENUM = Enumeration("Kind", ("ONE", "null"))
KIND = Attribute("kind", "String", enum=ENUM)


@pytest.mark.parametrize("name", ["a", "_a1", "", "ä", 'a"b', "~6162", "a b", "a\r\nb", "~others", "x" * 250])
def test_tokens_of_names(name: str) -> None:
    assert name_of(token_of(name)) == name
    assert token_of(name).replace("~", "a").replace("_", "a").isalnum() or name == ""


@pytest.mark.parametrize(
    ("attribute", "value", "format_", "text"),
    [
        (Attribute("a", "String"), "a\nb", "text", "a\nb"),
        (Attribute("a", "String"), "a\r\nb", "crlf", "a\nb"),
        (Attribute("a", "String"), "a\rb", "json", '"a\\rb"'),
        (Attribute("a", "String"), "\x00\u202e", "json", '"\\u0000\\u202e"'),
        (Attribute("a", "String"), 5, "json", "5"),
        (Attribute("a", "Int"), "5", "json", '"5"'),
        (Attribute("a", "Int"), True, "json", "true"),
        (Attribute("a", "Float"), 1e300, "plain", "1e+300"),
        (Attribute("a", "BigInt"), -(2**100), "plain", str(-(2**100))),
        (Attribute("a", "Date"), datetime(1, 1, 1, tzinfo=UTC), "plain", "0001-01-01T00:00:00.000Z"),
        (Attribute("a", "Date"), "soon", "json", '"soon"'),
        (Attribute("a", "Boolean"), False, "choice", "=false"),
        (KIND, "null", "choice", "=null"),
        (KIND, None, "choice", "null"),
        (KIND, MISSING, "choice", "missing"),
        (KIND, "OLD", "choice", "=OLD"),
        (Attribute("a", "String", elements=True), ["a,b", "c"], "lines", "a,b\nc"),
        (Attribute("a", "String", elements=True), ["a\nb"], "json", '[\n  "a\\nb"\n]'),
        (Attribute("a", "String", elements=True), [""], "json", '[\n  ""\n]'),
        (Attribute("a", "Int", elements=True), [1, None], "json", "[\n  1,\n  null\n]"),
        (Attribute("a", "Int", elements=True), [], "lines", ""),
        (Attribute("a", "Any"), "x", "json", '"x"'),
        (Attribute("a", "Any"), None, "json", "null"),
        (Attribute("a", "Any"), MISSING, "json", ""),
        (Attribute("a", "Any"), b"x", "bytes", None),
        (Attribute("a", "Blob"), MISSING, "file", ""),
        (Attribute("a", "Any"), "\U000e0001", "json", '"\\udb40\\udc01"'),
    ],
)
def test_formats(attribute: Attribute, value: Any, format_: str, text: str | None) -> None:
    shown = field_of(attribute, value)
    assert shown.format == format_ and (text is None or shown.text == text)


def test_values_without_a_field_are_only_shown() -> None:
    assert field_of(Attribute("a", "String"), "x" * LONGEST_TEXT).format == "text"
    assert field_of(Attribute("a", "String"), "ä" * (LONGEST_TEXT // 2 + 1)).format == ""
    assert rest_field({"x": "y" * LONGEST_TEXT}).format == ""
    many = field_of(Attribute("a", "String", enum=Enumeration("E", tuple(f"V{number}" for number in range(501)))), "V1")
    assert many.format == "text"


def test_states_that_can_be_chosen() -> None:
    assert [state for state, _ in field_of(Attribute("a", "String"), "x").states] == [VALUE, NULL]
    assert [state for state, _ in field_of(Attribute("a", "String"), MISSING).states] == [VALUE, NULL, ABSENT]
    assert field_of(Attribute("a", "String", required=True), "x").states == []
    assert field_of(Attribute("a", "String", default='"d"'), MISSING, is_new=True).states[-1] == (ABSENT, "default")
    assert [option for option, _ in field_of(Attribute("a", "Boolean", required=True), True).options] == ["=true", "=false"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1,\r\n "ä": x}', "(line 2, column 7)"),
        ("[1,", "truncated"),
        ('"\\ud800"', "surrogate"),
        ("1 2", "line 1, column"),
        ("[" * 100_000, "nested too deeply"),
        ('"' + "x" * LONGEST_TEXT + '"', "too long"),
    ],
)
def test_json_that_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(FieldFault) as raised:
        json_value(text)
    assert said in raised.value.message


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("Int", "1.5"),
        ("Int", "0x10"),
        ("Float", "nan"),
        ("Float", "1e999"),
        ("Date", "2024-02-30"),
        ("BigInt", "9" * 400),
        ("Boolean", "perhaps"),
    ],
)
def test_text_that_is_no_value(kind: str, text: str) -> None:
    with pytest.raises(FieldFault):
        value_of(Attribute("a", kind), "choice" if kind == "Boolean" else "plain", VALUE, text)
    with pytest.raises(FieldFault):
        value_of(Attribute("a", kind, elements=True), "lines", VALUE, f"1\n{text}" if kind != "Boolean" else text)
