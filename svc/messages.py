"""Request, Response and Headers: the interface of handlers, the same for every protocol (architecture §11).

A request's head comes in two parts. `HeaderBlock` is the parsed, immutable block of header fields; clients repeat it byte for byte, so drivers
cache it and everything derived from it (`memo`) is computed once. `Request` has the values that are new each time: method, target, body.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from svc.errors import ClientError, Problem
from svc.trace_context import trace_id_of

HeaderPairs = list[tuple[str, str]]

UNIX_PEER = "unix"
"""The address of peers on the Unix socket of the operations API."""

_UNDECODED: Final = object()
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class HeaderBlock:
    """The header fields of one request head: immutable, shared by all requests that repeat it.

    `fields`: lower-case name -> value, repeated fields joined with `, ` (`Cookie` with `; `, RFC 9110 §5.3, RFC 6265 §5.4).
    `memo`: for values that layers above derive from these fields (negotiated types, identified user). Each layer owns its own key;
    a value that depends on more than the fields (a user's rights, a configuration) must carry its own check of validity.
    """

    __slots__ = ("fields", "memo", "pairs")

    def __init__(self, pairs: HeaderPairs) -> None:
        """`pairs`: names in lower case, in the order received."""
        self.pairs = pairs
        fields: dict[str, str] = {}
        for name, value in pairs:
            if name in fields:
                fields[name] += ("; " if name == "cookie" else ", ") + value
            else:
                fields[name] = value
        self.fields = fields
        self.memo: dict[str, Any] = {}

    def get(self, name: str) -> str | None:
        """The value of a field by its lower-case name."""
        return self.fields.get(name)


class Headers:
    """Mutable header fields of a request (a copy of its block) or a response; names are case-insensitive, order is kept."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterable[tuple[str, str]] | dict[str, str] | None = None) -> None:
        self._pairs: HeaderPairs = []
        if pairs:
            for name, value in pairs.items() if isinstance(pairs, dict) else pairs:
                self.append(name, value)

    @classmethod
    def trusted(cls, pairs: HeaderPairs) -> Headers:
        """Take over a list of valid names and values, without a copy or a check."""
        headers = cls.__new__(cls)
        headers._pairs = pairs
        return headers

    def get(self, name: str, default: str | None = None) -> str | None:
        lower = name.lower()
        values = [value for key, value in self._pairs if key.lower() == lower]
        return ", ".join(values) if values else default

    def set(self, name: str, value: object) -> None:
        """Replace the field; `Set-Cookie` accumulates (architecture §11)."""
        if name.lower() != "set-cookie":
            self.delete(name)
        self.append(name, value)

    def append(self, name: str, value: object) -> None:
        """Raises ValueError for what cannot be sent: a name that is no token, a value with control characters or beyond latin-1 (RFC 9110 §5.5)."""
        text = str(value)
        if _TOKEN.fullmatch(name) is None or ((not text.isascii() or not text.isprintable()) and _FIELD_VALUE.fullmatch(text) is None):
            raise ValueError(f"not a header field: {name!r}: {text!r}")
        self._pairs.append((name, text))

    def has(self, name: str) -> bool:
        lower = name.lower()
        return any(key.lower() == lower for key, _ in self._pairs)

    def delete(self, name: str) -> None:
        lower = name.lower()
        self._pairs[:] = [pair for pair in self._pairs if pair[0].lower() != lower]

    def pairs(self) -> HeaderPairs:
        return self._pairs

    __contains__ = has
    __setitem__ = set
    __delitem__ = delete

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __repr__(self) -> str:
        return f"Headers({self._pairs!r})"


class FeedWriter(Protocol):
    """The writer of a feed: sends the body of one answer."""

    @property
    def pending(self) -> int:
        """Bytes written and not yet taken by the socket or the peer's flow control. Bytes written while this is large are held in memory."""

    def write(self, data: bytes) -> None:
        """Queue for the end of the turn. The bytes may be shared with other answers. Dropped after `end` and after `Feed.close`."""

    def end(self) -> None:
        """The body is complete."""


class Feed:
    """A body that is written when something happens, for as long as the peer listens. No deadline applies to it while it has nothing unsent."""

    def start(self, writer: FeedWriter) -> None:
        """The head is on its way; `writer.write` works from now on."""
        raise NotImplementedError

    def on_sent(self) -> None:
        """All that was written is sent: `pending` is 0 again. Called only after it was not, at the end of a turn."""

    def sweep(self, now: float) -> None:
        """About once a second, with `clock.monotonic()`: for keep-alive messages."""

    def drain(self) -> None:
        """The server is stopping: call `writer.end()` soon."""

    def login_ended(self) -> None:
        """What let the caller in has ended (`auth.logins`): call `writer.end()` soon. Event streams are ended so, other answers are not."""
        self.drain()

    def close(self) -> None:
        """The feed is over: the peer closed, or `end` was called and all is sent. Called once, also if `start` never was; nothing follows."""


# A streamed body is pulled when the out-buffer has room. `b""` means: nothing yet, pull again in the next turn (a long scan yields).
BodyStream = Iterator[bytes] | AsyncIterator[bytes]


class Response:
    """A response. `data` is encoded in the content type that the client prefers, `body` is sent as it is.

    The header fields hold only what the handler decided: `Date`, `Content-Length` and the transfer coding are the driver's. Inner layers read and
    write them as `pairs`, without a check; handlers use `headers`, which checks. Both are the same list.
    """

    __slots__ = ("_headers", "body", "data", "pairs", "status")

    def __init__(
        self,
        body: bytes | str | BodyStream | Feed | None = None,
        status: int = 200,
        headers: Headers | dict[str, str] | None = None,
        data: Any = None,
        *,
        pairs: HeaderPairs | None = None,
    ) -> None:
        self.body = body
        self.status = status
        self.data = data
        self._headers: Headers | None = None
        if headers is not None:
            self._headers = headers if isinstance(headers, Headers) else Headers(headers)
            pairs = self._headers.pairs()
        self.pairs: HeaderPairs = [] if pairs is None else pairs

    @property
    def headers(self) -> Headers:
        if self._headers is None:
            self._headers = Headers.trusted(self.pairs)
        return self._headers

    def __repr__(self) -> str:
        return f"<Response {self.status}>"


class Abort(Exception):
    """Raised by a handler: answer with `response` now and undo what the request wrote (architecture §11)."""

    def __init__(self, response: Response) -> None:
        super().__init__(f"answered with {response.status}")
        self.response = response


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


class AppliedWrites(Protocol):
    """Writes that are applied and not yet on disk: `store.Transaction`."""

    outcome: tuple[Problem | None] | None  # what `on_done` was called with; None before
    on_done: Callable[[Problem | None], None] | None  # called by the turn's commit: None, or the problem that undid the writes

    def abort(self) -> None: ...


class WritePrecondition(Protocol):
    """A condition on the stored record: `store.Precondition`."""

    def check(self, raw: bytes | None) -> None:
        """Raise unless the stored record satisfies it; None: there is no record."""


class RequestSessions(Protocol):
    """The sessions of browsers: `auth.Sessions`."""

    def of(self, request: Request) -> Any:
        """`request.session`."""

    async def login(self, request: Request, username: str, password: str) -> object: ...


class Spans(Protocol):
    """Records the spans below that of a request: `tracing.RequestSpans`."""

    def call(self, name: str, function: Callable[[], Any]) -> Any:
        """`function()` in a span of this name; what it returns, or an awaitable of what its awaitable results in."""

    def note(self, attributes: Mapping[str, str]) -> None:
        """Add to what the span of the request says."""


class CallState:
    """What application code knows of the call it runs in, besides the request: the members of a context (spec: applications §5). Most calls set none of
    them, so the defaults are those of the class."""

    transaction: Any = None  # api.Transaction, while one is open
    timestamp: float | None = None  # ms: when the call began, the same in all of it
    expires_at: float | None = None  # ms: when what is written next expires
    handler: Any = None  # api.Verb: the handler of an application that runs, for the log
    target: Any = None  # what the request of the protocol addresses
    owner: Any = None  # the store's table of the resource that is addressed
    new_location: str | None = None  # of a record that was created: the answer is 201 with `Location`
    created_resource: bool = False
    loaded_from_source: bool | None = None  # of a caching table: whether the source was asked
    metric_type: str | None = None  # of the metrics of the request: "cache-hit" or "cache-miss" of a caching table, "framework-route"
    trace_id: bytes | None = None  # of the trace that is recorded; None: none is, see `Request.trace_id`
    spans: Spans | None = None  # of the request, if it is traced
    rows: int | None = None  # that the answer has, so far; None: it is no list
    response: Any = None  # Response whose status and header fields apply to plain data
    if_version: float | None = None  # the version that the next write expects
    authorize: bool = False  # calls of code are checked as those of a protocol
    source: Any = None
    originating_operation: str | None = None
    only_if_cached: bool | None = None
    no_cache: bool | None = None
    no_cache_store: bool | None = None
    stale_if_error: bool | None = None
    must_revalidate: bool | None = None
    max_age: float | None = None
    replicate_to: Any = None
    replicated_confirmation: int | None = None
    replicate_from: bool | None = None

    def next_call(self) -> CallState:
        """The state of another call for the same request: of this one it has nothing but the trace."""
        state = CallState()
        state.trace_id, state.spans = self.trace_id, self.spans
        return state


def _member(name: str) -> property:
    """A member of `CallState` as one of the context itself."""

    def get(self: ContextMembers) -> Any:
        return getattr(self.state, name)

    def set_(self: ContextMembers, value: Any) -> None:
        setattr(self.state, name, value)

    return property(get, set_)


class ContextMembers:
    """The members that every context has, a request or one of code that runs without a request."""

    __slots__ = ()

    _last_modified: Any

    @property
    def state(self) -> CallState:
        raise NotImplementedError

    transaction = _member("transaction")

    @property
    def timestamp(self) -> float | None:
        """When the call began, ms since the epoch: the same in all of it. None: it has no transaction."""
        state = self.state
        if state.timestamp is None and state.transaction is not None:
            state.timestamp = state.transaction.timestamp
        return state.timestamp

    @property
    def last_modified(self) -> Any:
        """ms: drives `ETag` of what a handler returns."""
        return self._last_modified

    @last_modified.setter
    def last_modified(self, value: Any) -> None:
        if isinstance(value, datetime):
            value = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).timestamp() * 1000
        self._last_modified = value

    expires_at = _member("expires_at")
    new_location = _member("new_location")
    created_resource = _member("created_resource")
    loaded_from_source = _member("loaded_from_source")
    response = _member("response")
    if_version = _member("if_version")
    authorize = _member("authorize")
    source = _member("source")
    originating_operation = _member("originating_operation")
    only_if_cached = _member("only_if_cached")
    no_cache = _member("no_cache")
    no_cache_store = _member("no_cache_store")
    stale_if_error = _member("stale_if_error")
    must_revalidate = _member("must_revalidate")
    max_age = _member("max_age")
    replicate_to = _member("replicate_to")
    replicated_confirmation = _member("replicated_confirmation")
    replicate_from = _member("replicate_from")


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
        "method",
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
        self.native_body = False  # the decoded body's values have types of their own (dates, bytes), as from CBOR; else they are as in JSON
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
    def handler(self) -> Any:
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


