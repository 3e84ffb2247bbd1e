"""Rows of a query on their way into an answer (contract: http §8; schema-and-store §11.13).

    Execution   one run of a plan, a slice at a time, on the turn's snapshot or, once it outlives the turn, on its own
    RowStream   the rest of an execution as chunks of one document, pulled when the connection has room

A failure after the first byte becomes the last element of the document where its format has a place for one, else the connection is aborted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from svc.content.content_type import RowWriter
from svc.errors import Problem
from svc.resources import Rows
from svc.store.records import decode, decode_json
from svc.store.snapshots import HeldSnapshot

BATCH_ROWS = 128  # encoded in well under a millisecond
SLICE = 0.002  # seconds of work on one request before others are served
COUNT_ROWS = 1024


def narrow(record: dict[str, Any], visible: frozenset[str]) -> dict[str, Any]:
    """Only the attributes the caller may read."""
    return {name: value for name, value in record.items() if name in visible}


class Execution:
    """One run of a plan for one answer.

    `gather` finds rows until there are enough to begin the answer; between two calls `keep` must have made the snapshot the execution's own if a
    turn ends there. `rows` are what was found and not yet written: stored records, or shaped values if the plan shapes them (`shaped`).
    """

    __slots__ = ("_held", "_native", "_now", "_rows", "_visible", "_wall_ms", "closed", "found", "run", "scan_seconds", "shaped", "whole")

    def __init__(self, rows: Rows, *, native: bool, whole: bool, now: Callable[[], float], wall_ms: float) -> None:
        """`native`: values with types of their own are wanted, not their JSON form. `whole`: the answer needs all rows before it begins.
        A faulty query raises here."""
        self._rows = rows
        self._native = native
        self._visible = rows.visible
        self._now = now
        self._held: HeldSnapshot | None = None
        self._wall_ms = wall_ms
        self.closed = True  # until there is something to close
        self.run = rows.plan.run(rows.table.database.snapshot(), wall_ms, json=not native)
        self.shaped = rows.plan.is_shaped
        self.whole = whole
        self.found: list[Any] = []
        self.scan_seconds = 0.0
        self.closed = False

    @property
    def done(self) -> bool:
        return self.run.done

    def gather(self) -> bool:
        """Work for one slice; True: the answer can begin, with what is in `found`."""
        run, found, whole, now = self.run, self.found, self.whole, self._now
        began = moment = now()
        deadline = began + SLICE
        if self._held is not None:
            self._held.use()
        while not run.done:
            found += run.step(BATCH_ROWS)
            if not whole and len(found) >= BATCH_ROWS:
                break
            moment = now()
            if moment >= deadline and not run.done:
                self.scan_seconds += moment - began
                return bool(found) and not whole
        self.scan_seconds += now() - began
        return True

    def keep(self) -> None:
        """The execution outlives this turn: the turn's snapshot becomes its own."""
        if self._held is None:
            database = self._rows.table.database
            self._held = database.store.snapshots.hold(database)

    async def give_way(self) -> None:
        """Wait for the next slice: of all long work one gets it in each turn."""
        await self._rows.table.database.store.slices.take()

    def step(self) -> list[Any]:
        """Some more rows, maybe none: see `done`. `keep` must have been called. Raises SnapshotLost if that was too long ago."""
        assert self._held is not None, "the snapshot must be kept"
        self._held.use()
        return self.run.step(BATCH_ROWS)

    def count(self) -> Callable[[], int | None]:
        """A function to be called until it returns how many rows there are in all: a second run on the same snapshot, a slice at each call."""
        held = self._held
        assert held is not None, "the snapshot must be kept"
        run = self._rows.plan.run(held.use(), self._wall_ms)
        counted = 0

        def count_slice() -> int | None:
            nonlocal counted
            held.use()
            deadline = self._now() + SLICE
            while not run.done:
                counted += len(run.step_pairs(COUNT_ROWS))
                if self._now() >= deadline and not run.done:
                    return None
            return counted

        return count_slice

    def write(self, writer: RowWriter, batch: list[Any]) -> bytes:
        visible = self._visible
        if self.shaped:
            return writer.rows(batch)
        if visible is None:
            return writer.raw(batch)
        return writer.rows([narrow(decode(raw) if self._native else decode_json(raw), visible) for raw in batch])

    def values(self) -> list[Any]:
        """What was found, as values."""
        if self.shaped:
            return self.found
        values = [decode(raw) if self._native else decode_json(raw) for raw in self.found]
        return values if self._visible is None else [narrow(value, self._visible) for value in values]

    async def iter_values(self) -> AsyncIterator[Any]:
        """All rows as values, others served in between. `keep` must have been called."""
        try:
            while True:
                begun = self.gather()
                if begun:
                    values, self.found = self.values(), []
                    for value in values:
                        yield value
                    if self.done:
                        return
                await self.give_way()
        finally:
            self.close()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.run.close()
            if self._held is not None:
                self._held.abort()

    def __del__(self) -> None:
        # Of an answer that was cancelled before its first step nobody else would let go the snapshot.
        self.close()


class RowStream:
    """The chunks of one document, from what `execution` has found to its end. `b""`: nothing found in this slice."""

    __slots__ = ("_begun", "_execution", "_report", "_writer")

    def __init__(self, execution: Execution, writer: RowWriter, report: Callable[[BaseException], None]) -> None:
        """`report` logs a defect met while streaming."""
        self._execution = execution
        self._writer = writer
        self._report = report
        self._begun = False

    def __iter__(self) -> RowStream:
        return self

    def __next__(self) -> bytes:
        execution, writer = self._execution, self._writer
        if not self._begun:
            self._begun = True
            held, execution.found = execution.found, []
            return writer.begin() + execution.write(writer, held) if held else writer.begin()
        if execution.closed:
            raise StopIteration
        try:
            batch = execution.step()
            if batch:
                return execution.write(writer, batch)
            if not execution.done:
                return b""
            execution.close()
            return writer.end()
        except Exception as error:
            execution.close()
            failure = writer.failure({"error": failure_text(error)})
            if failure is None:
                raise
            if not isinstance(error, Problem):
                self._report(error)
            return failure + writer.end()

    def close(self) -> None:
        self._execution.close()


def failure_text(error: BaseException) -> str:
    """What the client may know of a failure in the middle of an answer (http §8)."""
    return f"{type(error).__name__}: {error.message if isinstance(error, Problem) else 'Internal Server Error'}"
