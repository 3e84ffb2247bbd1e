"""One WebSocket that an ASGI application serves (spec: asgi §1.5).

CONNECTING --accept--> OPEN --close, or the client's end--> CLOSED
  |  \\--close, or the end of the application: 403, 500 ------->|
  \\--http.response.start--> DENYING --http.response.body, last->|
"""

from __future__ import annotations

import asyncio
from enum import IntEnum

from svc.loop import contained, is_ours
from svc.messages import Abort, HeaderPairs, Request, Response
from svc.mounted.http_call import GRACE, CallContext
from svc.mounted.messages import (
    ClientDisconnected,
    Message,
    MessageError,
    Scope,
    body_of,
    is_of_disconnection,
    kind_of,
    pairs_of,
    status_of,
)
from svc.protocol.websocket import LOST
from svc.websocket import WebSocket, WebSocketClosed
from svc.websocket.close_codes import INTERNAL_ERROR, NORMAL

MAX_DENIAL = 1 << 20  # bytes of the body of a refusal


class WebSocketState(IntEnum):
    CONNECTING = 0
    OPEN = 1
    DENYING = 2
    CLOSED = 3


class WebSocketCall:
    def __init__(self, context: CallContext, scope: Scope, socket: WebSocket, request: Request) -> None:
        self._context = context
        self._scope = scope
        self._socket = socket
        self._request = request
        self.state = WebSocketState.CONNECTING
        self._is_accepted = False
        self._is_announced = False  # `websocket.connect` has been received
        self._is_gone = False  # the client
        self._status = 0
        self._pairs: HeaderPairs = []
        self._denial: list[bytes] = []
        self._denied = 0  # bytes of it
        self._changed = asyncio.Event()  # the state has
        self._outcome: asyncio.Future[Response | None] = context.loop.create_future()  # a refusal, or None: the application has ended

    async def run(self) -> None:
        """Until the application has ended or has refused the handshake: then raises Abort with the answer."""
        context = self._context
        task = context.run(self._run(), self._request)
        try:
            refusal = await self._outcome
        except asyncio.CancelledError:
            self._is_gone = True
            self._changed.set()
            if not task.done():
                timer = context.loop.call_later(GRACE, task.cancel)
                task.add_done_callback(lambda _: timer.cancel())
            raise
        if refusal is not None:
            raise Abort(refusal)

    async def _run(self) -> None:
        error: Exception | None = None
        try:
            await self._context.app(self._scope, self.receive, self.send)
        except BaseException as raised:
            if isinstance(raised, asyncio.CancelledError) and (self._is_gone or is_ours(raised)):
                pass
            elif not is_of_disconnection(raised):
                error = contained(raised, "the application")
        was, self.state = self.state, WebSocketState.CLOSED
        self._changed.set()
        is_unanswered = was in (WebSocketState.CONNECTING, WebSocketState.DENYING)
        if error is None and is_unanswered and not self._is_gone:
            error = MessageError("the application has ended without an answer to the handshake")
        if error is not None:
            self._context.log_error(f"{self._context.name}: WebSocket {self._request.target[:200]}", error)
        if is_unanswered:
            self._refuse(500, [("Content-Type", "text/plain; charset=utf-8")], b"Internal Server Error")
        elif was is WebSocketState.OPEN and not self._socket.closed:
            self._socket.close_soon(NORMAL if error is None else INTERNAL_ERROR, "" if error is None else "Internal Server Error")
        if not self._outcome.done():
            self._outcome.set_result(None)

    # --- receive -----------------------------------------------------------------------------------------------------------------------

    async def receive(self) -> Message:
        if not self._is_announced:
            self._is_announced = True
            return {"type": "websocket.connect"}
        while self.state is WebSocketState.CONNECTING and not self._is_gone:
            self._changed.clear()
            await self._changed.wait()
        socket = self._socket
        if self._is_accepted:
            try:
                message = await anext(socket)
            except StopAsyncIteration:
                return self._disconnect(socket.close_code, socket.close_reason)
            return {"type": "websocket.receive", "text" if type(message) is str else "bytes": message}
        return self._disconnect(LOST, "")

    @staticmethod
    def _disconnect(code: int | None, reason: str) -> Message:
        return {"type": "websocket.disconnect", "code": LOST if code is None else code, "reason": reason}

    # --- send --------------------------------------------------------------------------------------------------------------------------

    async def send(self, message: Message) -> None:
        kind = kind_of(message)
        state = self.state
        if self._is_gone:
            raise ClientDisconnected
        if state is WebSocketState.OPEN:
            if kind == "websocket.send":
                try:
                    await self._socket.send(_payload(message))
                except WebSocketClosed as error:
                    raise ClientDisconnected from error
                return
            if kind == "websocket.close":
                code, reason = _close_of(message)
                self._move(WebSocketState.CLOSED)
                self._socket.close_soon(code, reason)
                return
        elif state is WebSocketState.CONNECTING:
            if kind == "websocket.accept":
                self._accept(message)
                return
            if kind == "websocket.close":
                self._move(WebSocketState.CLOSED)
                self._refuse(403, [("Content-Type", "text/plain; charset=utf-8")], b"Forbidden")
                return
            if kind == "websocket.http.response.start":
                self._status, self._pairs = status_of(message), pairs_of(message)
                self._move(WebSocketState.DENYING)
                return
        elif state is WebSocketState.DENYING and kind == "websocket.http.response.body":
            self._deny(*body_of(message))
            return
        raise MessageError(f"{kind!r} is not expected {_WHEN[state]}")

    def _accept(self, message: Message) -> None:
        subprotocol = message.get("subprotocol")
        offered = self._scope["subprotocols"]
        if subprotocol is not None and subprotocol not in offered:
            raise MessageError(f"websocket.accept: the client does not offer the subprotocol {subprotocol!r}, but {offered}")
        pairs = [pair for pair in pairs_of(message) if not pair[0].lower().startswith("sec-websocket-")]
        self._socket.answer_with(subprotocol, pairs)
        self._is_accepted = True
        self._move(WebSocketState.OPEN)
        self._socket.use()

    def _deny(self, body: bytes, more: bool) -> None:
        self._denied += len(body)
        if self._denied > MAX_DENIAL:
            raise MessageError(f"the answer that refuses a WebSocket has more than {MAX_DENIAL} bytes")
        self._denial.append(body)
        if not more:
            self._move(WebSocketState.CLOSED)
            self._refuse(self._status, self._pairs, b"".join(self._denial))

    def _refuse(self, status: int, pairs: HeaderPairs, body: bytes) -> None:
        if not self._outcome.done():
            self._outcome.set_result(Response(body, status, pairs=pairs))

    def _move(self, state: WebSocketState) -> None:
        self.state = state
        self._changed.set()


def _payload(message: Message) -> str | bytes:
    text, data = message.get("text"), message.get("bytes")
    if isinstance(text, str) and data is None:
        return text
    if isinstance(data, bytes | bytearray | memoryview) and text is None:
        return bytes(data)
    raise MessageError("websocket.send: either text is a str, or bytes is bytes")


def _close_of(message: Message) -> tuple[int, str]:
    code, reason = message.get("code", NORMAL), message.get("reason") or ""
    if isinstance(code, bool) or not isinstance(code, int) or not (1000 <= code <= 4999 and code not in (1004, 1005, 1006, 1015)):
        raise MessageError(f"websocket.close: not a close code: {code!r}")
    return code, str(reason)


_WHEN = {
    WebSocketState.CONNECTING: "before 'websocket.accept'",
    WebSocketState.OPEN: "while the WebSocket is open",
    WebSocketState.DENYING: "after 'websocket.http.response.start'",
    WebSocketState.CLOSED: "after the WebSocket is closed",
}
