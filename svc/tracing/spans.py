"""The span of a request, and spans below it (spec: tracing §3, §4). Names and attributes are those of the stable semantic conventions for HTTP.

begun --answer(stream)--> streaming --end--> ended
  '--------------------end---------------------^    further ends do nothing
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from opentelemetry import propagate
from opentelemetry.context import Context, attach, detach
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, get_current_span, set_span_in_context

from svc.awaitables import is_waiting
from svc.errors import Problem
from svc.loop import is_ours
from svc.messages import UNIX_PEER, HeaderBlock, Request
from svc.trace_context import TRACE_ID_BYTES

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"})
OTHER = "_OTHER"  # unknown methods: the number of span names must not depend on clients
LEFT = "client_disconnected"
_PORTS = {"http": 80, "https": 443}
_ONCE = frozenset({"traceparent"})  # a request with several of them has none
_BLANKS = re.compile(r"[ \t]{2,}")  # inside of values: the propagators' own patterns take the square of their number
_EMPTY = Context()


class _Fields(Getter[HeaderBlock]):
    """The header fields of a request, for propagators."""

    def get(self, carrier: HeaderBlock, key: str) -> list[str] | None:
        name = key.lower()
        if name not in carrier.fields:
            return None
        values = [_BLANKS.sub(" ", value) for field, value in carrier.pairs if field == name]
        return None if name in _ONCE and len(values) > 1 else values

    def keys(self, carrier: HeaderBlock) -> list[str]:
        return list(carrier.fields)


FIELDS: Final = _Fields()


class RequestSpans:
    """`messages.Spans` of one request. `context`: with the request's span as the current one."""

    __slots__ = ("_is_ended", "_request", "_stream", "_tracer", "context", "span")

    def __init__(self, tracer: Tracer, request: Request) -> None:
        self._tracer = tracer
        self._request: Request | None = (
            request  # until the end: the request refers to this, and a cycle would wait for the garbage collector
        )
        self._is_ended = False
        self._stream: Span | None = None
        outer = propagate.extract(request.block, _EMPTY, FIELDS)
        method = request.method if request.method in METHODS else OTHER
        self.span = span = tracer.start_span(
            "HTTP" if method is OTHER else method,
            outer,
            SpanKind.SERVER,
            {"http.request.method": method, "url.path": request.pathname, "url.scheme": request.scheme},
        )
        self.context = set_span_in_context(span, outer)
        if span.is_recording():
            span.set_attributes(_attributes(request, method))
        own = span.get_span_context()
        if own.trace_flags.sampled or get_current_span(outer).get_span_context().is_valid:
            request.state.trace_id = own.trace_id.to_bytes(TRACE_ID_BYTES, "big")

    # --- spans below it --------------------------------------------------------------------------------------------------------------

    def start(self, name: str) -> Span:
        """A span below that of the request, to be ended by the caller."""
        return self._tracer.start_span(name, self.context)

    def call(self, name: str, function: Callable[[], Any]) -> Any:
        """`function()` in a span of its own, which is current meanwhile. If its result has to be awaited, so has what is returned, and the span lasts as
        long."""
        span = self._tracer.start_span(name)  # below whatever is current
        token = attach(set_span_in_context(span))
        try:
            result = function()
        except BaseException as error:
            fail(span, error)
            span.end()
            raise
        finally:
            detach(token)
        if is_waiting(result):
            return _awaited(span, result)
        span.end()
        return result

    def note(self, attributes: Mapping[str, str]) -> None:
        self.span.set_attributes({name: encodable(value) for name, value in attributes.items()})

    def stream(self) -> None:
        """The answer has begun and is made while it is sent."""
        if self._stream is None and not self._is_ended:
            self._stream = self.start("stream")

    # --- its end ---------------------------------------------------------------------------------------------------------------------

    def defect(self, error: BaseException) -> None:
        """An exception that is answered with 500."""
        record(self.span, error)

    def end(self, status: int, operation: bool = False) -> None:
        """The request is answered. `operation`: its `handler_path` is the name of one."""
        if self._is_ended:
            return
        self._name(operation)
        span = self.span
        span.set_attribute("http.response.status_code", status)
        if status >= 500:
            span.set_attribute("error.type", str(status))
            span.set_status(Status(StatusCode.ERROR))
        self._end()

    def abandon(self, operation: bool = False) -> None:
        """The client has left before the answer."""
        if self._is_ended:
            return
        self._name(operation)
        self.span.set_attribute("error.type", LEFT)
        self.span.set_status(Status(StatusCode.ERROR))
        self._end()

    def _name(self, operation: bool) -> None:
        request, span = self._request, self.span
        assert request is not None
        path = request.handler_path
        if not path or not span.is_recording():
            return
        if operation:
            span.update_name(path)
            span.set_attributes({"http.route": "/", "svc.operation.name": path})
        else:
            span.update_name(f"{request.method if request.method in METHODS else 'HTTP'} /{path}")
            span.set_attribute("http.route", f"/{path}")

    def _end(self) -> None:
        self._is_ended, self._request = True, None
        if self._stream is not None:
            self._stream.end()
            self._stream = None
        self.span.end()


