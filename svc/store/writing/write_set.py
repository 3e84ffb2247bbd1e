"""The writes of one transaction in one database, while they are applied.

A `WriteSet` lives as long as its child transaction: it reads what is stored, tests preconditions, merges, stamps, and writes record,
indexes, expiry and log entry together. Only indexes whose value changed are touched. Nothing outside the child changes until the
turn's commit; `rollback` therefore has to restore no more than the log's counter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from svc.clock import stamp_time
from svc.errors import ClientError, KeyConflict
from svc.store.blobs import Blob, BlobFile, blobs_in
from svc.store.definitions import build_key
from svc.store.entity_tags import CREATE, Precondition
from svc.store.expiry_index import PARTIAL
from svc.store.indexes.index import IndexChange
from svc.store.log.entries import DELETE, EXPIRE, MESSAGE, PATCH, PUT, LogEntry
from svc.store.slices import run_now
from svc.store.values.comparison import changed_names
from svc.store.values.keys import KEPT_BYTES, MAX_STORED, Key, index_keys, is_hashed, storage_key
from svc.store.values.records import HAS_FILES, decode, encode, encode_payload, expiry_of, frame, is_partial, lsn_of, refreshed_of
from svc.store.values.validation import Add
from svc.store.writing.constraints import Suspects, remaining
from svc.store.writing.merge_rules import log_changes, merge
from svc.store.writing.references import ReferenceActions

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.env import Txn
    from svc.store.indexes.index import Index
    from svc.store.table import Table
    from svc.store.writing.mqtt_message import MqttMessage


Decide = Callable[[dict[str, Any], Mapping[str, Any] | None], dict[str, Any]]
"""(what was asked for, the record that is there or None) -> what is written: of a put the record, of a patch the changes. Called where the write
happens, within its transaction, each time it is carried out; raises what prevents it. Changes neither argument: it returns a copy instead."""


class RowGuard(Protocol):
    """What rules on rows say of the writes of one caller (`query.row_guard`). `stored`, `raw`: key and record, as stored. `txn`: of the write."""

    def can_see(self, table: Table, txn: Txn, stored: bytes, raw: bytes) -> bool:
        """Whether the record is there for the caller."""

    def check_seen(self, table: Table, txn: Txn, stored: bytes, raw: bytes) -> None:
        """Raise NotFound unless `can_see`."""

    def check_written(self, table: Table, txn: Txn, stored: bytes, before: bytes | None, record: Mapping[str, Any]) -> None:
        """Raise Problem unless `record` may be written in place of `before`, None: as a new one, or as a message."""

    def may_delete(self, table: Table, txn: Txn, stored: bytes, raw: bytes) -> bool:
        """Whether the record, which may be seen, may be deleted."""

    def check_deleted(self, table: Table, txn: Txn, stored: bytes, raw: bytes) -> None:
        """Raise Problem unless `may_delete`."""


@dataclass(frozen=True, slots=True)
class RemovalReason:
    """Why records that a scan has found are to be removed. `lsn`: of the newest log entry that the scan could see. `holds`: whether a record
    (stored key, raw) that was written after it is still one of those."""

    lsn: int
    holds: Callable[[bytes, bytes], bool]


class WriteSet:
    """`version`, `wall_ms`: of the transaction. `entries`, `index_changes`: what became of it, for listeners and caches.

    `txn`: the long writer. Its holder commits or aborts it, and removes `entries` and `index_changes` as they come (`long_write`).
    """

    __slots__ = (
        "_outdated",
        "compress_above",
        "database",
        "entries",
        "first_lsn",
        "index_changes",
        "is_long",
        "keeps_row",
        "log",
        "may_repeat",
        "mqtt",
        "new_files",
        "operation",
        "reference_limit",
        "references",
        "skipped",
        "suspects",
        "trace_id",
        "txn",
        "uncached",
        "user",
        "version",
        "wall_ms",
        "writes_unlogged",
        "written_bytes",
    )

    def __init__(
        self,
        database: Database,
        version: float,
        wall_ms: float,
        user: str | None,
        operation: int = 0,
        txn: Txn | None = None,
        trace_id: bytes | None = None,
    ) -> None:
        self.database = database
        self.txn = database.env.child() if txn is None else txn
        self.is_long = txn is not None
        self.log = database.log
        self.compress_above = database.store.compress_above
        self.first_lsn = self.log.last_lsn + 1
        self.version = version
        self.wall_ms = wall_ms
        self.user = user
        self.operation = operation
        self.trace_id = trace_id
        self.mqtt: MqttMessage | None = None  # whose message it carries out
        self.keeps_row = False  # the row of that message is written here
        self.entries: list[LogEntry] = []
        self.index_changes: list[IndexChange] = []
        self.skipped: list[Key] = []  # of writes that were asked for only if there is a record, or none, and that was not so
        self.uncached: set[Index] = (
            set()
        )  # had no cache when `BatchWriter` changed them: a cache that comes before the commit does not know
        self.suspects: Suspects = {}  # records that take a value which another one had
        self.written_bytes = 0  # of the records that `BatchWriter` has stored
        self.references: ReferenceActions | None = None  # what the deletions entail
        self.reference_limit: int | None = None  # of records that these may touch
        self.may_repeat = False  # as a long write, if they touch more
        self._outdated: dict[Index, None] = {}
        self.writes_unlogged = False  # something without an entry of the log: a copy of what a source has, a note
        self.new_files: list[BlobFile] = []  # that records refer to from this transaction on

    @property
    def stamp_ms(self) -> float:
        """What time attributes are set to."""
        return stamp_time(self.version, self.wall_ms)

    def commit(self) -> None:
        """Make it part of the turn; if that is impossible, undo it and raise."""
        if self.log.last_lsn < self.first_lsn and not self.writes_unlogged:
            self.rollback()
            return
        try:
            self.database.env.commit_child(self.txn)
        except BaseException:
            self.log.last_lsn = self.first_lsn - 1
            raise
        self.database.written(self.version, self.entries, self.index_changes)
        if self.new_files:
            self.database.new_files += self.new_files
        if self._outdated:
            self.database.outdated(self._outdated)

    def _write_row(self) -> None:
        """The row of the exchange of a message."""
        message = self.mqtt
        assert message is not None and message.row is not None
        self.txn.put(message.row, b"", True, True, False, self.database.mqtt_rows)
        self.writes_unlogged = True
        message.database = self.database

    def check(self) -> None:
        """What speaks against the writes as a whole, while they can still be rolled back alone: foreign keys, unique values, and the guard of the database.

        Raises StillReferenced, NotUnique, and what the guard raises.
        """
        if self.references is not None or self.suspects:
            run_now(self.check_end())
        guard = self.database.guard
        if guard is not None and self.entries:
            guard(self.txn, {entry.table for entry in self.entries})
        if self.keeps_row:
            self._write_row()

    def read_entries(self) -> None:
        """Take the entries that `BatchWriter` has written to the log, for listeners. In place of all that are in `entries`."""
        self.entries = list(self.log.read(self.txn, self.first_lsn))

    def end_long(self) -> bool:
        """The last thing to write before a long writer is committed; True if that changes what memory knows of the database.

        Raises what the guard of the database has against what was written.
        """
        if self.database.guard is not None:
            self.database.guard(self.txn, None)
        if self.keeps_row:
            self._write_row()
        if self._outdated:
            self.database.outdated(self._outdated, self.txn)
        return bool(self._outdated)

    def rollback(self) -> None:
        self.txn.abort()
        self.log.last_lsn = self.first_lsn - 1
        for file in self.new_files:
            file.unclaim()

    # -- the kinds of write

    def has(self, table: Table, key: bytes, rows: RowGuard | None = None) -> bool:
        """Whether there is a record under this encoded key, as of the writes before, and as `rows` sees it."""
        stored = key if len(key) < MAX_STORED else storage_key(key)
        raw = self.txn.get(stored, None, table.primary)
        return table.is_live(raw, self.wall_ms) and (rows is None or rows.can_see(table, self.txn, stored, _there(raw)))

    def put(
        self,
        table: Table,
        key: bytes,
        record: dict[str, Any],
        precondition: Precondition | None,
        expires_at: float | None = None,
        decide: Decide | None = None,
        rows: RowGuard | None = None,
    ) -> None:
        """Store `record`, which must hold its key, in place of what was there. `rows`: what it has to ask."""
        stored = key if len(key) < MAX_STORED else storage_key(key)
        old_raw = self.txn.get(stored, None, table.primary)
        if table.moves is not None and old_raw is not None:
            old_raw = table.moves.translate(old_raw, self.txn)
        live = table.is_live(old_raw, self.wall_ms)
        if rows is not None and live and precondition is not CREATE:
            rows.check_seen(table, self.txn, stored, _there(old_raw))
        old = None if old_raw is None else decode(old_raw)
        if decide is not None:
            record = decide(record, old if live else None)
        if precondition is not None:
            precondition.check(old_raw if live else None)
        if table.validator.completes:
            record = table.validator.complete(record, is_new=not live)
        if table.stamps:
            table.validator.stamp(record, self.stamp_ms, old if live else None)
        expiry = table.expiry.time_for(record, expires_at, self.wall_ms)
        if rows is not None:
            rows.check_written(table, self.txn, stored, old_raw if live else None, record)
        if table.constraints is not None:
            table.constraints.admit(self, table, stored, old if live else None, record, is_whole=True)
        self.write_record(table, PUT, key, stored, old_raw, old, record, None, expiry)

    def patch(
        self,
        table: Table,
        key: bytes,
        id: Any,
        changes: dict[str, Any],
        precondition: Precondition | None,
        expires_at: float | None = None,
        decide: Decide | None = None,
        rows: RowGuard | None = None,
    ) -> None:
        """Merge `changes` into the stored record at top level. A missing record is made, after full validation."""
        stored = key if len(key) < MAX_STORED else storage_key(key)
        old_raw = self.txn.get(stored, None, table.primary)
        if table.moves is not None and old_raw is not None:
            old_raw = table.moves.translate(old_raw, self.txn)
        live = table.is_live(old_raw, self.wall_ms)
        if rows is not None and live:
            rows.check_seen(table, self.txn, stored, _there(old_raw))
        old = None if old_raw is None else decode(old_raw)
        if decide is not None:
            changes = decide(changes, old if live else None)
        if precondition is not None:
            precondition.check(old_raw if live else None)
        if old is None or not live:
            record = merge({}, changes)
            record[table.primary_key] = id
            record = table.validator.complete(table.validator.record(record, source="native"), is_new=True)
            if table.stamps:
                table.validator.stamp(record, self.stamp_ms, None)
            if rows is not None:
                rows.check_written(table, self.txn, stored, None, record)
            if table.constraints is not None:
                table.constraints.admit(self, table, stored, None, record, is_whole=True)
            logged = record
            if Add in map(type, changes.values()):
                logged = record | log_changes({name: value for name, value in changes.items() if type(value) is Add})
            self.write_record(
                table, PATCH, key, stored, old_raw, old, record, logged, table.expiry.time_for(record, expires_at, self.wall_ms)
            )
            return
        assert old_raw is not None
        if is_partial(old_raw):
            if rows is not None:
                rows.check_written(table, self.txn, stored, old_raw, {**merge(old, changes), table.primary_key: old[table.primary_key]})
            self._patch_partial(table, key, stored, old_raw, old, changes)
            return
        record = merge(old, changes)
        record[table.primary_key] = old[table.primary_key]
        increments = [name for name, value in changes.items() if type(value) is Add]
        if increments:
            table.validator.merged(record, increments)
        if table.stamps:
            table.validator.stamp(record, self.stamp_ms, old)
        if rows is not None:
            rows.check_written(table, self.txn, stored, old_raw, record)
        if table.constraints is not None:
            table.constraints.admit(self, table, stored, old, record, is_whole=False)
        expiry = table.expiry.time_for(record, expires_at, self.wall_ms)
        if expiry is None and not table.expiry.by_attribute:
            expiry = expiry_of(old_raw)  # given with an earlier write: a patch of other attributes keeps it
        logged = log_changes(changes)
        for name in table.stamps:
            if name in record:
                logged[name] = record[name]
        self.write_record(table, PATCH, key, stored, old_raw, old, record, logged, expiry)

    def _patch_partial(self, table: Table, key: bytes, stored: bytes, old_raw: bytes, old: dict[str, Any], changes: dict[str, Any]) -> None:
        """The same where no more than a part of the record is here: it stays one, and the source has the whole."""
        record = table.part_of({**merge(old, changes), table.primary_key: old[table.primary_key]})
        self.write_record(table, PATCH, key, stored, old_raw, old, record, log_changes(changes), PARTIAL, partial=True)

    def rewrite(self, table: Table, stored: bytes, raw: bytes, record: dict[str, Any]) -> None:
        """Store `record`, without an attribute that the table has lost, in place of `raw`. Neither time attributes nor the expiry change."""
        self.write_record(
            table,
            PUT,
            table.encoded_key(stored, record),
            stored,
            raw,
            decode(raw),
            record,
            None,
            expiry_of(raw),
            refreshed=refreshed_of(raw),
            partial=is_partial(raw),
        )

    def delete(
        self, table: Table, key: bytes, precondition: Precondition | None, found: RemovalReason | None = None, rows: RowGuard | None = None
    ) -> bool:
        """Remove a record; False, and nothing is written, if there is none, or none any more that `found` is about. `rows`: what it has to ask; a record that
        may not be seen is none, and of those that were found the ones that may not be deleted are left."""
        stored = key if len(key) < MAX_STORED else storage_key(key)
        raw = table.read(stored, self.txn)
        live = table.is_live(raw, self.wall_ms)
        if rows is not None and live:
            assert raw is not None
            if not rows.can_see(table, self.txn, stored, raw):
                live = False
            elif found is None:
                rows.check_deleted(table, self.txn, stored, raw)
            elif not rows.may_delete(table, self.txn, stored, raw):
                return False
        if precondition is not None:
            precondition.check(raw if live else None)
        if raw is None or not live or (found is not None and lsn_of(raw) > found.lsn and not found.holds(stored, raw)):
            return False
        self.remove_record(table, DELETE, key, stored, raw, decode(raw))
        if self.database.references_to(table):
            if self.references is None:
                self.references = ReferenceActions(self, self.reference_limit, self.may_repeat)
            self.references.deleted(table, key)
        return True

    def follow(self) -> Iterator[None]:
        """What the deletions so far entail for records that name what was deleted, in short steps. To be called after each `delete`."""
        return iter(()) if self.references is None else self.references.steps()

    def check_end(self) -> Iterator[None]:
        """What is known once all is written, in short steps: part of `check` in a turn. Raises StillReferenced, NotUnique."""
        if self.references is not None:
            yield from self.references.check()
        if self.suspects:
            yield from remaining(self)

    def expire(self, table: Table, stored: bytes, before_ms: float | None = None) -> bool:
        """Remove a record whose expiry is before `before_ms`, None: any; False if it is not such a record (any more)."""
        raw = table.read(stored, self.txn)
        if raw is None:
            return False
        if before_ms is not None and ((expiry := expiry_of(raw)) is None or expiry > before_ms):
            return False
        record = decode(raw)
        self.remove_record(table, EXPIRE, table.encoded_key(stored, record), stored, raw, record)
        return True

    def note(self, table: Table, kind: int, key: bytes, payload: bytes | None) -> None:
        """Log something that changes no record: a MESSAGE with this payload, or INVALIDATE. `key` b"": it is about the whole table."""
        lsn = self.log.last_lsn + 1
        previous = self.log.extend_notes(self.txn, table.number, key, lsn)
        self._append(table, kind, key, lsn, previous, None if payload is None else frame(payload, self.version, lsn, None), (), None)

    def note_missing(self, table: Table, key: bytes) -> None:
        """A message of MQTT deletes what is not there: its subscribers are told all the same (spec: mqtt §5). Not while space is kept for deleting."""
        if not self.database.env.reserve.is_low:
            self.note(table, MESSAGE, key, encode_payload(None))

    # -- what they share

    def write_record(
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
        *,
        version: float | None = None,
        refreshed: float | None = None,
        partial: bool = False,
    ) -> None:
        """Store `record` in place of `old`, with its index entries and a log entry, whose value is `patch` if that is given.

        `version`: of a copy of what a source has, which need not be that of the transaction. `refreshed`: of a copy, default now. `partial`: see `records`.
        """
        txn, log = self.txn, self.log
        lsn = log.last_lsn + 1
        if old_raw is None and len(stored) >= KEPT_BYTES:
            self.check_order(table, stored)
        if version is None:
            version = self.version
        if refreshed is None and table.is_caching:
            refreshed = self.wall_ms
        raw = encode(record, version, lsn, expiry, self.compress_above, refreshed, partial=partial)
        txn.put(stored, raw, True, True, False, table.primary)
        if raw[0] & HAS_FILES or (old_raw is not None and old_raw[0] & HAS_FILES):
            self.change_files(table, stored, lsn, old_raw, record)
        if old is None or old_raw is None:
            changed = tuple(record)
            previous = log.resume_chain(txn, table.number, key)
            for index in table.stored_indexes:
                for entry in index_keys(record.get(index.attribute)):
                    txn.put(entry, stored, True, True, False, index.handle)
                    self.index_changes.append((index, entry, stored, True))
            if table.computed_indexes:
                self.reindex_computed(table, stored, None, record, changed)
            if expiry is not None:
                table.expiry.add(txn, stored, expiry)
        else:
            changed = changed_names(old, record)
            previous = lsn_of(old_raw)
            for index in table.stored_indexes:
                name = index.attribute
                if name in changed:
                    self.reindex(index, stored, index_keys(old.get(name)), index_keys(record.get(name)))
            if table.computed_indexes:
                self.reindex_computed(table, stored, old, record, changed)
            table.expiry.change(txn, stored, expiry_of(old_raw), expiry)
        value = raw if patch is None else encode(patch, version, lsn, expiry, self.compress_above, refreshed)
        self._append(table, kind, key, lsn, previous, value, changed, old_raw)

    def check_order(self, table: Table, stored: bytes) -> None:
        check_order(table, self.txn, stored)

    def change_files(self, table: Table, stored: bytes, lsn: int, old_raw: bytes | None, record: dict[str, Any] | None) -> None:
        """Keep the ledger of blob files: what the record refers to now, and what it no longer does."""
        ledger = self.database.ledger
        old = _files_of(decode(old_raw)) if old_raw is not None and old_raw[0] & HAS_FILES else {}
        new = {} if record is None else _files_of(record)
        for number, blob in new.items():
            check_owner(blob, self.database)
            if number not in old:
                ledger.claim(self.txn, number, table.number, stored, is_new=self.is_new_file(blob))
                if blob.file is not None:
                    blob.file.claim()
                    self.new_files.append(blob.file)
        for number in old.keys() - new.keys():
            # Without images, the entry that wrote the old record is the last one that may refer to the file.
            assert old_raw is not None
            ledger.release(self.txn, number, lsn if table.audit else lsn_of(old_raw), self.wall_ms)

    def is_new_file(self, blob: Blob) -> bool:
        """Whether its file was made for this write; else some record has it."""
        return blob.file is not None and not blob.file.is_kept

    def reindex(self, index: Index, stored: bytes, old: Any, new: Any) -> None:
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

    def reindex_computed(
        self, table: Table, stored: bytes, old: dict[str, Any] | None, new: dict[str, Any] | None, changed: tuple[str, ...]
    ) -> None:
        """What `reindex` does, for values that are computed. None: there is no such record."""
        for index in table.computed_indexes:
            computed = index.computed
            assert computed is not None
            if self.can_maintain(table, index) and (old is None or new is None or computed.depends_on(changed)):
                was = () if old is None else index_keys(computed(old))
                self.reindex(index, stored, was, () if new is None else index_keys(computed(new)))

    def can_maintain(self, table: Table, index: Index) -> bool:
        """Whether the index can be kept up to date. If not, it is noted as one to be built from the beginning."""
        if index.has_values:
            return True
        if index not in self._outdated:
            self.leave_out(table, index)
        return False

    def leave_out(self, table: Table, index: Index) -> None:
        """Note that the index is one to be built from the beginning: entries of records will be missing."""
        self._outdated[index] = None
        self.txn.put(build_key(table.number, index.attribute), b"", True, True, False, self.database.definitions)

    def remove_record(self, table: Table, kind: int, key: bytes, stored: bytes, raw: bytes, record: dict[str, Any]) -> None:
        """Remove a record and its index entries, with a log entry of this kind."""
        self.remove_stored(table, stored, raw, record)
        lsn = self.log.last_lsn + 1
        if raw[0] & HAS_FILES:
            self.change_files(table, stored, lsn, raw, None)
        self._append(table, kind, key, lsn, lsn_of(raw), None, (), raw)
        self.log.end_chain(self.txn, table.number, key, lsn)

    def remove_stored(self, table: Table, stored: bytes, raw: bytes, record: dict[str, Any]) -> None:
        """Remove a record, its index entries and its expiry, and say nothing of it."""
        txn = self.txn
        txn.delete(stored, b"", table.primary)
        for index in table.stored_indexes:
            for entry in index_keys(record.get(index.attribute)):
                txn.delete(entry, stored, index.handle)
                self.index_changes.append((index, entry, stored, False))
        if table.computed_indexes:
            self.reindex_computed(table, stored, record, None, ())
        expiry = expiry_of(raw)
        if expiry is not None:
            table.expiry.remove(txn, stored, expiry)

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
            self.first_lsn,
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
            None if kind == EXPIRE else self.trace_id,
            None if self.mqtt is None else self.mqtt.note,
        )
        self.log.append(self.txn, entry)
        self.entries.append(entry)


def check_order(table: Table, txn: Txn, stored: bytes, before: bytes = b"") -> None:
    """Raise KeyConflict if a new key would have no place in the order of keys, because what distinguishes it from another key is not in its stored form
    (`keys.storage_key`). `before`: the last key that will be written before it."""
    beginning = stored[:KEPT_BYTES]
    cursor = txn.cursor(table.primary)
    # Of keys with the same beginning none is hashed, or there is only one.
    others = (before, cursor.key() if cursor.set_range(beginning) else b"")
    if any(other.startswith(beginning) and (is_hashed(stored) or is_hashed(other)) for other in others):
        raise KeyConflict(
            f"{table.name} has another key with the same beginning: keys over {MAX_STORED - 3} bytes must differ in their first {KEPT_BYTES - 1}"
        )


def check_owner(blob: Blob, database: Database) -> None:
    """Raise ClientError if the file of a blob that is about to be referred to is one of another database."""
    if blob.number is not None and (blob.files is None or blob.files.identity != database.blobs.identity):
        raise ClientError("The blob belongs to another database: make a new one of its content", code="VALIDATION")


def _there(raw: bytes | None) -> bytes:
    assert raw is not None
    return raw


def _files_of(record: dict[str, Any]) -> dict[int, Blob]:
    """The blobs of a record that have files, by number."""
    return {blob.number: blob for blob in blobs_in(record) if blob.number is not None}
