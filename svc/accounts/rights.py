"""What a member may do, for `GET /accounts/me` (spec: rows §2.8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svc.auth.roles import TableRights, rights
from svc.auth.users import User
from svc.store import Database
from svc.store.system import SYSTEM

RIGHTS = ("read", "insert", "update", "delete")
ACTIONS = ("read", "create", "update", "delete")
"""Of rules on rows."""


def rights_of(user: User, databases: Mapping[str, Database]) -> dict[str, Any]:
    """{database: {table: {"read": true, "insert": false, ..., "attributes": {name: [right, ...]}, "rows": {"read": [condition, ...]}}}}, of the tables with
    some right.

    `attributes` is there where the rights are not the same on all of them; `rows` where rules narrow them to some records: for each action that is narrowed
    the conditions of which one must hold."""
    found: dict[str, Any] = {}
    for name, database in databases.items():
        if name == SYSTEM:
            continue
        tables = {}
        for table in database.tables.values():
            found_rights = rights(user, table)
            if found_rights.any:
                tables[table.name] = _shown(found_rights)
        if tables:
            found[name] = dict(sorted(tables.items()))
    return dict(sorted(found.items()))


def _shown(given: TableRights) -> dict[str, Any]:
    shown: dict[str, Any] = {name: getattr(given, name) for name in RIGHTS}
    if given.attributes is not None:
        shown["attributes"] = {
            name: [right for right in ("read", "insert", "update") if getattr(given.attribute(name), right)] for name in given.attributes
        }
    if given.rows is not None:
        shown["rows"] = {action: list(conditions) for action in ACTIONS if (conditions := getattr(given.rows, action))}
    return shown
