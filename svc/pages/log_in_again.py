"""A form that is sent after its login has ended: the login is asked for with what was sent, which is done after it (spec: http §7.8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from svc.auth.identify import TOKEN_CHALLENGE
from svc.connection.exchange import BodyLimit
from svc.errors import AccessViolation, ClientError, Problem
from svc.messages import HeaderPairs, Request, Response
from svc.pages.cells import shortened
from svc.pages.frame import NO_STORE
from svc.pages.kept_forms import LONGEST, is_of_own_page, lost_by_login
from svc.pages.sent_form import SentForm, form_limit
from svc.pages.tokens import FIELD

if TYPE_CHECKING:
    from svc.pages.pages import Pages
    from svc.resources import Resource

USERNAME, PASSWORD = "_username", "_password"
_LONGEST_FAULT = 1000  # characters


def limit_at(pages: Pages, request: Request, resource: type[Resource]) -> BodyLimit:
    """How the body of a form is collected. Raises AccessViolation for callers without any right there, unless they may log in with a short one."""
    try:
        resource.admit(request)
    except AccessViolation as fault:
        if not is_wanted(pages, request, fault):
            raise
        return BodyLimit(LONGEST, fault)
    return form_limit()


def is_wanted(pages: Pages, request: Request, fault: Problem) -> bool:
    """Whether what was refused may be done after a login. Not what another site has sent: who logged in would do its will."""
    if request.user is not None or request.foreign is not None or not is_of_own_page(request) or not pages.can_log_in(request):
        return False
    return fault.status_code == 401 or fault.code == "FORM_TOKEN"


async def answered_after_login(pages: Pages, request: Request, form: SentForm, answer: Callable[[bool], Awaitable[Response]]) -> Response:
    """What `answer` makes of a form, which it is told whether its sender has logged in by it; or the form of the login. Raises Problem."""
    if request.foreign is not None or not is_of_own_page(request):
        return await answer(False)
    try:
        has_logged_in = await _log_in(pages, request, form)
    except Problem as fault:
        return await _ask(pages, request, form, fault)
    try:
        return await answer(has_logged_in)
    except Problem as fault:
        if is_wanted(pages, request, fault):
            return await _ask(pages, request, form, None)
        raise


async def _log_in(pages: Pages, request: Request, form: SentForm) -> bool:
    """Whether the form has a user name and a password, as ours; then its sender is logged in. Raises Problem."""
    if request.user is not None or USERNAME not in form.fields or not pages.can_log_in(request):
        return False
    username, password = form.fields.pop(USERNAME), form.fields.pop(PASSWORD, "")
    if not username or not password:
        raise ClientError("Enter a user name and a password", 401)
    await request.login(username, password)
    return True


async def _ask(pages: Pages, request: Request, form: SentForm, fault: Problem | None) -> Response:
    """The form of the login, with the fields that were sent. `fault`: why the login was refused; None: it has not been tried."""
    own = (FIELD, USERNAME, PASSWORD)
    kept = {name: value for name, value in form.fields.items() if name not in own}
    lost = lost_by_login(form, kept, request.pathname)
    status = 401 if fault is None else fault.status_code
    pairs: HeaderPairs = [NO_STORE, *(() if fault is None else fault.headers)]
    if status == 401:
        pairs += TOKEN_CHALLENGE  # with Basic the browser would ask its user in a window of its own
    text = "Your login has ended. Log in to go on" if fault is None else shortened(fault.message, _LONGEST_FAULT)
    response: Response = await pages.form(
        request, "log_in_again.html", status=status, pairs=pairs, title="Log in", fault=text, kept={} if lost else kept, lost=lost
    )
    return response
