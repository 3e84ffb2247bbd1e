"""The rows of a result at one moment, on their way to one client (`subscription.Snapshot`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svc.query.plan import AnyRows
from svc.realtime.live.events import LiveEvent, Read, RowEvent, shown_key
from svc.store.env import Txn
from svc.store.snapshots import HeldSnapshot
from svc.store.values.keys import Key, decode_key, is_hashed

ROWS_AT_ONCE = 64  # made between two looks at the clock
SECONDS = 0.002  # of work for one `take`


class RunSnapshot:
    """The rows that a run of the query finds, as they are asked for."""

    def __init__(self, held: HeldSnapshot, rows: AnyRows, read: Read, key_of: Callable[[bytes], Key], now: Callable[[], float]) -> None:
        self.count = 0
        self._held = held
        self._rows = rows
        self._read = read
        self._key_of = key_of
        self._now = now

    def take(self, limit: int) -> list[LiveEvent] | None:
        rows = self._rows
        if rows.done:
            return None
        self._held.use()
        found: list[LiveEvent] = []
        end = self._now() + SECONDS
        while not rows.done and len(found) < limit:
            for stored, raw in rows.step_pairs(min(ROWS_AT_ONCE, limit - len(found))):
                id_ = shown_key(self._key_of(raw) if is_hashed(stored) else decode_key(stored))
                found.append(RowEvent("snapshot", id_, raw, self._read, None, None))
            if self._now() >= end:
                break
        self.count += len(found)
        return None if not found and rows.done else found

    def close(self) -> None:
        self._rows.close()
        self._held.abort()


class ListSnapshot:
    """Rows that are there."""

    __slots__ = ("_rows", "count")

    def __init__(self, rows: list[RowEvent]) -> None:
        self._rows = rows
        self.count = 0

    def take(self, limit: int) -> list[LiveEvent] | None:
        at = self.count
        if at >= len(self._rows):
            return None
        found: list[LiveEvent] = [*self._rows[at : at + limit]]
        self.count += len(found)
        return found

    def close(self) -> None:
        self._rows = []


class KeptSnapshot:
    """Rows that are read as they are asked for, as they were when it began. `rows_at(keys, ids, first, txn)` makes them."""

    def __init__(
        self,
        rows_at: Callable[[list[bytes], dict[bytes, Any], int, Txn], list[RowEvent]],
        keys: list[bytes],
        ids: dict[bytes, Any],
        held: HeldSnapshot,
    ) -> None:
        self._rows_at = rows_at
        self._keys = keys
        self._ids = ids
        self._held = held
        self.count = 0

    def take(self, limit: int) -> list[LiveEvent] | None:
        at = self.count
        keys = self._keys[at : at + min(limit, ROWS_AT_ONCE)]
        if not keys:
            return None
        found: list[LiveEvent] = [*self._rows_at(keys, self._ids, at, self._held.use())]
        self.count += len(found)
        return found

    def close(self) -> None:
        self._keys = []
        self._held.abort()
