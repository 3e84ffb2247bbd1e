"""Which records of a table were written since a moment that the log knows."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from svc.store.log.transaction_log import TransactionLog
from svc.store.values.keys import MAX_STORED, storage_key

if TYPE_CHECKING:
    from svc.store.env import Txn

STEP = 64  # log entries between two reads of the clock


def written_since(
    log: TransactionLog, txn: Txn, table_number: int, lsn: int, found: set[bytes], *, most: int
) -> Generator[None, None, bool]:
    """Add the stored keys of the records that were written to by entries after `lsn`, as `txn` sees the log. In short steps.

    Returns False if the log lacks one of these entries, or if they are of more than `most` records.
    """
    missing = log.newest_lsn(txn) - lsn
    if missing:
        for count, entry in enumerate(log.read(txn, lsn + 1), 1):
            if not entry.table_number:
                return False  # a placeholder of one that was removed
            missing -= 1
            if entry.table_number == table_number and entry.key:
                found.add(entry.key if len(entry.key) < MAX_STORED else storage_key(entry.key))
            if not count % STEP:
                if len(found) > most:
                    return False
                yield
    return not missing and len(found) <= most
