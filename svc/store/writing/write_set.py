"""The writes of one transaction in one database, while they are applied.

A `WriteSet` lives as long as its child transaction: it reads what is stored, tests preconditions, merges, stamps, and writes record,
indexes, expiry and log entry together. Only indexes whose value changed are touched. Nothing outside the child changes until the
turn's commit; `undo` therefore has to put back no more than the log's counter.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from svc.errors import ClientError
from svc.store.blobs import Blob, BlobFile, blobs_in
from svc.store.definitions import build_key
from svc.store.entity_tags import Precondition
from svc.store.log.entries import DELETE, EXPIRE, PATCH, PUT, LogEntry, entry_encoder
from svc.store.values.keys import KEPT_BYTES, MAX_STORED, Key, index_key, index_keys, is_hashed, storage_key
from svc.store.values.records import HAS_FILES, decode, encode, encode_payload, expiry_of, frame, lsn_of
from svc.store.values.validation import Add
from svc.store.writing.merge_rules import log_changes, merge

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.env import Txn
    from svc.store.indexes.index import Index
    from svc.store.table import Table

MANY = 32  # records that are written in one step
_ENTRIES = 100  # index entries in one step
_RUN = 1000  # index entries that are sorted at once
_LENGTHS = [length.to_bytes(2, "big") for length in range(512)]
_TEXTS = 10_000  # that are remembered with their index key


IndexChange = tuple["Index", bytes, bytes, bool]  # index key, stored primary key; True = added, False = removed


class Item(msgspec.Struct, gc=False):
    """What is to be written under a key. `key`: encoded, whole. `number`: of the record, for messages. Not for the garbage collector, as `Write`."""

    stored: bytes
    key: bytes
    data: dict[str, Any]
    number: int


class Rules(Protocol):
    """What becomes of items. None: the item is left out. `kind`: of the log entries, PUT or PATCH."""

    kind: int

    def new(self, item: Item) -> tuple[dict[str, Any], dict[str, Any] | None] | None:
        """(the record where there is none, the changes to log; None: the record itself)."""

    def over(self, item: Item, old: dict[str, Any], is_live: bool) -> tuple[dict[str, Any], dict[str, Any] | None] | None:
        """(the record in place of `old`, the changes to log; None: the record itself). Not `is_live`: `old` has expired."""


Decide = Callable[[dict[str, Any], Mapping[str, Any] | None], dict[str, Any]]
"""(what was asked for, the record that is there or None) -> what is written: of a put the record, of a patch the changes. Called where the write
happens, within its transaction, each time it is carried out; raises what prevents it. Changes neither argument: it returns a copy instead."""


@dataclass(frozen=True, slots=True)
class Found:
    """Why records that a scan has found are to be removed. `lsn`: of the newest log entry that the scan could see. `holds`: whether a record
    (stored key, raw) that was written after it is still one of those."""

    lsn: int
    holds: Callable[[bytes, bytes], bool]


class WriteSet:
    """`version`, `wall_ms`: of the transaction. `entries`, `index_changes`: what became of it, for listeners and caches.

    `txn`: the long writer. Who has that commits or undoes it, and takes `entries` and `index_changes` away as they come (`long_write`).
    """

    __slots__ = (
        "_compress_above",
        "_first",
        "_log",
        "_outdated",
        "database",
        "entries",
        "index_changes",
        "is_long",
        "new_files",
        "operation",
        "skipped",
        "txn",
        "uncached",
        "user",
        "version",
        "wall_ms",
        "written_bytes",
    )

    def __init__(
        self, database: Database, version: float, wall_ms: float, user: str | None, operation: int = 0, txn: Txn | None = None
    ) -> None:
        self.database = database
        self.txn = database.env.child() if txn is None else txn
        self.is_long = txn is not None
        self._log = database.log
        self._compress_above = database.store.compress_above
        self._first = self._log.last_lsn + 1
        self.version = version
        self.wall_ms = wall_ms
        self.user = user
        self.operation = operation
        self.entries: list[LogEntry] = []
        self.index_changes: list[IndexChange] = []
        self.skipped: list[Key] = []  # of writes that were asked for only if there is a record, or none, and that was not so
        self.uncached: set[Index] = set()  # had no cache when `write_many` changed them: a cache that comes before the commit does not know
        self.written_bytes = 0  # of the records that `write_many` has stored
        self._outdated: dict[Index, None] = {}
        self.new_files: list[BlobFile] = []  # that records refer to from this transaction on

    def commit(self) -> None:
        """Make it part of the turn; if that is impossible, undo it and raise."""
        if self._log.last_lsn < self._first:
            self.rollback()
            return
        try:
            self.database.env.commit_child(self.txn)
        except BaseException:
            self._log.last_lsn = self._first - 1
            raise
        self.database.written(self.version, self.entries, self.index_changes)
        if self.new_files:
            self.database.new_files += self.new_files
        if self._outdated:
            self.database.outdated(self._outdated)

    def check(self) -> None:
        """Ask the guard of the database, as long as what was written can be undone alone. Raises what speaks against it."""
        guard = self.database.guard
        if guard is not None and self.entries:
            guard(self.txn, {entry.table for entry in self.entries})

    def read_entries(self) -> None:
        """Take the entries that `write_many` has written to the log, for listeners. In place of all that are in `entries`."""
        self.entries = list(self._log.read(self.txn, self._first))

    def end_long(self) -> bool:
        """The last thing to write before a long writer is committed; True if that changes what memory knows of the database.

        Raises what the guard of the database has against what was written.
        """
        if self.database.guard is not None:
            self.database.guard(self.txn, None)
        if self._outdated:
            self.database.outdated(self._outdated, self.txn)
        return bool(self._outdated)

    def rollback(self) -> None:
        self.txn.abort()
        self._log.last_lsn = self._first - 1
        for file in self.new_files:
            file.unclaim()

    # -- the kinds of write

    def has(self, table: Table, key: bytes) -> bool:
        """Whether there is a record under this encoded key, as of the writes before."""
        raw = self.txn.get(key if len(key) < MAX_STORED else storage_key(key), None, table.primary)
        return raw is not None and not self._is_expired(raw)

    def put(
        self,
        table: Table,
        key: bytes,
        record: dict[str, Any],
        precondition: Precondition | None,
        expires_at: float | None = None,
        decide: Decide | None = None,
    ) -> None:
        """Store `record`, which must hold its key, in place of what was there."""
        stored = key if len(key) < MAX_STORED else storage_key(key)
        old_raw = self.txn.get(stored, None, table.primary)
        live = old_raw is not None and not self._is_expired(old_raw)
        old = None if old_raw is None else decode(old_raw)
        if decide is not None:
            record = decide(record, old if live else None)
        if precondition is not None:
            precondition.check(old_raw if live else None)
        if table.stamps:
            table.validator.stamp(record, self.version, old if live else None)
        expiry = self._expiry(table, record, expires_at)
        self._write(table, PUT, key, stored, old_raw, old, record, None, expiry)

    def patch(
        self,
        table: Table,
        key: bytes,
        id: Any,
        changes: dict[str, Any],
        precondition: Precondition | None,
        expires_at: float | None = None,
        decide: Decide | None = None,
    ) -> None:
        """Merge `changes` into the stored record at top level. A missing record is made, after full validation."""
        stored = key if len(key) < MAX_STORED else storage_key(key)
        old_raw = self.txn.get(stored, None, table.primary)
        live = old_raw is not None and not self._is_expired(old_raw)
        old = None if old_raw is None else decode(old_raw)
        if decide is not None:
            changes = decide(changes, old if live else None)
        if precondition is not None:
            precondition.check(old_raw if live else None)
        if old is None or not live:
            record = merge({}, changes)
            record[table.primary_key] = id
            record = table.validator.record(record, source="native")
            if table.stamps:
                table.validator.stamp(record, self.version, None)
            logged = record
            if Add in map(type, changes.values()):
                logged = record | log_changes({name: value for name, value in changes.items() if type(value) is Add})
            self._write(table, PATCH, key, stored, old_raw, old, record, logged, self._expiry(table, record, expires_at))
            return
        record = merge(old, changes)
        record[table.primary_key] = old[table.primary_key]
        increments = [name for name, value in changes.items() if type(value) is Add]
        if increments:
            table.validator.merged(record, increments)
        if table.stamps:
            table.validator.stamp(record, self.version, old)
        expiry = self._expiry(table, record, expires_at)
        if expiry is None and not table.expires_by_attribute and old_raw is not None:
            expiry = expiry_of(old_raw)  # given with an earlier write: a patch of other attributes keeps it
        logged = log_changes(changes)
        for name in table.stamps:
            if name in record:
                logged[name] = record[name]
        self._write(table, PATCH, key, stored, old_raw, old, record, logged, expiry)

    def rewrite(self, table: Table, stored: bytes, raw: bytes, record: dict[str, Any]) -> None:
        """Store `record`, without an attribute that the table has lost, in place of `raw`. Neither time attributes nor the expiry change."""
        self._write(table, PUT, table.encoded_key(stored, record), stored, raw, decode(raw), record, None, expiry_of(raw))

    def write_many(self, table: Table, order: list[bytes], items: Mapping[bytes, Item], rules: Rules) -> Iterator[None]:
        """Write items in the order of their stored keys, with nothing else in between. In steps of less than 1 ms.

        Order is what makes it fast: records and the entries of each index are written through one cursor, so that LMDB finds most places next
        to the one before. Index entries come last, so what is stored only agrees when all steps have been taken.
        """
        txn, log, kind, version, wall_ms, compress_above = self.txn, self._log, rules.kind, self.version, self.wall_ms, self._compress_above
        number, audit, stamps = table.number, table.audit, table.stamps
        stamp = table.validator.stamp if stamps else None
        may_expire = table.expires_by_attribute or table.expiration_ms is not None
        encode_log = entry_encoder(
            kind=kind,
            operation=self.operation,
            table=table.name,
            table_number=number,
            transaction=self._first,
            wall_ms=wall_ms,
            version=version,
            node=self.database.node,
            user=self.user,
        )
        cursor = txn.cursor(table.primary)
        is_empty = not txn.stat(table.primary)["entries"]
        has_deleted = log.has_deleted(txn)
        runs = [_Runs(index) for index in table.index_list if index.computed is None or self._has_values(table, index)]
        for start in range(0, len(order), MANY):
            some = order[start : start + MANY]
            found = {} if is_empty else dict(cursor.getmulti(some))
            fresh: list[tuple[bytes, dict[str, Any]]] = []
            rows: list[tuple[bytes, bytes]] = []
            logged: list[bytes] = []
            lsn = log.last_lsn + 1
            for stored in some:
                item = items[stored]
                key = item.key
                old_raw = found.get(stored)
                image = changes = None
                if old_raw is None:
                    made = rules.new(item)
                    if made is None:
                        continue
                    if len(stored) >= KEPT_BYTES:
                        check_order(table, txn, stored, rows[-1][0] if rows else b"")
                    record, changes = made
                    if stamp is not None:
                        stamp(record, version, None)
                    if changes is not None:
                        changes.update((name, record[name]) for name in stamps if name in record)
                    expiry = None
                    if may_expire:
                        expiry = self._expiry(table, record, None)
                        self._change_expiry(table, stored, None, expiry)
                    previous = log.resume_chain(txn, number, key) if has_deleted else 0
                    changed = tuple(record)
                    fresh.append((stored, record))
                else:
                    is_live = not self._is_expired(old_raw)
                    old = decode(old_raw)
                    outcome = rules.over(item, old, is_live)
                    if outcome is None:
                        continue
                    record, changes = outcome
                    if stamp is not None:
                        stamp(record, version, old if is_live else None)
                    expiry = self._expiry(table, record, None)
                    if changes is not None:
                        for name in stamps:
                            if name in record:
                                changes[name] = record[name]
                        if expiry is None and not table.expires_by_attribute:
                            expiry = expiry_of(old_raw)
                    self._change_expiry(table, stored, expiry_of(old_raw), expiry)
                    previous = lsn_of(old_raw)
                    changed = changed_names(old, record)
                    for index in table.stored_indexes:
                        if index.attribute in changed:
                            self._reindex(index, stored, index_keys(old.get(index.attribute)), index_keys(record.get(index.attribute)))
                    if table.computed_indexes:
                        self._reindex_computed(table, stored, old, record, changed)
                    if audit:
                        image = old_raw
                raw = encode(record, version, lsn, expiry, compress_above)
                if raw[0] & HAS_FILES or (old_raw is not None and old_raw[0] & HAS_FILES):
                    self._change_files(table, stored, lsn, old_raw, record)
                rows.append((stored, raw))
                value = raw if changes is None else encode(changes, version, lsn, expiry, compress_above)
                logged.append(encode_log(key, previous, value, changed, image))
                lsn += 1
            cursor.putmulti(rows)
            self.written_bytes += sum([len(raw) for _, raw in rows])
            log.append_encoded(txn, logged)
            for run in runs:
                run.add(fresh)
            yield
        for run in runs:
            entries = yield from run.merged()
            cursor = txn.cursor(run.index.handle)
            for start in range(0, len(entries), _ENTRIES):
                pairs = list(map(_split, entries[start : start + _ENTRIES]))
                cursor.putmulti(pairs)
                if run.index.cache is not None:
                    self.index_changes += [(run.index, key, stored, True) for key, stored in pairs]
                else:
                    self.uncached.add(run.index)
                yield

    def delete(self, table: Table, key: bytes, precondition: Precondition | None, found: Found | None = None) -> bool:
        """Remove a record; False, and nothing is written, if there is none, or none any more that `found` is about."""
        stored = key if len(key) < MAX_STORED else storage_key(key)
        raw = self.txn.get(stored, None, table.primary)
        live = raw is not None and not self._is_expired(raw)
        if precondition is not None:
            precondition.check(raw if live else None)
        if raw is None or not live or (found is not None and lsn_of(raw) > found.lsn and not found.holds(stored, raw)):
            return False
        self._remove(table, DELETE, key, stored, raw, decode(raw))
        return True

    def expire(self, table: Table, stored: bytes, before_ms: float) -> bool:
        """Remove a record whose expiry is before `before_ms`; False if it is not such a record (any more)."""
        raw = self.txn.get(stored, None, table.primary)
        expiry = None if raw is None else expiry_of(raw)
        if raw is None or expiry is None or expiry > before_ms:
            return False
        record = decode(raw)
        self._remove(table, EXPIRE, table.encoded_key(stored, record), stored, raw, record)
        return True

    def note(self, table: Table, kind: int, key: bytes, payload: bytes | None) -> None:
        """Log something that changes no record: a MESSAGE with this payload, or INVALIDATE. `key` b"": it is about the whole table."""
        lsn = self._log.last_lsn + 1
        previous = self._log.extend_notes(self.txn, table.number, key, lsn)
        self._append(table, kind, key, lsn, previous, None if payload is None else frame(payload, self.version, lsn, None), (), None)

    # -- what they share

    def _is_expired(self, raw: bytes) -> bool:
        expiry = expiry_of(raw)
        return expiry is not None and expiry <= self.wall_ms

    def _expiry(self, table: Table, record: dict[str, Any], given: float | None) -> float | None:
        if given is not None:
            return given
        if table.expires_by_attribute:
            expiry = table.validator.expiry(record)
            if expiry is not None:
                return expiry
        return None if table.expiration_ms is None else self.wall_ms + table.expiration_ms

    def _write(
        self,
        table: Table,
        kind: int,
        key: bytes,
        stored: bytes,
        old_raw: bytes | None,
        old: dict[str, Any] | None,
        record: dict[str, Any],
        patch: dict[str, Any] | None,
        expiry: float | None,
    ) -> None:
        txn, log = self.txn, self._log
        lsn = log.last_lsn + 1
        if old_raw is None and len(stored) >= KEPT_BYTES:
            check_order(table, txn, stored)
        raw = encode(record, self.version, lsn, expiry, self._compress_above)
        txn.put(stored, raw, True, True, False, table.primary)
        if raw[0] & HAS_FILES or (old_raw is not None and old_raw[0] & HAS_FILES):
            self._change_files(table, stored, lsn, old_raw, record)
        if old is None or old_raw is None:
            changed = tuple(record)
            previous = log.resume_chain(txn, table.number, key)
            for index in table.stored_indexes:
                for entry in index_keys(record.get(index.attribute)):
                    txn.put(entry, stored, True, True, False, index.handle)
                    self.index_changes.append((index, entry, stored, True))
            if table.computed_indexes:
                self._reindex_computed(table, stored, None, record, changed)
            if expiry is not None:
                table.add_expiry(txn, stored, expiry)
        else:
            changed = changed_names(old, record)
            previous = lsn_of(old_raw)
            for index in table.stored_indexes:
                name = index.attribute
                if name in changed:
                    self._reindex(index, stored, index_keys(old.get(name)), index_keys(record.get(name)))
            if table.computed_indexes:
                self._reindex_computed(table, stored, old, record, changed)
            self._change_expiry(table, stored, expiry_of(old_raw), expiry)
        value = raw if patch is None else encode(patch, self.version, lsn, expiry, self._compress_above)
        self._append(table, kind, key, lsn, previous, value, changed, old_raw)

    def _change_files(self, table: Table, stored: bytes, lsn: int, old_raw: bytes | None, record: dict[str, Any] | None) -> None:
        """Keep the ledger of blob files: what the record refers to now, and what it no longer does."""
        ledger, files = self.database.ledger, self.database.blobs
        old = _files_of(decode(old_raw)) if old_raw is not None and old_raw[0] & HAS_FILES else {}
        new = {} if record is None else _files_of(record)
        for number, blob in new.items():
            if blob.files is None or blob.files.identity != files.identity:
                raise ClientError("The blob belongs to another database: make a new one of its content", code="VALIDATION")
            if number not in old:
                ledger.claim(self.txn, number, table.number, stored, is_new=blob.file is not None and not blob.file.is_kept)
                if blob.file is not None:
                    blob.file.claim()
                    self.new_files.append(blob.file)
        for number in old.keys() - new.keys():
            # Without images, the entry that wrote the old record is the last one that may refer to the file.
            assert old_raw is not None
            ledger.release(self.txn, number, lsn if table.audit else lsn_of(old_raw), self.wall_ms)

    def _change_expiry(self, table: Table, stored: bytes, old: float | None, new: float | None) -> None:
        if old != new:
            if old is not None:
                table.remove_expiry(self.txn, stored, old)
            if new is not None:
                table.add_expiry(self.txn, stored, new)

    def _reindex(self, index: Index, stored: bytes, old: Any, new: Any) -> None:
        if old == new:
            return
        txn, handle, changes = self.txn, index.handle, self.index_changes
        was, will = (old, new) if len(old) + len(new) < 8 else (set(old), set(new))  # lists of values may be long
        for entry in old:
            if entry not in will:
                txn.delete(entry, stored, handle)
                changes.append((index, entry, stored, False))
        for entry in new:
            if entry not in was:
                txn.put(entry, stored, True, True, False, handle)
                changes.append((index, entry, stored, True))

    def _reindex_computed(
        self, table: Table, stored: bytes, old: dict[str, Any] | None, new: dict[str, Any] | None, changed: tuple[str, ...]
    ) -> None:
        """What `_reindex` does, for values that are computed. None: there is no such record."""
        for index in table.computed_indexes:
            computed = index.computed
            assert computed is not None
            if self._has_values(table, index) and (old is None or new is None or computed.depends_on(changed)):
                was = () if old is None else index_keys(computed(old))
                self._reindex(index, stored, was, () if new is None else index_keys(computed(new)))

    def _has_values(self, table: Table, index: Index) -> bool:
        """Whether the index can be kept up to date. If not, it is noted as one to be built from the beginning."""
        if index.has_values:
            return True
        if index not in self._outdated:
            self._outdated[index] = None
            self.txn.put(build_key(table.number, index.attribute), b"", True, True, False, self.database.definitions)
        return False

    def _remove(self, table: Table, kind: int, key: bytes, stored: bytes, raw: bytes, record: dict[str, Any]) -> None:
        txn = self.txn
        txn.delete(stored, b"", table.primary)
        for index in table.stored_indexes:
            for entry in index_keys(record.get(index.attribute)):
                txn.delete(entry, stored, index.handle)
                self.index_changes.append((index, entry, stored, False))
        if table.computed_indexes:
            self._reindex_computed(table, stored, record, None, ())
        expiry = expiry_of(raw)
        if expiry is not None:
            table.remove_expiry(txn, stored, expiry)
        lsn = self._log.last_lsn + 1
        if raw[0] & HAS_FILES:
            self._change_files(table, stored, lsn, raw, None)
        self._append(table, kind, key, lsn, lsn_of(raw), None, (), raw)
        self._log.end_chain(txn, table.number, key, lsn)

    def _append(
        self,
        table: Table,
        kind: int,
        key: bytes,
        lsn: int,
        previous: int,
        value: bytes | None,
        changed: tuple[str, ...],
        image: bytes | None,
    ) -> None:
        entry = LogEntry(
            lsn,
            self._first,
            self.wall_ms,
            self.version,
            table.name,
            table.number,
            key,
            kind,
            None if kind == EXPIRE else self.user,
            self.database.node,
            previous,
            value,
            changed,
            image if table.audit else None,
            self.operation,
        )
        self._log.append(self.txn, entry)
        self.entries.append(entry)


def check_order(table: Table, txn: Txn, stored: bytes, before: bytes = b"") -> None:
    """Raise ClientError if a new key would have no place in the order of keys, because what tells it from another is not in its stored form
    (`keys.storage_key`). `before`: the last key that will be written before it."""
    beginning = stored[:KEPT_BYTES]
    cursor = txn.cursor(table.primary)
    # Of keys with the same beginning none is hashed, or there is only one.
    others = (before, cursor.key() if cursor.set_range(beginning) else b"")
    if any(other.startswith(beginning) and (is_hashed(stored) or is_hashed(other)) for other in others):
        raise ClientError(
            f"{table.name} has another key with the same beginning: keys over {MAX_STORED - 3} bytes must differ in their first {KEPT_BYTES - 1}",
            409,
            code="KEY_CONFLICT",
        )


class _Runs:
    """The entries of new records, in sorted runs that are merged at the end: to sort all of them at once would take too long.

    An entry is one bytes object, as in `index.IndexCache`: it is compared in a third of the time of a pair, and the garbage collector need not look
    at it, which otherwise stops everything for several milliseconds.
    """

    __slots__ = ("_last", "_runs", "_texts", "index")

    def __init__(self, index: Index) -> None:
        self.index = index
        self._last: list[bytes] = []
        self._runs: list[list[bytes]] = []
        self._texts: dict[str, bytes] = {}  # texts that repeat are encoded once

    def add(self, records: list[tuple[bytes, dict[str, Any]]]) -> None:
        name, texts, entries, computed = self.index.attribute, self._texts, self._last, self.index.computed
        if computed is not None:
            entries += [key + stored + _LENGTHS[len(stored)] for stored, record in records for key in index_keys(computed(record))]
        else:
            for stored, record in records:
                value: Any = record.get(name)
                kind = type(value)
                if kind is str:
                    key = texts.get(value)
                    if key is None:
                        if len(texts) >= _TEXTS:
                            texts.clear()
                        key = texts[value] = index_key(value)
                    entries.append(key + stored + _LENGTHS[len(stored)])
                elif kind is float or kind is int or value is None:
                    entries.append(index_key(value) + stored + _LENGTHS[len(stored)])
                else:
                    entries += [key + stored + _LENGTHS[len(stored)] for key in index_keys(value)]
        if len(entries) >= _RUN:
            entries.sort()
            self._runs.append(entries)
            self._last = []

    def merged(self) -> Generator[None, None, list[bytes]]:
        """All of them, sorted; in short steps. To be called once."""
        self._last.sort()
        return merge_runs([*self._runs, self._last])


def _split(entry: bytes) -> tuple[bytes, bytes]:
    """(index key, stored key)."""
    end = -2 - (entry[-2] << 8 | entry[-1])
    return entry[:end], entry[end:-2]


def merge_runs(runs: list[list[bytes]]) -> Generator[None, None, list[bytes]]:
    """One sorted list of sorted ones, which are used up. In steps, each of which takes as long as to merge two of them."""
    while len(runs) > 1:
        merged = []
        for first, second in zip(runs[::2], runs[1::2], strict=False):
            first += second
            first.sort()  # finds that these are two runs, and merges them
            merged.append(first)
            yield
        if len(runs) % 2:
            merged.append(runs[-1])
        runs = merged
    return runs[0] if runs else []


def _files_of(record: dict[str, Any]) -> dict[int, Blob]:
    """The blobs of a record that have files, by number."""
    return {blob.number: blob for blob in blobs_in(record) if blob.number is not None}


def changed_names(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    """The attributes whose stored value differs, missing ones included.

    >>> changed_names({"a": 1, "b": 1, "c": [True], "d": 0}, {"a": 1, "b": True, "c": [1], "e": 0})
    ('b', 'c', 'e', 'd')
    """
    changed = [name for name, value in new.items() if name not in old or not same(old[name], value)]
    if not old.keys() <= new.keys():
        changed += [name for name in old if name not in new]
    return tuple(changed)


def same(a: Any, b: Any) -> bool:
    """Equal, and equal in kind: True is not 1, at any depth; 1 is 1.0."""
    kind = type(a)
    if kind is not type(b):
        return bool(a == b) and kind is not bool and type(b) is not bool
    if kind is list:
        return len(a) == len(b) and all(map(same, a, b))
    if kind is dict:
        return len(a) == len(b) and all(name in b and same(value, b[name]) for name, value in a.items())
    if kind is set:
        return len(a) == len(b) and encode_payload(a) == encode_payload(b)
    return bool(a == b)
