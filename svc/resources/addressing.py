"""From a request to the resource it is for, the same for every protocol (spec: http §1)."""

from __future__ import annotations

from svc.errors import ApplicationFault, ClientError, ServerError
from svc.messages import Request
from svc.resources.registry import Registration, Resources
from svc.resources.resource import Resource
from svc.resources.target import RequestTarget, parse_target

WRITES = frozenset({"PUT", "PATCH", "POST", "DELETE", "COPY", "MOVE"})  # an extension is a way of reading; to these it is a part of the key


def addressed(resources: Resources, request: Request, protocol: str, *, bind: bool = True) -> tuple[type[Resource], RequestTarget] | None:
    """The resource that answers over `protocol`, and what of it is meant; None: nothing answers there. Sets `request.handler_path`.

    `bind`: whether the text of an id becomes a key, for which a table may be read. Raises ServerError for an address that is shut off, and what
    `parse_target` and `bind` raise for one that cannot be understood; but to callers who may do nothing there only that they may not, which is all that
    they get to know of a table.
    """
    reads = request.method not in WRITES
    found = resources.find(request.pathname, protocol, reads)
    if found is None:
        return None
    registration, relative_url = found
    request.handler_path = registration.path
    if registration.fault:
        raise ApplicationFault(registration.fault, request.user) if registration.is_unloaded else ServerError(registration.fault)
    resource = registration.resource
    try:
        query = request.query
        if registration.pattern is not None:
            target = _with_parameters(registration, relative_url, request, reads)
            if not reads and target.id_text is None:
                resource.refuse_conditions(request)
            return resource, target
        target = parse_target(relative_url, query, resource.properties, reads)
        if not reads:
            if target.id_text is None:
                resource.refuse_conditions(request)
            elif query:
                resource.refuse_query(target, request.method)
        if bind and (target.id_text is not None or (target.extension is not None and request.method != "QUERY")):
            resource.bind(target, request)
    except ClientError:
        if request.method != "OPTIONS":  # which needs no authentication
            resource.admit(request)
        raise
    return resource, target


def _with_parameters(registration: Registration, relative_url: str, request: Request, reads: bool) -> RequestTarget:
    """The target below an address with parameters, whose values application code finds in it."""
    target = parse_target(relative_url, request.query, registration.resource.properties, reads)
    registration.resource.bind(target, request)
    registration.resource.set_parameters(target, registration.parameters(request.pathname))
    return target
