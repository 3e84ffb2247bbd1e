"""Roles (spec: operations §5; what a permission says: security §5.2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from svc.auth.permission_check import check_permission
from svc.errors import ClientError, NotFound, Problem, Refusal, ValidationError
from svc.operations.accounts import DELETE, INSERT, UPDATE, change_accounts, check_change, check_grant
from svc.operations.api_keys import has_key
from svc.operations.call import Call
from svc.operations.fields import IMPERSONATE, REPLICATED, Field
from svc.operations.operation import SUPER_USER, Operation
from svc.operations.operation_lists import known_entries
from svc.store import Table, Transaction
from svc.store.env import Txn
from svc.store.system import ROLE_TABLE, SYSTEM
from svc.store.values.conversion import printable
from svc.store.values.records import decode

_NAME = re.compile(r"[\w\-]+", re.ASCII)
_SHOWN = ("id", "role", "permission", "access", "__createdtime__", "__updatedtime__")
_KEYS = frozenset({"operation", "role", "id", "permission", "access", "replicated", "impersonate"})
_MAX_NAME = 250


def is_role_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _MAX_NAME and _NAME.fullmatch(value) is not None


def list_roles(call: Call) -> Any:
    """In slices: one role may name tens of thousands of attributes."""
    roles, slices = _roles(call), call.node.store.slices
    shown: list[dict[str, Any]] = []
    held = call.node.store.snapshots.hold(roles.database, reader=call.reader)
    steps = _show_each(held.read(roles.scan), shown)

    async def later() -> list[dict[str, Any]]:
        try:
            await slices.exhaust(steps)
        finally:
            held.abort()
        return shown

    if not slices.run(steps):
        return later()
    held.abort()
    return shown


def _show_each(rows: Iterator[tuple[bytes, bytes]], shown: list[dict[str, Any]]) -> Iterator[None]:
    for _, raw in rows:
        shown.append(_shown(decode(raw)))
        yield


def _shown(record: dict[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in _SHOWN if record.get(name) is not None}


def add_role(call: Call) -> Any:
    name, permission, access = call["role"], call["permission"], call["access"]
    _check(call, name, permission, access)
    role_id = call["id"] or name
    directory, roles = call.node.directory, _roles(call)

    def work(transaction: Transaction, txn: Txn) -> Callable[[], dict[str, Any]]:
        if any(record.get("role") == name for record in directory.iter_role_records(txn)):
            raise Problem(f"A role with name '{name}' already exists", 409, "CONFLICT")
        if directory.role_record(role_id, txn) is not None:
            raise Problem(f"A role with id '{role_id}' already exists", 409, "CONFLICT")
        record: dict[str, Any] = {"id": role_id, "role": name, "permission": permission}
        if access is not None:
            record["access"] = access
        record = dict(roles.validator.record(record))
        transaction.put(roles, role_id, record)
        return lambda: _shown(record)  # with its times, which it got when it was written

    return change_accounts(call, INSERT, work)


def alter_role(call: Call) -> Any:
    role_id, permission, name, access = call["id"], call["permission"], call["role"], call["access"]
    _check(call, name, permission, access)
    directory, roles = call.node.directory, _roles(call)

    def work(transaction: Transaction, txn: Txn) -> Callable[[], dict[str, Any]]:
        before = directory.role_record(role_id, txn)
        if before is None:
            raise ClientError("Invalid role id")
        check_change(call, before)
        if name is not None and any(record.get("role") == name and record["id"] != role_id for record in directory.iter_role_records(txn)):
            raise Problem(f"A role with name '{name}' already exists", 409, "CONFLICT")
        changes: dict[str, Any] = {"permission": permission}
        if name is not None:
            changes["role"] = name
        if access is not None:
            changes["access"] = access
        transaction.patch(roles, role_id, roles.validator.changes(changes))
        shown_name = before.get("role") if name is None else name
        return lambda: {"id": role_id, "role": shown_name, "permission": permission, "__updatedtime__": int(transaction.version)}

    return change_accounts(call, UPDATE, work)


def drop_role(call: Call) -> Any:
    role_id = call["id"]
    directory, roles = call.node.directory, _roles(call)

    def work(transaction: Transaction, txn: Txn) -> Callable[[], str]:
        record = directory.role_record(role_id, txn)
        if record is None:
            raise NotFound("Role not found")
        check_change(call, record)
        name = record.get("role") or role_id
        if directory.has_active_user(role_id, txn):
            raise Problem(f"Cannot drop role {name} as it has active user(s) tied to this role", 409, "CONFLICT")
        if has_key(call, role_id, txn):
            raise Problem(f"Cannot drop role {name} as it has API key(s) tied to this role", 409, "CONFLICT")
        transaction.delete(roles, role_id)
        return lambda: f"{name} successfully deleted"

    return change_accounts(call, DELETE, work)


def _check(call: Call, name: str | None, permission: Any, access: Any) -> None:
    """What can be said of the body alone, and of who sends it."""
    if name is not None and not is_role_name(name):
        raise ValidationError("Role is invalid")
    faults = check_permission(permission, call.node.store.databases, known_entries())
    if call.request is not None:
        unknown = [f"'{printable(str(key))}'" for key in call.body if key not in _KEYS]
        if unknown:
            faults.main.insert(0, f"Invalid key{'s' if len(unknown) > 1 else ''} in JSON body - {', '.join(unknown)}")
    if faults:
        raise Refusal(faults.as_body(), 400)
    check_grant(call, permission, access)


def _roles(call: Call) -> Table:
    return call.node.store.databases[SYSTEM].tables[ROLE_TABLE]


# --- rows ---------------------------------------------------------------------------------------------------------------------------------

_PERMISSION = Field("permission", "object", "What users with this role may do.", required=True)
_ACCESS = Field("access", "object", "Any data for applications: `user.role.access`.")
_PERMISSION_NOTES = """\
`permission` has `super_user` (everything; no other member then), or any of

