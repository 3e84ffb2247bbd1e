"""The user of a request (spec: http §11.1, security §1, rows §2.7).

Called once per request, so the usual answer is in the header block's memo: blocks repeat byte for byte, and with them the user.
The memo holds (generation, expiry, user): fresh while no user or role has changed and the verified credential has not run out. It is for
credentials in the header; a session may change from one request to the next, and is looked up each time. Blocks of pages are not remembered:
what their origin is to the server depends on more than the block.

A request of a page of a foreign origin (`auth.origin_policy`) is anonymous, whatever its browser added, unless it brings a Bearer token or a ticket.

A ticket is good once, and a handshake may be identified several times: when it is taken the request gets a header block of its own, whose memo has the
user.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from ipaddress import IPv6Address, ip_address
from typing import Any, Protocol
from urllib.parse import quote

from svc.auth.events import BASIC, CERTIFICATE, KEY, TICKET, TOKEN, AuthEvents
from svc.auth.logins import Login, LoginStream, LoginWatches, account_counts
from svc.auth.origin_policy import OriginPolicy
from svc.auth.sessions import ForeignSessions, Sessions
from svc.auth.tickets import PARAMETER, Tickets, cut_ticket, invalid_ticket, takes_ticket
from svc.auth.tokens import Tokens, invalid_token
from svc.auth.usernames import canonical_username
from svc.auth.users import KEY_START, User, UserDirectory
from svc.auth.verifier import PendingVerification, Verifier, login_failed
from svc.clock import SYSTEM_CLOCK, Clock
from svc.errors import Problem
from svc.messages import HeaderBlock, HeaderPairs, Request, Response

__all__ = [
    "TOKEN_CHALLENGE",
    "UNIX_PEER",
    "Admission",
    "Credentials",
    "Identifier",
    "PendingVerification",
    "challenge",
    "challenge_headers",
]

UNIX_PEER = "unix"
"""`Request.peer` of a caller on the Unix socket."""

_MEMO = "auth.user"
_LOCAL_MEMO = "auth.local"
_TICKET_MEMO = "auth.ticket"
REMEMBERED_LOGINS = 1000  # users
_TICKET_SIGN = f"{PARAMETER}="
_FORWARDED_MEMO = "auth.forwarded"
_PROXY_FIELDS = frozenset(
    (
        "forwarded", "via", "client-ip", "cdn-loop", "fastly-client-ip", "fastly-ff", "incap-client-ip", "max-forwards", "proxy-connection",
        "true-client-ip", "x-amzn-trace-id", "x-client-ip", "x-cloud-trace-context", "x-cluster-client-ip", "x-host", "x-originating-ip",
        "x-proxyuser-ip", "x-real-ip", "x-remote-addr", "x-remote-ip", "x-rewrite-url", "x-scheme", "x-url-scheme", "x-varnish",
    )
)  # fmt: skip
_IDENTIFYING = frozenset(("authorization", "cookie", "origin", "sec-fetch-site"))
_PROXY_PREFIXES = ("x-forward", "x-original-", "x-envoy-", "x-azure-", "x-appengine-", "x-arr-", "x-vercel-", "cf-", "fly-", "tailscale-")
_CHALLENGE = (("WWW-Authenticate", 'Basic realm="svc", charset="UTF-8"'), ("WWW-Authenticate", 'Bearer realm="svc"'))
TOKEN_CHALLENGE = _CHALLENGE[1:]
"""For answers on which no browser is to ask its user itself."""


class Certificates(Protocol):
    """Maps certificates of TLS clients to users (`tls.mtls`)."""

    def username(self, certificate: Any) -> str | None:
        """The user's name; None: other credentials decide. Raises Problem 401 for a certificate without a user, or a revoked one."""


class Keys(Protocol):
    """Checks API keys: `api_keys.ApiKeys`."""

    def verify(self, text: str) -> User:
        """Who asks with this key. Raises Problem 401."""

    def life(self, user: User) -> float:
        """Seconds for which a key that was verified may be remembered."""


@dataclass(slots=True)
class Credentials:
    """What checks each kind of credentials on one server; None: the kind is not accepted there.

    `verifier`: of passwords; servers that share one share the credentials that it has verified. `certificates`: of TLS clients.
    `keys`: returns what checks API keys, asked for when one comes.
    """

    verifier: Verifier
    tokens: Tokens | None = None
    sessions: Sessions | None = None
    tickets: Tickets | None = None
    certificates: Certificates | None = None
    keys: Callable[[], Keys] | None = None


