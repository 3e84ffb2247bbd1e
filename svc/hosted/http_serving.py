"""One HTTP request of a host: its scope becomes a Request, its answer messages (spec: asgi §2.2, §2.3).

To the parts that receive a body and stream one this is a connection like others, the `Carrier` of one exchange. Behind it a coroutine receives and sends:

    receive --> intake --> handle --> answer --> head, body --> send
                              |                   ^
                              `-- commit, task ---'

`send` returns when the host has room, and until then what is streamed counts as pending; the host is asked for pieces of a request's body while the sink
has room. While an answer takes its time the host is asked whether the client is still there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from svc.connection.bodies import LOW_WATER, StreamedBody, close_body, streamed_body
from svc.connection.exchange import Application, Exchange, drop_response
from svc.connection.intake import BodyIntake
from svc.errors import PeerError, Problem
from svc.hosted.outgoing import Outgoing
from svc.messages import HeaderPairs, Request, Response, Upgrade

if TYPE_CHECKING:
    from svc.connection.shared import SharedState
    from svc.mounted.messages import Message, Receive, Send

WATCH_AFTER = 0.05  # seconds that an answer takes before the host is asked for the end of the client
EARLY_HINT = "http.response.early_hint"
_OWN_FIELDS = frozenset({"connection", "keep-alive", "transfer-encoding", "upgrade"})


class Port(Protocol):
    """The port of an instance that requests are for."""

    loop: asyncio.AbstractEventLoop
    shared: SharedState
    now: Callable[[], float]
    max_body: int  # bytes

    def request_turn(self) -> None:
        """The end of this turn has something to do."""

    def log_error(self, where: str, error: BaseException | None) -> None: ...


class ClientLeft(Exception):
    """The client has left before it was answered."""


class BrokenAnswer(RuntimeError):
    """Raised to the host, which then ends the connection: the only way to show the client that something is missing."""

    def __init__(self) -> None:
        super().__init__("svc could not complete an answer that had begun; its own log says why")


class HttpServing:
    """One request, from `serve` to its end."""

    def __init__(self, port: Port, scope: Mapping[str, Any], request: Request, receive: Receive, send: Send) -> None:
        self._port = port
        self._receive = receive
        self._send = send
        self._has_hints = EARLY_HINT in (scope.get("extensions") or ())
        self._hints: list[Message] = []
        self._response: Response | None = None
        self._intake: BodyIntake | None = None
        self._is_early = False  # the request is being handled while its body comes
        self._is_paused = False  # the sink of the request's body is full
        self._sending: StreamedBody | None = None
        self._outgoing: Outgoing[bytes] = Outgoing()
        self._changed: asyncio.Future[None] | None = None  # the coroutine waits for an answer, or for room in the sink
        self._watching: asyncio.Task[None] | None = None
        self._is_gone = False  # the client
        self._is_broken = False
        request.arrived = port.now()
        self.exchange = Exchange(self, 0, request)

    async def serve(self) -> None:
        """Raises BrokenAnswer."""
        exchange = self.exchange
        try:
            if has_body(exchange.request):
                await self._receive_body()
            else:
                self.handle(exchange)
            await self._send_response(await self.answered())
        except ClientLeft:
            self.lose()
        except BaseException:
            self.lose()
            raise
        finally:
            self.close()

    def close(self) -> None:
        """The request is over."""
        exchange = self.exchange
        if self._watching is not None:
            self._watching.cancel()
        if not exchange.abandoned:
            self.application.sent(exchange, self._port.now())
        exchange.request.exchange = None

    # --- the client ------------------------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Ask the host for the end of the client. The body of the request must be here."""
        if self._watching is None and not self._is_gone:
            self._watching = self._port.loop.create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] not in ("http.disconnect", "websocket.disconnect"):
            pass
        self.lose()

    def lose(self) -> None:
        """The client is gone."""
        if self._is_gone:
            return
        self._is_gone = True
        sending, self._sending = self._sending, None
        intake, self._intake = self._intake, None
        if not self.exchange.abandoned:
            self.exchange.abandon(self._port.now())
        if sending is not None:
            sending.close()
        if intake is not None:
            intake.drop()
        self._outgoing.give_up()
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None and not changed.done():
            changed.set_result(None)

    async def _wait(self) -> None:
        self._changed = self._port.loop.create_future()
        await self._changed

    # --- the body of the request -----------------------------------------------------------------------------------------------------

    async def _receive_body(self) -> None:
        """Until the body is here, or is not needed any more. Raises ClientLeft."""
        intake = self._intake = BodyIntake(self._port.shared, self.exchange)
        intake.begin()
        size = 0
        while self._response is None and intake.is_coming:
            if self._is_paused:
                await self._wait()
                continue
            message = await self._next_message()
            if message is None:
                continue
            if message["type"] != "http.request":
                raise ClientLeft
            piece: bytes = message.get("body", b"")
            size += len(piece)
            if size > self._port.max_body:
                error = PeerError(f"The body is longer than {self._port.max_body} bytes", 413)
                self.application.cancelled(self.exchange)
                self.answer(self.exchange, self.application.error_response(error, self.exchange.request))
                return
            if piece:
                intake.on_data(piece)
            if not message.get("more_body", False):
                intake.on_end()

    async def _next_message(self) -> Message | None:
        """The next piece; None if something else has happened before it: there may be an answer."""
        if not self._is_early:
            return await self._receive()
        loop = self._port.loop
        self._changed = changed = loop.create_future()
        reading = loop.create_task(_received(self._receive))
        try:
            await asyncio.wait({reading, changed}, return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else None
        finally:
            reading.cancel()

    # --- the answer ------------------------------------------------------------------------------------------------------------------

    async def answered(self) -> Response:
        """The answer. Raises ClientLeft."""
        if self._response is None:
            timer = self._port.loop.call_later(WATCH_AFTER, self.watch)
            try:
                while self._response is None:
                    if self._is_gone:
                        raise ClientLeft
                    await self._wait()
            finally:
                timer.cancel()
        return self._response

    async def _send_response(self, response: Response) -> None:
        for hint in self._hints:
            await self._send(hint)
        if isinstance(response, Upgrade):
            response.receiver.on_closed()
            error = Problem("The protocol that was asked for is not available here", 501)
            response = self.application.error_response(error, self.exchange.request)
        body = response.body
        is_silent = self.exchange.request.method == "HEAD" or response.status in (204, 304)
        if body is None or isinstance(body, bytes | str):
            body = body.encode() if isinstance(body, str) else body or b""
            await self._send(start_of(response, len(body)))
            if is_silent:
                body = b""
            self.exchange.body_bytes = len(body)
            await self._send({"type": "http.response.body", "body": body})
            return
        await self._send(start_of(response, None))
        if is_silent:
            close_body(body, self._port.log_error)
        else:
            await self._stream(body)
        await self._send({"type": "http.response.body", "body": b""})

    async def _stream(self, body: Any) -> None:
        """Raises ClientLeft or BrokenAnswer."""
        port, outgoing = self._port, self._outgoing
        sending = self._sending = streamed_body(port.shared, self.exchange, body)
        self.watch()
        sending.start()
        port.request_turn()
        while pieces := await outgoing.take():
            await self._send({"type": "http.response.body", "body": b"".join([piece for piece, _ in pieces]), "more_body": True})
            outgoing.taken(sum(size for _, size in pieces))
            if self._sending is not None and outgoing.pending <= LOW_WATER:
                if outgoing.pending:
                    sending.on_room()
                else:
                    sending.on_sent()
                port.request_turn()
        if self._is_broken:
            raise BrokenAnswer
        if self._is_gone:
            raise ClientLeft

    # --- Carrier ---------------------------------------------------------------------------------------------------------------------

    @property
    def application(self) -> Application:
        return self._port.shared.application

    def answer(self, exchange: Exchange, response: Response) -> None:
        if exchange.status or self._is_gone:
            drop_response(response)
            return
        exchange.status = response.status
        self._response = response
        if self._intake is not None:
            self._intake.drop()
            self._intake = None
        self._wake()

    def send_informational(self, exchange: Exchange, status: int, pairs: HeaderPairs) -> None:
        if self._has_hints:
            links = [value.encode("latin-1") for name, value in pairs if name.lower() == "link"]
            self._hints.append({"type": EARLY_HINT, "links": links})

    def send_continue(self, exchange: Exchange) -> None:
        """The host does so, when it is asked for the body."""

    def handle(self, exchange: Exchange) -> None:
        self._intake = None
        response = self.application.handle(exchange)
        if response is not None:
            self.answer(exchange, response)

    def handle_early(self, exchange: Exchange) -> None:
        self._is_early = True
        response = self.application.handle(exchange)
        if response is not None:
            self.answer(exchange, response)

    def on_body_taken(self, exchange: Exchange) -> None:
        self._intake = None

    def on_body_end(self, exchange: Exchange) -> None:
        self.watch()

    def on_body_progress(self, exchange: Exchange) -> None:
        """The host keeps the time."""

    def pause_body(self, exchange: Exchange) -> None:
        self._is_paused = True

    def resume_body(self, exchange: Exchange) -> None:
        self._is_paused = False
        self._wake()

    def pending_of(self, exchange: Exchange) -> int:
        return self._outgoing.pending

    def send_body(self, exchange: Exchange, data: bytes) -> None:
        self._outgoing.put(data, len(data))

    def end_body(self, exchange: Exchange) -> None:
        self._sending = None
        self._outgoing.end()

    def touch(self) -> None:
        """What was written wakes the coroutine."""

    def defect(self, error: Exception) -> None:
        """An unexpected exception: the connection is to end."""
        self._port.log_error(f"request from {self.exchange.request.peer}", error)
        self._is_broken = True
        if self._response is None:
            self.answer(self.exchange, self.application.error_response(error, self.exchange.request))
        self._outgoing.end()


async def _received(receive: Receive) -> Message:
    return await receive()


def has_body(request: Request) -> bool:
    fields = request.block.fields
    length = fields.get("content-length")
    if length is None:
        return "transfer-encoding" in fields or request.http_version == "2"
    return length != "0"


def start_of(response: Response, length: int | None) -> Message:
    """The message of the head. `length`: of the body, if it is known."""
    status = response.status
    fields: list[tuple[bytes, bytes]] = []
    own: bytes | None = None
    for name, value in response.pairs:
        lower = name.lower()
        if lower == "content-length":
            own = value.encode("latin-1")
        elif lower not in _OWN_FIELDS:
            fields.append((lower.encode("latin-1"), value.encode("latin-1")))
    if status != 204:
        if own is not None and not length:  # HEAD, 304, a stream of known length
            fields.append((b"content-length", own))
        elif length is not None and not (status == 304 and length == 0):
            fields.append((b"content-length", b"%d" % length))
    return {"type": "http.response.start", "status": status, "headers": fields}
