"""Bulk load: many records with one commit a batch.

A batch is one transaction: its records share a version, and it is stored as a whole or not at all. What makes it fast is order. Records,
index entries and history entries of the batch are each sorted and written through one cursor, so that LMDB finds most places next to the
one before; log entries are appended.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from svc.errors import ValidationError
from svc.store.blobs import Unsaved, blobs_in, save_now
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.log.entries import PUT
from svc.store.values.keys import MAX_STORED, encode_primary, storage_key
from svc.store.writing.batch_write import BatchItem, BatchWriter
from svc.store.writing.write_set import WriteSet

if TYPE_CHECKING:
    from svc.store.table import Table

BATCH = 4096  # records; holds the loop for about 40 ms: whoever serves at the same time gives a smaller one
LARGEST_BATCH = 1 << 16  # records
LARGEST_BATCH_BYTES = 64 << 20  # of records: the pages that one transaction may change are limited, and all of them are in memory


def load(
    table: Table,
    records: Iterable[dict[str, Any]],
    *,
    batch: int | None = None,
    progress: Callable[[int], None] | None = None,
    validate: bool = True,
    user: str | None = None,
) -> Iterator[int]:
    """Store `records`, in place of those with the same keys; yields the number stored so far after each batch's commit.

    A record without a key gets one. Of several records with one key in a batch the last one counts, and it has one log entry.
    `batch`: records in one; by default as many as suit the table, see `next_size`.
    Each batch is a turn of its own: the shared snapshots end with it. `validate`: check and complete the records as native values;
    otherwise the caller has done it. The records belong to the load.
    Raises the Problem that undid a batch; batches before it stay.
    """
    pending = iter(records)
    done = 0
    size = batch or BATCH
    while chunk := list(islice(pending, size)):
        with _without_collector():
            larger = _load_batch(table, chunk, done, validate, user)
        if batch is None:
            size = larger
        done += len(chunk)
        if progress is not None:
            progress(done)
        yield done


@contextmanager
def _without_collector() -> Iterator[None]:
    """No garbage collection: a batch makes many objects and no cycles, and looking for some would take a fifth of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _load_batch(table: Table, chunk: list[dict[str, Any]], done: int, validate: bool, user: str | None) -> int:
    """Store and commit one batch; returns how large the next one may be."""
    store = table.database.store
    items = _prepare(table, chunk, done, validate)
    store.open_writers((table.database,))
    table.database.require_space()
    writes = WriteSet(table.database, store.next_version(), store.clock.wall() * 1000, user)
    try:
        for _ in BatchWriter(writes, table, ReplaceRules()).steps(sorted(items), items):
            pass
        if store.has_listeners(table.database):
            writes.read_entries()
    except LmdbError as error:
        writes.rollback()
        raise store_problem(error, table.database.env.path) from error
    except BaseException:
        writes.rollback()
        raise
    size = next_size(table.entry_count(writes.txn), writes.written_bytes // (len(items) or 1))
    writes.commit()
    store.flush_or_raise(table.database)
    store.end_turn()
    return size


def next_size(records: int, average: int) -> int:
    """Records of the next batch, an eighth of the table's. `average`: bytes of a record.

    Values of records that arrive in any order lie all over an index. A batch that is small against the table changes one page of each index for
    each record; a large one finds several of its records on each page. At 500,000 records, 65,536 at a time load twice as fast as 4,096.
    """
    return max(BATCH // 16, min(max(BATCH, records // 8), LARGEST_BATCH, LARGEST_BATCH_BYTES // (average + 1)))


class ReplaceRules:
    """What is loaded replaces what is there (`batch_write.BatchRules`)."""

    kind = PUT

    def new(self, item: BatchItem) -> tuple[dict[str, Any], None]:
        return item.data, None

    def over(self, item: BatchItem, old: dict[str, Any], is_live: bool) -> tuple[dict[str, Any], None]:
        return item.data, None


def _prepare(table: Table, chunk: list[dict[str, Any]], done: int, validate: bool) -> dict[bytes, BatchItem]:
    """By stored key."""
    primary_key, check = table.primary_key, table.validator.record
    if table.definition.dynamic:
        table.database.learn_attributes(table, {name: None for record in chunk for name in record})
    prepared: dict[bytes, BatchItem] = {}
    files = table.database.blobs
    for number, record in enumerate(chunk, done + 1):
        if validate:
            try:
                record = check(record, source="native")
            except ValidationError as error:
                raise ValidationError(tuple(f"Record {number}: {failure}" for failure in error.errors))
        key = record.get(primary_key)
        if key is None:
            record[primary_key] = key = table.new_key()
        encoded = encode_primary(key)
        stored = encoded if len(encoded) < MAX_STORED else storage_key(encoded)
        if Unsaved.alive:
            for blob in blobs_in(record):
                save_now(blob, files)
        prepared[stored] = BatchItem(stored, encoded, record, number)
    return prepared
