"""What works with the tables of a database: it would go on with those that were there before a restore."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from svc.apps import App
    from svc.resources import Resources

HOLDER = "what works with the tables of a database"
"""Asked of other processes with its name: the first that does, or None."""


def maybe_holder(apps: Sequence[App], resources: Resources, database: str) -> str | None:
    """The first, None if there is nothing."""
    return next(_holders(apps, resources, database), None)


def _holders(apps: Sequence[App], resources: Resources, database: str) -> Iterator[str]:
    for app in apps:
        if any(found.database == database for found in app.definitions):
            yield f"the component '{app.name}'"
    for registration in resources.values():
        table = getattr(registration.resource, "table", None)
        if table is not None and table.database.name == database:
            yield f"the resource '/{registration.path}'"
