"""Operations over server-sent events, one connection for each (spec: graphql §7.4; the "distinct connections" mode of the GraphQL over SSE protocol).

event: next        data: {"data": ...} or {"errors": [...]}
event: complete    data:                                       the last one
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any

from svc.content.json_type import encode_json
from svc.content.plain_type import EVENT_STREAM
from svc.errors import Problem
from svc.graphql.execution import Execution
from svc.graphql.live_field import HIGH_WATER, LiveField
from svc.graphql.operation import SUBSCRIPTION
from svc.graphql.request_parameters import Parameters
from svc.graphql.responses import error_object, forget_record, is_said_in_body
from svc.graphql.subscriptions import Subscriptions
from svc.http.compression import VARY
from svc.http.event_stream import EventFeed
from svc.messages import FeedWriter, HeaderPairs, Request, Response

_FIELDS: HeaderPairs = [
    ("Content-Type", EVENT_STREAM),
    ("Cache-Control", "no-store"),
    ("X-Accel-Buffering", "no"),  # else nginx buffers the events
    VARY,
]
_NEXT = b"event: next\ndata: "
_END = b"\n\n"
_COMPLETE = b"event: complete\ndata:\n\n"


class EventTransport:
    """Answers requests that prefer an event stream."""

    def __init__(self, execution: Execution, subscriptions: Subscriptions) -> None:
        self._execution = execution
        self._subscriptions = subscriptions
        self._now = execution.store.clock.monotonic

    async def run(self, request: Request, parameters: Parameters) -> Response:
        """Raises Problem: what is no fault of the document has the status of the answer; the others are sent as a result."""
        try:
            operation = self._execution.operation(parameters, request)
            if inspect.isawaitable(operation):
                operation = await operation
            operation.note_in(request)
            if operation.kind is SUBSCRIPTION:
                field = await self._subscriptions.open(request, operation, parameters.variables)
                return Response(ListStream(field, self._now), 200, pairs=list(_FIELDS))
            reading = self._execution.run(request, operation, parameters.variables)
            if isinstance(reading, Awaitable):
                reading = await reading
            forget_record(request)
            body: Any = reading.answer.body()
            body = body if type(body) is bytes else b"".join(body)
        except Problem as problem:
            if not is_said_in_body(problem):
                raise
            body = encode_json({"errors": [error_object(problem)]})
        return Response(_NEXT + body + _END + _COMPLETE, 200, pairs=list(_FIELDS))


class ListStream(EventFeed):
    """The body of the answer to a subscription."""

    __slots__ = ("_field", "_is_behind")

    def __init__(self, field: LiveField, now: Any) -> None:
        super().__init__(now)
        self._field = field
        self._is_behind = False

    def start(self, writer: FeedWriter) -> None:
        self._begin(writer, b":\n\n")  # so that the client knows at once that it is connected
        self._field.start(self)

    # --- a `Sink` --------------------------------------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        writer = self._writer
        self._is_behind = writer is not None and writer.pending >= HIGH_WATER
        return not self._is_behind

    def send(self, body: bytes) -> None:
        if self._writer is not None:
            self._quiet_since = self._now()
            self._writer.write(_NEXT + body + _END)

    def end(self, problem: Problem | None) -> None:
        writer = self._writer
        if writer is None:
            return
        if problem is not None:
            writer.write(_NEXT + encode_json({"errors": [error_object(problem)]}) + _END)
        writer.write(_COMPLETE)
        writer.end()

    # --- a `Feed` --------------------------------------------------------------------------------------------------------------------

    def on_sent(self) -> None:
        if self._is_behind:
            self._is_behind = False
            self._field.wake()

    def sweep(self, now: float) -> None:
        self._keep_alive(now)

    def drain(self, is_replaced: bool = False) -> None:
        """The server stops: without `complete`, so that clients connect again."""
        if self._writer is not None:
            self._writer.end()

    def close(self) -> None:
        self._writer = None
        self._field.close()
