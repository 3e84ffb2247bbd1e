"""The events of a live query, and the snapshots they begin with. Applied in order, they always give the result of the query at that time:

    snapshot    {type, id, value, index}             a row of the result as it was when the snapshot began
    ready       {type, count, localTime}             the snapshot is complete: it had `count` rows
    enter       {type, id, value, index, localTime}  a row has entered the result
    update      {type, id, value, index, localTime}  a row of the result has changed, or has moved
    leave       {type, id, value, index, localTime}  a row has left; `value` is null, `index` the one before
    reset       {type, reason}                       forget all rows: a new snapshot follows

`index` is there if rows have an order: with `sort`, `limit`, `facet`, `group`. It counts from 0 and is the position in the result once the event is
applied. All that a client has to do, for rows in order and for rows by id:

    reset                           list = []                           map = {}
    snapshot, enter, update         remove `id` if it is there,         map[id] = value
                                    insert the row at `index`
    leave                           remove `id` if it is there          delete map[id]

`id` is the key of the record; of a facet the value, of a group the list of the values it is grouped by, of a row about all records null.
An `enter` may be of a row that the client has, and a `leave` of one that it has not, if the record had expired before: the rules above hold.
All events of one commit follow each other and carry the same `localTime` or a greater one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from svc.query.plan import AnyRows
from svc.store.env import Txn
from svc.store.snapshots import HeldSnapshot
from svc.store.values.keys import Key, decode_key, is_hashed
from svc.store.values.records import decode, decode_json, decode_payload, decode_payload_json

Read = Callable[[bytes, bool], Any]  # (content, native) -> value: see `Event.members`

EVENT_BYTES = 300  # of memory that an event holds besides its content


def read_record(raw: bytes, native: bool) -> Any:
    return decode(raw) if native else decode_json(raw)


def read_payload(payload: bytes, native: bool) -> Any:
    return decode_payload(payload) if native else decode_payload_json(payload)


class RowEvent:
    """snapshot, enter, update, leave. `content`: what the value is read from; None: no value. `was_at`: the index before, if it had one."""

    __slots__ = ("_read", "content", "id", "index", "local_time", "memo", "type", "was_at")

    def __init__(
        self, type_: str, id_: Any, content: bytes | None, read: Read, index: int | None, local_time: int | None, was_at: int | None = None
    ) -> None:
        self.type = type_
        self.id = id_
        self.content = content
        self._read = read
        self.index = index
        self.was_at = was_at
        self.local_time = local_time
        self.memo: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"<{self.type} {self.id!r}>"

    @property
    def position(self) -> int | None:
        return self.local_time

    @property
    def size(self) -> int:
        return EVENT_BYTES if self.content is None else EVENT_BYTES + len(self.content)

    def members(self, native: bool) -> dict[str, Any]:
        found: dict[str, Any] = {
            "type": self.type,
            "id": self.id,
            "value": None if self.content is None else self._read(self.content, native),
        }
        if self.index is not None:
            found["index"] = self.index
        if self.local_time is not None:
            found["localTime"] = self.local_time
        return found

    def renamed(self, type_: str) -> RowEvent:
        """The same event with another type."""
        return RowEvent(type_, self.id, self.content, self._read, self.index, self.local_time, self.was_at)


class NoticeEvent:
    """ready, reset: about the result as a whole."""

    __slots__ = ("_more", "id", "local_time", "memo", "type")

    def __init__(self, type_: str, local_time: int | None = None, **more: Any) -> None:
        self.type = type_
        self.id = None
        self.local_time = local_time
        self._more = more
        self.memo: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"<{self.type} {self._more}>"

    @property
    def position(self) -> int | None:
        return self.local_time

    @property
    def size(self) -> int:
        return EVENT_BYTES

    def members(self, native: bool) -> dict[str, Any]:
        found = {"type": self.type, **self._more}
        if self.local_time is not None:
            found["localTime"] = self.local_time
        return found


LiveEvent = RowEvent | NoticeEvent


def id_of(key: bytes) -> Any:
    """The id in an event, from an encoded key."""
    return shown_key(decode_key(key))


def shown_key(key: Key | bool | bytes | None) -> Any:
    return list(key) if type(key) is tuple else key


ROWS_PER_CHECK = 64  # made between two readings of the clock
TAKE_SECONDS = 0.002  # of work for one `take`


class Snapshot(Protocol):
    """The rows of a result at one time, on their way to one client."""

    count: int  # rows taken so far

    def take(self, limit: int) -> list[LiveEvent] | None:
        """Some rows, perhaps none for now; None: there are no more. Works for a few milliseconds at most. Raises SnapshotLost."""

    def close(self) -> None: ...


class RunSnapshot:
    """The rows that a run of the query finds, read as they are taken."""

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
        end = self._now() + TAKE_SECONDS
        while not rows.done and len(found) < limit:
            for stored, raw in rows.step_pairs(min(ROWS_PER_CHECK, limit - len(found))):
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
    """Rows that have been made."""

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


class MaterializedSnapshot:
    """The rows of a `MaterializedResult` as they were when the snapshot began, read as they are taken. `rows_at(keys, ids, first, txn)` makes them."""

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
        keys = self._keys[at : at + min(limit, ROWS_PER_CHECK)]
        if not keys:
            return None
        found: list[LiveEvent] = [*self._rows_at(keys, self._ids, at, self._held.use())]
        self.count += len(found)
        return found

    def close(self) -> None:
        self._keys = []
        self._held.abort()
