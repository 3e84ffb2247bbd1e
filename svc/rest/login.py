"""`POST /login` and `POST /logout` of an application port, for applications with `login: true` (spec: http §11.2).

    {"username": "ann", "password": "s3cret", "redirect": "/shop/"}       JSON, or the fields of a form

200, or 302 to `redirect` if that is a path on this server; 401 for a wrong name or password. `/logout` ends the session and expires its cookie.
"""

from __future__ import annotations

import inspect
from typing import Any
from urllib.parse import quote

from svc.errors import BadBody, ClientError, NotAcceptable, ValidationError
from svc.http.bodies import Bodies
from svc.http.responses import ResponseBuilder
from svc.messages import Request, Response
from svc.resources import RequestTarget

LOGIN_PATH = "/login"
LOGOUT_PATH = "/logout"
PATHS = frozenset((LOGIN_PATH, LOGOUT_PATH))
MAX_BODY = 1 << 16  # bytes

_MAX_REDIRECT = 2000  # characters
_SAFE = "/?#[]@!$&'()*+,;=:%~"  # what may stand in a path and its query as it is


class LoginEndpoint:
    """Handles the two paths."""

    def __init__(self, bodies: Bodies, responses: ResponseBuilder) -> None:
        self._bodies = bodies
        self._responses = responses

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
        if request.pathname == LOGOUT_PATH:
            return await self._logout(request)
        data = await self._body(request)
        if not isinstance(data, dict):
            raise BadBody("POST /login needs an object with username and password")
        username, password = _credentials(data)
        location = local_path(data.get("redirect"))
        self._require_writer(request, location)
        await request.login(username, password)
        return await self._answer(request, "Login successful", location)

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
