"""The rows of a live query as one list, kept by its events (spec: graphql §7.3; realtime §1).

Where rows have an index the list has that order; else it is by primary key, whatever comes first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from svc.content.json_type import encode_json
from svc.errors import QueryError
from svc.realtime.live.events import LiveEvent, NoticeEvent, RowEvent
from svc.store.values.keys import encode_primary

MAX_ROWS = 10_000
MAX_BYTES = 4 << 20
ROW_BYTES = 200  # of memory that a row takes besides its content

_MEMO = "graphql"


class LiveRows:
    """`shaped`: what is selected of a row, None: its value is that. `is_ready`: all rows are there. `size`: bytes of memory."""

    __slots__ = ("_keys", "_rows", "_shaped", "content", "is_ready", "reason", "size")

    def __init__(self, shaped: Callable[[Any], Any] | None) -> None:
        self._shaped = shaped
        self._keys: list[bytes] = []  # in the order of the list
        self._rows: dict[bytes, bytes] = {}
        self.content = 0  # bytes of all rows
        self.size = 0
        self.is_ready = False
        self.reason = ""  # of the last reset

    def __len__(self) -> int:
        return len(self._keys)

    def apply(self, event: LiveEvent) -> None:
        """Raises QueryError when the rows are too many, or too large."""
        if type(event) is NoticeEvent:
            if event.type == "ready":
                self.is_ready = True
            else:
                self.reason = str(event.members(False).get("reason", ""))
                self.clear()
            return
        assert type(event) is RowEvent
        key = encode_primary(tuple(event.id) if type(event.id) is list else event.id)
        index = event.index
        old = self._rows.pop(key, None)
        if old is not None:
            self._count(-len(old), -1)
            if index is not None or event.type == "leave":
                del self._keys[self._position(key, event.was_at)]
        if event.type == "leave":
            return
        row = self._rows[key] = self._row(event)
        self._count(len(row), 1)
        if index is not None:
            self._keys.insert(index, key)
        elif old is None:
            self._keys.insert(bisect_left(self._keys, key), key)
        if len(self._keys) > MAX_ROWS or self.content > MAX_BYTES:
            raise QueryError(
                f"The list has more than {MAX_ROWS} records or {MAX_BYTES} bytes, too much to be sent again and again: select less, or give it a _limit",
                code="QUERY_TOO_LARGE",
            )

    def _position(self, key: bytes, was_at: int | None) -> int:
        keys = self._keys
        if was_at is not None and was_at < len(keys) and keys[was_at] == key:
            return was_at
        return keys.index(key)

    def _count(self, content: int, rows: int) -> None:
        self.content += content
        self.size += content + rows * ROW_BYTES

    def _row(self, event: RowEvent) -> bytes:
        """The JSON of a row; of an event that others get, too, it is made once."""
        shaped = self._shaped
        if shaped is not None:
            return encode_json(shaped(event.members(False)["value"]))
        found: bytes | None = event.memo.get(_MEMO)
        if found is None:
            found = event.memo[_MEMO] = encode_json(event.members(False)["value"])
        return found

    def clear(self) -> None:
        self._keys, self._rows = [], {}
        self.content = self.size = 0
        self.is_ready = False

    def array(self) -> bytes:
        """All rows, as a JSON array."""
        rows = self._rows
        return b"[" + b",".join([rows[key] for key in self._keys]) + b"]"
