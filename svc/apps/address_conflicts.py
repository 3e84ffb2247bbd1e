"""What is said of an address that several resources claim (spec: applications §10): every request there is answered with it."""

from __future__ import annotations

from typing import Any

from svc.resources import Registration, Resources, TableResource
from svc.resources.table_base import TableBase


def conflict_of(resources: Resources, registration: Registration) -> str:
    """The message about the address of `registration`: a class of an application, or an exported table."""
    served: Any = registration.resource
    path = registration.path
    if hasattr(served, "application"):
        return f"{served.application.__qualname__} at /{path}: {registration.fault}{_hint(resources, registration)}"
    names = [_name_of(claim) for claim in resources.claims(path) if claim is not registration]
    return (
        f"table {served.table.database.name}.{served.table.name} is exported as /{path}, and so is {' and '.join(names)}:"
        " every request there is answered 500 until one of them has another @export(name: ...)"
    )


def _name_of(claim: Registration) -> str:
    if claim.load_fault:
        return "something that could not be loaded"
    resource = claim.resource
    return f"{resource.table.database.name}.{resource.table.name}" if issubclass(resource, TableResource) else resource.__qualname__


def _hint(resources: Resources, registration: Registration) -> str:
    """What to do about a class that is derived from a table which is exported at the same address."""
    served: Any = registration.resource
    table = served.application._table
    if table is None or not any(
        issubclass(claim.resource, TableBase) and not hasattr(claim.resource, "application") and claim.resource.table is table
        for claim in resources.claims(registration.path)
    ):
        return ""
    return f", for type {table.name} is exported there: remove its @export, or give the class another name"
