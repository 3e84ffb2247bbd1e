"""The parameters, headers and problems that operations share, and the media types of the server (spec: http §2.6, §5, §7.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from svc.content.negotiation import FALLBACK
from svc.content.registry import ContentTypes
from svc.rest.openapi.schemas import Schema, array_of, reference


@dataclass(frozen=True, slots=True)
class MediaTypes:
    """What can be read and written, in the order of the registry, and what problems come in."""

    readable: tuple[str, ...]
    writable: tuple[str, ...]
    problems: tuple[str, ...]

    @classmethod
    def of(cls, types: ContentTypes) -> MediaTypes:
        writable = tuple(name for name in types if name not in (FALLBACK, EVENTS) and types.named(name) is not None)
        readable = tuple(name for name in types if name != FALLBACK and types.reader(name) is not None)
        return cls(readable, writable, ("application/problem+json", *(name for name in PROBLEM_TYPES if name in writable)))


EVENTS = "text/event-stream"  # subscriptions only
PROBLEM_TYPES = ("application/cbor", "application/x-msgpack", "application/msgpack")

ETAG = '^"[A-Za-z0-9_-]{11}(-(br|gzip|zstd))?"$'
TEXT: Schema = {"type": "string"}


def header(description: str, schema: Schema, *, required: bool = False) -> Schema:
    header: Schema = {"description": description, "schema": schema}
    if required:
        header["required"] = True
    return header


HEADERS: Mapping[str, Schema] = {
    "ETag": header(
        "Changes with every write of the record; ends with the content coding of the answer, if it has one.", TEXT | {"pattern": ETAG}
    ),
    "Location": header("Path of the new record. Missing when several were created.", TEXT),
    "Server-Timing": header("How long the answer took, in ms.", TEXT, required=True),
    "WWW-Authenticate": header("How to log in. Missing for a request with `X-Requested-With`.", TEXT),
    "Link": header('Address of the next page, as `<...>; rel="next"`, where a query with `limit(...)` found more.', TEXT),
    "X-Total-Count": header(
        "How many records there are without `limit` and `offset`, where that was asked for.", {"type": "integer", "minimum": 0}
    ),
    "X-Deleted-Count": header("How many records were deleted.", {"type": "integer", "minimum": 0}, required=True),
    "Content-Range": header("Which part of how many bytes.", TEXT, required=True),
    "Retry-After": header("Seconds.", {"type": "integer", "minimum": 0}),
}


def use(*names: str) -> dict[str, Schema]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


READ_CONDITIONS = ("If-Match", "If-None-Match", "If-Unmodified-Since", "If-Modified-Since")
WRITE_CONDITIONS = ("If-Match", "If-None-Match", "If-Unmodified-Since")
_CONDITIONS = {
    "If-Match": "Go on only if the record has one of these versions (`ETag`), or, with `*`, exists.",
    "If-None-Match": "A read of one of these versions is answered 304; a write goes on only if the record has none of them, or, with `*`, does not exist.",
    "If-Unmodified-Since": "Go on only if the record was not written since.",
    "If-Modified-Since": "304 if the record was not written since.",
    "Range": "The part of stored content that is wanted, as `bytes=0-99`.",
}
PARAMETERS: Mapping[str, Schema] = {
    name: {"name": name, "in": "header", "description": meaning, "schema": TEXT} for name, meaning in _CONDITIONS.items()
}


def parameters(*names: str) -> list[Schema]:
    return [{"$ref": f"#/components/parameters/{name}"} for name in names]


# Status -> (name of its component, when it happens). The rest of http §5 is in the problem object.
PROBLEMS: Mapping[int, tuple[str, str]] = {
    400: ("BadRequest", "Something in the address, the query or the body is wrong; `detail` says what and where."),
    401: ("Unauthorized", "No credentials, or wrong ones."),
    403: ("Forbidden", "The role of the caller, or a rule on the rows of the table (`ROW_NOT_ALLOWED`), does not allow this."),
    404: ("NotFound", "There is no such record, or it has no such property."),
    405: (
        "MethodNotAllowed",
        "The address ends in a dot and the name of a property, which only GET knows. In a key, write the dot as %2E.",
    ),
    406: ("NotAcceptable", "No type that `Accept` names can be written; `detail` lists those that can."),
    408: ("RequestTimeout", "The request did not arrive in time."),
    409: ("Conflict", "There is a record with this key, or with one of over 507 bytes that begins like it."),
    412: ("PreconditionFailed", "The record is not in the state that `If-Match`, `If-None-Match` or `If-Unmodified-Since` asks for."),
    413: ("PayloadTooLarge", "The body is larger than this server takes."),
    414: ("UriTooLong", "The address is longer than this server takes."),
    415: ("UnsupportedMediaType", "The coding of the body, or the kind of patch, is not known here."),
    416: ("RangeNotSatisfiable", "The content has no such range."),
    431: ("RequestHeaderFieldsTooLarge", "The header is larger than this server takes."),
    503: ("ServiceUnavailable", "Try again later: the server is busy, or an index is still being built."),
    507: ("InsufficientStorage", "The disk is full; nothing was written."),
}
_EARLY = frozenset((408, 413, 414, 431))  # answered before the request is complete
ALWAYS = (400, 401, 403, 408, 414, 431)
WRITES = (413, 415, 503, 507)


def problem_responses(types: MediaTypes) -> dict[str, Schema]:
    """The shared responses of `components`."""
    responses: dict[str, Schema] = {}
    for status, (name, description) in PROBLEMS.items():
        headers = {} if status in _EARLY else use("Server-Timing")
        if status == 401:
            headers |= use("WWW-Authenticate")
        elif status == 503:
            headers |= use("Retry-After")
        elif status == 405:
            headers["Allow"] = header("The methods there are.", TEXT, required=True)
        response: Schema = {"description": description, "content": {name: {"schema": reference("Problem")} for name in types.problems}}
        if headers:
            response["headers"] = headers
        responses[name] = response
    return responses


PROBLEM_SCHEMA: Schema = {
    "type": "object",
    "description": "What went wrong (RFC 9457).",
    "required": ["type", "title", "status", "code", "detail", "error"],
    "properties": {
        "type": TEXT,
        "title": TEXT,
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "code": {"type": "string", "description": "Stays the same; for programs."},
        "detail": {"type": "string", "description": "For people."},
        "error": {"type": "string", "description": "The same as `detail`."},
        "errors": array_of(TEXT) | {"description": "One sentence for each value that was refused."},
        "position": {"type": "integer", "minimum": 0, "description": "Where in the query the fault is, in characters."},
        "retryable": {"type": "boolean"},
    },
}


def problems(statuses: Iterable[int]) -> dict[str, Schema]:
    """The responses of an operation that may end in these."""
    return {str(status): {"$ref": f"#/components/responses/{PROBLEMS[status][0]}"} for status in sorted(statuses)}
