"""`Resource`, and what its verbs may return to a protocol (architecture §11).

A protocol turns its request into a verb, a target and perhaps data, and calls `handle`. A plain result means the answer is ready: no coroutine, no
future. Only a handler that has to wait returns an awaitable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import msgspec

from svc.errors import AccessViolation, MethodNotAllowed
from svc.messages import Request
from svc.realtime.event import EventSource
from svc.resources.target import RequestTarget

if TYPE_CHECKING:
    from svc.query import Plan
    from svc.store import Table

# verb -> the HTTP method that calls it (architecture §11)
VERBS: Mapping[str, str] = {
    "get": "GET", "search": "GET", "put": "PUT", "patch": "PATCH", "post": "POST", "delete": "DELETE", "query": "QUERY", "copy": "COPY", "move": "MOVE",
}  # fmt: skip

WRITE_CONDITIONS = frozenset({"if-match", "if-none-match", "if-unmodified-since"})  # header fields: preconditions of a write

# Either of them makes a resource one that can be connected to: with a WebSocket, or for server-sent events (spec: realtime §1).
CONNECTING = frozenset(("connect", "subscribe"))


class StoredRecord(msgspec.Struct, gc=False):
    """A record as stored. `visible`: the attributes the caller may read, None = all."""

    table: Table
    raw: bytes
    visible: frozenset[str] | None = None


@dataclass(slots=True)
class PlannedQuery:
    """A query ready to run. `plan_seconds`: what planning it took."""

    table: Table
    plan: Plan
    visible: frozenset[str] | None = None
    plan_seconds: float = 0.0


@dataclass(slots=True)
class CreatedRecords:
    """New records. `location`: what follows the address of the resource in the path of a single one, percent-encoded; "" for several."""

    value: Any
    location: str = ""


@dataclass(slots=True)
class StreamedItems:
    """Items that are made while they are sent: an array, or a line for each."""

    items: AsyncIterator[Any]


class FoundRows(Protocol):
    """Rows that are found in parts: `svc.sql.results.SqlRows`. `found`: the first part; `done`: there are no others."""

    @property
    def columns(self) -> Sequence[str]: ...
    @property
    def found(self) -> list[dict[str, Any]]: ...
    @property
    def done(self) -> bool: ...

    async def more(self) -> list[dict[str, Any]]:
        """The next part, maybe without rows. Raises Problem."""

    def close(self) -> None:
        """No more of them are wanted."""


@dataclass(slots=True)
class StreamedRows:
    """Rows of one statement. `most`: that may be in one answer which is not streamed; `seconds`: what finding the first part took."""

    rows: FoundRows
    most: int
    seconds: float = 0.0


@dataclass(slots=True)
class NullableValue:
    """A value of a record, or a selection of one: null is a value too."""

    value: Any


class Resource:
    """Base class of everything with an address. Subclasses implement verbs; what they lack answers 405."""

    name: ClassVar[str] = ""
    verbs: ClassVar[frozenset[str]] = frozenset()  # implemented
    without_body: ClassVar[frozenset[str]] = frozenset()  # of them, those whose requests may come without a body: their data is None
    own_rights: ClassVar[frozenset[str] | None] = (
        None  # what code of an application decides itself: `allow_read` and so on; None: roles decide
    )
    own_events: ClassVar[bool] = False  # what subscribers get is made by code of an application
    properties: ClassVar[Mapping[str, Any]] = {}  # names that a URL's final `.name` may select (spec: http §1.2)

    @classmethod
    def bind(cls, target: RequestTarget, request: Request | None = None) -> None:
        """Turn `target.id_text` into a key; or, if there is an extension, all of the text, if that is the key of a record, which is there for the caller
        of `request`."""
        target.id = target.id_text

    @classmethod
    def set_parameters(cls, target: RequestTarget, values: Mapping[str, str]) -> None:
        """Keep the values of the parameters of the address, for code of an application."""

    @classmethod
    def set_subscription_options(cls, target: RequestTarget, options: Mapping[str, Any]) -> None:
        """Keep options of a subscription that the target itself does not say, for code of an application."""

    @classmethod
    def is_same(cls, other: type[Resource]) -> bool:
        """Whether `other` is this resource once more, of an application that was loaded again, and may take its address without a conflict."""
        return (other.__module__, other.__qualname__) == (cls.__module__, cls.__qualname__)

    @classmethod
    def refuse_query(cls, target: RequestTarget, method: str) -> None:
        """Called for a write to one record with a query in its address. Raises ClientError 400 if the query means nothing there."""

    @classmethod
    def refuse_conditions(cls, request: Request) -> None:
        """Called for a write to the collection. Raises ClientError 400 for conditions that it cannot keep."""

    @classmethod
    def refuse_body(cls, target: RequestTarget, request: Request) -> None:
        """Called for a DELETE with a body. Raises ClientError 400 if the body means nothing there."""

    @classmethod
    def admit(cls, request: Request) -> None:
        """Refuse callers without any right here before their body is read. Raises AccessViolation."""

    @classmethod
    def authorize(cls, verb: str, target: RequestTarget, data: Any, request: Request) -> None:
        """Once per protocol request, before the handler. Default: super users only (architecture §11). Raises AccessViolation."""
        if request.user is None or not request.user.super_user:
            raise AccessViolation(request.user)

    @classmethod
    def permit(cls, verb: str, target: RequestTarget, request: Request) -> Any:
        """Check permission as `handle` does, and do nothing else. May return an awaitable. Raises AccessViolation."""
        cls.authorize(verb, target, None, request)

    @classmethod
    def handle(cls, verb: str, target: RequestTarget, data: Any, request: Request) -> Any:
        """Check permission once, then run the verb. Returns data, StoredRecord, PlannedQuery, Created, Response, None, or an awaitable of these.

        Of `connect`, whose data are the incoming messages (None: the client sends none), the result is an EventSource or an async iterator.
        """
        if verb not in cls.verbs and (verb != "connect" or "subscribe" not in cls.verbs):
            raise cls.not_allowed(verb, request.method if verb in CONNECTING else "", target=target)
        cls.authorize(verb, target, data, request)
        return getattr(cls, "on_" + verb)(target, data, request)

    @classmethod
    def prepare_connect(cls, target: RequestTarget, request: Request) -> EventSource | None:
        """Check whether `connect` will be possible, before there is a connection. Raises Problem.

        Returns its result if that does not depend on messages of the client, else None: then `handle` follows.
        """
        if CONNECTING.isdisjoint(cls.verbs):
            raise cls.not_allowed("connect", request.method, target=target)
        cls.authorize("connect", target, None, request)
        return None

    @classmethod
    def on_connect(cls, target: RequestTarget, incoming: Any, request: Request) -> Any:
        """The subscription; messages of the client are ignored."""
        return cls.on_subscribe(target, None, request)

    @classmethod
    def on_subscribe(cls, target: RequestTarget, data: Any, request: Request) -> Any:
        """The events of what is addressed."""
        raise cls.not_allowed("subscribe", request.method, target=target)

    @classmethod
    def allowed_methods(cls, target: RequestTarget | None = None) -> tuple[str, ...]:
        """The HTTP methods that are answered at an address of this resource, for `Allow`; None: somewhere in it."""
        missing = () if target is None else cls.methods_missing(target)
        methods: dict[str, None] = {}
        for verb in sorted(cls.verbs & VERBS.keys(), key=list(VERBS).index):
            if VERBS[verb] not in missing:
                methods[VERBS[verb]] = None
                if verb == "get":
                    methods["HEAD"] = None
        methods["OPTIONS"] = None
        return tuple(methods)

    @classmethod
    def methods_missing(cls, target: RequestTarget) -> tuple[str, ...]:
        """What the matrix of http §2.1 leaves out at this kind of address, whatever the resource implements."""
        if target.property is not None:
            return ("PUT", "PATCH", "POST", "DELETE", "QUERY")
        if target.id_text is not None:
            return ("QUERY",)
        return ("PATCH", "DELETE") if target.is_root else ("PATCH",)

    @classmethod
    def not_allowed(cls, verb: str, method: str = "", *, target: RequestTarget | None = None) -> MethodNotAllowed:
        method = method or VERBS.get(verb, verb.upper())
        message = f"The {cls.name} does not have a {verb} method implemented to handle HTTP method {method}"
        return MethodNotAllowed(message, cls.allowed_methods(target))
