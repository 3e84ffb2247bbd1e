"""Records that are written into tables of the system database (spec: operations §3.1 rule 10, security §5.3 rule 8).

Only users, roles and nodes are. A clear `password` becomes its hash before anything is stored; a role has the permission that `add_role` would
take, a user a role that exists. The guard of the system database (`auth.users`) checks inside the
transaction that role names are unique and that an active super user remains.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable
from functools import partial
from typing import Any

from svc.auth.passwords import hash_password, is_acceptable, length_fault
from svc.auth.permission_check import check_permission
from svc.auth.usernames import canonical_username, username_fault
from svc.auth.users import ending_logins
from svc.errors import ClientError, NotFound, Problem, Refusal, ValidationError
from svc.operations.call import Call
from svc.operations.operation_lists import known_entries
from svc.store import Table
from svc.store.system import ROLE_TABLE, SYSTEM, SYSTEM_WRITE, USER_SECRETS, USER_TABLE

WRITABLE = frozenset((USER_TABLE, ROLE_TABLE, "svc_nodes"))
REFUSED = "This operation is not authorized due to role restrictions and/or invalid database items"
MAX_PASSWORDS = 100  # in one request: each takes a helper tens of milliseconds
_ROLE_NAME = re.compile(r"[\w\-]+")
_NOT_SENT = tuple(sorted(USER_SECRETS - {"password"}))


def is_system(call: Call) -> bool:
    return bool(call["database"] == SYSTEM)


def refuse_system() -> Problem:
    """The 403 for what would change the system database."""
    return Problem(SYSTEM_WRITE, 403)


def refuse_system_write(call: Call, missing_right: str = "") -> None:
    """Raise the 403 unless the table takes records of super users. `missing_right`: it is a refusal for the lack of this right."""
    if call["table"] in WRITABLE and call.is_super_user:
        return
    if not missing_right:
        raise refuse_system()
    entry = {
        "schema": SYSTEM,
        "table": call["table"],
        "required_table_permissions": [missing_right],
        "required_attribute_permissions": [],
    }
    raise Refusal({"error": REFUSED, "unauthorized_access": [entry], "invalid_schema_items": []})


def prepare_system_records(
    call: Call, table: Table, records: list[dict[str, Any]], *, inserts: bool
) -> list[dict[str, Any]] | Awaitable[list[dict[str, Any]]]:
    """The records to store, an awaitable of them if there are passwords to be hashed. `inserts`: records that do not exist are made.

    Raises Problem for what may not be stored.
    """
    if table.name == ROLE_TABLE:
        return [_role(call, table, record, inserts=inserts) for record in records]
    if table.name == USER_TABLE:
        for record in records:
            _check_user(call, record, inserts=inserts)
        if any(record.get("password") is not None for record in records):
            return _hashed(call, records)
        return [{**record, **ending_logins()} if record.get("active") is False else record for record in records]
    return records


def _check_user(call: Call, record: dict[str, Any], *, inserts: bool) -> None:
    name = record.get("username")
    if inserts and isinstance(name, str) and call.node.directory.user_record(name) is None:
        wrong = username_fault(name) or (None if canonical_username(name) == name else "must be in Unicode's form NFC")
        if wrong:
            raise ValidationError(f"'username' {wrong}")
    for name in _NOT_SENT:
        if name in record:
            raise ValidationError(f"Property {name} is not allowed")
    if "password" in record and not is_acceptable(record["password"]):
        raise ValidationError(
            "password cannot be an empty string" if isinstance(record["password"], str) else "'password' must be a string"
        )
    if "password" in record and (fault := length_fault(record["password"], call.node.config.authentication.password_min_length)):
        raise ValidationError(fault)
    role = record.get("role")
    if isinstance(role, str) and call.node.directory.get_role(role) is None:
        raise NotFound(f"{role} role not found")


async def _hashed(call: Call, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if sum(record.get("password") is not None for record in records) > MAX_PASSWORDS:
        raise ClientError(f"At most {MAX_PASSWORDS} passwords can be set in one request")
    function = call.node.config.authentication.hash_function
    found: list[dict[str, Any]] = []
    for record in records:
        password = record.get("password")
        if password is not None:
            stored = await call.on_helper(partial(hash_password, password, function))
            record = {**record, "password": stored, "hash_function": function}
        if password is not None or record.get("active") is False:
            record = {**record, **ending_logins()}
        found.append(record)
    return found


def _role(call: Call, table: Table, record: dict[str, Any], *, inserts: bool) -> dict[str, Any]:
    key = record.get(table.primary_key)
    is_new = inserts and (key in (None, "") or not isinstance(key, str) or call.node.directory.get_role(key) is None)
    name = record.get("role")
    if "role" in record or is_new:
        if not isinstance(name, str) or not name:
            raise ValidationError("'role' is required" if name is None else "'role' must be a string")
        if _ROLE_NAME.fullmatch(name) is None:
            raise ValidationError("Role is invalid")
    if "permission" in record or is_new:
        if record.get("permission") is None:
            raise ValidationError("'permission' is required")
        faults = check_permission(record["permission"], call.node.store.databases, known_entries())
        if faults:
            raise Refusal(faults.as_body(), 400)
    return {**record, table.primary_key: name} if is_new and key in (None, "") else record
