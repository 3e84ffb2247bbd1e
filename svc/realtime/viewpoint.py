"""Whose eyes the records of a table are seen with: what rules on rows leave of them for a subscriber (spec: rows §1.3, §1.6).

A subscription lasts, and what its rules refer to changes meanwhile. So a viewpoint keeps who sees, and not what: rules, and the values that they name, are
looked up whenever a record is to be shown. Viewpoints that always see the same are equal, so that their subscribers share groups, events and results: where a
rule names nothing of the caller, all who have the role.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from svc.auth.roles import Role, narrowing_role
from svc.auth.users import User
from svc.query.viewer import Viewer, account_tables, names_account
from svc.query.views import DatabaseRules, TableView, database_view, rules_of
from svc.store import Store, Table
from svc.store.env import Txn
from svc.store.values.records import decode

MOMENT = 0.01  # seconds for which `$now` stands still


class Viewpoint:
    """One caller, with a role whose rules narrow the database of `table`."""

    __slots__ = ("_hash", "_key", "_role", "_seen", "_seen_at", "_user", "needs_account", "rules", "table")

    def __init__(self, user: User | None, role: Role, table: Table) -> None:
        self.table = table
        self._user = user
        self._role = role
        self.rules: DatabaseRules = rules_of(role, table.database)
        names = self.rules.values
        self.needs_account = user is not None and names_account(names)
        self._key = (table, role.role, _values(user, role, table, names))
        self._hash = hash(self._key)
        self._seen: TableView | None = None
        self._seen_at = 0.0

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is Viewpoint and self._key == other._key)

    def __repr__(self) -> str:
        return f"<Viewpoint {self._key!r}>"

    @property
    def username(self) -> str | None:
        return None if self._user is None else self._user.username

    @property
    def shows_all(self) -> bool:
        """Whether all records of the table itself are there: it is what relationships lead to that is narrowed."""
        return self.rules.version == self.table.database.tables_version and self.rules.of(self.table.name, "read") is None

    def view(self, txn: Txn) -> TableView:
        """The table as it is to be seen now. `txn`: a snapshot of its database that has what is to be shown."""
        table = self.table
        database, seen = table.database, self._seen
        rules = self.rules
        if rules.version != database.tables_version:
            rules, seen = rules_of(self._role, database), None
            self.rules = rules
            self.needs_account = self._user is not None and names_account(rules.values)
        is_fresh = not rules.is_volatile or 0 <= database.clock.wall() - self._seen_at < MOMENT
        if seen is not None and is_fresh and not self.needs_account:
            return seen
        account = self._account(txn) if self.needs_account else None
        self._seen_at = database.clock.wall()
        self._seen = seen = database_view(self._user, self._role, database, table.name, account=account).table(table)
        return seen

    def may_see(self, stored: bytes, raw: bytes, txn: Txn) -> bool:
        """Whether a record is there. `stored`: its key, as stored."""
        return self.view(txn).holds("read", stored, raw, txn)

    def _account(self, txn: Txn) -> Mapping[str, Any]:
        """The record of the caller's account, no older than what is to be shown."""
        assert self._user is not None
        username = self._user.username
        for table in account_tables(cast(Store, self.table.database.store)):
            if table.database is self.table.database:
                raw = table.get_raw(username, txn)
            else:
                snapshot = table.database.open_snapshot()
                try:
                    raw = table.get_raw(username, snapshot)
                finally:
                    snapshot.abort()
            if raw is not None:
                return decode(raw)
        return {}


def _values(user: User | None, role: Role, table: Table, names: Collection[str]) -> tuple[object, ...] | None:
    """What tells a caller from another one, as far as these names are concerned; None: an anonymous one. Where one is of the account's record, the account."""
    if user is None:
        return None
    is_named = names_account(names) or "username" in names
    viewer = Viewer(user, role, cast(Store, table.database.store), {})
    values = viewer.key([name for name in names if not names_account((name,))])
    assert values is not None
    return (user.username if is_named else None, *values[1:])


def viewpoint_of(user: User | None, table: Table, *, follows: bool) -> Viewpoint | None:
    """Whose eyes a subscriber sees `table` with; None: all of its records, as they are. `follows`: rules about other tables count too, for relationships may
    lead there."""
    role = narrowing_role(user, table)
    if role.super_user or not role.is_narrowed(table.database):
        return None
    viewpoint = Viewpoint(user, role, table)
    if viewpoint.rules.of(table.name, "read") is None and not follows:
        return None
    return viewpoint
