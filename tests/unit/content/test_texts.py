from typing import Any

import pytest

from svc.content.texts import convert, converter, decode_text
from svc.errors import BadBody, BadValue
from svc.store.schema import Attribute, Relationship
from svc.store.values.conversion import date_from_text


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        (b"\xc3\xa9", None, "é"),
        (b"\xef\xbb\xbfa", "UTF-8", "a"),
        (b"\xe9", "ISO-8859-1", "é"),
        (b"\x80", "windows-1252", "€"),
        (b"\xff\xfea\x00", "utf-16", "a"),
        (b"\x00a", "UTF-16BE", "a"),
        (b"\x83\x65", "Shift_JIS", "テ"),
        (b"", "us-ascii", ""),
    ],
)
def test_charsets(body: bytes, charset: str | None, text: str) -> None:
    assert decode_text(body, {} if charset is None else {"charset": charset}) == text


@pytest.mark.parametrize(
    "charset", ["klingon", "base64", "zlib", "idna", "punycode", "unicode_escape", "utf-7", "rot13", "x" * 5000, "a\0b", "é", "../x"]
)
def test_what_is_no_charset(charset: str) -> None:
    with pytest.raises(BadBody, match="Unknown charset") as caught:
        decode_text(b"abc", {"charset": charset})
    assert len(caught.value.message) < 100


def test_invalid_text_names_the_place() -> None:
    with pytest.raises(BadBody, match="not valid utf-8 at byte 2"):
        decode_text(b"ab\xff", {})
    with pytest.raises(BadBody, match="not valid utf-16"):
        decode_text(b"a", {"charset": "utf-16"})


@pytest.mark.parametrize(
    ("attribute", "text", "value"),
    [
        (None, "12", 12),
        (None, "007", "007"),
        (None, "true", True),
        (None, "null", None),
        (Attribute("a", "Any"), "1.5", 1.5),
        (Attribute("a", "ID"), "12", "12"),
        (Attribute("a", "String"), "null", "null"),
        (Attribute("a", "Bytes"), "/wA=", "/wA="),
        (Attribute("a", "Blob"), "text", "text"),
        (Attribute("a", "Int"), "12", 12),
        (Attribute("a", "Int"), "null", None),
        (Attribute("a", "Int"), "", None),
        (Attribute("a", "Float"), "1e3", 1000),
        (Attribute("a", "Boolean"), "TRUE", True),
        (Attribute("a", "Date"), "2024-01-05", date_from_text("2024-01-05")),
        (Attribute("a", "Date"), "1704412800000", date_from_text("2024-01-05")),
        (Attribute("a", "String", elements=True), '["x","y"]', ["x", "y"]),
        (Attribute("a", "Any", elements=True), "[1]", [1]),
        (Attribute("a", "Int", elements=True), "", None),
        (Attribute("a", "Address"), '{"city":"x"}', {"city": "x"}),
        (Attribute("a", "Int", computed_from="b"), "1", 1),
        (Attribute("a", "Brand", relationship=Relationship("Brand")), "b1", "b1"),
    ],
)
def test_a_text_by_its_declared_type(attribute: Attribute | None, text: str, value: Any) -> None:
    found = convert(text, attribute)
    assert type(found) is type(value) and found == value


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        (Attribute("price", "Float"), "abc"),
        (Attribute("price", "Int"), "1.5"),
        (Attribute("price", "Boolean"), "yes"),
        (Attribute("price", "Date"), "yesterday"),
        (Attribute("price", "String", elements=True), "usb"),
        (Attribute("price", "Address"), "{"),
        (Attribute("price", "Address"), "\ud800"),
    ],
)
def test_a_text_that_its_type_cannot_take(attribute: Attribute, text: str) -> None:
    function = converter(attribute)
    assert function is not None
    with pytest.raises(BadValue, match="Invalid value for attribute price: "):
        function(text)
