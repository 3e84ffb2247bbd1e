"""One batch of a bulk write: its records checked and sorted, what becomes of each, and what is counted (`bulk_write`)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from svc.errors import ClientError, NotFound, RowNotAllowed, ValidationError
from svc.store.blobs import Blob, BlobDescription, UnsavedContent, blobs_in, descriptions_in
from svc.store.log.entries import PATCH, PUT
from svc.store.values.keys import MAX_STORED, Key, encode_primary, storage_key
from svc.store.values.records import encode
from svc.store.values.validation import Add
from svc.store.writing.batch_write import BatchItem, BatchWriter
from svc.store.writing.deferred_indexes import DeferredBatch, DeferredIndexes
from svc.store.writing.index_runs import merge_runs
from svc.store.writing.merge_rules import log_changes, merge
from svc.store.writing.write_set import Decide, RowGuard, WriteSet

if TYPE_CHECKING:
    from svc.store.slices import Slices
    from svc.store.table import Table


MAX_ERRORS = 100  # that a result lists
_PREPARED = 64  # records that are prepared in one step
CHUNK = 256  # records after which a batch can end early; to write their index entries each time costs a tenth more
_RUN = 1000  # records that are sorted at once
_MOST_PROPERTIES = 2000  # of a record whose faulty attribute is looked for
Mode = Literal["insert", "update", "upsert", "delete"]
Record = dict[str, Any]


class RefusedRecord(msgspec.Struct, gc=False):
    """In place of a record: one that could not even be read. It is counted as failed. `key`, `attribute`: as of a `Failure`."""

    message: str
    key: Any = None
    attribute: str | None = None


class Failure(msgspec.Struct, gc=False):
    """A record that was not written. `number`: its own, from 1. `key`: as it was sent, or assigned. `attribute`: the first at fault. None: not known."""

    number: int
    message: str
    key: Any = None
    attribute: str | None = None
    code: str = "VALIDATION"


@dataclass(slots=True)
class BulkResult:
    """What has been committed so far. `errors`: of the first failed records, in their order."""

    written: int = 0
    skipped: int = 0
    failed: int = 0
    errors: list[Failure] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.written + self.skipped + self.failed

    def _add(self, written: int, skipped: int, failures: list[Failure]) -> None:
        self.written += written
        self.skipped += skipped
        self.failed += len(failures)
        failures.sort(key=attrgetter("number"))
        self.errors += failures[: MAX_ERRORS - len(self.errors)]


class BulkBatch:
    """The records of one batch, as `long_write.Work`, and what becomes of them, as `batch_write.BatchRules`.

    `is_over`: asked after each CHUNK of them whether to end there, and to leave the rest to another write; None: it is written as a whole.
    """

    def __init__(self, table: Table, mode: Mode, source: str, decide: Decide | None, rows: RowGuard | None = None) -> None:
        self.table = table
        self.rows = rows
        self.decide = decide
        self.definition = table.definition
        self.database = table.database
        self.mode = mode
        self.source = source
        self.adds = mode != "delete"
        self.kind = PUT if mode == "insert" else PATCH
        self.records = 0  # taken, the failed ones included
        self.unsaved: list[Blob] = []
        self.names: dict[str, None] = {}  # of attributes that a dynamic table does not have
        self.written_bytes = 0
        self.written = 0
        self.defer: DeferredIndexes | None = None  # indexes that are left out
        self.deferred: DeferredBatch | None = None  # by the last attempt to write it
        self.is_over: Callable[[], bool] | None = None
        self._taken = self._numbered = 0  # by that attempt: of `_order`, and of `_keyless`
        self._shapes: set[tuple[str, ...]] = set()  # of records whose names are known
        self._items: dict[bytes, BatchItem] = {}  # by stored key
        self._later: dict[bytes, list[tuple[int, Record]]] = {}  # further records with the same key
        self._keyless: list[BatchItem] = []  # that get a number of the table's sequence
        self._order: list[bytes] | None = None  # stored keys, sorted
        self._admit: Callable[[bytes, Record | None, Record], None] | None = None
        self._write_set: WriteSet | None = None
        self._skipped = self._skipped_early = 0
        self._failures: list[Failure] = []
        self._failures_early: list[Failure] = []  # found before anything was written

    # -- preparing

    def add(self, records: list[Record | RefusedRecord], number: int) -> Iterator[None]:
        """Take records, the first of which has this number. In short steps."""
        # What inserts of complete records need is written out: they are many, and a call of `_add` costs each a tenth.
        is_plain = self.mode == "insert" and not self.definition.dynamic
        table, items, source = self.table, self._items, self.source
        check, primary_key, has_sequence = table.validator.record, table.primary_key, table.has_sequence
        for start in range(0, len(records), _PREPARED):
            for place, record in enumerate(records[start : start + _PREPARED], number + start):
                try:
                    if is_plain and type(record) is dict and not UnsavedContent.alive:
                        record = check(record, source=source)
                        if BlobDescription.alive:
                            _refuse_descriptions(record)
                        key = record.get(primary_key)
                        if key is None:
                            if has_sequence:
                                self._keyless.append(BatchItem(b"", b"", record, place))
                                continue
                            record[primary_key] = key = table.new_key()
                        encoded = encode_primary(key)
                        if len(encoded) < MAX_STORED and encoded not in items:
                            items[encoded] = BatchItem(encoded, encoded, record, place)
                            continue
                    self._add(record, place)
                except ClientError as error:
                    self._failures_early.append(self._failure(place, error, record))
            yield
        self.records += len(records)

    def _add(self, record: Record | RefusedRecord, number: int) -> None:
        table, mode, source = self.table, self.mode, self.source
        if type(record) is RefusedRecord:
            raise ClientError(record.message)
        assert type(record) is dict
        if mode == "insert":
            record = table.validator.record(record, source=source)
            if BlobDescription.alive:
                _refuse_descriptions(record)
        elif mode == "delete":
            pass
        else:
            record = table.validator.changes(record, source=source)
        if self.definition.dynamic and mode != "delete":
            shape = tuple(record)
            if shape not in self._shapes:
                self._shapes.add(shape)
                self.names.update((name, None) for name in shape if name not in table.attributes)
        key = record.get(table.primary_key)
        if key is None:
            if mode == "update" or mode == "delete":
                raise ClientError(f"a valid hash attribute must be provided with {mode} record, check log for more info")
            if table.has_sequence:
                self._keyless.append(BatchItem(b"", b"", record, number))
                return
            record[table.primary_key] = key = table.new_key()
        encoded = encode_primary(key)
        if UnsavedContent.alive and mode != "delete":
            self.unsaved += [blob for blob in blobs_in(record) if blob.unsaved is not None]
        stored = encoded if len(encoded) < MAX_STORED else storage_key(encoded)
        if stored not in self._items:
            self._items[stored] = BatchItem(stored, encoded, record, number)
        elif mode == "insert":
            self._skipped_early += 1
        else:
            self._later.setdefault(stored, []).append((number, record))

    def sort(self) -> Generator[None]:
        """The last step of preparing, in short ones."""
        keys = iter(self._items)
        runs = []
        while run := sorted(islice(keys, _RUN)):
            runs.append(run)
            yield
        self._order = yield from merge_runs(runs)
        self.size = len(self._order) + len(self._keyless)

    def again(self) -> Generator[None, None, BulkBatch]:
        """The same records checked once more, because the table's definition has changed. In short steps."""
        batch = BulkBatch(self.table, self.mode, "native", self.decide, self.rows)
        batch.records = self.records
        batch._skipped_early = self._skipped_early
        batch._failures_early = self._failures_early
        for number, record in self._all():
            try:
                batch._add(record, number)
            except ClientError as error:
                batch._failures_early.append(batch._failure(number, error, record))
            yield
        yield from batch.sort()
        return batch

    def _all(self) -> Iterator[tuple[int, Record]]:
        for item in chain(self._items.values(), self._keyless):
            yield item.number, item.data
        for later in self._later.values():
            yield from later

    # -- writing: `long_write.Work`

    def steps(self, write_set: WriteSet) -> Iterator[None]:
        self.written = 0
        self._skipped = self._skipped_early
        self._failures = self._failures_early.copy()
        self._taken = self._numbered = 0
        self.size = len(self._sorted) + len(self._keyless)
        if self.mode == "delete":
            yield from self._delete(write_set)
        else:
            yield from self._put(write_set)
        self.size = self._taken + self._numbered

    def _put(self, write_set: WriteSet) -> Iterator[None]:
        self.deferred = None if self.defer is None else DeferredBatch(self.defer, write_set)
        writer = BatchWriter(write_set, self.table, self, self.deferred, asks=True)
        self._admit = writer.admit if self.table.constraints is not None or self.rows is not None else None
        self._write_set = write_set
        yield from writer.begin()
        while not self.is_written:
            order, items = yield from self._next(write_set)
            yield from writer.write(order, items)
            if self.is_over is not None and self.is_over():
                break
        yield from writer.end()
        self.written_bytes = write_set.written_bytes

    @property
    def is_written(self) -> bool:
        """Whether nothing of it is left, once the last attempt is committed."""
        return self._taken == len(self._sorted) and self._numbered == len(self._keyless)

    @property
    def _sorted(self) -> list[bytes]:
        assert self._order is not None
        return self._order

    def _delete(self, write_set: WriteSet) -> Iterator[None]:
        for stored in self._sorted:
            removed = False
            try:
                removed = write_set.delete(self.table, self._items[stored].key, None, rows=self.rows)
            except RowNotAllowed as error:
                item = self._items[stored]
                self._failures.append(self._failure(item.number, error, item.data, item))
                self._skipped -= 1
            self.written += removed
            self._skipped += (not removed) + len(self._later.get(stored, ()))
            self._taken += 1
            yield
            yield from write_set.follow()
            if self.is_over is not None and not self._taken % CHUNK and self.is_over():
                break
        yield from write_set.check_end()

    def _next(self, write_set: WriteSet) -> Generator[None, None, tuple[list[bytes], dict[bytes, BatchItem]]]:
        """(stored keys, items): those to be written next. If it may end early, the ones that get a number come behind the others: each is to be used."""
        order, items, keyless = self._sorted, self._items, self._keyless
        if self.is_over is None:
            self._taken, self._numbered = len(order), len(keyless)
            if not keyless:
                return order, items
            numbered = yield from self._number(write_set, keyless)
            yield
            return sorted([*order, *numbered]), items | numbered
        if self._taken < len(order):
            some = order[self._taken : self._taken + CHUNK]
            self._taken += len(some)
            return some, items
        numbered = yield from self._number(write_set, keyless[self._numbered : self._numbered + CHUNK])
        self._numbered += len(numbered)
        return sorted(numbered), numbered

    def advance(self, slices: Slices) -> None:
        """What the last attempt has written is committed, and counted: what is left of the batch is the rest."""
        order = self._sorted
        written, self._order = order[: self._taken], order[self._taken :]
        slices.discard([self._items.pop(stored) for stored in written] + self._keyless[: self._numbered])
        for stored in written if self._later else ():
            self._later.pop(stored, None)
        del self._keyless[: self._numbered]
        self._taken = self._numbered = self._skipped_early = 0
        self._failures_early = []
        self.size = len(self._order) + len(self._keyless)

    def _number(self, write_set: WriteSet, keyless: list[BatchItem]) -> Generator[None, None, dict[bytes, BatchItem]]:
        """Records without a key, under new ones that none of the others has."""
        table = self.table
        found: dict[bytes, BatchItem] = {}
        keys: Iterator[Key] = iter(())
        for item in keyless:
            encoded = b""
            while not encoded or encoded in self._items:
                key = next(keys, None)
                if key is None:
                    keys = table.new_keys_in(write_set.txn, len(keyless) - len(found))
                    continue
                encoded = encode_primary(key)
            item.data[table.primary_key] = key
            found[encoded] = BatchItem(encoded, encoded, item.data, item.number)
            if not len(found) % _PREPARED:
                yield
        return found

    def forget(self, slices: Slices) -> None:
        """Not yet: it may be written once more. See `discard`."""

    def discard(self, slices: Slices) -> None:
        """Free the records."""
        slices.discard([*self._items.values(), *self._keyless])
        self._items, self._keyless, self._order = {}, [], []

    def count(self, result: BulkResult) -> None:
        """What was committed."""
        result._add(self.written, self._skipped, self._failures)

    # -- writing: `batch_write.BatchRules`

    def new(self, item: BatchItem) -> tuple[Record, Record | None] | None:
        if self.mode == "insert":
            record = self.table.validator.complete(item.data, is_new=True)
            if not self._is_admitted(item, item.number, None, record):
                return None
            self.written += 1
            return record, None
        return self._applied(item, None)

    def over(self, item: BatchItem, old: Record, is_live: bool) -> tuple[Record, Record | None] | None:
        if self.mode == "insert":
            if is_live:
                self._skipped += 1
                return None
            return self.new(item)
        return self._applied(item, old if is_live else None)

    def _applied(self, item: BatchItem, old: Record | None) -> tuple[Record, Record | None] | None:
        """The record after all that is asked for its key, and what of it is new; None if nothing is done."""
        later = self._later.get(item.stored)
        given = ((item.number, item.data),) if later is None else ((item.number, item.data), *later)
        if old is not None and not self._is_seen(item.stored, old):
            if self.mode != "update":
                self._failures += [self._failure(number, NotFound(), changes, item) for number, changes in given]
                return None
            old = None  # not there for the caller
        record = old
        logged: Record = {}
        for number, changes in given:
            try:
                if record is not None:
                    if self.decide is not None:
                        changes = self.decide(changes, record)
                    if BlobDescription.alive:
                        _refuse_descriptions(changes)
                    made = self._merged(record, changes)
                elif self.mode == "upsert":
                    if BlobDescription.alive:
                        _refuse_descriptions(changes)
                    made = self._made(changes, item)
                else:
                    self._skipped += 1
                    continue
            except ValidationError as error:
                self._failures.append(self._failure(number, error, changes, item))
                continue
            if not self._is_admitted(item, number, record, made):
                continue
            record = made
            self.written += 1
            _note(logged, changes)
        if record is None or record is old:
            return None
        if old is None:
            increments = {name: value for name, value in logged.items() if type(value) is Add}
            return record, record | log_changes(increments) if increments else None
        return record, log_changes({name: value for name, value in logged.items() if name != self.table.primary_key})

    def _is_admitted(self, item: BatchItem, number: int, old: Record | None, record: Record) -> bool:
        """Whether the table has nothing against the record in place of `old`; if it has, the record of this number has failed."""
        if self._admit is None:
            return True
        try:
            if self.rows is not None:
                self._check_rows(item.stored, old, record, self.rows)
            self._admit(item.stored, old, record)
        except ClientError as error:
            self._failures.append(self._failure(number, error, record, item))
            return False
        return True

    def _is_seen(self, stored: bytes, old: Record) -> bool:
        """Whether the record is there for the caller."""
        if self.rows is None:
            return True
        assert self._write_set is not None
        return self.rows.can_see(self.table, self._write_set.txn, stored, encode(old, 0.0, 0, None))

    def _check_rows(self, stored: bytes, old: Record | None, record: Record, rows: RowGuard) -> None:
        """Raise ClientError if the rules on rows are against the record in place of `old`."""
        assert self._write_set is not None
        table, txn = self.table, self._write_set.txn
        before = None if old is None else encode(old, 0.0, 0, None)
        if before is not None:
            rows.check_seen(table, txn, stored, before)
        rows.check_written(table, txn, stored, before, record)

    def _failure(self, number: int, error: ClientError, record: object, item: BatchItem | None = None) -> Failure:
        """`record`: what was to be written, or its changes. `item`: that of the record, if there is one."""
        if type(record) is RefusedRecord:
            return Failure(number, record.message, record.key, record.attribute)
        if not isinstance(record, dict):
            return Failure(number, error.message, code=error.code)
        key = record.get(self.table.primary_key)
        if key is None and item is not None:
            key = item.data.get(self.table.primary_key)
        attribute = next((str(fault["attribute"]) for fault in error.faults if "attribute" in fault), None)
        if attribute is None and isinstance(error, ValidationError) and len(record) <= _MOST_PROPERTIES:
            blamed = self.table.validator.blamed(record, self.source)
            attribute = next((blamed[text] for text in error.errors if text in blamed), None)
        return Failure(number, error.message, key, attribute, error.code)

    def _merged(self, record: Record, changes: Record) -> Record:
        table = self.table
        primary_key = table.primary_key
        if Add not in map(type, changes.values()):
            return {**record, **changes, primary_key: record[primary_key]}
        merged = merge(record, changes)
        merged[primary_key] = record[primary_key]
        table.validator.merged(merged, [name for name, value in changes.items() if type(value) is Add])
        return merged

    def _made(self, changes: Record, item: BatchItem) -> Record:
        """A new record of changes that have been checked: what remains is whether it is complete."""
        if Add not in map(type, changes.values()):
            self.table.validator.require_all(changes)
            return self.table.validator.complete(changes, is_new=True)
        return self.table.validator.complete(self.table.validator.record(merge({}, changes), source="native"), is_new=True)


def _refuse_descriptions(record: Record) -> None:
    """Raises ValidationError for the description of a blob where there is none: the record alone is refused, and not its batch."""
    for description in descriptions_in(record):
        raise description.refusal()


def _note(logged: Record, changes: Record) -> None:
    """Add changes to those that were made before them."""
    for name, value in changes.items():
        if type(value) is Add and name in logged:
            before = logged[name]
            logged[name] = Add(before.value + value.value) if type(before) is Add else value.applied_to(before)
        else:
            logged[name] = value
