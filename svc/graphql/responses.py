"""Which media type a GraphQL answer has, and errors as answers (spec: graphql §2)."""

from __future__ import annotations

from typing import Any

from svc.content.json_type import encode_json
from svc.errors import Problem, QueryError
from svc.graphql.faults import DocumentError, FieldError, RequestFault
from svc.http.compression import VARY
from svc.messages import HeaderBlock, Headers, Request, Response

GRAPHQL_TYPE = "application/graphql-response+json"
JSON_TYPE = "application/json"
_MEMO = "graphql"
_MOST_RANGES = 50

# With the older media type these say what is wrong with the document or with what it asks for, which a client finds in the body (spec: graphql §2.2).
_SAID_IN_BODY = frozenset((400, 404, 409, 412, 422))


class ResponseType:
    """`name`: the media type. `pair`: its header field. `prefers_page`: the client would rather have HTML: it is a browser. `accepts_events`,
    `prefers_events`: it takes an event stream, and would rather have that: many name it beside the others, for what comes in parts."""

    __slots__ = ("accepts_events", "name", "pair", "prefers_events", "prefers_page")

    def __init__(self, accept: str | None) -> None:
        quality = _AcceptField(accept)
        newer, older = quality.of(GRAPHQL_TYPE), quality.of(JSON_TYPE)
        self.name = JSON_TYPE if older > newer else GRAPHQL_TYPE
        self.pair = ("Content-Type", f"{self.name}; charset=utf-8")
        best = max(newer, older)
        self.prefers_page = quality.named("text/html") > best or (quality.named("text/html") > 0 and quality.named("text/html") >= best)
        events = quality.named("text/event-stream")
        self.accepts_events = events > 0
        self.prefers_events = events > max(quality.named(GRAPHQL_TYPE), quality.named(JSON_TYPE))


class _AcceptField:
    """An `Accept` field (RFC 9110 §12.5.1)."""

    def __init__(self, accept: str | None) -> None:
        self._ranges: dict[str, float] = {}
        for part in (accept or "*/*").lower().split(",")[:_MOST_RANGES]:
            name, *parameters = part.split(";")
            q = 1.0
            for parameter in parameters:
                key, _, value = parameter.partition("=")
                if key.strip() == "q":
                    try:
                        q = min(1.0, max(0.0, float(value)))
                    except ValueError:
                        q = 0.0
            self._ranges[name.strip()] = q

    def named(self, media_type: str) -> float:
        """The quality of a type that is there by its name; 0 without it."""
        return self._ranges.get(media_type, 0.0)

    def of(self, media_type: str) -> float:
        """The quality of a type by the most specific range that it is in."""
        for name in (media_type, media_type.partition("/")[0] + "/*", "*/*"):
            if name in self._ranges:
                return self._ranges[name]
        return 0.0


def response_type(block: HeaderBlock) -> ResponseType:
    """Found once for each block of header fields."""
    found: ResponseType | None = block.memo.get(_MEMO)
    if found is None:
        found = block.memo[_MEMO] = ResponseType(block.get("accept"))
    return found


def error_response(error: Problem, request: Request | None, request_id: str = "") -> Response:
    """An answer that has errors only. `request_id`: of a defect, also in the log."""
    kind = _DEFAULT if request is None else response_type(request.block)
    status = error.status_code
    if kind.name == JSON_TYPE and is_said_in_body(error):
        status = 200
    body = encode_json({"errors": [error_object(error, request_id)]})
    return Response(body, status, Headers([kind.pair, VARY, *error.headers]))


def is_said_in_body(error: Problem) -> bool:
    """Whether a client finds it in the body, where the status speaks of the transport only."""
    return error.status_code in _SAID_IN_BODY and not isinstance(error, RequestFault) and not is_malformed(error)


def is_malformed(error: Problem) -> bool:
    """Whether the request itself could not be read."""
    return error.code == "BAD_BODY" and not isinstance(error, (DocumentError, FieldError))


def error_object(error: Problem, request_id: str = "") -> dict[str, Any]:
    """One element of `errors` (GraphQL §7.1.2)."""
    extensions: dict[str, Any] = {"code": error.code}
    if request_id:
        extensions["request"] = request_id
    if error.errors:
        extensions["errors"] = list(error.errors)
    if error.faults:
        extensions["faults"] = list(error.faults)
    if error.retryable:
        extensions["retryable"] = True
    if isinstance(error, (DocumentError, FieldError)) and error.is_stored:
        extensions["stored"] = True
    if isinstance(error, QueryError) and error.position is not None:
        extensions["position"] = error.position
    found: dict[str, Any] = {"message": error.message}
    if isinstance(error, (DocumentError, FieldError)) and error.location is not None:
        found["locations"] = [{"line": error.location[0], "column": error.location[1]}]
    found["extensions"] = extensions
    return found


_DEFAULT = ResponseType(None)


def forget_record(request: Request) -> None:
    """Whether one record came from a source says nothing of the whole request: its metrics have no type (spec: analytics §3)."""
    if request._state is not None:
        request._state.metric_type = None
