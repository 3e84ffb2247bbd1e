"""What newcomers send, to the byte, and the words that set them right (spec: http §5, §7.5; query §2)."""

from __future__ import annotations

import base64
import http.client
import json
import socket
from typing import Any

import pytest

from tests.integration.conftest import LIMIT, PASSWORD, Process, authorization

pytestmark = pytest.mark.programs

FORM = "application/x-www-form-urlencoded"  # what `curl -d` says
BOM = b"\xef\xbb\xbf"


def ask(server: Process, method: str, target: str, body: bytes | None = None, kind: str | None = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
    login = base64.b64encode(f"admin:{PASSWORD}".encode()).decode()
    try:
        connection.request(method, target, body, {"Authorization": f"Basic {login}"} | ({} if kind is None else {"Content-Type": kind}))
        response = connection.getresponse()
        content = response.read()
    finally:
        connection.close()
    return response.status, json.loads(content) if content else None


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("limit=2", "UNKNOWN_ATTRIBUTE", "limit is not a defined attribute (did you mean _limit=2?)"),
        ("offset=20", "UNKNOWN_ATTRIBUTE", "offset is not a defined attribute (did you mean _offset=20?)"),
        ("page=2", "UNKNOWN_ATTRIBUTE", "page is not a defined attribute (did you mean _limit=10&_offset=20?)"),
        ("order=price", "UNKNOWN_ATTRIBUTE", "order is not a defined attribute (did you mean _sort=price?)"),
        ("filter[price]=5", "QUERY_SYNTAX", "(a condition is written price==value)"),
        ("filter%5Bprice%5D=5", "UNKNOWN_ATTRIBUTE", "filter[price] is not a defined attribute (a condition is written price==value)"),
        ("$filter=price%20gt%205", "UNKNOWN_ATTRIBUTE", "$filter is not a defined attribute (did you mean _where="),
        ("%24filter=price+gt+5", "UNKNOWN_ATTRIBUTE", "$filter is not a defined attribute (did you mean _where="),
        ("_limt=5", "UNKNOWN_ATTRIBUTE", "_limt is not a defined attribute (did you mean _limit=5?)"),
    ],
)
def test_queries_of_other_interfaces(server: Process, query: str, code: str, words: str) -> None:
    status, problem = ask(server, "GET", f"/Product/?{query}")
    assert (status, problem["code"]) == (400, code), problem
    assert words in problem["detail"] and problem["error"] == problem["detail"]


def test_json_without_a_content_type(server: Process) -> None:
    assert ask(server, "POST", "/Product/", b'{"id":"hint1","price":5}')[0] == 201
    assert ask(server, "GET", "/Product/hint1?select(price)")[1] == 5
    status, problem = ask(server, "PUT", "/Strict/hint1", b"{size: 1}")
    assert (status, problem["code"]) == (400, "VALIDATION")
    assert "Content-Type: application/json" in problem["detail"]
    assert ask(server, "GET", "/Strict/hint1")[0] == 404


@pytest.mark.parametrize("body", [b'{"id":"hint2"}', b'[{"id":"hint2"}]'])
def test_json_as_curl_sends_it(server: Process, body: bytes) -> None:
    status, problem = ask(server, "POST", "/Product/", body, FORM)
    assert (status, problem["code"]) == (400, "BAD_BODY")
    assert problem["detail"].endswith("send it with Content-Type: application/json")
    assert ask(server, "GET", "/Product/hint2")[0] == 404


def test_addresses_that_are_spelt_differently(server: Process) -> None:
    for path in ("/product/", "/Products/", "/PRODUCT/1?select(price)"):
        status, problem = ask(server, "GET", path)
        assert (status, problem["detail"]) == (404, "Not found (did you mean /Product/?)"), path
    for path in ("/Prod/", "/", "/%ff/"):
        assert "did you mean" not in str(ask(server, "GET", path)[1])


def test_bodies_at_the_wrong_address(server: Process) -> None:
    for method, more in (("PUT", ": a list is put at the address of the table, which ends with /"), ("PATCH", "")):
        status, problem = ask(server, method, "/Product/hint4", b'[{"id":"hint4"}]', "application/json")
        assert (status, problem["detail"]) == (400, f"The body must be one object, not a list{more}")
    status, problem = ask(server, "PUT", "/Product/", b'{"price":1}', "application/json")
    assert (status, problem["detail"]) == (400, "The body has no id: PUT it at the address of a record, or POST it")
    with socket.create_connection(("127.0.0.1", server.port), LIMIT) as sock:  # its body has not come when it is looked for
        fields = f"Authorization: {authorization()}\r\nContent-Type: application/json\r\nContent-Length: 2\r\nHost: a"
        sock.sendall(f"POST / HTTP/1.1\r\n{fields}\r\n\r\n".encode())
        assert b"405 Method Not Allowed" in sock.recv(65536)
    status, problem = ask(server, "POST", "/", b'{"operation":"describe_all"}', "application/json")
    assert (status, problem["detail"]) == (405, "The root is only read; operations are posted to the operations port, 9925 by default")


@pytest.mark.parametrize("kind", [None, "application/json", "application/x-ndjson"])
def test_a_byte_order_mark_is_no_fault(server: Process, kind: str | None) -> None:
    assert ask(server, "PUT", "/Product/hint3", BOM + b'{"price":7}\n', kind)[0] == 204
    assert ask(server, "GET", "/Product/hint3?select(price)")[1] == 7
    assert ask(server, "DELETE", "/Product/hint3")[0] == 204
