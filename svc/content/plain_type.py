"""`text/plain` (write only) and `text/event-stream` (spec: http §7.1)."""

from __future__ import annotations

from typing import Any

from svc.content.content_type import ANY_SHAPE, ContentType, Shape
from svc.content.json_type import JsonRows, encode_json
from svc.content.values import json_form, replace_lone_surrogates

EVENT_STREAM = "text/event-stream"


class PlainType(ContentType):
    """The text form of a value: a text itself, of anything else its JSON."""

    name = "text/plain"
    content_type = "text/plain; charset=utf-8"
    q = 0.2
    reads = False  # such a body is raw content (spec: http §7.4)

    def encode(self, value: Any) -> bytes:
        form = json_form(value) if type(value) is not str else value
        return replace_lone_surrogates(form).encode() if type(form) is str else encode_json(form)

    def row_writer(self, shape: Shape = ANY_SHAPE, count: int | None = None) -> PlainRows:
        return PlainRows()


class PlainRows(JsonRows):
    __slots__ = ()

    def failure(self, error: dict[str, Any]) -> bytes | None:
        return None  # only JSON, CBOR and NDJSON have one (spec: http §8)


class EventStreamType(ContentType):
    """Known to the registry, but never the answer to an ordinary request: subscriptions choose it themselves."""

    name = content_type = EVENT_STREAM
    q = 0.8
    compressible = False
    reads = writes = False
