"""One request and its answer, on whatever connection, and the application that answers (architecture §3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from svc.connection.file_range import FileRange
from svc.errors import Problem
from svc.loop import contained
from svc.messages import Feed, HeaderPairs, Request, Response


@dataclass(frozen=True)
class Timeouts:
    """Seconds (spec: http §14)."""

    headers: float = 60.0
    request: float = 120.0
    keep_alive: float = 30.0


class BodySink(Protocol):
    """Takes the body of a request as it arrives: `blobs.Upload`."""

    on_change: Callable[
        [BaseException | None], None
    ]  # set by the connection: there is room again, or (with an exception) the sink has failed

    def write(self, data: bytes) -> bool:
        """Take a piece. False: the sink is full until `on_change`."""

    def finish(self, done: Callable[[Any, BaseException | None], None]) -> None:
        """The body is complete: `done` gets the result, or the exception; now or later."""

    def discard(self) -> None:
        """The body is not needed any more. Nothing is called after this."""


class BodyChannel(BodySink, Protocol):
    """A sink whose request is handled at once, as its `upload`, while the body arrives: `mounted.RequestBody`. `finish` says that it is complete; it is
    discarded as well when the answer begins before that. It calls `on_change` whenever something has been taken from it."""

    handles_early: bool

    @property
    def held(self) -> int:
        """Bytes that have not been taken from it."""


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """The body is collected, but of more than `size` bytes it is answered with `error`; at once, if it is announced to have more."""

    size: int
    error: Problem


Decision = Response | BodySink | BodyLimit | None


class Application(Protocol):
    """Handles the requests of connections: `dispatch.Dispatcher`."""

    def receive(self, exchange: Exchange) -> Decision | Awaitable[Decision]:
        """Called with a complete head, before the body: a response refuses the body, None or a limit has it collected, a sink takes it.
        `handle` follows, with the result of the sink as `request.upload`. Called once; never raises."""

    def handle(self, exchange: Exchange) -> Response | None:
        """The response, or None: `exchange.respond()` will be called later. Never raises."""

    def upgrade(self, exchange: Exchange) -> Response | None:
        """`handle` for a request that `offers` another protocol: an `Upgrade` response accepts it, any other does not."""

    def error_response(self, error: BaseException, request: Request | None) -> Response: ...

    def decode_content(self, request: Request) -> Any:
        """The body of a request as a value. Raises Problem."""

    def sent(self, exchange: Exchange, now: float) -> None:
        """The answer was handed to the socket at `now` (or the peer closed)."""

    def cancelled(self, exchange: Exchange) -> None:
        """The peer closed, or the deadline passed, before the application answered."""


class Carrier(Protocol):
    """The connection (or HTTP/2 stream) of an exchange, as its body and its answer use it."""

    @property
    def application(self) -> Application: ...

    def answer(self, exchange: Exchange, response: Response) -> None:
        """Encode a response (or begin a streamed one) and queue it for the end of the turn."""

    def send_informational(self, exchange: Exchange, status: int, pairs: HeaderPairs) -> None: ...

    # For a request body: `intake`.

    def send_continue(self, exchange: Exchange) -> None: ...

    def handle(self, exchange: Exchange) -> None:
        """The request is complete."""

    def handle_early(self, exchange: Exchange) -> None:
        """The request is to be handled, and its body is still coming."""

    def on_body_taken(self, exchange: Exchange) -> None:
        """That body is complete."""

    def on_body_end(self, exchange: Exchange) -> None:
        """The body has arrived; its sink may not be done yet."""

    def on_body_progress(self, exchange: Exchange) -> None:
        """A sink has been given a piece."""

    def pause_body(self, exchange: Exchange) -> None:
        """Stop reading the body."""

    def resume_body(self, exchange: Exchange) -> None: ...

    # For a streamed response body: `bodies`.

    def pending_of(self, exchange: Exchange) -> int:
        """Bytes of output that the peer has not taken yet."""

    def send_body(self, exchange: Exchange, data: bytes) -> None: ...

    def end_body(self, exchange: Exchange) -> None: ...

    def touch(self) -> None:
        """Ask for a flush at the end of this turn."""

    def defect(self, error: Exception) -> None:
        """An unexpected exception: log it and close this connection."""


def drop_response(response: Response) -> None:
    """It comes too late: end what it would have sent."""
    if isinstance(response.body, (Feed, FileRange)):
        response.body.close()


class Exchange:
    """One request and its answer, on one connection. Used to send an answer later."""

    __slots__ = ("abandoned", "body_bytes", "connection", "request", "status", "stream_id", "task")

    def __init__(self, connection: Carrier, stream_id: int, request: Request) -> None:
        self.connection = connection
        self.stream_id = stream_id
        self.request = request
        request.exchange = self
        self.status = 0
        self.body_bytes = 0
        self.abandoned = False
        self.task: asyncio.Task[None] | None = None

    def respond(self, response: Response) -> None:
        """Answer now (from a later turn's work than the request). Dropped if the peer has closed."""
        if self.abandoned:
            drop_response(response)
        else:
            try:
                self.connection.answer(self, response)
            except BaseException as error:  # the caller is a task or a commit, which could not answer otherwise
                self.connection.defect(contained(error))

    def decode_content(self, request: Request) -> Any:
        return self.connection.application.decode_content(request)

    def send_early_hints(self, pairs: HeaderPairs) -> None:
        if not self.abandoned and not self.status:
            self.connection.send_informational(self, 103, pairs)

    def abandon(self, now: float) -> None:
        """The peer closed: cancel its task, and notify the application. The connection closes a streamed body."""
        self.abandoned = True
        if self.task is not None:
            # Not at once: a task that has not begun would never run, nor close the awaitable it was given.
            self.task.get_loop().call_soon(self.task.cancel)
        application = self.connection.application
        if self.status:
            application.sent(self, now)
        else:
            application.cancelled(self)
        self.request.exchange = None


class WaitingRequest(Protocol):
    """A request that is answered at the end of the turn, and without an exchange if nothing else happens on its connection until then:
    `prepared.record_writes.QueuedRequest`, `prepared.handler_reads.HandlerCall`."""

    data: bytes  # all of it, as it has come
    arrived: float

    @property
    def request(self) -> Request | None:
        """That it has already; None: one is made when it is needed."""

    def adopt(self, exchange: Exchange) -> None:
        """Something has happened: this is its exchange now. A request that was made for it knows neither its caller nor its handler yet."""
