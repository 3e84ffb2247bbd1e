"""A restored copy gets blob files of its own (`BLOBS_KEY`), when its original may be open beside it.

References in records and in the log name the files' owner by eight random bytes. These are replaced where they are, in each encoded record
with files; eight bytes that happen to be the same do not occur.
"""

from __future__ import annotations

from os import urandom
from pathlib import Path

import msgspec

from svc.store.backup.source import open_private, stored_tables
from svc.store.backup.watch import Watch
from svc.store.definitions import BLOBS_KEY, DEFINITIONS_STORE
from svc.store.log.entries import decode_entry, encode_entry
from svc.store.log.transaction_log import LOG_STORE
from svc.store.store_names import StoreNames
from svc.store.values.records import HAS_FILES, expiry_of, frame, has_files, lsn_of, raw_payload, refreshed_of, version_of

_STEP = 1000  # rows between two checks for cancellation


def change_identity(directory: Path, watch: Watch) -> None:
    """Give the database in `directory`, which no process has open, another identity. Reads all its records. Raises lmdb.Error, CopyStopped."""
    env = open_private(directory)
    try:
        definitions, log = [env.open_db(name.encode(), create=False) for name in (DEFINITIONS_STORE, LOG_STORE)]
        with env.begin() as reading:
            old = reading.get(BLOBS_KEY, None, definitions)
            names = StoreNames(reading, definitions)
            tables = [names.of(stored) for stored in stored_tables(reading, definitions)]
        if old is None:
            return
        stores = [env.open_db(name.encode(), create=False) for name in tables]
        new = urandom(len(old))
        with env.begin(write=True) as txn:
            for store in stores:
                for count, (key, raw) in enumerate(txn.cursor(store), 1):
                    if has_files(raw):
                        txn.put(key, _changed(raw, old, new), True, True, False, store)
                    if not count % _STEP:
                        watch.check()
            for count, (key, data) in enumerate(txn.cursor(log), 1):
                entry = decode_entry(int.from_bytes(key, "big"), data)
                value, image = [raw if raw is None or not has_files(raw) else _changed(raw, old, new) for raw in (entry.value, entry.image)]
                if value is not entry.value or image is not entry.image:
                    txn.put(key, encode_entry(msgspec.structs.replace(entry, value=value, image=image)), True, True, False, log)
                if not count % _STEP:
                    watch.check()
            txn.put(BLOBS_KEY, new, True, True, False, definitions)
    finally:
        env.close()


def _changed(raw: bytes, old: bytes, new: bytes) -> bytes:
    payload = raw_payload(raw).replace(old, new)
    return frame(payload, version_of(raw), lsn_of(raw), expiry_of(raw), HAS_FILES, refreshed_of(raw))
