"""Bodies that are refused with the head: of queries, and of callers who may do nothing at an address."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.http.bodies import LONG_BODY, QUERY_MAX
from tests.support.node import Node


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder: Path = tmp_path_factory.mktemp("limits")
    app = folder / "app"
    app.mkdir()
    (app / "schema.graphql").write_text("type Product @table @export { id: ID @primaryKey  name: String }")
    made = Node(folder / "database", app)
    made.connections.limits = type(made.connections.limits)()
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
