from collections import deque
from datetime import UTC, datetime
from typing import Any

import pytest

from svc.content.content_type import Shape
from svc.content.json_type import JsonType, decode_json, decode_json_slices, encode_json
from svc.errors import BadBody
from svc.store.values.records import encode

JSON = JsonType()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a":1.0,"b":[2.50,1e2,-0.0]}', {"a": 1, "b": [2.5, 100, 0]}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b"9" * 300, 10**300 - 1),
        (b"1e300", 1e300),
        (b"null", None),
        (b' "\\u00e9\\ud83d\\ude00" ', "\u00e9\U0001f600"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_json_numbers_are_one_kind(text: bytes, value: Any) -> None:
    decoded = decode_json(text)
    assert decoded == value
    if isinstance(decoded, dict) and "b" in decoded:
        assert [type(n) for n in decoded["b"]] == [float, int, int]


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b"[1,]", b"NaN", b"Infinity", b"-", b"01", b'{"a":1e999}', b'"\xff"', b'"\\ud800"', b'"\x01"', b"[" * 100_000, b'{"a":' * 5000,
        b"9" * 10_000_000, b"\xef\xbb\xbf\xef\xbb\xbf{}", b"\xef\xbb\xbf", b"{}x", b"'a'", b"{1:2}",
    ],
    ids=lambda text: f"{len(text)}-{text[:12]!r}",
)  # fmt: skip
def test_what_is_no_json_is_a_bad_body(text: bytes) -> None:
    with pytest.raises(BadBody, match="Invalid JSON"):
        decode_json(text)


def test_messages_name_the_place() -> None:
    with pytest.raises(BadBody, match="byte 4"):
        decode_json(b'{"a"x}')
    with pytest.raises(BadBody, match="not UTF-8 at byte 8"):
        decode_json(b'["abc","\xff"]')


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 1, "b": [True, None, 2.5, "\u00e9"]}, '{"a":1,"b":[true,null,2.5,"\u00e9"]}'),
        (10**299, "1" + "0" * 299),
        (-(10**299), "-1" + "0" * 299),
        ([float("nan"), float("inf"), -float("inf")], "[null,null,null]"),
        (datetime(2024, 1, 5, 20, 7, 27, 955999, UTC), '"2024-01-05T20:07:27.955Z"'),
        (b"\xff\x00", '"/wA="'),
        ({3, 1, 2}, "[1,2,3]"),
        ({1: 3, None: 2, 2.5: 4, datetime(2024, 1, 5, tzinfo=UTC): 5}, '{"1":3,"null":2,"2.5":4,"2024-01-05T00:00:00.000Z":5}'),
        ("\ud800x", '"\ufffdx"'),
        ({"\udc00": ["\ud83d\ude00"]}, '{"\ufffd":["\U0001f600"]}'),
    ],
    ids=lambda value: str(value).encode("ascii", "backslashreplace").decode()[:20],
)
def test_values_as_json(value: Any, text: str) -> None:
    assert encode_json(value).decode() == text


def test_what_has_no_json_is_a_type_error() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    for value in (object(), [object()], {"a": {object()}}, cycle, 1j, 10**5000, int, JsonType):
        with pytest.raises(TypeError):
            encode_json(value)


RECORDS = [{"id": "a", "n": 1}, {"id": "b", "when": datetime(2024, 1, 5, tzinfo=UTC), "tags": {"x"}}]
RAW = [encode(record, 1.0, number, None) for number, record in enumerate(RECORDS)]
TEXT = b'{"id":"a","n":1},{"id":"b","when":"2024-01-05T00:00:00.000Z","tags":["x"]}'


def test_rows_are_one_array_however_they_come() -> None:
    writer = JSON.row_writer(Shape())
    assert writer.begin() + writer.end() == b"[]"
    for batches in ([RAW], [[raw] for raw in RAW]):
        writer = JSON.row_writer(Shape())
        assert writer.begin() + b"".join(map(writer.raw, batches)) + writer.end() == b"[" + TEXT + b"]"
    writer = JSON.row_writer(Shape())
    assert writer.begin() + writer.values(RECORDS[:1]) + writer.values(RECORDS[1:]) + writer.end() == b"[" + TEXT + b"]"
    writer = JSON.row_writer(Shape(form="value"))
    assert writer.begin() + writer.rows([1, None]) + writer.rows(["a"]) + writer.end() == b'[1,null,"a"]'
    assert JSON.encode_stored(RAW[1]) == b'{"id":"b","when":"2024-01-05T00:00:00.000Z","tags":["x"]}'


def test_a_failure_is_the_last_element() -> None:
    error = {"error": "StoreFailure: damaged"}
    writer = JSON.row_writer(Shape())
    assert (writer.begin(), writer.failure(error), writer.end()) == (b"[", b'{"error":"StoreFailure: damaged"}', b"]")
    writer = JSON.row_writer(Shape())
    assert (writer.rows([1]), writer.failure(error)) == (b"1", b',{"error":"StoreFailure: damaged"}')


@pytest.mark.parametrize(
    ("document", "what", "at"),
    [
        (r'"\ud800"', r"\ud800 is an unpaired surrogate", 1),
        (r'{"a":"x\uDFFF"}', r"\uDFFF is an unpaired surrogate", 7),
        (r'{"\ud83d":1}', r"\ud83d is an unpaired surrogate", 2),
        (r'["\ud83d\ude00","\\\ud83d x"]', r"\ud83d is an unpaired surrogate", 19),
        (r'"\ud83d\ude00\ude00"', r"\ude00 is an unpaired surrogate", 13),
        (r'"\ud83d\u0041"', r"\ud83d is an unpaired surrogate", 1),
        (r'{"a":"\\ud800', "Input data was truncated", None),
        (r'{b:"\ud800"}', "JSON is malformed", 1),
    ],
)
def test_half_of_a_pair_is_named(document: str, what: str, at: int | None) -> None:
    with pytest.raises(BadBody) as caught:
        decode_json(document.encode())
    assert caught.value.message.startswith(f"Invalid JSON: {what}")
    assert caught.value.message.endswith(f"(byte {at})") is (at is not None)


def test_half_of_a_pair_in_a_long_document_is_named() -> None:
    body = b'["' + b'","'.join([b"x" * 50] * 5_000) + rb'\ud800","' + b'","'.join([b"x" * 50] * 5_000) + b'"]'
    with pytest.raises(BadBody, match=rf"unpaired surrogate, which is no character \(byte {body.index(b'ud800') - 1}\)"):
        deque(decode_json_slices(body), maxlen=0)
