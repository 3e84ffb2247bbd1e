"""Who asks, as far as rules on rows name it: `$user.username`, `$user.role`, `$user.<attribute>`, `$user.claims.<name>`, `$now` (spec: rows §1.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from svc.auth.roles import Role
from svc.auth.users import User
from svc.query.row_rules import NOW
from svc.store import Database, Store, Table
from svc.store.values.records import MISSING, decode

CLAIMS = "claims."
OF_USER = frozenset(("username", "role"))  # what every account has


class Viewer:
    """One caller of a database at one moment. `user` None: an anonymous one."""

    __slots__ = ("_account", "_database", "_now", "role", "user")

    def __init__(self, user: User | None, role: Role, database: Database, account: Mapping[str, Any] | None = None) -> None:
        """`account`: the record of the user's account, None: that of the turn's snapshot."""
        self.user = user
        self.role = role
        self._database = database
        self._account = account
        self._now: datetime | None = None

    def value(self, name: str) -> object:
        """The value of a name (`row_rules.Values`), MISSING if the caller has none. The same for as long as this object lives."""
        if name == NOW:
            if self._now is None:
                self._now = datetime.fromtimestamp(self._database.clock.wall(), UTC)
            return self._now
        user = self.user
        if user is None:
            return MISSING
        if name == "username":
            return user.username
        if name == "role":
            return self.role.role
        if name.startswith(CLAIMS):
            return _at(user.claims, name.removeprefix(CLAIMS))
        if self._account is None:
            self._account = account_record(self._database, user.username) or {}
        return _at(self._account, name)

    def key(self, names: Iterable[str]) -> tuple[object, ...] | None:
        """What tells this viewer from another one whose values of these names differ."""
        user = self.user
        return None if user is None else user.username, *[_hashable(self.value(name)) for name in names]


def names_account(names: Iterable[str]) -> bool:
    """Whether one of these names is an attribute of the account's record."""
    return any(name not in OF_USER and name != NOW and not name.startswith(CLAIMS) for name in names)


def account_tables(store: Store) -> Iterator[Table]:
    """The tables that have the records of accounts (spec: rows §2.2)."""
    for database in list(store.databases.values()):
        for table in list(database.tables.values()):
            if table.definition.account:
                yield table


def accounts_for(database: Database) -> list[Table]:
    """The tables in which a caller of this database has the record of an account: those of the database itself, if it has one. Another application, with
    accounts of its own, has no say in what its rules let somebody do."""
    tables = list(account_tables(database.store))  # type: ignore[arg-type]
    return [table for table in tables if table.database is database] or tables


def account_record(database: Database, username: str) -> Mapping[str, Any] | None:
    """The record of a caller's account as the turn's snapshot has it, None if there is none."""
    for table in accounts_for(database):
        raw = table.get_raw(username)
        if raw is not None:
            return decode(raw)
    return None


def _at(values: Mapping[str, Any] | None, path: str) -> object:
    found: object = values
    for name in path.split("."):
        found = found.get(name, MISSING) if isinstance(found, Mapping) else MISSING
    return found


def _hashable(value: object) -> object:
    """A value as part of a key: equal only to what is of its type and equal to it."""
    if isinstance(value, (list, tuple)):
        return "list", *map(_hashable, value)
    if isinstance(value, set):
        return "set", frozenset(map(_hashable, value))
    if isinstance(value, Mapping):
        return "object", *[(name, _hashable(each)) for name, each in value.items()]
    return type(value), value
