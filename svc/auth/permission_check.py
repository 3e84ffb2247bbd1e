"""Validation of the permission object of a role (spec: security §5.2, operations §5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from svc.store.schema import TableDefinition
from svc.store.system import SYSTEM
from svc.store.values.conversion import printable, shown

if TYPE_CHECKING:
    from svc.store import Database

_TABLE_RIGHTS = ("read", "insert", "update", "delete")
_ATTRIBUTE_RIGHTS = ("read", "insert", "update")
_TABLE_KEYS = frozenset({*_TABLE_RIGHTS, "attribute_permissions"})
_ATTRIBUTE_KEYS = frozenset({*_ATTRIBUTE_RIGHTS, "delete", "attribute_name"})
_FLAGS = ("super_user", "cluster_user")


@dataclass(slots=True)
class PermissionFaults:
    """The faults of a permission object; false if there are none. `by_table`: `<database>_<table>` -> sentences."""

    main: list[str] = field(default_factory=list)
    by_table: dict[str, list[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.main or self.by_table)

    def as_body(self) -> dict[str, Any]:
        """The body of the 400 (spec: operations §5)."""
        return {
            "error": "Errors in the role permissions JSON provided",
            "main_permissions": self.main,
            "schema_permissions": self.by_table,
        }


def check_permission(permission: Any, databases: Mapping[str, Database], operations: Mapping[str, bool] | None = None) -> PermissionFaults:
    """All faults of a permission object against the definitions there are now.

    `operations`: each operation and group -> whether an `operations` list may hold it; None: names are not checked.
    """
    faults = PermissionFaults()
    if not isinstance(permission, Mapping):
        faults.main.append("'permission' must be an object")
        return faults
    for flag in _FLAGS:
        if flag in permission and not isinstance(permission[flag], bool):
            faults.main.append(f"Value for '{flag}' permission must be a boolean")
    if permission.get("super_user") is True and len(permission) > 1:
        faults.main.append("Roles with 'super_user' set to true cannot have other permissions set.")
        return faults
    for name, value in permission.items():
        if name in _FLAGS:
            continue
        if name == "structure_user":
            _check_structure(value, databases, faults)
        elif name == "operations":
            _check_operations(value, operations, faults)
        elif not _is_database(name, databases):
            faults.main.append(f"database '{_shown(name)}' does not exist")
        else:
            _check_database(name, value, databases[name], faults)
    return faults


def _is_database(name: Any, databases: Mapping[str, Database]) -> bool:
    return isinstance(name, str) and name != SYSTEM and name in databases


def _shown(name: Any) -> str:
    return printable(name) if isinstance(name, str) else shown(name)


def _check_structure(value: Any, databases: Mapping[str, Database], faults: PermissionFaults) -> None:
    if isinstance(value, list):
        faults.main.extend(f"database '{_shown(name)}' does not exist" for name in value if not _is_database(name, databases))
    elif not isinstance(value, bool):
        faults.main.append("Value for 'structure_user' permission must be a boolean or Array")


def _check_operations(value: Any, known: Mapping[str, bool] | None, faults: PermissionFaults) -> None:
    if not isinstance(value, list):
        faults.main.append("Value for 'operations' permission must be an array")
        return
    for name in value:
        if not isinstance(name, str) or (known is not None and name not in known):
            faults.main.append(f"Invalid operation '{_shown(name)}' in 'operations'")
        elif known is not None and not known[name]:
            faults.main.append(
                f"Operation '{name}' in 'operations' cannot be granted: it needs a super user, and its callers could become one"
            )


def _check_database(name: str, value: Any, database: Database, faults: PermissionFaults) -> None:
    tables = value.get("tables", {}) if isinstance(value, Mapping) else None
    if not isinstance(tables, Mapping):
        faults.main.append(f"Value for '{name}' permission must be an object")
        return
    for table_name, given in tables.items():
        table = database.tables.get(table_name)
        if table is None:
            faults.main.append(f"Table '{name}.{_shown(table_name)}' does not exist")
            continue
        found = list(_table_faults(name, given, table.definition))
        if found:
            faults.by_table[f"{name}_{table_name}"] = found


def _table_faults(database: str, given: Any, definition: TableDefinition) -> list[str]:
    if not isinstance(given, Mapping):
        return [f"Value for '{database}.{definition.name}' permission must be an object"]
    faults = [f"Invalid table permission key value '{_shown(key)}'" for key in given if key not in _TABLE_KEYS]
    for right in _TABLE_RIGHTS:
        if right not in given:
            faults.append(f"Missing table {right.upper()} permission")
        elif not isinstance(given[right], bool):
            faults.append(f"Table {right.upper()} permission must be a boolean")
    if "attribute_permissions" not in given:
        faults.append("Missing 'attribute_permissions' array")
        return faults
    listed = given["attribute_permissions"]
    if listed is None:
        return faults
    if not isinstance(listed, list):
        faults.append("Value for 'attribute_permissions' must be an array")
        return faults
    for entry in listed:
        faults.extend(_attribute_faults(entry, definition))
    entries = [entry for entry in listed if isinstance(entry, Mapping)]
    if any(given.get(right) is False and any(entry.get(right) is True for entry in entries) for right in _ATTRIBUTE_RIGHTS):
        faults.append(
            f"You have a conflict with TABLE permissions for '{database}.{definition.name}' being false and ATTRIBUTE permissions being true"
        )
    return faults


def _attribute_faults(entry: Any, definition: TableDefinition) -> list[str]:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("attribute_name"), str):
        return ["Permission object in 'attribute_permission' missing an 'attribute_name'"]
    faults = [f"Invalid attribute permission key value '{_shown(key)}'" for key in entry if key not in _ATTRIBUTE_KEYS]
    name = entry["attribute_name"]
    if definition.attribute(name) is None and name not in ("__createdtime__", "__updatedtime__"):
        faults.append(f"Invalid attribute '{_shown(name)}' in 'attribute_permissions'")
        return faults
    for right in _ATTRIBUTE_RIGHTS:
        if right not in entry:
            faults.append(f"{right.upper()} attribute permission missing for '{name}'")
        elif not isinstance(entry[right], bool):
            faults.append(f"{right.upper()} attribute permission for '{name}' must be a boolean")
    return faults
