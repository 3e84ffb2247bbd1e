"""A host without a network: a node whose requests come as ASGI scopes and messages."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from svc.hosted.http_serving import HttpServing
from svc.hosted.requests import RequestReader
from svc.hosted.websocket_serving import WebSocketServing
from tests.support.node import Node


class HostedNode:
    """A whole node, and the `Port` of it."""

    def __init__(self, path: Path, max_body: int = 1 << 20) -> None:
        self.node = Node(path)
        self.loop = self.node._loop
        self.shared = self.node.connections
        self.shared.loop = self.loop
        self.now = self.node.clock.monotonic
        self.max_body = max_body
        self.requests = RequestReader()

    def request_turn(self) -> None:
        """The node's turns end all the time."""

    def log_error(self, where: str, error: BaseException | None) -> None:
        self.node.errors.append((where, error))

    def ask(self, method: str, path: str, *messages: dict[str, Any], **members: Any) -> Exchanged:
        """One request; `messages` are what the host receives, after them nothing comes until `tell`."""
        return Exchanged(self, "http", method, path, messages, members)

    def connect(self, path: str, *messages: dict[str, Any], **members: Any) -> Exchanged:
        return Exchanged(self, "websocket", "GET", path, ({"type": "websocket.connect"}, *messages), members)

    def settle(self) -> None:
        self.node.settle()

    def close(self) -> None:
        from tests.support.fakes import FakeLoop

        self.settle()
        self.shared.loop = FakeLoop()  # type: ignore[assignment]
        self.node.close()


class Exchanged:
    """One scope and its messages. `sent`: what the host was given; it takes nothing while `is_stuck`."""

    def __init__(self, hosted: HostedNode, kind: str, method: str, path: str, messages: Any, members: dict[str, Any]) -> None:
        self._hosted = hosted
        self.sent: list[dict[str, Any]] = []
        self.is_stuck = members.pop("is_stuck", False)
        self._room = asyncio.Event()
        self._incoming: asyncio.Queue[Any] = asyncio.Queue()
        self.received = 0
        fields = {"host": "localhost", **members.pop("fields", {})}
        scope = {
            "type": kind,
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path.partition("?")[0],
            "raw_path": path.partition("?")[0].encode(),
            "query_string": path.partition("?")[2].encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
            "client": ("127.0.0.1", 1),
            "extensions": {"websocket.http.response": {}},
            **members,
        }
        for message in messages:
            self._incoming.put_nowait(message)
        make, serving = (hosted.requests.http, HttpServing) if kind == "http" else (hosted.requests.websocket, WebSocketServing)
        self.serving = serving(hosted, scope, make(scope), self._receive, self._send)
        self.task = hosted.loop.create_task(self.serving.serve())
        hosted.settle()

    async def _receive(self) -> Any:
        message = await self._incoming.get()
        self.received += 1
        return message

    async def _send(self, message: Any) -> None:
        while self.is_stuck:
            self._room.clear()
            await self._room.wait()
        self.sent.append(message)

    def tell(self, message: dict[str, Any]) -> None:
        """The host receives one more message."""
        self._incoming.put_nowait(message)
        self._hosted.settle()

    def release(self) -> None:
        self.is_stuck = False
        self._room.set()
        self._hosted.settle()

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"]) if self.sent else 0

    @property
    def fields(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def is_complete(self) -> bool:
        return self.task.done() and self.sent[-1]["type"].endswith("response.body") and not self.sent[-1].get("more_body")