- `structure_user`: true, or a list of databases in which tables may be made and dropped,
- `operations`: the permitted operations, including those of super users; groups are `read_only` and `standard_user`,
- by database, `tables` with `read`, `insert`, `update`, `delete` and `attribute_permissions` each.

Databases, tables and attributes that are not listed do not exist for the role. An empty list of attributes means all of them.
A caller that is not a super user can only grant rights that it has itself, and only change or remove a role whose rights it has: 403.
`operations` cannot hold what would make its callers super users, such as `set_configuration`, `deploy_component` or `set_component_file`:
400. Changes apply from the next request."""

_EXAMPLE_PERMISSION = {
    "data": {"tables": {"plant": {"read": True, "insert": True, "update": True, "delete": False, "attribute_permissions": []}}}
}
_EXAMPLE_ROLE = {
    "id": "gardener",
    "role": "gardener",
    "permission": _EXAMPLE_PERMISSION,
    "__createdtime__": 1767225600000,
    "__updatedtime__": 1767225600000,
}

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="list_roles",
        category="users",
        summary="List the roles.",
        permission=SUPER_USER,
        handler=list_roles,
        fields=(IMPERSONATE,),
        returns="A list of roles, in the order of their ids.",
        example_answer=[
            {
                "id": "super_user",
                "role": "super_user",
                "permission": {"super_user": True},
                "__createdtime__": 1767225600000,
                "__updatedtime__": 1767225600000,
            }
        ],
    ),
    Operation(
        name="add_role",
        category="users",
        summary="Add a role.",
        permission=SUPER_USER,
        handler=add_role,
        fields=(
            Field("role", "string", "Name of the role: letters, digits, `_` and `-`.", required=True),
            _PERMISSION,
            Field("id", "name", "Key of the role; default: its name."),
            _ACCESS,
            REPLICATED,
            IMPERSONATE,
        ),
        returns="The role as it is stored.",
        notes=_PERMISSION_NOTES,
        example={"role": "gardener", "permission": _EXAMPLE_PERMISSION},
        example_answer=_EXAMPLE_ROLE,
    ),
    Operation(
        name="alter_role",
        category="users",
        summary="Give a role another permission, or another name.",
        permission=SUPER_USER,
        handler=alter_role,
        fields=(
            Field("id", "string", "Key of the role.", required=True),
            _PERMISSION,
            Field("role", "string", "New name of the role."),
            _ACCESS,
            REPLICATED,
            IMPERSONATE,
        ),
        returns="`{id, role, permission, __updatedtime__}`",
        notes="The permission is replaced as a whole; see `add_role`. What users may do with the role changes with their next request. At least one active "
        "super user has to remain: 409.",
        example={"id": "gardener", "permission": {"structure_user": ["data"]}},
        example_answer={
            "id": "gardener",
            "role": "gardener",
            "permission": {"structure_user": ["data"]},
            "__updatedtime__": 1767225600000,
        },
    ),
    Operation(
        name="drop_role",
        category="users",
        summary="Remove a role that no active user and no API key has.",
        permission=SUPER_USER,
        handler=drop_role,
        fields=(Field("id", "string", "Key of the role.", required=True), REPLICATED, IMPERSONATE),
        returns="A message.",
        example={"id": "gardener"},
        example_answer={"message": "gardener successfully deleted"},
    ),
)
