"""The listeners that are called when a request offers to upgrade to another protocol: `listener(request, socket, head, next)`, in order (spec: http §12.4).

One of the steps is the default one, which is always there: it accepts WebSocket handshakes, unless `request.upgraded` shows that a listener has
(`websocket_chain`).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Iterable
from functools import partial
from typing import Any

from svc.errors import NotFound, Problem
from svc.listeners.step import Step
from svc.listeners.websocket_chain import WebSocketChain
from svc.loop import contained, is_ours
from svc.messages import Request, Response, Upgrade
from svc.websocket import SocketHandler, WebSocketRegistry
from svc.websocket.opening_handshake import PROTOCOL
from svc.websocket.raw_socket import RawReceiver, RawSocket


class UpgradeChain:
    """Called by the dispatcher."""

    def __init__(self, sockets: WebSocketRegistry) -> None:
        self._websockets = WebSocketChain(sockets)
        self._sockets = sockets
        self._steps: tuple[Step, ...] = ()
        self._has_listeners = False

    def use(self, steps: Iterable[Step], websockets: Iterable[Step]) -> None:
        """From now on these steps, in this order, the default one among them; and these listeners of WebSockets."""
        self._steps = tuple(steps)
        self._has_listeners = any(step.listener is not None for step in self._steps)
        self._websockets.use(websockets)

    def serve_with(self, handler: SocketHandler) -> None:
        """What serves WebSockets that no listener takes: the resources."""
        self._websockets.handler = handler

    def knows(self, request: Request) -> bool:
        """Whether a resource serves WebSockets at this address."""
        return self._websockets.knows(request)

    @property
    def serves_websockets(self) -> bool:
        return bool(self._websockets)

    @property
    def has_listeners(self) -> bool:
        return self._has_listeners

    def handle(
        self, request: Request, refusal: Problem | None = None, answer: Response | None = None
    ) -> Response | Awaitable[Response | None] | None:
        """The answer, or None if no listener takes the upgrade. `refusal`: why the caller could not be identified, or a listener of HTTP requests has refused
        the handshake; `answer`: what such a listener has answered. Raises Problem."""
        if not self._has_listeners or request.http_version[:1] == "2":  # there is no socket to pass on
            return self._default_answer(request, refusal, answer)
        return _UpgradePass(self, request, refusal, answer).run()

    def _default_answer(
        self, request: Request, refusal: Problem | None, answer: Response | None
    ) -> Response | Awaitable[Response | None] | None:
        """The answer of the default handler. A refused handshake is recorded here, an accepted one when the WebSocket is open."""
        if not _asks_for_websocket(request) or request.upgraded:
            return None
        request.upgraded = True
        try:
            if not self._websockets:
                raise NotFound("WebSockets are not enabled on this port")
            found = self._websockets.handle(request, refusal, answer)
        except BaseException:
            self._sockets.answered(False)
            raise
        if not isinstance(found, Response):
            return self._awaited(found)
        if not isinstance(found, Upgrade):
            self._sockets.answered(False)
        return found

    async def _awaited(self, answer: Awaitable[Response]) -> Response:
        try:
            return await answer
        except BaseException:
            self._sockets.answered(False)
            raise


class _UpgradePass:
    """One pass along the upgrade listeners, without awaiting plain results."""

    def __init__(self, chain: UpgradeChain, request: Request, refusal: Problem | None, answer: Response | None) -> None:
        self._default = chain._default_answer
        self._http_answer = answer
        self._steps = chain._steps
        self._sockets = chain._sockets
        self._request = request
        self._refusal = refusal
        self._socket = RawSocket(self._sockets, request.peer)
        self._socket.on_use = self._take
        self._answer: Response | None = None
        self._is_answered = False
        self._waiting: asyncio.Future[None] | None = None  # for the answer

    def run(self) -> Response | Awaitable[Response | None] | None:
        try:
            result = self._step(0, self._request, self._socket, b"")
        except BaseException as raised:
            error = contained(raised, "the listener")
            if not self._is_answered:
                raise error
            self._failed(error)
            return self._answer
        if not inspect.isawaitable(result):
            self._take()
            return self._answer
        return self._wait(result)

    async def _wait(self, result: Awaitable[Any]) -> Response | None:
        loop = self._sockets.loop
        asking = loop.create_task(self._ask(result))
        self._sockets.keep(asking)
        if not self._is_answered:
            self._waiting = loop.create_future()
            try:
                await self._waiting
            except asyncio.CancelledError:
                asking.cancel()
                raise
        return self._answer

    async def _ask(self, result: Awaitable[Any]) -> None:
        try:
            await result
        except BaseException as raised:
            if is_ours(raised):
                self._socket.close()
                raise
            error = contained(raised, "the listener")
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_exception(error)
            else:
                self._failed(error)
            return
        # A listener that has not called `next` keeps the socket, for later.
        self._take()

    def _failed(self, error: Exception) -> None:
        """An exception after the answer: it can only be logged."""
        self._sockets.log_error(f"an upgrade listener: {self._request.target[:200]}", error)
        self._socket.close()

    def _take(self) -> None:
        """A listener has begun to use the socket."""
        self._settle(Upgrade("", RawReceiver(self._socket)))

    def _settle(self, answer: Response | None) -> None:
        if self._is_answered:
            return
        self._is_answered = True
        self._answer = answer
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _step(self, position: int, request: Request, socket: RawSocket, head: bytes) -> Any:
        for number, step in enumerate(self._steps[position:], position + 1):
            if step.listener is None:
                answer = self._default(request, self._refusal, self._http_answer)
                if inspect.isawaitable(answer):
                    return self._settle_later(answer, number)
                if answer is not None:
                    self._settle(answer)
                continue
            outer = request.pathname
            inner = step.route.rest_of(request)
            if inner is not None:
                request.pathname = inner
                return step.listener(request, socket, head, partial(self._go_on, number, None if step.route.is_open else outer))
        if not request.upgraded:
            self._settle(None)
        return None

    def _go_on(self, position: int, pathname: str | None, request: Request, socket: RawSocket, head: bytes) -> Any:
        """`next` of a listener. `pathname`: outside of it, if that is another."""
        if pathname is not None:
            request.pathname = pathname
        return self._step(position, request, socket, head)

    async def _settle_later(self, answer: Awaitable[Response | None], position: int) -> Any:
        self._settle(await answer)
        result = self._step(position, self._request, self._socket, b"")
        return await result if inspect.isawaitable(result) else result


def _asks_for_websocket(request: Request) -> bool:
    return request.offers == PROTOCOL and request.method == "GET"
