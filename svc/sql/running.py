"""Running one statement: at first in the turn, for as long as the loop may be held; what takes longer is begun again on a thread (spec: sql §8).

On the thread it works for one batch of rows at a time, when somebody asks for them; in between it holds its connection and its read transactions, and no
thread. Nothing of it is used by two threads at once: `more` is not called again before it has returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from itertools import islice
from typing import Any

import apsw

from svc.errors import Problem
from svc.sql.bound import BoundQuery
from svc.sql.connections import Connection, ConnectionPool
from svc.sql.faults import problem_of
from svc.sql.results import RowReader
from svc.sql.sources import PrivateSource, TurnSource
from svc.sql.work import TurnIsOver, Work
from svc.store.writing.long_write import wait_uncancelled

TURN = 0.002  # seconds of work in the turn
AT_ONCE = 1024  # rows that are found in the turn
BATCH = 200  # rows that a thread finds at a time
BATCH_BYTES = 64 << 10  # about, of texts and bytes in them
_COUNTED = 16  # rows between two looks at their size


class BoundStatement:
    """What is to be run. `read`: makes a row of the result of one of SQLite. `shown`: the statement as sent, for the log. `is_kept`: SQLite may run it as it
    was prepared for the tables as they were."""

    __slots__ = ("bound", "is_kept", "read", "shown", "text", "values")

    def __init__(self, bound: BoundQuery, values: Sequence[Any], read: RowReader, shown: str, *, is_kept: bool = True) -> None:
        self.bound = bound
        self.text = bound.text
        self.values = values
        self.read = read
        self.shown = shown
        self.is_kept = is_kept

    def fault(self, error: apsw.Error | UnicodeError, work: Work) -> Exception:
        """What is raised for an error of SQLite."""
        if isinstance(error, apsw.InterruptError) and work.reason is not None:
            return work.reason
        return problem_of(error, self.shown, work.options)


def run_in_turn(connection: Connection, statement: BoundStatement, work: Work, seconds: float = TURN, most: int = AT_ONCE) -> list[Any]:
    """All rows. Raises TurnIsOver if they take longer, or are more than `most`, and the Problem that prevents them."""
    work.begin(seconds)
    connection.work = work
    cursor = None
    try:
        cursor = connection.db.execute(statement.text, statement.values, can_cache=statement.is_kept)
        found = list(map(statement.read, islice(cursor, most + 1)))
        if len(found) > most:
            raise TurnIsOver
    except (apsw.Error, UnicodeError) as error:
        raise statement.fault(error, work) from None
    finally:
        if cursor is not None:
            cursor.close(True)
        work.end()
        connection.work = None
    return found


class ThreadRun:
    """A statement that threads run. `close` may be called at any time, on the loop."""

    def __init__(
        self,
        connection: Connection,
        pool: ConnectionPool,
        source: TurnSource | PrivateSource,
        statement: BoundStatement,
        work: Work,
        executor: Executor,
    ) -> None:
        """`source`: closed with the run."""
        self._connection: Connection | None = connection
        self._pool = pool
        self._source = source
        self._statement = statement
        self._work = work
        self._executor = executor
        self._cursor: Any = None
        self._running: Future[list[Any]] | None = None
        self._is_closed = False
        self.done = False

    async def more(self) -> list[Any]:
        """The next rows, none at the end. Raises the Problem that ends it; then it is closed."""
        if self.done:
            return []
        if self._is_closed or self._connection is None:
            raise Problem("The statement was given up", 503)
        loop = asyncio.get_running_loop()
        try:
            self._source.begin()
            self._running = running = self._executor.submit(self._step)
            running.add_done_callback(lambda _: loop.is_closed() or loop.call_soon_threadsafe(self._has_stepped))
        except BaseException:
            self.close()
            raise
        waiting = asyncio.wrap_future(running)
        try:
            found = await asyncio.shield(waiting)
        except BaseException:
            waiting.add_done_callback(_look_at)  # nobody waits for it any more
            self.close()
            raise
        if self.done:
            self.close()
        return found

    def _step(self) -> list[Any]:
        """On a thread."""
        connection, statement, work = self._connection, self._statement, self._work
        assert connection is not None
        work.begin()
        connection.work = work
        found: list[Any] = []
        read = statement.read
        size = 0
        try:
            if self._cursor is None:
                work.check()
                self._cursor = connection.db.execute(statement.text, statement.values)
            for row in self._cursor:
                found.append(read(row))
                if not len(found) % _COUNTED:
                    size += _size(row) * _COUNTED
                    if len(found) >= BATCH or size >= BATCH_BYTES:
                        return found
            self.done = True
        except (apsw.Error, UnicodeError) as error:
            raise statement.fault(error, work) from None
        finally:
            work.end()
            connection.work = None
        return found

    def _has_stepped(self) -> None:
        self._running = None
        self._source.end()
        if self._is_closed:
            self._release()

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        running = self._running
        if running is None or running.cancel():
            self._release()
            return
        self._work.is_left = True  # the thread notices, and `_has_stepped` releases what it has
        connection = self._connection
        if connection is not None:
            connection.db.interrupt()

    async def ended(self) -> None:
        """It is closed: wait until no thread works for it any more, whatever happens to the caller. Then what it reads may be ended by others."""
        running = self._running
        if running is not None and await wait_uncancelled(running):
            raise asyncio.CancelledError

    def _release(self) -> None:
        connection, self._connection = self._connection, None
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            cursor.close(True)
        if connection is not None:
            self._pool.give_back(connection)
        self._source.close()

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True):
            self.close()


def _look_at(done: asyncio.Future[Any]) -> None:
    if not done.cancelled():
        done.exception()


def _size(row: tuple[Any, ...]) -> int:
    return sum([len(value) for value in row if type(value) is str or type(value) is bytes])


class SqlRows:
    """The rows of a query. `found`: those that are there; `more` gives the others, some at a time, until `done`."""

    def __init__(self, columns: tuple[str, ...], found: list[dict[str, Any]], run: ThreadRun | None = None) -> None:
        self.columns = columns
        self.found = found
        self._run = run

    @property
    def done(self) -> bool:
        return self._run is None or self._run.done

    async def more(self) -> list[dict[str, Any]]:
        return [] if self._run is None else await self._run.more()

    def close(self) -> None:
        """Give up what is not found yet."""
        if self._run is not None:
            self._run.close()
