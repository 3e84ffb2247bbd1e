"""Bodies that are refused with the head: of queries, and of callers who may do nothing at an address."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.auth.origin_policy import OriginPolicy
from svc.auth.roles import Role
from svc.auth.users import User
from svc.http.bodies import LONG_BODY, QUERY_MAX
from svc.http.cors import Cors
from svc.protocol.http1 import Limits
from tests.support.http2 import Client
from tests.support.node import Node


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder: Path = tmp_path_factory.mktemp("limits")
    app = folder / "app"
    app.mkdir()
    (app / "schema.graphql").write_text("type Product @table @export { id: ID @primaryKey  name: String }")
    made = Node(folder / "database", app)
    made.connections.limits = Limits()
    made.dispatcher._cors = Cors(OriginPolicy(None))
    yield made
    made.close()


def status_of_head(node: Node, method: str, target: str, length: int | None, user: Any = ...) -> int:
    """The status of the answer to a head whose body never comes; 0: the body is waited for."""
    identify = node.dispatcher._identify
    if user is not ...:
        node.as_user(user)
    wire = node.connect()
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    wire.send(f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{framing}\r\n\r\n".encode())
    sent = wire.sock.sent
    wire.connection.close_now()
    node.settle()
    node.dispatcher._identify = identify  # type: ignore[method-assign]
    return int(sent.split(b" ")[1]) if sent else 0


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS", "QUERY"])
def test_bodies_that_are_not_stored_have_some_mebibytes(node: Node, method: str) -> None:
    assert status_of_head(node, method, "/Product/", QUERY_MAX) == 0
    assert status_of_head(node, method, "/Product/", QUERY_MAX + 1) == 413


def test_bodies_that_are_stored_have_not(node: Node) -> None:
    assert status_of_head(node, "POST", "/Product/", QUERY_MAX + 1) == 0


def test_what_is_sent_to_a_document_of_the_server(node: Node) -> None:
    assert status_of_head(node, "POST", "/openapi", LONG_BODY + 1) == 413


@pytest.mark.parametrize("accept", ["application/json", "text/html"])
def test_a_body_that_is_too_long_by_its_announcement_is_refused_with_the_fields_of_cors(node: Node, accept: str) -> None:
    wire = node.connect()
    fields = f"Host: localhost\r\nOrigin: https://elsewhere.example\r\nAccept: {accept}\r\nContent-Length: {1 << 31}"
    wire.send(f"PUT /Product/1 HTTP/1.1\r\n{fields}\r\n\r\n".encode())
    head = wire.sock.sent.partition(b"\r\n\r\n")[0].lower()
    assert head.startswith(b"http/1.1 413 ") and b"\r\naccess-control-allow-origin: *" in head
    assert wire.sock.closed or wire.connection.closed or wire.sock.half_closed
    wire.connection.close_now()


@pytest.mark.parametrize("pieces", [[b"x" * (2 << 20)], []])
def test_so_is_it_over_http2(node: Node, pieces: list[bytes]) -> None:
    identify = node.dispatcher._identify
    limits, node.connections.limits = node.connections.limits, Limits(max_body_size=1 << 20)
    client = Client(node)
    node.connections.limits = limits
    node.as_user(User("root", role=Role("r", "r", {"super_user": True})))
    fields = {"origin": "https://elsewhere.example"} | ({} if pieces else {"content-length": str(1 << 31)})
    stream_id = client.request("PUT", "/Product/1", fields, pieces[0] if pieces else b"", is_open=not pieces)
    client.exchange_bytes()
    node.dispatcher._identify = identify  # type: ignore[method-assign]
    answer = client.answers[stream_id]
    assert answer.status == 413 and answer.fields["access-control-allow-origin"] == "*"


@pytest.mark.parametrize("sent", [b"Transfer-Encoding: chunked\r\n\r\nno size\r\n", b"Content-Length: 5\r\n\r\nab"])
def test_a_body_that_is_malformed_or_late_is_answered_with_the_fields_of_cors(node: Node, sent: bytes) -> None:
    identify = node.dispatcher._identify
    node.as_user(User("root", role=Role("r", "r", {"super_user": True})))
    wire = node.connect()
    wire.send(b"PUT /Product/1 HTTP/1.1\r\nHost: localhost\r\nOrigin: https://elsewhere.example\r\n" + sent)
    if not wire.sock.sent:
        node.pass_time(200)
    head = wire.sock.sent.partition(b"\r\n\r\n")[0].lower()
    node.dispatcher._identify = identify  # type: ignore[method-assign]
    assert head[9:12] in (b"400", b"408") and b"\r\naccess-control-allow-origin: *" in head
    wire.connection.close_now()
