"""Whether the records of a table allow that an attribute becomes `@unique` (spec: schema-and-store §3.1, §7).

The searches are iterators of short steps, so that they can be made beside requests (`unique_proof`). What they keep is bounded, but for a number for each value
where no index has the values.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from svc.errors import SchemaError
from svc.store.indexes.build import value_reader
from svc.store.slices import run_now
from svc.store.values.conversion import printable, shown
from svc.store.values.keys import NULL_KEY, after, decode_key, encode_key, is_cut
from svc.store.writing.constraints import unique_values

if TYPE_CHECKING:
    from svc.store.env import Txn
    from svc.store.indexes.index import Index
    from svc.store.table import Table

MOST_COUNTED = 10_000  # values: when so many are found, the search ends
SHOWN_VALUES = 5
SHOWN_KEYS = 3
STEP = 64  # records or values between two reads of the clock
_PARTS = 1 << 14  # of what is seen: to copy a set of a million numbers when it grows, or to free it, takes 50 ms

Records = Callable[[], Iterator[tuple[bytes, bytes]]]
"""(stored key, raw) of all live records, from the beginning at each call."""


def refuse_duplicates(txn: Txn, table: Table, index: Index, now_ms: float, *, is_built: bool) -> None:
    """Raise SchemaError, with some of them, if several records have one value of this attribute. `is_built`: the index has all entries.

    Reads the index, or without it every record, in one go.
    """
    found = Duplicates()
    steps = (
        search_index(txn, table, index, now_ms, found)
        if is_built
        else search_records(lambda: _records(txn, table, now_ms), value_reader(index), table.key_of, SeenValues(), found)
    )
    run_now(steps)
    found.refuse(table.name, index.attribute)


class Duplicates:
    """The values that several records have, collected from records that may share theirs with others. `count`: of these values."""

    def __init__(self) -> None:
        self.count = 0
        self._holders: dict[bytes, _Holders] = {}
        self._first: list[tuple[bytes, _Holders]] = []

    def add(self, key: Any, values: Iterable[Any]) -> None:
        """Each record once for each of its values. `key`: the record's."""
        for encoded, value in {encode_key(value): value for value in values}.items():
            holders = self._holders.setdefault(encoded, _Holders(value))
            holders.add(key)
            if holders.count == 2:
                self.count += 1
                insort(self._first, (encoded, holders), key=lambda each: each[0])
                del self._first[SHOWN_VALUES:]

    @property
    def are_enough(self) -> bool:
        return self.count >= MOST_COUNTED

    def forget(self) -> None:
        """No record is added any more that has one of the values added so far."""
        self._holders = {}

    def fault(self, table: str, attribute: str) -> str | None:
        """Why the attribute cannot be unique, None if it can."""
        return f"{printable(table)}.{printable(attribute)} cannot be @unique: {self.sentence()}" if self.count else None

    def sentence(self) -> str:
        """How many there are, and the first of them."""
        count = "1 value is" if self.count == 1 else f"{self.count:,} {'or more ' if self.are_enough else ''}values are"
        examples = ", ".join(str(holders) for _, holders in self._first) + (", ..." if self.count > SHOWN_VALUES else "")
        return f"{count} that of several records: {examples}"

    def refuse(self, table: str, attribute: str) -> None:
        """Raise SchemaError if it cannot."""
        fault = self.fault(table, attribute)
        if fault is not None:
            raise SchemaError(fault)


class _Holders:
    """The first keys of the records that have a value, and how many have it."""

    __slots__ = ("_keys", "_value", "count")

    def __init__(self, value: Any) -> None:
        self._value = value
        self._keys: list[Any] = []
        self.count = 0

    def add(self, key: Any) -> None:
        self.count += 1
        if self.count <= SHOWN_KEYS:
            self._keys.append(key)

    def __str__(self) -> str:
        more = ", ..." if self.count > SHOWN_KEYS else ""
        return f"{shown(self._value)} ({', '.join(map(shown, self._keys))}{more})"


class SeenValues:
    """Which values records have, as numbers of 64 bits."""

    def __init__(self) -> None:
        self.parts: list[set[int]] = [set() for _ in range(_PARTS)]

    def add(self, number: int) -> bool:
        """False: it is there already."""
        part = self.parts[number % _PARTS]
        size = len(part)
        part.add(number)
        return len(part) > size

    def remove(self, number: int) -> None:
        self.parts[number % _PARTS].discard(number)


def numbers_of(value: Any) -> set[int]:
    """Those of the values that nothing else may have."""
    return {hash(encode_key(each)) for _, each in unique_values(value)}


def search_index(txn: Txn, table: Table, index: Index, now_ms: float, found: Duplicates) -> Iterator[None]:
    """Enter the duplicates of an index that has all values. Raises IndexRebuilding."""
    value_of = value_reader(index)
    for number, (entry, count) in enumerate(index.values(txn, after(NULL_KEY)), 1):
        if count > 1:
            found.forget()
            enough = found.count + 1
            whole = None if is_cut(entry) else [decode_key(entry)]
            for seen, (_, stored) in enumerate(index.scan_built(txn, entry, after(entry)), 1):
                raw = table.read(stored, txn)
                if raw is not None and table.is_live(raw, now_ms):
                    found.add(table.key_of(raw), whole or [value for key, value in unique_values(value_of(raw)) if key == entry])
                if not seen % STEP:
                    yield
                if seen > STEP and found.count == enough and whole:
                    break  # it is one value, and more of its records would not be shown
            if found.are_enough:
                return
        if not number % STEP:
            yield


def search_records(
    records: Records, value_of: Callable[[bytes], Any], key_of: Callable[[bytes], Any], seen: SeenValues, found: Duplicates
) -> Iterator[None]:
    """Enter the duplicates of a table by reading its records, once or, if there seem to be some, twice. Afterwards `seen` has all values."""
    several: set[int] = set()
    for count, (_, raw) in enumerate(records(), 1):
        several.update([number for number in numbers_of(value_of(raw)) if not seen.add(number)])
        if not count % STEP:
            yield
            if len(several) >= MOST_COUNTED:
                break
    if several:
        for count, (_, raw) in enumerate(records(), 1):
            found.add(key_of(raw), [value for _, value in unique_values(value_of(raw)) if hash(encode_key(value)) in several])
            if not count % STEP:
                yield


def _records(txn: Txn, table: Table, now_ms: float) -> Iterator[tuple[bytes, bytes]]:
    for stored, raw in txn.cursor(table.primary).iternext():
        if table.is_live(raw, now_ms):
            yield stored, raw if table.moves is None else table.moves.translate(raw, txn)
