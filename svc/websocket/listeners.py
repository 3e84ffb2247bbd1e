"""The listeners that are called when a request offers to upgrade to another protocol (architecture §11).

    upgrade listeners   listener(request, socket, head, next), in order. One of them is the default handler, present since the first WebSocket listener
                        was added: it accepts WebSocket handshakes, unless `request.upgraded` shows that another listener has.
    WebSocket listeners async listener(ws, request, chain_completion, next), in order, and after them the resources (`SocketHandler`).

The handshake is answered when the WebSocket is first used, so that one that no listener serves can be refused with a status, and a listener may refuse
it with a response (`Abort`). Without a listener of an
application all of this is plain calls.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable
from functools import partial
from typing import Any

from svc.errors import NotFound, Problem
from svc.loop import contained, is_ours
from svc.messages import Abort, Request, Response, Upgrade
from svc.protocol.websocket import MAX_PAYLOAD
from svc.websocket.handler import SocketHandler
from svc.websocket.opening_handshake import PROTOCOL
from svc.websocket.raw_socket import RawReceiver, RawSocket
from svc.websocket.registry import WebSocketRegistry
from svc.websocket.web_socket import WebSocket

UpgradeListener = Callable[..., Any]
WsListener = Callable[..., Awaitable[Any]]


class HttpCompletion:
    """The outcome of the HTTP chain of a request, known already: may be awaited any number of times.

    The Response of a listener that has answered; None if nobody has and the WebSocket may be served. `error`: why it may not be, which is raised.
    """

    def __init__(self, error: Problem | None = None, answer: Response | None = None) -> None:
        self.error = error
        self.answer = answer

    def __await__(self) -> Generator[Any, None, Response | None]:
        if self.error is not None:
            raise self.error.with_traceback(None)
        return self.answer
        yield


class WsListeners:
    """The chain of WebSocket listeners of a port."""

    def __init__(self, sockets: WebSocketRegistry) -> None:
        self.sockets = sockets
        self.handler: SocketHandler | None = None  # serves WebSockets that no listener takes
        self._listeners: list[tuple[WsListener, int]] = []

    def add(self, listener: WsListener, *, run_first: bool = False, max_payload: int = MAX_PAYLOAD) -> None:
        """`max_payload`: of the messages of a WebSocket that this listener is the first to use."""
        self._listeners.insert(0 if run_first else len(self._listeners), (listener, max_payload))

    def replace(self, listeners: Iterable[tuple[WsListener, int]]) -> None:
        """From now on these, in this order, with the `max_payload` of each."""
        self._listeners = list(listeners)

    def __bool__(self) -> bool:
        return bool(self._listeners or self.handler)

    def handle(self, request: Request, refusal: Problem | None, answer: Response | None = None) -> Response | Awaitable[Response]:
        """Answer the handshake. `answer`: of a listener of HTTP requests. Raises Problem."""
        if self._listeners:
            return self._run(request, HttpCompletion(refusal, answer))
        if answer is not None and (refusal is None or not _is_sent_as_close_code(refusal)):
            return answer
        return self._serve(request, refusal)

    def _serve(self, request: Request, refusal: Problem | None) -> Response:
        """Without listeners: the resource serves, or the refusal is sent. Browsers show scripts a close code, not the status of a handshake."""
        subprotocol = None if self.handler is None else self.handler.subprotocol(request)
        upgrade = self.sockets.accept(request, None if refusal is None else partial(_refuse, refusal), subprotocol=subprotocol)
        if refusal is None:
            assert self.handler is not None
            try:
                upgrade.receiver.serve = self.handler.find(request)  # type: ignore[attr-defined]
            except Problem as problem:
                if not _is_sent_as_close_code(problem):
                    raise
                upgrade.receiver.serve = partial(_refuse, problem)  # type: ignore[attr-defined]
        return upgrade

    async def _run(self, request: Request, completion: HttpCompletion) -> Response:
        upgrade = self.sockets.accept(request)
        socket = upgrade.receiver
        assert isinstance(socket, WebSocket)
        loop = self.sockets.loop
        used: asyncio.Future[None] = loop.create_future()

        def on_use() -> None:
            if not used.done():
                used.set_result(None)

        socket.on_use = on_use
        chain = _ListenerChain(self._listeners, self.handler)
        listening = loop.create_task(chain.listen(socket, request, completion, used))
        self.sockets.keep(listening)
        try:
            await used
        except asyncio.CancelledError:
            listening.cancel()  # the client has disconnected before the answer
            raise
        return upgrade


class _ListenerChain:
    """One pass along the listeners."""

    def __init__(self, listeners: list[tuple[WsListener, int]], handler: SocketHandler | None) -> None:
        self._listeners = tuple(listeners)
        self._handler = handler
        self._refusal: Exception | None = None  # by the resources, or a listener of HTTP requests: the handshake is refused

    async def listen(self, socket: WebSocket, request: Request, completion: HttpCompletion, used: asyncio.Future[None]) -> None:
        try:
            await self._step(0, socket, request, completion)
        except BaseException as raised:
            if is_ours(raised):
                socket.close_soon(1001)
                raise
            error = contained(raised)
            if raised is completion.error and completion.answer is not None and not _is_sent_as_close_code(raised):
                error = Abort(completion.answer)  # what the listeners of requests have answered
            if (error is self._refusal or type(error) is Abort) and not used.done():
                used.set_exception(error)
            else:
                socket.fail(error)
        else:
            socket.use()  # a listener keeps it, and has not sent anything yet

    async def _step(self, position: int, socket: WebSocket, request: Request, completion: Any) -> Any:
        if position < len(self._listeners):
            listener, max_payload = self._listeners[position]
            if socket.on_use is not None:  # else an earlier listener uses it
                socket.limit(max_payload)
            result = listener(socket, request, completion, partial(self._step, position + 1))
            return await result if inspect.isawaitable(result) else result
        return await self._serve(socket, request, completion)

    async def _serve(self, socket: WebSocket, request: Request, completion: Any) -> None:
        answer = await completion
        if answer is not None:
            self._refusal = Abort(answer)
            raise self._refusal
        try:
            if self._handler is None:
                raise NotFound("Not found")
            service = self._handler.find(request)
        except Problem as problem:
            if not _is_sent_as_close_code(problem):
                self._refusal = problem
            raise
        if socket.on_use is not None:
            socket.limit(MAX_PAYLOAD)
        subprotocol = self._handler.subprotocol(request)
        if subprotocol is not None and socket.on_use is not None:
            socket.answer_with(subprotocol, [])
        result = service(socket)
        socket.use()
        if result is not None and inspect.isawaitable(result):
            await result
            socket.close_soon()


class UpgradeListeners:
    """The chain of upgrade listeners of a port, called by the dispatcher."""

    def __init__(self, websockets: WsListeners) -> None:
        self._websockets = websockets
        self._sockets = websockets.sockets
        self._listeners: list[UpgradeListener | None] = []  # None: the default handler
        self._has_others = False

    def add(self, listener: UpgradeListener, *, run_first: bool = False) -> None:
        """`listener(request, socket, head, next)`, plain or async."""
        self._listeners.insert(0 if run_first else len(self._listeners), listener)
        self._has_others = True

    def replace(self, listeners: Iterable[UpgradeListener | None]) -> None:
        """From now on these listeners, in this order; None: the default one."""
        self._listeners = list(listeners)
        self._has_others = any(listener is not None for listener in self._listeners)

    def replace_ws(self, listeners: Iterable[tuple[WsListener, int]]) -> None:
        """From now on these listeners of WebSockets, in this order, with the `max_payload` of each."""
        self._websockets.replace(listeners)
        if self._websockets:
            self._add_default()

    def knows(self, request: Request) -> bool:
        """Whether a resource serves WebSockets at this address."""
        handler = self._websockets.handler
        return handler is not None and handler.knows(request)

    @property
    def serves_websockets(self) -> bool:
        return bool(self._websockets)

    @property
    def has_listeners(self) -> bool:
        return self._has_others

    def add_ws(self, listener: WsListener, *, run_first: bool = False, max_payload: int = MAX_PAYLOAD) -> None:
        self._websockets.add(listener, run_first=run_first, max_payload=max_payload)
        self._add_default()

    def serve_with(self, handler: SocketHandler) -> None:
        """The last of the WebSocket listeners: the resources."""
        self._websockets.handler = handler
        self._add_default()

    def _add_default(self) -> None:
        if None not in self._listeners:
            self._listeners.append(None)

    def handle(
        self, request: Request, refusal: Problem | None = None, answer: Response | None = None
    ) -> Response | Awaitable[Response | None] | None:
        """The answer, or None if no listener takes the upgrade. `refusal`: why the caller could not be identified, or a listener of HTTP requests has refused
        the handshake; `answer`: what such a listener has answered. Raises Problem."""
        if not self._has_others or request.http_version[:1] == "2":  # there is no socket to pass on
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

    def __init__(self, listeners: UpgradeListeners, request: Request, refusal: Problem | None, answer: Response | None) -> None:
        self._default = listeners._default_answer
        self._http_answer = answer
        self._listeners = tuple(listeners._listeners)
        self._sockets = listeners._sockets
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
        if position == len(self._listeners):
            if not request.upgraded:
                self._settle(None)
            return None
        listener = self._listeners[position]
        call_next = partial(self._step, position + 1)
        if listener is not None:
            return listener(request, socket, head, call_next)
        answer = self._default(request, self._refusal, self._http_answer)
        if inspect.isawaitable(answer):
            return self._settle_later(answer, call_next)
        if answer is not None:
            self._settle(answer)
        return call_next(request, socket, head)

    async def _settle_later(self, answer: Awaitable[Response | None], call_next: Callable[..., Any]) -> Any:
        self._settle(await answer)
        result = call_next(self._request, self._socket, b"")
        return await result if inspect.isawaitable(result) else result


def _asks_for_websocket(request: Request) -> bool:
    return request.offers == PROTOCOL and request.method == "GET"


def _is_sent_as_close_code(problem: Problem) -> bool:
    """Whether the refusal is sent as a close code: browsers show scripts the code, not the status of a handshake (spec: realtime §2)."""
    return problem.status_code in (401, 403)


def _refuse(problem: Problem, socket: WebSocket) -> None:
    socket.fail(problem)
