"""The operations server: `POST /` runs an operation, GETs for browsers and load balancers (spec: operations §1).

`OperationsEndpoint` is the `Handler` of a `Dispatcher`. Exceptions become answers in `problem`, in the form that clients of operations know:
`{"error": text, "code": code}`.
"""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from svc import __version__
from svc.analytics.recorder import UNKNOWN
from svc.auth.identify import host_name
from svc.auth.users import user_of
from svc.awaitables import then
from svc.connection.exchange import BodyLimit
from svc.content.content_type import ContentType
from svc.content.json_type import JsonType, decode_json_object_slices, encode_json
from svc.errors import AccessViolation, ClientError, MethodNotAllowed, NotAcceptable, NotFound, Overloaded, Problem, QueryError, Refusal
from svc.http.compression import Compression
from svc.http.confirmed_writes import FIELD, ConfirmedWrites
from svc.http.decoding import RequestDecoder
from svc.http.media_types import media_type_of, parameters_of
from svc.http.response_parts import RestOptions
from svc.http.responses import ResponseBuilder
from svc.logs.redact import redacted
from svc.messages import Headers, Request, Response
from svc.operations.call import Call
from svc.operations.long_payload import without_payload
from svc.operations.metrics import METRICS_PATH, Metrics
from svc.operations.openapi import operations_document
from svc.operations.service import Operations
from svc.resources import RequestTarget
from svc.rest.openapi.document import EncodedDocument

if TYPE_CHECKING:
    from svc.operations.node import Node

BODY_TYPES = frozenset(("application/json", "application/cbor", "application/x-msgpack", "application/msgpack"))
LONG_BODY = 1 << 17  # bytes: a longer one takes more than a slice to decode
LONG_MEMBER = "records"  # the only field that makes a body long and is no text
ANONYMOUS_BODY = 1 << 20  # bytes that may be sent without credentials, also once they are decoded
UNEXPECTED = "There was an error processing your request. Check logs and try again."

_BINARY = frozenset(("application/cbor", "application/x-msgpack", "application/msgpack"))
_TARGET = RequestTarget()

