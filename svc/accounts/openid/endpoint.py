"""`/login/<provider>` and `/login/<provider>/callback` (spec: rows §2.6).

    GET /login/example?redirect=/shop/            302 to the provider, with a cookie that keeps the login (`attempts`)
    POST /login/example                           the same for a member who is logged in, to whose account the provider is added
    GET /login/example/callback?code=...&state=...    303 to where the login leads; a page that goes there, if another site has sent the browser here

The second one exists because a browser calls a request cross-site as long as a redirect chain began at another site, and such a request is nobody's
(security §3). What goes wrong is shown on the login page, with the status and the code that programs get.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl

from svc.accounts.openid.attempts import NOT_BEGUN, Attempt, Attempts
from svc.accounts.openid.fetching import unavailable
from svc.accounts.openid.provider import ProvenIdentity, Provider
from svc.accounts.openid.settings import LOGINS_PATH
from svc.auth.fair_slots import network_of
from svc.auth.sessions import Sessions
from svc.auth.users import User, check_no_key_of, user_of
from svc.errors import AccessViolation, ClientError, MethodNotAllowed, Overloaded, Problem
from svc.messages import Request, Response

METHODS = ("GET", "POST", "OPTIONS")
STRATEGY = "OpenID"
"""Of the log of logins."""

DENIED = "LOGIN_DENIED"
ISSUER_MISMATCH = "LOGIN_ISSUER_MISMATCH"
BAD_ANSWER = "LOGIN_BAD_ANSWER"

MOST_AT_ONCE = 200  # logins of one provider that are being finished
MOST_OF_NETWORK = 20
MAX_BODY = 1 << 12  # bytes
_LONGEST_QUERY = 8192  # characters
_MOST_FIELDS = 20
_CODE = re.compile(r"[ -~]{1,4096}")  # RFC 6749 appendix A.11
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250})|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?")
_ERROR_WORD = re.compile(r"[a-z_]{1,40}")
_LATER: Final = frozenset(("temporarily_unavailable", "server_error"))
_NO_STORE: Final = ("Cache-Control", "no-store")


class LoginPages(Protocol):
    """What browsers see: `rest.login.LoginEndpoint`."""

    def is_page(self, request: Request) -> bool:
        """Whether a browser asks."""

    def refused(self, request: Request, redirect: str, fault: Problem) -> Any:
        """The login page with what was wrong, and its status; an awaitable."""

    def go_on(self, request: Request, title: str, location: str) -> Any:
        """A page that leads the browser on by itself; an awaitable."""


class People(Protocol):
    """Who is who: `signing_in.SigningIn`."""

    async def user_of(self, identity: ProvenIdentity, request: Request) -> User:
        """The user of an identity, made if there is none. Raises Problem."""

    async def link(self, identity: ProvenIdentity, username: str, login_id: str) -> User:
        """Let an identity lead to the account of a member. Raises Problem."""


class ProviderEndpoint:
    """Both addresses of one provider. `base`: what the address of this server begins with, "": as the request has it."""

    methods = METHODS

    def __init__(
        self,
        provider: Provider,
        people: People,
        attempts: Attempts,
        sessions: Sessions,
        pages: LoginPages,
        local_path: Callable[[object], str | None],
        base: str = "",
    ) -> None:
        """`local_path`: a requested address, if it is one of this server that a login may lead to."""
        self.provider = provider
        self._people = people
        self._attempts = attempts
        self._sessions = sessions
        self._pages = pages
        self._local_path = local_path
        self._base = base
        self._networks: Counter[str] = Counter()

    def may_use(self, user: User | None) -> bool:
        """It is no interface that the list of what there is should name."""
        return False

    async def handle(self, request: Request) -> Response:
        """Raises Problem for clients that are no browsers."""
        settings = self.provider.settings
        request.handler_path = request.pathname[1:]
        is_return = request.pathname == settings.callback_path
        query = request.query
        if is_return:
            request.target, request.query = request.pathname, None  # a code is not for the log
        if request.method not in METHODS or (is_return and request.method != "GET"):
            raise MethodNotAllowed(f"{request.pathname} is opened in a browser, with GET", METHODS[::2] if is_return else METHODS)
        redirect = ""
        try:
            if not self._sessions.enabled:
                raise ClientError("No session for login")
            parameters = _parameters(query)
            if is_return:
                with self._counted(request):
                    return await self._come_back(request, parameters)
            redirect = self._local_path(parameters.get("redirect")) or ""
            return await (self._begin_adding(request) if request.method == "POST" else self._begin(request, redirect))
        except AccessViolation:
            raise
        except Problem as fault:
            return await self._refused(request, redirect, fault)

    async def _refused(self, request: Request, redirect: str, fault: Problem) -> Response:
        """The login page with what was wrong, from which one can begin again. Raises the fault for clients that are no browsers."""
        if not self._pages.is_page(request):
            raise fault
        page: Response = await self._pages.refused(request, redirect, fault)
        return page

    # --- to the provider -------------------------------------------------------------------------------------------------------------------

    async def _begin(self, request: Request, redirect: str) -> Response:
        if request.block.fields.get("sec-fetch-mode", "navigate") != "navigate":
            # Else a picture on any page could take the place of the login that its visitor has just begun.
            raise ClientError("A login at a provider is opened as a page", 400, NOT_BEGUN)
        location = await self._begun(request, redirect or f"{request.prefix}/", None)
        return Response(status=302, pairs=[("Location", location), _NO_STORE])

    async def _begin_adding(self, request: Request) -> Response:
        """Not by GET: a link on another site could lead a member here, by way of the login page, whose browser that site has logged in at the provider as
        somebody else. A browser gets a page, since a form may lead to this site only."""
        member = user_of(request)
        check_no_key_of(member, "add a login to an account")
        own = self._sessions.user(request)
        if member is None or own is None or own.username != member.username:
            raise AccessViolation
        location = await self._begun(request, f"{request.prefix}{LOGINS_PATH}", member)
        if self._pages.is_page(request):
            page: Response = await self._pages.go_on(request, f"Log in at {self.provider.settings.shown_name}", location)
            return page
        return Response(status=303, pairs=[("Location", location), _NO_STORE])

    async def _begun(self, request: Request, return_to: str, member: User | None) -> str:
        """Begin a login, which the browser keeps: the address at the provider. `member`: who adds the provider to the own account."""
        settings = self.provider.settings
        redirect_uri = self._own_address(request) + settings.callback_path
        if member is None:
            attempt = self._attempts.begin(settings.name, redirect_uri, return_to)
        else:
            attempt = self._attempts.begin(settings.name, redirect_uri, return_to, member=member.username, account=member.login_id)
        location = await self.provider.authorization_address(attempt)
        self._attempts.give(request, attempt)
        return location

    def receive(self, request: Request) -> None:
        """A body has nothing to say here, and is short. Raises Problem 411 or 413."""
        length = request.block.get("content-length")
        if length is None:
            raise ClientError(f"{request.method} {request.pathname} needs a Content-Length", 411)
        if len(length) > len(str(MAX_BODY)) or int(length) > MAX_BODY:
            raise ClientError(f"The body of {request.method} {request.pathname} must not be longer than {MAX_BODY} bytes", 413)

    def _own_address(self, request: Request) -> str:
        if self._base:
            return self._base
        if not _HOST.fullmatch(request.host):
            raise ClientError("The request names no host that a provider could send the browser back to")
        return f"{request.scheme}://{request.host}{request.prefix}"

    # --- and back --------------------------------------------------------------------------------------------------------------------------

    async def _come_back(self, request: Request, parameters: Mapping[str, str]) -> Response:
        settings = self.provider.settings
        attempt = self._attempts.found(request, settings.name, parameters.get("state", ""))
        self._attempts.end(request, settings.name)
        try:
            await self._attempts.use(attempt)
            await self._check_answer(parameters)
            user = await self._finish(request, parameters["code"], attempt)
        except Problem as fault:
            self._log_failure(request, fault)
            return await self._refused(request, attempt.return_to, fault)
        if self._sessions.verifier.events is not None:
            self._sessions.verifier.events.success(request, STRATEGY, user.username)
        if "cross-site" in request.block.fields.get("sec-fetch-site", "").lower():
            page: Response = await self._pages.go_on(request, "Logged in", attempt.return_to)
            return page
        return Response(status=303, pairs=[("Location", attempt.return_to), _NO_STORE])

    async def _check_answer(self, parameters: Mapping[str, str]) -> None:
        """Raise Problem unless the answer is of this provider (RFC 9207 §2.4) and has a code."""
        settings = self.provider.settings
        issuer = parameters.get("iss")
        if issuer != settings.issuer and (issuer is not None or (await self.provider.metadata()).names_issuer):
            raise ClientError(
                f"This answer does not come from the provider {settings.shown_name}, at which the login was begun", 400, ISSUER_MISMATCH
            )
        error = parameters.get("error")
        if error is not None:
            if error in _LATER:
                raise unavailable(settings.shown_name, f"it says {error}")
            word = error if _ERROR_WORD.fullmatch(error) else "it gives no reason that could be shown"
            raise ClientError(f"The provider {settings.shown_name} has not let you in ({word})", 403, DENIED)
        if not _CODE.fullmatch(parameters.get("code", "")):
            raise ClientError(f"The answer of the provider {settings.shown_name} has no code. Begin again", 400, BAD_ANSWER)

    async def _finish(self, request: Request, code: str, attempt: Attempt) -> User:
        identity = await self.provider.redeem(code, attempt)
        if attempt.member:
            before = self._sessions.user(request)
            if before is None or before.username != attempt.member:
                raise ClientError("You have logged out while you were at the provider. Log in and begin again", 400, NOT_BEGUN)
            return await self._people.link(identity, attempt.member, attempt.account)
        user = await self._people.user_of(identity, request)
        await self._sessions.begin_proven(request, user)
        return user

    def _log_failure(self, request: Request, fault: Problem) -> None:
        events = self._sessions.verifier.events
        if events is not None and fault.status_code < 500:
            events.failure(request, STRATEGY, None)

    @contextmanager
    def _counted(self, request: Request) -> Iterator[None]:
        """Raises Overloaded if too many are being finished, of all or of one network."""
        network = network_of(request.peer)
        if self._networks.total() >= MOST_AT_ONCE or self._networks[network] >= MOST_OF_NETWORK:
            raise Overloaded("Too many logins come from this provider at the moment")
        self._networks[network] += 1
        try:
            yield
        finally:
            self._networks[network] -= 1
            if not self._networks[network]:
                del self._networks[network]


def _parameters(query: str | None) -> dict[str, str]:
    """Those of a query, each at most once (RFC 6749 §3.1). Raises ClientError.

    >>> _parameters("code=a%20b&state=x")
    {'code': 'a b', 'state': 'x'}
    """
    if not query:
        return {}
    try:
        if len(query) > _LONGEST_QUERY:
            raise ValueError
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise ClientError("The address has parameters that cannot be read. Begin again", 400, BAD_ANSWER) from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ClientError("The address has a parameter more than once. Begin again", 400, BAD_ANSWER)
    return found
