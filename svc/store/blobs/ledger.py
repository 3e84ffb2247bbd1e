"""The ledger of blob files: to which record each belongs, and which may be removed (spec: schema-and-store §14.7, §14.8).

It is kept in the transactions that write the records, in the store `$blobs`:

    f <number, 8 bytes>                  number of the table (4 bytes), LSN of release (8 bytes, 0 = the record has it), stored key of the record
    r <LSN, 8 bytes> <number, 8 bytes>   released: wall time of the release, double, ms
    t <number of a table, 4 bytes>       the table was dropped: LSN of the newest entry then (8 bytes), wall time (double, ms),
                                         number of the file to check next (8 bytes)

A file is referred to by its record, and by log entries: those that wrote it into the record, and those that have the record with it as
their image. The last of these is the entry that takes it out of the record, whose image is the record before; where images are not kept,
it is the entry before that one at the latest. So one number says when the log no longer refers to the file: the LSN of release. What is released goes when
the log begins after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct as Layout

from svc.clock import AHEAD
from svc.errors import ClientError
from svc.store.env import Cursor, Handle, Txn

BLOBS_STORE = "$blobs"
GRACE_MS = 500.0  # that a file stays after it was replaced (spec: schema-and-store §14.8)

_FILE_KEY = Layout(">cQ")
_RELEASED_KEY = Layout(">cQQ")
_DROPPED_KEY = Layout(">cI")
_OWNER = Layout(">IQ")
_TIME = Layout(">d")
_DROP = Layout(">QdQ")
_OWNER_SIZE = _OWNER.size
_LOOK_AHEAD = 1000  # files looked at for those of a dropped table, at once


class Ledger:
    """`handle`: of the store `$blobs`."""

    __slots__ = ("_handle",)

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    # -- with the records

    def claim(self, txn: Txn, number: int, table: int, stored: bytes, *, is_new: bool) -> None:
        """The record refers to the file from now on. `is_new`: the file was made for it, else it is one that some record had.

        Raises ClientError if the file belongs to another record, or is gone.
        """
        row = txn.get(_FILE_KEY.pack(b"f", number), None, self._handle)
        if row is None:
            if not is_new:
                raise ClientError("The content of this blob has been removed", code="VALIDATION")
        else:
            owner, released = _OWNER.unpack_from(row)
            if owner != table or row[_OWNER_SIZE:] != stored:
                raise ClientError("The blob belongs to another record: make a new one of its content", code="VALIDATION")
            if released:
                txn.delete(_RELEASED_KEY.pack(b"r", released, number), b"", self._handle)
        txn.put(_FILE_KEY.pack(b"f", number), _OWNER.pack(table, 0) + stored, True, True, False, self._handle)

    def release(self, txn: Txn, number: int, lsn: int, wall_ms: float) -> None:
        """The record no longer refers to the file. `lsn`: of the last log entry that does."""
        row = txn.get(_FILE_KEY.pack(b"f", number), None, self._handle)
        if row is None:
            return
        table, released = _OWNER.unpack_from(row)
        if released:
            return
        txn.put(_FILE_KEY.pack(b"f", number), _OWNER.pack(table, lsn) + row[_OWNER_SIZE:], True, True, False, self._handle)
        txn.put(_RELEASED_KEY.pack(b"r", lsn, number), _TIME.pack(wall_ms), True, True, False, self._handle)

    def drop_table(self, txn: Txn, table: int, lsn: int, wall_ms: float) -> None:
        """All records of a table are gone, and no log entry after `lsn` has been one of theirs."""
        txn.put(_DROPPED_KEY.pack(b"t", table), _DROP.pack(lsn, wall_ms, 0), True, True, False, self._handle)

    def strike(self, txn: Txn, number: int) -> None:
        """Take a file off the ledger, whatever refers to it: for a copy of the database that is not to have it."""
        row = txn.pop(_FILE_KEY.pack(b"f", number), self._handle)
        released = 0 if row is None else _OWNER.unpack_from(row)[1]
        if released:
            txn.delete(_RELEASED_KEY.pack(b"r", released, number), b"", self._handle)

    def forget_dropped(self, txn: Txn) -> None:
        """The files of all dropped tables are off the ledger."""
        for table in self.dropped_tables(txn):
            txn.delete(_DROPPED_KEY.pack(b"t", table), b"", self._handle)

    # -- in the background

    def has_due(self, txn: Txn, oldest: int, now_ms: float) -> bool:
        """Whether `forget` has something to do. `oldest`: LSN with which the log begins."""
        return bool(self._due(txn, oldest, now_ms, 1)) or bool(self._dropped(txn, oldest, now_ms))

    def forget(self, txn: Txn, oldest: int, now_ms: float, limit: int) -> list[int]:
        """Take files to which nothing refers any more off the ledger, about `limit` of them: they are to be removed after the commit."""
        numbers: list[int] = []
        for lsn, number in self._due(txn, oldest, now_ms, limit):
            txn.delete(_RELEASED_KEY.pack(b"r", lsn, number), b"", self._handle)
            txn.delete(_FILE_KEY.pack(b"f", number), b"", self._handle)
            numbers.append(number)
        for table, position in self._dropped(txn, oldest, now_ms):
            numbers += self._forget_table(txn, table, position, limit)
        return numbers

    def _due(self, txn: Txn, oldest: int, now_ms: float, limit: int) -> list[tuple[int, int]]:
        """(LSN of release, number) of released files, earliest first."""
        found: list[tuple[int, int]] = []
        for key, value in self._rows(txn, b"r"):
            _, lsn, number = _RELEASED_KEY.unpack(key)
            if lsn >= oldest or len(found) == limit:
                break
            if _is_over(_TIME.unpack(value)[0], now_ms):
                found.append((lsn, number))
        return found

    def _dropped(self, txn: Txn, oldest: int, now_ms: float) -> list[tuple[int, int]]:
        """(table, number to go on with) for each dropped table of which the log knows nothing any more."""
        found = []
        for key, value in self._rows(txn, b"t"):
            lsn, wall_ms, position = _DROP.unpack(value)
            if lsn < oldest and _is_over(wall_ms, now_ms):
                found.append((_DROPPED_KEY.unpack(key)[1], position))
        return found

    def _forget_table(self, txn: Txn, table: int, position: int, limit: int) -> list[int]:
        """Look at the next files of all tables for those of this one."""
        found: list[int] = []
        dropped = _DROPPED_KEY.pack(b"t", table)
        cursor = txn.cursor(self._handle)
        here = cursor.set_range(_FILE_KEY.pack(b"f", position))
        for _ in range(_LOOK_AHEAD):
            if not here or len(found) == limit or cursor.key()[:1] != b"f":
                break
            position = _FILE_KEY.unpack(cursor.key())[1]
            owner, released = _OWNER.unpack_from(cursor.value())
            if owner == table:
                found.append(position)
                here = cursor.delete()
                if released:
                    txn.delete(_RELEASED_KEY.pack(b"r", released, position), b"", self._handle)
                    here = cursor.set_range(_FILE_KEY.pack(b"f", position))
            else:
                here = cursor.next()
        if here and cursor.key()[:1] == b"f":
            lsn, wall_ms, _ = _DROP.unpack(txn.get(dropped, b"", self._handle))
            txn.put(dropped, _DROP.pack(lsn, wall_ms, position), True, True, False, self._handle)
        else:
            txn.delete(dropped, b"", self._handle)
        return found

    # -- reading

    def knows(self, txn: Txn, number: int) -> bool:
        return txn.get(_FILE_KEY.pack(b"f", number), None, self._handle) is not None

    def owner(self, txn: Txn, number: int) -> tuple[int, int, bytes] | None:
        """(number of the table, LSN of release or 0, stored key) of a file."""
        row = txn.get(_FILE_KEY.pack(b"f", number), None, self._handle)
        return None if row is None else (*_OWNER.unpack_from(row), row[_OWNER_SIZE:])

    def files(self, txn: Txn) -> Iterator[tuple[int, tuple[int, int, bytes]]]:
        """All files: (number, `owner`)."""
        for key, row in self._rows(txn, b"f"):
            yield _FILE_KEY.unpack(key)[1], (*_OWNER.unpack_from(row), row[_OWNER_SIZE:])

    def released(self, txn: Txn) -> Iterator[tuple[int, int]]:
        """(LSN of release, number) of all files that are released one by one."""
        for key, _ in self._rows(txn, b"r"):
            yield _RELEASED_KEY.unpack(key)[1:]

    def dropped_tables(self, txn: Txn) -> set[int]:
        return {_DROPPED_KEY.unpack(key)[1] for key, _ in self._rows(txn, b"t")}

    def _rows(self, txn: Txn, kind: bytes) -> Iterator[tuple[bytes, bytes]]:
        cursor: Cursor = txn.cursor(self._handle)
        if cursor.set_range(kind):
            for row in cursor.iternext():
                if row[0][:1] != kind:
                    return
                yield row


def _is_over(released_ms: float, now_ms: float) -> bool:
    """Whether a file that was released then has stayed long enough, or the clock was wrong then."""
    return not now_ms - GRACE_MS < released_ms <= now_ms + AHEAD * 1000
