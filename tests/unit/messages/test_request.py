"""svc.messages.request: what handlers see of a request."""

import pytest

from svc.messages import HeaderBlock, Request


def test_a_handler_changes_its_copy_of_the_request_headers_only() -> None:
    block = HeaderBlock([("host", "a")])
    first, second = Request("GET", "/x?y=1&z", block), Request("GET", "/", block)
    first.headers.set("Host", "b")
    assert first.headers.get("host") == "b"
    assert second.headers.get("host") == "a"
    assert block.get("host") == "a"


def test_target_is_split_once_at_the_first_question_mark() -> None:
    block = HeaderBlock([("host", "h:1")])
    request = Request("GET", "/a/b?c=d?e", block)
    assert (request.pathname, request.query) == ("/a/b", "c=d?e")
    assert Request("GET", "/a", block).query is None
    assert Request("GET", "/a?", block).query == ""
    assert request.absolute_url == "http://h:1/a/b?c=d?e"


def test_the_url_follows_the_path() -> None:
    request = Request("GET", "/a%20b?c=d?e", HeaderBlock([("host", "x.example:80")]))
    assert (request.url, request.absolute_url) == ("/a%20b?c=d?e", "http://x.example:80/a%20b?c=d?e")
    request.pathname = "/other"
    assert (request.url, request.target, request.absolute_url) == ("/other?c=d?e", "/a%20b?c=d?e", "http://x.example:80/other?c=d?e")
    assert Request("GET", "/a?", HeaderBlock([])).url == "/a?"
    assert Request("OPTIONS", "*", HeaderBlock([])).url == "*"


def test_changed_headers_become_the_block_when_they_are_adopted() -> None:
    block = HeaderBlock([("accept", "a/b"), ("accept", "c/d"), ("x", "1")])
    request = Request("GET", "/", block)
    request.adopt_headers()
    assert request.headers.get("Accept") == "a/b, c/d"
    request.adopt_headers()
    assert request.block is block  # reading changes nothing
    request.headers.set("Accept", "e/f")
    request.headers.delete("X")
    request.headers.append("Y", "2")
    request.adopt_headers()
    assert request.block.fields == {"accept": "e/f", "y": "2"}
    assert block.fields == {"accept": "a/b, c/d", "x": "1"}


def test_no_early_hints_for_a_request_that_offers_another_protocol() -> None:
    class Exchange:
        def __init__(self) -> None:
            self.sent: list[object] = []

        def send_early_hints(self, pairs: object) -> None:
            self.sent.append(pairs)

    request, exchange = Request("GET", "/", HeaderBlock([])), Exchange()
    request.send_early_hints("</a>")
    request.exchange = exchange  # type: ignore[assignment]
    request.sendEarlyHints(["</a>", "</b>"], {"X": "y"})
    request.offers = "websocket"
    request.send_early_hints("</c>")
    assert exchange.sent == [[("Link", "</a>"), ("Link", "</b>"), ("X", "y")]]
    with pytest.raises(ValueError, match="not a header field"):
        request.offers = ""
        request.send_early_hints("</a>\r\nX: y")
