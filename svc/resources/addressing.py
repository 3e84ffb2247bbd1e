"""From a request to the resource it is for, the same for every protocol (contract: http §1)."""

from __future__ import annotations

from svc.errors import ServerError
from svc.messages import Request
from svc.resources.registry import Resources
from svc.resources.resource import Resource
from svc.resources.target import RequestTarget, parse_target


def addressed(resources: Resources, request: Request, protocol: str) -> tuple[type[Resource], RequestTarget] | None:
    """The resource that answers over `protocol`, and what of it is meant; None: nothing answers there. Sets `request.handler_path`.

    Raises ServerError for an address that is shut off, and what `parse_target` and `bind` raise for one that cannot be understood.
    """
    found = resources.find(request.pathname, protocol)
    if found is None:
        return None
    registration, relative_url = found
    request.handler_path = registration.path
    if registration.fault:
        raise ServerError(registration.fault)
    resource = registration.resource
    target = parse_target(relative_url, request.query, resource.properties)
    if target.id_text is not None:
        resource.bind(target)
    return resource, target
