"""`/login` and `/logout` of an application port, for applications with `login: true` (spec: http §11.2).

    {"username": "ann", "password": "s3cret", "redirect": "/shop/"}       JSON, or the fields of a form

200, or 302 to `redirect` if that is a path on this server; 401 for a wrong name or password. `/logout` ends the session and expires its cookie.
Browsers get forms that send these fields, and in them what was wrong.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from svc.auth.identify import TOKEN_CHALLENGE
from svc.errors import BadBody, ClientError, NotAcceptable, Problem, ValidationError
from svc.http.bodies import Bodies
from svc.http.query_fields import query_fields
from svc.http.responses import ResponseBuilder
from svc.messages import HeaderPairs, Request, Response
from svc.pages import Pages
from svc.pages.cells import shown
from svc.resources import RequestTarget

LOGIN_PATH = "/login"
LOGOUT_PATH = "/logout"
PATHS = frozenset((LOGIN_PATH, LOGOUT_PATH))
MAX_BODY = 1 << 16  # bytes

HOME = "./"  # the root, relative to either path
_SHOWN_NAME = 200  # characters of a user name in the form
_MAX_REDIRECT = 2000  # characters
_SAFE = "/?#[]@!$&'()*+,;=:%~"  # what may stand in a path and its query as it is


@dataclass(frozen=True, slots=True)
class LoginChoice:
    """A provider that one can log in with. `path`: where that begins. `label`: its name for people."""

    path: str
    label: str


class LoginEndpoint:
    """Handles the two paths. `choices`: what else one can log in with (spec: rows §2.6)."""

    def __init__(self, bodies: Bodies, responses: ResponseBuilder, pages: Pages) -> None:
        self._bodies = bodies
        self._responses = responses
        self._pages = pages
        self.choices: Sequence[LoginChoice] = ()

    def is_page(self, request: Request) -> bool:
        """Whether a browser asks."""
        return self._responses.preferences(request).page

    def refused(self, request: Request, redirect: str, fault: Problem) -> Any:
        """The form once more, with why a login at a provider has failed."""
        return self._login_form(request, redirect, fault, shows_code=True)

    def go_on(self, request: Request, title: str, location: str) -> Any:
        """A page that leads on by itself, so that what comes next is a request of this site's own to the browser."""
        pairs: HeaderPairs = [("Cache-Control", "no-store")]
        return self._pages.form(request, "go_on.html", pairs=pairs, title=title, location=location)

    def form(self, request: Request) -> Any:
        """GET in a browser: the form. `redirect` of the query: where a login leads."""
        request.handler_path = request.pathname[1:]
        if request.pathname == LOGOUT_PATH:
            return self._pages.form(request, "logout.html", title="Log out")
        return self._login_form(request, query_fields(request.query).get("redirect", ""))

    def _login_form(
        self, request: Request, redirect: object, fault: Problem | None = None, username: object = "", *, shows_code: bool = False
    ) -> Any:
        """`fault`: why the last attempt has failed. `shows_code`: with its status and code."""
        pairs: HeaderPairs = [("Cache-Control", "no-store")]
        if fault is not None:
            pairs += fault.headers
            if fault.status_code == 401:
                pairs += TOKEN_CHALLENGE  # with Basic the browser would ask its user in a window of its own
        return self._pages.form(
            request,
            "login.html",
            status=200 if fault is None else fault.status_code,
            pairs=pairs,
            title="Log in",
            fault="" if fault is None else shown(fault.message),
            code=f"{fault.status_code} {fault.code}" if fault is not None and shows_code else "",
            choices=self.choices,
            username=username[:_SHOWN_NAME] if isinstance(username, str) else "",
            redirect=local_path(redirect) or "",
        )

    def receive(self, request: Request) -> None:
        """Collect a body that has not arrived yet: clients are not authenticated here, so its length has to be declared. Raises Problem 411 or 413."""
        length = request.block.get("content-length")
        if length is None:
            raise ClientError(f"POST {request.pathname} needs a Content-Length", 411)
        if len(length) > len(str(MAX_BODY)) or int(length) > MAX_BODY:
            raise _too_long(request)

    async def handle(self, request: Request) -> Response:
        """The request is a POST to one of PATHS. Raises Problem."""
        request.handler_path = request.pathname[1:]
        if len(request.content) > MAX_BODY:
            raise _too_long(request)
        is_form = self._responses.preferences(request).page
        if request.pathname == LOGOUT_PATH:
            return await (self._logout_by_form(request) if is_form else self._logout(request))
        if is_form:
            return await self._login_by_form(request)
        data = await self._body(request)
        if not isinstance(data, dict):
            raise BadBody("POST /login needs an object with username and password")
        username, password = _credentials(data)
        location = local_path(data.get("redirect"))
        self._require_writer(request, location)
        await request.login(username, password)
        return await self._answer(request, "Login successful", location)

    async def _login_by_form(self, request: Request) -> Response:
        """A browser goes on to another page; what is wrong is shown in the form."""
        redirect: object = None
        username: object = ""
        try:
            data = await self._body(request)
            if not isinstance(data, dict):
                raise BadBody("The form has no user name and password")
            redirect, username = data.get("redirect"), data.get("username")
            await request.login(*_credentials(data))
        except Problem as fault:
            answer: Response = await self._login_form(request, redirect, fault, username)
            return answer
        return _see_other(local_path(redirect) or HOME)

    async def _logout_by_form(self, request: Request) -> Response:
        if request.session is not None:
            await request.session.delete()
        return _see_other(HOME)

    async def _logout(self, request: Request) -> Response:
        session = request.session
        if session is None:
            raise ClientError("No session for logout")
        location = None
        if request.content:
            data = await self._body(request)
            location = local_path(data.get("redirect")) if isinstance(data, dict) else None
        self._require_writer(request, location)
        await session.delete()
        return await self._answer(request, "Logout successful", location)

    async def _body(self, request: Request) -> Any:
        data = self._bodies.read(request, max_bytes=MAX_BODY)
        return await data if inspect.isawaitable(data) else data

    def _require_writer(self, request: Request, location: str | None) -> None:
        """Raise NotAcceptable before anything happens if the response could not be encoded."""
        preferences = self._responses.preferences(request)
        if location is None and preferences.writer is None:
            raise NotAcceptable(preferences.refusal)

    async def _answer(self, request: Request, message: str, location: str | None) -> Response:
        if location is not None:
            return Response(status=302, pairs=[("Location", location), ("Cache-Control", "no-store")])
        answer = self._responses.answer(request, RequestTarget(), {"message": message})
        response: Response = await answer if inspect.isawaitable(answer) else answer
        return response


