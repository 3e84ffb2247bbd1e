"""The messages of a WebSocket client as decoded values (spec: realtime §2).

With a `Content-Type` of the handshake, or an extension in its address, every message is of that type, and one that is not ends the WebSocket with
1007. Otherwise a text message is decoded as JSON if it is valid JSON, else it is a string; a binary message is bytes.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from svc.content.content_type import ContentType
from svc.content.json_type import decode_json
from svc.content.registry import ContentTypes
from svc.errors import BadBody, Problem
from svc.http.media_types import media_type_of, parameters_of
from svc.messages import Request
from svc.resources import RequestTarget
from svc.store.schema import Attribute
from svc.websocket import Socket

LONG_MESSAGE = 1 << 17  # bytes: a longer one takes more than a slice to decode
INVALID = 1007  # close code: a message that is not of its type (RFC 6455 §7.4.1)


class MessageDecoder:
    """How messages are decoded. `explicit`: the client has named the content type of its messages."""

    __slots__ = ("_attributes", "_parameters", "_reader", "explicit")

    def __init__(self, reader: ContentType | None, parameters: Mapping[str, str], attributes: Mapping[str, Attribute] | None) -> None:
        self._reader = reader
        self._parameters = parameters
        self._attributes = attributes
        self.explicit = reader is not None

    @classmethod
    def of(
        cls, request: Request, target: RequestTarget, types: ContentTypes, attributes: Mapping[str, Attribute] | None = None
    ) -> MessageDecoder:
        """`attributes`: the declared ones of the table, for types that have only strings."""
        if target.extension is not None:
            return cls(types.reader(target.extension), {}, attributes)
        content_type = request.block.get("content-type") or ""
        media_type = media_type_of(content_type)
        return cls(types.reader(media_type) if media_type else None, parameters_of(content_type), attributes)

    def decode(self, message: str | bytes) -> Any:
        """The value, or an awaitable of it. Raises Problem for a message that is not of the explicit type."""
        reader = self._reader
        if reader is None:
            if isinstance(message, bytes):
                return message
            try:
                return decode_json(message.encode())
            except BadBody:
                return message
        body = message.encode() if isinstance(message, str) else message
        if len(body) > LONG_MESSAGE:
            return _in_slices(reader, body, self._parameters, self._attributes)
        return reader.decode(body, self._parameters, self._attributes)


async def _in_slices(reader: ContentType, body: bytes, parameters: Mapping[str, str], attributes: Mapping[str, Attribute] | None) -> Any:
    """Decode a long message, with other work of the loop in between."""
    slices = reader.decode_slices(body, parameters, attributes)
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return await end.value if inspect.isawaitable(end.value) else end.value
        await asyncio.sleep(0)


class IncomingMessages:
    """The messages of a client: iterated, or passed to a callback with `on("data", callback)`. Ends with the WebSocket."""

    def __init__(self, socket: Socket, kind: MessageDecoder) -> None:
        self._socket = socket
        self._kind = kind
        self._messages: AsyncIterator[str | bytes] | None = None
        self.is_taken = False  # they are iterated or have a callback
        self.is_waiting = False  # somebody waits for the next one

    def __aiter__(self) -> IncomingMessages:
        return self

    async def __anext__(self) -> Any:
        if self._messages is None:
            self.is_taken = True
            self._messages = aiter(self._socket)
        self.is_waiting = True
        try:
            message = await anext(self._messages)
        finally:
            self.is_waiting = False
        try:
            value = self._kind.decode(message)
            return await value if inspect.isawaitable(value) else value
        except Problem as error:
            self._refuse(error)
            raise StopAsyncIteration from None

    def on(self, name: str, callback: Callable[[Any], Any]) -> None:
        """`data`: with each message, decoded; the callback may be a coroutine function. `close`: at the end, without arguments."""
        if name == "close":
            self._socket.on("close", lambda *ignored: callback())  # type: ignore[call-arg]
            return
        if name != "data":
            raise ValueError(f"incoming messages have no event {name!r}: they have data and close")
        self.is_taken = True

        def decoded(message: str | bytes) -> Any:
            try:
                value = self._kind.decode(message)
            except Problem as error:
                self._refuse(error)
                return None
            return later(value) if inspect.isawaitable(value) else callback(value)

        async def later(awaited: Awaitable[Any]) -> None:
            try:
                value = await awaited
            except Problem as error:
                self._refuse(error)
                return
            result = callback(value)
            if inspect.isawaitable(result):
                await result

        self._socket.on("message", decoded)

    def ignore(self) -> None:
        """Discard the messages; with an explicit type they are still decoded, and an invalid one closes the WebSocket."""
        if self.is_taken:
            return
        if self._kind.explicit:
            self.on("data", lambda value: None)
        else:
            self._socket.ignore_messages()

    def _refuse(self, error: Problem) -> None:
        self._socket.close_soon(INVALID, error.message)
