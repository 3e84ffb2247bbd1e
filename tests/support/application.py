"""A node with the code of an application, written by a test."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

from svc.auth.roles import Role
from svc.auth.users import User
from tests.support.node import Node

SCHEMA = """
type Seat @table { id: ID @primaryKey stock: Int price: Float @indexed lastBuyer: String tags: [String] @indexed place: Any since: Date
  showId: ID @indexed show: Show @relationship(from: "showId") image: Bytes }
type Show @table @export { id: ID @primaryKey title: String @indexed seats: [Seat] @relationship(to: "showId") }
type Journal @table @export { id: ID @primaryKey seat: String @indexed at: Date @createdTime }
type Counter @table @export { id: Long @primaryKey label: String! hits: Int }
type Plain @table @export { id: ID @primaryKey stock: Int }
"""

ADMIN = User("admin", role=Role("super", "super_user", {"super_user": True}))


def user_named(name: str) -> User:
    """A user who may do nothing by a role."""
    return User(name, role=Role(name, name, {}))


class Application:
    """`node`: the in-process node. `module`: the loaded `resources.py`. Requests are the super user's, until `as_user`."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.wire = node.connect()
        assert node.app.modules is not None
        own = str(node.app.directory.resolve() / "resources.py")
        self.module: Any = next((module for module in node.app.modules.loaded if module.__file__ == own), None)
        self.tables = node.interface.tables

    def ask(self, method: str, target: str, data: Any = None, **fields: str) -> tuple[int, Any]:
        """(status, decoded JSON body or None)."""
        status, _, body = self.answer(method, target, data, **fields)
        return status, body

    def answer(self, method: str, target: str, data: Any = None, **fields: str) -> tuple[int, dict[str, str], Any]:
        """The same with the header fields."""
        body = b"" if data is None else data if isinstance(data, bytes) else json.dumps(data).encode()
        named = {name.replace("_", "-").title(): value for name, value in ({"content_type": "application/json"} | fields).items()}
        status, answered, raw = self.wire.ask(method, target, body, named)
        if answered.get("transfer-encoding") == "chunked":
            raw = _joined(raw)
        is_json = "json" in answered.get("content-type", "") and raw
        return status, answered, json.loads(raw) if is_json else raw or None

    def run(self, awaitable: Awaitable[Any], turns: int = 10_000) -> Any:
        """Run code as a task of the node, turn by turn."""
        task = self.node._loop.create_task(_awaited(awaitable))
        for _ in range(turns):
            is_busy = self.node.turn()
            if task.done():
                return task.result()
            if not is_busy:  # a thread may have to give it something
                time.sleep(0.001)
        task.cancel()
        self.node.settle()
        raise AssertionError("it does not end")

    @property
    def errors(self) -> list[tuple[str, BaseException | None]]:
        return self.node.errors


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _joined(raw: bytes) -> bytes:
    """The content of a body in the chunked coding."""
    found = b""
    while raw:
        size, _, raw = raw.partition(b"\r\n")
        length = int(size, 16)
        found, raw = found + raw[:length], raw[length + 2 :]
        if not length:
            break
    return found


@contextmanager
def application(
    path: Path, code: str, schema: str = SCHEMA, *, healthy: bool = True, files: dict[str, str] | None = None
) -> Iterator[Application]:
    """`files`: others of the application, by name."""
    directory = path / "app"
    directory.mkdir(parents=True, exist_ok=True)  # a test may start it once more
    (directory / "schema.graphql").write_text(schema)
    (directory / "resources.py").write_text(dedent(code))
    for name, text in (files or {}).items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(dedent(text))
    node = Node(path / "data", app=directory)
    try:
        assert not healthy or node.app.status == "healthy", node.app.entries
        yield Application(node)
    finally:
        asyncio.set_event_loop(None)
        node.close()
