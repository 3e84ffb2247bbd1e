"""Automatic integer keys (spec: schema-and-store §6.6).

A table reserves a block of keys that starts at a random point, away from the keys it has, so that tables filled on different nodes can be
joined. Keys are handed out in ascending order inside the turn's write transaction, which no other process can share, and the next one is
stored with the turn's commit: no key is handed out twice, and a restart goes on where the last turn stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from secrets import randbelow
from struct import Struct as Layout
from typing import TYPE_CHECKING

from svc.errors import ClientError
from svc.store.definitions import sequence_key
from svc.store.env import Txn
from svc.store.values.keys import after, decode_key, encode_key, kind_range

if TYPE_CHECKING:
    from svc.store.stored_table import StoredTable

SMALL_BLOCK, SMALL_LIMIT = 1024, (1 << 31) - 1  # for `Int`
BLOCK, LIMIT = 4_194_304, (1 << 49) - 1  # for `Long`, `BigInt`, `Any`
_TRIES = 64

_STATE = Layout(">QQ")


class KeySequence:
    """The integer keys of one table."""

    __slots__ = ("_block", "_end", "_limit", "_next", "_table", "_txn")

    def __init__(self, table: StoredTable, *, small: bool) -> None:
        self._table = table
        self._block, self._limit = (SMALL_BLOCK, SMALL_LIMIT) if small else (BLOCK, LIMIT)
        self._txn: Txn | None = None
        self._next = self._end = 0

    def next_key(self) -> int:
        """A key that no record of the table has. Opens the turn's write transaction."""
        txn = self._table.database.writer()
        self._read(txn)
        key = self._one(txn)
        self._table.database.used_sequences.add(self)
        return key

    def next_keys(self, count: int) -> Iterator[int]:
        """That many keys, taken at once: a few look-ups for all of them if no record is in their way."""
        txn = self._table.database.writer()
        self._read(txn)
        keys = self._many(txn, count)
        self._table.database.used_sequences.add(self)
        return keys

    def next_keys_in(self, txn: Txn, count: int) -> Iterator[int]:
        """The same in a long writer, with which they are kept or undone."""
        self._read(txn)
        keys = self._many(txn, count)
        self.save(txn)
        return keys

    def _one(self, txn: Txn) -> int:
        while True:
            self._need_block(txn)
            key = self._next
            self._next += 1
            # Somebody may have chosen this key for a record.
            if txn.get(encode_key(key), None, self._table.primary) is None:
                return key

    def _many(self, txn: Txn, count: int) -> Iterator[int]:
        found: list[range] = []
        while count:
            self._need_block(txn)
            size = min(count, self._end - self._next)
            while size > 1 and self._has_keys(txn, self._next, self._next + size - 1):
                size //= 2
            first = self._one(txn) if size == 1 else self._next
            found.append(range(first, first + size))
            self._next = first + size
            count -= size
        return chain.from_iterable(found)

    def _read(self, txn: Txn) -> None:
        """What is next is as of this transaction."""
        if txn is not self._txn:
            # Another process, or a turn whose commit failed, may have been here since.
            stored = txn.get(sequence_key(self._table.number), None, self._table.database.definitions)
            self._next, self._end = (0, 0) if stored is None else _STATE.unpack(stored)
            self._txn = txn

    def _need_block(self, txn: Txn) -> None:
        if self._next >= self._end:
            self._next = self._free_block(txn)
            self._end = self._next + self._block

    def save(self, txn: Txn) -> None:
        """Store what is next, just before the turn's commit."""
        txn.put(sequence_key(self._table.number), _STATE.pack(self._next, self._end), True, True, False, self._table.database.definitions)
        self._txn = None

    def _free_block(self, txn: Txn) -> int:
        """The first key of a block that has no record in it, nor in a block's length around it, if such a place is found."""
        distance = self._block
        for _ in range(_TRIES):
            start = 1 + randbelow(self._limit - self._block)
            if not self._has_keys(txn, start - distance, start + self._block + distance):
                return start
        # So full that chance finds no gap: go on after the largest key.
        cursor = txn.cursor(self._table.primary)
        high = kind_range(0)[1]
        largest = 0
        if (cursor.prev() if cursor.set_range(high) else cursor.last()) and cursor.key() < high:
            found = decode_key(cursor.key())
            largest = int(found) if isinstance(found, (int, float)) else 0
        if not 0 <= largest < self._limit - self._block:
            raise ClientError(f"Table {self._table.name} has no automatic keys left, give the record a key")
        return largest + 1

    def _has_keys(self, txn: Txn, low: int, high: int) -> bool:
        cursor = txn.cursor(self._table.primary)
        return cursor.set_range(encode_key(low)) and cursor.key() < after(encode_key(high))
