"""What becomes of a body of which only the head is here: refused, or put into a file as it comes (spec: http §2.5).

A client without the right to write is refused before the body is read. Whatever depends on the body is checked later, by the
handler, which checks everything again.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING

from svc.content.registry import ContentTypes
from svc.errors import BadBody, NotFound, Problem
from svc.http.bodies import body_type, holds_raw_bytes, is_form, query_limit
from svc.http.conditional import write_precondition
from svc.http.media_types import blob_type
from svc.messages import Request
from svc.resources import RequestTarget, Resources, TableResource, addressed
from svc.resources.target import decode_path, last_name
from svc.store.blobs import Upload
from svc.store.schema import Attribute

if TYPE_CHECKING:
    from svc.connection.exchange import BodyLimit
    from svc.http.forms import FormUpload

_VERBS = {"PUT": "put", "PATCH": "patch", "POST": "post"}  # whose bodies are written to tables


def upload_name(resource: type[TableResource], target: RequestTarget) -> str | None:
    """The attribute that a PUT addresses by its last segment, None if the whole path is an id."""
    name = last_name(target)
    attribute = None if name is None else resource.properties.get(name)
    if attribute is None or not attribute.stored or attribute.primary_key:
        return None
    return name


def uploaded_record(target: RequestTarget) -> RequestTarget:
    """The target of the record whose property is addressed by `upload_name`; to be bound."""
    assert target.raw is not None
    raw = target.raw.rpartition("/")[0]
    record = copy(target)
    record.id_text, record.raw = decode_path(raw), raw
    return record


def refuse_range(request: Request) -> None:
    """Raise BadBody for a body that is a part of what is meant: stored as it is, it would take the place of the whole (RFC 9110 §14.5)."""
    if "content-range" in request.block.fields:
        raise BadBody(f"{request.method} with Content-Range: parts cannot be written, send the whole content")


def receive(
    request: Request, resources: Resources, types: ContentTypes, unclaimed: Callable[[Request], Problem]
) -> Upload | FormUpload | BodyLimit | None:
    """A sink for the body; None or a limit: it is to be collected. `unclaimed`: the answer where no resource is. Raises Problem: it is not wanted."""
    verb = _VERBS.get(request.method)
    if verb is None and request.method != "QUERY":
        return query_limit(request)
    found = addressed(resources, request, "rest", bind=False)
    if found is None:
        raise unclaimed(request)
    resource, target = found
    resource.admit(request)
    if not issubclass(resource, TableResource):
        return None if verb is not None else query_limit(request)
    if verb is None:
        resource.authorize("query", target, None, request)
        return query_limit(request)
    if verb not in resource.verbs:
        return None
    name = upload_name(resource, target) if verb == "put" and target.property is None else None
    if name is None:
        if target.id_text is not None:
            resource.bind(target)
        resource.authorize(verb, target, None, request)
        refuse_range(request)
        return _form_sink(request, types, resource, resource.table.attributes.get)
    record = uploaded_record(target)
    resource.bind(record)
    resource.authorize("patch", record, {name: None}, request)
    refuse_range(request)
    precondition = write_precondition(request.block)
    if precondition is not None:
        raw = resource.table.get_raw(record.id)
        if raw is not None and not resource.may_see(raw, request):  # said before the body, too
            raise NotFound()
        precondition.check(raw)
    attribute = resource.properties[name]
    content_type = body_type(request.block, types).content_type
    if is_form(content_type, types):
        return _form_sink(request, types, resource, lambda part: attribute)
    if attribute.type != "Blob" or attribute.elements or not holds_raw_bytes(attribute, content_type, types):
        return None
    if "content-encoding" in request.block.fields:
        return None
    return Upload(resource.table.database.blobs, resource.store.helper, blob_type(content_type))


def _form_sink(
    request: Request, types: ContentTypes, resource: type[TableResource], attribute_of: Callable[[str], Attribute | None]
) -> FormUpload | None:
    """The sink for the body of a form; None: it is not a form, or has to be decoded first."""
    content_type = body_type(request.block, types).content_type
    if content_type is None or not is_form(content_type, types) or "content-encoding" in request.block.fields:
        return None
    from svc.http.forms import FormUpload  # few servers get forms, and the library need not be there before

    files, helper = resource.table.database.blobs, resource.store.helper
    return FormUpload(content_type, attribute_of, lambda type_: Upload(files, helper, blob_type(type_)))
