"""svc.messages.headers: fields as received, and as handlers change them."""

import pytest

from svc.messages import HeaderBlock, Headers


def test_repeated_fields_are_joined_cookies_with_a_semicolon() -> None:
    block = HeaderBlock([("accept", "a/b"), ("cookie", "x=1"), ("accept", "c/d"), ("cookie", "y=2")])
    assert block.get("accept") == "a/b, c/d"
    assert block.get("cookie") == "x=1; y=2"
    assert block.get("missing") is None


def test_headers_are_case_insensitive_and_keep_their_order() -> None:
    headers = Headers({"ETag": '"x"', "Vary": "Accept"})
    headers.set("etag", '"y"')
    assert headers.pairs() == [("Vary", "Accept"), ("etag", '"y"')]
    assert headers.get("ETAG") == '"y"'
    assert "vary" in headers
    headers.delete("VARY")
    assert "Vary" not in headers
    with pytest.raises(KeyError):
        headers["vary"]


def test_set_cookie_accumulates() -> None:
    headers = Headers()
    headers.set("Set-Cookie", "a=1")
    headers.set("Set-Cookie", "b=2")
    assert len(headers) == 2


@pytest.mark.parametrize(
    ("name", "value"), [("X-A", "a\r\nX-B: b"), ("X-A", "a\nb"), ("X-A", "a\0b"), ("X A", "a"), ("X:", "a"), ("", "a")]
)
def test_what_is_no_header_field_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match="not a header field"):
        Headers({name: value})
