"""A table as `svc check` sees it: its stores, the index keys that its records need, and how records are named in findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from svc.store.definitions import StoredTable
from svc.store.env import Handle, Txn
from svc.store.moves import Moves
from svc.store.values.computed import computed_attributes
from svc.store.values.keys import decode_key, index_keys, is_cut, is_hashed
from svc.store.values.records import decode


class CheckedTable:
    """A table as it is stored. `done`: of an index that is being built, the stored key up to which it is complete."""

    def __init__(self, stored: StoredTable, primary: Handle) -> None:
        self.stored = stored
        self.number = stored.number
        self.name = stored.definition.name
        self.primary_key = stored.definition.primary_key
        self.primary = primary
        self.indexes: dict[str, Handle] = {}
        self.done: dict[str, bytes] = {}
        self.moves: Moves | None = None  # of values to new names
        self.computed = computed_attributes(stored.definition, {}, self.name)

    def as_read(self, raw: bytes, record: dict[str, Any], txn: Txn) -> dict[str, Any]:
        """A record, undecoded and decoded, under the names that its attributes are being given."""
        if self.moves is None:
            return record
        translated = self.moves.translate(raw, txn)
        return record if translated is raw else decode(translated)

    def value(self, name: str, record: dict[str, Any]) -> Any:
        """What a record, as it is read, has of an attribute."""
        computed = self.computed.get(name)
        return record.get(name) if computed is None else computed(record)

    def demanded(self, name: str, record: dict[str, Any]) -> Sequence[bytes]:
        """The index keys of a record, as it is read."""
        return index_keys(self.value(name, record))

    def is_known(self, name: str) -> bool:
        """Whether the values of this index are."""
        computed = self.computed.get(name)
        return computed is None or computed.is_set


def show_key(key: bytes) -> str:
    """An index key for people."""
    if not is_cut(key):
        try:
            return repr(decode_key(key))
        except ValueError:
            pass
    return f"{key[:40].hex()}{'...' if len(key) > 40 else ''}"


def show_record(table: CheckedTable, stored: bytes) -> str:
    return f"{table.name} {show_key(stored) if not is_hashed(stored) else stored[:40].hex() + '...'}"
