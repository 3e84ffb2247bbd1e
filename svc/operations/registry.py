"""All operations, by name and alias. A module with rows is added to MODULES; nothing else has to know of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module

from svc.operations.operation import CATEGORIES, Operation

MODULES = (
    "databases",
    "records",
    "searches",
    "sql",
    "loads",
    "upload_loads",
    "exports",
    "jobs",
    "history",
    "users",
    "roles",
    "grants",
    "application_accounts",
    "tokens",
    "sessions",
    "api_keys",
    "configuration",
    "system",
    "status",
    "scheduled_jobs",
    "mails",
    "log_reading",
    "backups",
    "certificates",
    "components",
    "component_deployments",
    "custom_functions",
    "ssh_keys",
    "unavailable",
    "cluster",
    "registration",
    "analytics",
)
"""Modules of this package that have `OPERATIONS`."""


@cache
def all_operations() -> tuple[Operation, ...]:
    """Every row, in the order of the categories and within one as its module lists them."""
    rows = [row for name in MODULES for row in import_module(f"svc.operations.{name}").OPERATIONS]
    order = list(CATEGORIES)
    return tuple(sorted(rows, key=lambda row: order.index(row.category)))


@cache
def by_name() -> Mapping[str, Operation]:
    """Name or alias -> row."""
    return _by_name(all_operations())


def _by_name(rows: Iterable[Operation]) -> Mapping[str, Operation]:
    found: dict[str, Operation] = {}
    for row in rows:
        for name in row.names:
            assert name not in found, f"two operations are called {name}"
            found[name] = row
    return found
