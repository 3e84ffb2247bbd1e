"""What callers whom rules on rows narrow (spec: rows §1) learn from operations that tell of records in other ways than by finding them.

VisibleEntries   the entries of the log that are there for a caller
refuse_narrowed  for what cannot be done with some of the records only
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any

from svc.auth.roles import rights, role_of
from svc.auth.users import User
from svc.errors import RowNotAllowed
from svc.operations.call import Call
from svc.query import plan_query
from svc.query.execution import execute
from svc.query.lasting_run import LastingRun
from svc.query.nodes import Query
from svc.query.views import TableView
from svc.store import Database, LogEntry, Table
from svc.store.log.entries import MESSAGE, PATCH, PUT
from svc.store.values.keys import Key, storage_key
from svc.store.values.records import decode, decode_payload, encode, raw_payload
from svc.store.writing.merge_rules import logged_changes, merge

_ALL = Query()
_STEP = 64  # records between two polls of the clock


def read_view(call: Call, table: Table) -> TableView | None:
    """The table as the caller sees it; None if all its records may be read."""
    view = call.seen(table)
    return view if type(view) is TableView and view.rule_members else None


def is_narrowed(call: Call, database: Database) -> bool:
    """Whether rules narrow what the caller may do with records of this database."""
    return not call.is_super_user and narrows(call.user, database)


def narrows(user: User | None, database: Database) -> bool:
    """The same for a user whose rights count."""
    table = next(iter(database.tables.values()), None)
    role = None if table is None else role_of(user, table)
    return role is not None and role.is_narrowed(database)


def refuse_narrowed(call: Call, place: Database | Table, what: str) -> None:
    """Raise RowNotAllowed if rules narrow what the caller may do with records of this table, or of this database. `what`: is not possible then."""
    if is_narrowed(call, place) if isinstance(place, Database) else not call.is_super_user and rights(call.user, place).rows is not None:
        raise RowNotAllowed(
            f"Rules on rows narrow what this role may do with records of {place.name}, so {what}: ask a super user", call.user
        )


def count_visible(view: TableView) -> Generator[None, None, tuple[int, int]]:
    """The number of records that are there for a caller, as `count_records` gives it, in short steps."""
    table = view.table
    txn = table.database.snapshot()
    run = execute(plan_query(_ALL, view, txn, allow_full_scan=True), txn)
    lasting = LastingRun(run, table.database, lambda: f"a description of {table.name}")
    count = 0
    try:
        while not run.done:
            lasting.use()
            count += len(run.step(_STEP))
            yield
    finally:
        run.close()
        lasting.close()
    return count, count


class VisibleEntries:
    """Tells which log entries of a table a caller may see: those about records that may be read as they are now, and as they were before and after the entry,
    as far as the log has that. Of an entry that has none of it the key decides alone."""

    def __init__(self, view: TableView, txn: Any) -> None:
        """`txn`: what is now."""
        self._view = view
        self._txn = txn

    def __call__(self, entry: LogEntry) -> bool:
        view, txn = self._view, self._txn
        stored = storage_key(entry.key)
        return all(view.holds("read", stored, raw, txn) for raw in self._states(entry, stored))

    def _states(self, entry: LogEntry, stored: bytes) -> Iterator[bytes]:
        is_known = False
        if entry.key and (now := self._view.table.get_by(stored, self._txn)) is not None:
            is_known = True
            yield now
        if entry.kind == MESSAGE:
            if not is_known:
                payload = None if entry.value is None else decode_payload(raw_payload(entry.value))
                yield self._encoded(payload if isinstance(payload, dict) else {}, entry.id)
            return
        if entry.image is not None:
            is_known = True
            yield entry.image
        after = _after(entry, self._view.primary_key)
        if after is not None:
            is_known = True
            yield self._encoded(after, entry.id)
        if not is_known:
            yield self._encoded({}, entry.id)

    def _encoded(self, record: Mapping[str, Any], key: Key | None) -> bytes:
        given = {} if key is None else {self._view.primary_key: list(key) if type(key) is tuple else key}
        return encode({**record, **given}, 0.0, 0, None)


def _after(entry: LogEntry, primary_key: str) -> Mapping[str, Any] | None:
    """The record that a write has made, None if the log does not know the whole of it."""
    if entry.value is None or entry.kind not in (PUT, PATCH):
        return None
    written = decode(entry.value)
    if entry.kind == PUT:
        return written
    if primary_key in written:  # it has made the record
        return merge({}, logged_changes(written))
    return None if entry.image is None else merge(decode(entry.image), logged_changes(written))
