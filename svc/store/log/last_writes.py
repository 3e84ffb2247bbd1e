"""When each table was last written to (spec: operations §2, `last_updated_record`).

Nobody keeps that up to date: it would be one more change in every commit, for a figure that is rarely looked at. The log knows. It is read
backwards until every table that is asked about has been met, in steps; later only what has come since is read. Of a table that the log no
longer has, the versions of the records are read, unless it has very many of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from svc.store.disk.faults import LmdbError, store_problem
from svc.store.env import Environment, Txn
from svc.store.values.keys import after
from svc.store.values.records import version_of

if TYPE_CHECKING:
    from svc.store.env import Handle
    from svc.store.log.transaction_log import TransactionLog

STEP = 256  # entries or records read between two reads of the clock
MOST_RECORDS = 1_000_000  # of a table whose records are looked at


class Records(Protocol):
    """The table whose last write is asked for."""

    number: int
    primary: Handle

    def entry_count(self, txn: Txn) -> int: ...


class LastWrites:
    """Of one database."""

    __slots__ = ("_env", "_found", "_high", "_log", "_low")

    def __init__(self, env: Environment, log: TransactionLog) -> None:
        self._env = env
        self._log = log
        self._found: dict[int, float] = {}  # number of a table -> version
        self._low = self._high = 0  # LSNs: what has been read begins here, and ends before this; 0: nothing has

    def of(self, table: Records) -> float | None:
        """Version of the newest write, as of the last `find` for this table; None if there was none, or it is not known."""
        return self._found.get(table.number)

    def find(self, table: Records) -> Iterator[None]:
        """Bring `of` up to date, in steps of less than a millisecond, each on the snapshot of its turn."""
        try:
            yield from self._newer()
            yield from self._older(table.number)
            if table.number not in self._found:
                yield from self._records(table)
        except LmdbError as error:
            raise store_problem(error, self._env.path) from error

    def _newer(self) -> Iterator[None]:
        """What has come since."""
        if not self._high:
            newest = self._log.newest(self._env.snapshot())
            if newest is None:
                return
            self._low = self._high = newest.lsn + 1
        while True:
            count = 0
            for lsn, number, version in self._log.read_versions(self._env.snapshot(), self._high, STEP):
                self._found[number] = max(version, self._found.get(number, 0.0))
                self._high = lsn + 1
                count += 1
            if count < STEP:
                return
            yield

    def _older(self, number: int) -> Iterator[None]:
        while number not in self._found and self._low:
            count = 0
            for lsn, other, version in self._log.read_versions(self._env.snapshot(), self._low, STEP, reverse=True):
                self._found[other] = max(version, self._found.get(other, 0.0))
                self._low = lsn
                count += 1
            if count < STEP:
                return
            yield

    def _records(self, table: Records) -> Iterator[None]:
        """The log begins after the last write."""
        newest, position = 0.0, b""
        if table.entry_count(self._env.snapshot()) > MOST_RECORDS:
            return
        while True:
            cursor = self._cursor(table, self._env.snapshot(), position)
            if cursor is None:
                break
            for stored, raw in islice(cursor, STEP):
                newest = max(newest, version_of(raw))
                position = stored
            yield
        if newest:
            self._found[table.number] = max(newest, self._found.get(table.number, 0.0))

    @staticmethod
    def _cursor(table: Records, txn: Txn, position: bytes) -> Iterator[tuple[bytes, bytes]] | None:
        cursor = txn.cursor(table.primary)
        return cursor.iternext() if (cursor.set_range(after(position)) if position else cursor.first()) else None
