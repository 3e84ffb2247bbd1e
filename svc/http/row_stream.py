"""The rows of a query as the body of an answer (spec: http §8; query §11.13).

    QueryExecution   one run of a plan, a slice at a time, on the turn's snapshot or, once it outlives the turn, on its own
    RowStream   the rest of an execution as chunks of one document, pulled when the connection has room

Rows with related records in them are weighed: rows too heavy to be encoded in one slice are encoded in pieces. The work time and memory of a
query that joins, sorts or counts are limited by its budget (`svc.query.budget`).

A failure after the first byte becomes the last element of the document if its format can contain one, else the connection is aborted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, cast

from svc.content.content_type import ContentType, RowWriter, SlowRowWriter
from svc.content.heavy_rows import PIECE_ROWS, row_pieces
from svc.content.long_records import count_values, decode_record_slices, is_long
from svc.errors import Problem, QueryTooLarge, SnapshotLost
from svc.freeing import free_later
from svc.loop import contained
from svc.messages import CallState, Request
from svc.query.budget import query_limits, too_large
from svc.query.execution import execute
from svc.query.lasting_run import LastingRun
from svc.query.steps import chunks
from svc.query.totals import total_plan
from svc.resources import PlannedQuery
from svc.store.env import Txn
from svc.store.snapshots import HeldSnapshot
from svc.store.values.records import COMPRESSED, decode, decode_json, payload_size

BATCH_ROWS = 128  # encoded in well under a millisecond
SLICE = 0.002  # seconds of work on one request before other requests are served
COUNT_ROWS = 1024
_SHOWN = 200  # characters of an address in the log
HEAVY = 4 * PIECE_ROWS  # records that are encoded in one slice
MANY = 1024  # rows that are encoded in one slice
LARGE = 1 << 18  # bytes of stored records that are encoded in one slice, if it is more than one
WHOLE = 50_000  # records in a row of a type that cannot be written in pieces


def narrow(record: dict[str, Any], visible: frozenset[str]) -> dict[str, Any]:
    """Only the attributes the caller may read."""
    return {name: value for name, value in record.items() if name in visible}


class QueryExecution:
    """One run of a plan for one answer.

    `gather` finds rows until there are enough to begin the answer; between two calls `keep` must have made the snapshot the execution's own if a
    turn ends there. `found` are the rows found and not yet written: stored records, or shaped values if the plan shapes them (`shaped`).
    """

    __slots__ = (
        "_batch",
        "_counting",
        "_is_costly",
        "_lasting",
        "_native",
        "_now",
        "_reader",
        "_rows",
        "_seconds",
        "_visible",
        "_wall_ms",
        "_worked",
        "closed",
        "found",
        "is_streaming",
        "joins",
        "run",
        "scan_seconds",
        "shaped",
        "whole",
    )

    def __init__(
        self,
        rows: PlannedQuery,
        *,
        native: bool,
        whole: bool,
        now: Callable[[], float],
        wall_ms: float,
        reader: Request | str = "a result",
        held: HeldSnapshot | None = None,
        batch: int = BATCH_ROWS,
    ) -> None:
        """`native`: values with types of their own are wanted, not their JSON form. `whole`: the answer needs all rows before it begins.
        `batch`: rows that are made at one time. `reader`: named in the log if its snapshot has to be released. `held`: a snapshot of the caller's, which
        is read. An invalid query raises here."""
        self._rows = rows
        self._reader = reader
        self._native = native
        self._batch = batch
        self._visible = rows.visible
        self._now = now
        self._lasting: LastingRun | None = None  # when it is to go on in later turns
        self._counting: LastingRun | None = None  # of a second run, which counts
        self._wall_ms = wall_ms
        self.closed = True  # until there is something to close
        self.is_streaming = False  # of its only row
        self.run = execute(rows.plan, rows.table.database.snapshot() if held is None else held.use(), json=not native)
        if held is not None:
            self.borrow(held)
        self.shaped = rows.plan.is_shaped
        self.joins = self.run.joins
        self._is_costly = self.run.is_costly
        self._seconds = query_limits().seconds
        self._worked = 0.0  # seconds, in slices that are over
        self.whole = whole
        self.run.keeps_rows = True  # until it is streamed
        self.found: list[Any] = []
        self.scan_seconds = 0.0
        self.closed = False

    @property
    def done(self) -> bool:
        return self.run.done

    def gather(self) -> bool:
        """Work for one slice; True: the answer can begin, with the rows in `found`."""
        run, found, whole, now = self.run, self.found, self.whole, self._now
        began = time = now()
        deadline = began + SLICE
        if self._lasting is not None:
            self._lasting.use()
        batch = self._batch
        while not run.done:
            found += run.step(batch)
            time = now()
            if not whole and len(found) >= batch:
                break
            if time >= deadline and not run.done:
                self.scan_seconds += time - began
                self._count(time - began)
                return bool(found) and not whole
        self.scan_seconds += time - began
        return True

    def _count(self, seconds: float) -> None:
        """Add seconds of work to the budget of the query. Raises QueryTooLarge."""
        self._worked += seconds
        if self._worked > self._seconds and self._is_costly:
            raise too_large(f"takes more than {self._seconds:g} seconds of work", "query.maxTime", "seconds")

    @property
    def weight(self) -> int:
        """The number of records in `found`."""
        return sum(map(self.run.weight, self.found)) if self.run.has_weights else len(self.found)

    def is_large(self, writer: ContentType) -> bool:
        """Whether the rows in `found` are too long, or too many, to be encoded in one slice."""
        found = self.found
        if len(found) == 1 and not self.shaped and len(found[0]) <= LARGE and not found[0][0] & COMPRESSED:
            pass  # the usual answer of a search by a unique value
        elif len(found) > MANY or (not self.shaped and _size(found) > LARGE):
            return True
        return writer.is_slow and not writer.is_light(self.values())

    def keep(self) -> None:
        """Keep the turn's snapshot for later turns."""
        if self._lasting is None:
            self._lasting = LastingRun(self.run, self._rows.table.database, self._describe)

    def borrow(self, held: HeldSnapshot) -> None:
        """Read in later turns, too, in a snapshot that the caller holds: the one that was read so far."""
        self._lasting = LastingRun(self.run, self._rows.table.database, self._describe, held)

    def _describe(self) -> str:
        return self._reader if isinstance(self._reader, str) else reader_of(self._reader)

    def _use(self) -> Txn:
        """The kept snapshot, for a step."""
        assert self._lasting is not None, "the snapshot must be kept"
        return self._lasting.use()

    async def wait_for_slice(self) -> None:
        """Wait for the next slice of work: one long request gets it in each turn."""
        await self._rows.table.database.store.slices.take()

    def step(self) -> list[Any]:
        """The next rows, maybe none: see `done`. `keep` must have been called. Raises SnapshotLost as `LastingRun.use` does."""
        self._use()
        if not self._is_costly:
            return self.run.step(BATCH_ROWS)
        self.run.keeps_rows = False
        began = self._now()
        rows = self.run.step(BATCH_ROWS)
        self._count(self._now() - began)
        return rows

    def count(self) -> Callable[[], int | None]:
        """A function to be called until it returns how many rows there are in all: a second run on the same snapshot, a slice at each call."""
        lasting = self._lasting
        assert lasting is not None, "the snapshot must be kept"
        run = execute(self._rows.plan, lasting.use())
        if lasting.has_moved and self.found:
            raise SnapshotLost("The rows could not be counted, the snapshot of the first of them was given up")
        counting = self._counting = lasting.beside(run)
        lasting.is_fixed = counting.is_fixed = True
        counted = 0

        def count_slice() -> int | None:
            nonlocal counted
            counting.use()
            deadline = self._now() + SLICE
            while not run.done:
                counted += len(run.step_pairs(COUNT_ROWS))
                if self._now() >= deadline and not run.done:
                    self._count(SLICE)
                    return None
            counting.close()
            return counted

        return count_slice

    def total(self) -> Callable[[], int | None]:
        """A function to be called until it returns how many records the query finds without its limit and cursor, a slice at each call; `keep` must have
        been called in between. It counts as work of a query that counts."""
        plan = self._rows.plan
        if (
            self.done
            and plan.query.after is None
            and (plan.limit is None or len(self.found) < plan.limit)
            and (self.found or not plan.offset)
        ):
            known = plan.offset + len(self.found)  # this is the last page
            return lambda: known
        self._is_costly = True
        txn = self._rows.table.database.snapshot() if self._lasting is None else self._lasting.use()
        run = execute(total_plan(plan, txn), txn)

        def count_slice() -> int | None:
            if self._counting is None and self._lasting is not None:
                self._counting = self._lasting.beside(run)
            if self._counting is not None:
                self._counting.use()
            began = self._now()
            rows: list[Any] = []
            while not run.done:
                rows += run.step(1)
                if (spent := self._now() - began) >= SLICE and not run.done:
                    self._count(spent)
                    return None
            run.close()
            if self._counting is not None:
                self._counting.close()
                self._counting = None
            return int(rows[0]["count"])

        return count_slice

    def write(self, writer: RowWriter, batch: list[Any]) -> bytes:
        visible = self._visible
        if self.shaped:
            return writer.rows(batch)
        if visible is None:
            return writer.raw(batch)
        return writer.rows([narrow(decode(raw) if self._native else decode_json(raw), visible) for raw in batch])

    def write_slowly(self, writer: SlowRowWriter, batch: list[Any]) -> Iterator[bytes]:
        """`write` for a type that `is_slow`."""
        for part in chunks(batch, BATCH_ROWS):
            yield from writer.steps(self._values(list(part)))
        free_later(batch)

    def write_by_number(self, writer: RowWriter, batch: list[Any]) -> Iterator[bytes]:
        """`write` for very many rows that were found together."""
        for part in chunks(batch, BATCH_ROWS):
            yield self.write(writer, list(part))
        free_later(batch)

    def write_by_size(self, writer: RowWriter, batch: list[Any]) -> Iterator[bytes]:
        """`write` for stored rows that are long together: as many in each piece as a slice has time for, at least one."""
        start = size = 0
        for end, raw in enumerate(batch):
            length = payload_size(raw)
            has_many = is_long(raw)
            if size and (size + length > LARGE or has_many):
                yield self.write(writer, batch[start:end])
                start, size = end, 0
            if has_many:
                yield from self._write_long(writer, raw)
                start = end + 1
            else:
                size += length
        if start < len(batch):
            yield self.write(writer, batch[start:])

    def _write_long(self, writer: RowWriter, raw: bytes) -> Iterator[bytes]:
        """One long record; b"" in a slice that only decodes."""
        steps = decode_record_slices(raw, native=self._native)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                value = done.value
                break
            yield b""
        if self._visible is not None:
            value = narrow(value, self._visible)
        pieces = writer.pieces(value, count_values)
        if pieces is None:
            yield writer.rows([value])
        else:
            yield from pieces

    def write_pieces(self, writer: RowWriter, batch: list[Any]) -> Iterator[bytes]:
        """`write` for rows of the last step, of which some may be very heavy. Each piece is made in a slice. Raises QueryTooLarge for a row that the
        format cannot write in pieces."""
        if not self.run.has_weights:
            yield writer.rows(batch)
            return
        weight = self.run.weight
        light: list[Any] = []
        together = 0
        for row in batch:
            heavy = weight(row)
            if light and together + heavy > HEAVY:
                yield writer.rows(light)
                light, together = [], 0
            if heavy <= HEAVY:
                light.append(row)
                together += heavy
                continue
            pieces = writer.pieces(row, weight)
            if pieces is not None:
                yield from pieces
            elif heavy <= WHOLE:
                yield writer.rows([row])
            else:
                raise too_heavy()
        if light:
            yield writer.rows(light)

    def value_pieces(self, writer: ContentType, value: Any) -> Iterator[bytes] | None:
        """A value of the last step in pieces; None if it is light. The execution ends with them. Raises QueryTooLarge."""
        weight = self.run.weight(value)
        if weight <= HEAVY:
            return None
        if writer.style is not None:
            self.is_streaming = True
            return self._pieces(row_pieces(value, self.run.weight, writer.style))
        if weight > WHOLE:
            raise too_heavy()
        return None

    def _pieces(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        try:
            yield from pieces
        finally:
            self.close()

    def values(self) -> list[Any]:
        """The found rows as values."""
        return self._values(self.found)

    def _values(self, found: list[Any]) -> list[Any]:
        if self.shaped:
            return found
        values = [decode(raw) if self._native else decode_json(raw) for raw in found]
        return values if self._visible is None else [narrow(value, self._visible) for value in values]

    async def iter_values(self) -> AsyncIterator[Any]:
        """All rows as values, other requests served in between. `keep` must have been called."""
        self.run.keeps_rows = False
        try:
            while True:
                begun = self.gather()
                if begun:
                    values, self.found = self.values(), []
                    for value in values:
                        yield value
                    if self.done:
                        return
                await self.wait_for_slice()
        finally:
            self.close()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.run.close()
            if len(self.found) > MANY:
                free_later(self.found.copy())  # what was given to others stays as it is
            for lasting in (self._lasting, self._counting):
                if lasting is not None:
                    lasting.close()

    def __del__(self) -> None:
        # An answer that was cancelled before its first step releases its snapshot here.
        if not self.closed:
            self.close()


def too_heavy() -> QueryTooLarge:
    return too_large(f"returns a record with more than {WHOLE} related rows, which this content type writes as a whole", "use JSON", "rows")


class RowStream:
    """The chunks of one document: the rows that `execution` has found, then the rest. `b""`: nothing found in this slice."""

    __slots__ = ("_begun", "_execution", "_pieces", "_report", "_slow_writer", "_state", "_writer")

    def __init__(
        self,
        execution: QueryExecution,
        writer: RowWriter,
        report: Callable[[BaseException], None],
        state: CallState | None = None,
        *,
        is_slow: bool = False,
    ) -> None:
        """`report` logs a defect met while streaming. `state`: its `rows` are counted. `is_slow`: `writer` is a `SlowRowWriter`."""
        self._slow_writer = cast(SlowRowWriter, writer) if is_slow else None
        self._state = state
        self._execution = execution
        self._writer = writer
        self._report = report
        self._begun = False
        self._pieces: Iterator[bytes] | None = None  # of a batch with heavy rows

    def __iter__(self) -> RowStream:
        return self

    def __next__(self) -> bytes:
        execution, writer = self._execution, self._writer
        if not self._begun:
            self._begun = True
            held, execution.found = execution.found, []
            return writer.begin() + self._write(held) if held else writer.begin()
        if execution.closed:
            raise StopIteration
        try:
            if self._pieces is not None:
                piece = next(self._pieces, None)
                if piece is not None:
                    return piece
                self._pieces = None
            if not execution.done:
                batch = execution.step()
                if batch:
                    return self._write(batch)
                if not execution.done:
                    return b""
            execution.close()
            return writer.end()
        except BaseException as raised:
            error = contained(raised)
            self._pieces = None
            execution.close()
            failure = writer.failure({"error": failure_text(error)})
            if failure is None:
                raise error
            if not isinstance(error, Problem):
                self._report(error)
            return failure + writer.end()

    def _write(self, batch: list[Any]) -> bytes:
        if self._state is not None:
            self._state.rows = (self._state.rows or 0) + len(batch)
        if self._slow_writer is not None:
            self._pieces = self._execution.write_slowly(self._slow_writer, batch)
            return next(self._pieces)
        if not self._execution.joins or not self._execution.run.has_weights:
            if self._execution.shaped and len(batch) > MANY:
                self._pieces = self._execution.write_by_number(self._writer, batch)
                return next(self._pieces)
            if self._execution.shaped or _size(batch) <= LARGE:
                return self._execution.write(self._writer, batch)
            self._pieces = self._execution.write_by_size(self._writer, batch)
            return next(self._pieces)
        self._pieces = self._execution.write_pieces(self._writer, batch)
        return next(self._pieces)

    def close(self) -> None:
        self._pieces = None
        self._execution.close()


def reader_of(request: Request) -> str:
    """What the log calls the reader of a snapshot."""
    user = "an anonymous user" if request.user is None else f"the user {request.user.username}"
    return f"the answer to {request.method} {request.target[:_SHOWN]} for {user} at {request.peer or 'a local socket'}"


def _size(rows: list[bytes]) -> int:
    """Bytes of stored records, once they are not compressed any more; about, and quickly."""
    return sum(map(len, rows)) + sum([payload_size(raw) for raw in rows if raw[0] & COMPRESSED])


def failure_text(error: BaseException) -> str:
    """The message for the client of a failure in the middle of an answer (spec: http §8)."""
    return f"{type(error).__name__}: {error.message if isinstance(error, Problem) else 'Internal Server Error'}"
