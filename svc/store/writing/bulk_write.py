"""Millions of records into a table that is being served: batch after batch, each a transaction of its own.

    records --prepare--> batch --LongWrite--> committed --> counted, reported to the caller
                           ^ the next one is prepared while this one is written and committed

A batch is a long write (`long_write`): in slices of a few milliseconds with readers served in between, committed on a helper thread, and in the
queue with all other writers of the database, which are admitted between two batches. Where other processes write too, or writers of this one wait, it ends
early when it has had its share of time and somebody waits: what is left of it is another write. Within one the records are written in the order of their
keys (`batch_write`).

Records that cannot be written are counted and left out; they hinder no other. What becomes of a record depends on the mode:

    mode      there is such a record      there is none
    insert    skipped                     made
    update    merged into it              skipped
    upsert    merged into it              made, if it is complete
    delete    removed                     skipped

"There is" means: as of the commit of the batch, and of the records before this one. Of several records of a batch with one key each counts by
itself, in their order, but the log has one entry for all of them.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from svc.errors import NotFound, Overloaded, ServerError, ValidationError
from svc.store.blobs import UnsavedContent, blobs_in, save, save_now
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.log.entries import OPERATIONS, PUT
from svc.store.slices import run_now
from svc.store.values.keys import MAX_STORED, encode_primary, storage_key
from svc.store.writing.batch_write import BatchItem, BatchWriter
from svc.store.writing.bulk_batch import BulkBatch, BulkResult, Mode, Record, RefusedRecord
from svc.store.writing.deferred_indexes import FEW, WORTHWHILE, DeferredIndexes
from svc.store.writing.long_write import LongWrite
from svc.store.writing.write_set import Decide, RowGuard, WriteSet

if TYPE_CHECKING:
    from svc.store.table import Table


logger = logging.getLogger("svc.store")

BATCH = 4096  # records; blocks the loop for about 40 ms: pass a smaller one while requests are served
LARGEST_BATCH = 1 << 16  # records
LARGEST_BATCH_BYTES = 64 << 20  # of records: the pages that one transaction may change are limited, and all of them are in memory
LARGEST = 16_384  # records of a batch: other writers wait until it is committed
LARGEST_BYTES = 16 << 20  # of their texts: two batches are in memory at a time
TRIES = 20  # to get a batch written while the database is overloaded, or its table is being changed
TRY_AGAIN_AFTER = 0.5  # seconds
_WEIGHED = 32  # records of a list that are looked at
_LIST = 256  # records that are taken at once from where they come one by one


OnBatch = Callable[[BulkResult], Awaitable[None]]


async def bulk_write(
    table: Table,
    records: AsyncIterable[list[Record | RefusedRecord]] | Iterable[Record | RefusedRecord],
    *,
    mode: Mode,
    user: str | None = None,
    on_batch: OnBatch | None = None,
    source: str = "json",
    largest: int = LARGEST,
    decide: Decide | None = None,
    rows: RowGuard | None = None,
    trace_id: bytes | None = None,
) -> BulkResult:
    """Write records to `table`; they belong to it from now on. `records`: one by one, or asynchronously in lists of any length.

    `source`: where their values come from, "json" or "native" (`Validator`). `on_batch`: awaited after each commit; what it raises ends the
    whole. `largest`: records of a batch. `decide`: of changes that are merged, see `write_set.Decide`. `rows`: what rules on rows
    say. `trace_id`: for the log. A delete takes records too, and looks at nothing but their keys.

    Raises the Problem that hinders all further records: no space, a table that was dropped. Batches before it stay, as they do when the caller
    is cancelled; a batch under way is then there as a whole or not at all.
    """
    return await _BulkWriter(table, mode, user, on_batch, source, largest, _Checks(decide, rows), trace_id).run(records)


class _Checks(NamedTuple):
    """What is asked of each record, see `bulk_write`."""

    decide: Decide | None
    rows: RowGuard | None


class _BulkWriter:
    def __init__(
        self,
        table: Table,
        mode: Mode,
        user: str | None,
        on_batch: OnBatch | None,
        source: str,
        largest: int,
        checks: _Checks,
        trace_id: bytes | None,
    ) -> None:
        self._table = table
        self._checks = checks
        self._database = table.database
        self._store = table.database.store
        self._slices = self._store.slices
        self._mode = mode
        self._user = user
        self._trace_id = trace_id
        self._on_batch = on_batch
        self._source = source
        self._largest = largest
        self._size = min(BATCH, largest)
        self._made_wait = False  # whether writers of this process waited for the last one
        self.result = BulkResult()
        self._deferred: DeferredIndexes | None = None
        self._may_defer = mode in ("insert", "upsert") and self._record_count() <= FEW

    async def run(self, records: AsyncIterable[list[Record | RefusedRecord]] | Iterable[Record | RefusedRecord]) -> BulkResult:
        try:
            try:
                await self._write_all(records)
            except Exception:
                await self._build_indexes()
                raise
            await self._build_indexes()
        finally:
            if self._deferred is not None:
                self._deferred.close()
        return self.result

    async def _write_all(self, records: AsyncIterable[list[Record | RefusedRecord]] | Iterable[Record | RefusedRecord]) -> None:
        writing: asyncio.Task[None] | None = None
        try:
            async with aclosing(self._batches(_lists(records))) as batches:
                async for batch in batches:
                    if writing is not None:
                        await writing
                    writing = asyncio.create_task(self._write(batch))
            if writing is not None:
                await writing
        except Exception:
            # The batches before are committed and reported, so that the caller knows how much is stored.
            if writing is not None:
                await asyncio.gather(writing, return_exceptions=True)
            raise
        except BaseException:
            if writing is not None:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
            raise

    async def _batches(self, lists: AsyncGenerator[list[Record | RefusedRecord]]) -> AsyncGenerator[BulkBatch]:
        """Prepared ones."""
        batch = self._new_batch()
        number, weight = 1, 0
        async with aclosing(lists):
            async for records in lists:
                start = 0
                while start < len(records):
                    part = records[start : start + max(self._size - batch.records, 1)]
                    await self._slices.exhaust(batch.add(part, number))
                    number += len(part)
                    start += len(part)
                    weight += _weight(part)
                    if batch.records >= self._size or weight >= LARGEST_BYTES:
                        await self._slices.exhaust(batch.sort())
                        yield batch
                        batch, weight = self._new_batch(), 0
        if batch.records:
            await self._slices.exhaust(batch.sort())
            yield batch

    def _new_batch(self) -> BulkBatch:
        return BulkBatch(self._table, self._mode, self._source, self._checks.decide, self._checks.rows)

    async def _write(self, batch: BulkBatch) -> None:
        for blob in batch.unsaved:
            await save(blob, self._database.blobs, self._store.helper)
        is_written = False
        while not is_written:
            batch = await self._write_part(batch)
            batch.count(self.result)
            if batch.deferred is not None:
                batch.deferred.keep()
            is_written = batch.is_written
            if is_written:
                records = self._record_count()
                self._defer_indexes(records)
                self._size = min(next_size(records, batch.written_bytes // (batch.written or 1)), self._largest)
                batch.discard(self._slices)
            else:
                batch.advance(self._slices)
            if self._on_batch is not None:
                await self._on_batch(self.result)

    async def _write_part(self, batch: BulkBatch) -> BulkBatch:
        """Write what is left of a batch, or the first of it. Returns it, or what has taken its place."""
        batch.defer = self._deferred
        for tries_left in reversed(range(TRIES)):
            if not self._is_there:
                raise NotFound(f"Table '{self._database.name}.{self._table.name}' does not exist")
            if batch.definition is not self._table.definition and not self._table.definition.dynamic:
                batch = await self._slices.result(batch.again())
                batch.defer = self._deferred
            if batch.names:
                self._database.learn_attributes(self._table, batch.names)
                batch.names = {}
            try:
                tables = {self._table: batch.definition}
                write = LongWrite(self._store, batch, tables, self._user, self._operation, self._trace_id)
                batch.is_over = write.is_over if self._made_wait or self._database.env.has_siblings() else None
                await write.run()
                self._made_wait = write.made_wait
                await asyncio.sleep(0)  # in which those run that are admitted now
                return batch
            except Overloaded:
                if not tries_left:
                    raise
                await asyncio.sleep(TRY_AGAIN_AFTER)
            except ServerError:
                if not tries_left or (self._is_there and batch.definition is self._table.definition):
                    raise
        raise AssertionError("the last try raises")

    def _defer_indexes(self, records: int) -> None:
        """From here on leave indexes out, if the load is large, and all but a few of the table's `records` are its own."""
        if not self._may_defer or self.result.written < WORTHWHILE:
            return
        self._may_defer = False  # it is decided once
        if records > self.result.written + FEW:
            return
        try:
            self._deferred = DeferredIndexes(self._table)
        except OSError as error:
            logger.warning("indexes of %s are maintained during a load: %s", self._table.name, error)

    async def _build_indexes(self) -> None:
        if self._deferred is not None and self._is_there:
            await self._deferred.build(self._user)

    def _record_count(self) -> int:
        return self._table.entry_count(self._database.snapshot())

    @property
    def _is_there(self) -> bool:
        return self._database.tables.get(self._table.name) is self._table

    @property
    def _operation(self) -> int:
        return OPERATIONS.index(self._mode) if self._mode in OPERATIONS else 0


