"""What the operations show of the transaction log: entries of one table, the writes of a transaction together (spec: operations §10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge as heap_merge
from itertools import chain
from operator import attrgetter
from typing import Any

from svc.store import LogEntry, Table
from svc.store.log.entries import DELETE, EXPIRE, KINDS, MESSAGE, NOTES, OPERATIONS, PATCH, PUT
from svc.store.system import SECRETS, SYSTEM
from svc.store.values.keys import encode_primary
from svc.store.values.records import decode, decode_payload, lsn_of, raw_payload
from svc.store.values.validation import Add
from svc.store.writing.merge_rules import logged_changes

TOGETHER = 2000  # writes of one transaction shown in one entry: of a bulk load's there are several, each made in some milliseconds

AUDIT_COLUMNS = ("operation", "user_name", "timestamp", "hash_values", "records", "original_records", "trace_id")
TRANSACTION_COLUMNS = ("operation", "user", "user_name", "timestamp", "hash_values", "records", "trace_id")

_END = (1 << 64) - 1
_LOOK = 256  # entries of the log that are passed between two pauses, on the way back

Shown = dict[str, Any]
Entries = Iterator[LogEntry | None]


def operation_of(entry: LogEntry) -> str:
    """`insert`, `update`, `upsert` or `delete`; `message` or `invalidate` for what changes no record, and "" for what is of no interest."""
    if entry.kind in (DELETE, EXPIRE):
        return "delete"
    if entry.kind not in (PUT, PATCH):
        return KINDS[entry.kind] if entry.kind in NOTES and entry.table_number else ""
    return OPERATIONS[entry.operation] or ("update" if entry.kind == PATCH else "upsert")


class Presenter:
    """Makes of log entries what is shown of them. `original`: with the records before, as the audit log has it."""

    def __init__(self, table: Table, *, original: bool) -> None:
        self._primary_key = table.primary_key
        self._hidden = SECRETS.get(table.name, frozenset()) if table.database.name == SYSTEM else frozenset()
        self._original = original
        self._has_images = table.audit

    def show(self, entries: list[LogEntry]) -> Shown:
        """Writes of one transaction that are of one kind."""
        first = entries[0]
        operation = operation_of(first)
        shown: Shown = {"operation": operation}
        if not self._original:
            shown["user"] = first.user
        shown["user_name"] = first.user
        shown["timestamp"] = first.version
        ids = [entry.id for entry in entries]
        shown["hash_values"] = [list(key) if type(key) is tuple else key for key in ids]
        shown["records"] = [self._seen(self._new(entry)) for entry in entries if entry.value is not None]
        if self._original and operation != "insert" and first.kind not in NOTES:
            originals = [self._seen(decode(entry.image)) for entry in entries if entry.image is not None]
            if originals or operation != "upsert":
                shown["original_records"] = originals
        if first.trace_id is not None:
            shown["trace_id"] = first.trace_id.hex()
        return shown

    def _new(self, entry: LogEntry) -> Any:
        """The record as written; of a patch what it has changed, with increments carried out. Or the message."""
        assert entry.value is not None
        if entry.kind == MESSAGE:
            return decode_payload(raw_payload(entry.value))
        record = decode(entry.value)
        if entry.kind != PATCH:
            return record
        # A patch that made the record has its key: there was nothing to add to, or what had expired.
        is_new = self._primary_key in record
        before = {} if entry.image is None or is_new else decode(entry.image)
        key = entry.id
        shown: Shown = {self._primary_key: list(key) if type(key) is tuple else key}
        for name, value in logged_changes(record).items():
            if type(value) is Add:
                value = value.applied_to(before.get(name)) if self._has_images or entry.image is not None or is_new else record[name]
            shown[name] = value
        return shown

    def _seen(self, record: Any) -> Any:
        hidden = self._hidden
        return {name: value for name, value in record.items() if name not in hidden} if hidden and isinstance(record, dict) else record

    def each(self, entries: Entries) -> Iterator[Shown | None]:
        """Every change on its own."""
        for entry in entries:
            yield None if entry is None or not operation_of(entry) else self.show([entry])

    def together(self, entries: Entries) -> Iterator[Shown | None]:
        """The writes of a transaction in one entry for each kind of them, in the order of the first."""
        transaction = 0
        groups: dict[str, list[LogEntry]] = {}
        count = 0
        for entry in entries:
            if entry is None:
                yield None
                continue
            if entry.transaction != transaction or count == TOGETHER:
                yield from map(self.show, groups.values())
                groups = {}
                transaction, count = entry.transaction, 0
            operation = operation_of(entry)
            if operation:
                groups.setdefault(operation, []).append(entry)
                count += 1
                if not count % 16:
                    yield None
        yield from map(self.show, groups.values())


def chosen(entries: Entries, is_chosen: Callable[[LogEntry], bool]) -> Entries:
    """Those that are chosen; the pauses stay."""
    passed = 0
    for entry in entries:
        if entry is None or is_chosen(entry):
            yield entry
        else:
            passed += 1
            if not passed % 64:
                yield None


def limited(values: Iterator[Shown | None], limit: int | None) -> Iterator[Shown | None]:
    """The first `limit` of them."""
    if limit is None:
        yield from values
        return
    for value in values:
        yield value
        if value is not None:
            limit -= 1
            if limit <= 0:
                return


def newest_first(table: Table, txn: Any, first: int, end: int | None) -> Entries:
    """The entries of a table with first <= LSN < end, the newest first. `end`: None is behind the last."""
    log, is_all = table.database.log, False
    at = _END if end is None else end
    while not is_all and at > first:
        found, at, is_all = log.read_some(txn, table.number, at, _LOOK, reverse=True)
        yield from (entry for entry in found if entry.lsn >= first)
        yield None


def window(entries: Entries, start: int, limit: int | None) -> Entries:
    """Without the first `start` changes, and no more than `limit`; the pauses stay."""
    for entry in entries:
        if entry is None or not operation_of(entry):
            yield None
        elif start > 0:
            start -= 1
            if not start % 64:
                yield None
        else:
            yield entry
            if limit is not None:
                limit -= 1
                if limit <= 0:
                    return


def history(table: Table, key: Any, txn: Any, *, reverse: bool = False) -> Entries:
    """The changes of one record and the messages about it, oldest first, or with `reverse` newest first, one after the other as they are asked for."""
    raw = table.get_raw(key, txn)
    encoded, log = encode_primary(key), table.database.log
    changes = log.read_record_history(txn, table.number, encoded, None if raw is None else lsn_of(raw))
    chains = changes, log.read_notes(txn, table.number, encoded)  # each with the newest first
    if reverse:
        for entry in heap_merge(*chains, key=attrgetter("lsn"), reverse=True):
            yield None
            yield entry
        return
    found: list[LogEntry] = []
    for entry in chain(*chains):
        found.append(entry)
        yield None
    found.sort(key=attrgetter("lsn"))
    yield from found
