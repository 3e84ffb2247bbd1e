"""What a statement reads: one state of each table, and what has been found out about it, such as how many entries lie in a range (spec: sql §9).

Numbers of entries are for choosing between ways to read: they cost some microseconds each, and so are no more than that. Those of values that are not known
yet are an average, of some keys here and there in the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

from svc.sql.catalogue import StatementSource
from svc.sql.tables.spans import Bounds
from svc.store import Table
from svc.store.definitions import build_key
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.indexes.index import Index
from svc.store.values.keys import LIST, NULL_KEY, NUMBER, after, encode_key

COUNTED = 64  # entries of a range, one by one; beyond that it is estimated
SAMPLES = 8  # keys that an average is made of
_LOWEST, _BEYOND = encode_key(-(1 << 63)), encode_key(1 << 63)
_unpack_double = Struct(">d").unpack
_PLACES = 7  # bytes of keys that are compared as a number


class ReadState:
    """What cursors and plans ask while one statement is prepared and run."""

    __slots__ = ("_averages", "_clean", "_counts", "_plain", "_ready", "now_ms", "source")

    def __init__(self, source: StatementSource) -> None:
        self.source = source
        self.now_ms = source.wall_ms
        self._ready: dict[Index, bool] = {}
        self._clean: dict[Table, bool] = {}
        self._plain: dict[Table, bool] = {}
        self._counts: dict[tuple[Any, Bounds], int] = {}
        self._averages: dict[Index, float] = {}

    def is_ready(self, table: Table, index: Index) -> bool:
        """Whether the index has all entries, in this state of the table."""
        known = self._ready.get(index)
        if known is None:
            known = index.has_values and not self._has(table, build_key(table.number, index.attribute))
            self._ready[index] = known
        return known

    def _has(self, table: Table, note: bytes) -> bool:
        try:
            return self.source.txn(table).get(note, None, table.database.definitions) is not None
        except LmdbError as error:
            raise store_problem(error, table.database.env.path) from error

    def is_clean(self, table: Table) -> bool:
        """Whether there is a record for each stored key: none has expired, none is here in part only."""
        known = self._clean.get(table)
        if known is None:
            try:
                known = not table.is_caching and not table.expiry.has_due(self.source.txn(table), self.now_ms)
            except LmdbError as error:
                raise store_problem(error, table.database.env.path) from error
            self._clean[table] = known
        return known

    def has_plain_keys(self, table: Table) -> bool:
        """Whether the order of stored keys is that of SQLite's values: none is a list or an integer beyond 64 bits, which are texts there."""
        known = self._plain.get(table)
        if known is None:
            try:
                known = self._has_plain_keys(table)
            except LmdbError as error:
                raise store_problem(error, table.database.env.path) from error
            self._plain[table] = known
        return known

    def _has_plain_keys(self, table: Table) -> bool:
        cursor = self.source.txn(table).cursor(table.primary)
        if not cursor.first():
            return True
        if cursor.key()[0] == NUMBER:
            low = cursor.key()
            is_beyond = cursor.set_range(_BEYOND) and cursor.key()[0] == NUMBER
            if low < _LOWEST or is_beyond:
                return False
        return not cursor.last() or cursor.key()[0] < LIST

    # -- estimates

    def record_count(self, table: Table) -> int:
        try:
            return table.entry_count(self.source.txn(table))
        except LmdbError as error:
            raise store_problem(error, table.database.env.path) from error

    def count(self, table: Table, index: Index | None, bounds: Sequence[Bounds]) -> int:
        """About how many entries, or records if `index` is None, lie in these ranges."""
        total = 0
        for each in bounds:
            known = self._counts.get((table if index is None else index, each))
            if known is None:
                try:
                    known = self._count(table, index, *each)
                except LmdbError as error:
                    raise store_problem(error, table.database.env.path) from error
                self._counts[table if index is None else index, each] = known
            total += known
        return total

    def _count(self, table: Table, index: Index | None, low: bytes, high: bytes) -> int:
        txn = self.source.txn(table)
        cursor = txn.cursor(table.primary if index is None else index.handle)
        if not cursor.set_range(low) or cursor.key() >= high:
            return 0
        if index is not None and high == after(low):
            return int(cursor.count())
        total = 0
        step = cursor.next if index is None else cursor.next_nodup
        while cursor.key() < high:
            total += 1 if index is None else cursor.count()
            if total >= COUNTED:
                share = _share(low, high, *_ends(txn.cursor(table.primary if index is None else index.handle)))
                return max(total, int(share * txn.stat(table.primary if index is None else index.handle)["entries"]))
            if not step():
                break
        return total

    def average(self, table: Table, index: Index) -> float:
        """About how many entries a key has that is not null."""
        known = self._averages.get(index)
        if known is None:
            try:
                known = 1.0 if index.unique else self._average(table, index)
            except LmdbError as error:
                raise store_problem(error, table.database.env.path) from error
            self._averages[index] = known
        return known

    def _average(self, table: Table, index: Index) -> float:
        cursor = self.source.txn(table).cursor(index.handle)
        if not cursor.set_range(after(NULL_KEY)):
            return 1.0
        first = cursor.key()
        counts = [cursor.count()]
        cursor.last()
        last = cursor.key()
        counts.append(cursor.count())
        begun, digits, (low, high) = _places(first, last)
        for number in range(1, SAMPLES - 1):
            place = low + (high - low) * number // (SAMPLES - 1)
            if cursor.set_range(begun + _text_of(place, digits)):
                counts.append(cursor.count())
        return float(sum(counts) / len(counts))


def _ends(cursor: Any) -> Bounds:
    cursor.first()
    first = cursor.key()
    cursor.last()
    return first, cursor.key()


def _places(*keys: bytes) -> tuple[bytes, bytes, list[int]]:
    """(what the first two keys begin with, the bytes that may follow, what follows in each as a number in the system of these digits). The first two are
    the lowest and the highest."""
    same = 0
    for one, other in zip(*keys[:2], strict=False):
        if one != other:
            break
        same += 1
    rests = [key[same : same + _PLACES].rstrip(b"\0") for key in keys]
    digits = bytes(range(min(map(min, filter(None, rests)), default=0), max(map(max, filter(None, rests)), default=0) + 1))
    return keys[0][:same], digits, [_number_of(rest, digits) for rest in rests]


def _number_of(rest: bytes, digits: bytes) -> int:
    number = 0
    for byte in rest.ljust(_PLACES, digits[:1]):
        number = number * len(digits) + byte - digits[0]
    return number


def _text_of(number: int, digits: bytes) -> bytes:
    """The other way round."""
    found = bytearray()
    for _ in range(_PLACES):
        number, digit = divmod(number, len(digits))
        found.append(digits[digit])
    return bytes(reversed(found))


def _share(low: bytes, high: bytes, first: bytes, last: bytes) -> float:
    """The part of all keys that lies between two, if they are spread evenly from `first` to `last`."""
    low, high = max(low, first), min(high, last)
    if low[0] == high[0] == first[0] == last[0] == NUMBER:
        start, end = _number(first), _number(last)
        return (_number(high) - _number(low)) / (end - start) if start < end else 1.0
    begin, stop, start, end = _places(first, last, low, high)[2]
    return (end - start) / (stop - begin) if begin < stop else 1.0


def _number(key: bytes) -> float:
    """The double in the key of a number (`keys`)."""
    bits = int.from_bytes(key[1:9].ljust(8, b"\0"), "big")
    bits = bits ^ (1 << 63) if bits >> 63 else bits ^ ((1 << 64) - 1)
    return float(_unpack_double(bits.to_bytes(8, "big"))[0])
