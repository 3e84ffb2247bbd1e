"""Which store holds the records of a table and which an index, and how their names are reused.

LMDB has a fixed number of slots for open stores, and a process that has opened one cannot close it without removing it, which others may
still read. So the stores of what was dropped are not removed but emptied, and given to tables and indexes that are made later, under the
name they have. A database thus never has more names than it had tables and indexes at one time, and no process needs more slots.

1. The name of a store is `<table>/` or `<table>/<attribute>`, or what a row `store:<number>:<attribute>` of the definitions says.
2. A name is never used by two at a time. One that nothing uses is spare, and its store empty.
3. Stores of records end with a slash, those of indexes do not: LMDB keeps duplicates in the latter only, so neither can replace the other.

Tables are not put together in few stores, nor indexes of a table in one: the number of entries, which plans and counts rest on, would no
longer be known at once, an index could not be emptied in one call, and every key of a scan would carry a prefix to be cut off.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from svc.store.definitions import STORE_PREFIX, StoredTable, indexed_attributes, store_key
from svc.store.env import Handle, Txn

RECORDS = ""  # instead of the name of an attribute: the store of the records


class StoreNames:
    """The names in the definitions as of a transaction."""

    def __init__(self, txn: Txn, definitions: Handle) -> None:
        self._rows: dict[bytes, str] = {}
        cursor = txn.cursor(definitions)
        if cursor.set_range(STORE_PREFIX):
            for key, name in cursor.iternext():
                if not key.startswith(STORE_PREFIX):
                    break
                self._rows[key] = name.decode()

    def of(self, stored: StoredTable, attribute: str = RECORDS) -> str:
        """The name of the store of an index, or of the records."""
        return self._rows.get(store_key(stored.number, attribute)) or default_name(stored, attribute)

    def all_of(self, stored: StoredTable) -> Iterator[str]:
        """The names of all stores of a table."""
        yield self.of(stored)
        for attribute in indexed_attributes(stored.definition):
            yield self.of(stored, attribute)


def default_name(stored: StoredTable, attribute: str) -> str:
    return f"{stored.definition.name}/{attribute}"


def forget_names(txn: Txn, definitions: Handle, stored: StoredTable) -> None:
    """The stores of a table, which are empty, become spare."""
    for attribute in (RECORDS, *indexed_attributes(stored.definition)):
        txn.delete(store_key(stored.number, attribute), b"", definitions)


class NamePool:
    """The names that a schema change may give to new stores. `existing`: of all stores there are. `used`: of those that belong to something."""

    def __init__(self, existing: set[str], used: set[str]) -> None:
        self.existing = existing
        self.used = used

    def take(self, stored: StoredTable, attribute: str) -> str:
        """A name for a new index, or for the records of a new table: that of a spare store if there is one."""
        name = default_name(stored, attribute)
        if name in self.used or name not in self.existing:
            spare = self.spare(records=not attribute)
            if spare:
                name = spare[0]
            elif name in self.used:
                end = attribute and "index"
                name = next(name for number in count(1) if (name := f"${number}/{end}") not in self.existing)
        self.used.add(name)
        self.existing.add(name)
        return name

    def spare(self, *, records: bool) -> list[str]:
        """In order, so that all processes take the same."""
        return sorted(name for name in self.existing - self.used if name.endswith("/") == records)