def _weight(records: list[Record | RefusedRecord]) -> int:
    """Characters and bytes of the values of records, judged by some of them; large records come in short lists."""
    step = max(len(records) // _WEIGHED, 1)
    return step * sum(
        len(value)
        for record in records[::step]
        if type(record) is dict
        for value in record.values()
        if type(value) is str or type(value) is bytes
    )


async def _lists(
    records: AsyncIterable[list[Record | RefusedRecord]] | Iterable[Record | RefusedRecord],
) -> AsyncGenerator[list[Record | RefusedRecord]]:
    if isinstance(records, AsyncIterable):
        async for some in records:
            yield some
    else:
        remaining = iter(records)
        while some := list(islice(remaining, _LIST)):
            yield some


# --- loading, while nothing else is served ---


def load_records(
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
        run_now(BatchWriter(writes, table, ReplaceRules(table)).steps(sorted(items), items))
        if table.database.watchers or store.has_listeners(table.database):
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

    def __init__(self, table: Table) -> None:
        self._complete = table.validator.complete

    def new(self, item: BatchItem) -> tuple[dict[str, Any], None]:
        return self._complete(item.data, is_new=True), None

    def over(self, item: BatchItem, old: dict[str, Any], is_live: bool) -> tuple[dict[str, Any], None]:
        return self._complete(item.data, is_new=not is_live), None


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
        if UnsavedContent.alive:
            for blob in blobs_in(record):
                save_now(blob, files)
        prepared[stored] = BatchItem(stored, encoded, record, number)
    return prepared
