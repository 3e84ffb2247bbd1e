"""Records and index entries in lists, undecoded: for whoever reads very many of them, and would spend more on a step of a generator for each than on decoding.

A *range* is (low, high) of stored keys or index keys, low <= key < high; ranges are given in their order, and do not overlap. A list has few elements
at first, since many readers need no more, and then as many as are worth the call, but not much more than BYTES. `count` is told how many were looked at before
they are returned: it may raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from svc.store.disk.faults import LmdbError, store_problem
from svc.store.indexes.index import Entry, Index
from svc.store.values.keys import after
from svc.store.values.records import FORMAT, IS_PARTIAL, expiry_of, payload_size

if TYPE_CHECKING:
    from svc.store.env import Txn
    from svc.store.table import Table

Range = tuple[bytes | None, bytes | None]
ALL: tuple[Range, ...] = ((None, None),)

FIRST = 32  # elements of the first list
MOST = 512  # of the others
BYTES = 1 << 20  # of the records of a list, when they are not compressed any more
PROBE, STEP = 8, 64  # records that are read before their sizes are looked at: of the first, of more


def record_chunks(
    table: Table,
    txn: Txn,
    ranges: Sequence[Range],
    now_ms: float,
    count: Callable[[int], object],
    *,
    reverse: bool = False,
    first: int = FIRST,
) -> Iterator[list[bytes]]:
    """The raw records of a table that exist at a time, in key order or backwards; of a table with a source those that are here as a whole.

    Ranges of long keys may give a few others besides (`keys.storage_low`). Lists may be empty.
    """
    try:
        cursor = txn.cursor(table.primary)
        size = first
        if not reverse and tuple(ranges) == ALL:
            items = cursor.iternext(False, True) if cursor.first() else iter(())
            while raws := _take_raws(items, size):
                count(len(raws))
                yield existing(table, txn, raws, now_ms)
                size = MOST
            return
        for entries, _ in _opened(cursor, ranges, reverse):
            while raws := _take_raws((raw for _, raw in entries), size):
                count(len(raws))
                yield existing(table, txn, raws, now_ms)
                size = MOST
    except LmdbError as error:
        raise store_problem(error, table.database.env.path) from error


def entry_chunks(
    index: Index, txn: Txn, ranges: Sequence[Range], count: Callable[[int], object], *, reverse: bool = False, first: int = FIRST
) -> Iterator[list[Entry]]:
    """The entries of an index, in their order or backwards, whether it is complete or not."""
    try:
        cursor = txn.cursor(index.handle)
        size = first
        for entries, key in _opened(cursor, ranges, reverse):
            if key is not None:
                entries = ((key, primary) for primary in cursor.iternext_dup())
            while found := list(islice(entries, size)):
                count(len(found))
                yield found
                size = MOST
    except LmdbError as error:
        raise store_problem(error, index.env.path) from error


def value_chunks(
    index: Index, txn: Txn, ranges: Sequence[Range], count: Callable[[int], object], *, reverse: bool = False
) -> Iterator[list[tuple[bytes, int]]]:
    """(index key, number of its entries) of each different key, in order or backwards. `count`: is told of keys."""
    try:
        cursor = txn.cursor(index.handle)
        size = FIRST
        for low, high in reversed(ranges) if reverse else ranges:
            steps = _values_before(cursor, low, high) if reverse else _values_from(cursor, low, high)
            while found := list(islice(steps, size)):
                count(len(found))
                yield found
                size = MOST
    except LmdbError as error:
        raise store_problem(error, index.env.path) from error


def fetched_chunks(
    table: Table, txn: Txn, keys: Iterable[bytes], now_ms: float, count: Callable[[int], object] = lambda number: None
) -> Iterator[list[bytes]]:
    """The raw records under stored keys that exist at a time, in the order of the keys."""
    get, primary, keys = txn.get, table.primary, iter(keys)
    try:
        found: list[bytes] = []
        total = 0
        while some := list(islice(keys, PROBE)):
            count(len(some))
            raws = [raw for key in some if (raw := get(key, None, primary)) is not None]
            found += raws
            total += payload_bytes(raws)
            if total >= BYTES or len(found) >= MOST:
                yield existing(table, txn, found, now_ms)
                found, total = [], 0
        yield existing(table, txn, found, now_ms)
    except LmdbError as error:
        raise store_problem(error, table.database.env.path) from error


def fetch(table: Table, txn: Txn, key: bytes, now_ms: float) -> bytes | None:
    """The raw record under one stored key."""
    try:
        raw = txn.get(key, None, table.primary)
        if raw is None or (raw[0] == FORMAT and table.moves is None):
            return raw
        found = existing(table, txn, [raw], now_ms)
    except LmdbError as error:
        raise store_problem(error, table.database.env.path) from error
    return found[0] if found else None


def existing(table: Table, txn: Txn, raws: list[bytes], now_ms: float) -> list[bytes]:
    """Those of these raw records that exist at a time, as the definition has them."""
    plain = [raw for raw in raws if raw[0] == FORMAT]  # what has no expiry
    if len(plain) != len(raws):
        raws = [raw for raw in raws if raw[0] == FORMAT or _exists(table, raw, now_ms)]
    moves = table.moves
    return raws if moves is None else [moves.translate(raw, txn) for raw in raws]


def _exists(table: Table, raw: bytes, now_ms: float) -> bool:
    if raw[0] & IS_PARTIAL:
        return False
    expiry = expiry_of(raw)
    return expiry is None or table.is_caching or expiry > now_ms


def _take_raws(items: Iterator[bytes], size: int) -> list[bytes]:
    """The next raw records: up to `size`, or fewer large ones."""
    found = list(islice(items, min(size, PROBE)))
    total = payload_bytes(found)
    while found and len(found) < size and total < BYTES:
        step = min(size - len(found), STEP, max(1, (BYTES - total) * len(found) // max(total, 1)))
        more = list(islice(items, step))
        if not more:
            break
        found += more
        total += payload_bytes(more)
    return found


def payload_bytes(raws: Iterable[bytes]) -> int:
    """What raw records take when they are not compressed any more."""
    return sum([len(raw) if raw[0] == FORMAT else payload_size(raw) for raw in raws])


def _opened(cursor: Any, ranges: Sequence[Range], reverse: bool) -> Iterator[tuple[Iterator[Entry], bytes | None]]:
    """(the entries of a range, the key that all of them have or None) of each range that has any, one after the other."""
    if reverse:
        for low, high in reversed(ranges):
            # set_range stands on the first entry of its key: one step back leaves it.
            if cursor.last() if high is None or not cursor.set_range(high) else cursor.prev():
                entries = cursor.iterprev()
                yield entries if low is None else _while_from(entries, low), None
        return
    found = b""  # the first key that a search has come to: what ends before it is empty
    for low, high in ranges:
        if high is not None and high <= found:
            continue
        if not (cursor.first() if low is None else cursor.set_range(low)):
            return
        found = cursor.key()
        if high is None:
            yield cursor.iternext(), None
        elif found < high:
            yield _while_before(cursor.iternext(), high), found if high == after(found) else None


def _while_from(entries: Iterator[Entry], low: bytes) -> Iterator[Entry]:
    for entry in entries:
        if entry[0] < low:
            return
        yield entry


def _while_before(entries: Iterator[Entry], high: bytes) -> Iterator[Entry]:
    for entry in entries:
        if entry[0] >= high:
            return
        yield entry


def _values_from(cursor: Any, low: bytes | None, high: bytes | None) -> Iterator[tuple[bytes, int]]:
    key_of, count, step = cursor.key, cursor.count, cursor.next_nodup
    found = cursor.first() if low is None else cursor.set_range(low)
    while found:
        key = key_of()
        if high is not None and key >= high:
            return
        yield key, count()
        found = step()


def _values_before(cursor: Any, low: bytes | None, high: bytes | None) -> Iterator[tuple[bytes, int]]:
    # set_range stands on the first entry of its key: one step back leaves it.
    found = cursor.last() if high is None or not cursor.set_range(high) else cursor.prev()
    while found:
        key = cursor.key()
        if low is not None and key < low:
            return
        yield key, cursor.count()
        found = cursor.set_range(key) and cursor.prev()
