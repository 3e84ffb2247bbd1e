"""Whether the records of a table that was checked keep to `@unique` (spec: schema-and-store §3.1).

What they share is worth a note, not a finding: copies of what a source has are not tested, nor is a record from which an attribute is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator

from svc.store.env import Cursor, Txn
from svc.store.integrity.checked_table import CheckedTable
from svc.store.values.keys import NULL_KEY, after
from svc.store.values.records import decode, expiry_of
from svc.store.writing.constraints import unique_values
from svc.store.writing.duplicates import Duplicates


def unique_notes(txn: Txn, table: CheckedTable, now_ms: float) -> Iterator[str]:
    """A sentence for each attribute that is unique and has values that are not. Those whose index is incomplete are passed over."""
    for attribute in table.stored.definition.attributes:
        name = attribute.name
        if attribute.unique and name in table.indexes and name not in table.done and table.is_known(name):
            found = Duplicates()
            for entry, holders in _shared(txn.cursor(table.indexes[name])):
                found.forget()
                for stored in holders:
                    _add(found, txn, table, name, entry, stored, now_ms)
                if found.are_enough:
                    break
            if found.count:
                yield f"{table.name}.{name} is @unique, but {found.sentence()}."


def _shared(cursor: Cursor) -> Iterator[tuple[bytes, Iterator[bytes]]]:
    """(index key, stored keys of the records that have it) of those with several, null apart. The latter are to be read first."""
    here = cursor.set_range(after(NULL_KEY))
    while here:
        if cursor.count() > 1:
            yield cursor.key(), cursor.iternext_dup()
        here = cursor.next_nodup()


def _add(found: Duplicates, txn: Txn, table: CheckedTable, name: str, entry: bytes, stored: bytes, now_ms: float) -> None:
    raw = txn.get(stored, None, table.primary)
    expiry = None if raw is None else expiry_of(raw)
    if raw is None or (expiry is not None and expiry <= now_ms):
        return
    record = table.as_read(raw, decode(raw), txn)
    found.add(record.get(table.primary_key), [value for key, value in unique_values(table.value(name, record)) if key == entry])
