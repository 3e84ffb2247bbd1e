"""When each table was last written to (spec: operations §2, `last_updated_record`).

To keep that with each write would be one more change in every commit, for a figure that is rarely looked at. The log knows. Background work reads it
backwards, and the versions of the records of a table that the log no longer has, unless there are very many; later it reads what has come since, and stores
what it has found (`figures`). A request does the same, but no more than MOST_STEPS times STEP entries or records of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
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
MOST_STEPS = 100  # of one request
MOST_RECORDS = 1_000_000  # of a table whose records are looked at


class Records(Protocol):
    """The table whose last write is asked for."""

    number: int
    primary: Handle

    def entry_count(self, txn: Txn) -> int: ...


class LastWrites:
    """Of one database."""

    __slots__ = ("_env", "_found", "_high", "_known", "_log", "_low")

    def __init__(self, env: Environment, log: TransactionLog) -> None:
        self._env = env
        self._log = log
        self._found: dict[int, float] = {}  # number of a table -> version
        self._known: set[int] = set()  # numbers of tables of which all is read
        self._low = self._high = 0  # LSNs: what has been read begins here, and ends before this; 0: nothing has

    def of(self, table: Records) -> float | None:
        """Version of the newest write, as of the last `find` for this table; None if there was none, or it is not known."""
        return self._found.get(table.number)

    @property
    def end(self) -> int:
        """LSN before which all has been read."""
        return self._high

    def find(self, table: Records) -> Iterator[None]:
        """Bring `of` up to date, in steps of less than a millisecond, each on the snapshot of its turn; MOST_STEPS of them."""
        return islice(self._find(table), MOST_STEPS)

    def complete(self, tables: Iterable[Records]) -> Iterator[None]:
        """Bring `of` up to date for all these tables."""
        for table in tables:
            yield from self._find(table)

    def state(self, numbers: Set[int]) -> tuple[int, dict[int, float]] | None:
        """(`end`, versions of the last writes) of the tables with these numbers; None if that of one is not known yet."""
        return (self._high, {number: self._found[number] for number in numbers & self._found.keys()}) if numbers <= self._known else None

    def restore(self, state: tuple[int, dict[int, float]]) -> None:
        """Go on from what `state` was."""
        self._high, self._found = state
        self._known = set(self._found)

    def _find(self, table: Records) -> Iterator[None]:
        try:
            yield from self._newer()
            if table.number not in self._known:
                yield from self._older(table.number)
                if table.number not in self._found:
                    yield from self._records(table)
                if self._high:  # else the log is empty, and is read from where it begins
                    self._known.add(table.number)
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
