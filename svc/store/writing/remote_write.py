"""The writes of transactions of another node, while they are applied (spec: replication).

A `RemoteWriteSet` is the `WriteSet` of one transaction, or of several, one after the other, that share a child transaction and the turn's commit. What
comes was checked, stamped and completed where it was written, and what it entails there comes as entries of its own: so there are no preconditions here, no
validation, no constraints, no sources. It is merged (`merge_rules`, `record_replay`), and it is logged with the version, the node and the time of its origin,
also if it does not change the record, unless it is void for good. LSNs are ours.

What is sent may be anything. `read_transaction` refuses what no node of this version writes; from there on everything that is done can be done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import msgspec

from svc.errors import Problem, ServerError
from svc.store.blobs import blobs_in
from svc.store.caching.copies import invalidate
from svc.store.log.entries import (
    DELETE,
    EXPIRE,
    INVALIDATE,
    MESSAGE,
    NOTES,
    PATCH,
    PUT,
    LogEntry,
    MergedEntry,
    RepeatedEntry,
    RepeatedMergedEntry,
    encode_any,
)
from svc.store.log.replicated_log import ReplicatedLog
from svc.store.values.keys import MAX_STORED, decode_key, encode_primary, storage_key
from svc.store.values.records import (
    COMPRESSED,
    DAMAGE,
    HAS_FILES,
    IS_MERGED,
    decode,
    encode_payload,
    expiry_of,
    frame,
    from_ms,
    is_partial,
    lsn_of,
    payload_at,
    payload_size,
    raw_payload,
    refreshed_of,
    version_of,
)
from svc.store.values.validation import Add
from svc.store.writing.constraints import find_rival, values_of
from svc.store.writing.merge_rules import logged_changes
from svc.store.writing.record_replay import Chains, RecordState, VersionedWrite, add_late, carry_out, entry_added, replay, state_of
from svc.store.writing.remote_blobs import RemoteBlobs, has_files
from svc.store.writing.write_set import WriteSet
from svc.trace_context import TRACE_ID_BYTES

if TYPE_CHECKING:
    from svc.store.blobs import Blob
    from svc.store.database import Database
    from svc.store.env import Txn
    from svc.store.table import Table
    from svc.store.writing.remote_transaction import Origin, RemoteEntry, RemoteTransaction

MOST_BYTES = 1 << 28  # of a value, when it is not compressed any more
MOST_CONFLICTS = 100  # values of two records that are reported one by one
_KINDS = frozenset((PUT, PATCH, DELETE, MESSAGE, INVALIDATE))
_MAX_NAME = 255  # bytes of the name of a node or a table in the log
_MAX_USER = 65535
_LOGGED = 100  # entries that are written to the log together
_NAMES = frozenset((str,))
_FOREIGN: tuple[type[LogEntry], type[LogEntry]] = (LogEntry, MergedEntry)
_OWN: tuple[type[LogEntry], type[LogEntry]] = (RepeatedEntry, RepeatedMergedEntry)  # it was sent when it was made


class RefusedTransaction(ServerError):
    """A transaction of another node cannot be applied: it is not what a node of this version sends, or needs what is not here. Nothing of it is applied."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 500, "REPLICATION")


