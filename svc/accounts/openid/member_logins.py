"""`/accounts/me/logins`: the logins at providers that lead to the own account (spec: rows §2.6).

    GET      {"logins": [{"id", "provider", "email", "since"}], "providers": [{"name", "label", "path"}], "password": true}
    DELETE   ?id=...        204; the last way into an account stays

`path`: of an address where POST begins to add one. Browsers get a page with forms for both.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final

from svc.accounts.openid.identities import Identities
from svc.accounts.openid.settings import LOGINS_PATH, ProviderSettings
from svc.auth.users import User, UserDirectory, check_no_key_of, user_of
from svc.auth.writes import write
from svc.errors import AccessViolation, BadBody, ClientError, MethodNotAllowed, Problem, ValidationError
from svc.http.bodies import Bodies
from svc.http.problems import problem_response
from svc.http.query_fields import query_fields
from svc.http.responses import ResponseBuilder
from svc.messages import Request, Response
from svc.pages import Pages
from svc.pages.cells import shown
from svc.pages.templates import Templates
from svc.resources import RequestTarget

METHODS = ("GET", "HEAD", "DELETE", "OPTIONS")
LAST_LOGIN = "LAST_LOGIN"
MAX_BODY = 1 << 12  # bytes
_NO_STORE: Final = ("Cache-Control", "no-store")


class MemberLogins:
    """The endpoint."""

    methods = METHODS

    def __init__(
        self,
        identities: Identities,
        providers: Sequence[ProviderSettings],
        directory: UserDirectory,
        bodies: Bodies,
        responses: ResponseBuilder,
        pages: Pages,
        templates: Templates,
    ) -> None:
        """`templates`: those of accounts."""
        self._identities = identities
        self._providers = providers
        self._directory = directory
        self._bodies = bodies
        self._responses = responses
        self._pages = pages
        self._templates = templates

    async def handle(self, request: Request) -> Response:
        """Raises Problem."""
        request.handler_path = LOGINS_PATH[1:]
        is_page = self._responses.preferences(request).page
        if request.method not in (*METHODS, "POST") or (request.method == "POST" and not is_page):
            raise MethodNotAllowed(f"{LOGINS_PATH} takes GET and DELETE", METHODS)
        user = user_of(request)
        if user is None:
            raise AccessViolation
        if request.method == "DELETE":
            await self.unlink(user, query_fields(request.query).get("id", ""))
            return Response(None, 204, pairs=[_NO_STORE])
        if request.method == "POST":
            return await self._unlink_by_form(request, user)
        if is_page:
            return await self._page(request, user)
        answer = self._responses.answer(request, RequestTarget(), Response(None, 200, data=self.of(user), pairs=[_NO_STORE]))
        made: Response = await answer if inspect.isawaitable(answer) else answer
        return made

    def of(self, user: User) -> dict[str, Any]:
        """What GET answers."""
        rows = self._identities.of_user(user)
        return {
            "logins": [
                {"id": row["id"], "provider": row["provider"], "email": row.get("email"), "since": row["__createdtime__"]} for row in rows
            ],
            "providers": [{"name": each.name, "label": each.shown_name, "path": each.login_path} for each in self._providers],
            "password": self._directory.credentials(user.username) is not None,
        }

    async def unlink(self, user: User, key: str) -> None:
        """Raises ValidationError, NotFound, ClientError LAST_LOGIN, Problem 403 for an API key."""
        if not key:
            raise ValidationError("'id' is required: that of one of the logins")
        check_no_key_of(user, "remove a login")
        transaction = self._directory.store.begin(user.username)
        self._identities.unlink(transaction, user, key)
        if self._directory.credentials(user.username) is None and len(self._identities.of_user(user)) < 2:
            raise ClientError(
                "This is the only way into the account: choose a password, or add another login, before it is removed", 409, LAST_LOGIN
            )
        await write(transaction)

    async def _unlink_by_form(self, request: Request, user: User) -> Response:
        try:
            data = self._bodies.read(request, max_bytes=MAX_BODY)
            data = await data if inspect.isawaitable(data) else data
            if not isinstance(data, Mapping) or not isinstance(data.get("id"), str):
                raise BadBody("The form names no login")
            await self.unlink(user, data["id"])
        except Problem as fault:
            return await self._page(request, user, fault)
        return Response(status=303, pairs=[("Location", request.prefix + LOGINS_PATH), _NO_STORE])

    async def _page(self, request: Request, user: User, fault: Problem | None = None) -> Response:
        page: Response = await self._pages.form(
            request,
            "logins.html",
            status=200 if fault is None else fault.status_code,
            pairs=[_NO_STORE],
            templates=self._templates,
            title="Logins at providers",
            fault="" if fault is None else shown(fault.message),
            **self.of(user),
        )
        return page

    def receive(self, request: Request) -> None:
        """Collect a body that has not arrived yet. Raises Problem 411 or 413."""
        length = request.block.get("content-length")
        if length is None:
            raise ClientError(f"{request.method} {request.pathname} needs a Content-Length", 411)
        if len(length) > len(str(MAX_BODY)) or int(length) > MAX_BODY:
            raise ClientError(f"The body of {request.method} {request.pathname} must not be longer than {MAX_BODY} bytes", 413)

    def problem(self, error: Problem, request: Request, request_id: str = "") -> Response:
        return problem_response(error, self._responses.types, request, request_id)
