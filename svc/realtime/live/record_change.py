"""The change of one record by a commit: the record before and after it."""

from __future__ import annotations

from svc.realtime.changes import record_after
from svc.store import LogEntry, Table
from svc.store.env import Txn
from svc.store.log.entries import DELETE, EXPIRE, INVALIDATE, PATCH, PUT
from svc.store.values.keys import storage_key
from svc.store.values.records import expiry_of, is_copy

WRITES = frozenset((PUT, PATCH, DELETE, EXPIRE, INVALIDATE))  # kinds of entries that may change the result of a query


class RecordChange:
    """`before`, `after`: the record if there was one that had not expired, raw. `stored`, `key`: its key as it is stored, and encoded.

    `ended`: the record before the commit, if it had expired: its `leave` may not have been sent yet. `is_known` False: the record before is unknown.
    """

    __slots__ = ("after", "before", "ended", "is_known", "key", "lsn", "stored")

    def __init__(
        self, stored: bytes, key: bytes, before: bytes | None, after: bytes | None, lsn: int, *, ended: bytes | None, is_known: bool
    ) -> None:
        self.stored = stored
        self.key = key
        self.before = before
        self.after = after
        self.lsn = lsn
        self.ended = ended
        self.is_known = is_known

    @property
    def raws(self) -> list[bytes]:
        """All known states of the record."""
        return [raw for raw in (self.before, self.after, self.ended) if raw is not None]


def needs_snapshot(last: LogEntry) -> bool:
    """Whether the record after this entry has to be read from a snapshot."""
    return last.kind in (PATCH, INVALIDATE) or last.is_merged


def change_of(table: Table, first: LogEntry, last: LogEntry, txn: Txn | None) -> RecordChange:
    """The change from before the entry `first` to after `last`, both of one record. `txn`: a snapshot that has them, if it `needs_snapshot`."""
    before, ended = first.image, None
    if before is not None and first.kind != EXPIRE and _has_expired(before, first.wall_ms):
        before, ended = None, before
    after: bytes | None = None
    if last.is_merged:
        assert txn is not None
        after = record_after(table, last, txn)
    elif last.kind == PUT:
        after = last.value
    elif txn is not None and last.kind == PATCH:
        after = record_after(table, last, txn)
    elif txn is not None and last.kind == INVALIDATE:
        after = table.read(storage_key(last.key), txn)
    if after is not None and _has_expired(after, last.wall_ms):
        after = None
    is_known = first.image is not None or table.audit or not first.previous
    return RecordChange(storage_key(last.key), last.key, before, after, last.lsn, ended=ended, is_known=is_known)


def _has_expired(raw: bytes, at_ms: float) -> bool:
    expiry = None if is_copy(raw) else expiry_of(raw)  # a copy of what a source has is stale then, and stays
    return expiry is not None and expiry <= at_ms