@dataclass(frozen=True)
class Admission:
    """What one server admits beside the credentials of users.

    `local`: callers on this machine need none; application ports only, never the operations port. `host_name`: of this node, a name under which they
    may call it. `unix_socket`: nor do callers on the Unix socket. `refresh_tokens`: one as `Bearer` identifies no user, but is accepted as
    `request.refresh_token`.
    """

    local: bool = False
    host_name: str = "localhost"
    unix_socket: bool = False
    refresh_tokens: bool = False


class Identifier:
    """Identifies the requests of one server (a port may admit local callers without credentials, another not).

    `login_path`: where browsers are sent to (`challenge`); None: there is no such page.
    """

    def __init__(
        self,
        directory: UserDirectory,
        credentials: Credentials,
        admission: Admission = Admission(),
        *,
        clock: Clock = SYSTEM_CLOCK,
        origins: OriginPolicy | None = None,
        events: AuthEvents | None = None,
        logins: LoginWatches | None = None,
    ) -> None:
        """`origins`: of the pages that are trusted; None: the server's own alone. `events`: the log of logins; None: none is kept.
        `logins`: ends streams with what let their callers in; None: they go on."""
        self._directory = directory
        self._now = clock.monotonic
        self._wall = clock.wall
        self.verifier = credentials.verifier
        self._tokens = credentials.tokens
        self._keys = credentials.keys
        sessions = credentials.sessions
        self._sessions = sessions if sessions is not None and sessions.enabled else None
        self._tickets = credentials.tickets
        self._certificates = credentials.certificates
        self._events = events if events is not None and events.enabled else None
        if self._events is not None:
            self.verifier.events = self._events
        self._authorize_local = admission.local
        self._local_names = frozenset({"localhost", admission.host_name.lower()})
        self._accept_refresh = admission.refresh_tokens
        self._admit_socket = admission.unix_socket
        self.login_path: str | None = None
        self._logins = logins
        self._account_logins: dict[str, tuple[User, Login]] = {}  # by user name
        self._origins = OriginPolicy() if origins is None else origins

    def identify(self, request: Request) -> User | PendingVerification | None:
        """The user; None for an anonymous caller; a Pending where a password has to be verified first.

        Raises Problem: 401 for credentials that are there and wrong, 503 with too many verifications outstanding.
        """
        block = request.block
        request.sessions = self._sessions
        if request.query is not None and self._tickets is not None and _TICKET_SIGN in request.query and takes_ticket(request):
            pending = self._by_ticket(self._tickets, request)
            if pending is not None:
                return pending
        if (
            request.peer_certificate is not None
            and self._certificates is not None
            and _TICKET_MEMO not in block.memo
            and not self._origins.is_foreign(request)
        ):
            # Before the memo: connections share header blocks, not certificates.
            user = self._by_certificate(self._certificates, request)
            if user is not None:
                return user
        memo = block.memo.get(_MEMO)
        if memo is not None and memo[0] == self._directory.generation and memo[1] > self._now():
            return memo[2]  # type: ignore[no-any-return]
        if _TICKET_MEMO in block.memo:
            return self._ticket_user(block.memo[_TICKET_MEMO], request)
        fields = block.fields
        authorization = fields.get("authorization")
        if ("origin" in fields or "sec-fetch-site" in fields) and self._origins.is_foreign(request):
            return self._of_foreign_page(authorization, request)
        if authorization is not None:
            found = self._by_header(authorization, request)
            if found is not None or request.refresh_token is not None:
                return found
        if self._sessions is not None and "cookie" in fields:
            user = self._sessions.user(request)
            if user is not None:
                return user
        if self._admit_socket and request.peer == UNIX_PEER and not is_forwarded(block):
            return self._directory.first_super_user()
        if self._authorize_local and not request.proxy and is_loopback(request.peer) and self._is_local(block):
            return self._directory.first_super_user()
        return None

    @property
    def directory(self) -> UserDirectory:
        return self._directory

    def remembered(self, block: HeaderBlock) -> tuple[int, float, User] | None:
        """(generation of the directory, monotonic time of its end, user) that the credentials in a header block stand for, as long as both hold; None: who
        asks is found out each time."""
        found: tuple[int, float, User] | None = None if _TICKET_MEMO in block.memo else block.memo.get(_MEMO)
        return found

    def is_anonymous(self, block: HeaderBlock) -> bool:
        """Whether requests with this header block are those of nobody, wherever they come from."""
        admits_some = self._admit_socket or self._authorize_local or _TICKET_MEMO in block.memo
        return not admits_some and _IDENTIFYING.isdisjoint(block.fields)

    def is_local(self, block: HeaderBlock) -> bool:
        """Whether requests with this header block are those of the first super user, if they come from this machine."""
        return self._authorize_local and _TICKET_MEMO not in block.memo and _IDENTIFYING.isdisjoint(block.fields) and self._is_local(block)

    def current(self, user: User) -> User | None:
        """The user as it is now; None if it is gone, or its logins have ended."""
        return self._directory.current(user)

    def watch_login(self, request: Request, stream: LoginStream) -> None:
        """End a stream for the user of this request with what let the user in. A second call for the same stream replaces it."""
        user = request.user
        if self._logins is not None and type(user) is User:
            self._logins.watch(self._login(request, user), stream)

    def _login(self, request: Request, user: User) -> Login:
        """What let this user in, in the order of `identify`. Of a password, a ticket, a local caller and a user that code has set it is the account."""
        name = user.username
        account = self._account(user)
        if _TICKET_MEMO in request.block.memo:
            return self._account_login(user)
        is_foreign = self._origins.is_foreign(request)
        certificate, certificates = request.peer_certificate, self._certificates
        if certificate is not None and certificates is not None and not is_foreign and (named := _name_of(certificates, certificate)) != "":
            login = (
                Login(name, account)
                if named is not None and canonical_username(named) == name
                else self._login_without_certificate(request, user, account)
            )
            return Login(name, lambda: certificates.username(certificate) == named and login.counts(), login.session_id)
        return self._login_without_certificate(request, user, account, is_foreign=is_foreign)

    def _login_without_certificate(self, request: Request, user: User, account: Callable[[], bool], *, is_foreign: bool = False) -> Login:
        name, block, sessions = user.username, request.block, self._sessions
        if user.key is not None:
            return Login(name, partial(account_counts, self._directory, user), key_name=user.key.name)
        scheme, _, token = block.fields.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._tokens is not None and self._tokens.claimed_name(token.strip()) == name:
            return Login(name, self._tokens.watched(token.strip()))
        if scheme.lower() != "basic" and sessions is not None and "cookie" in block.fields and not is_foreign:
            session_id = sessions.id_with_user(request, name)
            if session_id is not None:
                return Login(name, lambda: sessions.has_user(session_id, name), session_id)
        return self._account_login(user)

    def _account(self, user: User) -> Callable[[], bool]:
        return self._account_login(user).counts

    def _account_login(self, user: User) -> Login:
        """That of an account alone: one for all streams of the same user."""
        known = self._account_logins
        found = known.get(user.username)
        if found is None or found[0] is not user:
            if len(known) >= REMEMBERED_LOGINS:
                known.clear()
            found = known[user.username] = (user, Login(user.username, partial(account_counts, self._directory, user)))
        return found[1]

    def admit(self, request: Request) -> None:
        """Take over the user that application code has set on the request: it gets its sessions. Raises Problem 401 for an inactive user, TypeError for what is
        no user."""
        user = request.user
        if type(user) is not User:
            raise TypeError(f"request.user must be a user of this server, as `get_user` returns them, not {type(user).__name__}")
        if not user.active:
            raise Problem("Cannot complete request: User is inactive", 401)
        self.give_sessions(request)

    def give_sessions(self, request: Request) -> None:
        """What `identify` does besides: the request gets its sessions, for code that runs before."""
        request.sessions = self._sessions
        fields = request.block.fields
        if self._sessions is not None and ("origin" in fields or "sec-fetch-site" in fields) and self._origins.is_foreign(request):
            request.sessions = ForeignSessions(self._origins.refusal(request))

    def _by_ticket(self, tickets: Tickets, request: Request) -> PendingVerification | None:
        """What finds the user of the ticket in the address, which is cut out; None if there is none after all."""
        try:
            ticket = cut_ticket(request)
        except Problem:
            if self._events is not None:
                self._events.failure(request, TICKET, None)
            raise
        if ticket is None:
            return None
        request.block = HeaderBlock(request.block.pairs)
        pending = PendingVerification(_TicketUse(request), b"", partial(tickets.take, ticket))
        pending.on_loop = True
        if self._events is not None:
            pending.report = self._events.outcome(request, TICKET, None)
        request.block.memo[_TICKET_MEMO] = pending
        self.give_sessions(request)
        return pending

    def _ticket_user(self, found: User | PendingVerification, request: Request) -> User | PendingVerification:
        """As it is now: the request, or another one on the same WebSocket, is identified again."""
        self.give_sessions(request)
        if isinstance(found, PendingVerification):
            return found
        user = self.current(found)
        if user is None:
            raise invalid_ticket()
        return user

    def _of_foreign_page(self, authorization: str | None, request: Request) -> User | PendingVerification | None:
        """Only a Bearer token counts: browsers add none on their own."""
        reason = self._origins.refusal(request)
        if self._sessions is not None:
            request.sessions = ForeignSessions(reason)
        if authorization is None or authorization.partition(" ")[0].lower() != "bearer":
            request.foreign = reason
            return None
        return self._by_header(authorization, request, is_foreign=True)

    def _by_certificate(self, certificates: Certificates, request: Request) -> User | None:
        """None: other credentials decide. A success is logged once for a connection and user."""
        certificate = request.peer_certificate
        username: str | None = certificate.common_name
        try:
            username = certificates.username(certificate)
            if username is None:
                return None
            user = self._directory.get_user(username)
            if user is None:
                raise login_failed()
            if not user.active:
                raise Problem("Cannot complete request: User is inactive", 401)
        except Problem:
            if self._events is not None:
                self._events.failure(request, CERTIFICATE, username)
            raise
        if self._events is not None and certificate.logged_in != username:
            certificate.logged_in = username
            self._events.success(request, CERTIFICATE, username)
        return user

    def _by_header(self, authorization: str, request: Request, *, is_foreign: bool = False) -> User | PendingVerification | None:
        """None: the header holds no credentials that concern us, or a refresh token."""
        scheme, _, rest = authorization.partition(" ")
        scheme = scheme.lower()
        if scheme != "basic" and scheme != "bearer":
            return None
        verifier = self.verifier
        digest = verifier.digest(authorization)
        verified = verifier.known(digest)
        if verified is not None:
            if not is_foreign and "origin" not in request.block.fields:
                request.block.memo[_MEMO] = (verified.generation, verified.expires, verified.user)
            return verified.user
        if scheme == "bearer":
            token = rest.strip()
            return self._by_key(token, digest, request) if token.startswith(KEY_START) else self._by_token(token, digest, request)
        try:
            username, password = decode_basic(rest)
        except Problem:
            if self._events is not None:
                self._events.failure(request, BASIC, None)
            raise
        if not username and not password:
            return None
        pending = verifier.begin(digest, username, password, request.peer)
        if self._events is not None and pending.report is None:
            pending.report = self._events.outcome(request, BASIC, username)
        return pending

    def _by_key(self, key: str, digest: bytes, request: Request) -> User:
        if self._keys is None:
            raise invalid_token()
        try:
            keys = self._keys()
            user = keys.verify(key)
        except Problem as problem:
            if self._events is not None and problem.status_code == 401:
                self._events.failure(request, KEY, None)
            raise
        self.verifier.remember(digest, user, None, keys.life(user))
        if self._events is not None:
            self._events.success(request, KEY, user.username)
        return user

    def _by_token(self, token: str, digest: bytes, request: Request) -> User | PendingVerification | None:
        tokens = self._tokens
        if tokens is None:
            raise invalid_token()
        if not tokens.keys.is_ready:
            return PendingVerification(_WhenKeysAreRead(self, tokens, request), digest, tokens.load)
        try:
            user = self._checked(tokens, token, digest, request)
        except Problem as problem:
            if self._events is not None and problem.status_code == 401:
                self._events.failure(request, TOKEN, tokens.claimed_name(token))
            raise
        if self._events is not None and user is not None:
            self._events.success(request, TOKEN, user.username)
        return user

    def _checked(self, tokens: Tokens, token: str, digest: bytes, request: Request) -> User | None:
        if self._accept_refresh and tokens.is_refresh(token):
            request.refresh_token = token
            return None
        found = tokens.verify(token)
        self.verifier.remember(digest, found.user, None, found.expires - self._wall(), token=(found.account, found.token_id))
        return found.user

    def _is_local(self, block: HeaderBlock) -> bool:
        """Nothing in the header says that a proxy, or a page from elsewhere, speaks here in the name of a local program.

        A page from elsewhere shows by its `Origin`. Where it sends none (a plain GET), `Host` has to be a name of this machine: else a foreign
        name that is made to resolve to 127.0.0.1 would do (DNS rebinding).
        """
        local: bool | None = block.memo.get(_LOCAL_MEMO)
        if local is None:
            fields = block.fields
            host, origin = host_name(fields.get("host", "")), fields.get("origin")
            local = (
                not is_forwarded(block)
                and (host == "" or host in self._local_names or host.endswith(".localhost") or is_loopback(host))
                and (origin is None or host_name(origin.partition("://")[2]) == host)
            )
            block.memo[_LOCAL_MEMO] = local
        return local


