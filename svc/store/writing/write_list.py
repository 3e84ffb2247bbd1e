"""Writes that wait to be applied, one by one as they were asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from svc.errors import NotUnique, RowNotAllowed
from svc.store.caching.copies import FetchedAnswer, invalidate, write_fetched
from svc.store.entity_tags import Precondition
from svc.store.log.entries import DELETE, EXPIRE, INVALIDATE, MESSAGE, PUT
from svc.store.values.keys import Key, decode_key, encode_primary, storage_key
from svc.store.values.records import decode_payload
from svc.store.writing.write_set import Decide, RemovalReason, RowGuard, WriteSet

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.env import Txn
    from svc.store.slices import Slices
    from svc.store.table import Table
else:
    Table = Any


INSERT, UPDATE = 101, 102  # a put of what is not there, a patch of what is; else nothing happens. The log knows them as PUT and PATCH
FETCHED = 103  # what a source has said: see `caching.copies`
_CONDITIONAL = frozenset((INSERT, UPDATE))
_WHOLE = frozenset((PUT, INSERT))
_STEP = 64  # writes between two reads of the clock


class Write(msgspec.Struct, gc=False):
    """`data`: the record, the changes, or None for what has neither. It takes 96 bytes, and the garbage collector need not look at it."""

    kind: int  # PUT, PATCH, DELETE, EXPIRE, MESSAGE, INVALIDATE, INSERT, UPDATE, FETCHED
    table: Table
    key: bytes  # encoded, whole; of records, b"" until they are given a key: see `assign_keys`
    id: Any  # the same decoded; None where it is not needed; of a deletion what is noted if there is nothing
    data: dict[str, Any] | None
    precondition: Precondition | None
    expires_at: float | None = None
    payload: bytes | None = None  # of a message
    decide: Decide | None = None
    found: RemovalReason | None = None
    fetched: FetchedAnswer | None = None
    rows: RowGuard | None = None

    @property
    def adds(self) -> bool:
        """Whether it may store something new."""
        return self.data is not None or self.payload is not None

    @property
    def is_keyless(self) -> bool:
        return not self.key and self.data is not None


def assign_keys(
    keyless: list[Write], writes: list[Write], new_keys: Callable[[Table, int], Iterator[Key]], assigned: list[Key]
) -> Iterator[None]:
    """Give records the keys they came without, in their order, and add these to `assigned`. `writes`: all of the transaction. In short steps.

    `new_keys`: that many keys of a table, that no record has as of the transaction; those that other writes name are left out.
    """
    named: set[tuple[Table, bytes]] = set()
    for number, write in enumerate(writes):
        if write.key:
            named.add((write.table, write.key))
        if not number % _STEP:
            yield
    wanted = Counter(write.table for write in keyless)
    keys: dict[Table, Iterator[Key]] = {}
    for number, write in enumerate(keyless):
        table = write.table
        encoded = b""
        while not encoded or (table, encoded) in named:
            key = next(keys.get(table, iter(())), None)
            if key is None:
                keys[table] = new_keys(table, wanted[table])
                continue
            encoded = encode_primary(key)
        wanted[table] -= 1
        assert key is not None and write.data is not None
        write.data[table.primary_key] = write.id = key
        write.key = encoded
        assigned.append(key)
        if not number % _STEP:
            yield


def place_of(error: NotUnique, writes: list[Write]) -> int | None:
    """The number of the last write of the record that was refused when all was written."""
    for number in reversed(range(len(writes))):
        write = writes[number]
        if write.key and write.table is error.table and storage_key(write.key) == error.stored:
            return number
    return None


def apply_write(write: Write, write_set: WriteSet) -> bool:
    """Write it; True if that removed a record. What finds nothing to do is noted in `write_set.skipped`. Raises what prevents it."""
    kind, table, key, data = write.kind, write.table, write.key, write.data
    if write.fetched is not None:
        write_fetched(write_set, table, key, data, write.fetched, write.expires_at)
    elif data is None:
        if kind == INVALIDATE and table.is_caching and key:
            invalidate(write_set, table, key)
        elif kind == EXPIRE:
            return write_set.expire(table, storage_key(key))
        elif kind != DELETE:
            if write.rows is not None and kind == MESSAGE:
                check_message(write, write.rows, write_set.txn)
            write_set.note(table, kind, key, write.payload)
        elif write_set.delete(table, key, write.precondition, write.found, write.rows):
            return True
        else:
            if write_set.mqtt is not None and not table.is_caching and _may_tell(write, write_set):
                write_set.note_missing(table, key)
            if write.id is not None:
                write_set.skipped.append(write.id)
    elif kind in _CONDITIONAL and write_set.has(table, key, write.rows if kind == UPDATE else None) is (kind == INSERT):
        assert write.id is not None
        write_set.skipped.append(write.id)
    elif kind in _WHOLE:
        write_set.put(table, key, data, write.precondition, write.expires_at, write.decide, write.rows)
    else:
        write_set.patch(table, key, write.id, data, write.precondition, write.expires_at, write.decide, write.rows)
    return False


def _may_tell(write: Write, write_set: WriteSet) -> bool:
    """Whether the writer may send a message about a record that is not there, or not there for the writer."""
    if write.rows is None:
        return True
    try:
        check_message(write, write.rows, write_set.txn)
    except RowNotAllowed:
        return False
    return True


def check_message(write: Write, rows: RowGuard, txn: Txn) -> None:
    """A message to the subscribers of a record asks what making this record does (spec: rows §1.4)."""
    table = write.table
    payload = None if write.payload is None else decode_payload(write.payload)
    record = dict(payload) if isinstance(payload, dict) else {}
    if write.key:
        record[table.primary_key] = decode_key(write.key)
    rows.check_written(table, txn, storage_key(write.key), None, record)


class WriteList:
    """The work of a long write (`long_write.Work`): these writes, all of one database.

    `deleted`: records that were removed. `assigned`: the keys of those that came without.
    """

    def __init__(self, writes: list[Write], *, may_be_keyless: bool = True) -> None:
        self._writes = writes
        self._keyless = [write for write in writes if write.is_keyless] if may_be_keyless else []
        self.assigned: list[Key] = []
        self.database = writes[0].table.database
        self.size = len(writes)
        self.adds = any(write.adds for write in writes)
        self.deleted = 0
        self.at: int | None = None  # the number of the write that is being carried out

    def steps(self, write_set: WriteSet) -> Iterator[None]:
        self.deleted = 0
        if self._keyless:
            self.assigned = []
            for write in self._keyless:
                write.key = b""
            yield from assign_keys(self._keyless, self._writes, lambda table, count: table.new_keys_in(write_set.txn, count), self.assigned)
        for at, write in enumerate(self._writes):
            self.at = at
            self.deleted += apply_write(write, write_set)
            yield
            yield from write_set.follow()
        self.at = None
        try:
            yield from write_set.check_end()
        except NotUnique as error:
            self.at = place_of(error, self._writes)
            raise

    @property
    def key_at(self) -> bytes:
        """The encoded key of the write `at`; empty: it has none."""
        return b"" if self.at is None or self.at >= len(self._writes) else self._writes[self.at].key

    def forget(self, slices: Slices) -> None:
        slices.discard(self._writes)


class DecidedWrites:
    """The work of a long write that is not known before it holds the database: see `LongWrite.prepare`. `size`: a guess, until `decide`."""

    def __init__(self, database: Database, size: int, *, adds: bool) -> None:
        self.database = database
        self.size = size
        self.adds = adds
        self.list: WriteList | None = None

    def decide(self, writes: list[Write], *, may_be_keyless: bool) -> None:
        self.size = len(writes)
        self.list = WriteList(writes, may_be_keyless=may_be_keyless) if writes else None

    def steps(self, write_set: WriteSet) -> Iterator[None]:
        if self.list is not None:
            yield from self.list.steps(write_set)

    def forget(self, slices: Slices) -> None:
        if self.list is not None:
            self.list.forget(slices)
