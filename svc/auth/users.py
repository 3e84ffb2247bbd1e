"""Users and roles as the rest of the program sees them, and the directory that keeps them (contract: security §5.1).

A `User` never changes: a change of `svc_user` or `svc_role` makes the directory forget all of them and begin a new *generation*. Whoever keeps
something derived from a user keeps the generation beside it and compares: one integer, no subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from svc.auth.passwords import DEFAULT_HASH_FUNCTION, hash_function_of, hash_password
from svc.auth.permissions import Role
from svc.auth.system import ROLE_TABLE, SYSTEM, USER_TABLE
from svc.store import Database, LogEntry, Store, Table
from svc.store.records import decode

SUPER_USER_ROLE = "super_user"

# Counted for the whole process, so that what one directory made is never taken for fresh by another.
_generations = count(1)


@dataclass(frozen=True, slots=True)
class User:
    """Who asks. `role` None: no role, or one that no longer exists; such a user is known and may do nothing."""

    username: str
    active: bool = True
    role: Role | None = None
    super_user: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "super_user", self.role is not None and self.role.super_user)

    def get_id(self) -> str:
        return self.username

    def as_record(self) -> dict[str, Any]:
        """The user object that may be shown (security §5.1): no secrets, because a User has none."""
        return {"username": self.username, "active": self.active, "role": None if self.role is None else self.role.as_record()}


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a password is compared with. Never leaves this package."""

    password: str
    hash_function: str | None

    def __repr__(self) -> str:
        return "<Credentials>"


class UserDirectory:
    """The users and roles of one store. Reads are cached until `svc_user` or `svc_role` changes."""

    def __init__(self, store: Store) -> None:
        """`store`: with its system database defined (`ensure_system`)."""
        self.store = store
        self._users: dict[str, User] = {}  # existing ones only: a guesser of names cannot make it grow
        self._roles: dict[str, Role] = {}
        self._first_super_user: User | None = None
        self._knows_first = False
        self.generation = next(_generations)
        store.on_commit.append(self._committed)

    def get_user(self, username: str) -> User | None:
        """The user, active or not; None if there is no such user."""
        user = self._users.get(username)
        if user is None:
            record = self._record(username)
            if record is not None:
                user = self._users[username] = self._user(record)
        return user

    def get_role(self, role_id: str) -> Role | None:
        role = self._roles.get(role_id)
        if role is None:
            raw = self._table(ROLE_TABLE).get_raw(role_id) if role_id else None
            if raw is None:
                return None
            record = decode(raw)
            permission = record.get("permission")
            role = self._roles[role_id] = Role(
                role_id,
                str(record.get("role") or role_id),
                permission if isinstance(permission, dict) else {},
                record.get("access"),
                self.store.databases,
            )
        return role

    def credentials(self, username: str) -> Credentials | None:
        """The stored hash as it is now; None without such a user or without a password."""
        record = self._record(username)
        if record is None or not isinstance(record.get("password"), str):
            return None
        return Credentials(record["password"], record.get("hash_function"))

    def refresh_hash(self, username: str) -> str | None:
        """The hash of the user's newest refresh token, as it is stored now; None without one."""
        record = self._record(username)
        found = None if record is None else record.get("refresh_token")
        return found if isinstance(found, str) else None

    def first_super_user(self) -> User | None:
        """The first active user, in key order, whose role is a super user's."""
        if not self._knows_first:
            self._first_super_user = next((user for user in self._iter_users() if user.super_user and user.active), None)
            self._knows_first = True
        return self._first_super_user

    def store_hash(self, username: str, stored: str) -> None:
        """Keep a better hash of the password the user has already: same secret, so nothing else about the user changes."""
        transaction = self.store.begin(username)
        transaction.patch(self._table(USER_TABLE), username, {"password": stored, "hash_function": hash_function_of(stored)})
        transaction.apply()

    def _committed(self, database: Database, entries: list[LogEntry]) -> None:
        if database.name == SYSTEM and any(entry.table in (USER_TABLE, ROLE_TABLE) for entry in entries):
            self._users.clear()
            self._roles.clear()
            self._first_super_user = None
            self._knows_first = False
            self.generation = next(_generations)

    def _iter_users(self) -> Iterator[User]:
        table = self._table(USER_TABLE)
        for _, raw in table.scan(table.database.snapshot()):
            yield self._user(decode(raw))

    def _user(self, record: Mapping[str, Any]) -> User:
        role = record.get("role")
        return User(record["username"], record.get("active") is True, self.get_role(role) if isinstance(role, str) else None)

    def _record(self, username: str) -> dict[str, Any] | None:
        if not is_username(username):
            return None
        raw = self._table(USER_TABLE).get_raw(username)
        return None if raw is None else decode(raw)

    def _table(self, name: str) -> Table:
        return self.store.databases[SYSTEM].tables[name]


def is_username(name: str) -> bool:
    """Whether the name could be a primary key (operations §1.5): names that could not need no look-up."""
    return 0 < len(name) <= 659 and len(name.encode()) <= 1978


def new_user_record(
    username: str, password: str, role_id: str, *, active: bool = True, function: str = DEFAULT_HASH_FUNCTION
) -> dict[str, Any]:
    """The record of a new user. Hashes the password, so it blocks for tens of milliseconds."""
    return {
        "username": username,
        "password": hash_password(password, function),
        "hash_function": function,
        "role": role_id,
        "active": active,
    }
