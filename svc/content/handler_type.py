"""Content types of applications: a handler is an object or a mapping with some of these parts (spec: http §7.1).

    serialize(data)             -> bytes or str
    serialize_stream(data)      -> async iterator (or iterator) of bytes or str, for iterables
    deserialize(raw)            raw: str for `text/*`, else bytes
    deserialize_stream(stream)  stream: async iterator of bytes; goes before `deserialize`
    serializeStream, deserializeStream: other spellings
    q, compressible, type       `type`: the Content-Type field of responses, the name of the entry if not given

Parts may be coroutine functions. What they raise for a body is the client's fault (400) if it is a ValueError or a Problem, else a defect.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from svc.awaitables import then
from svc.content.content_type import ContentType
from svc.errors import BadBody, Problem
from svc.store.schema import Attribute


class HandlerType(ContentType):
    """An application's handler as a content type.

    It has no rows: collections are given to `encode_stream`, or as a list to `encode`. Values are given and taken as Python values.
    `encode` and `decode` return an awaitable if the handler's part does.
    """

    native = True
    streams: bool  # whether there is an `encode_stream`

    def __init__(self, name: str, handler: Any) -> None:
        """Raises ValueError for a handler with nothing in it, or with an invalid `q`."""
        self.name = name
        self.handler = handler
        self._serialize = _part(handler, "serialize")
        self._serialize_stream = _part(handler, "serialize_stream")
        self._deserialize = _part(handler, "deserialize")
        self._deserialize_stream = _part(handler, "deserialize_stream")
        self.writes = self._serialize is not None or self._serialize_stream is not None
        self.reads = self._deserialize is not None or self._deserialize_stream is not None
        if not (self.writes or self.reads):
            raise ValueError(f"the handler of {name} has neither serialize nor deserialize, nor their streams")
        self.streams = self._serialize_stream is not None
        quality = _member(handler, "q")
        self.q = 1.0 if quality is None else float(quality)
        if not 0.0 <= self.q <= 1.0:
            raise ValueError(f"q of {name} must be from 0 to 1, not {quality!r}")
        self.compressible = _member(handler, "compressible") not in (False, 0)
        kind = _member(handler, "type")
        self.content_type = kind if isinstance(kind, str) and "/" in kind else "application/octet-stream" if "*" in name else name

    def encode(self, value: Any) -> Any:
        """bytes, or an awaitable of bytes."""
        if self._serialize is not None:
            return then(self._serialize(value), self._bytes)
        return self._joined(self.encode_stream(value))

    def encode_stream(self, value: Any) -> AsyncIterator[bytes]:
        """The body of an iterable, piece by piece. Only if `streams`."""
        assert self._serialize_stream is not None
        return self._pieces(self._serialize_stream(value))

    def decode(self, body: bytes, parameters: Mapping[str, str], attributes: Mapping[str, Attribute] | None = None) -> Any:
        """The value, or an awaitable of it. Raises BadBody."""
        try:
            if self._deserialize_stream is not None:
                value = self._deserialize_stream(_once(body))
            else:
                assert self._deserialize is not None
                value = self._deserialize(self._text(body, parameters) if self.name.startswith("text/") else body)
        except Problem:
            raise
        except ValueError as error:
            raise self._bad_body() from error
        return self._awaited(value) if inspect.isawaitable(value) else value

    def _text(self, body: bytes, parameters: Mapping[str, str]) -> str:
        try:
            return body.decode(parameters.get("charset", "utf-8"))
        except (LookupError, UnicodeError) as error:
            raise self._bad_body() from error

    def _bad_body(self) -> BadBody:
        return BadBody(f"The body is not valid {self.name}")

    async def _awaited(self, value: Awaitable[Any]) -> Any:
        try:
            return await value
        except Problem:
            raise
        except ValueError as error:
            raise self._bad_body() from error

    def _bytes(self, result: Any) -> bytes:
        if isinstance(result, str):
            return result.encode("utf-8", "replace")
        if isinstance(result, bytes | bytearray | memoryview):
            return bytes(result)
        raise TypeError(f"the handler of {self.name} made a {type(result).__qualname__}, not bytes or str")

    async def _pieces(self, result: Any) -> AsyncIterator[bytes]:
        if inspect.isawaitable(result):
            result = await result
        if hasattr(result, "__aiter__"):
            async for piece in result:
                yield self._bytes(piece)
        else:
            for piece in result:
                yield self._bytes(piece)

    async def _joined(self, pieces: AsyncIterator[bytes]) -> bytes:
        return b"".join([piece async for piece in pieces])


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


_CAMEL = {"serialize_stream": "serializeStream", "deserialize_stream": "deserializeStream"}


def _member(handler: Any, name: str) -> Any:
    return handler.get(name) if isinstance(handler, Mapping) else getattr(handler, name, None)


def _part(handler: Any, name: str) -> Callable[..., Any] | None:
    part = _member(handler, name)
    if part is None and name in _CAMEL:
        part = _member(handler, _CAMEL[name])
    if part is not None and not callable(part):
        raise ValueError(f"{name} of a content type must be a function, not {type(part).__qualname__}")
    return part  # type: ignore[no-any-return]
