"""Writes of other nodes, many at a time: most of them are the newest of their records, and need nothing but to be stored.

    batch = RemoteBatch(writes, keeps_entries=True)
    batch.begin(origin, transaction), batch.add(read) ...     # transaction after transaction; `writes` has all of it after `finish`
    batch.finish()

Up to MANY are looked up together, in the order of their keys, and then carried out in the order in which they come, so that the log has them as it would
have them one by one. A put whose record is not here, and was not removed here, and a put or a patch of a record that is older, are *plain*: the record is
made of the bytes that came, and is written with the others, in the order of their keys. Everything else is left to `RemoteWriteSet.apply`: late writes,
deletions, messages, blobs in files, tables with a source or with unique attributes.

Why that is the same: writes that are looked up together are of different records, and what `apply` does for one of them touches no other record. Entries
of indexes for new records are collected over all of it, and sorted; they are written before a record that may have some of them is changed again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from svc.store.log.entries import PATCH, PUT, LogEntry, entry_encoder, record_key
from svc.store.slices import run_now
from svc.store.values.comparison import changed_names
from svc.store.values.keys import KEPT_BYTES, index_keys
from svc.store.values.records import (
    COMPRESSED,
    FORMAT,
    HAS_EXPIRY,
    HAS_FILES,
    IS_COPY,
    IS_PARTIAL,
    are_plain_values,
    decode,
    encode,
    expiry_of,
    frame,
    lsn_of,
    version_of,
)
from svc.store.writing.index_runs import IndexRuns, write_run
from svc.store.writing.merge_rules import merge

if TYPE_CHECKING:
    from svc.store.indexes.index import Index
    from svc.store.table import Table
    from svc.store.writing.remote_transaction import Origin, RemoteTransaction
    from svc.store.writing.remote_write import ReadWrite, RemoteWriteSet

MANY, MANY_BYTES = 32, 1 << 17  # that are looked up together: less than a millisecond
COLLECTED = 256  # new records whose index entries are collected: written in about a millisecond

_PLAIN_VALUE = FORMAT | HAS_EXPIRY | COMPRESSED
_NOT_PLAIN_RECORD = HAS_FILES | IS_COPY | IS_PARTIAL
_NEVER = 1 << 64

_Head = tuple["Origin", "RemoteTransaction", bool]


class _TableRows:
    """Of the writes that are looked up together, those of one table. `keys`: of these. `found`: the records that are there. `removed`: keys in `$deleted` of
    those that are not. `records`: to be written; `fresh`: of these, those that are new."""

    __slots__ = ("found", "fresh", "keys", "records", "removed")

    def __init__(self) -> None:
        self.keys: dict[bytes, None] = {}
        self.found: dict[bytes, bytes] = {}
        self.removed: dict[bytes, bytes] = {}
        self.records: list[tuple[bytes, bytes]] = []
        self.fresh: list[tuple[bytes, dict[str, Any]]] = []


class RemoteBatch:
    """`writes`: that it is part of. `keeps_entries`: listeners are told of what `writes` has when the turn is committed."""

    def __init__(self, writes: RemoteWriteSet, *, keeps_entries: bool) -> None:
        self._writes = writes
        self._keeps_entries = keeps_entries
        self._head: _Head | None = None  # of what is added
        self._begun: _Head | None = None  # of what was carried out last
        self._waiting: list[tuple[_Head, ReadWrite, _TableRows | None]] = []
        self._bytes = 0  # of their values
        self._tables: dict[Table, _TableRows] = {}
        self._encoders: dict[tuple[int, int], Callable[[bytes, int, bytes, tuple[str, ...], bytes | None], bytes]] = {}
        self._names: dict[tuple[str, ...], bytes] = {}
        self._runs: dict[Index, IndexRuns] = {}  # index entries that are yet to be written
        self._runs_from = _NEVER  # LSN from which on records may have some of them
        self._collected = 0  # records that have

    def begin(self, origin: Origin, transaction: RemoteTransaction, *, is_heard: bool = False) -> None:
        """What is added from here on is of this one. See `RemoteWriteSet.begin`."""
        self._head = origin, transaction, is_heard

    def add(self, read: ReadWrite) -> bool:
        """Carry out one entry, now or with those to come. True: some were carried out."""
        assert self._head is not None
        table, key, is_time = read.table, read.entry.key, False
        rows: _TableRows | None = None
        if read.write is not None and len(key) < KEPT_BYTES:
            rows = self._tables.get(table)
            if rows is not None and key in rows.keys:
                self._carry_out()
                rows, is_time = None, True
            if rows is None:
                rows = self._tables[table] = _TableRows()
            rows.keys[key] = None
        self._waiting.append((self._head, read, rows))
        self._bytes += len(read.entry.value or b"")
        if len(self._waiting) >= MANY or self._bytes >= MANY_BYTES:
            self._carry_out()
            is_time = True
        return is_time

    def finish(self) -> None:
        """Carry out the rest."""
        self._carry_out()
        self._write_entries()

    def _carry_out(self) -> None:
        """What has come together."""
        writes, tables = self._writes, self._tables
        first = writes.log.last_lsn + 1
        is_own = writes.node == writes.database.node
        for table, rows in tables.items():
            self._look_up(table, rows)
        for head, read, place in self._waiting:
            if head is not self._begun:
                self._begun = head
                origin, transaction, is_heard = head
                writes.begin(origin, transaction, is_heard=is_heard)
                self._encoders.clear()
                is_own = origin.node == writes.database.node  # its entries are of another type
            if place is not None:
                raw = place.found.get(read.entry.key)
                if raw is not None and lsn_of(raw) >= self._runs_from:
                    self._write_entries()
                if not is_own and _is_plain(read) and (self._add(place, read) if raw is None else self._replace(place, read, raw)):
                    writes.figures.writes += 1
                    continue
            writes.apply(read)
        for table, rows in tables.items():
            rows.records.sort()
            writes.txn.cursor(table.primary).putmulti(rows.records)
            if rows.fresh:
                self._collect(table, rows.fresh)
                self._runs_from = min(self._runs_from, first)
        self._waiting.clear()
        self._bytes = 0
        tables.clear()
        if self._collected >= COLLECTED:
            self._write_entries()

    def _collect(self, table: Table, fresh: list[tuple[bytes, dict[str, Any]]]) -> None:
        for index in table.index_list:
            if index.computed is None or self._writes.can_maintain(table, index):
                run = self._runs.get(index)
                if run is None:
                    run = self._runs[index] = IndexRuns(index)
                run.add(fresh)
        self._collected += len(fresh)

    def _look_up(self, table: Table, rows: _TableRows) -> None:
        txn, log = self._writes.txn, self._writes.log
        keys = sorted(rows.keys)
        rows.found = dict(txn.cursor(table.primary).getmulti(keys))
        if len(rows.found) < len(keys):
            rows.removed = log.ends(txn, [record_key(table.number, key) for key in keys if key not in rows.found])

    def _add(self, rows: _TableRows, read: ReadWrite) -> bool:
        """A put of a record that is not there. False: it is not plain."""
        table, write, stored = read.table, read.write, read.entry.key
        assert write is not None
        record = write.data
        if write.kind != PUT or record is None or (rows.removed and record_key(table.number, stored) in rows.removed):
            return False
        writes = self._writes
        lsn = writes.log.last_lsn + 1
        raw = self._raw(read, record, lsn)
        rows.records.append((stored, raw))
        rows.fresh.append((stored, record))
        if write.expiry is not None:
            table.expiry.add(writes.txn, stored, write.expiry)
        self._log(read, lsn, 0, raw, tuple(record), None)
        return True

    def _replace(self, rows: _TableRows, read: ReadWrite, old_raw: bytes) -> bool:
        """A put or a patch of a record that is there. False: it is not plain."""
        table, write, stored = read.table, read.write, read.entry.key
        assert write is not None and write.data is not None
        if version_of(old_raw) >= write.version or old_raw[0] & _NOT_PLAIN_RECORD:
            return False
        is_put = write.kind == PUT
        if not is_put and (
            old_raw[0] & HAS_EXPIRY or write.expiry is not None or table.expiry.by_attribute or table.primary_key in write.data
        ):
            return False
        previous = lsn_of(old_raw)
        writes, old = self._writes, decode(old_raw)
        lsn = writes.log.last_lsn + 1
        if is_put:
            record = write.data
            raw = value = self._raw(read, record, lsn)
        else:
            record = merge(old, write.data)
            raw = encode(record, write.version, lsn, None, writes.compress_above)
            assert read.payload is not None
            value = frame(read.payload, write.version, lsn, None, read.flags)
        rows.records.append((stored, raw))
        changed = changed_names(old, record)
        for index in table.stored_indexes:
            name = index.attribute
            if name in changed:
                writes.reindex(index, stored, index_keys(old.get(name)), index_keys(record.get(name)))
        if table.computed_indexes:
            writes.reindex_computed(table, stored, old, record, changed)
        table.expiry.change(writes.txn, stored, expiry_of(old_raw), write.expiry)
        self._log(read, lsn, previous, value, changed, old_raw if table.audit else None)
        return True

    def _raw(self, read: ReadWrite, record: dict[str, Any], lsn: int) -> bytes:
        write, payload, compress_above = read.write, read.payload, self._writes.compress_above
        assert write is not None and payload is not None
        if not read.flags and len(payload) <= compress_above and are_plain_values(record):
            return frame(payload, write.version, lsn, write.expiry)  # as it would be encoded again
        return encode(record, write.version, lsn, write.expiry, compress_above)

    def _log(self, read: ReadWrite, lsn: int, previous: int, value: bytes, changed: tuple[str, ...], image: bytes | None) -> None:
        writes, table, entry, key = self._writes, read.table, read.entry, read.entry.key
        encode_entry = self._encoders.get((table.number, entry.kind))
        if encode_entry is None:
            encode_entry = self._encoders[table.number, entry.kind] = entry_encoder(
                kind=entry.kind,
                operation=writes.operation,
                table=table.name,
                table_number=table.number,
                transaction=writes.first_lsn,
                wall_ms=writes.wall_ms,
                version=writes.version,
                node=writes.node,
                user=writes.user,
                trace_id=writes.trace_id,
                names_of=self._names,
            )
        writes.log_encoded(encode_entry(key, previous, value, changed, image))
        if self._keeps_entries:
            writes.entries.append(
                LogEntry(
                    lsn,
                    writes.first_lsn,
                    writes.wall_ms,
                    writes.version,
                    table.name,
                    table.number,
                    key,
                    entry.kind,
                    writes.user,
                    writes.node,
                    previous,
                    value,
                    changed,
                    image,
                    writes.operation,
                    writes.trace_id,
                )
            )

    def _write_entries(self) -> None:
        """The index entries that were collected."""
        for run in self._runs.values() if self._collected else ():
            run_now(write_run(self._writes, run))
        self._runs_from, self._collected = _NEVER, 0


def _is_plain(read: ReadWrite) -> bool:
    """As far as can be said before its record is looked up."""
    write, entry, table = read.write, read.entry, read.table
    return (
        write is not None
        and entry.value is not None
        and (write.kind == PUT or write.kind == PATCH)
        and not entry.value[0] & ~_PLAIN_VALUE
        and entry.mqtt is None
        and len(entry.key) < KEPT_BYTES
        and not table.is_caching
        and table.moves is None
        and (table.constraints is None or not table.constraints.unique)
    )
