"""A plain listener answers what an ordinary one with the same answers would, wherever it stands: only the way to it is shorter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.errors import ClientError
from svc.listeners.step import PlainListener
from svc.messages import Request, Response
from tests.support.node import Node

PLACES = [
    {},
    {"run_first": True},
    {"before": "authentication"},
    {"after": "authentication"},
    {"before": "rest"},
    {"after": "rest"},
    {"url_path": "/a"},
    {"url_path": "/Product", "before": "authentication"},
    {"url_path": "/a", "after": "rest"},
    {"before": "static"},
    {"after": "static"},
]
TARGETS = ["/Product/1", "/Product/2", "/Product/", "/a", "/a/b", "/a/b?c", "/x", "/", "/%61/b", "//", "/Product.csv", "/openapi"]
METHODS = ["GET", "HEAD", "GET", "QUERY", "OPTIONS", "ODD"]  # that change nothing


class Plain(PlainListener):
    def __init__(self, name: str, paths: set[str], asked: list[tuple[str, str]]) -> None:
        self._name, self._paths, self._asked = name, paths, asked

    def answer(self, request: Request) -> Response | None:
        self._asked.append((self._name, request.pathname))
        if request.pathname not in self._paths:
            return None
        if request.pathname == "/x":
            raise ClientError(f"{self._name} refuses", 418)
        return Response(f"{self._name} {request.pathname}".encode(), pairs=[("X-By", self._name)])


def ordinary(plain: Plain) -> Any:
    """The same as a function."""
    return lambda request, next: plain(request, next)


def passing(name: str, asked: list[tuple[str, str]]) -> Any:
    """A listener that answers nothing itself."""

    def listener(request: Request, next: Any) -> Any:
        asked.append((name, request.pathname))
        return next(request)

    return listener


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    made = Node(tmp_path_factory.mktemp("plain"))
    assert made.connect().ask("PUT", "/Product/1", b'{"name":"one"}')[0] == 204
    yield made
    made.close()


Placed = tuple[str, int, list[str]]
listeners = st.lists(
    st.tuples(
        st.sampled_from(["plain", "plain", "passing"]),
        st.integers(0, len(PLACES) - 1),
        st.lists(st.sampled_from(["/a", "/a/b", "/b", "/x", "/", "/Product/1", "/1"])),
    ),
    min_size=1,
    max_size=4,
)


@given(listeners, st.sampled_from(METHODS), st.sampled_from(TARGETS))
def test_the_way_to_a_plain_listener_makes_no_difference(node: Node, placed: list[Placed], method: str, target: str) -> None:
    found = []
    for is_plain in (True, False):
        asked: list[tuple[str, str]] = []
        application = node.server.of_application("plain", staged=True)
        for number, (kind, place, paths) in enumerate(placed):
            plain = Plain(str(number), set(paths), asked)
            listener = passing(str(number), asked) if kind == "passing" else plain if is_plain else ordinary(plain)
            application.http(listener, name=f"l{number}", **PLACES[place])
        application.activate()
        status, fields, body = node.connect().ask(method, target)
        application.withdraw()
        fields.pop("server-timing", None)
        assert status < 500 or method == "ODD", (status, body)
        found.append(
            (status, fields, body, list(dict.fromkeys(asked)))
        )  # a plain one may have been asked before the chain was found to be needed
    assert found[0] == found[1]
