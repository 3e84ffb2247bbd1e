"""Whether records can be imported, for pages that lead there."""

from __future__ import annotations

from svc.auth.roles import rights
from svc.auth.users import User
from svc.resources import Registration, TableResource

_OPERATIONS = ("add_upload", "read_upload", "load_upload", "get_job", "cancel_job")
_GROUP = "standard_user"  # has the first four


def may_import(registration: Registration, user: User | None) -> bool:
    """Not where code of an application stands before the table, or its records are of another source: the load would pass by it."""
    resource = registration.resource
    if user is None or user.role is None or not issubclass(resource, TableResource) or hasattr(resource, "application"):
        return False
    if resource.is_system or resource.table.caching is not None or "post" not in resource.verbs:
        return False
    if user.super_user:
        return True
    given = user.role.permission.get("operations")
    if isinstance(given, list | tuple) and _GROUP not in given and not set(_OPERATIONS[:4]).issubset(given):
        return False
    return rights(user, resource.table).insert
