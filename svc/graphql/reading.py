"""Running a query operation: its fields one after the other, on one snapshot of each database (spec: graphql §4).

The run is a generator of short steps. It yields an awaitable where it has to wait, and None where others may be served. What is done within the first slice is
answered in the same turn, without a task; the rest takes a slice at a time.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from svc.content.json_type import JsonRows
from svc.content.values import json_form
from svc.errors import Problem, ServerError, SnapshotLost
from svc.graphql.answer import Answer
from svc.graphql.code_fields import call_resource, items_of, selected
from svc.graphql.faults import fault_at, problem_of_abort, with_location
from svc.graphql.introspection import Introspection
from svc.graphql.introspection_query import ROOTS as INTROSPECTION
from svc.graphql.names import QUERY_TYPE, Names
from svc.graphql.selection import TYPE_NAME, Field
from svc.graphql.table_fields import TableFields, seen_by
from svc.http.row_responses import PAGE_ROWS
from svc.http.row_stream import BATCH_ROWS, SLICE, QueryExecution
from svc.messages import Abort, Request
from svc.query.budget import query_limits, too_large
from svc.query.narrowing import is_view
from svc.resources import PlannedQuery, Registration, Resource, TableResource
from svc.store import Database, Store
from svc.store.snapshots import HeldSnapshot
from svc.store.writing.commit import wait_committed

Waiting = Awaitable[Any] | None
Steps = Generator[Waiting, Any, None]

WIDE = 300  # selected fields from which on it takes milliseconds to make a plan of them
VALUES_AT_ONCE = 2048  # of the rows of one step
VALUES_OF_CODE = 512  # the same for what code returns: each may be a list


class Reads(Protocol):
    """What a field reads: a `Registration`."""

    @property
    def resource(self) -> type[Resource] | None: ...


class FieldReading:
    """One run. `answer` is complete when `steps` has ended; `close` ends it before that."""

    def __init__(
        self,
        fields: tuple[Field, ...],
        variables: Mapping[str, Any],
        request: Request,
        store: Store,
        names: Names,
        introspection: Introspection | None,
        in_thread: Callable[..., Awaitable[Any]],
        *,
        extended: bool,
    ) -> None:
        """`in_thread(function, *arguments)`: for what would hold the loop."""
        self.answer = Answer()
        self.seconds = 0.0
        self._fields = fields
        self._variables = variables
        self._request = request
        self._store = store
        self._now = store.clock.monotonic
        self._names = names
        self._is_extended = extended
        self._introspection = introspection
        self._in_thread = in_thread
        self._extended = extended
        self._tables = TableFields(request, names, variables, extended=extended)
        self._held: dict[Database, HeldSnapshot] = {}
        self._is_held = False
        self._execution: QueryExecution | None = None
        self._database: Database | None = None  # of the execution
        self._items_left: AsyncIterator[Any] | None = None  # of a handler, while it is read
        self._registrations: Sequence[Reads | None] = []
        self._steps = self._run()

    def start(self) -> Any:
        """Do what a slice can do. None: the answer is complete; else an awaitable that ends when it is. Raises Problem."""
        deadline = self._now() + SLICE
        for waiting in self._steps:
            if waiting is not None or self._now() >= deadline:
                try:
                    self._hold()
                except BaseException:
                    if inspect.iscoroutine(waiting):
                        waiting.close()
                    self.close()
                    raise
                return _RestOfRun(self, self._go_on(waiting), waiting)
        return None

    async def _go_on(self, waiting: Waiting) -> None:
        slices = self._store.slices
        deadline = 0.0
        try:
            while True:
                result, failure = None, None
                if waiting is not None:
                    try:
                        result = await waiting
                    except Problem as problem:
                        failure = problem
                    deadline = 0.0  # it may have been another turn
                if self._now() >= deadline:
                    deadline = await slices.take()
                began = self._now()
                try:
                    waiting = self._steps.send(result) if failure is None else self._steps.throw(failure)
                except StopIteration:
                    return
                self._count_seconds(self._now() - began)
        except BaseException:
            self.answer.discard()  # the error may hold all of this for some time
            raise
        finally:
            items, self._items_left = self._items_left, None
            self.close()
            if items is not None and hasattr(items, "aclose"):
                await items.aclose()

    def _count_seconds(self, seconds: float) -> None:
        """All fields together have the time of one query: each may be short, and there may be thousands."""
        self.seconds += seconds
        most = query_limits().seconds
        if self.seconds > most:
            raise too_large(f"takes more than {most:g} seconds of work", "query.maxTime", "seconds")

    def close(self) -> None:
        """Release what the run holds. May be called more than once."""
        self._steps.close()
        if self._execution is not None:
            self._execution.close()
            self._execution = None
        for held in self._held.values():
            held.abort()
        self._held = {}

    # --- snapshots -------------------------------------------------------------------------------------------------------------------

    def _hold(self) -> None:
        """The turn ends: keep its snapshots of all databases that are still to be read."""
        self._is_held = True
        reader = f"the answer to a GraphQL query for {'an anonymous user' if self._request.user is None else self._request.user.username}"
        for registration in self._registrations:
            resource = None if registration is None else registration.resource
            if resource is not None and issubclass(resource, TableResource):
                database = resource.table.database
                if database not in self._held:
                    self._held[database] = self._store.snapshots.hold(database, reader=reader)
        if self._execution is not None:
            reading = self._database
            assert reading is not None
            if reading not in self._held:  # of a table that code of an application has searched
                self._held[reading] = self._store.snapshots.hold(reading, reader=reader)
            self._execution.borrow(self._held[reading])

    def _snapshot_of(self, database: Database) -> HeldSnapshot:
        """What fields of later turns read; if it was given up, the current data."""
        held = self._held.get(database)
        if held is not None:
            try:
                held.use()
                return held
            except SnapshotLost:
                self._store.snapshots.report_moved(database, held.reader)
        self._held[database] = held = self._store.snapshots.hold(
            database, fresh=True, reader="a GraphQL query" if held is None else held.reader
        )
        return held

    # --- steps -----------------------------------------------------------------------------------------------------------------------

    def _run(self) -> Steps:
        registrations = [self._registration(field) for field in self._fields]
        self._registrations = registrations
        described: Mapping[str, bytes] = {}
        if self._introspection is not None:
            described = yield from self._introspection.described(self._fields, self._variables, self._request, extended=self._extended)
        for field, registration in zip(self._fields, registrations, strict=True):
            if registration is None:
                if field.name == TYPE_NAME:
                    self.answer.value(field.key, QUERY_TYPE)
                else:
                    self.answer.begin(field.key)
                    self.answer.add(described[field.key])
                continue
            resource = registration.resource
            if issubclass(resource, TableResource) and is_plain_table(resource):
                yield from self._rows(field, resource)
            else:
                yield from self._called(field, registration)
            yield None

    def _registration(self, field: Field) -> Registration | None:
        """The resource that a field reads; None: the schema is asked. Raises DocumentError."""
        name = field.name
        if name == TYPE_NAME:
            if field.arguments:
                raise fault_at(field.arguments[0], f"'{TYPE_NAME}' takes no arguments.")
            return None
        if name in INTROSPECTION:
            if self._introspection is None:
                raise fault_at(field.node, "Introspection is switched off.")
            return None
        found = self._names.find(name)
        if found is None:
            raise fault_at(field.node, f"Resource `{name}` not found.", "NOT_FOUND")
        if field.nested is None:
            raise fault_at(field.node, f"'{name}' needs a selection of its attributes, such as {name} {{ id }}.")
        if found.fault:
            raise with_location(ServerError(found.fault), field.node)
        return found

    def _rows(self, field: Field, resource: type[TableResource]) -> Steps:
        """A field of a table that answers for itself."""
        if resource.table.caching is None:
            target = self._tables.admitted(field, resource)
            if field.width > WIDE:
                seen = seen_by(resource, target, self._request)
                if is_view(seen):
                    seen.database.prepare()
                yield self._in_thread(self._tables.prepare, field, resource, target, seen)
            database = resource.table.database
            txn = self._snapshot_of(database).use() if self._is_held else database.snapshot()
            yield from self._written(field, self._tables.planned(field, resource, target, txn))
            return
        target = self._tables.admitted(field, resource)
        try:
            query = self._tables.query(field, resource, target)
            plan = partial(resource.planned, query, target, self._request, self._now())
            found = resource.table.caching.find(plan, self._request, target)
            if inspect.isawaitable(found):
                found = yield found
        except Problem as problem:
            raise with_location(problem, field.node) from None
        yield from self._written(field, found)

    def _written(
        self, field: Field, rows: PlannedQuery, shaped: Callable[[list[Any]], list[Any]] | None = None, *, is_single: bool = False
    ) -> Steps:
        """The rows of a query as the list of a field. `shaped`: what is selected of them, None: they are what was selected. `is_single`: there is one row at
        most, which is the value of the field; null without one."""
        answer = self.answer
        database = self._database = rows.table.database
        held = self._snapshot_of(database) if self._is_held else None
        execution = self._execution = QueryExecution(
            rows,
            native=False,
            whole=False,
            now=self._now,
            wall_ms=0.0,
            reader=self._request,
            held=held,
            batch=_batch_of(field, VALUES_AT_ONCE),
        )
        execution.run.keeps_rows = False
        writer = JsonRows()
        answer.begin(field.key)
        before = answer.size
        if not is_single:
            answer.add(b"[")
        try:
            while True:
                execution.gather()
                found, execution.found = execution.values() if shaped is not None else execution.found, []
                if found:
                    if shaped is not None:
                        answer.add(writer.values(shaped(found)))
                    elif execution.run.has_weights:
                        for piece in execution.write_pieces(writer, found):
                            answer.add(piece)
                            yield None
                    else:
                        answer.add(execution.write(writer, found))
                    self._count(len(found))
                if execution.done:
                    break
                yield None
            limit = rows.plan.limit
            if limit and limit <= PAGE_ROWS and self._is_extended and not is_single:
                cursor = execution.run.next_cursor()
                if cursor is not None:
                    answer.pages[field.key] = cursor
        except Problem as problem:
            raise with_location(problem, field.node) from None
        finally:
            execution.close()
            self._execution = None
        if not is_single:
            answer.add(b"]")
        elif answer.size == before:
            answer.add(b"null")

    def _called(self, field: Field, registration: Registration) -> Steps:
        """A field that code of an application answers. What it writes is on disk before the next one is called."""
        request, resource = self._request, registration.resource
        try:
            if issubclass(resource, TableResource):
                self._tables.check(field, resource)
            result = call_resource(field, resource, request, self._variables, extended=self._extended)
            while inspect.isawaitable(result):
                result = yield result
            if request.pending_commit is not None:
                applied, request.pending_commit = request.pending_commit, None
                yield wait_committed(applied, request.state.spans)
            yield from self._items(field, registration, result)
        except Abort as abort:
            raise with_location(problem_of_abort(abort), field.node) from None
        except Problem as problem:
            raise with_location(problem, field.node) from None

    def _items(self, field: Field, registration: Registration, result: Any) -> Steps:
        fields = field.nested or ()
        type_name = self._names.name_of(registration)
        if type(result) is PlannedQuery:
            yield from self._written(field, result, lambda rows: [selected(row, fields, type_name) for row in rows])
            return
        items = items_of(result)
        answer, writer = self.answer, JsonRows()
        answer.begin(field.key)
        answer.add(b"[")
        count = _batch_of(field, VALUES_OF_CODE)
        if isinstance(items, list):
            for start in range(0, len(items), count):
                batch = json_form(items[start : start + count])
                answer.add(writer.rows([selected(item, fields, type_name) for item in batch]))
                self._count(len(batch))
                yield None
        else:
            self._items_left = items
            while True:
                batch = yield _next_items(items, count)
                if batch:
                    answer.add(writer.rows([selected(item, fields, type_name) for item in batch]))
                    self._count(len(batch))
                if len(batch) < count:
                    break
            self._items_left = None
        answer.add(b"]")

    def _count(self, rows: int) -> None:
        state = self._request.state
        state.rows = (state.rows or 0) + rows


class _RestOfRun:
    """What is left of a run, to be awaited. If it never is, because the client has gone before, the run is closed."""

    def __init__(self, reading: FieldReading, rest: Coroutine[Any, Any, None], waiting: Waiting) -> None:
        self._reading: FieldReading | None = reading
        self._rest = rest
        self._waiting = waiting

    def __await__(self) -> Generator[Any, Any, None]:
        self._reading = self._waiting = None
        return self._rest.__await__()

    def __del__(self) -> None:
        if self._reading is not None:
            self._rest.close()
            if inspect.iscoroutine(self._waiting):
                self._waiting.close()
            self._reading.close()


def _batch_of(field: Field, values: int) -> int:
    """The number of rows that are made in one step, of so many values."""
    return max(1, min(BATCH_ROWS, values // max(1, field.width)))


async def _next_items(items: AsyncIterator[Any], count: int) -> list[Any]:
    """Up to so many elements in JSON form; fewer at the end. What fails closes the iterator."""
    found: list[Any] = []
    async for item in items:
        found.append(json_form(item))
        if len(found) == count:
            break
    return found


def is_plain_table(resource: type[Any]) -> bool:
    """Whether a table answers by itself, without code of an application in front of it."""
    return issubclass(resource, TableResource) and not hasattr(resource, "application")
