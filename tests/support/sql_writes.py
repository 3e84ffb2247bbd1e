"""Statements that write, for tests: each as a request of its own, by the engine with a hand on what is too long for a turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import Executor
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from svc.auth.roles import ALL_RIGHTS, TableRights
from svc.awaitables import is_waiting
from svc.errors import Problem
from svc.sql.engine import SqlEngine
from svc.sql.parser import parse
from svc.sql.rights import UserCatalogue
from svc.sql.writing import BoundQueries, run_write
from svc.sql.writing.reading import Reading, TooLong
from svc.store import Store, Table
from svc.store.values.records import decode
from svc.testing.loop import Pool


class User:
    username = "anna"


class RightsCatalogue(UserCatalogue):
    """`given`: rights by the name of the table, of a caller who does not have all."""

    def __init__(self, views: Any, given: Mapping[str, TableRights], user: Any) -> None:
        super().__init__(views, user, is_checked=False)
        self._given = given

    def rights(self, table: Table) -> TableRights:
        return self._given.get(table.name, ALL_RIGHTS)

    def _sees_all(self, database: str) -> bool:
        return not self._given


class WatchedEngine(SqlEngine):
    """Time does not count. `most_rows`: a query with more is too long for a turn. `on_batch`: called in the middle of a long one. `reads`: the long ones that
    are under way, `long_reads`: all of them."""

    def __init__(self, store: Store, executor: Executor | None = None) -> None:
        super().__init__(store, executor or Pool())
        self.most_memory = self.options.max_memory
        self.most_rows = 1000
        self.on_batch: Callable[[], Any] = lambda: None
        self.reads = 0
        self.long_reads = 0

    @property
    def max_memory(self) -> int:
        return self.most_memory

    def catalogue(self, caller: Any) -> UserCatalogue:
        return RightsCatalogue(self._views, caller.rights, caller.user)

    def _run_in_turn(self, *arguments: Any, **options: Any) -> list[Any]:
        return super()._run_in_turn(*arguments[:5], seconds=1000.0)

    def read_now(self, reading: Reading, parameters: Any, source: Any) -> list[Any]:
        rows = super().read_now(reading, parameters, source)
        if len(rows) > self.most_rows:
            raise TooLong
        return rows

    async def read(self, reading: Reading, parameters: Any, source: Any) -> AsyncGenerator[list[Any]]:
        self.reads += 1
        self.long_reads += 1
        try:
            async with aclosing(super().read(reading, parameters, source)) as found:
                async for rows in found:
                    for start in range(0, len(rows), 20):
                        self.on_batch()
                        yield rows[start : start + 20]
                        await asyncio.sleep(0)
        finally:
            self.reads -= 1


class Holder:
    """What a statement is part of: a request."""

    pending_commit: Any = None
    trace_id = None


@dataclass
class Caller:
    rights: Mapping[str, TableRights] = field(default_factory=dict)
    user: Any = field(default_factory=User)
    context: Any = field(default_factory=Holder)
    joined: Any = None
    explain: bool = False
    authorized: bool = True


class Sql:
    """Runs statements, each as a request of its own."""

    def __init__(self, store: Store, executor: Executor | None = None) -> None:
        """`executor`: by default all is done at once."""
        self.store = store
        self.engine = WatchedEngine(store, executor)

    def begin(self, text: str, parameters: Any = None, *, bound: BoundQueries | None = None, **caller: Any) -> tuple[Any, Any]:
        """(the result or an awaitable of it, the context of the caller)."""
        asked = Caller(**caller)
        statement: Any = parse(text)
        return run_write(statement, text, parameters, asked, self.engine, bound), asked.context

    def __call__(self, text: str, parameters: Any = None, **caller: Any) -> Any:
        """The result of a statement that is carried out within the turn, which ends with it."""
        try:
            result, context = self.begin(text, parameters, **caller)
            if is_waiting(result):
                result.close()
                raise AssertionError("it takes more than a turn")
        finally:
            self.end_turn()
        if context.pending_commit is not None:
            assert context.pending_commit.outcome == (None,), context.pending_commit.outcome
        return result

    def fault(self, text: str, parameters: Any = None, **caller: Any) -> Problem:
        """What a statement is refused with; nothing is written."""
        before = self._written()
        try:
            result = self(text, parameters, **caller)
        except Problem as problem:
            assert self._written() == before, "something was written"
            return problem
        raise AssertionError(f"it was not refused: {result}")

    def _written(self) -> list[int]:
        return [database.log.newest_lsn(database.snapshot()) for database in self.store.databases.values()]

    def close(self) -> None:
        self.end_turn()
        self.engine.close()

    def end_turn(self) -> None:
        if self.store.has_pending:
            self.store.commit_turn()
        self.store.end_turn()

    async def whole(self, text: str, parameters: Any = None, **caller: Any) -> Any:
        """The result of any statement, for a loop whose turns end elsewhere."""
        result, _ = self.begin(text, parameters, **caller)
        return await result if is_waiting(result) else result


def records_of(table: Table) -> list[dict[str, Any]]:
    return [decode(raw) for _, raw in table.scan(table.database.snapshot())]


def put(store: Store, table: Table, key: int, *, wait: bool = False, **record: Any) -> None:
    """A write beside statements, of the turn."""
    transaction = store.begin()
    transaction.put(table, key, record)
    transaction.apply(wait=wait)


def open_snapshots(store: Store) -> dict[str, int]:
    """Reader slots in use, beside those of the turn."""
    store.end_turn()
    return {database.name: database.env.open_snapshots() for database in store.databases.values()}
