"""The console on a node of tests: pages as a browser gets them, without sockets."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from svc.auth.users import User
from svc.console import Console
from svc.http.compression import Compression
from svc.messages import HeaderBlock, Request
from tests.support.operations import OperationsNode
from tests.support.pages import BROWSER, Parsed


@dataclass
class ConsoleAnswer:
    """`page`: the body, parsed. `location`: where it leads, "" nowhere."""

    status: int
    body: bytes
    location: str
    headers: list[tuple[str, str]] = field(default_factory=list)

    @property
    def page(self) -> Parsed:
        return Parsed(self.body)


class ConsoleSite:
    """`node`: of the tests of operations; `node.run(...)` is an operation, `node.user(...)` and the like make what a test needs."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self.node = OperationsNode(path, settings=settings)
        self.console = Console(self.node.operations, Compression(0))

    def close(self) -> None:
        self.node.close()

    def get(self, path: str = "/console/", user: User | str | None = "admin", **fields: str) -> ConsoleAnswer:
        """`user`: who asks, default the super user; None: nobody. `fields`: of the header."""
        return self._ask("GET", path, user, b"", fields)

    def post(
        self, path: str, form: dict[str, str], user: User | str | None = "admin", *, token: str | None = "", **fields: str
    ) -> ConsoleAnswer:
        """Send a form as the page would: with the token of that page, unless `token` says another, or None: none."""
        if token == "":
            shown = self.get(path, user, **fields)
            tokens = [each.get("value", "") for tag, each in shown.page.elements if tag == "input" and each.get("name") == "_token"]
            token = tokens[0] if tokens else None
        body = urlencode({**form, **({} if token is None else {"_token": token})}).encode()
        return self._ask("POST", path, user, body, {"content-type": "application/x-www-form-urlencoded", **fields})

    def _ask(self, method: str, path: str, user: User | str | None, body: bytes, fields: dict[str, str]) -> ConsoleAnswer:
        return self.node.wait(lambda: self._answer(method, path, user, body, fields))  # type: ignore[no-any-return]

    async def _answer(self, method: str, path: str, user: User | str | None, body: bytes, fields: dict[str, str]) -> ConsoleAnswer:
        sent = {"host": "localhost:9925", "accept": BROWSER} | {name.replace("_", "-"): value for name, value in fields.items()}
        pairs = list(sent.items())
        request = Request(method, path, HeaderBlock(pairs), body)
        request.sessions = self.node.node.sessions
        request.user = self.node.admin if user == "admin" else user  # type: ignore[assignment]
        if "origin" in fields:  # of another site, as the identification finds
            request.foreign = "it is of another site"
            request.user = None
        response = await self.console.handle(request)
        added = [] if request.added_headers is None else request.added_headers.pairs()
        content = response.body or b""
        if not isinstance(content, bytes):
            content = b"".join([piece async for piece in content] if hasattr(content, "__aiter__") else list(content))
        found = {name.lower(): value for name, value in response.pairs}
        return ConsoleAnswer(response.status, content, found.get("location", ""), [*response.pairs, *added])
