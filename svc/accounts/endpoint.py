"""`/accounts` and what is below it, on the ports of applications (spec: rows §2.3).

    POST   /accounts            {"username" | "email", "password", attributes of the record}      201, or 202 where the address is confirmed first
    POST   /accounts/confirm    {"code"}
    POST   /accounts/forgot     {"email"}                             202
    POST   /accounts/reset      {"code", "password"}
    GET    /accounts/me                                                PATCH, DELETE
    POST   /accounts/email      {"email"}                             202
    POST   /accounts/password   {"current_password", "password"}

JSON or a form. Browsers get pages with forms at the same addresses (`forms`). A page of a foreign origin can do nothing here without a token, as at `/login`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from svc.accounts.addresses import canonical_address
from svc.accounts.directory import Accounts
from svc.auth.fair_slots import network_of
from svc.auth.throttle import FailureDelays
from svc.auth.users import User, check_no_key_of, user_of
from svc.clock import Clock
from svc.errors import AccessViolation, BadBody, ClientError, MethodNotAllowed, NotAcceptable, NotFound, Problem, ValidationError
from svc.http.bodies import Bodies
from svc.http.problems import problem_response
from svc.http.responses import ResponseBuilder
from svc.messages import Request, Response
from svc.resources import RequestTarget
from svc.rest.html_forms import is_html_form
from svc.store.schema import Attribute
from svc.store.values.conversion import text_to_value

if TYPE_CHECKING:
    from svc.accounts.forms import AccountForms

ADDRESS = "/accounts"
MAX_BODY = 1 << 16  # bytes
STEP = 0.2  # seconds: many times what is done for a forgotten password

NO_STORE = ("Cache-Control", "no-store")
CLOSED = "SIGN_UP_CLOSED"
ACCEPTED = "If that is possible, a mail is on its way with what to do next"
"""Of all answers that must not tell whether an address is known."""

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AccountAction:
    """`handle(accounts, request, fields)`: what a POST does; its answer for programs. `needs_mail`: nothing is there without a section `mail`. `needs_login`:
    401 for an anonymous caller."""

    handle: Callable[[AccountsApi, Accounts, Request, Fields], Awaitable[Response]]
    needs_mail: bool = False
    needs_login: bool = False


class AccountsApi:
    """What the addresses do, for programs and, through `forms`, for browsers."""

    def __init__(
        self,
        current: Callable[[], Accounts | None],
        bodies: Bodies,
        responses: ResponseBuilder,
        clock: Clock,
        *,
        failure_delay: bool = True,
    ) -> None:
        """`current`: the accounts that are in effect. `failure_delay`: who asks the same again and again waits."""
        self._current = current
        self._bodies = bodies
        self._responses = responses
        self._delays = FailureDelays(clock) if failure_delay else None
        self._now = clock.monotonic
        self.forms: AccountForms | None = None

    @property
    def accounts(self) -> Accounts:
        """Raises NotFound where no application has accounts (any more)."""
        found = self._current()
        if found is None:
            raise NotFound("Not found")
        return found

    # --- a request ---------------------------------------------------------------------------------------------------------------------

    def is_page(self, request: Request) -> bool:
        return self._responses.preferences(request).page

    def user(self, request: Request) -> User:
        """Raises AccessViolation 401."""
        user = user_of(request)
        if user is None:
            raise AccessViolation
        return user

    async def read(self, request: Request) -> Fields:
        """The fields of the body. Raises BadBody, 413."""
        if len(request.content) > MAX_BODY:
            raise _too_long(request)
        data = self._bodies.read(request, max_bytes=MAX_BODY)
        data = await data if inspect.isawaitable(data) else data
        if not isinstance(data, dict):
            raise BadBody(f"{request.method} {request.pathname} needs an object, or a form")
        return data

    def values(self, request: Request, fields: Fields) -> Fields:
        """What a form has entered, as values of the types of the record; an empty field is none. Other bodies have values already. Raises BadValue."""
        if not is_html_form(request):
            return fields
        attributes = self.accounts.table.attributes
        return {name: value_of(attributes.get(name), value) for name, value in fields.items() if value != ""}

    async def perform(self, path: str, request: Request, fields: Fields) -> Response:
        """A POST to one of ACTIONS. Raises Problem."""
        action, accounts, fields = ACTIONS[path], self.accounts, self.values(request, fields)
        if request.foreign is not None:
            raise Problem(f"A page of a foreign origin can do nothing with accounts: {request.foreign}", 403)
        if action.needs_mail and (accounts.mails is None or not accounts.has_addresses):
            raise NotFound("Not found: this server sends no mail, or accounts have no address")
        if action.needs_login:
            self.user(request)
        return await action.handle(self, accounts, request, fields)

    async def answer(self, request: Request, response: Response) -> Response:
        """In the content type that the client prefers."""
        answer = self._responses.answer(request, RequestTarget(), response)
        made: Response = await answer if inspect.isawaitable(answer) else answer
        return made

    def problem(self, error: Problem, request: Request, request_id: str) -> Response:
        return problem_response(error, self._responses.types, request, request_id)

    def require_writer(self, request: Request) -> None:
        """Raise NotAcceptable before anything happens if the answer could not be encoded."""
        preferences = self._responses.preferences(request)
        if preferences.writer is None:
            raise NotAcceptable(preferences.refusal)

    async def pause(self, request: Request, about: str) -> None:
        """Wait, the longer the more often a network has asked the same: about an address, or with codes that are not valid."""
        if self._delays is None:
            return
        key = self._delays.key(about, network_of(request.peer))
        delay = self._delays.delay(key)
        self._delays.failed(key)
        if delay:
            await asyncio.sleep(delay)

    async def even_out(self, since: float) -> None:
        """Wait until a whole number of STEPs have passed since a moment: the time of an answer does not tell what was done for it, such as that a mail was
        written, and is being sent already."""
        left = (since - self._now()) % STEP
        if left:
            await asyncio.sleep(left)

    def forgive(self, request: Request, about: str) -> None:
        if self._delays is not None:
            self._delays.succeeded(self._delays.key(about, network_of(request.peer)))

    # --- what POST does ----------------------------------------------------------------------------------------------------------------

    async def sign_up(self, accounts: Accounts, request: Request, fields: Fields) -> Response:
        if not accounts.settings.sign_up:
            raise ClientError("Nobody can sign up here: ask for an account", 403, CLOSED)
        record = {name: value for name, value in fields.items() if name != "password"}
        password = _text(fields, "password")
        accounts.admit(request, "sign-up")
        if accounts.settings.verify:
            await accounts.request_sign_up(record, password, request)
            return _accepted()
        user = await accounts.sign_up(record, password, verified=False, request=request)
        return Response(None, 201, data=accounts.profile(user), pairs=[("Location", f"{request.prefix}{ADDRESS}/me"), NO_STORE])

    async def confirm(self, accounts: Accounts, request: Request, fields: Fields) -> Response:
        _, user = await self._with_code(request, lambda: accounts.confirm(_text(fields, "code")))
        return _done("The address is confirmed", username=user.username)

    async def forgot(self, accounts: Accounts, request: Request, fields: Fields) -> Response:
        address = canonical_address(_text(fields, "email"))  # in any spelling it is the same that is asked
        accounts.admit(request, "forgot")
        await self.pause(request, f"forgot {address}")
        began = self._now()
        await accounts.request_reset(address)
        await self.even_out(began)
        return _accepted()

    async def reset(self, accounts: Accounts, request: Request, fields: Fields) -> Response:
        code, password = _text(fields, "code"), _text(fields, "password")
        user = await self._with_code(request, lambda: accounts.reset(code, password, request))
        return _done("The password is changed, and all logins have ended", username=user.username)

    async def email(self, accounts: Accounts, request: Request, fields: Fields) -> Response:
        user = self.user(request)
        self._require_member(accounts, user)
        check_no_key_of(user, "change the address of an account")
        accounts.admit(request, "email")
        await self.pause(request, f"email {user.username}")
        await accounts.request_address(user, _text(fields, "email"))
        return _accepted()

    async def password(self, accounts: Accounts, request: Request, fields: Fields) -> Response:
        user = self.user(request)
        self._require_member(accounts, user)
        check_no_key_of(user, "change the password of an account")
        await accounts.change_password(user, _text(fields, "current_password"), _text(fields, "password"), request)
        return _done("The password is changed, and all other logins have ended")

    async def _with_code(self, request: Request, use: Callable[[], Awaitable[Any]]) -> Any:
        await self.pause(request, "codes")
        result = await use()
        self.forgive(request, "codes")
        return result

    # --- the own account ---------------------------------------------------------------------------------------------------------------

    def profile(self, request: Request) -> Mapping[str, Any]:
        return self.accounts.profile(self.user(request))

    async def change(self, request: Request, fields: Fields) -> Mapping[str, Any]:
        """PATCH of the own record. The record is read anew. Raises Problem."""
        user, accounts = self.user(request), self.accounts
        self._require_member(accounts, user)
        await accounts.change(user, fields)
        return accounts.profile(user)

    async def remove(self, request: Request) -> None:
        """The own account. Raises Problem."""
        user, accounts = self.user(request), self.accounts
        self._require_member(accounts, user)
        check_no_key_of(user, "remove an account")
        session = request.session
        await accounts.remove(user.username)
        if session is not None and session.id is not None:
            await session.delete()

    @staticmethod
    def _require_member(accounts: Accounts, user: User) -> None:
        if not accounts.is_member(user):
            raise Problem("Your user is none that has signed up here: use the operations alter_user and drop_user", 403)


ACTIONS: Mapping[str, AccountAction] = {
    ADDRESS: AccountAction(AccountsApi.sign_up),
    f"{ADDRESS}/confirm": AccountAction(AccountsApi.confirm, needs_mail=True),
    f"{ADDRESS}/forgot": AccountAction(AccountsApi.forgot, needs_mail=True),
    f"{ADDRESS}/reset": AccountAction(AccountsApi.reset, needs_mail=True),
    f"{ADDRESS}/email": AccountAction(AccountsApi.email, needs_mail=True, needs_login=True),
    f"{ADDRESS}/password": AccountAction(AccountsApi.password, needs_login=True),
}
ME = f"{ADDRESS}/me"
PATHS = (*ACTIONS, ME)


class ActionEndpoint:
    """Answers at one of ACTIONS."""

    methods = ("GET", "HEAD", "POST", "OPTIONS")

    def __init__(self, path: str, api: AccountsApi) -> None:
        self._path = path
        self._api = api

    def handle(self, request: Request) -> Any:
        request.handler_path = self._path[1:]
        api, query = self._api, request.query
        if query is not None and "code" in query:
            request.target, request.query = request.pathname, None  # it is not for the log, whatever becomes of the request
        if request.method in ("GET", "HEAD"):
            if not api.is_page(request) or api.forms is None:
                raise MethodNotAllowed(f"{self._path} takes POST; there is a page for browsers", self.methods)
            return api.forms.show(self._path, request, query)
        if request.method != "POST":
            raise MethodNotAllowed(f"{self._path} takes POST", self.methods)
        if api.is_page(request) and api.forms is not None:
            return api.forms.send(self._path, request)
        return self._post(request)

    async def _post(self, request: Request) -> Response:
        api = self._api
        api.require_writer(request)
        return await api.answer(request, await api.perform(self._path, request, await api.read(request)))

    def receive(self, request: Request) -> None:
        require_length(request)

    def problem(self, error: Problem, request: Request, request_id: str = "") -> Response:
        return self._api.problem(error, request, request_id)


class OwnAccountEndpoint:
    """Answers at ME."""

    methods = ("GET", "HEAD", "PATCH", "DELETE", "OPTIONS")

    def __init__(self, api: AccountsApi) -> None:
        self._api = api

    def handle(self, request: Request) -> Any:
        request.handler_path = ME[1:]
        api = self._api
        is_page = api.is_page(request) and api.forms is not None
        if request.method in ("GET", "HEAD"):
            if is_page and api.forms is not None:
                return api.forms.show(ME, request, request.query)
            return api.answer(request, Response(None, 200, data=api.profile(request), pairs=[NO_STORE]))
        if request.method == "PATCH":
            return self._patch(request)
        if request.method == "DELETE":
            return self._delete(request)
        if request.method == "POST" and is_page and api.forms is not None:  # forms can do nothing else
            return api.forms.send(ME, request)
        raise MethodNotAllowed(f"{ME} takes GET, PATCH and DELETE", self.methods)

    async def _patch(self, request: Request) -> Response:
        api = self._api
        api.require_writer(request)
        api.user(request)
        profile = await api.change(request, api.values(request, await api.read(request)))
        return await api.answer(request, Response(None, 200, data=profile, pairs=[NO_STORE]))

    async def _delete(self, request: Request) -> Response:
        await self._api.remove(request)
        return Response(None, 204, pairs=[NO_STORE])

    def receive(self, request: Request) -> None:
        require_length(request)

    def problem(self, error: Problem, request: Request, request_id: str = "") -> Response:
        return self._api.problem(error, request, request_id)


def endpoints(api: AccountsApi) -> dict[str, ActionEndpoint | OwnAccountEndpoint]:
    """By path."""
    found: dict[str, ActionEndpoint | OwnAccountEndpoint] = {path: ActionEndpoint(path, api) for path in ACTIONS}
    found[ME] = OwnAccountEndpoint(api)
    return found


def require_length(request: Request) -> None:
    """Collect a body that has not arrived yet: its length has to be declared. Raises Problem 411 or 413."""
    length = request.block.get("content-length")
    if length is None:
        raise ClientError(f"{request.method} {request.pathname} needs a Content-Length", 411)
    if len(length) > len(str(MAX_BODY)) or int(length) > MAX_BODY:
        raise _too_long(request)


def _too_long(request: Request) -> ClientError:
    return ClientError(f"The body of {request.method} {request.pathname} must not be longer than {MAX_BODY} bytes", 413)


def value_of(attribute: Attribute | None, value: Any) -> Any:
    """What the text of a field stands for. Raises BadValue."""
    return text_to_value(attribute, value) if isinstance(value, str) else value


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if value is None or value == "":
        raise ValidationError(f"'{name}' is required")
    if not isinstance(value, str):
        raise ValidationError(f"'{name}' must be a string")
    return value


def _accepted() -> Response:
    return Response(None, 202, data={"message": ACCEPTED}, pairs=[NO_STORE])


def _done(message: str, **more: Any) -> Response:
    return Response(None, 200, data={"message": message, **more}, pairs=[NO_STORE])
