"""Records as another node has them take the place of those that are here (spec: replication §11).

What a node has not heard of this one's own writes is in our log, behind the LSN up to which it has applied that. These writes are carried out on its record,
by the rules of merging, in the same transaction. So nothing of our own is lost, and nothing that the record has already is added twice.

In the log the record's chain goes on: an entry that says what the record was there before its history (`LogEntry.is_copied`; merging does not look further
back), the history that the other node's log has, with the nodes and versions of its entries, and our own writes again. Own writes among these were sent when
they were made (`is_repeated`).

    local entries ... <- copied: a put of what the first entry of the history has as image      or a removal: its first entry made the record
                                 a patch that says nothing: that is not known                   (left out if there is nothing of the record here)
                      <- the history <- own writes that the other node has not got
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import TYPE_CHECKING

from svc.errors import Problem, ServerError
from svc.store.log.entries import (
    DELETE,
    EXPIRE,
    PATCH,
    PUT,
    REMOVALS,
    CopiedEntry,
    CopiedRemoval,
    LogEntry,
    MergedEntry,
    RepeatedEntry,
    RepeatedMergedEntry,
    decode_entry,
    encode_any,
)
from svc.store.log.replicated_log import ReplicatedLog
from svc.store.values.keys import decode_key, encode_primary, storage_key
from svc.store.values.records import (
    COMPRESSED,
    DAMAGE,
    FORMAT,
    HAS_EXPIRY,
    HAS_FILES,
    IS_COPY,
    IS_MERGED,
    PAYLOAD_AT,
    decode,
    encode,
    encode_payload,
    expiry_of,
    frame,
    is_copy,
    lsn_of,
    payload_at,
    payload_size,
    version_of,
)
from svc.store.writing.record_replay import write_of
from svc.store.writing.remote_blobs import has_files
from svc.store.writing.remote_transaction import MOST_MS, Origin, RemoteEntry, RemoteTransaction
from svc.store.writing.remote_write import MOST_BYTES, ReadWrite, RemoteWriteSet, key_value

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.env import Txn
    from svc.store.table import Table

_WRITES = frozenset((PUT, PATCH, DELETE))
_KINDS = _WRITES | {EXPIRE}
_RECORD_FLAGS = FORMAT | HAS_EXPIRY | COMPRESSED | IS_MERGED
_MAX_NAME = 255
_NOTHING_SAID = encode_payload({})
_TEXTS = frozenset((str,))
_FLUSHED = 100  # entries of the log that are written together


class BadCopy(ServerError):
    """What is copied is not what a node of this version has."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 500, "REPLICATION")


class CopiedRecord:
    """A record of another node. `stored`: its stored key. `raw`: None: there is none any more. `history`: oldest first. `base`: a copied entry before
    that, if the other node has the record from a copy."""

    __slots__ = ("base", "history", "key", "raw", "record", "stored")

    def __init__(self, table: Table, stored: bytes | None, raw: bytes | None, rows: list[bytes]) -> None:
        """`raw` b"": it is what the last row says. Raises BadCopy."""
        try:
            history = [decode_entry(0, data) for data in rows]
            if raw == b"":
                raw = history[-1].value
                if raw is None:
                    raise ValueError("no record")
            for entry in history:
                _check_entry(entry)
            self.record = None if raw is None else decode(_checked(raw))
            check_names(self.record or ())
            if raw is not None and bool(raw[0] & HAS_FILES) != has_files(self.record):
                raise ValueError("no blobs in files")
            self.key = history[-1].key if self.record is None else encode_primary(self.record[table.primary_key])
            self.stored = storage_key(self.key)
            if any(entry.key != self.key for entry in history) or (stored is not None and stored != self.stored):
                raise ValueError("another key")
            base: LogEntry | None = None
            for place in range(len(history) - 1, -1, -1):
                if history[place].is_copied:
                    base, history = history[place], history[place + 1 :]
                    break
            if raw is None:
                last = history[-1] if history else base
                if last is None or last.kind not in REMOVALS or last.is_merged:
                    raise ValueError("not a removal")
            elif any(entry.version > version_of(raw) for entry in history):
                raise ValueError("an older version")
        except (*DAMAGE, Problem, AttributeError, KeyError) as error:
            raise BadCopy(f"A record of {table.name} that is copied cannot be read") from error
        said = [each for entry in history for each in (entry.value, entry.image)] + ([] if base is None else [base.value])
        if (raw is not None and raw[0] & HAS_FILES) or any(each and each[0] & HAS_FILES for each in said):
            base, history = None, []  # files of what was before are not copied
        self.raw = raw
        self.base = base
        self.history = history