def decode_basic(text: str) -> tuple[str, str]:
    """User name and password of a Basic credential (RFC 7617). Raises Problem 401 for an invalid one.

    >>> decode_basic("YW5uOnMzY3JldDo=")
    ('ann', 's3cret:')
    """
    try:
        username, colon, password = b64decode(text.strip(), validate=True).decode().partition(":")
    except ValueError:  # also of base64 and of UTF-8
        raise login_failed() from None
    if not colon:
        raise login_failed()
    return username, password


def _name_of(certificates: Certificates, certificate: Any) -> str | None:
    """The user that a certificate names, None: other credentials decide; "" for one that lets nobody in."""
    try:
        return certificates.username(certificate)
    except Problem:
        return ""


def is_forwarded(block: HeaderBlock) -> bool:
    """Whether the header says that a proxy has forwarded the request."""
    found: bool | None = block.memo.get(_FORWARDED_MEMO)
    if found is None:
        found = block.memo[_FORWARDED_MEMO] = any(name in _PROXY_FIELDS or name.startswith(_PROXY_PREFIXES) for name in block.fields)
    return found


@lru_cache(256)
def is_loopback(address: str) -> bool:
    """127.0.0.0/8, ::1, and both as IPv4-mapped address.

    >>> is_loopback("::ffff:127.0.0.1"), is_loopback("10.0.0.1"), is_loopback("")
    (True, False, False)
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return parsed.is_loopback


def host_name(host: str) -> str:
    """The name or address in `name[:port]`, in lower case, without brackets.

    >>> host_name("[::1]:9926"), host_name("Localhost:80"), host_name("127.0.0.1")
    ('::1', 'localhost', '127.0.0.1')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].rstrip(".").lower()


