"""The addresses of the console: `/` and `/console/...` of the operations port, and the files of its pages (spec: console §1)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from svc.auth.identify import TOKEN_CHALLENGE
from svc.auth.users import User
from svc.connection.exchange import BodyLimit
from svc.console.page import ROOT, ConsolePage, root_of_console
from svc.console.places import BY_PATH, Place
from svc.errors import REASONS, AccessViolation, ClientError, MethodNotAllowed, NotFound, Problem
from svc.http.compression import Compression
from svc.http.query_fields import query_fields
from svc.messages import HeaderPairs, Request, Response
from svc.operations.service import Operations
from svc.pages.cells import shortened
from svc.pages.frame import ASSETS, FILES, NO_STORE, PAIRS, frame_of
from svc.pages.kept_forms import is_of_own_page, lost_by_login
from svc.pages.sent_form import SentForm, form_limit, sent_form
from svc.pages.templates import Templates
from svc.pages.tokens import FIELD, check_token
from svc.rest.login import local_path
from svc.root.administrator import PASSWORD_FILE

USERNAME, PASSWORD = "_username", "_password"
"""Fields of the form to log in, beside those of a form that was sent without a login and is done after it."""
DIRECTORY = Path(__file__).parent / "templates"
METHODS = ("GET", "HEAD", "POST", "OPTIONS")
LOGIN, LOGOUT = f"{ROOT}login", f"{ROOT}logout"
_ANONYMOUS = 1 << 20  # bytes of a form that is taken without a login
_LONGEST_FAULT = 5000


class Console:
    """Answers at the addresses that `knows` knows. `templates` are loaded for the first page."""

    def __init__(self, operations: Operations, compression: Compression) -> None:
        node = operations.node
        self._operations = operations
        self._compression = compression
        self._templates = Templates(node.clock.monotonic, node.executor, (DIRECTORY,))

    @staticmethod
    def knows(path: str) -> bool:
        return path == "/" or path.startswith((ROOT, FILES)) or path == ROOT[:-1]

    @staticmethod
    def receive(request: Request) -> BodyLimit:
        """How the body of a form is collected. Raises Problem."""
        if request.user is not None:
            return form_limit()
        return BodyLimit(_ANONYMOUS, AccessViolation(None))

    async def handle(self, request: Request) -> Response:
        """A Response. What is wrong is shown as a page, too: nothing but cancellation is raised, and defects."""
        try:
            return await self._answer(request)
        except Problem as fault:
            return await self.problem(request, fault)

    async def _answer(self, request: Request) -> Response:
        path = request.pathname
        if path.startswith(FILES):
            file = ASSETS.get(path)
            if file is None or request.method not in ("GET", "HEAD"):
                raise NotFound("Not found")
            return file.response(request, self._compression)
        if path == ROOT[:-1]:
            return Response(None, 308, pairs=[("Location", f"{request.prefix}{ROOT}")])
        if request.method not in METHODS or (path == "/" and request.method == "POST"):
            raise MethodNotAllowed("Pages are read, and their forms are posted", METHODS)
        if path == LOGIN:
            return await self._login(request)
        form = await sent_form(request) if request.method == "POST" else None
        if path == LOGOUT:
            return await self._logout(request, form)
        has_just_logged_in = form is not None and USERNAME in form.fields
        if has_just_logged_in and form is not None:
            if not is_of_own_page(request):  # there is no token to tell that
                raise Problem("A page of another site can neither log somebody in nor send a form", 403)
            fault = await self._try_login(request, form.fields.pop(USERNAME), form.fields.pop(PASSWORD, ""))
            if fault is not None:
                return await self._login_form(request, fault, form)
        if not isinstance(request.user, User):
            if form is None and request.method != "HEAD" and path != "/":
                return await self._login_form(request)
            return await self._login_form(
                request, None if form is None else AccessViolation(None, "Your login has ended. Log in to go on"), form
            )
        if request.user.role is None:
            raise AccessViolation(request.user, "This user has no role, so it may do nothing here")
        if form is not None:
            token = form.fields.pop(FIELD, "")
            if not has_just_logged_in:
                check_token(request, token)
        return await self._show(request, form)

    async def _show(self, request: Request, form: SentForm | None) -> Response:
        place, rest = _place_of(request.pathname)
        page = ConsolePage(self._operations, self._templates, self._compression, request, place, rest)
        page.fields, page.form = query_fields(request.query), form
        if place.operation and not page.may(place.operation):
            raise AccessViolation(page.user)
        module: Any = import_module(place.module)
        answer = module.show if form is None else getattr(module, "send", None)
        if answer is None:
            raise MethodNotAllowed("This page has no form", ("GET", "HEAD"))
        response: Response = await answer(page)
        return response

    # --- login -----------------------------------------------------------------------------------------------------------------------

    async def _login(self, request: Request) -> Response:
        """The form, and what it sends. A login leads to the page that asked for it."""
        if request.method != "POST":
            return await self._login_form(request, redirect=query_fields(request.query).get("redirect", ""))
        form = await sent_form(request)
        fault = await self._try_login(request, form.text(USERNAME), form.text(PASSWORD))
        redirect = local_path(form.text("redirect"))
        if fault is not None:
            return await self._login_form(request, fault, redirect=redirect or "")
        return Response(None, 303, pairs=[("Location", redirect or "./"), NO_STORE])

    async def _try_login(self, request: Request, username: str, password: str) -> Problem | None:
        """Why it was refused; None: the caller is logged in."""
        try:
            if not username or not password:
                raise ClientError("Enter a user name and a password", 401)
            await request.login(username, password)
        except Problem as fault:
            return fault
        request.user = self._operations.node.directory.named(username)
        return None

    async def _login_form(
        self, request: Request, fault: Problem | None = None, form: SentForm | None = None, redirect: str | None = None
    ) -> Response:
        """`form`: what was sent without a login: it is kept in the form, and done after the login. `redirect`: where to go after it; None: to this address."""
        pairs: HeaderPairs = [NO_STORE, *(() if fault is None else fault.headers)]
        status = 401 if redirect is None else 200
        if fault is not None:
            status = fault.status_code
        if status == 401:
            pairs += TOKEN_CHALLENGE  # with Basic the browser would ask its user in a window of its own
        if request.foreign is not None or not is_of_own_page(request):
            form = None  # who logged in would do the will of another site
        kept = {} if form is None else {name: value for name, value in form.fields.items() if not name.startswith("_")}
        lost = "" if form is None else lost_by_login(form, kept, request.pathname)
        if redirect is None and (form is None or lost):
            redirect = request.prefix + request.target
        password_file = self._operations.node.config.root / PASSWORD_FILE
        values = {
            "title": "Log in",
            "fault": "" if fault is None else shortened(fault.message, _LONGEST_FAULT),
            "kept": {} if lost else kept,
            "lost": lost,
            "action": "" if kept and not lost else f"{root_of_console(request.pathname)}login",
            "redirect": redirect or "",
            "password_file": str(password_file) if password_file.exists() else "",
        }
        return await self._page(request, "console_login.html", values, status, pairs)

    async def _logout(self, request: Request, form: SentForm | None) -> Response:
        if form is None:
            raise MethodNotAllowed("Log out with the button", ("POST",))
        check_token(request, form.text(FIELD))
        if request.session is not None:
            await request.session.delete()
        return Response(None, 303, pairs=[("Location", "./"), NO_STORE])

    # --- what is wrong ---------------------------------------------------------------------------------------------------------------

    async def problem(self, request: Request, fault: Problem) -> Response:
        """An error as a page."""
        values = {
            "title": REASONS.get(fault.status_code, "Error"),
            "status": fault.status_code,
            "code": fault.code,
            "detail": shortened(fault.message, _LONGEST_FAULT),
        }
        return await self._page(request, "console_error.html", values, fault.status_code, [NO_STORE, *fault.headers])

    async def _page(self, request: Request, template: str, values: Mapping[str, Any], status: int, pairs: HeaderPairs) -> Response:
        root = root_of_console(request.pathname)
        frame = frame_of(request, has_login=False)
        frame.home = root
        body = await self._templates.render(template, {"frame": frame, "trail": [], "console": root, **values})
        names = {name.lower() for name, _ in pairs}
        pairs = [*pairs, *(pair for pair in PAIRS if pair[0].lower() not in names)]
        return self._compression.apply(request, Response(body, status, pairs=pairs))


def _place_of(path: str) -> tuple[Place, list[str]]:
    """The place of a path, and the decoded segments behind it. Raises NotFound.

    >>> _place_of("/")[0].title, _place_of("/console/")[1]
    ('Overview', [])
    """
    if path in ("/", ROOT):
        return BY_PATH[""], []
    first, *rest = path[len(ROOT) :].split("/")
    place = BY_PATH.get(first)
    if place is None or not first:
        raise NotFound("There is no such page")
    return place, [unquote(each, errors="replace") for each in rest if each]
