"""Collections as bytes (contract: http §8): an array that is encoded as its records are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from svc.errors import Problem
from svc.resources import Rows
from svc.store.records import decode_json, decode_json_many

encode_json = msgspec.json.Encoder().encode
BATCH_ROWS = 128  # encoded in well under a millisecond


def narrow(record: dict[str, Any], visible: frozenset[str]) -> dict[str, Any]:
    """Only the attributes the caller may read."""
    return {name: value for name, value in record.items() if name in visible}


class JsonRows:
    """An iterator of chunks of one JSON array.

    It begins on the turn's snapshot. `whole` returns the array if it fits one batch, which most do; else the snapshot becomes its own, to be given
    back when the array ends or is closed. A failure after the first byte becomes the last element, `{"error": ...}`, and the array is closed (http §8).
    """

    __slots__ = ("_encode", "_held", "_release", "_report", "_run", "_visible", "closed")

    def __init__(self, rows: Rows, now_ms: float, report: Callable[[BaseException], None]) -> None:
        """`report` logs a defect met while streaming."""
        self._run = rows.plan.run(rows.table.database.snapshot(), now_ms, json=True)
        self._visible = rows.visible
        # A plan without a select yields stored bytes; one with a select yields shaped values.
        self._encode = self._encode_stored if rows.plan.select is None else encode_json
        self._release: Callable[[], None] | None = None
        self._report = report
        self._held = b""  # encoded by `whole` and not yet given out
        self.closed = False

    def whole(self, rows: Rows) -> bytes | None:
        """The complete array if it is short, else None: then iterate. A faulty query raises here, before anything is sent."""
        run = self._run
        batch = run.next_batch(BATCH_ROWS)
        if run.done:
            self.close()
            return self._encode(batch)
        self._release = rows.table.database.take_snapshot().abort
        self._held = self._encode(batch)[:-1]
        return None

    def _encode_stored(self, batch: list[bytes]) -> bytes:
        visible = self._visible
        if visible is None:
            return encode_json(decode_json_many(batch))
        return encode_json([narrow(decode_json(raw), visible) for raw in batch])

    def __iter__(self) -> JsonRows:
        return self

    def __next__(self) -> bytes:
        if self._held:
            held, self._held = self._held, b""
            return held
        if self.closed:
            raise StopIteration
        try:
            batch = self._run.next_batch(BATCH_ROWS)
            if batch:
                return b"," + self._encode(batch)[1:-1]
            self.close()
            return b"]"
        except Exception as error:
            if not isinstance(error, Problem):
                self._report(error)
            self.close()
            text = error.message if isinstance(error, Problem) else "Internal Server Error"
            return b"," + encode_json({"error": f"{type(error).__name__}: {text}"}) + b"]"

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._run.close()
            if self._release is not None:
                self._release()