class MissingTables(RefusedTransaction):
    """It writes to tables that do not exist here: they are to be made from the definition that has come with it."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(sorted(names))
        super().__init__(f"There is no table {', '.join(self.names)}")


class UniqueConflict(msgspec.Struct, frozen=True):
    """Two nodes have accepted the same value of a unique attribute: both records stay. `key`, `other`: encoded keys as they are stored."""

    table: str
    attribute: str
    key: bytes
    other: bytes


class MergeFigures(msgspec.Struct):
    """What became of writes: all of them, those that were older than what was known, of these the void ones; values that are not unique any more."""

    writes: int = 0
    late: int = 0
    void: int = 0
    conflicts: int = 0
    found: list[UniqueConflict] = []


class ReadWrite(msgspec.Struct, gc=False):
    """An entry that was looked at. `key`: the value of the primary key; None of a put, which has it in its record. `write`: None of a note. `payload`: of its
    value, compressed if `flags` say so."""

    entry: RemoteEntry
    table: Table
    key: Any
    write: VersionedWrite | None
    payload: bytes | None
    flags: int
    with_files: dict[str, Any] | None = None  # the value, if there are blobs in files in it; those in `write` are the same objects


def read_entries(database: Database, origin: Origin, transaction: RemoteTransaction, entries: Sequence[RemoteEntry]) -> list[ReadWrite]:
    """What some entries of a transaction that was checked write. Raises RefusedTransaction."""
    try:
        tables = database.tables
        return [_read(tables[entry.table], origin.node, transaction, entry) for entry in entries]
    except (*DAMAGE, Problem, AttributeError, KeyError) as error:
        if isinstance(error, RefusedTransaction):
            raise
        raise _unreadable(origin, transaction) from error


def check_transaction(database: Database, origin: Origin, transaction: RemoteTransaction) -> None:
    """Raise RefusedTransaction if its head is none that a node sends; MissingTables."""
    try:
        _check_head(origin, transaction)
        missing = {entry.table for entry in transaction.entries} - database.tables.keys()
        if missing:
            raise MissingTables(missing)
    except (*DAMAGE, AttributeError) as error:
        raise _unreadable(origin, transaction) from error


def _unreadable(origin: Origin, transaction: RemoteTransaction) -> RefusedTransaction:
    return RefusedTransaction(f"Transaction {transaction.lsn!r} of {origin.node} cannot be read")


def _check_head(origin: Origin, transaction: RemoteTransaction) -> None:
    version, wall_ms, trace = transaction.version, transaction.wall_ms, transaction.trace_id
    is_right = (
        0 < transaction.lsn <= transaction.last_lsn < 1 << 64
        and type(version) is float is type(wall_ms)
        and 0 < version < inf
        and 0 < wall_ms < inf
        and (trace is None or len(trace) == TRACE_ID_BYTES)
        and 0 <= transaction.operation <= 255
        and len((transaction.user or "").encode()) <= _MAX_USER
        and 0 < len(origin.node.encode()) <= _MAX_NAME
    )
    if not is_right:
        raise RefusedTransaction(f"Transaction {transaction.lsn!r} of {origin.node} has a head that none can have")


def _read(table: Table, node: str, transaction: RemoteTransaction, entry: RemoteEntry) -> ReadWrite:
    kind, value = entry.kind, entry.value
    if kind not in _KINDS:
        raise RefusedTransaction(f"Transaction {transaction.lsn} of {node} has an entry of kind {kind}, which this version cannot apply")
    if (value is None) != (kind in (DELETE, INVALIDATE)):
        raise ValueError("a value is missing, or one too many")
    key: Any = None
    if kind != PUT and (entry.key or kind not in NOTES):  # that of a put is compared with what the record has
        key = decode_key(entry.key)
        if encode_primary(key) != entry.key:
            raise ValueError("not a key")
        key = key_value(table, key)
    payload, flags = None, 0
    with_files: dict[str, Any] | None = None
    data: dict[str, Any] | None = None
    expiry: float | None = None
    if value is not None:
        if payload_size(value) > MOST_BYTES:
            raise ValueError("too large")
        if kind == MESSAGE:
            if value[0] & HAS_FILES:
                raise ValueError("a message with a blob")
            payload = raw_payload(value)
        else:
            payload, flags = value[payload_at(value) :], value[0] & COMPRESSED
        expiry = expiry_of(value)
        if expiry is not None and not isfinite(expiry):
            raise ValueError("not a time")
        if kind != MESSAGE:
            data = decoded = decode(value)
            if not _NAMES.issuperset(map(type, decoded)):
                raise ValueError("not names")
            if value[0] & HAS_FILES:
                if not has_files(decoded):
                    raise ValueError("no blobs in files")
                with_files = decoded
            if kind == PATCH:
                data = logged_changes(data)
                if any(type(each) is Add and type(each.value) not in (int, float) for each in data.values()):
                    raise ValueError("not an increment")
            elif encode_primary(data[table.primary_key]) != entry.key:
                raise ValueError("another key")
    write = None
    if kind not in NOTES:
        write = VersionedWrite(transaction.version, node, transaction.wall_ms, kind, data, expiry)
    return ReadWrite(entry, table, key, write, payload, flags, with_files)


def key_value(table: Table, key: Any) -> Any:
    """What a record has as its primary key, of a decoded key."""
    attribute = table.attributes.get(table.primary_key)
    if attribute is not None and attribute.type == "Date" and type(key) is int:
        return from_ms(key)
    return list(key) if isinstance(key, tuple) else key


class RemoteWriteSet(WriteSet):
    """`begin` each transaction, `apply` its entries, then `end` once. `figures`: what became of them. `chains`: of records, as the writes before have left
    them; it is void if this is undone."""

    __slots__ = ("_chains", "_is_heard", "_is_merged", "_logged", "_read", "_start", "_types", "blobs", "figures", "node")

    def __init__(self, database: Database, txn: Txn | None = None, chains: Chains | None = None) -> None:
        super().__init__(database, 0.0, 0.0, None, txn=txn)
        self.node = ""
        self._start = self.first_lsn
        self._logged: list[bytes] = []  # entries that are yet to be written
        self._read: ReadWrite | None = None  # what is being applied
        self._is_heard = self._is_merged = False
        self._types = _FOREIGN
        self._chains: Chains = {} if chains is None else chains
        self.blobs = RemoteBlobs(database)
        self.figures = MergeFigures(found=[])

    def begin(self, origin: Origin, transaction: RemoteTransaction, *, is_heard: bool = False) -> None:
        """`is_heard`: its messages have come before."""
        self.version = transaction.version
        self.wall_ms = transaction.wall_ms
        self.user = transaction.user
        self.operation = transaction.operation
        self.trace_id = transaction.trace_id
        self.first_lsn = self.log.last_lsn + 1
        self.node = origin.node
        self._is_heard = is_heard
        self._types = _OWN if origin.node == self.database.node else _FOREIGN

    def apply(self, read: ReadWrite) -> None:
        """Carry out one entry."""
        self._read = read
        write = read.write
        if write is None:
            self._note(read)
            return
        figures = self.figures
        figures.writes += 1
        table, key = read.table, read.entry.key
        stored = key if len(key) < MAX_STORED else storage_key(key)
        if read.with_files is not None:
            self.blobs.take(self.txn, self.node, table.number, stored, read.with_files)
            read.payload, read.flags = encode_payload(read.with_files), HAS_FILES
        raw = table.read(stored, self.txn)
        newest, base = (0, None) if raw is not None else self._removed(table, key)
        self._is_merged = is_late = is_known = False
        if raw is not None:
            base = raw
        if base is None or write.version > version_of(base):
            is_void = newest and base is None and not self._is_newer(newest, write)  # a newer write has deleted the record
            state = None if is_void else self._plain(table, read.key, raw, base, write)
        else:
            self._flush()
            is_known, state = (False, None) if raw is None else add_late(table, self.txn, raw, key, write, self._chains)
            if not is_known:
                id = key_value(table, decode_key(key)) if read.key is None else read.key
                state = replay(table, self.txn, raw, newest if raw is None else lsn_of(raw), id, write)
            self._is_merged = state is not None and state.record is not None  # else it is the newest, a deletion
            figures.late += 1
            is_late = True
        if state is None:
            figures.void += 1
            return
        self._store(table, key, stored, raw, write, state)
        if read.with_files is not None:
            self._keep_files(table, stored, read.with_files)
        if is_known and raw is not None:
            entry_added(table, key, lsn_of(raw), self.log.last_lsn, self._chains)
        if is_late and state.record is not None and (self.entries[-1].changed or (raw is not None and raw[0] & IS_MERGED)):
            self._mark_merged(table, stored)

    def _plain(self, table: Table, key: object, raw: bytes | None, base: bytes | None, write: VersionedWrite) -> RecordState:
        """The newest write of its record. `base`: the record before it, which may have expired, or be removed for that: then `raw` is None."""
        if write.kind != PATCH:
            return RecordState(write.data, write.expiry, write.version)
        assert write.data is not None
        if base is not None:
            expiry = expiry_of(base)
            # The patch may have made the record where it was written. One that is here, or is here no more, says more than the entry does.
            self._is_merged = table.primary_key in write.data or raw is None or (expiry is not None and expiry <= write.wall_ms)
        return carry_out(table, key, state_of(base), write)

    def _removed(self, table: Table, key: bytes) -> tuple[int, bytes | None]:
        """(end of the chain of a record that is not there, the record that was removed because it had expired)."""
        newest, _ = self.log.chain_ends(self.txn, table.number, key, None)
        if newest >= self._start:
            self._flush()
        entry = self.log.get(self.txn, newest) if newest else None
        return newest, entry.image if entry is not None and entry.kind == EXPIRE else None

    def _is_newer(self, newest: int, write: VersionedWrite) -> bool:
        """Whether it is newer than what removed the record."""
        entry = self.log.get(self.txn, newest)
        if entry is None or entry.kind == EXPIRE:
            return True
        self.figures.late += (is_late := (write.version, write.node) < (entry.version, entry.node))
        return not is_late

    def _store(self, table: Table, key: bytes, stored: bytes, raw: bytes | None, write: VersionedWrite, state: RecordState) -> None:
        old = None if raw is None else decode(raw)
        record = state.record
        if record is not None:
            partial = raw is not None and is_partial(raw) and write.kind == PATCH
            expiry = state.expiry
            if partial:
                assert raw is not None
                record, expiry = table.part_of(record), expiry_of(raw)
            self.write_record(table, write.kind, key, stored, raw, old, record, None, expiry, version=state.version, partial=partial)
            if table.constraints is not None:
                self._find_conflicts(table, stored, record)
        elif raw is not None:
            assert old is not None
            self.remove_record(table, DELETE, key, stored, raw, old)
        else:  # what was deleted is not known here, but may come yet
            lsn = self.log.last_lsn + 1
            self._append(table, DELETE, key, lsn, self.log.resume_chain(self.txn, table.number, key), None, (), None)
            self.log.end_chain(self.txn, table.number, key, lsn)

    def _keep_files(self, table: Table, stored: bytes, value: dict[str, Any]) -> None:
        """Files that the entry refers to, and the record does not, as a newer write has replaced them: they stay for as long as the log has the entry."""
        ledger = self.database.ledger
        for blob in blobs_in(value):
            if blob.number is None:
                continue
            owner = ledger.owner(self.txn, blob.number)
            if owner is None or owner[1]:
                ledger.claim(self.txn, blob.number, table.number, stored, is_new=owner is None)
                ledger.release(self.txn, blob.number, self.log.last_lsn, self.wall_ms)

    def check_order(self, table: Table, stored: bytes) -> None:
        """Nodes have accepted the keys: what has no order has some."""

    def is_new_file(self, blob: Blob) -> bool:
        return blob.number in self.blobs.new

    def _mark_merged(self, table: Table, stored: bytes) -> None:
        """The record has other content than it had with the same version: its entity tag has to say so."""
        raw = self.txn.get(stored, None, table.primary)
        assert raw is not None
        self.txn.put(stored, bytes((raw[0] | IS_MERGED,)) + raw[1:], True, True, False, table.primary)

    def _note(self, read: ReadWrite) -> None:
        table, entry = read.table, read.entry
        if entry.kind == MESSAGE and self._is_heard:
            return
        if entry.kind == INVALIDATE and table.is_caching and entry.key:
            stored = storage_key(entry.key)
            raw = table.read(stored, self.txn)
            if raw is not None and version_of(raw) <= self.version:
                invalidate(self, table, entry.key)
                return
        self.note(table, entry.kind, entry.key, read.payload)

    def _find_conflicts(self, table: Table, stored: bytes, record: dict[str, Any]) -> None:
        """Note which of its values that are to be unique another record has."""
        assert table.constraints is not None
        figures = self.figures
        for index in table.constraints.unique:
            for entry, value in values_of(index, record):
                try:
                    rival, _ = find_rival(self.txn, table, index, entry, value, stored, self.wall_ms)
                except Problem:  # too many would have to be compared
                    continue
                if rival is not None:
                    figures.conflicts += 1
                    if len(figures.found) < MOST_CONFLICTS:
                        figures.found.append(UniqueConflict(table.name, index.attribute, stored, rival))

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
        read = self._read
        assert read is not None
        if read.write is None or (kind == PUT and not self._is_merged):
            pass  # of a put it is the record
        elif read.payload is not None:
            # What the write says, not what has become of the record.
            refreshed = None if read.entry.value is None else refreshed_of(read.entry.value)
            value = frame(read.payload, self.version, lsn, read.write.expiry, read.flags, refreshed)
        else:
            value = None
        make = self._types[self._is_merged and read.write is not None]
        entry = make(
            lsn,
            self.first_lsn,
            self.wall_ms,
            self.version,
            table.name,
            table.number,
            key,
            read.entry.kind,
            self.user,
            self.node,
            previous,
            value,
            changed,
            image if table.audit else None,
            self.operation,
            self.trace_id,
            read.entry.mqtt,
        )
        self.log_encoded(encode_any(entry))
        self.entries.append(entry)

    def log_encoded(self, data: bytes) -> None:
        """An entry of the log, which gets the next LSN."""
        self._logged.append(data)
        self.log.last_lsn += 1
        if len(self._logged) >= _LOGGED:
            self._flush()

    def _flush(self) -> None:
        """Write the log entries so far: the chain of a record is about to be read."""
        if self._logged:
            logged, self._logged = self._logged, []
            last = self.log.last_lsn
            log = self.log
            assert isinstance(log, ReplicatedLog)
            log.last_lsn = last - len(logged)
            log.append_foreign(self.txn, logged)

    def end(self) -> None:
        """Write what is left. Raises what prevents it."""
        self._flush()
        self.blobs.write(self.txn)
        self.first_lsn = self._start

    def rollback(self) -> None:
        self.first_lsn = self._start
        super().rollback()