def _see_other(location: str) -> Response:
    return Response(status=303, pairs=[("Location", location), ("Cache-Control", "no-store")])


def _too_long(request: Request) -> ClientError:
    return ClientError(f"The body of POST {request.pathname} must not be longer than {MAX_BODY} bytes", 413)


def _credentials(data: dict[str, Any]) -> tuple[str, str]:
    faults = []
    for name in ("username", "password"):
        value = data.get(name)
        if value is None:
            faults.append(f"'{name}' is required")
        elif not isinstance(value, str):
            faults.append(f"'{name}' must be a string")
        elif not value:
            faults.append(f"'{name}' is not allowed to be empty")
    if faults:
        raise ValidationError(faults)
    return data["username"], data["password"]


def local_path(value: object) -> str | None:
    """The requested redirect, if it leads to a path on this server; None: a login must not redirect to other sites.

    >>> local_path("/shop/?page=2"), local_path("//evil.example"), local_path("https://evil.example"), local_path("/\\\\evil.example")
    ('/shop/?page=2', None, None, None)
    """
    if not isinstance(value, str) or not value.startswith("/") or len(value) > _MAX_REDIRECT:
        return None
    if value.startswith("//") or "\\" in value or any(ord(character) <= 0x20 or ord(character) == 0x7F for character in value):
        return None
    return quote(value, safe=_SAFE, errors="replace")
