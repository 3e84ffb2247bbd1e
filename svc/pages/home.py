"""What there is at a server, for its root address: the same facts for a page and for programs (spec: http §10.4)."""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Collection, Iterable
from inspect import cleandoc
from typing import Any

from svc.auth.roles import rights
from svc.auth.users import user_of
from svc.messages import Request
from svc.pages.links import is_readable
from svc.query.narrowing import view_of
from svc.query.tables import rule_members
from svc.resources import Registration, Resource, Resources, TableResource
from svc.resources.resource import CONNECTING
from svc.store.record_counts import known_count

MOST_RESOURCES = 1000
MOST_WAYS = 100  # resources whose addresses in all interfaces are told on the page
_AT_ONCE = 50  # resources that are looked at before other requests are served
_NEEDED = {
    "GET": ("allow_read", ("read",)),
    "POST": ("allow_create", ("insert",)),
    "PUT": ("allow_update", ("insert", "update")),
    "PATCH": ("allow_update", ("update",)),
    "DELETE": ("allow_delete", ("delete",)),
}
"""Method -> what code of an application decides it by, and the rights on the table of which one is needed."""
_INTERFACES = {
    "/docs": "documentation of the HTTP interface",
    "/openapi": "description of the HTTP interface (OpenAPI)",
    "/graphql": "GraphQL",
    "/sql": "SQL",
    "/dev/mail": "mails that would have been sent",
}


async def facts(resources: Resources, endpoints: Iterable[str], request: Request, *, has_login: bool) -> dict[str, Any]:
    """`endpoints`: the paths at which something answers besides resources. Of resources only those that the caller may read; `form`: of
    the addresses of a class that has nothing to show at its path."""
    found: list[dict[str, Any]] = []
    for number, registration in enumerate(sorted(resources.values(), key=lambda each: each.path)):
        if number % _AT_ONCE == _AT_ONCE - 1:
            await sleep(0)
        if not registration.path or not is_readable(registration, request):
            continue
        resource = registration.resource
        is_table = issubclass(resource, TableResource)
        code = getattr(resource, "application", None)
        if issubclass(resource, TableResource) and resource.table.definition.hidden:
            continue
        entry: dict[str, Any] = {
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
        entry["methods"] = methods_of(resource, request)
        if issubclass(resource, TableResource):
            entry |= _table_facts(resource, entry["path"], request)
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


def methods_of(resource: type[Resource], request: Request) -> list[str]:
    """The methods that a caller may use there somehow, as far as its role tells; what code of an application decides itself is told as allowed."""
    user = user_of(request)
    own = resource.own_rights or ()
    may = rights(user, resource.table) if issubclass(resource, TableResource) else None
    is_super = user is not None and user.super_user and (may is None or not resource.is_system)  # type: ignore[attr-defined]
    there = resource.allowed_methods()

    def is_allowed(allow: str, needed: tuple[str, ...]) -> bool:
        return is_super or allow in own or (may is not None and any(getattr(may, right) for right in needed))

    return [method for method, (allow, needed) in _NEEDED.items() if method in there and is_allowed(allow, needed)]


def _table_facts(resource: type[TableResource], path: str, request: Request) -> dict[str, Any]:
    """The form of the address of a record, the address of the description, and the number of records where that is cheap and may be told."""
    table = resource.table
    found: dict[str, Any] = {"record": f"{path}{{{table.primary_key}}}", "attributes": path.rstrip("/")}
    if not hasattr(resource, "application") and not rule_members(view_of(user_of(request), table)):
        count = known_count(table, table.database.snapshot())
        if count is not None:
            found["count"] = count
    return found


def ways_of(registration: Registration, path: str, endpoints: Collection[str], request: Request) -> list[tuple[str, str]]:
    """(interface, text to copy) of a resource. `endpoints`: the paths at which something answers besides."""
    resource = registration.resource
    root = f"{request.scheme}://{request.host}{request.prefix}"
    name = registration.path
    found = [("REST", f"{root}{path}")]
    if not CONNECTING.isdisjoint(resource.verbs):
        if registration.visible("sse"):
            found.append(("Events", f"curl -N -H 'Accept: text/event-stream' '{root}{path}'"))
        if registration.visible("ws"):
            found.append(("WebSocket", f"ws{root.removeprefix('http')}{path}"))
        if registration.visible("mqtt"):
            found.append(("MQTT topics", f"{path[1:]}#"))
    if not issubclass(resource, TableResource):
        return found
    table = resource.table
    if "/graphql" in endpoints and registration.visible("graphql") and name.isidentifier():
        found.append(("GraphQL", f"{{ {name} {{ {table.primary_key} }} }}"))
    if "/sql" in endpoints and table.name.isidentifier() and table.database.name.isidentifier():
        found.append(("SQL", f"SELECT * FROM {table.database.name}.{table.name}"))
    return found
