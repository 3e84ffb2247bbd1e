"""Expiry: when a record expires, and the store `$expiry` by which expired records are found (spec: schema-and-store §2, §12).

A record's expiry is given with its write, or comes from an attribute, or from the table's definition. It is in the record's header. `$expiry` holds,
for every record that has one, table number (4 bytes) and expiry (double, ms since the epoch) -> stored key, so that finding the expired records
of a table is a range scan. Expired records are invisible from the time of their expiry; until background work removes them (`maintenance`) they
still take space and are in the indexes.

In a table with a source (`caching`) a record past its expiry is stale instead: it is read until it is refreshed, or evicted. What eviction leaves
of it has the expiry `PARTIAL`, before any other: a process in which the table has no source does not see it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from struct import Struct as Layout
from typing import Any

from svc.store.env import Handle, Txn
from svc.store.schema import TableDefinition
from svc.store.values.validation import Validator

DEFAULT_SCAN_INTERVAL = 60.0  # seconds between two removals of expired records of a table that does not define it
SHORTEST_SCAN_INTERVAL = 1.0  # seconds

PARTIAL = 5e-324  # the expiry of what is left of a record: no record expires at that time, which is neither 0 nor a whole number of ms

_KEY = Layout(">Id")
EXPIRY_KEY_SIZE = _KEY.size


def expiry_key(table_number: int, expiry: float) -> bytes:
    """The key in `$expiry` of a record of this table. `expiry`: ms since the epoch; a negative one counts as 0."""
    return _KEY.pack(table_number, max(expiry, 0.0))


@dataclass(frozen=True, slots=True)
class ExpiryTimes:
    """Arguments of `@table`, seconds; None: as the definition says."""

    expiration: float | None = None
    eviction: float | None = None
    scan_interval: float | None = None


class TableExpiry:
    """The expiries of one table. `handle`: of `$expiry`. Times are in ms since the epoch, durations in ms."""

    __slots__ = (
        "_begin",
        "_definition",
        "_handle",
        "_number",
        "_set",
        "_validator",
        "by_attribute",
        "duration_ms",
        "eviction_ms",
        "scan_interval",
    )

    def __init__(self, handle: Handle, number: int) -> None:
        self._handle = handle
        self._number = number
        self._begin = expiry_key(number, 0.0)
        self._set: ExpiryTimes | None = None

    def redefine(self, definition: TableDefinition, validator: Validator) -> None:
        """Take over what a definition says of expiry."""
        self._validator = validator
        self._definition = definition
        self.by_attribute = any(attribute.expires_at for attribute in definition.attributes)
        times = self._set
        if times is not None:
            definition = replace(
                definition,
                expiration=definition.expiration if times.expiration is None else times.expiration,
                eviction=definition.eviction if times.eviction is None else times.eviction,
                scan_interval=definition.scan_interval if times.scan_interval is None else times.scan_interval,
            )
        self.duration_ms = None if definition.expiration is None else definition.expiration * 1000
        self.eviction_ms = definition.eviction * 1000
        self.scan_interval = scan_interval(definition)

    def set_times(self, times: ExpiryTimes | None) -> None:
        """What this process has been told in place of the definition, whatever that becomes; None: nothing."""
        self._set = times
        self.redefine(self._definition, self._validator)

    @property
    def is_possible(self) -> bool:
        """Whether a record may expire whose write says nothing of it."""
        return self.by_attribute or self.duration_ms is not None

    def time_for(self, record: dict[str, Any], given: float | None, now_ms: float) -> float | None:
        """When a record that is written now expires; None: never. `given`: with its write."""
        if given is not None:
            return given
        if self.by_attribute:
            expiry = self._validator.expiry(record)
            if expiry is not None:
                return expiry
        return None if self.duration_ms is None else now_ms + self.duration_ms

    def add(self, txn: Txn, stored: bytes, expiry: float) -> None:
        """Enter a record under its stored key."""
        txn.put(expiry_key(self._number, expiry), stored, True, True, False, self._handle)

    def remove(self, txn: Txn, stored: bytes, expiry: float) -> None:
        """Remove a record that was entered with this expiry."""
        txn.delete(expiry_key(self._number, expiry), stored, self._handle)

    def change(self, txn: Txn, stored: bytes, old: float | None, new: float | None) -> None:
        """Enter a record under another expiry than it had; None: it had, or has, none."""
        if old != new:
            if old is not None:
                self.remove(txn, stored, old)
            if new is not None:
                self.add(txn, stored, new)

    def clear(self, txn: Txn, step: int) -> Iterator[None]:
        """Remove all entries of the table, `step` times of expiry per step."""
        prefix = self._begin[:4]
        while True:
            cursor = txn.cursor(self._handle)
            for _ in range(step):
                if not cursor.set_range(prefix) or not cursor.key().startswith(prefix):
                    return
                cursor.delete(True)
            yield

    def keys(self, txn: Txn, before_ms: float, limit: int) -> list[bytes]:
        """Up to `limit` stored keys of records whose expiry is not after `before_ms`, earliest first."""
        found: list[bytes] = []
        cursor = txn.cursor(self._handle)
        end = expiry_key(self._number, before_ms)
        if cursor.set_range(self._begin):
            for key, stored in cursor.iternext():
                if key > end or len(found) == limit:
                    break
                found.append(stored)
        return found

    def whole_keys(self, txn: Txn, before_ms: float, limit: int) -> list[bytes]:
        """The same without those of which only a part is left."""
        found: list[bytes] = []
        cursor = txn.cursor(self._handle)
        partial, end = expiry_key(self._number, PARTIAL), expiry_key(self._number, before_ms)
        here = cursor.set_range(self._begin)
        while here and len(found) < limit:
            key, stored = cursor.item()
            if key > end:
                break
            if key == partial:
                here = cursor.next_nodup()
            else:
                found.append(stored)
                here = cursor.next()
        return found

    def has_due(self, txn: Txn, before_ms: float) -> bool:
        """Whether there is a record whose expiry is not after `before_ms`, or of which only a part is left. O(log n)."""
        cursor = txn.cursor(self._handle)
        return cursor.set_range(self._begin) and cursor.key() <= expiry_key(self._number, before_ms)

    def counts(self, txn: Txn, before_ms: float) -> Iterator[int]:
        """The numbers of records whose expiry is not after `before_ms`: one for each time of expiry."""
        cursor = txn.cursor(self._handle)
        end = expiry_key(self._number, before_ms)
        found = cursor.set_range(self._begin)
        while found and cursor.key() <= end:
            yield cursor.count()
            found = cursor.next_nodup()

    def entries(self, txn: Txn) -> set[tuple[bytes, bytes]]:
        """All (key in `$expiry`, stored key) of the table, for checks."""
        low, high = self._begin, expiry_key(self._number + 1, 0.0)
        found: set[tuple[bytes, bytes]] = set()
        cursor = txn.cursor(self._handle)
        if cursor.set_range(low):
            for item in cursor.iternext():
                if item[0] >= high:
                    break
                found.add(item)
        return found


def scan_interval(definition: TableDefinition) -> float:
    """Seconds between two removals of expired records (spec: schema-and-store §2)."""
    interval = definition.scan_interval
    if interval is None:
        interval = DEFAULT_SCAN_INTERVAL if definition.expiration is None else (definition.expiration + definition.eviction) / 4
    return max(interval, SHORTEST_SCAN_INTERVAL)


def next_scan(now: float, interval: float) -> float:
    """The next whole number of intervals after the start of the local year, in wall time.

    >>> start = datetime(2026, 1, 1).timestamp()
    >>> next_scan(start + 61, 60) - start, next_scan(start + 60, 60) - start
    (120.0, 120.0)
    """
    start = datetime(datetime.fromtimestamp(now).year, 1, 1).timestamp()
    return start + ((now - start) // interval + 1) * interval
