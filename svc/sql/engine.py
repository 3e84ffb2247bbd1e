"""Runs statements of SQL for all who ask (spec: sql).

    text --parser--> tree --binding--> SQLite's SQL --Connection--> rows
                         '--writing--> queries, and writes of the store

What does not depend on the values of parameters is kept: a statement that was seen before for callers who see the same is neither parsed nor bound again,
nor is one that differs from it in values it is compared with (`shapes`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Hashable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import apsw

from svc.auth.users import User
from svc.awaitables import is_waiting
from svc.errors import QueryTooLarge, RowNotAllowed
from svc.sql.binding import bind_query
from svc.sql.binding.figures import StoreFigures
from svc.sql.bound import BoundQuery
from svc.sql.catalogue import ColumnView
from svc.sql.connections import Connection, ConnectionPool
from svc.sql.explaining import explained
from svc.sql.nodes import Explain, Query
from svc.sql.options import DEFAULT_OPTIONS, SqlOptions
from svc.sql.parameters import Parameters, values_of
from svc.sql.parser import parse
from svc.sql.results import named_rows_reader, rows_reader
from svc.sql.rights import FoundTables, TableViews, UserCatalogue
from svc.sql.row_filters import RowFilters
from svc.sql.running import TURN, BoundStatement, SqlRows, ThreadRun, run_in_turn
from svc.sql.shapes import ShapeCache, shape_of
from svc.sql.sources import Given, PrivateSource, StateHasMoved, TurnSource
from svc.sql.tables.values import SqlValue
from svc.sql.threads import StatementThreads
from svc.sql.work import TurnIsOver, Work, too_many_rows
from svc.sql.writing import AskedQuery, BoundQueries, queries_of_write, run_write
from svc.sql.writing.joined_runs import JoinedSource
from svc.sql.writing.reading import Columns, Reading, Row, SharedSource, TooLong
from svc.store import Store

MOST_PREPARED = 512  # statements that are remembered
LONGEST_PREPARED = 8192  # characters; a longer one is rarely sent twice
LONG_TEXT = 4096  # characters, of which parsing takes as long as a slice may


@dataclass(slots=True)
class SqlCaller:
    """Whose statement it is. `context`: what the answer to a write waits with (`commit.TransactionHolder`), which has a `trace_id`. `authorized` False: rights
    are not checked. `joined`: the transaction of an application that it is part of. `explain`: its plan is wanted instead. `reader`: its name in the log.
    """

    user: User | None
    context: Any = None
    authorized: bool = True
    joined: Any = None
    explain: bool = False
    reader: str = "the answer to a statement of SQL"


class _Prepared:
    """A statement that was seen. `bound`: of a query, or of one whose plan is wanted; None: it writes. `read`: makes rows of the result of rows of SQLite.
    `is_long`: it did not end within a turn the last time."""

    __slots__ = ("bound", "columns", "is_long", "is_narrowed", "parameters", "read", "statement", "writes")

    def __init__(self, statement: Any, bound: BoundQuery | None) -> None:
        self.statement = statement
        self.bound = bound
        self.parameters = Parameters(statement)
        self.is_long = False
        self.is_narrowed = bound is not None and any(view.is_narrowed for view in bound.tables)  # callers see different records
        columns = () if bound is None else bound.columns
        self.columns = tuple([column.name for column in columns])
        self.read = named_rows_reader(columns, () if bound is None else bound.layout)
        self.writes = BoundQueries()

    @property
    def is_current(self) -> bool:
        if self.bound is not None:
            for view in self.bound.tables:
                if not view.is_current:
                    return False
        return True


class SqlEngine:
    """`executor`: threads for what takes longer than a turn."""

    def __init__(self, store: Store, executor: Executor, options: SqlOptions = DEFAULT_OPTIONS) -> None:
        self.store = store
        self.options = options
        self._views = TableViews(store)
        self._pool = ConnectionPool(self._connect)
        self._threads = StatementThreads(executor, self._pool, store.clock.monotonic)
        self._prepared: dict[tuple[str, Hashable], _Prepared] = {}
        self._shapes: ShapeCache[_Prepared] = ShapeCache(MOST_PREPARED)
        apsw.hard_heap_limit(4 * options.max_memory)  # of the process, should the limit of a statement be passed in one step

    # -- for all who ask

    def run(self, text: str, parameters: Any, caller: SqlCaller) -> Any:
        """SqlRows; the body of the answer to a write, with RETURNING a list of rows; a list of rows of a plan; or an awaitable of one of these. What is
        applied and not committed yet is the `pending_commit` of the caller's context. Raises Problem."""
        if len(text) > LONG_TEXT:
            return self._run_long_text(text, parameters, caller)
        catalogue = self.catalogue(caller)
        prepared = self._prepared.get((text, catalogue.key))
        if prepared is None or not prepared.is_current:
            shape = None if parameters or caller.explain or len(text) > self.options.max_length else shape_of(text)
            found = None if shape is None else self._shapes.find(shape, catalogue.key)
            if found is not None:
                found[0].parameters.check(parameters)
                return self._query(text, found[0], parameters, caller, catalogue.key, found[1])
            prepared = self._prepare(text, parse(text, self.options.max_length), catalogue)
            if shape is not None and type(prepared.statement) is not Explain:
                self._shapes.learn(shape, catalogue.key, prepared)
        return self._run(text, prepared, parameters, caller, catalogue.key)

    def close(self) -> None:
        """Statements that are open are given up. The loop is held until no thread works for them."""
        self._prepared.clear()
        self._shapes.clear()
        self._threads.close()

    async def _run_long_text(self, text: str, parameters: Any, caller: SqlCaller) -> Any:
        if len(text) > self.options.max_length:
            raise QueryTooLarge(
                f"The statement has {len(text)} characters, more than {self.options.max_length} (sql.maxLength): give lists of values as one parameter"
                " and read it with json_each(?)",
                budget="statement",
            )
        statement = await self._threads.run(partial(parse, text, self.options.max_length))
        catalogue = self.catalogue(caller)
        query = statement.statement if isinstance(statement, Explain) else statement
        bound = None
        if isinstance(query, Query):
            bound = await self._threads.run(partial(bind_query, query, FoundTables(catalogue, query), text))
        prepared = _Prepared(statement, bound)
        if not prepared.is_current:  # the tables have changed meanwhile
            return await self._run_long_text(text, parameters, caller)
        self._keep(text, prepared, catalogue.key)
        result = self._run(text, prepared, parameters, caller, catalogue.key)
        return await result if is_waiting(result) else result

    def _prepare(self, text: str, statement: Any, catalogue: UserCatalogue) -> _Prepared:
        query = statement.statement if isinstance(statement, Explain) else statement
        bound = bind_query(query, catalogue, text, figures=StoreFigures()) if isinstance(query, Query) else None
        return self._keep(text, _Prepared(statement, bound), catalogue.key)

    def _keep(self, text: str, prepared: _Prepared, key: Hashable) -> _Prepared:
        if len(text) <= LONGEST_PREPARED:
            if len(self._prepared) >= MOST_PREPARED:
                del self._prepared[next(iter(self._prepared))]
            self._prepared[text, key] = prepared
        return prepared

    def _run(self, text: str, prepared: _Prepared, parameters: Any, caller: SqlCaller, key: Hashable) -> Any:
        prepared.parameters.check(parameters)
        if caller.explain or type(prepared.statement) is Explain:
            return self._explain(text, prepared, parameters, caller, key)
        if prepared.bound is None:
            return run_write(prepared.statement, text, parameters, caller, self, prepared.writes)
        return self._query(text, prepared, parameters, caller, key)

    # -- queries

    def _query(
        self, text: str, prepared: _Prepared, parameters: Any, caller: SqlCaller, key: Hashable, values: tuple[SqlValue, ...] | None = None
    ) -> Any:
        """`values`: of `bound.constants`, for another text of the same shape."""
        bound = prepared.bound
        assert bound is not None
        statement = BoundStatement(bound, values_of(bound, parameters) if values is None else values, prepared.read, text)
        work = Work(self.options, self.store.clock)
        filters = None
        if prepared.is_narrowed:
            filters = RowFilters(caller.user)
            filters.cover(bound.tables)
        joined = caller.joined
        if joined is not None and (joined.is_lasting or any(joined.has_written_to(view.table.database) for view in bound.tables)):
            return self._query_joined(key, statement, work, caller, filters)
        if not prepared.is_long:
            try:
                return SqlRows(prepared.columns, self._run_in_turn(key, statement, TurnSource(work.wall_ms, filters=filters), work))
            except TurnIsOver:
                prepared.is_long = True
        if joined is not None:
            return self._query_joined(key, statement, work, caller, filters)
        source = PrivateSource(self.store, bound.tables, caller.reader, work.wall_ms, filters=filters)
        return self._begin(self._thread_run(key, statement, source, work), prepared, work)

    async def _query_joined(
        self, key: Hashable, statement: BoundStatement, work: Work, caller: SqlCaller, filters: RowFilters | None
    ) -> SqlRows:
        """What the transaction of an application has written is part of what is read. All rows: the transaction may end before they are read."""
        below = JoinedSource(filters)
        try:
            await below.open(caller.joined, {view.table.database for view in statement.bound.tables})
            found: list[Any] = []
            async for rows in self._read_shared(key, statement, below, work, caller.reader):
                found += rows
                if len(found) > self.options.max_rows:
                    raise too_many_rows(self.options)
            return SqlRows(tuple([column.name for column in statement.bound.columns]), found)
        finally:
            below.close()

    async def _read_shared(
        self,
        key: Hashable,
        statement: BoundStatement,
        below: Any,
        work: Work,
        reader: str,
        columns: Columns | None = None,
        given: Given | None = None,
    ) -> AsyncGenerator[list[Any]]:
        """The rows, some at a time, of transactions that others read too, which only the loop may: what takes longer reads the same in private ones."""
        turn = TurnSource(work.wall_ms, below, given, below.filters)
        try:
            found = self._run_in_turn(key, statement, turn, work, columns)
        except TurnIsOver:
            try:
                source = PrivateSource(self.store, statement.bound.tables, reader, work.wall_ms, below, given, below.filters)
            except StateHasMoved:
                found = self._run_late(key, statement, turn, work, columns)
            else:
                run = self._thread_run(key, statement, source, work, columns)
                try:
                    while not run.done:
                        yield await run.more()
                finally:
                    run.close()
                return
        yield found

    def _run_late(self, key: Hashable, statement: BoundStatement, source: Any, work: Work, columns: Columns | None) -> list[Any]:
        try:
            return self._run_in_turn(key, statement, source, work, columns, LATE)
        except TurnIsOver:
            raise QueryTooLarge(
                "The statement takes too long in a transaction that has read before others have written: run it first, or outside of the transaction",
                budget="seconds",
            ) from None

    def _run_in_turn(
        self, key: Hashable, statement: BoundStatement, source: Any, work: Work, columns: Columns | None = None, seconds: float = TURN
    ) -> list[Any]:
        """All rows. Raises TurnIsOver."""
        connection = self._pool.take(key)
        try:
            connection.declare(statement.bound.declared, columns)
            connection.begin(statement.bound, source)
            return run_in_turn(connection, statement, work, seconds)
        finally:
            self._pool.give_back(connection)

    def _thread_run(self, key: Hashable, statement: BoundStatement, source: Any, work: Work, columns: Columns | None = None) -> ThreadRun:
        """`source` is closed with it. Raises Overloaded."""
        connection = None
        try:
            self._threads.make_room()
            connection = self._pool.take(key)
            connection.declare(statement.bound.declared, columns)
        except BaseException:
            if connection is not None:
                self._pool.give_back(connection)
            source.close()
            raise
        connection.begin(statement.bound, source)
        return ThreadRun(connection, self._threads, source, statement, work)

    @staticmethod
    async def _begin(run: ThreadRun, prepared: _Prepared, work: Work) -> SqlRows:
        found = await run.more()
        prepared.is_long = not run.done or work.worked > TURN  # with other parameters it may be short
        return SqlRows(prepared.columns, found, run)

    # -- plans

    def _explain(self, text: str, prepared: _Prepared, parameters: Any, caller: SqlCaller, key: Hashable) -> Any:
        asked: list[AskedQuery]
        if prepared.bound is not None:
            asked = [(prepared.bound, {})]
        else:
            key = _WRITES
            write: Any = prepared.statement
            if type(write) is Explain:
                write = write.statement
            asked = queries_of_write(write, text, parameters, caller, self)
        hiding = next((view for bound, _ in asked for view in bound.tables if view.is_narrowed), None)
        if hiding is not None:  # with two conditions, of which one is about what is hidden, a plan counts what is hidden
            raise RowNotAllowed(
                f"Rules on rows narrow what this role may read of {hiding.table.name}, and the plan depends on what is hidden: ask a super user for it",
                caller.user,
            )
        rows: list[Any] = []
        names = {view.sql_name: view.table.name for bound, _ in asked for view in bound.tables}
        for bound, columns in asked:
            query = BoundStatement(
                replace(bound, text=f"EXPLAIN QUERY PLAN {bound.text}"), values_of(bound, parameters), list, text, is_kept=False
            )
            work = Work(self.options, self.store.clock)
            source = TurnSource(work.wall_ms, None, dict.fromkeys(columns, ()))
            rows += self._run_in_turn(key, query, source, work, columns, self.options.max_time)
        return explained(rows, names)

    # -- for writes (`writing.write_run.WriteEngine`)

    @property
    def max_memory(self) -> int:
        return self.options.max_memory

    def catalogue(self, caller: Any) -> UserCatalogue:
        """The tables as the caller sees them."""
        return UserCatalogue(self._views, caller.user, is_checked=caller.authorized)

    def bind(self, query: Query, catalogue: Any, text: str, given: Mapping[str, tuple[ColumnView, ...]]) -> BoundQuery:
        return bind_query(query, catalogue, text, given=given)

    def read_now(self, reading: Reading, parameters: Any, source: SharedSource) -> list[Row]:
        """All rows with values as records have them, read in the turn. Raises TooLong."""
        work = Work(self.options, self.store.clock)
        turn = TurnSource(work.wall_ms, source, reading.given, source.filters)
        try:
            return self._run_in_turn(_WRITES, self._for_write(reading, parameters), turn, work, reading.columns)
        except TurnIsOver:
            raise TooLong from None

    async def read(self, reading: Reading, parameters: Any, source: SharedSource) -> AsyncGenerator[list[Row]]:
        """The same some at a time, read by a thread."""
        work = Work(self.options, self.store.clock)
        statement = self._for_write(reading, parameters)
        if source.is_shared:
            async for rows in self._read_shared(_WRITES, statement, source, work, "a write in SQL", reading.columns, reading.given):
                yield rows
            return
        run = self._thread_run(_WRITES, statement, TurnSource(work.wall_ms, source, reading.given, source.filters), work, reading.columns)
        try:
            while not run.done:
                yield await run.more()
        finally:
            run.close()
            await run.ended()  # what it reads is ended by the write

    @staticmethod
    def _for_write(reading: Reading, parameters: Any) -> BoundStatement:
        bound = reading.query
        return BoundStatement(bound, values_of(bound, parameters), rows_reader(bound.columns), bound.text)

    # -- connections

    def _connect(self, key: Hashable) -> Connection:
        return Connection(key, self.options, self.store.clock)


_WRITES = "writes"  # the key of connections for queries of writes, whose rights binding has checked
LATE = 0.05  # seconds in the turn for what no thread can read
