"""A copy of a database is reduced to some of its tables, and to what they are now, without the log of what they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from svc.store.backup.source import open_private, stored_tables
from svc.store.backup.watch import Watch
from svc.store.blobs import BLOBS_STORE, Ledger
from svc.store.definitions import (
    DEFINITIONS_STORE,
    EXPIRY_STORE,
    build_key,
    indexed_attributes,
    leftovers_key,
    moves_key,
    sequence_key,
    table_key,
)
from svc.store.env import Handle, Txn
from svc.store.log.entries import decode_head, encode_entry, note_key, placeholder
from svc.store.log.transaction_log import DELETED_STORE, LOG_STORE
from svc.store.store_names import StoreNames, forget_names

_STEP = 1000  # rows between two checks for cancellation


def reduce(directory: Path, without: frozenset[str], *, log: bool, watch: Watch) -> None:
    """Take these tables, and unless `log` the log, out of the copy in `directory`. Its file keeps its size: `compact` it.

    The newest entry of the log stays as a number without content: LSNs go on from there, for the records refer to theirs.
    """
    env = open_private(directory)
    try:
        core = (DEFINITIONS_STORE, LOG_STORE, DELETED_STORE, EXPIRY_STORE, BLOBS_STORE)
        definitions, entries, deleted, expiry, blobs = [env.open_db(name.encode(), create=False) for name in core]
        with env.begin() as reading:
            gone = [stored for stored in stored_tables(reading, definitions) if stored.definition.name in without]
            names = StoreNames(reading, definitions)
        stores = [env.open_db(name.encode(), create=False) for stored in gone for name in names.all_of(stored)]
        numbers = {stored.number for stored in gone}
        with env.begin(write=True) as txn:
            for handle in stores:
                txn.drop(handle, True)
            for stored in gone:
                txn.delete(table_key(stored.definition.name), b"", definitions)
                txn.delete(sequence_key(stored.number), b"", definitions)
                txn.delete(moves_key(stored.number), b"", definitions)
                txn.delete(leftovers_key(stored.number), b"", definitions)
                forget_names(txn, definitions, stored)
                for attribute in indexed_attributes(stored.definition):
                    txn.delete(build_key(stored.number, attribute), b"", definitions)
            _remove(txn, expiry, (n.to_bytes(4, "big") for n in numbers), watch)
            _remove(txn, deleted, (note_key(n, b"")[:4] for n in numbers), watch)
            _remove(txn, deleted, (n.to_bytes(4, "big") for n in numbers), watch)
            _reduce_ledger(txn, blobs, numbers, log, watch)
            _reduce_log(txn, entries, deleted, numbers, log, watch)
    finally:
        env.close()


def _remove(txn: Txn, store: Handle, prefixes: Iterator[bytes], watch: Watch) -> None:
    """Remove all rows whose keys begin so."""
    cursor = txn.cursor(store)
    for prefix in prefixes:
        count = 0
        while cursor.set_range(prefix) and cursor.key().startswith(prefix):
            cursor.delete(True)
            count += 1
            if not count % _STEP:
                watch.check()


def _reduce_ledger(txn: Txn, handle: Handle, numbers: set[int], log: bool, watch: Watch) -> None:
    """Without the log nothing refers to what records no longer have. What is off the ledger must not be in the copy: see `BackupSource.blobs`."""
    ledger = Ledger(handle)
    dropped = ledger.dropped_tables(txn)
    out = [number for number, (table, released, _) in ledger.files(txn) if table in numbers or (not log and (released or table in dropped))]
    for count, number in enumerate(out, 1):
        ledger.strike(txn, number)
        if not count % _STEP:
            watch.check()
    if not log:
        ledger.forget_dropped(txn)


def _reduce_log(txn: Txn, entries: Handle, deleted: Handle, numbers: set[int], log: bool, watch: Watch) -> None:
    cursor = txn.cursor(entries)
    if not cursor.last():
        return
    lsn = int.from_bytes(cursor.key(), "big")
    newest = decode_head(lsn, cursor.value())
    if not log:
        txn.drop(entries, False)
        txn.drop(deleted, False)
    elif numbers:
        found = cursor.first()
        count = 0
        while found:
            outside = int.from_bytes(cursor.value()[4:8], "big") in numbers
            found = cursor.delete() if outside else cursor.next()
            count += 1
            if not count % _STEP:
                watch.check()
    if not log or newest.table_number in numbers:
        txn.put(lsn.to_bytes(8, "big"), encode_entry(placeholder(newest)), True, True, False, entries)
