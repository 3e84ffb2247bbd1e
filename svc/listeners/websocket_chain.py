"""The listeners of WebSockets of a port: `async listener(ws, request, chain_completion, next)`, in order, and after them the resources (spec: realtime §2).

The handshake is answered when the WebSocket is first used, so that one that no listener serves can be refused with a status, and a listener may refuse it
with a response (`Abort`). Without a listener of an application all of this is plain calls.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Generator, Iterable
from functools import partial
from typing import Any

from svc.errors import NotFound, Problem
from svc.listeners.step import Step
from svc.loop import contained, is_ours
from svc.messages import Abort, Request, Response
from svc.websocket import MAX_PAYLOAD, SocketHandler, WebSocket, WebSocketRegistry


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


class WebSocketChain:
    """`handler`: serves WebSockets that no listener takes."""

    def __init__(self, sockets: WebSocketRegistry) -> None:
        self.sockets = sockets
        self.handler: SocketHandler | None = None
        self._steps: tuple[Step, ...] = ()

    def use(self, steps: Iterable[Step]) -> None:
        """From now on these, in this order."""
        self._steps = tuple(steps)

    def __bool__(self) -> bool:
        return bool(self._steps or self.handler)

    def knows(self, request: Request) -> bool:
        """Whether a resource serves WebSockets at this address."""
        return self.handler is not None and self.handler.knows(request)

    def handle(self, request: Request, refusal: Problem | None, answer: Response | None = None) -> Response | Awaitable[Response]:
        """Answer the handshake. `answer`: of a listener of HTTP requests. Raises Problem."""
        if self._steps:
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
        listening = loop.create_task(_WebSocketPass(self, self._steps).listen(socket, request, completion, used))
        self.sockets.keep(listening)
        try:
            await used
        except asyncio.CancelledError:
            listening.cancel()  # the client has disconnected before the answer
            raise
        return upgrade


class _WebSocketPass:
    """One WebSocket on its way through the listeners."""

    def __init__(self, chain: WebSocketChain, steps: tuple[Step, ...]) -> None:
        self._chain = chain
        self._steps = steps
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
        for number, step in enumerate(self._steps[position:], position + 1):
            outer = request.pathname
            inner = step.route.path_inside(request, self._chain.knows)
            if inner is None:
                continue
            assert step.listener is not None
            if socket.on_use is not None:  # else an earlier listener uses it
                socket.limit(step.options.max_payload)
            request.pathname = inner
            result = step.listener(socket, request, completion, partial(self._go_on, number, None if step.route.is_open else outer))
            return await result if inspect.isawaitable(result) else result
        return await self._serve(socket, request, completion)

    async def _go_on(self, position: int, pathname: str | None, socket: WebSocket, request: Request, completion: Any) -> Any:
        """`next` of a listener. `pathname`: outside of it, if that is another."""
        if pathname is not None:
            request.pathname = pathname
        return await self._step(position, socket, request, completion)

    async def _serve(self, socket: WebSocket, request: Request, completion: Any) -> None:
        answer = await completion
        if answer is not None:
            self._refusal = Abort(answer)
            raise self._refusal
        handler = self._chain.handler
        try:
            if handler is None:
                raise NotFound("Not found")
            service = handler.find(request)
        except Problem as problem:
            if not _is_sent_as_close_code(problem):
                self._refusal = problem
            raise
        if socket.on_use is not None:
            socket.limit(MAX_PAYLOAD)
        subprotocol = handler.subprotocol(request)
        if subprotocol is not None and socket.on_use is not None:
            socket.answer_with(subprotocol, [])
        result = service(socket)
        socket.use()
        if result is not None and inspect.isawaitable(result):
            await result
            socket.close_soon()


def _is_sent_as_close_code(problem: Problem) -> bool:
    """Whether the refusal is sent as a close code: browsers show scripts the code, not the status of a handshake (spec: realtime §2)."""
    return problem.status_code in (401, 403)


def _refuse(problem: Problem, socket: WebSocket) -> None:
    socket.fail(problem)