class _WhenKeysAreRead:
    """The owner of a `PendingVerification` for a token that came before the keys: its work reads them, the rest is quick."""

    def __init__(self, identifier: Identifier, tokens: Tokens, request: Request) -> None:
        self._identifier = identifier
        self._tokens = tokens
        self._request = request

    def finish(self, pending: PendingVerification, result: Any) -> User | None:
        request = self._request
        token = request.block.fields["authorization"].partition(" ")[2].strip()
        user = self._identifier._by_token(token, pending.digest, request)
        assert not isinstance(user, PendingVerification)  # the keys are read
        return user

    def release(self, pending: PendingVerification) -> None:
        pass


class _TicketUse:
    """The owner of a `PendingVerification` for a ticket."""

    def __init__(self, request: Request) -> None:
        self._block = request.block

    def finish(self, pending: PendingVerification, result: Any) -> User | None:
        user: User = result
        self._block.memo[_TICKET_MEMO] = user
        return user

    def release(self, pending: PendingVerification) -> None:
        pass


def challenge_headers(request: Request) -> tuple[tuple[str, str], ...]:
    """`WWW-Authenticate` for a 401 (spec: http §11.1), a line for each scheme: Chromium ignores both on one. None for a script that says it is one: the
    browser would ask its user instead. No Basic for a foreign page: what its visitor then entered would not count either, and Chromium asks for ever.
    """
    if "x-requested-with" in request.block.fields:
        return ()
    return _CHALLENGE if request.foreign is None else TOKEN_CHALLENGE


def challenge(request: Request, response: Response, login_path: str | None) -> Response:
    """Replace a plain 401: the same with `WWW-Authenticate`, or a redirect to the login page for navigation in a browser."""
    if login_path is not None and is_navigation(request):
        location = f"{request.prefix}{login_path}?redirect={quote(request.prefix + request.target, safe='')}"
        pairs: HeaderPairs = [("Location", location), ("Cache-Control", "no-store")]
        return Response(status=302, pairs=pairs)
    response.pairs.extend(challenge_headers(request))
    return response


def is_navigation(request: Request) -> bool:
    """Whether a browser asks for a page to show (spec: http §11.1)."""
    fields = request.block.fields
    return (
        request.method in ("GET", "HEAD")
        and fields.get("accept", "").startswith("text/html")
        and fields.get("user-agent", "").startswith("Mozilla")
        and "x-requested-with" not in fields
    )
