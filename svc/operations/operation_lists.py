"""The `operations` list of a role: names and groups (spec: security §5.5).

A list restricts its role to what it names, and opens to it what only super users may do otherwise. A name stands for its aliases too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

from svc.operations.registry import all_operations, by_name
from svc.store.values.conversion import printable

_READ_ONLY = (
    "search",
    "search_by_conditions",
    "search_by_hash",
    "search_by_id",
    "search_by_value",
    "sql",
    "describe_all",
    "describe_schema",
    "describe_database",
    "describe_table",
    "user_info",
    "get_job",
    "get_analytics",
    "list_metrics",
    "describe_metric",
)

GROUPS: Mapping[str, tuple[str, ...]] = {
    "read_only": _READ_ONLY,
    "standard_user": (
        *_READ_ONLY,
        "insert",
        "update",
        "upsert",
        "delete",
        "csv_data_load",
        "csv_file_load",
        "csv_url_load",
        "import_from_s3",
        "add_upload",
        "read_upload",
        "load_upload",
    ),
}


@cache
def known_entries() -> Mapping[str, bool]:
    """Name of an operation or group -> whether a list may hold it: not if it makes a super user of its caller.

    Members of groups are known even where this node does not have them: roles are shared by nodes.
    """
    known = dict.fromkeys([*GROUPS, *[name for members in GROUPS.values() for name in members]], True)
    return known | {name: row.permission.grantable for row in all_operations() for name in row.names}


def refused_grants(roles: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A sentence for each role whose list holds what no list may, as former versions have stored it: it grants nothing. `roles`: records of `svc_role`."""
    known = known_entries()
    for role in roles:
        permission = role.get("permission")
        listed = permission.get("operations") if isinstance(permission, Mapping) else None
        names = [name for name in listed if isinstance(name, str) and known.get(name) is False] if isinstance(listed, list) else []
        if names:
            yield (
                f"the role {printable(str(role.get('role')))} lists {', '.join(names)}, which only super users may call: this grants nothing,"
                " take it out of 'operations' with alter_role"
            )


def expanded(permission: Mapping[str, Any]) -> frozenset[str] | None:
    """All names that a permission's list admits; None if it has no list. What is malformed admits nothing."""
    listed = permission.get("operations")
    if listed is None:
        return None
    if not isinstance(listed, (list, tuple)):
        return frozenset()
    return _expanded(tuple([entry for entry in listed if isinstance(entry, str)]))


@lru_cache(256)
def _expanded(entries: tuple[str, ...]) -> frozenset[str]:
    names = {name for entry in entries for name in GROUPS.get(entry, (entry,))}
    return frozenset(names.union(*_aliases(names)))


def _aliases(names: Iterable[str]) -> list[tuple[str, ...]]:
    rows = by_name()
    return [rows[name].names for name in names if name in rows]