def _check_entry(entry: LogEntry) -> None:
    if entry.kind not in _KINDS or not 0 < len(entry.node.encode()) <= _MAX_NAME or not -MOST_MS < entry.wall_ms < MOST_MS:
        raise ValueError("not a write of a record")
    if not (0 < entry.version < MOST_MS or (entry.is_copied and isfinite(entry.version))) or (entry.value is None) != (
        entry.kind in REMOVALS
    ):
        raise ValueError("not a write")
    if entry.value is not None:
        check_names(write_of(entry).data or ())
        if entry.value[0] & IS_COPY:
            raise ValueError("a copy of what a source has")
    if entry.image is not None:
        check_names(decode(entry.image))


def check_names(names: Iterable[object]) -> None:
    """Raises ValueError for properties that no record has."""
    if not _TEXTS.issuperset(map(type, names)):
        raise ValueError("not names")


def _checked(raw: bytes) -> bytes:
    if raw[0] & ~(_RECORD_FLAGS | HAS_FILES) or payload_size(raw) > MOST_BYTES:
        raise ValueError("not a record")
    expiry = expiry_of(raw)
    if not 0 < version_of(raw) < MOST_MS or not (expiry is None or isfinite(expiry)):
        raise ValueError("not a record")
    return raw


class CopyWriteSet(RemoteWriteSet):
    """`source`: the node that is copied. `copied_ms`: when. `known`: LSN up to which it has applied our log, in which our own writes are looked for. `keeps`:
    it does not have all that our log has lost already: then what is only here stays."""

    __slots__ = ("_copied", "_known", "copied_ms", "keeps", "source")

    def __init__(self, database: Database, source: str, known: int, *, keeps: bool, wall_ms: float, txn: Txn | None = None) -> None:
        super().__init__(database, txn)
        self.copied_ms = wall_ms
        self.keeps = keeps
        self.source = source
        self._known = known
        self._copied: LogEntry | None = None  # what is logged next, its places in the log aside

    def replace(self, table: Table, copied: CopiedRecord) -> None:
        """Put a record in the place of what is here, and what this node has written meanwhile on top of it."""
        stored, key, raw, history = copied.stored, copied.key, copied.raw, copied.history
        local = table.read(stored, self.txn)
        if local is not None:
            if local[0] & IS_COPY:
                return
            newest = lsn_of(local)
        else:
            newest, _ = self.log.chain_ends(self.txn, table.number, key, None)
        if newest >= self._start or len(self._logged) >= _FLUSHED:
            self._flush()
        if raw is not None and same_payload(raw, local) and self._has_same_history(copied, newest):
            return
        self._chains.pop((table.number, key), None)
        own = self._own_writes(table, key, local, newest)
        self._log_next(copied, has_chain=bool(newest))
        before = self.log.last_lsn
        if copied.record is not None and raw is not None:
            if raw[0] & HAS_FILES:
                self.blobs.take(self.txn, self.source, table.number, stored, copied.record)
            old = None if local is None else decode(local)
            self.write_record(table, PUT, key, stored, local, old, copied.record, None, expiry_of(raw), version=version_of(raw))
        elif local is not None:
            self.remove_record(table, DELETE, key, stored, local, decode(local))
        elif self._copied is not None:
            self._append(table, DELETE, key, before + 1, newest, None, (), None)
        self._add_history(table, key, history, before, is_there=raw is not None)
        if raw is not None:
            self._finish(table, stored, is_merged=bool(raw[0] & IS_MERGED))
        elif self.log.last_lsn > before:
            self.log.end_chain(self.txn, table.number, key, self.log.last_lsn)
        for write in own:
            self._carry_out(table, write)

    def remove(self, table: Table, stored: bytes) -> None:
        """The other node has no such record."""
        raw = table.read(stored, self.txn)
        if raw is None or is_copy(raw):
            return
        key = table.encoded_key(stored, decode(raw))
        newest = lsn_of(raw)
        if newest >= self._start or len(self._logged) >= _FLUSHED:
            self._flush()
        self._chains.pop((table.number, key), None)
        own = self._own_writes(table, key, raw, newest)
        self._copied = self._boundary(CopiedRemoval, DELETE, None)
        self.remove_record(table, DELETE, key, stored, raw, decode(raw))
        for write in own:
            self._carry_out(table, write)

    # -- records that are new here

    def log_new(self, table: Table, copied: CopiedRecord) -> bytes:
        """Log a record that is not here, nor any history of it. Returns it as it is to be stored."""
        given, record = copied.raw, copied.record
        assert given is not None and record is not None
        self._log_next(copied, has_chain=False)
        before = self.log.last_lsn
        raw = encode(record, version_of(given), before + 1, expiry_of(given), self.compress_above)
        self._append(table, PUT, copied.key, before + 1, 0, raw, tuple(record), None)
        self._add_history(table, copied.key, copied.history, before, is_there=True)
        return _placed(raw, self.log.last_lsn, is_merged=bool(given[0] & IS_MERGED))

    def log_copied(self, entry: bytes, version: float) -> None:
        """Take the next entry of the log."""
        self._logged.append(entry)
        self.log.last_lsn += 1
        log = self.log
        assert isinstance(log, ReplicatedLog)
        log.saw(version)

    def write_log(self) -> None:
        """Write the entries so far, if they are many."""
        if len(self._logged) >= _FLUSHED:
            self._flush()

    # -- what is logged

    def _boundary(self, made: type[LogEntry], kind: int, value: bytes | None, version: float = 0.0) -> LogEntry:
        return made(0, 0, self.copied_ms, version, "", 0, b"", kind, None, self.source, 0, value, (), None)

    def _log_next(self, copied: CopiedRecord, *, has_chain: bool) -> None:
        """Take what comes before the history; the first entry of that if nothing has to."""
        raw, history, base = copied.raw, copied.history, copied.base
        self._copied = None
        if base is not None:
            if has_chain or raw is not None or base.kind != DELETE:
                made = CopiedRemoval if raw is None and not history else CopiedEntry
                self._copied = self._boundary(made, base.kind, base.value, base.version)
        elif not history:
            if raw is not None:
                self._copied = self._boundary(CopiedEntry, PUT, None if raw[0] & HAS_FILES else raw, version_of(raw))
            elif has_chain:
                self._copied = self._boundary(CopiedRemoval, DELETE, None)
        elif history[0].image is not None:
            self._copied = self._boundary(CopiedEntry, PUT, history[0].image, version_of(history[0].image))
        elif history[0].previous:
            version = history[0].version
            self._copied = self._boundary(CopiedEntry, PATCH, frame(_NOTHING_SAID, version, 0, None), version)
        elif has_chain:
            self._copied = self._boundary(CopiedEntry, DELETE, None)
        elif raw is not None:
            self._copied = history.pop(0)

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
        copied, self._copied = self._copied, None
        if copied is None:
            super()._append(table, kind, key, lsn, previous, value, changed, image)
            return
        made = type(copied)
        entry_value = copied.value
        if not copied.is_copied:
            is_record = copied.kind == PUT and not copied.is_merged and copied.value is not None and same_payload(copied.value, value)
            if is_record:
                entry_value = value
            made = _type_of(copied, self.database.node, is_merged=not is_record)
        elif copied.kind == PUT and (copied.value is None or same_payload(copied.value, value)):
            entry_value = value
        self._add(table, key, copied, made, lsn, previous, entry_value, changed, image)

    def _add_history(self, table: Table, key: bytes, history: list[LogEntry], before: int, *, is_there: bool) -> None:
        """Each is an entry that does not say what it changed: that says the first one, behind the LSN `before`."""
        previous = self.log.last_lsn if self.log.last_lsn > before else 0
        for entry in history:
            is_last_removal = entry is history[-1] and not is_there
            lsn = self.log.last_lsn + 1
            made = _type_of(entry, self.database.node, is_merged=not is_last_removal)
            self._add(table, key, entry, made, lsn, previous, entry.value, (), entry.image)
            previous = lsn

    def _add(
        self,
        table: Table,
        key: bytes,
        said: LogEntry,
        made: type[LogEntry],
        lsn: int,
        previous: int,
        value: bytes | None,
        changed: tuple[str, ...],
        image: bytes | None,
    ) -> None:
        entry = made(
            lsn,
            lsn,
            said.wall_ms,
            said.version,
            table.name,
            table.number,
            key,
            said.kind,
            said.user,
            said.node,
            previous,
            value,
            changed,
            image if table.audit else None,
            said.operation,
            said.trace_id,
            None,
        )
        self._logged.append(encode_any(entry))
        log = self.log
        log.last_lsn = lsn
        assert isinstance(log, ReplicatedLog)
        log.saw(said.version)
        self.entries.append(entry)

    def _finish(self, table: Table, stored: bytes, *, is_merged: bool) -> None:
        """The record has the LSN of the last entry of its history, and says whether writes were merged into it."""
        raw = self.txn.get(stored, None, table.primary)
        assert raw is not None
        placed = _placed(raw, self.log.last_lsn, is_merged=is_merged)
        if placed is not raw:
            self.txn.put(stored, placed, True, True, False, table.primary)

    # -- own writes

    def _own_writes(self, table: Table, key: bytes, local: bytes | None, newest: int) -> list[LogEntry]:
        """Those of the record that the other node has not got, oldest first."""
        found: list[LogEntry] = []
        node, log, lsn = self.database.node, self.log, newest
        base = local  # before all that the log tells
        while lsn > self._known:
            entry = log.get(self.txn, lsn)
            if entry is None:
                if base is None and local is not None:  # there are no images
                    found.clear()
                    base = local
                break
            base = entry.image
            is_own = entry.node == node and entry.kind in _WRITES and not entry.is_repeated and not entry.is_copied
            if is_own and not (entry.value is not None and entry.value[0] & IS_COPY):
                found.append(entry)
            lsn = entry.previous
        else:
            base = None
        if self.keeps and base is not None:  # what our log does not tell is a put, as it were
            version = version_of(base)
            found.append(LogEntry(0, 0, version, version, table.name, table.number, key, PUT, None, node, 0, base, (), None))
        found.reverse()
        return found

    def _carry_out(self, table: Table, entry: LogEntry) -> None:
        write = write_of(entry)
        value = entry.value
        payload, flags = (None, 0) if value is None else (value[payload_at(value) :], value[0] & (COMPRESSED | HAS_FILES))
        remote = RemoteEntry(entry.kind, table.name, entry.key, value, entry.changed, entry.mqtt)
        transaction = RemoteTransaction(1, 1, entry.version, entry.wall_ms, entry.user, entry.operation, entry.trace_id, [remote])
        self.begin(Origin(self.database.node, b""), transaction)
        self.apply(ReadWrite(remote, table, key_value(table, decode_key(entry.key)), write, payload, flags))

    def _has_same_history(self, copied: CopiedRecord, newest: int) -> bool:
        """Whether the same writes have made the record here, as far as both logs tell. Equal records may be made of different ones: of increments."""
        found: set[tuple[float, str]] = set()
        lsn = newest
        while lsn and len(found) <= len(copied.history):
            entry = self.log.get(self.txn, lsn)
            if entry is None or entry.is_copied:
                break
            found.add((entry.version, entry.node))
            lsn = entry.previous
        return found == {(entry.version, entry.node) for entry in copied.history}


def _placed(raw: bytes, lsn: int, *, is_merged: bool) -> bytes:
    """A record with this LSN, which says whether writes were merged into it."""
    flags = raw[0] | IS_MERGED if is_merged else raw[0]
    if lsn == lsn_of(raw) and flags == raw[0]:
        return raw
    return b"".join((bytes((flags,)), raw[1:9], lsn.to_bytes(8), raw[PAYLOAD_AT:]))


def same_payload(one: bytes, other: bytes | None) -> bool:
    """The same record, but for its place in the log."""
    return other is not None and one[:9] == other[:9] and one[PAYLOAD_AT:] == other[PAYLOAD_AT:]


def _type_of(entry: LogEntry, node: str, *, is_merged: bool) -> type[LogEntry]:
    if entry.node == node:
        return RepeatedMergedEntry if is_merged else RepeatedEntry
    return MergedEntry if is_merged else LogEntry
