from typing import Any

import pytest

from svc.content.registry import ContentTypes
from svc.errors import BadBody, ClientError
from svc.http.bodies import Bodies, raw_content
from svc.http.decoding import RequestDecoder
from svc.messages import HeaderBlock, Request


def decode_body(content_type: str | None, body: bytes, method: str) -> Any:
    block = HeaderBlock([] if content_type is None else [("content-type", content_type)])
    return Bodies(ContentTypes.built_in(), RequestDecoder(1000, 1000)).read(Request(method, "/T/1", block, body))


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


def test_what_a_header_block_says_of_its_bodies_changes_with_the_content_types() -> None:
    types = ContentTypes.built_in()
    bodies = Bodies(types, RequestDecoder(1000, 1000))
    block = HeaderBlock([("content-type", "Text/X-Upper; charset=utf-8")])
    assert bodies.read(Request("PUT", "/T/1", block, b"a")) == {"contentType": "Text/X-Upper", "data": "a"}
    types["text/x-upper"] = {"deserialize": lambda text: text.upper()}
    assert bodies.read(Request("PUT", "/T/1", block, b"a")) == "A"
    del types["text/x-upper"]
    assert bodies.read(Request("PUT", "/T/1", block, b"b")) == {"contentType": "Text/X-Upper", "data": "b"}
