"""Content types of an application that raise what is no Exception: the request is answered, and the server goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.messages import Request
from tests.support.node import Node

TYPE = "text/x-own"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    assert made.connect().ask("PUT", "/Product/1", b'{"name":"one"}')[0] == 204
    yield made
    made.close()


async def pass_on(request: Request, next: Any) -> Any:
    return await next(request)


@pytest.mark.parametrize("listens", [False, True])
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError])
def test_it_is_answered(node: Node, error: type[BaseException], waits: bool, listens: bool) -> None:
    def fail(data: Any) -> Any:
        raise error

    async def fail_later(data: Any) -> Any:
        await asyncio.sleep(0)
        raise error

    own = fail_later if waits else fail
    node.types[TYPE] = {"serialize": own, "deserialize": own}
    if listens:
        node.server.http(pass_on, run_first=True)
    assert node.connect().ask("GET", "/Product/1", fields={"Accept": TYPE})[0] == 500
    assert node.connect().ask("PUT", "/Product/2", b"x", {"Content-Type": TYPE})[0] in (400, 500)
    assert node.errors
    node.errors.clear()
    assert node.connect().ask("GET", "/Product/1")[0] == 200
