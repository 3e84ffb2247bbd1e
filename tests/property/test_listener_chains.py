"""Chains of made-up listeners in a whole node answer as a simple model says, over HTTP/1.1 and HTTP/2 alike (spec: http §12.1-§12.3)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from svc.errors import ClientError
from svc.messages import Abort, Request, Response
from tests.support.http2 import Client
from tests.support.node import Node

TARGETS = ("/Product/1", "/Product/none", "/shop", "/shop/a/b", "/else")
PATHS = (None, "/shop", "/shop/a", "/Product")


@dataclass(frozen=True)
class Listener:
    """`act`: what it does. `place`: in front of all, between authentication and resources, or behind."""

    act: str
    waits: bool
    place: str
    path: str | None


LISTENERS = st.builds(
    Listener,
    st.sampled_from(
        ["pass", "pass", "stamp", "stamp", "data", "none", "raise", "defect", "abort", "response", "swallow", "rewrite", "twice"]
    ),
    st.booleans(),
    st.sampled_from(["front", "middle", "behind"]),
    st.sampled_from(PATHS),
)


def make(number: int, listener: Listener) -> Callable[..., Any]:
    def act(request: Request, next: Any) -> Any:
        match listener.act:
            case "data":
                return {"by": number, "at": request.pathname}
            case "none":
                return None
            case "raise":
                raise ClientError("no", 418)
            case "defect":
                raise KeyError("a defect")
            case "abort":
                raise Abort(Response(status=402))
            case "response":
                return Response(b"response", 203)
            case "rewrite":
                request.pathname = "/Product/1"
                return next(request)
            case "twice":
                next(request)
                return next(request)
            case _:
                return next(request)

    async def act_later(request: Request, next: Any) -> Any:
        await asyncio.sleep(0)
        result = act(request, next)
        if listener.act in ("stamp", "swallow"):
            response = await result
            if listener.act == "swallow":
                return None
            response.headers.set("X-Stamp", f"{response.headers.get('X-Stamp', '')}{number}")
            return response
        return result

    return act_later if listener.waits or listener.act in ("stamp", "swallow") else act


def expected(listeners: list[Listener], target: str) -> tuple[int, str]:
    """The status and the stamps, innermost first."""
    front = [item for item in enumerate(listeners) if item[1].place == "front"][::-1]
    # Of those at one place the most particular path is asked first.
    middle, behind = (
        sorted([item for item in enumerate(listeners) if item[1].place == place], key=lambda item: -len(item[1].path or ""))
        for place in ("middle", "behind")
    )
    steps: list[Any] = [*front, *middle, None, *behind]
    own = {"data": 200, "none": 404, "raise": 418, "defect": 500, "twice": 500, "abort": 402, "response": 203}

    def step(position: int, path: str) -> tuple[int, str]:
        if position == len(steps):
            return 404, ""
        if steps[position] is None:
            if path.startswith("/Product/"):
                return (200 if path == "/Product/1" else 404), ""
            return step(position + 1, path)
        number, listener = steps[position]
        prefix = listener.path or ""
        if not f"{path}/".startswith(f"{prefix}/"):
            return step(position + 1, path)
        if listener.act in own:
            return own[listener.act], ""
        status, stamps = step(position + 1, f"{prefix}/Product/1" if listener.act == "rewrite" else path)
        if listener.act == "swallow":
            return 404, ""
        return status, f"{stamps}{number}" if listener.act == "stamp" else stamps

    return step(0, target)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    made = Node(tmp_path_factory.mktemp("store"))
    assert made.connect().ask("PUT", "/Product/1", b'{"name":"one"}')[0] == 204
    yield made
    made.close()


@example([Listener("rewrite", False, "behind", None)], "/shop")  # there is no way back to the resources
@given(st.lists(LISTENERS, max_size=6), st.sampled_from(TARGETS))
def test_any_chain(node: Node, listeners: list[Listener], target: str) -> None:
    app = node.server.of_application("made up")
    for number, listener in enumerate(listeners):
        options: dict[str, Any] = {"front": {"run_first": True}, "middle": {"before": "rest"}, "behind": {"after": "rest"}}[listener.place]
        app.http(make(number, listener), options, url_path=listener.path)
    try:
        first = node.connect().ask("GET", target)
        second = Client(node).ask("GET", target)
    finally:
        app.withdraw()
    defects = [type(error) for _, error in node.errors]
    node.errors.clear()
    wanted = expected(listeners, target)
    for status, fields, _ in (first, second):
        assert (status, fields.get("x-stamp", "")) == wanted
    assert set(defects) <= {KeyError, RuntimeError}
    assert defects or wanted[0] != 500
    if not listeners and target == "/Product/1":
        assert json.loads(first[2])["name"] == "one"
