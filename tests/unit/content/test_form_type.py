from typing import Any

import pytest

from svc.content import form_type
from svc.content.content_type import Shape, run
from svc.content.form_type import SLICE_FIELDS, FormType
from svc.errors import BadBody, BadValue
from svc.store.schema import Attribute
from svc.store.values.records import encode

FORM = FormType()


def decode_form(body: bytes, parameters: dict[str, str], attributes: Any = None) -> Any:
    return run(form_type.decode_form(body, parameters, attributes))


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"", {}),
        (b"a=1", {"a": "1"}),
        (b"a=1&b=2&a=3&a=4", {"a": ["1", "3", "4"], "b": "2"}),
        (b"&&a&=x&b==", {"a": "", "": "x", "b": "="}),
        (b"a=x+y%2B%26%3D&%C3%A9=%e2%82%ac", {"a": "x y+&=", "é": "€"}),
        (b"a=%00", {"a": "\0"}),
        (b"a=\xc3\xa9", {"a": "é"}),
    ],
)
def test_reading(body: bytes, fields: dict[str, Any]) -> None:
    assert FORM.decode(body, {}) == fields


def test_values_convert_by_their_declared_type() -> None:
    attributes = {
        a.name: a for a in (Attribute("n", "Int"), Attribute("tags", "String", elements=True), Attribute("l", "Int", elements=True))
    }
    assert decode_form(b"n=5&tags=x&l=1&l=2&other=7", {}, attributes) == {"n": 5, "tags": ["x"], "l": [1, 2], "other": "7"}
    with pytest.raises(BadValue, match='attribute n: "x", expecting Int'):
        decode_form(b"n=x", {}, attributes)


def test_faults_name_the_place() -> None:
    with pytest.raises(BadBody, match="bad percent-encoding at byte 5"):
        decode_form(b"a=%41%2&b=%41", {})
    with pytest.raises(BadBody, match="field at byte 4 is not valid utf-8"):
        decode_form(b"a=1&b=%ff", {})
    assert decode_form(b"a=%e9", {"charset": "latin-1"}) == {"a": "é"}
    with pytest.raises(BadBody, match="Unknown charset"):
        decode_form(b"a=1", {"charset": "klingon"})


@pytest.mark.parametrize(
    ("value", "body"),
    [
        ({"a": "x y&é", "b": [1, None, True], "c": {"d": 1}, "e": []}, b"a=x+y%26%C3%A9&b=1&b=&b=true&c=%7B%22d%22%3A1%7D&e="),
        ("text", b"value=text"),
        (None, b"value="),
        (float("nan"), b"value="),
        ([1, 2], b"value=1&value=2"),
        ([{"a": 1}, {}, {"a": 2}], b"a=1&a=2"),
        (b"\xff", b"value=%2Fw%3D%3D"),
        ({"\ud800": "\udfff"}, b"%EF%BF%BD=%EF%BF%BD"),
    ],
    ids=[str(number) for number in range(8)],
)
def test_writing(value: Any, body: bytes) -> None:
    assert FORM.encode(value) == body


def test_collections() -> None:
    writer = FORM.row_writer()
    body = (
        writer.begin() + writer.rows([{}]) + writer.rows([{"a": 1}]) + writer.raw([encode({"a": "b", "c": 2}, 1.0, 1, None)]) + writer.end()
    )
    assert body == b"a=1&a=b&c=2"
    assert FORM.row_writer(Shape(("x",), "value")).rows([1, 2]) == b"x=1&x=2"
    assert FORM.row_writer(Shape(("x", "y"), "array")).rows([[1, 2]]) == b"x=1&y=2"
    assert writer.failure({"error": "x"}) is None


def test_long_bodies_are_read_with_pauses() -> None:
    assert len(list(form_type.decode_form(b"a=1&" * (2 * SLICE_FIELDS), {}))) == 2
