"""Payloads of messages: bytes <-> values (spec: mqtt §6).

What a client sends has the type that it names, or is guessed: valid JSON that begins as an object or a list is that, anything else is kept byte for byte as
`{"contentType", "data"}`. So any payload can be retained, and comes back as it was.
"""

from __future__ import annotations

import asyncio
from typing import Any

from svc.awaitables import is_waiting
from svc.content.content_type import ContentType
from svc.content.registry import ContentTypes
from svc.content.values import is_blob
from svc.errors import BadBody, Problem
from svc.http.media_types import media_type_of, parameters_of
from svc.http.raw_content import is_raw_content
from svc.mqtt.free_topics import DATA, ID, TYPE, content_of

JSON = "application/json"
BYTES = "application/octet-stream"
LONG = 1 << 17  # bytes: a longer payload takes more than a slice to decode


class Payloads:
    """Of one server."""

    def __init__(self, types: ContentTypes) -> None:
        self._types = types

    def decode(self, payload: bytes, content_type: str | None) -> tuple[Any, bool]:
        """(value, whether its values have types of their own). Raises BadBody for one that is not of the type that the client names."""
        if content_type:
            kind = self._types.reader(media_type_of(content_type))
            if kind is None:
                return {"contentType": content_type, "data": payload}, True
            return kind.decode(payload, parameters_of(content_type), None), kind.native
        if payload[:1] in (b"{", b"["):
            kind = self._types.reader(JSON)
            if kind is not None:
                try:
                    return kind.decode(payload, {}, None), kind.native
                except BadBody:
                    pass
        return {"contentType": BYTES, "data": payload}, True

    async def decode_slowly(self, payload: bytes, content_type: str | None) -> tuple[Any, bool]:
        """`decode` of a long payload, with other work of the loop in between."""
        kind = self._types.reader(media_type_of(content_type) if content_type else JSON)
        if kind is None or not (content_type or payload[:1] in (b"{", b"[")):
            return {"contentType": content_type or BYTES, "data": payload}, True
        slices = kind.decode_slices(payload, parameters_of(content_type or ""), None)
        while True:
            try:
                next(slices)
            except StopIteration as end:
                return (await end.value if is_waiting(end.value) else end.value), kind.native
            except BadBody:
                if content_type:
                    raise
                return {"contentType": BYTES, "data": payload}, True
            await asyncio.sleep(0)

    def keep(self, topic: str, payload: bytes, content_type: str | None) -> dict[str, Any]:
        """What a table of free topics has of a message: the payload as it is."""
        value = None if content_type else self.decode(payload, None)[0]
        return _kept(topic, payload, content_type, value)

    async def keep_slowly(self, topic: str, payload: bytes, content_type: str | None) -> dict[str, Any]:
        """`keep` of a long payload, with other work of the loop in between."""
        value = None if content_type else (await self.decode_slowly(payload, None))[0]
        return _kept(topic, payload, content_type, value)

    def writer(self, accept: str | None) -> ContentType:
        """The type of a client's messages. Raises NotAcceptable."""
        return self._types.writer(accept)

    @staticmethod
    def encode(event: Any, kind: ContentType, is_free: bool = False) -> tuple[bytes, str]:
        """(payload, content type) of an event with a value. `is_free`: of a free topic. Raises Problem for a value that the type cannot write."""
        if event.type == "delete":
            return b"", ""
        members = event.members(True)
        value = members["value"]
        if value is None and event.type == "message":
            return b"", ""
        if is_free and (content := content_of(value)) is not None:
            return content
        if is_raw_content(value) and not is_blob(value["data"]):
            data = value["data"]
            return (data.encode("utf-8", "replace") if isinstance(data, str) else data), value["contentType"]
        if not kind.native:
            value = event.members(False)["value"]
        encoded = kind.encode(value)
        if not isinstance(encoded, bytes):
            raise Problem("A content type of an application cannot be awaited in a message", 500)
        return encoded, kind.content_type


def _kept(topic: str, payload: bytes, content_type: str | None, value: Any) -> dict[str, Any]:
    """`value`: of a payload without a content type, decoded; `{contentType, data}` with the payload itself if it is nothing that is known."""
    is_known = not (type(value) is dict and value.get("data") is payload)
    return {ID: topic, TYPE: content_type or (JSON if is_known else BYTES), DATA: payload}
