"""What rules on rows say of writes: asked inside the transaction that writes, of each record (spec: rows §1.4).

A record that its writer may not read is not there for him: 404. Else the rule about the action has to hold for the record as stored, and for the record as it
becomes: 403 ROW_NOT_ALLOWED. `narrowing.guard_of` gives what a write asks, None for writers whom nothing narrows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from svc.auth.roles import narrowing_role
from svc.auth.users import User
from svc.errors import NotFound, RowNotAllowed
from svc.query.nodes import Condition
from svc.query.row_rules import NEW, OLD, joined
from svc.query.views import TableView, database_view
from svc.store.values.records import decode, encode

if TYPE_CHECKING:
    from svc.store import Table

_VERBS = {"create": "created", "update": "changed", "delete": "deleted"}


class RowGuard:
    """The rules for one writer (`write_set.RowGuard`)."""

    __slots__ = ("_user",)

    def __init__(self, user: User | None) -> None:
        self._user = user

    def _view(self, table: Table) -> TableView | None:
        """None: the table is not narrowed for the writer."""
        role = narrowing_role(self._user, table)
        if role.super_user or not role.is_narrowed(table.database):
            return None
        view = database_view(self._user, role, table.database, table.name)
        return view.table(table) if table.name in view.rules.tables else None

    def can_see(self, table: Table, txn: Any, stored: bytes, raw: bytes) -> bool:
        """Whether the record is there for the writer."""
        view = self._view(table)
        return view is None or view.holds("read", stored, raw, txn)

    def check_seen(self, table: Table, txn: Any, stored: bytes, raw: bytes) -> None:
        """Raise NotFound if a record that is to be changed is not there for the writer."""
        if not self.can_see(table, txn, stored, raw):
            raise NotFound()

    def check_written(self, table: Table, txn: Any, stored: bytes, before: bytes | None, record: Mapping[str, Any]) -> None:
        """Raise Problem 403 unless `record` may be written in place of `before`, which may be seen; None: it is a new one, or a message."""
        view = self._view(table)
        if view is None:
            return
        after = encode(dict(record), 0.0, 0, None)
        if before is None:
            allowed = _allows(view, "create", txn, (stored, after), {NEW: (stored, after)})
        else:
            records = {OLD: (stored, before), NEW: (stored, after)}
            allowed = all(_allows(view, "update", txn, pair, records) for pair in records.values())
        if not allowed:
            raise self._refusal(table, "create" if before is None else "update")

    def may_update(self, table: Table, txn: Any, stored: bytes, raw: bytes) -> bool:
        """Whether the rule about changes holds for a record that may be seen, as it is."""
        view = self._view(table)
        return view is None or _allows(view, "update", txn, (stored, raw), {OLD: (stored, raw), NEW: (stored, raw)})

    def may_delete(self, table: Table, txn: Any, stored: bytes, raw: bytes) -> bool:
        """Whether the rule about deletions holds for a record that may be seen."""
        view = self._view(table)
        return view is None or _allows(view, "delete", txn, (stored, raw), {OLD: (stored, raw)})

    def check_deleted(self, table: Table, txn: Any, stored: bytes, raw: bytes) -> None:
        """Raise Problem 403 unless `may_delete`."""
        if not self.may_delete(table, txn, stored, raw):
            raise self._refusal(table, "delete")

    def _refusal(self, table: Table, action: str) -> RowNotAllowed:
        return RowNotAllowed(f"A rule of {table.name} does not allow this record to be {_VERBS[action]}", self._user)


def _allows(view: TableView, action: str, txn: Any, pair: tuple[bytes, bytes], records: Mapping[str, tuple[bytes, bytes]]) -> bool:
    """Whether the rule about an action holds for the record `pair`."""
    rules = view.database.rules.of(view.name, action)
    if rules is None:
        return True
    if not any(rule.compares for rule in rules):
        return view.holds(action, *pair, txn)
    values = {name: decode(raw) for name, (_, raw) in records.items()}

    def holds(condition: Condition, record: Mapping[str, Any]) -> bool:
        stored, raw = next(records[name] for name, each in values.items() if each is record)
        return view.test(condition, stored, raw, txn)

    node = joined("or", [rule.bound(view.database.viewer.value, values, holds) for rule in rules])
    return view.test(node, *pair, txn)
