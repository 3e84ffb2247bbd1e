"""Building an index from the records that are there, a slice at a time (spec: schema-and-store §7).

Every write maintains the index meanwhile, for records before and behind the point reached alike. Entering a record again changes
nothing, so the index is right when the last record has been passed. How far it is, is stored with each slice.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

from svc.store.definitions import build_key
from svc.store.env import Txn
from svc.store.values.keys import after, index_keys
from svc.store.values.records import projection

if TYPE_CHECKING:
    from svc.store.indexes.index import Index
    from svc.store.stored_table import StoredTable

SLICE = 100  # records


def build_slice(txn: Txn, table: StoredTable, index: Index) -> bool:
    """Enter the next records into the index; True when there are none left, and the index is built.

    The caller commits, and sets `index.progress` when that has succeeded. Another process may have gone on, or finished, since.
    """
    definitions = table.database.definitions
    note = build_key(table.number, index.attribute)
    done = txn.get(note, None, definitions)
    if done is None:
        return True
    if index.computed is not None and not done:
        # There may be entries from before a time in which the values were unknown (`computed`).
        txn.drop(index.handle, False)
    value_of = value_reader(index)
    cursor = txn.cursor(table.primary)
    pairs: list[tuple[bytes, bytes]] = []
    last = done
    seen = 0
    if cursor.set_range(after(done)) if done else cursor.first():
        for stored, raw in islice(cursor.iternext(), SLICE):
            if table.moves is not None:
                raw = table.moves.translate(raw, txn)
            pairs += [(key, stored) for key in index_keys(value_of(raw))]
            last = stored
            seen += 1
    pairs.sort()
    txn.cursor(index.handle).putmulti(pairs)
    if seen < SLICE:
        txn.delete(note, b"", definitions)
        return True
    txn.put(note, last, True, True, False, definitions)
    return False


def value_reader(index: Index) -> Callable[[bytes], Any]:
    """The function from an undecoded record to the value that the index has of it."""
    if index.computed is not None:
        return index.computed.reader()
    return reader_of(index.attribute)


def reader_of(name: str) -> Callable[[bytes], Any]:
    """The function from an undecoded record to the value that it has of a stored attribute."""
    values_of = projection((name,), default=None)
    return lambda raw: values_of(raw)[0]
