"""svc.server.operations_interface: which requests of the operations port are pages of the console."""

from __future__ import annotations

from inspect import isawaitable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from svc.errors import NotFound
from svc.messages import HeaderBlock, Request
from svc.server.operations_interface import OperationsInterface
from tests.support.operations import OperationsNode
from tests.support.pages import BROWSER


def ask(site: OperationsNode, method: str, path: str, accept: str = BROWSER) -> tuple[int, bytes]:
    interface = OperationsInterface(site.node, SimpleNamespace(report_stream=None), is_ready=lambda: True)  # type: ignore[arg-type]

    async def answer() -> Any:
        request = Request(method, path, HeaderBlock([("host", "localhost:9925"), ("accept", accept)]), b"")
        request.sessions = site.node.sessions
        request.user = site.admin
        found = interface.handle(request)
        return await found if isawaitable(found) else found

    try:
        response = site.wait(answer)
    except NotFound as fault:  # which a dispatcher makes an answer of
        return fault.status_code, b""
    content = response.body or b""
    return response.status, content.encode() if isinstance(content, str) else content


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_pages_of_the_console(tmp_path: Path, method: str) -> None:
    with OperationsNode(tmp_path) as site:
        for path in ("/", "/console/", "/console/users"):
            status, body = ask(site, method, path)
            assert status == 200 and b'aria-label="Console"' in body, path
        assert ask(site, method, "/console")[0] == 308
        assert ask(site, method, "/_pages/nothing.css")[0] == 404
        assert b'aria-label="Console"' not in ask(site, method, "/", "*/*")[1], "not a browser"


@pytest.mark.parametrize("setting", [{"enabled": False}, False])
def test_without_the_console(tmp_path: Path, setting: Any) -> None:
    with OperationsNode(tmp_path, settings={"localStudio": setting}) as site:
        status, body = ask(site, "GET", "/")
        assert status == 200 and b"svc" in body and b"aria-label" not in body
        for path in ("/console", "/console/", "/console/users", "/_pages/page.css"):
            assert ask(site, "GET", path)[0] == 404, path
