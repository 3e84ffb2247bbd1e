"""Handshakes for the listeners of one port, and for resources behind them."""

from __future__ import annotations

import asyncio
import inspect
import struct
from typing import Any

from svc.errors import AccessViolation, ClientError, NotFound, Problem
from svc.listeners.options import ListenerOptions
from svc.listeners.step import DEFAULT_UPGRADE, Step
from svc.listeners.upgrade_chain import UpgradeChain
from svc.messages import Request, Upgrade
from svc.protocol.websocket import MAX_PAYLOAD
from svc.websocket import WebSocket, encode_frame
from tests.support.web_socket import Wire, World, handshake_request


def closing(code: int, reason: str = "") -> tuple[int, bytes]:
    return 0x88, struct.pack("!H", code) + reason.encode()


class Handler:
    """The resources: /echo, /later, and /secret that no user may read."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def subprotocol(self, request: Request) -> str | None:
        return "second" if "second" in request.block.fields.get("sec-websocket-protocol", "") else None

    def find(self, request: Request) -> Any:
        self.found.append(request.pathname)
        if request.pathname == "/echo":
            return self.echo
        if request.pathname == "/later":
            return self.later
        if request.pathname == "/secret":
            raise AccessViolation()
        if request.pathname == "/bad":
            raise ClientError("bad query")
        if request.pathname == "/defect":
            raise KeyError("defect")
        raise NotFound("Not found")

    def echo(self, socket: WebSocket) -> None:
        socket.on("message", lambda message: socket.send_frame(encode_frame(message)))

    async def later(self, socket: WebSocket) -> None:
        async for message in socket:
            await socket.send(message)
            return


class Case:
    def __init__(self) -> None:
        self.world = World()
        self.handler = Handler()
        self.chain = UpgradeChain(self.world.sockets)
        self._steps = [Step(DEFAULT_UPGRADE)]
        self._websockets: list[Step] = []

    def serve(self) -> Case:
        self.chain.serve_with(self.handler)
        return self

    def add(self, listener: Any, *, run_first: bool = False) -> None:
        self._steps.insert(0 if run_first else len(self._steps), Step("upgrade", listener))
        self.chain.use(self._steps, self._websockets)

    def add_ws(self, listener: Any, *, run_first: bool = False, max_payload: int = MAX_PAYLOAD) -> None:
        step = Step("ws", listener, options=ListenerOptions(max_payload=max_payload))
        self._websockets.insert(0 if run_first else len(self._websockets), step)
        self.chain.use(self._steps, self._websockets)

    def answer(self, request: Request, refusal: Problem | None = None) -> Any:
        """The answer, awaited if it has to be."""
        answer = self.chain.handle(request, refusal)
        if inspect.isawaitable(answer):

            async def wait() -> Any:
                return await answer

            return self.world.loop.run_until_complete(asyncio.wait_for(wait(), 5))
        return answer

    def connect(self, target: str, refusal: Problem | None = None, **options: Any) -> Wire:
        upgrade = self.answer(handshake_request(target, **options), refusal)
        assert type(upgrade) is Upgrade and isinstance(upgrade.receiver, WebSocket)
        wire = Wire(self.world, upgrade.receiver)
        wire.start()
        return wire

    def connects(self) -> tuple[int, int]:
        """How many handshakes succeeded, of how many."""
        entry = self.world.entries().get(("connection", None, "connect"), {"total": 0, "count": 0})
        return entry["total"], entry["count"]


async def chat(socket: WebSocket, request: Request, chain_completion: Any, next: Any) -> Any:
    if request.pathname != "/chat":
        return await next(socket, request, chain_completion)
    await chain_completion
    async for message in socket:
        await socket.send(f"you said {message!s}")
    return None
