"""Deleting the records that were made before a time (spec: operations §4, `delete_records_before`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from svc.store.env import Txn
from svc.store.indexes.index import Entry
from svc.store.slices import SLICE
from svc.store.values.keys import encode_key, kind_range
from svc.store.values.records import projection, to_ms
from svc.store.writing.transaction import Transaction
from svc.store.writing.write_set import RemovalReason, RowGuard

if TYPE_CHECKING:
    from svc.store.table import Table

BATCH = 1000  # records deleted together
SHARED_BATCH = 250  # the same where another process may write, which waits until they are
LOW_BATCH = 10  # the same on a full volume: the log gets their images


async def remove_records_before(
    table: Table,
    attribute: str,
    before_ms: float,
    user: str | None,
    on_batch: Callable[[int, int], Awaitable[None]],
    rows: RowGuard | None = None,
) -> tuple[int, int]:
    """Delete the records whose `attribute`, a time, is before `before_ms`, in batches; returns (deleted, found).

    `on_batch` hears of both. `rows`: what rules on rows say of the deletion: what may not be seen or deleted is not found.
    A record that is replaced meanwhile is judged by what it is when it would be deleted.
    Raises the Problem that ends it; the batches before are deleted.
    """
    store = table.database.store
    env = table.database.env
    search = _Search(table, attribute, before_ms)
    deleted = found = 0
    while not search.done:
        await store.slices.take()
        transaction = Transaction(store, user)
        snapshot = table.database.snapshot()
        why = RemovalReason(table.database.log.newest_lsn(snapshot), search.is_old)
        most = LOW_BATCH if env.reserve.is_low else SHARED_BATCH if env.has_siblings() else BATCH
        for stored, raw in search.batch(snapshot, most):
            if rows is not None and not (rows.can_see(table, snapshot, stored, raw) and rows.may_delete(table, snapshot, stored, raw)):
                continue
            transaction.delete_stored(table, stored, raw, why, rows)
            found += 1
        if transaction.has_writes:
            await transaction.apply_long()
            deleted += transaction.deleted
            await on_batch(deleted, found)
    return deleted, found


class _Search:
    """Goes through the records of that age, by the index of the attribute if it has one, else through all of them."""

    def __init__(self, table: Table, attribute: str, before_ms: float) -> None:
        self._table = table
        self._before_ms = before_ms
        self._attribute = attribute
        self._value_of = projection((attribute,), default=None)
        self._behind: bytes | None = None  # stored key
        self._behind_entry: Entry | None = None
        self.done = False

    def batch(self, txn: Txn, most: int) -> Iterator[tuple[bytes, bytes]]:
        """Up to `most` more (stored key, raw), as far as one slice gets."""
        now = self._table.database.clock.monotonic
        end = now() + SLICE
        index = self._table.indexes.get(self._attribute)
        count = 0
        for stored, raw in self._by_index(txn) if index is not None and index.ready and self._behind is None else self._by_key(txn):
            if raw is not None and self.is_old(stored, raw):
                yield stored, raw
                count += 1
            if count >= most or now() >= end:
                return
        self.done = True

    def _by_index(self, txn: Txn) -> Iterator[tuple[bytes, bytes | None]]:
        index = self._table.indexes[self._attribute]
        low, high = kind_range(0)[0], encode_key(self._before_ms)
        for entry in index.scan(txn, low, high, behind=self._behind_entry):
            self._behind_entry = entry
            yield entry[1], self._table.get_by(entry[1], txn)

    def _by_key(self, txn: Txn) -> Iterator[tuple[bytes, bytes | None]]:
        for stored, raw in self._table.scan(txn, behind=self._behind):
            self._behind = stored
            yield stored, raw

    def is_old(self, stored: bytes, raw: bytes) -> bool:
        """Whether a record (stored key, raw) is one of them."""
        value = self._value_of(raw)[0]
        if isinstance(value, datetime):
            value = to_ms(value)
        return isinstance(value, int | float) and not isinstance(value, bool) and value < self._before_ms
