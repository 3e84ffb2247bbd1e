"""The number of records of a table, a slice at a time.

The store knows how many there are in O(1). Those that have expired and are not yet removed are counted off, and these may be many: one step for each time
of expiry that has passed.
"""

from __future__ import annotations

from collections.abc import Generator

from svc.store.env import Txn
from svc.store.table import Table

FEW = 5000  # times of expiry that are counted off, whatever is asked for (spec: schema-and-store §15)
STEP = 512  # of them between two polls of the clock


def count_records(table: Table, *, exact: bool = True) -> Generator[None, None, tuple[int, int]]:
    """(number of records, the least it can be), in a snapshot of its own. Not `exact`: at most FEW times of expiry are looked at."""
    database = table.database
    held = database.store.snapshots.hold(database)
    expired = looked_at = 0
    try:
        for count in held.read(table.expired_counts):
            expired += count
            looked_at += 1
            if looked_at >= FEW and not exact:
                # As many of them as there may be: each of the others may have expired.
                return table.entry_count(held.use()) - expired, 0
            if not looked_at % STEP:
                yield
        entries = table.entry_count(held.use())
    finally:
        held.abort()
    return entries - expired, entries - expired


def known_count(table: Table, txn: Txn) -> int | None:
    """The number of records, if that is known within a slice."""
    expired = 0
    for looked_at, count in enumerate(table.expired_counts(txn)):
        if looked_at >= FEW:
            return None
        expired += count
    return table.entry_count(txn) - expired
