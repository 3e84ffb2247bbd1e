"""WebSockets on resources: they serve those that no listener of an application takes (spec: realtime §2).

    find            the handshake: finds the resource and the content types; a Problem refuses it
    ConnectService  runs once the WebSocket is open: events are pushed as they happen, the items of a resource's own `connect` are sent by a task

All receivers of one content type share the frames of outgoing messages; the frame of an event is kept in its memo under the type.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from svc.content.content_type import ContentType
from svc.content.handler_type import HandlerType
from svc.content.json_type import JsonType
from svc.content.registry import ContentTypes
from svc.content.values import replace_lone_surrogates
from svc.errors import NotAcceptable, NotFound, Problem
from svc.http.event_blocks import event_json, is_event
from svc.http.event_pump import HIGH_WATER, EventPump, WakeSignal, as_event_source, iter_source
from svc.http.event_stream import close_items
from svc.http.media_types import media_type_of
from svc.messages import Request
from svc.realtime.connected_items import ConnectedItems, Opening
from svc.realtime.event import EndReason, Event, EventSource
from svc.resources import RequestTarget, Resource, Resources, TableResource, addressed
from svc.websocket import Service, Socket, encode_frame
from svc.websocket.incoming_messages import IncomingMessages, MessageDecoder
from svc.websocket.opening_handshake import offered_protocols

MQTT = "mqtt"
FAREWELL = 10.0  # seconds that a handler may take to end after its client has gone, if it has been waiting for a message
CACHED_ENCODERS = 100  # content types; there are fewer, unless a client varies parameters
CLOSE_CODES = {
    EndReason.FINISHED: 1000,
    EndReason.NO_LOGIN: 3000,
    EndReason.REVOKED: 3003,
    EndReason.TOO_SLOW: 1013,
    EndReason.DROPPED: 1011,
    EndReason.FAILED: 1011,
}


class FrameEncoder:
    """Values as messages of one type."""

    __slots__ = ("_is_text", "kind", "may_wait")

    def __init__(self, kind: ContentType) -> None:
        self.kind = kind
        self._is_text = is_text(kind)
        self.may_wait = isinstance(kind, HandlerType)  # `encode` may return an awaitable

    def event(self, event: Event) -> bytes:
        """The frame of an event, made once for all receivers of this type."""
        kind = self.kind
        found: bytes | None = event.memo.get(kind)
        if found is None:
            found = event.memo[kind] = self._frame(self._event(event))
        return found

    def item(self, item: Any) -> Any:
        """The frame of an item of a resource's own `connect`, or an awaitable of it. `{contentType, data}` is sent as the bare data."""
        if is_event(item):
            if not self.may_wait:
                return self.event(item)
            encoded = self._event(item)
        elif isinstance(item, dict) and item.get("contentType") is not None and isinstance(item.get("data"), str | bytes):
            data = item["data"]
            return encode_frame(replace_lone_surrogates(data) if isinstance(data, str) else data)
        else:
            encoded = self.kind.encode(item)
        return self._frame_later(encoded) if inspect.isawaitable(encoded) else self._frame(encoded)

    def _event(self, event: Event) -> Any:
        kind = self.kind
        return event_json(event) if type(kind) is JsonType else kind.encode(event.members(kind.native))

    def _frame(self, encoded: bytes) -> bytes:
        return encode_frame(encoded.decode("utf-8", "replace") if self._is_text else encoded)

    async def _frame_later(self, encoded: Any) -> bytes:
        return self._frame(await encoded)


def is_text(kind: ContentType) -> bool:
    """Whether the type is sent in text frames.

    >>> from svc.content.registry import ContentTypes
    >>> [name for name, kind in ContentTypes.built_in().items() if kind.writes and not is_text(kind)]
    ['application/cbor', 'application/x-msgpack', 'application/msgpack', 'application/vnd.apache.arrow.stream']
    """
    name = media_type_of(kind.content_type)
    return name.startswith("text/") or name.endswith(("json", "xml", "urlencoded"))


class SocketEndpoint(Protocol):
    """What serves the WebSockets at a path before resources are looked for."""

    @property
    def subprotocol(self) -> str: ...

    def find(self, request: Request) -> Service:
        """Raises Problem."""


class ResourceSockets:
    """The `SocketHandler` of a port."""

    def __init__(
        self,
        resources: Resources,
        types: ContentTypes,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[BaseException], None],
        endpoints: Mapping[str, SocketEndpoint] | None = None,
        mqtt: SocketEndpoint | None = None,
    ) -> None:
        """`endpoints`: by their paths; they may change. `mqtt`: serves those of its sub-protocol at any path; None: there is no MQTT."""
        self._mqtt = mqtt
        self._endpoints: Mapping[str, SocketEndpoint] = {} if endpoints is None else endpoints
        self._resources = resources
        self._types = types
        self._loop = loop
        self._report = report
        self._frames: dict[ContentType, FrameEncoder] = {}
        self._generation = types.generation

    def knows(self, request: Request) -> bool:
        if request.pathname in self._endpoints or self._resources.find(request.pathname, "ws") is not None:
            return True
        return self._mqtt is not None and MQTT in offered_protocols(request)

    def subprotocol(self, request: Request) -> str | None:
        endpoint = self._endpoints.get(request.pathname, self._mqtt)
        return None if endpoint is None or endpoint.subprotocol not in offered_protocols(request) else endpoint.subprotocol

    def find(self, request: Request) -> Service:
        """The service for a handshake. Raises Problem."""
        endpoint = self._endpoints.get(request.pathname)
        if endpoint is not None:
            return endpoint.find(request)
        if MQTT in offered_protocols(request):
            if self._mqtt is None:
                raise Problem("MQTT over WebSocket is switched off: mqtt.webSocket", 501)
            return self._mqtt.find(request)
        found = addressed(self._resources, request, "ws")
        if found is None:
            raise NotFound("Not found")
        resource, target = found
        resource.admit(request)
        frames = self._frames_of(self._writer(request, target))
        attributes = resource.table.attributes if issubclass(resource, TableResource) else None
        incoming = MessageDecoder.of(request, target, self._types, attributes)
        prepared = resource.prepare_connect(target, request)
        return ConnectService(resource, target, request, frames, incoming, self._loop, self._report, prepared)

    def _frames_of(self, kind: ContentType) -> FrameEncoder:
        """The shared encoder of a content type."""
        if self._generation != self._types.generation or len(self._frames) >= CACHED_ENCODERS:
            self._generation = self._types.generation
            self._frames.clear()
        frames = self._frames.get(kind)
        if frames is None:
            frames = self._frames[kind] = FrameEncoder(kind)
        return frames

    def _writer(self, request: Request, target: RequestTarget) -> ContentType:
        if target.extension is None:
            return self._types.writer(request.block.get("accept"))
        named = self._types.named(target.extension)
        if named is None:
            raise NotAcceptable(f"{target.extension} is not supported here")
        return named


