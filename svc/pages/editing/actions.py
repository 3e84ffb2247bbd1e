"""What pages of tables and records offer besides reading: only what the caller may do, as far as that is known before it is done."""

from __future__ import annotations

from svc.auth.users import user_of
from svc.errors import Problem
from svc.messages import Request
from svc.query.narrowing import guard_of
from svc.resources import RequestTarget, Resources, TableResource, addressed
from svc.store.values.keys import encode_primary, storage_key

Action = tuple[str, str, str]
"""(text, address relative to the page, key that leads there)."""


def actions_at(resources: Resources, request: Request) -> list[Action]:
    """For the page of an address."""
    try:
        found = addressed(resources, request, "rest")
    except Problem:
        return []
    if found is None:
        return []
    resource, target = found
    if not issubclass(resource, TableResource) or "_view" in resource.properties:
        return []
    registration = resources.get(request.handler_path)
    if registration is None or registration.pattern is not None:
        return []
    if target.id_text is None:
        return collection_actions(resource, target, request)
    return record_actions(resource, target, request) if target.property is None and target.extension is None else []


def collection_actions(resource: type[TableResource], target: RequestTarget, request: Request) -> list[Action]:
    """`target`: the collection."""
    if not target.is_collection:  # a description of the table
        return []
    return [("New record", "?_view=new", "i")] if _may(resource, target, request, "post") else []


def record_actions(resource: type[TableResource], target: RequestTarget, request: Request) -> list[Action]:
    """`target`: the record."""
    found: list[Action] = []
    raw = resource.table.get_raw(target.id) if target.id is not None else None
    if raw is None or not resource.may_see(raw, request):
        return []
    if _may(resource, target, request, "patch") and rules_allow("update", resource, target, request, raw):
        found.append(("Edit", "?_view=edit", "e"))
    whole = RequestTarget()
    whole.is_collection, whole.raw = True, ""
    if _may(resource, whole, request, "post"):
        found.append(("Duplicate", "?_view=copy", "c"))
    if _may(resource, target, request, "delete") and rules_allow("delete", resource, target, request, raw):
        found.append(("Delete", "?_view=delete", "d"))
    return found


def rules_allow(action: str, resource: type[TableResource], target: RequestTarget, request: Request, raw: bytes) -> bool:
    """Whether rules on rows let the caller change ("update") or delete a record as it is."""
    table = resource.table
    guard = None if resource.own_rights else guard_of(user_of(request), table)  # code of an application decides by itself
    if guard is None:
        return True
    test = guard.may_delete if action == "delete" else guard.may_update
    return test(table, table.database.snapshot(), storage_key(encode_primary(target.id)), raw)


def _may(resource: type[TableResource], target: RequestTarget, request: Request, verb: str) -> bool:
    if verb not in resource.verbs:
        return False
    before = target.rights
    try:
        resource.authorize(verb, target, None, request)
        return bool(target.rights.update) if verb == "patch" else True
    except Problem:
        return False
    finally:
        target.rights = before
