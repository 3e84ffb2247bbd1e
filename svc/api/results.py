"""The result of a search: awaited, or iterated (spec: applications §7)."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar
from weakref import ReferenceType, ref

from svc.api.calls import each
from svc.api.context import AnyContext, UserContext
from svc.api.frozen import freeze
from svc.api.records import Record, record_for
from svc.api.thread_guard import here, refuse_helper
from svc.api.transactions import open_transaction
from svc.awaitables import AlreadyThere, is_waiting, settled, then
from svc.http.row_stream import QueryExecution
from svc.query.execution import result_columns
from svc.query.explain import explain
from svc.store.snapshots import HeldSnapshot

if TYPE_CHECKING:
    from svc.resources import PlannedQuery

_T_co = TypeVar("_T_co", covariant=True)
_U = TypeVar("_U")
Source = AsyncIterable[_U] | Iterable[_U]


Load = Callable[["Callable[[], PlannedQuery]", AnyContext | None], Any]  # -> the query that the function makes, or an awaitable of it


class Items(AlreadyThere, Generic[_T_co]):
    """Items that are made while they are iterated. What `map`, `filter` and the others return are new ones; nothing runs before the first step.
    Awaited, it is itself. Leaving an `async for` early closes it, and what it is made of.
    """

    def __init__(self, source: Source[_T_co], origin: Items[Any] | None = None) -> None:
        """`origin`: what these are derived of."""
        self._source = source
        self._origin = origin
        self._running: ReferenceType[Any] | None = None  # weak, so that an iteration that is left ends at once

    def __aiter__(self) -> AsyncIterator[_T_co]:
        iterator = self._iterate()
        self._running = ref(iterator)
        return iterator

    def __await__(self) -> Generator[Any, Any, Self]:
        return self
        yield

    async def _iterate(self) -> AsyncIterator[_T_co]:
        async for item in each(self._source):
            yield item

    async def aclose(self) -> None:
        """End the iteration, and what it holds."""
        running, self._running = self._running, None
        iterator = None if running is None else running()
        if iterator is not None:
            await iterator.aclose()

    # --- derived -----------------------------------------------------------------------------------------------------------------------

    def map(self, function: Callable[[_T_co], Awaitable[_U] | _U]) -> Items[_U]:
        """`function(item)` in place of each item; `function` may be async."""

        async def mapped() -> AsyncIterator[_U]:
            async for item in self:
                yield await _value(function(item))

        return Items(_again(mapped), self)

    def filter(self, function: Callable[[_T_co], object]) -> Items[_T_co]:
        """The items for which `function(item)` is true."""

        async def filtered() -> AsyncIterator[_T_co]:
            async for item in self:
                if await _value(function(item)):
                    yield item

        return Items(_again(filtered), self)

    def flat_map(self, function: Callable[[_T_co], Awaitable[Source[_U]] | Source[_U]]) -> Items[_U]:
        """All items of the iterable `function(item)`, of each item; `function` may be async."""

        async def flattened() -> AsyncIterator[_U]:
            async for item in self:
                async for inner in each(await _value(function(item))):
                    yield inner

        return Items(_again(flattened), self)

    def concat(self, other: Source[_U]) -> Items[_T_co | _U]:
        """These items, then those of `other`."""

        async def joined() -> AsyncIterator[_T_co | _U]:
            async for item in self:
                yield item
            async for item in each(other):
                yield item

        return Items(_again(joined), self)

    def slice(self, start: int = 0, end: int | None = None) -> Items[_T_co]:
        """The items from position `start` to before `end`."""
        if start < 0 or (end is not None and end < 0):
            raise ValueError("slice takes positions from 0 on")

        async def cut() -> AsyncIterator[_T_co]:
            position = 0
            if end is not None and end <= start:
                return
            async for item in self:
                if position >= start:
                    yield item
                position += 1
                if end is not None and position >= end:
                    return

        return Items(_again(cut), self)

    def map_error(self, function: Callable[[Exception], _U]) -> Items[_T_co | _U]:
        """`function(error)` as the last item if making an item fails; what `function` raises is raised instead."""

        async def guarded() -> AsyncIterator[_T_co | _U]:
            try:
                async for item in self:
                    yield item
            except Exception as error:
                yield await _value(function(error))

        return Items(_again(guarded))

    def _prepare(self) -> None:
        """Raise now what a faulty query would raise at the first step. What handles errors itself is left alone."""
        if self._origin is not None:
            self._origin._prepare()

    async def for_each(self, function: Callable[[_T_co], object]) -> None:
        """Call `function` with each item."""
        async for item in self:
            await _value(function(item))

    async def to_list(self) -> list[_T_co]:
        """All items."""
        return [item async for item in self]


class _again(AsyncIterable[_U]):
    """Calls an async generator function for each iteration."""

    def __init__(self, function: Callable[[], AsyncIterator[_U]]) -> None:
        self._function = function

    def __aiter__(self) -> AsyncIterator[_U]:
        return self._function()


async def _value(value: Any) -> Any:
    value = settled(value)
    return settled(await value) if is_waiting(value) else value


class Results(Items[_T_co]):
    """The records that a search finds: `async for record in results`, or `await results.to_list()`. Awaited, it is itself, or its plan with `explain`.
    A faulty query raises when it is awaited or at the first step. What a handler returns is sent to the client while it is found.
    """

    def __init__(self, plan: Callable[[], PlannedQuery], context: AnyContext | None, load: Load | None = None) -> None:
        """`load`: of a table with a source, what loads the records that the query finds and that are not here."""
        super().__init__(())
        self._load = load
        self._plan = plan
        self._planned: PlannedQuery | None = None
        self._context = context

    @property
    def planned(self) -> PlannedQuery:
        """The query as it will run. Raises QueryError."""
        if self._planned is None:
            if here.is_helper:
                refuse_helper()
            self._planned = self._plan()
        return self._planned

    def _prepare(self) -> None:
        _ = self.planned

    def ready(self) -> Any:
        """The query as it will run, when what it finds is here: of a caching table perhaps an awaitable."""
        if self._load is None:
            return self.planned
        load, self._load = self._load, None
        return then(load(self._plan, self._context), self._loaded)

    def _loaded(self, planned: PlannedQuery) -> PlannedQuery:
        self._planned = planned
        return planned

    def __await__(self) -> Generator[Any, Any, Any]:
        planned = self.planned
        if planned.plan.query.explain:
            return explain(planned.plan, planned.table.database.snapshot())
        return self
        yield

    async def _iterate(self) -> AsyncIterator[_T_co]:
        planned, context = self.ready(), self._context
        transaction = open_transaction(context)
        if is_waiting(planned):
            planned = await planned
            if transaction is not None:
                transaction.reset_read_snapshot()  # it is from before
        table = planned.table
        clock = table.database.store.clock
        held: HeldSnapshot | None = None
        preview: HeldSnapshot | None = None
        if transaction is not None:
            if transaction.has_written_to(table.database):
                found = transaction.preview(table.database)
                held = preview = await found if is_waiting(found) else found
            elif transaction.is_lasting:
                held = transaction.hold(table.database)
        try:
            execution = QueryExecution(
                planned,
                native=True,
                whole=False,
                now=clock.monotonic,
                wall_ms=clock.wall() * 1000,
                reader=f"a search of {table.name} by an application",
                held=held,
            )
        finally:
            if preview is not None:  # the execution has its share
                preview.abort()
        execution.keep()
        try:
            while True:
                if execution.gather():
                    found, execution.found = execution.found, []
                    for row in found:
                        yield self._item(row)
                    if execution.done:
                        return
                await execution.wait_for_slice()
        finally:
            execution.close()

    def _item(self, row: Any) -> Any:
        """A row as application code sees it."""
        if type(row) is bytes:
            if type(self._context) is UserContext:
                return record_for(self.planned.table, row, self._context, self.planned.visible)
            return Record(self.planned.table, row, None, self._context)
        return Record(self.planned.table, None, row, self._context) if type(row) is dict else freeze(row)

    async def first(self) -> _T_co | None:
        """The first item; None without any."""
        iterator = self._iterate()
        try:
            async for item in iterator:
                return item
            return None
        finally:
            await iterator.aclose()  # type: ignore[attr-defined]

    def columns(self) -> list[str]:
        """The names of a table of the results: those selected, else the stored attributes that are declared."""
        return list(result_columns(self.planned.plan))

    def __repr__(self) -> str:
        return "<Results>"
