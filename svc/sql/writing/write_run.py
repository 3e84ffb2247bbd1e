"""A statement that writes, on its way: its plan, what it reads with, and how what it writes is applied."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, Protocol

from svc.content.list_faults import named, named_write
from svc.errors import ClientError, Problem, QueryError, ServerError
from svc.sql.bound import BoundQuery
from svc.sql.catalogue import Catalogue
from svc.sql.nodes import Assignment, Delete, Insert, Query, Update
from svc.sql.row_filters import RowFilters
from svc.sql.writing.collector import Budget, Collector
from svc.sql.writing.context import AskedQuery, BoundQueries, WriteContext
from svc.sql.writing.inserts import InsertPlan
from svc.sql.writing.plan import WritePlan
from svc.sql.writing.reading import Columns, CoveringSource, Reader, Steps, WriteSource, run_in_slices, run_now
from svc.sql.writing.targets import LearningCatalogue, WriteTarget
from svc.sql.writing.updates import DeletePlan, UpdatePlan
from svc.store import Database, Store, Transaction
from svc.store.values.keys import decode_key
from svc.store.writing.commit import commit

Write = Insert | Update | Delete


class OpenTransaction(Protocol):
    """Of code of an application: `api.transactions.Transaction`."""

    @property
    def writes(self) -> Transaction: ...

    def preview(self, database: Database) -> Any: ...

    def join(self, transaction: Transaction) -> Awaitable[None] | None: ...


class WriteCaller(Protocol):
    """Whose statement it is. `context`: a `commit.TransactionHolder`, which has a `trace_id`. `joined`: OpenTransaction that what is written becomes part
    of, or None."""

    @property
    def user(self) -> Any: ...
    @property
    def context(self) -> Any: ...
    @property
    def joined(self) -> Any: ...


class WriteEngine(Reader, Protocol):
    """`max_memory`: bytes that a statement may take."""

    @property
    def store(self) -> Store: ...
    @property
    def max_memory(self) -> int: ...

    def catalogue(self, caller: Any) -> Catalogue:
        """The tables as the caller sees them."""

    def bind(self, query: Query, catalogue: Catalogue, text: str, given: Columns) -> BoundQuery:
        """`text`: of the statement. `given`: tables whose rows are given when the query is run, and their columns."""


class WriteRun:
    """One statement on its way. `plan`: it may be made again when the statement has waited."""

    def __init__(self, statement: Write, text: str, parameters: Any, caller: WriteCaller, engine: WriteEngine, bound: BoundQueries) -> None:
        self._statement = statement
        self._text = text
        self._parameters = parameters
        self.caller = caller
        self._engine = engine
        self._bound = bound
        self.store = engine.store
        self.queries: list[AskedQuery] = []  # of the plan that was made last

    def resolve(self) -> tuple[WritePlan, Sequence[str]]:
        """The plan, and the attributes that the table has to learn before it can be carried out. Raises what is wrong with the statement, and what rights are
        missing."""
        statement, caller = self._statement, self.caller
        catalogue = self._engine.catalogue(caller)
        target = WriteTarget(statement.table, catalogue, caller.user)
        learned = target.learned(_written_names(statement))
        bound = self._bound
        if learned:
            catalogue, bound = LearningCatalogue(catalogue, target.table, learned), BoundQueries()
        bound.begin(target.table.definition)
        context = WriteContext(catalogue, caller.user, _parameter_of(self._parameters), self._bind, bound)
        plan: WritePlan
        if isinstance(statement, Update):
            plan = UpdatePlan(statement, target, context)
        elif isinstance(statement, Delete):
            plan = DeletePlan(statement, target, context)
        else:
            plan = InsertPlan(statement, target, context, is_joined=caller.joined is not None)
        self.queries = bound.queries
        return plan, learned

    def _bind(self, query: Query, catalogue: Catalogue, given: Columns) -> BoundQuery:
        return self._engine.bind(query, catalogue, self._text, given)

    def plan(self) -> WritePlan:
        """Raises as `resolve`; ServerError if a dynamic table has lost what it had learned."""
        plan, learned = self.resolve()
        if learned:
            name = plan.target.table.name
            raise ServerError(f"The table {name} was changed while records were being written to it, try again", 503, "OVERLOADED")
        return plan

    def learned_plan(self) -> WritePlan:
        """The plan, once a dynamic table has learned its new attributes: that cannot be undone with the statement, and commits the turn. Raises WriterBusy
        if there are any while a long write is under way."""
        while True:
            plan, learned = self.resolve()
            if not learned:
                return plan
            table = plan.target.table
            self.store.open_writers((table.database,), wait=False)
            table.database.learn_attributes(table, dict.fromkeys(learned))

    @property
    def wall_ms(self) -> float:
        return self.store.clock.wall() * 1000

    def begin(self, plan: WritePlan) -> Transaction:
        user = self.caller.user
        return Transaction(self.store, None if user is None else user.username, plan.operation, self.caller.context.trace_id)

    def filters(self) -> RowFilters:
        """What the caller may see of what the statement reads."""
        return RowFilters(self.caller.user)

    def budget(self, most: int | None) -> Budget:
        return Budget(self._engine.max_memory, most)

    def collector(self, plan: WritePlan, transaction: Transaction, source: CoveringSource, most: int | None) -> Collector:
        table = plan.target.table
        return Collector(table, transaction, source, self.wall_ms, self.budget(most), table.new_keys, plan.target.rows)

    def read_now(self, steps: Steps[None], source: CoveringSource) -> None:
        """Take steps within the turn. Raises TooLong."""
        run_now(steps, self._engine, self._parameters, source)

    async def read(self, steps: Steps[None], source: CoveringSource) -> None:
        """Take steps in as many turns as they need."""
        await run_in_slices(steps, self._engine, self._parameters, source, self.store)

    def answer(self, plan: WritePlan, transaction: Transaction) -> Any:
        """The answer, once the writes are applied: at once."""
        steps = plan.answer(transaction)
        try:
            while True:
                next(steps)
        except StopIteration as done:
            return done.value

    async def long_answer(self, plan: WritePlan, transaction: Transaction) -> Any:
        """The same in slices."""
        return await self.store.slices.result(plan.answer(transaction))

    # -- applying

    def inspect(self, plan: WritePlan, transaction: Transaction, source: WriteSource, budget: Budget) -> None:
        """Have what RETURNING says read when the writes are applied."""
        returning = plan.returning
        if returning is None:
            return

        def read(txn: Any) -> None:
            source.replace(plan.target.table.database, txn)
            try:
                self.read_now(returning.read(plan.keys, budget), source)
            finally:
                source.close()

        transaction.inspect = read

    def committed(self, plan: WritePlan, transaction: Transaction) -> Any:
        """The answer once the transaction has been applied, or an awaitable of it."""
        try:
            waiting = commit(transaction, self.caller.context)
        except Problem as error:
            raise named_fault(error, plan, transaction) from None
        return self.answer(plan, transaction) if waiting is None else self._committed_later(waiting, plan, transaction)

    async def _committed_later(self, waiting: Awaitable[None], plan: WritePlan, transaction: Transaction) -> Any:
        try:
            await waiting
        except Problem as error:
            raise named_fault(error, plan, transaction) from None
        return await self.long_answer(plan, transaction)


def named_fault(error: Problem, plan: WritePlan, transaction: Transaction) -> Problem:
    """The error with the record that it is about, where applying the writes has failed."""
    if isinstance(plan, InsertPlan) and not plan.decides:
        return named_write(error, transaction, (), None, is_list=plan.size > 1)
    if not transaction.failed_key or not isinstance(error, ClientError):
        return error
    key = decode_key(transaction.failed_key)
    return named(error, list(key) if type(key) is tuple else key, None, (), None)


def _written_names(statement: Write) -> list[str]:
    """The columns that a statement names to write to."""
    if isinstance(statement, Delete):
        return []
    if isinstance(statement, Update):
        assignments: Iterable[Assignment] = statement.assignments
        names: list[str] = []
    else:
        assignments = [each for conflict in statement.conflicts for each in conflict.assignments]
        names = list(statement.columns)
    return names + [name for assignment in assignments for name in assignment.columns]


def _parameter_of(parameters: Any) -> Any:
    def read(name: int | str) -> Any:
        try:
            return parameters[name - 1 if isinstance(name, int) else name]
        except (TypeError, LookupError):
            raise QueryError(f"parameter {name} is missing", code="BAD_VALUE") from None

    return read
