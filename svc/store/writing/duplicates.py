"""Whether the records of a table allow that an attribute becomes `@unique` (spec: schema-and-store §3.1, §7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from svc.errors import SchemaError
from svc.store.indexes.build import value_reader
from svc.store.values.conversion import printable, shown
from svc.store.values.keys import NULL_KEY, after, encode_key
from svc.store.writing.constraints import unique_values

if TYPE_CHECKING:
    from svc.store.env import Txn
    from svc.store.indexes.index import Index
    from svc.store.table import Table

SHOWN_VALUES = 5
SHOWN_KEYS = 3


def refuse_duplicates(txn: Txn, table: Table, index: Index, now_ms: float, *, is_built: bool) -> None:
    """Raise SchemaError, with some of them, if several records have one value of this attribute. `is_built`: the index has all entries.

    Reads the index, or without it every record.
    """
    value_of = value_reader(index)
    suspects = _by_index(txn, table, index) if is_built else sharing(lambda: _records(txn, table), value_of)
    found = (
        (table.key_of(raw), value_of(raw))
        for stored in suspects
        if (raw := table.read(stored, txn)) is not None and table.is_live(raw, now_ms)
    )
    fault = fault_of_duplicates(table.name, index.attribute, found)
    if fault is not None:
        raise SchemaError(fault)


def fault_of_duplicates(table: str, attribute: str, suspects: Iterable[tuple[Any, Any]]) -> str | None:
    """Why an attribute cannot be unique, None if it can. `suspects`: (key, value of the attribute) of all records that may share a value with others."""
    holders: dict[bytes, _Holders] = {}
    for key, found in suspects:
        for encoded, value in {encode_key(value): value for _, value in unique_values(found)}.items():
            holders.setdefault(encoded, _Holders(value)).keys.append(key)
    doubles = [found for _, found in sorted(holders.items()) if len(found.keys) > 1]
    if not doubles:
        return None
    count = "1 value is" if len(doubles) == 1 else f"{len(doubles):,} values are"
    examples = ", ".join(map(str, doubles[:SHOWN_VALUES])) + (", ..." if len(doubles) > SHOWN_VALUES else "")
    return f"{printable(table)}.{printable(attribute)} cannot be @unique: {count} that of several records: {examples}"


class _Holders:
    """The keys of the records that have a value."""

    __slots__ = ("keys", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.keys: list[Any] = []

    def __str__(self) -> str:
        more = ", ..." if len(self.keys) > SHOWN_KEYS else ""
        return f"{shown(self.value)} ({', '.join(map(shown, self.keys[:SHOWN_KEYS]))}{more})"


def _by_index(txn: Txn, table: Table, index: Index) -> Iterator[bytes]:
    """The stored keys of the records that share an index key with others, each once."""
    found: dict[bytes, None] = {}
    for entry, count in index.values(txn, after(NULL_KEY)):
        if count > 1:
            found.update((stored, None) for _, stored in index.scan_built(txn, entry, after(entry)))
    return iter(found)


def sharing(records: Callable[[], Iterator[tuple[bytes, bytes]]], value_of: Callable[[bytes], Any]) -> Iterator[bytes]:
    """The stored keys of the records that may share a value with others, in two passes: what remains of a value in the first is a number.

    `records`: (stored key, raw) of all, from the beginning at each call.
    """
    seen: set[int] = set()
    several: set[int] = set()
    for _, raw in records():
        for number in {hash(encode_key(value)) for _, value in unique_values(value_of(raw))}:
            (several if number in seen else seen).add(number)
    if several:
        for stored, raw in records():
            if any(hash(encode_key(value)) in several for _, value in unique_values(value_of(raw))):
                yield stored


def _records(txn: Txn, table: Table) -> Iterator[tuple[bytes, bytes]]:
    for stored, raw in txn.cursor(table.primary).iternext():
        yield stored, raw if table.moves is None else table.moves.translate(raw, txn)
