from typing import Any

import pytest

from svc.content.json_type import decode_json
from svc.content.registry import ContentTypes
from svc.errors import BadBody, ClientError
from svc.messages import HeaderBlock, Request
from svc.rest.bodies import Bodies, raw_content
from svc.rest.decoding import RequestDecoder


def decode_body(content_type: str | None, body: bytes, method: str) -> Any:
    block = HeaderBlock([] if content_type is None else [("content-type", content_type)])
    return Bodies(ContentTypes.built_in(), RequestDecoder(1000, 1000)).read(Request(method, "/T/1", block, body))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a":1.0,"b":[2.50,1e2,-0.0]}', {"a": 1, "b": [2.5, 100, 0]}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b"1e300", 1e300),
        (b"null", None),
    ],
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
        b"9" * 10_000_000, b"\xef\xbb\xbf{}", b"{}x", b"'a'", b"{1:2}",
    ],
    ids=lambda text: f"{len(text)}-{text[:12]!r}",
)  # fmt: skip
def test_what_is_no_json_is_a_bad_body(text: bytes) -> None:
    with pytest.raises(BadBody, match="Invalid JSON"):
        decode_json(text)


def test_a_body_without_type_is_json_when_it_begins_like_it() -> None:
    assert decode_body(None, b'{"a":1}', "PUT") == {"a": 1}
    assert decode_body("application/vnd.x+json; v=1", b"[1]", "PUT") == [1]
    assert decode_body(None, b"\x00\x01", "PUT") == {"contentType": "application/octet-stream", "data": b"\x00\x01"}
    assert decode_body(None, b"{not", "PUT") == {"contentType": "application/octet-stream", "data": b"{not"}


def test_other_types_become_raw_content() -> None:
    assert decode_body("text/calendar; charset=ISO-8859-1; x=y", b"\xe9", "PUT") == {"contentType": "text/calendar; x=y", "data": "\u00e9"}
    assert decode_body("image/png", b"\x89P", "PUT") == {"contentType": "image/png", "data": b"\x89P"}
    with pytest.raises(BadBody, match="Unknown charset"):
        raw_content("text/plain; charset=klingon", "text/plain", b"x")
    with pytest.raises(BadBody, match="not valid utf-8"):
        raw_content("text/plain", "text/plain", b"\xff")


def test_missing_bodies_and_patch_dialects_are_refused() -> None:
    with pytest.raises(BadBody, match="PUT needs a body"):
        decode_body("application/json", b"", "PUT")
    with pytest.raises(ClientError) as caught:
        decode_body("application/merge-patch+json", b"{}", "PATCH")
    assert caught.value.status_code == 415
    assert caught.value.headers[0][0] == "Accept-Patch"
