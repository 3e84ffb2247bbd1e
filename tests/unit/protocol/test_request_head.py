"""The rules that span fields: framing, Host, target, Connection."""

from __future__ import annotations

import pytest

from svc.errors import PeerError
from svc.protocol.request_head import explain_request_line, interpret_block, reduce_target, tokens

HOST = ("host", "a")


@pytest.mark.parametrize(
    ("pairs", "version", "message"),
    [
        ([], "1.1", "Missing Host header"),
        ([("host", "a b")], "1.1", "Invalid Host header"),
        ([("host", "a:b")], "1.1", "Invalid Host header"),
        ([("host", "a, b")], "1.0", "Invalid Host header"),
        ([("host", "a%zz")], "1.1", "Invalid Host header"),
        ([("host", "[::1")], "1.1", "Invalid Host header"),
        ([HOST, ("content-length", "0"), ("transfer-encoding", "chunked")], "1.1", "Both Content-Length and Transfer-Encoding"),
        ([("transfer-encoding", "chunked")], "1.0", "Transfer-Encoding in an HTTP/1.0 request"),
    ],
)
def test_refuses(pairs: list[tuple[str, str]], version: str, message: str) -> None:
    with pytest.raises(PeerError) as caught:
        interpret_block(pairs, version)
    assert (caught.value.message, caught.value.status_code) == (message, 400)


@pytest.mark.parametrize("host", ["", "a", "a.b-c_d:80", "a:", "[::1]", "[fe80::1]:8080", "127.0.0.1:9926", "%41"])
def test_accepts_hosts(host: str) -> None:
    assert interpret_block([("host", host)], "1.1").block.get("host") == host


@pytest.mark.parametrize(
    ("pairs", "version", "keep_alive"),
    [
        ([HOST], "1.1", True),
        ([HOST, ("connection", "keep-alive")], "1.1", True),
        ([HOST, ("connection", "x, Close")], "1.1", False),
        ([HOST, ("connection", "x"), ("connection", "close")], "1.1", False),
        ([HOST, ("connection", "closed")], "1.1", True),
        ([], "1.0", False),
        ([("connection", "keep-alive")], "1.0", False),
    ],
)
def test_keep_alive(pairs: list[tuple[str, str]], version: str, keep_alive: bool) -> None:
    assert interpret_block(pairs, version).keep_alive is keep_alive


@pytest.mark.parametrize(
    ("pairs", "content_length", "chunked"),
    [([HOST], 0, False), ([HOST, ("content-length", "07")], 7, False), ([HOST, ("transfer-encoding", "chunked")], 0, True)],
)
def test_framing(pairs: list[tuple[str, str]], content_length: int, chunked: bool) -> None:
    parsed = interpret_block(pairs, "1.1")
    assert (parsed.content_length, parsed.chunked) == (content_length, chunked)


def test_expectations_and_upgrades_are_of_http_11_only() -> None:
    pairs = [HOST, ("expect", "100-Continue"), ("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]
    modern, old = interpret_block(list(pairs), "1.1"), interpret_block(list(pairs), "1.0")
    assert (modern.expects_continue, modern.upgrades) == (True, True)
    assert (old.expects_continue, old.upgrades) == (False, False)


def test_an_upgrade_must_be_named_in_connection() -> None:
    assert not interpret_block([HOST, ("upgrade", "websocket")], "1.1").upgrades


@pytest.mark.parametrize(
    ("method", "target", "reduced", "host"),
    [
        ("GET", "/a?b", "/a?b", "a"),
        ("GET", "//a", "//a", "a"),
        ("OPTIONS", "*", "*", "a"),
        ("GET", "http://b:80/c?d", "/c?d", "b:80"),
        ("GET", "HTTPS://b", "/", "b"),
        ("GET", "http://b?c", "/?c", "b"),
        ("OPTIONS", "http://b", "*", "b"),
        ("OPTIONS", "http://b/", "/", "b"),
    ],
)
def test_targets(method: str, target: str, reduced: str, host: str) -> None:
    pairs = [("x", "y"), HOST]
    assert reduce_target(method, target, pairs) == reduced
    assert pairs == [("x", "y"), ("host", host)]


def test_an_absolute_target_gives_http_10_its_host() -> None:
    pairs = [("x", "y")]
    assert reduce_target("GET", "http://b/", pairs) == "/"
    assert pairs == [("host", "b"), ("x", "y")]


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "*", 400), ("GET", "a", 400), ("GET", "a:80", 400), ("GET", "?a", 400), ("GET", "ftp://a/", 400), ("GET", "http:///a", 400),
        ("GET", "http://u@a/", 400), ("GET", "http://a,b/", 400), ("GET", "http:/a", 400), ("CONNECT", "a:80", 501), ("CONNECT", "/", 501),
    ],
)  # fmt: skip
def test_refused_targets(method: str, target: str, status: int) -> None:
    with pytest.raises(PeerError) as caught:
        reduce_target(method, target, [HOST])
    assert caught.value.status_code == status


def test_tokens() -> None:
    assert tokens("") == tokens(" , ,\t") == ()
    assert tokens("a, B ,\tc,") == ("a", "b", "c")


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"GET /\xe9 HTTP/1.1\r\n\r\n", "non-ASCII"),
        (b"GET\t/ HTTP/1.1\n\n", "Control"),
        (b"GET /\r\n\r\n", "one space"),
        (b"GET / b HTTP/1.1\r\n\r\n", "one space"),
        (b"GET / b\r\n\r\n", "HTTP version"),
        (b"GET / HTTP/1\r\n\r\n", "Malformed"),
        (b"G(T / HTTP/1.1\r\n\r\n", "Malformed"),
    ],
)
def test_a_refused_request_line_is_explained(head: bytes, words: str) -> None:
    assert words in explain_request_line(head)
