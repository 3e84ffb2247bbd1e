"""The first super user (spec: configuration §4.1)."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svc.auth.passwords import DEFAULT_HASH_FUNCTION, DEFAULT_MIN_LENGTH, is_acceptable, length_fault
from svc.auth.usernames import canonical_username, username_fault
from svc.auth.users import SUPER_USER_ROLE, new_user_record
from svc.errors import ConfigError
from svc.store import Store, Table
from svc.store.system import ROLE_TABLE, SYSTEM, USER_TABLE
from svc.store.values.records import decode

DEFAULT_ADMIN = "admin"
_PASSWORD_BYTES = 18  # 144 bits, 24 characters


@dataclass(frozen=True, slots=True)
class FirstSuperUser:
    """The created user. `password` only if it was generated: to be printed once, never logged."""

    username: str
    password: str | None

    def __repr__(self) -> str:
        return f"<FirstSuperUser {self.username}>"


def ensure_first_super_user(
    store: Store,
    username: str | None = None,
    password: str | None = None,
    *,
    password_file: Path | None = None,
    hash_function: str = DEFAULT_HASH_FUNCTION,
    min_length: int = DEFAULT_MIN_LENGTH,
) -> FirstSuperUser | None:
    """Create the role `super_user` and a user with it, if there is no active super user yet. Returns None if there is one: the usual case.

    Without a password one is generated, and written to `password_file` (mode 0600) before the user exists: an interruption in between leaves a
    useless file, which the next start replaces, but never a user with an unknown password. A user of that name without super rights gets the
    role and the password: no super user exists, so the operator who starts the server needs one.
    Commits; raises Problem if the store cannot. Blocks for a password hash when it creates something.
    """
    system = store.databases[SYSTEM]
    users, roles = system.tables[USER_TABLE], system.tables[ROLE_TABLE]
    super_roles = _super_roles(roles)
    if any(record.get("role") in super_roles and record.get("active") is True for record in _records(users)):
        return None
    username = canonical_username(username or DEFAULT_ADMIN)
    if wrong := username_fault(username):
        raise ConfigError(f"The name of the first super user {wrong}")
    generated = None
    if password is None:
        password = generated = secrets.token_urlsafe(_PASSWORD_BYTES)
        if password_file is not None:
            _write_private(password_file, password + "\n")
    elif not is_acceptable(password):
        raise ConfigError("The password of the first super user is empty")
    elif fault := length_fault(password, min_length):
        raise ConfigError(f"The first super user's {fault}")
    transaction = store.begin()
    if SUPER_USER_ROLE not in super_roles:
        role = {"id": SUPER_USER_ROLE, "role": SUPER_USER_ROLE, "permission": {"super_user": True}}
        transaction.put(roles, SUPER_USER_ROLE, roles.validator.record(role))
    user = new_user_record(username, password, SUPER_USER_ROLE, function=hash_function)
    transaction.put(users, username, users.validator.record(user))
    store.commit_now(transaction)
    return FirstSuperUser(username, generated)


def _super_roles(roles: Table) -> set[str]:
    found = set()
    for record in _records(roles):
        permission = record.get("permission")
        if isinstance(permission, dict) and permission.get("super_user") is True:
            found.add(record["id"])
    return found


def _records(table: Table) -> list[dict[str, Any]]:
    return [decode(raw) for _, raw in table.scan(table.database.snapshot())]


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, from its first byte on, and have it on disk."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
