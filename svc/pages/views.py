"""What pages of tables and records have besides showing them: `?_view=edit` and the like (spec: http §7.8).

A view has an address of its own, that of the record or collection with `_view` in the query, so that nothing else has to know of it: resources, rights,
and code of applications are those of the address. GET shows it; its form is posted to the same address. Modules are imported for the first request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from svc.errors import ClientError, NotFound, Problem
from svc.http.query_fields import query_fields
from svc.messages import Request, Response
from svc.pages.frame import NO_STORE, root_of
from svc.pages.sent_form import SentForm, sent_form
from svc.pages.tokens import FIELD, check_token, form_token
from svc.resources import Registration, RequestTarget, TableResource

if TYPE_CHECKING:
    from svc.pages.links import Links
    from svc.pages.pages import Pages


VIEWS: Mapping[str, str] = {
    "history": "svc.pages.history.history",
    "import": "svc.pages.importing.importing",
    "new": "svc.pages.editing.create",
    "edit": "svc.pages.editing.edit",
    "copy": "svc.pages.editing.create",
    "delete": "svc.pages.editing.remove",
    "pick": "svc.pages.editing.choices",
}
"""Name -> module, which has `async def show(call)` for GET, and if it has a form `async def send(call)` for POST. Both return a Response, and raise Problem."""


@dataclass(slots=True)
class ViewCall:
    """`name`: of the view. `fields`: of the address. `form`: what was posted, its token checked; None for GET. `registration`: of the resource."""

    pages: Pages
    name: str
    request: Request
    resource: type[TableResource]
    target: RequestTarget
    registration: Registration
    fields: Mapping[str, str]
    form: SentForm | None = None

    @property
    def links(self) -> Links:
        return self.pages.links(self.request)

    @property
    def collection(self) -> str:
        """The relative address of all records."""
        path = self.pages.trail(self.registration)
        return root_of(self.request.pathname) + (path[0][1] if path else "")

    def may(self, verb: str, data: Any = None) -> bool:
        """Whether the caller may do this there, as far as that is known before it is done. `verb`: "get", "post", "put", "patch", "delete"."""
        resource, target = self.resource, self.target
        if verb not in resource.verbs:
            return False
        before = target.rights
        try:
            resource.authorize(verb, target, data, self.request)
        except Problem:
            return False
        finally:
            target.rights = before
        return True

    async def page(self, template: str, *, title: str, status: int = 200, **values: Any) -> Response:
        """A page with a form: `token` is what its field `_token` holds."""
        trail = self.pages.trail(self.registration)
        common = {"title": title, "trail": trail, "formats": [], "token": form_token(self.request)}
        response: Response = await self.pages.form(self.request, template, status=status, pairs=[NO_STORE], **{**common, **values})
        return response

    def see_other(self, location: str) -> Response:
        """Where a form leads. `location`: relative to the address, or a path of this server with its prefix."""
        return Response(None, 303, pairs=[("Location", location), NO_STORE])


async def answer_view(
    pages: Pages, request: Request, resource: type[TableResource], target: RequestTarget, registration: Registration
) -> Response:
    """The answer to GET of a view, or to a form that is posted to it. Raises Problem."""
    resource.admit(request)
    fields = query_fields(request.query)
    name = fields.get("_view", "")
    module = VIEWS.get(name)
    if module is None:
        raise NotFound(f"There is no view '{name[:40]}': {', '.join(VIEWS)}")
    found = import_module(module)
    target.query = None
    call = ViewCall(pages, name, request, resource, target, registration, fields)
    answer = found.show
    if request.method == "POST":
        answer = getattr(found, "send", None)
        if answer is None:
            raise ClientError("This page has no form", 405, "METHOD_NOT_ALLOWED")
        call.form = await sent_form(request)
        check_token(request, call.form.fields.pop(FIELD, ""))
    response: Response = await answer(call)
    return response