class _SourceSender:
    """A source and the WebSocket it is sent to."""

    __slots__ = ("_pump", "_socket")

    def __init__(self, socket: Socket, source: EventSource, frames: FrameEncoder, report: Callable[[BaseException], None]) -> None:
        self._socket = socket
        self._pump = EventPump(source, frames.kind, frames.item, self._on_end, report)
        socket.on("close", self._on_close)
        socket.on("sent", self._on_sent)
        self._pump.start(socket, socket.send_frame)

    def _on_sent(self) -> None:
        if self._pump.is_waiting:
            self._pump.run()

    def _on_close(self, code: int, reason: str) -> None:
        self._pump.close()

    def _on_end(self, why: EndReason) -> None:
        self._socket.close_soon(CLOSE_CODES[why], why.value)


class ConnectService:
    """Serves one WebSocket with what the resource's `connect` returns."""

    __slots__ = ("_frames", "_incoming", "_loop", "_prepared", "_report", "_request", "_resource", "_target")

    def __init__(
        self,
        resource: type[Resource],
        target: RequestTarget,
        request: Request,
        frames: FrameEncoder,
        incoming: MessageDecoder,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[BaseException], None],
        prepared: EventSource | None,
    ) -> None:
        """`prepared`: the event source of `connect`, if it has been made already."""
        self._resource = resource
        self._target = target
        self._request = request
        self._frames = frames
        self._incoming = incoming
        self._loop = loop
        self._report = report
        self._prepared: Any = prepared

    def __call__(self, socket: Socket) -> Any:
        incoming = IncomingMessages(socket, self._incoming)
        result, self._prepared = self._prepared, None
        if result is None:
            result = self._resource.handle("connect", self._target, incoming, self._request)
        source = as_event_source(result)
        if source is None or self._frames.may_wait:
            return self._send(socket, incoming, result)
        self._push(socket, incoming, source)
        return None

    def __del__(self) -> None:
        # A client that disconnects before the handshake is answered: nothing else would close the subscription.
        if self._prepared is not None:
            self._prepared.close()

    def _push(self, socket: Socket, incoming: IncomingMessages, source: EventSource) -> None:
        """Send events from the call that makes them: no task, no waiting."""
        incoming.ignore()
        _SourceSender(socket, source, self._frames, self._report)

    async def _send(self, socket: Socket, incoming: IncomingMessages, result: Any) -> None:
        """Send the items of an iterator. Raises what it raises."""
        sending = self._loop.create_task(self._send_all(socket, incoming, result))
        socket.on("close", lambda *ignored: self._disconnected(incoming, sending))
        if socket.closed:
            self._loop.call_soon(sending.cancel)
        try:
            await sending
        except asyncio.CancelledError:
            if not socket.closed:
                raise

    def _disconnected(self, incoming: IncomingMessages, sending: asyncio.Task[None]) -> None:
        """The loop of a handler over the messages ends by itself, and what follows the loop is still done. Anything else that it waits for is cancelled."""
        if not incoming.is_waiting:
            self._loop.call_soon(sending.cancel)  # behind its first step: a coroutine that has never begun would be reported
            return
        timer = self._loop.call_later(FAREWELL, sending.cancel)
        sending.add_done_callback(lambda task: timer.cancel())

    async def _send_all(self, socket: Socket, incoming: IncomingMessages, result: Any) -> None:
        if isinstance(result, Opening):
            result.tell(lambda why: socket.close_soon(CLOSE_CODES[why], why.value))
        if inspect.isawaitable(result):
            result = await result
        source = as_event_source(result)
        if source is not None and not self._frames.may_wait:
            self._push(socket, incoming, source)
            await self._loop.create_future()  # until the end of the WebSocket cancels this
        if result is None:
            return
        items = aiter(result if source is None else iter_source(source, self._loop))
        room = WakeSignal(self._loop)
        socket.on("sent", room.set)
        if isinstance(items, ConnectedItems):
            items.tell(lambda why: socket.close_soon(CLOSE_CODES[why], why.value))
        try:
            async for item in items:
                if socket.closed:
                    break
                frame = self._frames.item(item)
                socket.send_frame(await frame if inspect.isawaitable(frame) else frame)
                while socket.pending >= HIGH_WATER and not socket.closed:
                    await room.wait()
        finally:
            await close_items(items, self._report)
        if source is not None and source.ended is not None:
            socket.close_soon(CLOSE_CODES[source.ended], source.ended.value)
