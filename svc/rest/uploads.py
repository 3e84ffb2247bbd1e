"""What becomes of a body of which only the head is here: refused, or put into a file as it comes (contract: http §2.5).

Whoever may not write here is told so before the body is read. What can be refused only by what is in the body is refused later, by the
handler, which checks everything again.
"""

from __future__ import annotations

from dataclasses import replace

from svc.content.registry import ContentTypes
from svc.errors import NotFound
from svc.messages import Request
from svc.resources import RequestTarget, Resources, TableResource, parse_target
from svc.rest.bodies import holds_raw_bytes
from svc.rest.conditional import write_precondition
from svc.store.blobs import Upload

_VERBS = {"PUT": "put", "PATCH": "patch", "POST": "post"}  # whose bodies are written to tables


def upload_name(resource: type[TableResource], target: RequestTarget) -> str | None:
    """The attribute that a PUT addresses by its last segment, None if the whole path is an id."""
    if target.id_text is None or "/" not in target.id_text:
        return None
    name = target.id_text.rpartition("/")[2]
    attribute = resource.properties.get(name)
    if attribute is None or not attribute.stored or attribute.primary_key:
        return None
    return name


def uploaded_record(target: RequestTarget) -> RequestTarget:
    """The target of the record whose property is addressed by `upload_name`; to be bound."""
    assert target.id_text is not None
    return replace(target, id_text=target.id_text.rpartition("/")[0])


def receive(request: Request, resources: Resources, types: ContentTypes) -> Upload | None:
    """A sink for the body; None: it is to be collected. Raises Problem: it is not wanted."""
    verb = _VERBS.get(request.method)
    if verb is None and request.method != "QUERY":
        return None
    found = resources.find(request.pathname, "rest")
    if found is None:
        raise NotFound("Not found")
    registration, relative_url = found
    request.handler_path = registration.path
    if registration.fault:
        return None
    resource = registration.resource
    resource.admit(request)
    if verb is None or verb not in resource.verbs or not issubclass(resource, TableResource):
        return None
    target = parse_target(relative_url, request.query, resource.properties)
    name = upload_name(resource, target) if verb == "put" and target.property is None else None
    if name is None:
        if target.id_text is not None:
            resource.bind(target)
        resource.authorize(verb, target, None, request)
        return None
    record = uploaded_record(target)
    resource.bind(record)
    resource.authorize("patch", record, {name: None}, request)
    precondition = write_precondition(request.block)
    if precondition is not None:
        precondition.check(resource.table.get_raw(record.id))
    attribute = resource.properties[name]
    content_type = request.block.get("content-type")
    if attribute.type != "Blob" or attribute.elements or not holds_raw_bytes(attribute, content_type, types):
        return None
    if "content-encoding" in request.block.fields:
        return None
    return Upload(resource.table.database.blobs, resource.store.helper, content_type)
