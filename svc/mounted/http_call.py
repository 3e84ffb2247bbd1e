"""One HTTP request that an ASGI application answers (spec: asgi §1.2, §1.3).

    START --response.start--> HEAD --body, more--> BODY --body, last--> DONE
      |                         \\--------body, last-------------------->|
      \\--early_hint--> START

The head is held until the first piece of the body is here, so an answer in one piece is one send. An answer in pieces is a `Feed`: `send` waits while
the client does not read. The application runs in a task of its own, which may go on after the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from enum import IntEnum
from typing import Any, Protocol, cast

from svc.connection.exchange import Exchange
from svc.errors import PeerError, ServerError
from svc.loop import as_exception, contained
from svc.messages import Feed, FeedWriter, HeaderPairs, Request, Response
from svc.mounted.messages import (
    AsgiApplication,
    ClientDisconnected,
    Message,
    MessageError,
    Scope,
    body_of,
    is_of_disconnection,
    kind_of,
    length_of,
    pairs_of,
    status_of,
)
from svc.mounted.request_body import RequestBody

HIGH_WATER = 256 * 1024  # bytes unsent at which `send` waits
GRACE = 10.0  # seconds an application may go on when its client is gone
EVENT_STREAM = "text/event-stream"
_NO_BODY = (204, 304)


class HttpState(IntEnum):
    START = 0
    HEAD = 1
    BODY = 2
    DONE = 3


class CallContext(Protocol):
    """What a call needs of its `MountedApplication`."""

    app: AsgiApplication
    name: str
    loop: asyncio.AbstractEventLoop

    def log_error(self, where: str, error: BaseException | None) -> None: ...

    def run(self, work: Coroutine[Any, Any, None], request: Request) -> asyncio.Task[None]:
        """A task that is cancelled at the end of the instance."""


class HttpCall:
    """From `start` to the end of the application."""

    __slots__ = (
        "_answer",
        "_body",
        "_context",
        "_early",
        "_exchange",
        "_has_body",
        "_is_answered",
        "_is_gone",
        "_is_head",
        "_is_read",
        "_pairs",
        "_remaining",
        "_request",
        "_scope",
        "_status",
        "_task",
        "_waiters",
        "_writer",
        "state",
    )

    def __init__(self, context: CallContext, scope: Scope, request: Request, body: RequestBody | None = None) -> None:
        """`body`: that of the request if it is still coming."""
        self._context = context
        self._scope = scope
        self._request = request
        self._exchange = cast("Exchange | None", request.exchange)
        self._is_head = request.method == "HEAD"
        self.state = HttpState.START
        self._answer: asyncio.Future[Response] | None = context.loop.create_future()
        self._is_answered = False
        self._task: asyncio.Task[None] | None = None
        self._status = 0
        self._pairs: HeaderPairs = []
        self._remaining: int | None = None  # bytes of the body that are announced and not sent yet
        self._has_body = True  # the client is sent the body
        self._is_read = False  # the application has the whole body of the request
        self._body = body
        if body is not None:
            body.on_arrival = self._wake
        self._is_gone = False  # the client, before the answer was complete
        self._early: list[bytes] = []  # pieces of the body, before the connection asks for them
        self._writer: FeedWriter | None = None
        self._waiters: list[asyncio.Future[None]] = []  # of `send` for room, of `receive` for the end

    def start(self) -> None:
        self._task = self._context.run(self._run(), self._request)

    async def response(self) -> Response:
        """The answer. To be cancelled if the client disconnects before it is there."""
        assert self._answer is not None
        try:
            return await self._answer
        except asyncio.CancelledError:
            self.disconnected()
            raise
        finally:
            self._answer = None  # its body refers to this call

    # --- the application -------------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        context = self._context
        error: Exception | None = None
        try:
            await context.app(self._scope, self.receive, self.send)
        except asyncio.CancelledError as raised:
            if not self._is_gone and self.state is not HttpState.DONE:
                error = as_exception(raised, "the application")
        except BaseException as raised:
            if not is_of_disconnection(raised):
                error = contained(raised, "the application")
        if self._body is not None:
            self._body.on_arrival = _nothing
        self._finish(error)

    def _finish(self, error: Exception | None) -> None:
        """The application has ended."""
        is_complete = self.state is HttpState.DONE
        if error is None and not is_complete and not self._is_gone:
            error = MessageError("the application has ended without a complete response")
        if error is None:
            if self._answer is not None and not self._answer.done():
                self._answer.set_exception(PeerError("The client has disconnected"))  # which nobody is sent
            return
        request = self._request
        where = f"{self._context.name}: {request.method} {request.target[:200]}"
        if is_complete or self._is_gone:
            self._context.log_error(f"{where}, after its answer" if is_complete else f"{where}, whose client is gone", error)
        elif not self._is_answered:
            self._context.log_error(where, error)
            self._is_answered = True
            if self._answer is not None and not self._answer.done():
                self._answer.set_exception(ServerError("Internal Server Error"))
        else:
            self._break_off(where, error)
        self.state = HttpState.DONE

    def _break_off(self, where: str, error: Exception) -> None:
        """The head is sent: only the end of the connection shows the client that something is missing."""
        self._is_gone = True
        exchange = self._exchange
        if exchange is None or exchange.abandoned:
            self._context.log_error(where, error)
        else:
            error.add_note(f"{where}, in the middle of its answer")
            exchange.connection.defect(error)

    # --- receive -----------------------------------------------------------------------------------------------------------------------

    async def receive(self) -> Message:
        body = self._body
        if body is not None:
            while not body.is_over:
                taken = body.take()
                if taken is not None:
                    return {"type": "http.request", "body": taken[0], "more_body": taken[1]}
                await self._changed()
            if body.is_lost:
                if not self._is_answered:
                    self.disconnected()
                return {"type": "http.disconnect"}
        elif not self._is_read:
            self._is_read = True
            return {"type": "http.request", "body": self._request.content, "more_body": False}
        while not self._is_gone and self.state is not HttpState.DONE:
            await self._changed()
        return {"type": "http.disconnect"}

    # --- send --------------------------------------------------------------------------------------------------------------------------

    async def send(self, message: Message) -> None:
        kind = kind_of(message)
        state = self.state
        if self._is_gone:
            raise ClientDisconnected
        if kind == "http.response.body" and (state is HttpState.HEAD or state is HttpState.BODY):
            body, more = body_of(message)
            self._count(body, more)
            if state is HttpState.HEAD:
                self._begin(body, more)
            elif self._has_body:
                self._write(body)
            if not more:
                self._end()
            elif self._has_body:
                while self._pending > HIGH_WATER and not self._is_gone:
                    await self._changed()
                if self._is_gone:
                    raise ClientDisconnected
        elif kind == "http.response.start" and state is HttpState.START:
            self._status, self._pairs = status_of(message), pairs_of(message)
            self._has_body = not self._is_head and self._status not in _NO_BODY
            self._remaining = length_of(self._pairs) if self._has_body else None
            self.state = HttpState.HEAD
        elif kind == "http.response.early_hint" and state is HttpState.START:
            self._hint(message)
        else:
            raise MessageError(f"{kind!r} is not expected {_WHEN[state]}")

    def _count(self, body: bytes, more: bool) -> None:
        """Compare the length of the body with the one that was announced."""
        if self._remaining is None:
            return
        self._remaining -= len(body)
        if self._remaining < 0:
            raise MessageError(f"{-self._remaining} bytes more than the announced Content-Length")
        if self._remaining and not more:
            raise MessageError(f"{self._remaining} bytes less than the announced Content-Length")

    def _begin(self, body: bytes, more: bool) -> None:
        self.state = HttpState.BODY
        content: Any = body
        if not self._has_body:
            # Without a length, HEAD of an answer in pieces must not say that it is empty.
            content = iter(()) if more and self._is_head and length_of(self._pairs) is None else (b"" if more else body)
        elif more:
            if body:
                self._early.append(body)
            content = _AppFeed(self)
        self._is_answered = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(Response(content, self._status, pairs=self._pairs))
        if more and not self._has_body:
            self.disconnected()  # the client has all that it will get

    def _end(self) -> None:
        self.state = HttpState.DONE
        writer = self._writer
        if writer is not None:
            self._writer = None
            writer.end()
        self._wake()

    def _hint(self, message: Message) -> None:
        try:
            links = [bytes(link).decode("latin-1") for link in message.get("links", ())]
        except TypeError as error:
            raise MessageError("http.response.early_hint: links are bytes") from error
        if links:
            try:
                self._request.send_early_hints(links)
            except ValueError as error:
                raise MessageError(f"http.response.early_hint: {error}") from error

    @property
    def _pending(self) -> int:
        """Bytes that the client has not taken."""
        return sum(map(len, self._early)) if self._writer is None else self._writer.pending

    def _write(self, body: bytes) -> None:
        if self._writer is not None:
            self._writer.write(body)
        elif body:
            self._early.append(body)

    # --- the connection ------------------------------------------------------------------------------------------------------------------

    def attach(self, writer: FeedWriter) -> None:
        """The head is on its way."""
        early, self._early = self._early, []
        for piece in early:
            writer.write(piece)
        if self.state is HttpState.DONE:
            writer.end()
        else:
            self._writer = writer
            self._wake()

    def has_room(self) -> None:
        """All that was written is sent."""
        self._wake()

    def drain(self) -> None:
        """The server is stopping: end a stream of events, which does not end by itself."""
        writer = self._writer
        if any(name.lower() == "content-type" and value.lower().startswith(EVENT_STREAM) for name, value in self._pairs):
            self.disconnected()
            if writer is not None:
                writer.end()

    def disconnected(self) -> None:
        """The client is gone. The application is told, and cancelled if it goes on for long."""
        self._writer = None
        self._early = []
        task = self._task
        if self._is_gone or self.state is HttpState.DONE or task is None:
            return
        self._is_gone = True
        if not task.done():
            timer = self._context.loop.call_later(GRACE, task.cancel)
            task.add_done_callback(lambda _: timer.cancel())
        self._wake()

    async def _changed(self) -> None:
        waiter = self._context.loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake(self) -> None:
        waiters = self._waiters
        if waiters:
            self._waiters = []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._context.loop.call_soon_threadsafe(_nothing)  # this may be the end of a turn: the loop has decided how long to wait


_WHEN = {
    HttpState.START: "before 'http.response.start'",
    HttpState.HEAD: "after 'http.response.start'",
    HttpState.BODY: "while the body is being sent",
    HttpState.DONE: "after the response is complete",
}


class _AppFeed(Feed):
    """The body of an answer in pieces. If it is never sent, the application is told that its client is gone."""

    def __init__(self, call: HttpCall) -> None:
        self._call = call

    def start(self, writer: FeedWriter) -> None:
        self._call.attach(writer)

    def on_sent(self) -> None:
        self._call.has_room()

    def drain(self, is_replaced: bool = False) -> None:
        self._call.drain()

    def close(self) -> None:
        self._call.disconnected()

    def __del__(self) -> None:
        self._call.disconnected()


def _nothing() -> None:
    pass
