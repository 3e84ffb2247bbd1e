"""The writes of copies: a record that the source has, has confirmed, or has no more; one that is evicted or invalidated here (spec: caching §4).

A copy has the version that its source gives it, so its log entry, whose version is that of the transaction, and its header differ in that. Confirming
and evicting change no content: they have no log entry, so subscribers and other nodes hear nothing of them.

What a source says is worth less than what was written after it was asked: `FetchedAnswer.since` is the LSN of the newest log entry at that time, and a later
change, removal or invalidation of the record makes the answer void. It is neither stored nor an error.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import msgspec

from svc.store.expiry_index import PARTIAL
from svc.store.log.entries import DELETE, INVALIDATE, PUT
from svc.store.values.comparison import changed_names
from svc.store.values.keys import MAX_STORED, storage_key
from svc.store.values.records import HAS_FILES, decode, encode, expiry_of, frame, is_copy, is_partial, lsn_of, raw_payload, version_of

if TYPE_CHECKING:
    from svc.store.table import Table
    from svc.store.writing.write_set import WriteSet


class State(IntEnum):
    """What a source says of a record."""

    NEW = 0  # this is what it is
    UNCHANGED = 1  # it is what it was
    MISSING = 2  # there is none


class FetchedAnswer(msgspec.Struct, gc=False, frozen=True):
    """The answer of a source. `since`: see above. `version`: of a NEW record. `refreshed`: when the source was asked, ms; None: now."""

    state: State
    since: int
    version: float = 0.0
    refreshed: float | None = None


def write_fetched(
    writes: WriteSet, table: Table, key: bytes, record: dict[str, Any] | None, fetched: FetchedAnswer, expires_at: float | None
) -> None:
    """Store what a source has said of the record under this encoded key, unless that is void. `record`: if it is NEW, validated and with its key."""
    stored = key if len(key) < MAX_STORED else storage_key(key)
    raw = table.read(stored, writes.txn)
    if _is_void(writes, table, key, raw, fetched.since):
        return
    if fetched.state is State.MISSING:
        if raw is not None:
            writes.remove_record(table, DELETE, key, stored, raw, decode(raw))
    elif fetched.state is State.UNCHANGED:
        if raw is not None and not is_partial(raw):
            _refresh(writes, table, stored, raw, fetched, expires_at)
    else:
        assert record is not None
        old = None if raw is None else decode(raw)
        if (
            old is not None
            and raw is not None
            and not is_partial(raw)
            and version_of(raw) == fetched.version
            and not changed_names(old, record)
        ):
            _refresh(writes, table, stored, raw, fetched, expires_at, record)
            return
        expiry = table.expiry.time_for(record, expires_at, writes.wall_ms)
        writes.write_record(
            table, PUT, key, stored, raw, old, record, None, expiry, version=fetched.version, refreshed=fetched.refreshed or writes.wall_ms
        )


def _is_void(writes: WriteSet, table: Table, key: bytes, raw: bytes | None, since: int) -> bool:
    changed, noted = writes.log.chain_ends(writes.txn, table.number, key, None if raw is None else lsn_of(raw))
    if changed > since:
        return True
    if noted > since:
        for note in writes.log.read_notes(writes.txn, table.number, key):
            if note.lsn <= since:
                break
            if note.kind == INVALIDATE:
                return True
    return False


def _refresh(
    writes: WriteSet,
    table: Table,
    stored: bytes,
    raw: bytes,
    fetched: FetchedAnswer,
    expires_at: float | None,
    record: dict[str, Any] | None = None,
) -> None:
    """Give a record that has not changed its new expiry."""
    expiry = table.expiry.time_for(decode(raw) if record is None else record, expires_at, writes.wall_ms)
    refreshed = fetched.refreshed or writes.wall_ms
    payload = raw_payload(raw)
    if raw[0] & HAS_FILES or len(payload) <= writes.compress_above:
        made = frame(payload, version_of(raw), lsn_of(raw), expiry, raw[0] & HAS_FILES, refreshed)
    else:
        made = encode(decode(raw), version_of(raw), lsn_of(raw), expiry, writes.compress_above, refreshed)
    writes.txn.put(stored, made, True, True, False, table.primary)
    table.expiry.change(writes.txn, stored, expiry_of(raw), expiry)
    writes.writes_unlogged = True


def evict(writes: WriteSet, table: Table, stored: bytes, before_ms: float, may_go: Callable[[bytes], bool]) -> bool:
    """Discard the content of a copy whose expiry is not after `before_ms`; False if it is not such a copy (any more), or `may_go` of its stored key says no.

    What its index entries are made of stays, or without indexes nothing.
    """
    raw = table.read(stored, writes.txn)
    expiry = None if raw is None else expiry_of(raw)
    if raw is None or expiry is None or expiry > before_ms or is_partial(raw) or not may_go(stored):
        return False
    _discard(writes, table, stored, raw)
    return True


def invalidate(writes: WriteSet, table: Table, key: bytes) -> None:
    """Discard the content of the record under this encoded key, if there is one, and log that."""
    stored = key if len(key) < MAX_STORED else storage_key(key)
    raw = table.read(stored, writes.txn)
    if raw is not None and not is_partial(raw):
        _discard(writes, table, stored, raw)
    writes.note(table, INVALIDATE, key, None)


def _discard(writes: WriteSet, table: Table, stored: bytes, raw: bytes) -> None:
    txn, record, lsn = writes.txn, decode(raw), lsn_of(raw)
    entry = None if table.index_list else writes.log.get(txn, lsn)
    # A record from before the table had a source is known to the log as one that is removed by an entry only: its key stays.
    if table.index_list or (entry is not None and (entry.value is None or not is_copy(entry.value))):
        part = table.part_of(record)
        made = encode(part, version_of(raw), lsn, PARTIAL, refreshed=writes.wall_ms, partial=True)
        txn.put(stored, made, True, True, False, table.primary)
        if table.computed_indexes:
            writes.reindex_computed(table, stored, record, part, tuple(record.keys() - part.keys()))
        table.expiry.change(txn, stored, expiry_of(raw), PARTIAL)
    else:
        part = None
        writes.remove_stored(table, stored, raw, record)
        if entry is not None:  # else its history is over
            writes.log.end_chain(txn, table.number, table.encoded_key(stored, record), lsn)
    if raw[0] & HAS_FILES:
        writes.change_files(table, stored, lsn, raw, part)
    writes.writes_unlogged = True
