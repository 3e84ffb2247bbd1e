"""What commits of another process have changed in cached indexes, from their entries in the transaction log.

The entry that changed a record first has its image before that, whose values the index had; what is stored now has the values that it has. So patches need
not be carried out, nor what came in between. What changes records without an entry of the log, copies that are evicted or confirmed, keeps their indexed
attributes; only what an application computes from the rest may change then, which is why caches of computed attributes are not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from svc.store.log.entries import NOTES, REMOVALS, TABLE, TABLE_OFFSET, decode_entry, key_of
from svc.store.log.transaction_log import TransactionLog
from svc.store.values.keys import MAX_STORED, index_keys, storage_key
from svc.store.values.records import decode

if TYPE_CHECKING:
    from svc.store.env import Txn
    from svc.store.indexes.index import Index, IndexChange

LOOK = 4_000  # log entries that are passed, in 2 ms; after more all caches are dropped, to be loaded again on demand
MOST = 500  # records whose changes are entered, in 7 ms
SHARE = 20  # the same of a table, for each of which so many of its cached entries are loaded in the same time


class IndexedTable(Protocol):
    """What is needed of a `Table`."""

    stored_indexes: list[Index]

    def read(self, stored: bytes, txn: Txn) -> bytes | None: ...


T = TypeVar("T", bound=IndexedTable)


def changes_since(log: TransactionLog, txn: Txn, lsn: int, tables: Mapping[int, T]) -> tuple[list[IndexChange], set[T]] | None:
    """What the entries after `lsn` have changed in the caches of these tables, by their numbers, as of `txn`; and the tables of which it is not known.

    None: it is known of none.
    """
    rows = log.read_after(txn, lsn, LOOK)
    if rows is None:
        return None
    changes: list[IndexChange] = []
    lost: set[T] = set()
    seen: set[tuple[T, bytes]] = set()
    room: dict[T, int] = {}  # for records of these tables
    for at, data in rows:
        (number,) = TABLE.unpack_from(data, TABLE_OFFSET)
        if not number:
            return None  # a placeholder of one that was removed
        table = tables.get(number)
        if table is None or data[1] in NOTES or table in lost:
            continue
        key = key_of(data)
        if (table, key) in seen:
            continue
        seen.add((table, key))
        if len(seen) > MOST:
            return None
        if table not in room:
            room[table] = sum([txn.stat(index.handle)["entries"] for index in table.stored_indexes if index.cache is not None]) // SHARE
        entry = decode_entry(at, data)
        if not room[table] or (entry.image is None and not _is_new(log, txn, entry.kind, entry.previous)):
            lost.add(table)
            continue
        room[table] -= 1
        stored = key if len(key) < MAX_STORED else storage_key(key)
        raw = table.read(stored, txn)
        old = None if entry.image is None else decode(entry.image)
        new = None if raw is None else decode(raw)
        for index in table.stored_indexes:
            if index.cache is None:
                continue
            was = () if old is None else index_keys(old.get(index.attribute))
            will = () if new is None else index_keys(new.get(index.attribute))
            if was != will:
                changes += [(index, each, stored, False) for each in set(was).difference(will)]
                changes += [(index, each, stored, True) for each in set(will).difference(was)]
    return changes, lost


def _is_new(log: TransactionLog, txn: Txn, kind: int, previous: int) -> bool:
    """Whether an entry without an image is of a record that was not there before, and not one whose image was not kept."""
    if kind in REMOVALS:
        return False
    return not previous or log.kind_of(txn, previous) in REMOVALS
