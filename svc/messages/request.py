"""Request: what a client asks, the same for every protocol (architecture §11), and the context that its handler runs in.

A request's head comes in two parts. `HeaderBlock` is the parsed, immutable block of header fields; clients repeat it byte for byte, so drivers
cache it and everything derived from it (`memo`) is computed once. `Request` has the values that are new each time: method, target, body.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable
from typing import Any, Final, Protocol

from svc.errors import ClientError
from svc.messages.call_state import AppliedWrites, CallState, ContextMembers, HandlerOfApplication, WritePrecondition
from svc.messages.headers import HeaderBlock, HeaderPairs, Headers
from svc.trace_context import trace_id_of

UNIX_PEER = "unix"
"""The address of peers on the Unix socket of the operations API."""

_UNDECODED: Final = object()


class Transport(Protocol):
    """The exchange of a request, as the request sees it: `connection.Exchange`."""

    def send_early_hints(self, pairs: HeaderPairs) -> None: ...

    def decode_content(self, request: Request) -> Any:
        """The body as a value, by its content type. Raises Problem 400 or 415."""


class Caller(Protocol):
    """The user of a request, as the layers without permissions see it: `auth.User`. `auth.user_of` returns the User."""

    @property
    def username(self) -> str: ...

    @property
    def super_user(self) -> bool: ...

    @property
    def active(self) -> bool: ...

    @property
    def login_id(self) -> str: ...


class RequestSessions(Protocol):
    """The sessions of browsers: `auth.Sessions`."""

    def of(self, request: Request) -> Any:
        """`request.session`."""

    async def login(self, request: Request, username: str, password: str) -> object: ...


class Request(ContextMembers):
    """One request, of whatever protocol, and the context its handler runs in (architecture §11)."""

    __slots__ = (
        "_data",
        "_headers",
        "_last_modified",
        "_session",
        "_state",
        "added_headers",
        "answered",
        "arrived",
        "block",
        "content",
        "exchange",
        "foreign",
        "handler_path",
        "http_version",
        "is_decoded",
        "is_narrowed",
        "method",
        "mqtt",
        "native_body",
        "offers",
        "pathname",
        "peer",
        "peer_certificate",
        "pending_commit",
        "precondition",
        "prefix",
        "proxy",
        "query",
        "refresh_token",
        "restore",
        "scheme",
        "sessions",
        "target",
        "upgraded",
        "upload",
        "user",
    )

    def __init__(self, method: str, target: str, block: HeaderBlock, content: bytes = b"", http_version: str = "1.1") -> None:
        self.method = method
        self.target = target  # as received, origin form: path, `?` and query, still percent-encoded
        self.block = block
        self.content = content  # the complete body, transfer coding removed
        self.upload: Any = None  # the result of a body sink; then `content` is empty
        self.http_version = http_version
        path, mark, query = target.partition("?")
        self.pathname = path
        self.query: str | None = query if mark else None
        self.scheme = "http"
        self.upgraded = False  # a listener has taken the upgrade, so the default one leaves it alone (architecture §11)
        self.offers = ""  # the protocol that the client asks to go on with, in lower case: "websocket"; with HTTP/2 its `:protocol`
        self.peer = ""  # address of the client, without port: the transport peer, or what a trusted proxy names (`http.trustedProxies`)
        self.prefix = ""  # path before the target in the address that the client used: "/svc"; a trusted proxy, or the server around this one, has removed it
        self.proxy = ""  # address of the transport peer, if that is a trusted proxy
        self.peer_certificate: Any = None  # tls.PeerCertificate of a TLS client, verified; None without one
        self.arrived = 0.0  # clock.monotonic() when the head was complete
        self.answered = 0.0  # ... and when its answer's head was ready
        self.exchange: Transport | None = None
        self.foreign: str | None = None  # of a page of a foreign origin: why what its browser adds does not identify it
        self.user: Caller | None = None  # set by auth.Identifier; None = anonymous
        self.sessions: RequestSessions | None = None  # None: sessions are switched off
        self.refresh_token: str | None = None  # a valid one sent as `Bearer`; it does not identify a user
        self.pending_commit: AppliedWrites | None = None  # applied by the handler: the answer waits for the turn's commit
        self.precondition: WritePrecondition | None = None  # of the next write to the addressed record (`If-Match` and the like)
        self._last_modified = None
        self.handler_path = ""  # registered address of the resource that took the request; "" = none did
        self.is_decoded = False  # the content coding has been removed from `content`
        self.is_narrowed = False  # rules on rows decide what its caller, whoever that is, may see in the answer
        self.native_body = False  # the decoded body's values have types of their own (dates, bytes), as from CBOR; else they are as in JSON
        self.mqtt: Any = None  # store.writing.mqtt_message.MqttMessage: the message of MQTT that it carries out
        self.restore: Any = None  # content.unchanged.Restore: restores stored values that the decoded body repeats in their encoded form
        self.added_headers: Headers | None = None  # `response_headers`, if a handler asked for them
        self._headers: Headers | None = None
        self._session: Any = None
        self._state: CallState | None = None
        self._data: Any = _UNDECODED

    @property
    def state(self) -> CallState:
        if self._state is None:
            self._state = CallState()
        return self._state

    @property
    def handler(self) -> HandlerOfApplication | None:
        """The handler of an application that answers, for the log; None: there is none."""
        return None if self._state is None else self._state.handler

    @property
    def trace_id(self) -> bytes | None:
        """The trace that the request is part of, 16 bytes: the one that is recorded, or the one that its `traceparent` names. None: it is in none."""
        state = self._state
        if state is not None and state.trace_id is not None:
            return state.trace_id
        given = self.block.fields.get("traceparent")
        return None if given is None else trace_id_of(given)

    @property
    def url(self) -> str:
        """Path and query; follows a change of `pathname`."""
        return self.pathname if self.query is None else f"{self.pathname}?{self.query}"

    @property
    def protocol(self) -> str:
        """`http` or `https`, as the client used it."""
        return self.scheme

    @property
    def headers(self) -> Headers:
        """A copy of the fields for handlers. What a listener changes in it counts for the steps after it (`adopt_headers`)."""
        if self._headers is None:
            self._headers = Headers.trusted(list(self.block.fields.items()))
        return self._headers

    def adopt_headers(self) -> None:
        """Make `block` what `headers` has become."""
        if self._headers is not None:
            pairs = [(name.lower(), value) for name, value in self._headers.pairs()]
            if pairs != list(self.block.fields.items()):
                self.block = HeaderBlock(pairs)

    @property
    def response_headers(self) -> Headers:
        """Fields to add to the answer, also to an error."""
        if self.added_headers is None:
            self.added_headers = Headers()
        return self.added_headers

    @property
    def host(self) -> str:
        return self.block.fields.get("host", "")

    @property
    def ip(self) -> str:
        return self.peer

    @property
    def absolute_url(self) -> str:
        return f"{self.scheme}://{self.host}{self.prefix}{self.url}"

    @property
    def is_websocket(self) -> bool:
        return self.offers == "websocket"

    @property
    def authorized(self) -> bool:
        """Whether the client showed a certificate that was verified."""
        return self.peer_certificate is not None

    @property
    def raw_request(self) -> Transport | None:
        """The transport's own object; its interface may change."""
        return self.exchange

    raw_response = raw_request

    @property
    def session(self) -> Any:
        """The session of the caller's cookie (`auth.sessions.Session`), an empty one without; None if sessions are switched off."""
        if self._session is None and self.sessions is not None:
            self._session = self.sessions.of(self)
        return self._session

    async def login(self, username: str, password: str) -> None:
        """Begin a session of this user and set its cookie. Raises Problem 401 for a wrong name or password, 400 without sessions."""
        if self.sessions is None:
            raise ClientError("No session for login")
        await self.sessions.login(self, username, password)

    @property
    def data(self) -> Awaitable[Any]:
        """The decoded body; decoded once, when it is first awaited. A body that cannot be decoded raises Problem there."""
        return self._decode()

    async def _decode(self) -> Any:
        if self._data is _UNDECODED:
            if self.exchange is None:
                raise RuntimeError("this request has no transport that could decode its body")
            data = self.exchange.decode_content(self)
            self._data = await data if inspect.isawaitable(data) else data
        return self._data

    @property
    def body(self) -> AsyncIterator[bytes]:
        """The bytes of the body."""
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[bytes]:
        if self.upload is not None:  # it is in a file
            async for piece in self.upload.stream():
                yield piece
        elif self.content:
            yield self.content

    def send_early_hints(self, link: str | list[str], headers: dict[str, str] | None = None) -> None:
        """Send 103 with these `Link` values (RFC 8297) ahead of the answer. Nothing happens on HTTP/1.0, after the answer has begun, or for a request that
        offers another protocol: clients of WebSockets take it for a refusal."""
        if self.exchange is None or self.offers:
            return
        fields = Headers([("Link", value) for value in ([link] if isinstance(link, str) else link)])
        for name, value in (headers or {}).items():
            fields.append(name, value)
        self.exchange.send_early_hints(fields.pairs())

    sendEarlyHints = send_early_hints
    _nodeRequest = raw_request
    _nodeResponse = raw_response

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.target}>"


# The name that applications use (architecture §11). Written inside the class, Python would mangle it.
setattr(Request, "__service_request_upgraded", Request.__dict__["upgraded"])