# --- connections that stop being HTTP: what an upgrade hands over (RFC 9110 §7.8; RFC 8441) ---


class Tunnel(Protocol):
    """Bytes both ways, over a socket, TLS or a stream of HTTP/2."""

    peer: str  # address of the transport peer, without port
    scheme: str  # "http" or "https"

    @property
    def pending(self) -> int:
        """Bytes written and not yet taken by the socket or the peer's flow control. Bytes written while this is large are held in memory."""

    def write(self, data: bytes) -> None:
        """Queue for the end of the turn. The bytes may be shared with other tunnels. Dropped after `close`, `abort` or `on_closed`."""

    def close(self) -> None:
        """Nothing more will be written: end our half once all is sent, and the whole when the peer has ended its half, or shortly after."""

    def abort(self) -> None:
        """End it now; unsent bytes are discarded."""

    def pause_reading(self) -> None:
        """No `on_data` until `resume_reading`: the socket is not read."""

    def resume_reading(self) -> None: ...


class Receiver(Protocol):
    """The other protocol. Called on the loop, never from inside a call of its own to the tunnel."""

    def start(self, tunnel: Tunnel) -> None:
        """The upgrade is granted; `write` works from now on. What the peer has sent meanwhile follows as `on_data`."""

    def on_data(self, data: bytes) -> None: ...

    def on_eof(self) -> None:
        """The peer will send nothing more; it may still read."""

    def on_sent(self) -> None:
        """All that was written is sent: `pending` is 0 again. Called only after it was not, at the end of a turn."""

    def on_closed(self) -> None:
        """The tunnel is closed, for any reason, `abort` included. Called once, also if `start` never was; nothing follows."""

    def sweep(self, now: float) -> None:
        """About once a second, with `clock.monotonic()`: for deadlines."""

    def drain(self) -> None:
        """The server is stopping: close the tunnel soon."""

    def login_ended(self) -> None:
        """What let the caller in has ended (`auth.logins`): close the tunnel soon."""


class Upgrade(Response):
    """The answer that makes the connection a tunnel. `protocol`: the value of `Upgrade`, one the request offered; "": the receiver itself writes the
    answer to the request, head and all (HTTP/1.1 only)."""

    __slots__ = ("protocol", "receiver")

    def __init__(self, protocol: str, receiver: Receiver, pairs: HeaderPairs | None = None) -> None:
        super().__init__(None, 101, pairs=pairs)
        self.protocol = protocol
        self.receiver = receiver
