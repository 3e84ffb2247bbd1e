"""What there is at a server, for its root address: the same facts for a page and for programs (spec: http §10.4)."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import cleandoc
from typing import Any

from svc.messages import Request
from svc.pages.links import is_readable
from svc.resources import Resources, TableResource

MOST_RESOURCES = 1000
_INTERFACES = {
    "/docs": "documentation of the HTTP interface",
    "/openapi": "description of the HTTP interface (OpenAPI)",
    "/graphql": "GraphQL",
    "/sql": "SQL",
    "/dev/mail": "mails that would have been sent",
}


def facts(resources: Resources, endpoints: Iterable[str], request: Request, *, has_login: bool) -> dict[str, Any]:
    """`endpoints`: the paths at which something answers besides resources. Of resources only those that the caller may read; `form`: of
    the addresses of a class that has nothing to show at its path."""
    found = []
    for registration in sorted(resources.values(), key=lambda each: each.path):
        if not registration.path or not is_readable(registration, request):
            continue
        resource = registration.resource
        is_table = issubclass(resource, TableResource)
        code = getattr(resource, "application", None)
        if issubclass(resource, TableResource) and resource.table.definition.hidden:
            continue
        entry = {
            "path": resources.path_to(registration.path, ""),
            "name": registration.path,
            "kind": "table" if is_table else "resource",
        }
        if issubclass(resource, TableResource) and resource.table.definition.description:
            entry["description"] = resource.table.definition.description
        elif not is_table and code is not None and "__doc__" in code.__dict__ and code.__doc__:
            entry["description"] = cleandoc(code.__doc__).partition("\n\n")[0]
        if getattr(resource, "needs_key", False):
            entry["form"] = entry["path"] + "{id}"
        found.append(entry)
        if len(found) == MOST_RESOURCES:
            break
    there = {path for path in endpoints if path in resources.reserved or path not in resources}  # a resource comes before some of them
    result: dict[str, Any] = {
        "server": "svc",
        "user": None if request.user is None else request.user.username,
        "resources": found,
        "interfaces": [{"path": path, "name": name} for path, name in _INTERFACES.items() if path in there],
    }
    if has_login:
        result |= {"login": "/login", "logout": "/logout"}
    return result
