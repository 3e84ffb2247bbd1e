"""Roles that an application brings along (spec: security §5.7).

    gardener:
      structure_user: [greenhouse]
      access: {screens: [beds]}         # free for the application
      data:                             # a database; `tables:` may be between it and its tables, `permission:` around all rights
        plant: {read: true, insert: true}
        keeper:
          read: true
          attributes:
            name: {read: true}

What is not said is false. A role that is missing is made, one that differs is changed, under the id it has; others stay as they are. Each role by
itself: a bad one does not hinder the rest.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from svc.apps.reading import line_of, load_yaml, read_limited
from svc.auth.permission_check import check_permission
from svc.config.origins import hint, nearest
from svc.errors import Problem
from svc.store import Store
from svc.store.env import Txn
from svc.store.system import ROLE_TABLE, SYSTEM
from svc.store.values.conversion import printable
from svc.store.values.records import decode

DEFAULT_FILE = "roles.yaml"
MAX_SIZE = 1 << 20  # bytes

_NAME = re.compile(r"[\w\-]{1,250}", re.ASCII)
_NO_TABLE = re.compile(r"Table '([^.']+)\.([^']+)' does not exist")
_FLAGS = ("super_user", "cluster_user", "structure_user", "operations")
_TABLE_RIGHTS = ("read", "insert", "update", "delete")
_ATTRIBUTE_RIGHTS = ("read", "insert", "update")


@dataclass(frozen=True, slots=True)
class FileRole:
    """A role as a file has it. `fault`: why it is invalid, or empty. `line`: where it is in the file, `:3`, or empty."""

    name: str
    permission: Mapping[str, Any]
    access: Any = None
    fault: str = ""
    line: str = ""


# --- reading the file ---------------------------------------------------------------------------------------------------------------------


def read_roles(path: Path) -> list[FileRole]:
    """The roles in a file, in its order. Raises OSError, or ValueError for anything but a mapping of roles."""
    raw = read_limited(path, MAX_SIZE)
    if len(raw) > MAX_SIZE:
        raise ValueError(f"is larger than {MAX_SIZE} bytes")
    loaded = load_yaml(raw)
    if loaded is None:
        return []
    if not isinstance(loaded, dict):
        raise ValueError("must be a mapping of role names")
    text = raw.decode()
    return [replace(role_of(name, body), line=line_of(text, str(name))) for name, body in loaded.items()]


def role_of(name: Any, body: Any) -> FileRole:
    """The role of one entry.

    >>> role_of("reader", {"data": {"plant": {"read": True}}}).permission["data"]["tables"]["plant"]["read"]
    True
    """
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        return FileRole(printable(str(name)), {}, fault="Role is invalid: its name must consist of letters, digits, _ and -")
    if body is None:
        body = {}
    if not isinstance(body, dict):
        return FileRole(name, {}, fault="must be a mapping of rights")
    access = body.get("access")
    if access is not None and not isinstance(access, dict):
        return FileRole(name, {}, fault="'access' must be an object")
    given = {key: value for key, value in body.items() if key not in ("access", "permission")}
    inner = body.get("permission")
    if inner is not None:
        if not isinstance(inner, dict):
            return FileRole(name, {}, fault="'permission' must be an object")
        given |= inner
    return FileRole(name, {key: value if key in _FLAGS else _database(value) for key, value in given.items()}, access)


def _database(value: Any) -> Any:
    """The form that a permission has. What is malformed stays as it is, for validation to name it."""
    if value is None:
        return {"tables": {}}
    if not isinstance(value, dict):
        return value
    inner = value.get("tables")
    # Rights of a table called `tables` are no mappings.
    if isinstance(inner, dict) and all(rights is None or isinstance(rights, dict) for rights in inner.values()):
        return {**value, "tables": {name: _table(rights) for name, rights in inner.items()}}
    # So is `describe`, which is derived and may be given.
    tables = {name: rights for name, rights in value.items() if name != "describe" or not isinstance(rights, bool)}
    return {"tables": {name: _table(rights) for name, rights in tables.items()}}


def _table(value: Any) -> Any:
    if value is None:
        value = {}
    if not isinstance(value, dict):
        return value
    rights = {**dict.fromkeys(_TABLE_RIGHTS, False), **{name: right for name, right in value.items() if name != "attributes"}}
    rights["attribute_permissions"] = _attributes(value.get("attributes", value.get("attribute_permissions")))
    return rights


def _attributes(value: Any) -> Any:
    if value is None:
        return []
    if isinstance(value, dict):
        value = [
            {"attribute_name": name, **rights} if isinstance(rights, dict) else {"attribute_name": name} if rights is None else rights
            for name, rights in value.items()
        ]
    if not isinstance(value, list):
        return value
    return [{**dict.fromkeys(_ATTRIBUTE_RIGHTS, False), **entry} if isinstance(entry, dict) else entry for entry in value]


# --- bringing the store to it -------------------------------------------------------------------------------------------------------------


def apply_roles(roles: Collection[FileRole], store: Store, operations: Mapping[str, bool] | None = None) -> list[str]:
    """Make or change these roles, and commit. Returns a sentence per role that is at fault.

    `operations`: each operation and group -> whether a list of operations may hold it; None: it may hold anything.
    """
    faults: list[str] = []
    failures: list[Problem | None] = []
    for role in roles:
        try:
            _apply(role, store, operations, failures)
        except Problem as problem:
            faults.append(f"role {role.name}: {problem.message}")
        except _InvalidRole as invalid:
            faults += [f"role {role.name}: {sentence}" for sentence in invalid.sentences]
    store.commit_turn()
    return faults + [problem.message for problem in failures if problem is not None]


class _InvalidRole(Exception):
    def __init__(self, sentences: list[str]) -> None:
        super().__init__(sentences)
        self.sentences = sentences


def _apply(role: FileRole, store: Store, operations: Mapping[str, bool] | None, failures: list[Problem | None]) -> None:
    if role.fault:
        raise _InvalidRole([role.fault])
    found = check_permission(role.permission, store.databases, operations)
    if found:
        by_table = [f"{position}: {sentence}" for position, sentences in found.by_table.items() for sentence in sentences]
        raise _InvalidRole([*(f"{sentence}{_meant(sentence, store)}" for sentence in found.main), *by_table])
    table = store.databases[SYSTEM].tables[ROLE_TABLE]
    # Read where it will be written: another instance, starting too, may have brought the same role.
    writer = table.database.writer()
    before = _named(role.name, list(_iter_records(store, writer)))
    record: dict[str, Any] = {"id": role.name if before is None else before["id"], "role": role.name, "permission": dict(role.permission)}
    if role.access is not None:
        record["access"] = role.access
    if before is not None and before.get("permission") == record["permission"] and before.get("access") == record.get("access"):
        return
    transaction = store.begin()
    transaction.put(table, record["id"], dict(table.validator.record(record)))
    transaction.apply()
    transaction.on_done = failures.append


def _meant(sentence: str, store: Store) -> str:
    """A hint at the table that is spelt alike, behind the sentence about one that does not exist."""
    match = _NO_TABLE.fullmatch(sentence)
    database = None if match is None else store.databases.get(match[1])
    return "" if match is None or database is None else hint(nearest(match[2], database.tables), f"{match[1]}.")


def _named(name: str, records: list[dict[str, Any]]) -> dict[str, Any] | None:
    found = [record for record in records if record.get("role") == name]
    if len(found) > 1:
        raise _InvalidRole([f"Multiple {name} roles found.  Roles must have unique 'role' value. Please update and try again."])
    if not found and any(record["id"] == name for record in records):
        raise _InvalidRole([f"A role with id '{name}' already exists"])
    return found[0] if found else None


def _iter_records(store: Store, txn: Txn) -> Iterator[dict[str, Any]]:
    for _, raw in store.databases[SYSTEM].tables[ROLE_TABLE].scan(txn):
        yield decode(raw)
