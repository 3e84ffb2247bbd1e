"""Forms of HTML that are sent to a collection by a browser: what comes back is a page, never data (spec: http §7.7).

After 201 the browser is led to the new record, so a reload does not send the form once more. A field `redirect` leads elsewhere on this server.
"""

from __future__ import annotations

from typing import Any

from svc.errors import ClientError
from svc.http.media_types import media_type_of
from svc.messages import Request, Response
from svc.resources import Resource
from svc.rest.login import local_path

REDIRECT = "redirect"
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


def is_html_form(request: Request) -> bool:
    """Whether the body is one that a `<form>` sends."""
    return media_type_of(request.block.fields.get("content-type")) in _FORMS


def ends_at_page(request: Request) -> bool:
    """Whether the body is one that a `<form>` sends, of any `enctype` that there is."""
    return media_type_of(request.block.fields.get("content-type")) in (*_FORMS, "text/plain")


def take_redirect(data: Any, resource: type[Resource]) -> str | None:
    """Take the field `redirect` out of a form; None if there is none, or if it is an attribute of the table. Raises ClientError 400 for another site."""
    if not isinstance(data, dict) or REDIRECT not in data or REDIRECT in getattr(resource, "properties", ()):
        return None
    value = data.pop(REDIRECT)
    if value in ("", None):
        return None
    path = local_path(value)
    if path is None:
        raise ClientError("'redirect' must be a path on this server, such as /thanks.html", code="BAD_VALUE")
    return path


def redirected(response: Response, path: str, *, is_created: bool) -> Response:
    """The answer to a form that was accepted: go on there. Errors, and what code of an application leads to, stay what they are."""
    if response.status >= 300 and not is_created:
        return response
    close = getattr(response.body, "close", None)
    if close is not None:
        close()
    kept = [pair for pair in response.pairs if pair[0].lower() in _KEPT]
    return Response(None, 303, pairs=[("Location", path), ("Cache-Control", "no-store"), *kept])


_KEPT = frozenset(("set-cookie", "server-timing"))