def fail(span: Span, error: BaseException) -> None:
    """The span has ended with an exception. One that refuses what a client asks is no failure."""
    if isinstance(error, Problem) and error.status_code < 500:
        return
    if isinstance(error, Exception):
        record(span, error)
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR))


def record(span: Span, error: BaseException) -> None:
    """The exception as an event. Not by `Span.record_exception`: one lone surrogate in its text, which may be a client's, and no span of the batch could be
    encoded."""
    if span.is_recording():
        kind = type(error)
        found = {
            "exception.type": kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}",
            "exception.message": text_of(error),
            "exception.stacktrace": "".join(traceback.format_exception(error)),
        }
        span.add_event("exception", {name: encodable(value) for name, value in found.items()})


def text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # of code of an application
        return ""


def encodable(text: str) -> str:
    """The text with `?` for what has no encoding."""
    return text.encode("utf-8", "replace").decode("utf-8")


async def _awaited(span: Span, result: Awaitable[Any]) -> Any:
    token = attach(set_span_in_context(span))
    try:
        found = await result
    except BaseException as error:
        if isinstance(error, GeneratorExit) and is_ours(error):  # it is closed from outside, perhaps in another context
            span.end()
            raise
        fail(span, error)
        span.end()
        detach(token)
        raise
    span.end()
    detach(token)
    return found


def _attributes(request: Request, method: str) -> dict[str, str | int]:
    fields = request.block.fields
    found: dict[str, str | int] = {"network.protocol.name": "http", "network.protocol.version": request.http_version.removesuffix(".0")}
    if method is OTHER:
        found["http.request.method_original"] = request.method
    agent = fields.get("user-agent")
    if agent is not None:
        found["user_agent.original"] = agent
    if request.peer and request.peer != UNIX_PEER:
        found["client.address"] = request.peer
    if request.proxy:
        found["network.peer.address"] = request.proxy
    address, port = address_of(request.host, request.scheme)
    if address:
        found["server.address"], found["server.port"] = address, port
    return found


def address_of(host: str, scheme: str) -> tuple[str, int]:
    """Name and port in the value of `Host`; "" for what is none.

    >>> address_of("shop.example:9926", "http"), address_of("[::1]", "https"), address_of("a:b:c", "http")
    (('shop.example', 9926), ('::1', 443), ('', 80))
    """
    default = _PORTS.get(scheme, 80)
    bare = host.startswith("[") and host.endswith("]")
    name, colon, port = (host, "", "") if bare else host.rpartition(":")
    if not colon:
        name, port = host, ""
    elif not (port.isascii() and port.isdigit() and len(port) <= 5):
        return "", default
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    elif ":" in name:
        return "", default
    return name, int(port) if port else default
