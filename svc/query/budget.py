"""What one query may cost, beyond reading the rows that it returns: related records, memory, time (settings `query.*`).

    rows       related records that are read, and those that are returned, each occurrence counted: selections within selections multiply
    bytes      held at one time: what is sorted, grouped or joined for a batch of rows. An estimate, of about the size of the process' objects
    seconds    of the loop, for queries that join, sort or count; reading a table or an index in its own order has no limit

A plain scan costs nothing of it. Exceeding it raises QUERY_TOO_LARGE, which names the setting: as an answer where it is found before the
first byte, else as the last element of the answer (spec: http §8).
"""

from __future__ import annotations

from dataclasses import dataclass

from svc.errors import QueryTooLarge

PAIR_BYTES = 200  # of a record that is held, besides its content
VALUE_BYTES = 250  # of a shaped value, besides its members
MEMBER_BYTES = 100


@dataclass(frozen=True, slots=True)
class QueryLimits:
    related_rows: int = 5_000_000
    bytes: int = 256 << 20
    seconds: float = 60.0


AT_ONCE = QueryLimits(related_rows=20_000, bytes=32 << 20)
"""For work that cannot pause: what a live query looks up for one change."""

_limits = QueryLimits()


def set_limits(limits: QueryLimits) -> None:
    """The limits of all queries of this process that begin from now on."""
    global _limits
    _limits = limits


def query_limits() -> QueryLimits:
    return _limits


class Budget:
    """Of one execution."""

    __slots__ = ("_batch", "_kept", "_limits", "_read", "_returned")

    def __init__(self, limits: QueryLimits | None = None) -> None:
        self._limits = _limits if limits is None else limits
        self._read = 0  # related records
        self._returned = 0
        self._kept = 0  # bytes, until the end
        self._batch = 0  # bytes, for the batch of rows that is being made

    def read(self, rows: int) -> None:
        self._read += rows
        if self._read > self._limits.related_rows:
            raise self.too_many_rows("reads")

    def returned(self, rows: int) -> None:
        self._returned += rows
        self.check_rows(self._returned)

    def check_rows(self, rows: int) -> None:
        """Raise QueryTooLarge if more related records than the limit would be returned."""
        if rows > self._limits.related_rows:
            raise self.too_many_rows("returns")

    def keep(self, size: int) -> None:
        """Count bytes that are held until the end of the execution."""
        self._kept += size
        self._check_bytes()

    def replace_kept(self, old: int, new: int) -> None:
        self._kept += new - old
        self._check_bytes()

    def hold(self, size: int) -> None:
        """Count bytes that are held for this batch."""
        self._batch += size
        self._check_bytes()

    @property
    def held(self) -> int:
        return self._batch

    def end_batch(self, held: int = 0) -> None:
        """Release the bytes held for the batch, down to `held` bytes."""
        self._batch = held

    def _check_bytes(self) -> None:
        if self._kept + self._batch > self._limits.bytes:
            raise too_large(f"has to hold more than {self._limits.bytes} bytes at one time", "query.maxBytes", "bytes")

    def too_many_rows(self, verb: str) -> QueryTooLarge:
        return too_large(f"{verb} more than {self._limits.related_rows} related rows", "query.maxRelatedRows", "rows")


def too_large(what: str, setting: str, budget: str) -> QueryTooLarge:
    """`budget`: rows, bytes or seconds."""
    return QueryTooLarge(f"The query {what} ({setting}): ask for less of it, or for fewer rows at one time", budget=budget)
