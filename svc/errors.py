"""Every exception that becomes an answer, with its status and code (spec: http §5). Imports nothing.

Two kinds of trouble exist. A `Problem` is an answer: its message is written for the caller and may be sent. Anything else that is raised
is a defect of ours: it is logged with its traceback and the caller gets a bare 500 (`dispatch.error_response`).
"""

from collections.abc import Mapping
from typing import Any, Protocol

REASONS: dict[int, str] = {
    100: "Continue", 101: "Switching Protocols", 103: "Early Hints",
    200: "OK", 201: "Created", 202: "Accepted", 204: "No Content", 206: "Partial Content",
    301: "Moved Permanently", 302: "Found", 303: "See Other", 304: "Not Modified", 307: "Temporary Redirect", 308: "Permanent Redirect",
    400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 406: "Not Acceptable",
    408: "Request Timeout", 409: "Conflict", 410: "Gone", 411: "Length Required", 412: "Precondition Failed", 413: "Payload Too Large",
    414: "URI Too Long", 415: "Unsupported Media Type", 416: "Range Not Satisfiable", 417: "Expectation Failed", 422: "Unprocessable Content",
    426: "Upgrade Required", 428: "Precondition Required", 429: "Too Many Requests", 431: "Request Header Fields Too Large",
    500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
    505: "HTTP Version Not Supported", 507: "Insufficient Storage",
}  # fmt: skip

_CODES: dict[int, str] = {401: "UNAUTHENTICATED", 403: "FORBIDDEN", 507: "NO_SPACE"}


def code_for_status(status: int) -> str:
    """The code of a status that has no row of its own in http §5: its reason phrase, `PAYLOAD_TOO_LARGE`."""
    return _CODES.get(status) or REASONS.get(status, "Error").upper().replace(" ", "_")


class Problem(Exception):
    """An answer with an error status. `message` is for the caller; `code` is stable; `headers` are added to the response."""

    status_code = 500
    code = ""
    faults: tuple[Mapping[str, object], ...] = ()
    """Where it lies, for programs: mappings of `message` and of what is known of `index`, `line`, `key`, `attribute`, `right`, `resource`."""

    def __init__(
        self,
        message: str = "",
        status_code: int | None = None,
        code: str | None = None,
        *,
        headers: tuple[tuple[str, str], ...] = (),
        errors: tuple[str, ...] = (),
        retryable: bool | None = None,
    ) -> None:
        if status_code is not None:
            self.status_code = status_code
        if not isinstance(self.status_code, int) or not 200 <= self.status_code <= 599:
            raise ValueError(f"the status of an error must be from 200 to 599, not {self.status_code!r}")
        self.code = code or self.code or code_for_status(self.status_code)
        self.message = message or REASONS.get(self.status_code, "Error")
        self.headers = headers
        self.errors = errors
        self.retryable = self.status_code == 503 if retryable is None else retryable
        super().__init__(self.message)


def release_frames(error: BaseException) -> None:
    """Drop the tracebacks of an error that has been answered, and of its context.

    A frame in a traceback may name the error: then frame and error are a reference cycle, which keeps all that the frame refers to, a read
    transaction with its reader slot for instance, until a garbage collection.
    """
    found: BaseException | None = error
    while found is not None and found.__traceback__ is not None:
        found.__traceback__ = None
        found = found.__context__


class ClientError(Problem):
    """The caller did something wrong (4xx)."""

    status_code = 400


class ServerError(Problem):
    """We cannot do it now (5xx), and may say why."""

    status_code = 500


MUST_LOGIN = "Must login"


class AccessViolation(Problem):
    """401 without a user, 403 with one.

    `right`, `resource`, `attribute`: what the user lacks, in names that the request has or the user may see. Callers who are not known are told nothing.
    """

    def __init__(self, user: object = None, message: str = "", *, right: str = "", resource: str = "", attribute: str = "") -> None:
        super().__init__(message or (MUST_LOGIN if user is None else "Unauthorized access to resource"), 401 if user is None else 403)
        if user is not None and right:
            of = ".".join([name if len(name) <= 100 else f"{name[:100]}..." for name in (resource, attribute) if name])
            of = of.encode("utf-8", "backslashreplace").decode()
            self.message += f" (needs the right to {right} {of})"
            given = (("right", right), ("resource", resource), ("attribute", attribute))
            self.faults = ({**{name: value for name, value in given if value}, "message": self.message},)


class RowNotAllowed(ClientError):
    """A rule on the rows of a table is against this write (spec: rows §1.4). 401 for an anonymous caller, as for any right that is missing."""

    status_code = 403
    code = "ROW_NOT_ALLOWED"

    def __init__(self, message: str, user: object = None) -> None:
        super().__init__(message, 403 if user is not None else 401)


