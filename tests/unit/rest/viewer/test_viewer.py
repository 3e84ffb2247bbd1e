"""The page at `/docs`: where nothing else answers, to those who have a document (spec: http §10.5)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from svc.auth.users import User
from svc.resources import Resource
from svc.rest.viewer import PATHS
from tests.support.node import APP, Node

ANN = User("ann")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path / "data", APP)
    yield node
    node.close()


class Own(Resource):
    name = "Own"
    verbs = frozenset({"get"})
    own_rights = frozenset({"allow_read"})

    @classmethod
    def authorize(cls, *given: object) -> None:
        pass

    @classmethod
    def on_get(cls, *given: object) -> str:
        return "mine"


def test_every_file_is_there_and_the_page_names_it(node: Node) -> None:
    wire = node.connect()
    status, fields, page = wire.ask("GET", "/docs")
    assert (status, fields["content-type"]) == (200, "text/html; charset=utf-8")
    for path in PATHS[1:]:
        assert wire.ask("GET", path)[0] == 200
        assert f'"{path[1:]}"'.encode() in page
    assert wire.ask("HEAD", "/docs")[2] == b""


def test_who_has_no_document_is_to_log_in(node: Node) -> None:
    wire = node.connect()
    node.as_user(ANN)
    assert wire.ask("GET", "/docs")[0] == 200
    node.as_user(None)
    assert wire.ask("GET", "/docs")[0] == 401
    node.resources.set("Own", Own)
    assert wire.ask("GET", "/docs")[0] == 200, "something may be open to all"


@pytest.mark.parametrize("address", ["docs", ""])
def test_a_resource_of_an_application_comes_first(node: Node, address: str) -> None:
    wire = node.connect()
    assert b'"/docs"' in wire.ask("GET", "/")[2], "the root says what there is"
    node.resources.set(address, Own)
    assert wire.ask("GET", "/docs")[2] == b'"mine"'
    assert b'"/docs"' not in wire.ask("GET", "/")[2]


def test_it_is_only_read(node: Node) -> None:
    wire = node.connect()
    for method in ("POST", "PUT", "DELETE"):
        status, fields, _ = wire.ask(method, "/docs", b"{}")
        assert (status, fields["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert wire.ask("OPTIONS", "/docs")[1]["allow"] == "GET, HEAD, OPTIONS"
    assert wire.ask("GET", "/docs/")[0] == wire.ask("GET", "/docs/assets/README.md")[0] == 404