_PAGE = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>svc</title></head>
<body><h1>svc is running.</h1><p>Version {__version__}. Operations are posted to this address as JSON, for example
<code>{{"operation": "describe_all"}}</code>. What there is: <code>svc help operations</code>, or <a href="/api/openapi/operations">OpenAPI</a>.</p>
</body></html>
"""


class OperationsEndpoint:
    """`is_ready`: whether requests are welcome; False while the server starts or stops."""

    def __init__(
        self,
        operations: Operations,
        *,
        compression: Compression,
        decoder: RequestDecoder,
        report: Callable[[BaseException], None],
        is_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        node = operations.node
        self._operations = operations
        self._node: Node = node
        self._types = node.types
        self._slices = node.store.slices
        self._decoder = decoder
        self._compression = compression
        self._responses = ResponseBuilder(node.types, compression, node.clock, report, RestOptions(pages=False))
        self._logger = node.logs.logger.with_tag("operation")
        self._is_ready = is_ready
        self._confirmed_writes = ConfirmedWrites(node.store)
        self._gets: dict[str, Callable[[Request], Any]] = {
            "/": self._page,
            "/health": self._health,
            "/ready": self._ready,
            "/api/openapi/rest": self._rest_openapi,
            "/api/openapi/operations": self._operations_openapi,
        }
        self.metrics = Metrics(node, compression, lambda: not self._refusal())
        if node.config.operations_api.metrics.access != "none":
            self._gets[METRICS_PATH] = self.metrics.answer

    # --- the Handler of a dispatcher -------------------------------------------------------------------------------------------------

    def handle(self, request: Request) -> Any:
        """A Response, or an awaitable of one. Raises Problem."""
        get = self._gets.get(request.pathname)
        if request.method == "POST" and request.pathname == "/":
            return self._operate(request)
        if get is None or request.method not in ("GET", "HEAD"):
            if get is not None and request.pathname == METRICS_PATH:
                raise MethodNotAllowed("Metrics are only read", self._allowed(METRICS_PATH))
            raise NotFound("Not found")
        return get(request)

    def receive(self, request: Request) -> Any:
        """A body that has not arrived yet is collected; a long one only from an authenticated client."""
        if _is_anonymous(request):
            length = request.block.get("content-length")
            if length is None:
                raise ClientError("A body of unknown length needs credentials in the head; send Content-Length", 411)
            if len(length) > 9 or int(length) > ANONYMOUS_BODY:
                raise AccessViolation(None)
        user = user_of(request)
        if user is not None and user.role is None:
            return BodyLimit(ANONYMOUS_BODY, AccessViolation(user))
        return None

    def options(self, request: Request) -> Response:
        """OPTIONS that is not a preflight."""
        if request.pathname not in self._gets:
            raise NotFound("Not found")
        return Response(status=204, pairs=[("Allow", ", ".join(self._allowed(request.pathname)))])

    def decode_content(self, request: Request) -> Any:
        return self._body(request)

    def problem(self, error: Problem, request: Request | None, request_id: str = "") -> Response:
        """Any error as an answer (spec: operations §1.5)."""
        body: dict[str, Any]
        if isinstance(error, Refusal):
            body = error.body
        elif error.status_code == 500:
            body = {"error": UNEXPECTED if request_id else error.message, "code": error.code}
        else:
            body = {"error": error.message, "code": error.code}
            if error.faults:
                body["faults"] = list(error.faults)
            if isinstance(error, QueryError) and error.position is not None:
                body["position"] = error.position
        if request is not None and self._logger.is_enabled("info"):
            self._logger.info(request.handler_path or request.pathname[:200], error.status_code, body["error"])
        writer = self._types.named("application/json")
        accept = None if request is None else request.block.get("accept")
        if accept is not None and "json" not in accept[:16]:
            try:
                preferred = self._types.writer(accept)
                writer = preferred if preferred.name in _BINARY else writer
            except NotAcceptable:
                pass  # then it is JSON all the same
        assert writer is not None
        encoded = writer.encode(body)
        return Response(
            encoded if isinstance(encoded, bytes) else encode_json(body),
            error.status_code,
            Headers([("Content-Type", writer.content_type), *error.headers]),
        )

    def answer(self, request: Request, result: Any) -> Any:
        return self._responses.answer(request, _TARGET, result)

    def has_endpoint(self, request: Request) -> bool:
        return False

    def knows(self, request: Request) -> bool:
        return request.pathname in self._gets

    def _allowed(self, pathname: str) -> tuple[str, ...]:
        return ("GET", "HEAD", "POST", "OPTIONS") if pathname == "/" else ("GET", "HEAD", "OPTIONS")

    # --- operations ------------------------------------------------------------------------------------------------------------------

    def _operate(self, request: Request) -> Any:
        if not self._is_ready():
            raise Overloaded("svc is stopping")
        body = self._body(request)
        return then(body, lambda body: self._perform(request, body))

    def _perform(self, request: Request, body: Any) -> Any:
        request.handler_path = UNKNOWN  # clients do not choose how many groups analytics has
        _, row = self._operations.find(body)
        if row is not None:
            request.handler_path = row.name
        if request.refresh_token is not None and (row is None or row.name != "refresh_operation_token"):
            raise Problem("invalid token", 401)
        preferences = self._responses.preferences(request)
        if preferences.writer is None and not (preferences.events and row is not None and row.has_events):
            raise NotAcceptable(preferences.refusal)  # before any work is done
        call = self._operations.prepare(body, user_of(request), request)
        if FIELD in call.body:
            self._confirmed_writes.admit_operation(request, call.body[FIELD])
        if call.operation.logged and self._logger.is_enabled("info"):
            self._logger.info({**redacted(call.body, call.operation.secrets), "user": call.username})
        return then(self._operations.run(call), lambda result: self._respond(request, call, result))

    def _respond(self, request: Request, call: Call, result: Any) -> Any:
        """The response, or an awaitable of it; the dispatcher holds it back until the writes of the call are on disk."""
        if call.pending_commit is not None:
            request.pending_commit = call.pending_commit
        response = self._responses.answer(request, _TARGET, {} if result is None else result)
        return then(response, _closing) if call.operation.closes else response

    # --- bodies ----------------------------------------------------------------------------------------------------------------------

    def _body(self, request: Request) -> Any:
        """The value of the body, or an awaitable of it if it is long. Raises Problem 400, 401, 413 or 415."""
        if not request.content:
            raise ClientError("Invalid JSON.", code="BAD_BODY")
        if len(request.content) > ANONYMOUS_BODY and _is_anonymous(request):
            raise AccessViolation(None)
        content_type = request.block.get("content-type")
        media_type = media_type_of(content_type)
        if media_type not in BODY_TYPES and (media_type or _is_cross_origin(request)):
            raise ClientError(
                f"{media_type[:100] or 'A body without a type'} is not read here; send application/json, application/cbor or"
                " application/x-msgpack",
                415,
            )
        coding = request.block.fields.get("content-encoding")
        if coding is not None and not request.is_decoded:
            content = self._decoder.decode(coding, request.content, ANONYMOUS_BODY if _is_anonymous(request) else None)
            return then(content, lambda content: self._decoded_body(request, content))
        return self._value(request, media_type or "application/json", content_type)

    def _decoded_body(self, request: Request, content: bytes) -> Any:
        request.content, request.is_decoded = content, True
        return self._body(request)

    def _value(self, request: Request, media_type: str, content_type: str | None) -> Any:
        reader = self._types.reader(media_type)
        if reader is None:
            raise ClientError(f"{media_type} is not read here", 415)
        request.native_body = reader.native and not reader.text_bodies
        body = request.content
        if len(body) <= LONG_BODY:
            return reader.decode(body, parameters_of(content_type or ""), None)
        return self._slices.result(self._long_value(reader, body, media_type, parameters_of(content_type or "")))

    def _long_value(self, reader: ContentType, body: bytes, media_type: str, parameters: Mapping[str, str]) -> Any:
        value = yield from without_payload(body, media_type, lambda rest: reader.decode(rest, parameters, None))
        if value is not None:
            return value
        if isinstance(reader, JsonType):
            return (yield from decode_json_object_slices(body, LONG_MEMBER))
        return (yield from reader.decode_slices(body, parameters, None))

    # --- reading ---------------------------------------------------------------------------------------------------------------------

    def _page(self, request: Request) -> Response:
        return Response(_PAGE, 200, pairs=[("Content-Type", "text/html; charset=utf-8")])

    def _health(self, request: Request) -> Response:
        """The process answers, and can work: one that has lost a database for good has to be started again."""
        if stopped := self._node.store.stopped:
            return _text(f"svc has lost the database {', '.join(stopped)} after a failed disk write and ends.", 503)
        return _text("svc is running.")

    def _ready(self, request: Request) -> Response:
        """Whether a load balancer should send requests here: not while starting or stopping, nor when an operator said so."""
        refusal = self._refusal()
        return _text(refusal, 503) if refusal else _text("svc is ready.")

    def _refusal(self) -> str:
        """Why requests are not welcome; "": they are."""
        if not self._is_ready() or self._node.store.stopped:
            return "svc is stopping."
        return "svc was set unavailable." if self._node.status.is_unavailable else ""

    def _rest_openapi(self, request: Request) -> Any:
        _require_super_user(request)
        return self._rest_document(request)

    async def _rest_document(self, request: Request) -> Response:
        document = EncodedDocument(self._node.resources, __version__, self._types, user_of(request))
        for _ in document:
            await sleep(0)
        config = self._node.config
        port = config.http.port
        host = host_name(request.host) or "localhost"
        return document.response(f"http://{host}:{port}" if port is not None else "/", [("Cache-Control", "private, no-cache")])

    def _operations_openapi(self, request: Request) -> Response:
        if request.user is None:
            raise AccessViolation(None)
        return _json(operations_document(f"{request.scheme}://{request.host}" if request.host else "/"))


def _closing(response: Response) -> Response:
    response.pairs.append(("Connection", "close"))
    return response


def _require_super_user(request: Request) -> None:
    if request.user is None:
        raise AccessViolation(None)
    if not request.user.super_user:
        raise AccessViolation(request.user, "Forbidden")


def _is_anonymous(request: Request) -> bool:
    return request.user is None and request.refresh_token is None


def _is_cross_origin(request: Request) -> bool:
    origin = request.block.get("origin")
    return origin is not None and origin.partition("://")[2].lower() != request.host.lower()


def _text(text: str, status: int = 200) -> Response:
    return Response(text, status, pairs=[("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")])


def _json(body: bytes) -> Response:
    return Response(body, 200, pairs=[("Content-Type", "application/json"), ("Cache-Control", "private, no-cache")])
