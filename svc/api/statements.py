"""SQL for all who ask: operations, `POST /sql`, code of applications (spec: sql §1).

The engine, with SQLite, is imported when the first statement comes: many servers never run one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from svc.api.calls import Call
from svc.api.context import AnyContext, Context, context_of, current_context
from svc.api.thread_guard import here, refuse_helper
from svc.api.transactions import open_transaction
from svc.auth.users import User, user_of
from svc.awaitables import is_waiting, then
from svc.clock import Clock
from svc.errors import Problem, ServerError
from svc.http.found_rows import each_row, gather_rows
from svc.resources.resource import StreamedRows
from svc.store.writing.commit import wait_committed

if TYPE_CHECKING:
    from svc.api.current import CurrentInterface
    from svc.sql.engine import SqlEngine
    from svc.sql.errors import MissingRights


@dataclass(slots=True)
class Statement:
    """What is asked, and by whom. `context`: what the answer to a write waits with: a request, a context, a call of an operation. `authorized`: whether rights
    are checked. `joined`: the transaction that it is part of. `explain`: its plan is wanted.
    `reader`: its name in the log."""

    text: str
    parameters: Any
    user: User | None
    context: Any
    reader: str
    authorized: bool = True
    joined: Any = None
    explain: bool = False


Refusal = Callable[["MissingRights"], Problem]
"""How what a user lacks is told."""


class Statements:
    """`run` is for all."""

    def __init__(
        self, make_engine: Callable[[], SqlEngine], most_rows: int, clock: Clock, load: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        """`make_engine`: called once, after `load`, which imports the engine while others are served: that takes a tenth of a second. `most_rows`: of an
        answer that is not streamed."""
        self._make_engine = make_engine
        self._most_rows = most_rows
        self._now = clock.monotonic
        self._load = load
        self._engine: SqlEngine | None = None

    def close(self) -> None:
        """No statement is running any more."""
        if self._engine is not None:
            self._engine.close()

    def run(self, statement: Statement, refusal: Refusal | None = None) -> Any:
        """StreamedRows, the body of another answer, or an awaitable of one of these. Raises Problem. What it writes has been applied; its context knows the
        commit."""
        if self._engine is None:
            if self._load is not None:
                return self._run_first(self._load, statement, refusal)
            self._engine = self._make_engine()
        return self._run(self._engine, statement, refusal)

    async def _run_first(self, load: Callable[[], Awaitable[object]], statement: Statement, refusal: Refusal | None) -> Any:
        await load()
        if self._engine is None:
            self._engine = self._make_engine()
        result = self._run(self._engine, statement, refusal)
        return await result if is_waiting(result) else result

    def _run(self, engine: SqlEngine, statement: Statement, refusal: Refusal | None) -> Any:
        from svc.sql.engine import SqlCaller
        from svc.sql.errors import MissingRights

        began = self._now()
        caller = SqlCaller(statement.user, statement.context, statement.authorized, statement.joined, statement.explain, statement.reader)
        try:
            result = engine.run(statement.text, statement.parameters, caller)
        except MissingRights as error:
            if refusal is None:
                raise
            raise refusal(error) from None
        return self._awaited(began, result, refusal) if is_waiting(result) else self._result(began, result)

    async def _awaited(self, began: float, result: Any, refusal: Refusal | None) -> Any:
        from svc.sql.errors import MissingRights

        try:
            return self._result(began, await result)
        except MissingRights as error:
            if refusal is None:
                raise
            raise refusal(error) from None

    def _result(self, began: float, result: Any) -> Any:
        return StreamedRows(result, self._most_rows, self._now() - began) if hasattr(result, "more") else result


class StatementCall(Call):
    """What `sql(...)` returns: awaited, all rows as a list of dicts, or what the statement has changed; or iterated, `async for row in sql(...)`."""

    __slots__ = ()

    def __init__(self, begin: Callable[[], Any]) -> None:
        super().__init__(begin, (), depth=3)

    def run(self) -> Any:
        return then(super().run(), _listed)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Any]:
        result = super().run()
        if is_waiting(result):
            result = await result
        if type(result) is StreamedRows:
            try:
                async for row in each_row(result.rows):
                    yield row
            finally:
                result.rows.close()  # of what is left early
        elif isinstance(result, list):
            for row in result:
                yield row
        else:
            raise TypeError("the statement finds no rows: await sql(...) returns what it has done")

    def __await__(self) -> Generator[Any, Any, Any]:
        return super().__await__()


def _listed(result: Any) -> Any:
    return gather_rows(result) if type(result) is StreamedRows else result


class SqlFunction:
    """`await sql(text, parameters)` runs a statement: the rows of a query as a list of dicts with Python values, or what another statement has done, such as
    `{"message": "updated 4 of 4 records", ...}`. `parameters`: a list for `?`, a mapping for `:name`. `async for row in sql(...)` reads any number of rows, one
    after the other. Within a transaction the statement sees what that has written, and what it writes itself is part of it. Rights are checked only if the
    context says so: `context.authorize`."""

    def __init__(self, interface: Callable[[], CurrentInterface]) -> None:
        self._interface = interface

    def __call__(self, text: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None, context: Any = None) -> StatementCall:
        """`context`: in whose name, by default that of the running call."""
        if not isinstance(text, str):
            raise TypeError(f"sql takes the text of a statement, not {type(text).__name__}")
        return StatementCall(partial(_begin, self._interface, text, parameters, context))

    def __repr__(self) -> str:
        return "<function sql>"


def _begin(interface: Callable[[], CurrentInterface], text: str, parameters: Any, given: Any) -> Any:
    if here.is_helper:
        refuse_helper()
    statements = interface().statements
    if statements is None:
        raise ServerError("SQL is not available", 501)
    within = current_context() if given is None else context_of(given)
    transaction = open_transaction(within)
    own: AnyContext = Context.within(within) if transaction is None or within is None else within
    is_checked = within is not None and within.state.authorize
    statement = Statement(text, parameters, user_of(own), own, "a statement of SQL by an application", is_checked, transaction)
    result = statements.run(statement)
    return result if transaction is not None else then(result, partial(_committed, own))


def _committed(context: AnyContext, result: Any) -> Any:
    """The result when what was written without a transaction around it is on disk."""
    applied, context.pending_commit = context.pending_commit, None
    return result if applied is None else _committed_later(applied, context, result)


async def _committed_later(applied: Any, context: AnyContext, result: Any) -> Any:
    await wait_committed(applied, context.state.spans)
    return result