class Refusal(Problem):
    """An answer of the operations API whose body the specification fixes as a whole (spec: operations §5, security §6)."""

    def __init__(self, body: dict[str, object], status_code: int = 403) -> None:
        super().__init__(str(body.get("error", "")), status_code)
        self.body = body


class BadBody(ClientError):
    code = "BAD_BODY"


class ValidationError(ClientError):
    """One or more values the table does not accept. `errors`: one sentence per failure; the message joins them with `. `."""

    code = "VALIDATION"

    def __init__(self, errors: tuple[str, ...] | list[str] | str) -> None:
        failures = (errors,) if isinstance(errors, str) else tuple(errors)
        super().__init__(". ".join(failures), errors=failures)


class BadValue(ClientError):
    """A string that cannot be converted to the type of its attribute."""

    code = "BAD_VALUE"


_SHOWN_QUERY = 200  # characters of a query in a message


class QueryError(ClientError):
    """A query fault (spec: README): `QUERY_SYNTAX`, `UNKNOWN_ATTRIBUTE`, `NOT_INDEXED`, `UNUSABLE_OPERATOR`, `BAD_VALUE` or
    `QUERY_TOO_LARGE`.

    `position` counts characters from 0 in the text of the query, None if there is no text or the fault has no position in it.
    """

    def __init__(self, message: str, *, code: str, position: int | None = None) -> None:
        super().__init__(message, code=code)
        self.position = position


class QueryTooLarge(QueryError):
    """A query costs more than one may (`svc.query.budget`). `budget`: what it has used up, `rows`, `bytes` or `seconds`."""

    def __init__(self, message: str, *, budget: str) -> None:
        super().__init__(message, code="QUERY_TOO_LARGE")
        self.budget = budget


class QuerySyntaxError(QueryError):
    """The query cannot be parsed; or, with a `code` of its own, not be used as it is written."""

    position: int

    def __init__(self, what: str, position: int, query: str, hint: str = "", *, code: str = "QUERY_SYNTAX") -> None:
        said = f"Unable to parse query, {what}" if code == "QUERY_SYNTAX" else what
        message = f"{said} at position {position} in '{shown_query(query, position)}'" + (f" ({hint})" if hint else "")
        super().__init__(message, code=code, position=position)
        self.what = what
        self.hint = hint


