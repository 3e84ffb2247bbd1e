"""Collections as bytes (contract: http §8): an array that is encoded as its records are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from svc.errors import Problem
from svc.resources import Rows
from svc.store import records

encode_json = msgspec.json.Encoder().encode
BATCH_ROWS = 128  # encoded in well under a millisecond


def narrow(record: dict[str, Any], visible: frozenset[str]) -> dict[str, Any]:
    """Only the attributes the caller may read."""
    return {name: value for name, value in record.items() if name in visible}


class JsonRows:
    """An iterator of chunks of one JSON array. Owns its snapshot and gives it back when it ends or is closed.

    A failure after the first byte becomes the last element, `{"error": ...}`, and the array is closed (http §8).
    """

    __slots__ = ("_encode", "_first", "_held", "_last_size", "_next_batch", "_release", "_report", "_run", "_state", "_visible")

    def __init__(self, rows: Rows, txn: Any, now_ms: float, release: Callable[[], None], report: Callable[[BaseException], None]) -> None:
        """`release` gives the snapshot back, `report` logs a defect met while streaming."""
        self._run = rows.plan.run(txn, now_ms, json=True)
        self._next_batch = self._run.next_batch
        # A plan without a select yields stored bytes; one with a select yields shaped values.
        self._visible = rows.visible
        self._encode = self._encode_stored if rows.plan.select is None else encode_json
        self._release = release
        self._report = report
        self._first = True
        self._state = 0  # 0 not begun, 1 under way, 2 done
        self._held = b""  # encoded by `whole` and not yet given out
        self._last_size = 0  # rows in the newest batch

    def whole(self) -> bytes | None:
        """The complete array when it is short, else None: then iterate. A faulty query raises here, before anything is sent."""
        first = next(self)
        if self._last_size == BATCH_ROWS:
            self._held = first
            return None
        second = next(self, b"")
        if self._state == 2:
            return first + second
        self._held = first + second
        return None

    def _encode_stored(self, batch: list[bytes]) -> bytes:
        decode = records.decode_json
        visible = self._visible
        if visible is None:
            return encode_json([decode(raw) for raw in batch])
        return encode_json([narrow(decode(raw), visible) for raw in batch])

    def __iter__(self) -> JsonRows:
        return self

    def __next__(self) -> bytes:
        if self._held:
            held, self._held = self._held, b""
            return held
        if self._state == 2:
            raise StopIteration
        try:
            batch = self._next_batch(BATCH_ROWS)
            self._last_size = len(batch)
            body = self._encode(batch)[1:-1] if batch else b""
        except Exception as error:
            if self._state == 0:
                self.close()
                raise
            if not isinstance(error, Problem):
                self._report(error)
            text = error.message if isinstance(error, Problem) else "Internal Server Error"
            failure = encode_json({"error": f"{type(error).__name__}: {text}"})
            self.close()
            return (b"" if self._first else b",") + failure + b"]"
        opening = b"[" if self._state == 0 else b""
        self._state = 1
        if not batch:
            self.close()
            return opening + b"]"
        separator = b"" if self._first else b","
        self._first = False
        return opening + separator + body

    def close(self) -> None:
        if self._state != 2:
            self._state = 2
            self._run.close()
            self._release()


def small_array(rows: Rows, txn: Any, now_ms: float, limit: int) -> bytes:
    """The whole array of a query that is known to be short."""
    run = rows.plan.run(txn, now_ms, json=True)
    batch = run.next_batch(limit)
    run.close()
    if rows.plan.select is not None:
        return encode_json(batch)
    decode = records.decode_json
    if rows.visible is None:
        return encode_json([decode(raw) for raw in batch])
    return encode_json([narrow(decode(raw), rows.visible) for raw in batch])