def shown_query(query: str, position: int) -> str:
    """The text of a query as a message shows it: all of it, or what is around the position if it is long."""
    if len(query) <= _SHOWN_QUERY:
        return query
    start = max(0, min(position - _SHOWN_QUERY // 2, len(query) - _SHOWN_QUERY))
    end = start + _SHOWN_QUERY
    return ("..." if start else "") + query[start:end] + ("..." if end < len(query) else "")


class NotFound(ClientError):
    status_code = 404
    code = "NOT_FOUND"


class MethodNotAllowed(ClientError):
    status_code = 405
    code = "METHOD_NOT_ALLOWED"

    def __init__(self, message: str, allow: tuple[str, ...]) -> None:
        super().__init__(message, headers=(("Allow", ", ".join(allow)),))


class NotAcceptable(ClientError):
    status_code = 406
    code = "NOT_ACCEPTABLE"


class RecordExists(ClientError):
    status_code = 409
    code = "RECORD_EXISTS"

    def __init__(self, message: str = "Record already exists") -> None:
        super().__init__(message)


class KeyConflict(ClientError):
    """A new key that the store cannot tell from another one (spec: schema-and-store §6.2)."""

    status_code = 409
    code = "KEY_CONFLICT"


class CheckFailed(ClientError):
    """A record is not what its table demands (spec: schema-and-store §3.1). `errors`: one sentence per failed check; the message joins them with `. `."""

    code = "CHECK_FAILED"

    def __init__(self, failures: list[tuple[str | None, str]]) -> None:
        """`failures`: (the attribute whose check it is, None of the table's; the sentence)."""
        sentences = tuple([sentence for _, sentence in failures])
        super().__init__(". ".join(sentences), errors=sentences)
        self.faults = tuple(
            [{"message": sentence} if name is None else {"attribute": name, "message": sentence} for name, sentence in failures]
        )


class NamedTable(Protocol):
    """A table of the store, as messages and rights need it."""

    @property
    def name(self) -> str: ...
    @property
    def database(self) -> Any: ...


class NotUnique(ClientError):
    """A value that no two records may have is that of another record (spec: schema-and-store §3.1).

    `value`, `shown_key`: as a message shows them. `table`, also as `other`: of both records; `key`: of the other one, which the message does not name, but
    `explained`: for a caller who may read it. `stored`: the stored key of the record that was refused.
    """

    status_code = 409
    code = "NOT_UNIQUE"

    def __init__(self, table: NamedTable, attribute: str, value: str, key: object, shown_key: str, stored: bytes) -> None:
        self._plain = f"Value {value} in property {attribute} is that of another record"
        super().__init__(self._plain)
        self.table = self.other = table
        self.attribute = attribute
        self.key = key
        self.value = value
        self.shown_key = shown_key
        self.stored = stored
        self.faults = ({"attribute": attribute, "message": self.message},)

    def explained(self) -> ClientError:
        more = self.message[len(self._plain) :]
        self.message = (
            f"Value {self.value} in property {self.attribute} is that of another record of {self.table.name}: {self.shown_key}{more}"
        )
        self.faults = tuple([{**fault, "other": self.key, "message": self.message} for fault in self.faults])
        return self


class StillReferenced(ClientError):
    """A record that would be deleted is named by foreign keys with `onDelete: restrict` (spec: schema-and-store §4.4).

    `table`, `key`: the record. `other`, `attribute`: the table and attribute of the foreign keys; `example`: the key of one of
    these records. `count`: of them, in words. The message names none of this, `explained` does: for a caller who may read both tables.
    """

    status_code = 409
    code = "STILL_REFERENCED"

    def __init__(self, table: NamedTable, key: object, other: NamedTable, attribute: str, example: object, count: str) -> None:
        super().__init__("A record cannot be deleted: other records refer to it")
        self.table = table
        self.key = key
        self.other = other
        self.attribute = attribute
        self.example = example
        self.count = count

    def explained(self) -> ClientError:
        refer = "1 record refers" if self.count == "1" else f"{self.count} records refer"
        return ClientError(
            f"{self.table.name} {self.key!r} cannot be deleted: {refer} to it by {self.other.name}.{self.attribute},"
            f" such as {self.other.name} {self.example!r}",
            self.status_code,
            self.code,
        )


class PreconditionFailed(ClientError):
    status_code = 412
    code = "PRECONDITION_FAILED"


class PreconditionNotPossible(ClientError):
    code = "PRECONDITION_NOT_POSSIBLE"


class IndexRebuilding(ServerError):
    status_code = 503
    code = "INDEX_REBUILDING"

    def __init__(self, attribute: str) -> None:
        super().__init__(f'"{attribute}" is not indexed yet, can not search for this attribute', retryable=True)


class ApplicationFault(ServerError):
    """What should answer could not be loaded (spec: configuration §9.2). Only a super user gets the reason, for it shows files and code."""

    status_code = 503
    code = "APPLICATION_FAULT"

    def __init__(self, reason: str, user: object) -> None:
        knows = getattr(user, "super_user", False)
        super().__init__(reason if knows else "Not available: the application could not be loaded completely", retryable=False)


class Overloaded(ServerError):
    status_code = 503
    code = "OVERLOADED"

    def __init__(self, message: str = "Service unavailable, exceeded request queue limit") -> None:
        super().__init__(message, headers=(("Retry-After", "1"),), retryable=True)


class NotCached(ServerError):
    """A record of a table with a source is not here, and the source must not be asked (spec: caching §5)."""

    status_code = 504
    code = "NOT_CACHED"

    def __init__(self) -> None:
        super().__init__("Entry is not cached")


class SnapshotLost(ServerError):
    """A result was read so slowly that its snapshot was taken away, and it cannot be continued on another (spec: schema-and-store §8.11)."""

    status_code = 503
    code = "SNAPSHOT_LOST"


class NoSpace(ServerError):
    """The volume or the store's map is full; the write was undone (spec: schema-and-store §15)."""

    status_code = 507
    code = "NO_SPACE"

    def __init__(self, message: str = "No space left for this write") -> None:
        super().__init__(message)


class StoreFailure(ServerError):
    """The store could not do it (I/O error, damaged file, locked by another process); the write was undone."""

    status_code = 503
    code = "STORE_FAILURE"


class PeerError(Problem):
    """The peer broke its protocol; the connection answers if it still can and closes. `status_code` is the answer for HTTP."""

    status_code = 400
    head: object = (
        None  # `protocol.events.RequestReceived` of the request that is wrong, where its head has been read and nothing was reported of it
    )


class ConfigError(Exception):
    """The configuration is not usable: a sentence per fault. Ends the start with exit status 1, never reaches a client."""

    def __init__(self, faults: list[str] | str) -> None:
        self.faults = [faults] if isinstance(faults, str) else faults
        super().__init__("; ".join(self.faults))


class SchemaError(Exception):
    """A schema file or a table definition that cannot be applied; `line` and `column` count from 1, 0 if unknown."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        self.message, self.line, self.column = message, line, column
        super().__init__(f"{message} (line {line}, column {column})" if line else message)
