"""Transactions of application code (spec: applications §5).

Each call of a protocol to an application's resource runs in one. What is written in it is collected, seen by its own reads, and committed when the
handler has returned; a handler that raises undoes it.

    open --commit--> open: further reads and writes begin another one
      |----abort---> aborted: further writes are an error
      '----close---> closed: its call is over; what goes on in the background writes for itself, call by call
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Generator
from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol, cast

from svc.api.context import AnyContext, Context, context_of, current_context, enter, leave
from svc.api.thread_guard import here, refuse_helper
from svc.awaitables import is_waiting, settled, then
from svc.errors import ClientError, Problem, SnapshotLost
from svc.http.confirmed_writes import wait_confirmed
from svc.logs.application_code import line_of
from svc.store import Database, Precondition, Store, Table
from svc.store import Transaction as StoreTransaction
from svc.store.env import Txn
from svc.store.slices import run_now
from svc.store.snapshots import HeldSnapshot
from svc.store.values.keys import Key
from svc.store.writing.commit import commit, wait_committed
from svc.store.writing.preview import Preview, PreviewedSnapshot

if TYPE_CHECKING:
    from svc.api.current import CurrentInterface


LATEST = 1e17  # ms, of a time

logger = logging.getLogger("svc.applications")


class UnsavedInstance(Protocol):
    """An instance whose changes are to be saved when its transaction commits: `instances.Instance`."""

    def collect(self, transaction: Transaction) -> Any:
        """Add the changes to the transaction. May return an awaitable, which does so."""

    def _is_of(self, table: Table, key: Key) -> bool:
        """Whether it is bound to this record."""

    def _discard(self) -> None:
        """Forget the changes."""


class Transaction:
    """What is read and written together: the `txn` of `transaction(...)`, and around each handler that a request calls.

    Its reads see what it has written, and else one state, that of its first read.
    """

    # `pending`: instances to be saved, by identity: several may be of one record. `instances`: those that handlers of this transaction are bound to.

    __slots__ = (
        "_aborted",
        "_context",
        "_fault",
        "_generations",
        "_held",
        "_previews",
        "_store",
        "_timestamp",
        "_writes",
        "before_commit",
        "instances",
        "is_applied",
        "is_closed",
        "is_lasting",
        "is_shared",
        "is_single",
        "opened_at",
        "pending",
        "source",
    )

    def __init__(self, store: Store, context: AnyContext) -> None:
        self._store = store
        self._context = context
        self._writes: StoreTransaction | None = None
        self._held: dict[Database, HeldSnapshot] | None = None
        self._generations: dict[Database, int] | None = None  # of the definitions, when the snapshot was held
        self._timestamp: float | None = None
        self._previews: dict[Database, Preview] | None = None  # see `previews`
        self._aborted = False
        self._fault: BaseException | None = None
        self.is_closed = False
        self.is_applied = False  # handed over to the store, perhaps not yet written: nobody else takes part in it any more
        self.opened_at: tuple[CodeType, int] | None = None  # code of the application that has entered it with `async with`
        self.is_lasting = False  # it goes on in later turns, so its snapshots are kept for it
        self.is_shared = (
            False  # calls of resources for the same request take part in it, and leave its commit to the code that has opened it
        )
        self.is_single = False  # of one call of code: the commit that follows at once tests what it has written
        self.pending: dict[int, UnsavedInstance] | None = None
        self.instances: dict[Any, Any] | None = None
        self.source: Any = None  # the cache whose source's context it is of: what is written to its table is not sent back
        self.before_commit: list[Callable[[], Any]] | None = None  # called first of all: checks of applications, writes to sources

    @property
    def timestamp(self) -> float:
        """When the transaction began, ms since the epoch."""
        if self._timestamp is None:
            self._timestamp = self._store.clock.wall() * 1000
        return self._timestamp

    @property
    def previews(self) -> dict[Database, Preview]:
        """Those of what is written. Emptied when a snapshot is lost that one refers to."""
        if self._previews is None:  # most transactions write nothing
            self._previews = {}
        return self._previews

    # --- reading ---------------------------------------------------------------------------------------------------------------------

    def snapshot(self, database: Database) -> Txn:
        """What the transaction reads of this database: the same at each read."""
        return self.hold(database).use() if self.is_lasting else database.snapshot()

    def hold(self, database: Database) -> HeldSnapshot:
        """The snapshot that the reads of this database have in common, as long as it is not given up: for half a minute without a read, or because very
        many transactions are open. Then it is another one; so it is when tables have changed since, such as one that has learned an attribute from
        what the transaction writes, for the store of the new index cannot be read in an older state."""
        held = None if self._held is None else self._held.get(database)
        if held is not None:
            try:
                held.use()
                if self._generations is not None and self._generations.get(database) == database.generation:
                    return held
                held.abort()
                self.previews.pop(database, None)
            except SnapshotLost:  # the log says why
                database.snapshot()
        if self._held is None or self._generations is None:
            self._held, self._generations = {}, {}
        held = self._store.snapshots.hold(
            database, fresh=held is not None, reader="a transaction of an application", on_lost=self.previews.clear
        )
        self._held[database] = held
        self._generations[database] = database.generation
        return held

    def get_raw(self, table: Table, key: Key) -> bytes | None:
        """The stored record with what this transaction has written so far."""
        writes = self._writes
        txn = self.snapshot(table.database) if self.is_lasting else None
        return table.get_raw(key, txn) if writes is None or not writes.has_writes else writes.get_raw(table, key, txn)

    def read_raw(self, table: Table, key: Key) -> Any:
        """`get_raw`, or an awaitable of it if much was written since the last read."""
        writes = self._writes
        if writes is None or not writes.concerns(table, key):
            return self.get_raw(table, key)
        caught_up = self._catch_up(table.database)
        return self.get_raw(table, key) if caught_up is None else then(caught_up, lambda _: self.get_raw(table, key))

    def reading(self, database: Database) -> Txn:
        """What `get_raw` reads from."""
        txn, writes = self.snapshot(database), self._writes
        if writes is None or not writes.has_written_to(database):
            return txn
        run_now(writes.previewing(database, txn))
        return writes.preview(database).txn

    def has_written_to(self, database: Database) -> bool:
        """Whether reads of this database do not see what its snapshot has only."""
        return self._writes is not None and self._writes.has_written_to(database)

    def preview(self, database: Database) -> Any:
        """What was written to a database with what its snapshot has, as it is now, for the caller to `abort`; or an awaitable of it."""
        caught_up = self._catch_up(database)
        return self._previewed(database) if caught_up is None else then(caught_up, lambda _: self._previewed(database))

    def _previewed(self, database: Database) -> PreviewedSnapshot:
        held = self.hold(database)
        self.is_lasting = True
        run_now(self.writes.previewing(database, held.use()))
        return PreviewedSnapshot(held, self.writes.preview(database).overlay.copied())

    def _catch_up(self, database: Database) -> Awaitable[None] | None:
        """Carry out in the preview what was written since the last read. Returns an awaitable if that takes longer than a slice."""
        if self._store.slices.run(self.writes.previewing(database, self.snapshot(database))):
            return None
        self.is_lasting = True
        return self._catch_up_later(database)

    async def _catch_up_later(self, database: Database) -> None:
        slices = self._store.slices
        await slices.take()
        while self._writes is not None and not slices.run(self._writes.previewing(database, self.snapshot(database))):
            await slices.take()

    def admit(self, table: Table, start: int) -> Awaitable[None] | None:
        """Test what a table demands of the records that a call of code has written, from write number `start` on: what is wrong is raised where the call
        is awaited, and not written. Returns an awaitable if that takes longer."""
        if table.constraints is None or self.is_single or self._writes is None:
            return None
        steps = self._writes.admitting(start, self.snapshot)
        slices = self._store.slices
        if slices.run(steps):
            return None
        self.is_lasting = True
        return self._exhaust(steps)

    async def _exhaust(self, steps: Generator[None, None, Any]) -> None:
        """Take all steps, in slices. If that is cancelled they undo what they have begun, at once and not when they are freed."""
        try:
            await self._store.slices.exhaust(steps)
        except asyncio.CancelledError as error:
            steps.throw(error)
            raise

    def join(self, transaction: StoreTransaction) -> Awaitable[None] | None:
        """Take over what another one has collected, which then knows what else its commit would say. Returns an awaitable if that takes longer. Raises what
        prevents it, with nothing taken over."""
        slices = self._store.slices
        steps = self.writes.joining(transaction, self.snapshot)
        if slices.run(steps):
            return None
        self.is_lasting = True
        return self._exhaust(steps)

    def fail(self, error: BaseException) -> None:
        """A part of what a failed call has written cannot be taken back: the commit fails as well."""
        if isinstance(error, asyncio.CancelledError):  # of a part of the call: the call itself goes on
            error = Problem("A write of many records was cancelled before its end, so nothing of its transaction is committed", 503)
        self._fault = error

    def has_written(self, table: Table, key: Key) -> bool:
        """Whether something was written to this record, and waits for the commit."""
        return self._writes is not None and self._writes.has_written(table, key)

    def reset_read_snapshot(self) -> None:
        """From now on read the newest state."""
        if self._previews is not None:
            self._previews.clear()
        held, self._held = self._held, None
        for snapshot in (held or {}).values():
            snapshot.abort()
        for database in self._store.databases.values():
            database.env.end_snapshot()

    def forget_snapshots(self) -> None:
        """Others have written for the same call: read the newest state."""
        if self._held is not None:
            self.reset_read_snapshot()

    # --- writing ---------------------------------------------------------------------------------------------------------------------

    @property
    def writes(self) -> StoreTransaction:
        """Collects what is written. Raises ClientError after `abort`."""
        if self._aborted:
            raise ClientError("The transaction was aborted, no more can be written with it")
        if self._writes is None:
            user = self._context.user
            self._writes = self._store.begin(None if user is None else user.username, self._context.trace_id)
            self._writes.source, self._writes.previews = self.source, self.previews
        if self.source is None:  # of a source it is the expiry of the record that is loaded
            self._writes.expires_at = _expiry(self._context.state.expires_at)
        return self._writes

    def precondition(self, table: Table, key: Any) -> Precondition | None:
        """Of the next write, to this record: `if_version` of the context, or the condition of the request, if the record is the one that it addresses. Each
        is for one write."""
        context = self._context
        state = context.state
        version = state.if_version
        if version is None:
            condition, addressed = context.precondition, state.target
            if condition is None or addressed is None or key is None or table is not state.owner or key != addressed.id:
                return None
            if self.has_written(table, key):
                return None
            context.precondition = None
            return cast(Precondition, condition)
        state.if_version = None
        return Precondition(if_version=float(version))

    def save_later(self, instance: UnsavedInstance) -> None:
        if self._aborted:
            raise ClientError("The transaction was aborted, no more can be written with it")
        if self.pending is None:
            self.pending = {}
        self.pending[id(instance)] = instance

    def discard_changes(self, table: Table, key: Key) -> None:
        """The record is deleted or replaced: what was changed before is not saved."""
        for number, instance in list((self.pending or {}).items()):
            if instance._is_of(table, key):
                assert self.pending is not None
                del self.pending[number]
                instance._discard()

    @property
    def deleted(self) -> int:
        """Records that were removed, once it is applied."""
        return 0 if self._writes is None else self._writes.deleted

    @property
    def has_work(self) -> bool:
        """Whether there is anything to commit."""
        return self._writes is not None or bool(self.pending) or bool(self.before_commit)

    def collect_changes(self) -> Awaitable[None] | None:
        """Collect the changes of instances now, so that they come before what is written next. Returns an awaitable if that takes longer."""
        while self.pending:
            instance = self.pending.pop(next(iter(self.pending)))
            result = instance.collect(self)
            if is_waiting(result):
                return self._collect_later(result)
        return None

    async def _collect_later(self, waiting: Awaitable[Any]) -> None:
        await waiting
        rest = self.collect_changes()
        if rest is not None:
            await rest

    # --- ending ----------------------------------------------------------------------------------------------------------------------

    def apply(self) -> Awaitable[None] | None:
        """Hand everything over to the store. The context's `pending_commit` is set when it is applied. Returns an awaitable if that takes longer."""
        return then(self._collect_all(), self._apply)  # type: ignore[no-any-return]

    def _collect_all(self) -> Any:
        if self.before_commit or self.pending:
            return self._collect_each()
        return None

    def _collect_each(self) -> Any:
        """Collects until something has to be awaited."""
        while self.pending or self.before_commit:
            if self.pending:
                instance = self.pending.pop(next(iter(self.pending)))
                result = instance.collect(self)
            else:
                assert self.before_commit
                result = self.before_commit.pop(0)()
            if is_waiting(result):
                return self._collect_rest(result)
        return None

    async def _collect_rest(self, waiting: Awaitable[Any]) -> None:
        await waiting
        rest = self._collect_each()
        if rest is not None:
            await rest

    def _apply(self, _: Any) -> Awaitable[None] | None:
        writes = self._writes
        self.is_applied = True
        if self._fault is not None:
            raise self._fault
        if writes is None or not writes.has_writes:
            return None
        return commit(writes, self._context, len(getattr(self._context, "content", b"")))

    async def commit(self) -> None:
        """Commit what was written so far; returns when it is on disk. The transaction can be used for further writes, which are another one.

        Raises the problem that prevents it, with nothing written.
        """
        context = self._context
        try:
            waiting = self.apply()
            if waiting is not None:
                await waiting
        except BaseException:
            self.pending = self.before_commit = None
            raise
        finally:
            applied, context.pending_commit = context.pending_commit, None
            self._renew()
        if applied is not None:
            await wait_committed(applied, context.state.spans)
            await wait_confirmed(self._store, context.state.replicated_confirmation, applied)

    def _renew(self) -> None:
        self.reset_read_snapshot()
        self._writes = None
        self._timestamp = self._fault = None
        self.is_applied = False

    def abort(self) -> None:
        """Undo what was written. Further writes are an error."""
        if self._writes is not None:
            self._writes.abort()
        self._aborted = True
        self.pending = self.before_commit = None

    @property
    def is_aborted(self) -> bool:
        return self._aborted

    def close(self) -> None:
        """The call is over."""
        self.is_closed = True
        state = self._context._state
        if state is not None and state.transaction is self:
            state.transaction = (
                None  # else the two would be a reference cycle, which keeps all that a request refers to until a garbage collection
            )
        self._writes = self.pending = self.instances = self.before_commit = None
        if self._previews is not None:
            self._previews.clear()
        if self._held is not None:
            held, self._held = self._held, None
            for snapshot in held.values():
                snapshot.abort()

    def __del__(self) -> None:
        if self.is_closed or sys.is_finalizing():
            return
        if self.opened_at is not None and self.has_work:
            code, instruction = self.opened_at
            place = f"{code.co_filename}:{line_of(code, instruction)}, in {code.co_name}"
            logger.error("a transaction was entered and never left, so what was written in it is undone: %s", place)
        self.abort()
        self.close()


def shared_transaction(context: AnyContext) -> Transaction | None:
    """The transaction of `context` that several calls of resources share; None: each has one of its own."""
    state = context._state
    if state is None:
        return None
    transaction: Transaction | None = state.transaction  # type: ignore[assignment]  # it is one of this module
    return None if transaction is None or not transaction.is_shared or transaction.is_closed else transaction


def open_transaction(context: AnyContext | None) -> Transaction | None:
    """The transaction that calls in `context` take part in; None: they run for themselves. Raises RuntimeError on a helper thread."""
    if here.is_helper:
        refuse_helper()
    state = None if context is None else context._state
    if state is None:
        return None
    transaction: Transaction | None = state.transaction  # type: ignore[assignment]  # it is one of this module
    return None if transaction is None or transaction.is_closed or transaction.is_applied else transaction


def run_in_transaction(store: Store, context: AnyContext | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(transaction, *arguments)` in the open transaction of `context`, or in one of its own, whose commit is awaited.

    Returns the result, or an awaitable of it. What `function` raises undoes a transaction of its own.
    """
    transaction = open_transaction(context)
    if transaction is not None:
        return function(transaction, *arguments)
    own = Context.within(context)
    own.state.transaction = transaction = Transaction(store, own)
    transaction.is_single = True
    token = enter(own)
    try:
        result = settled(function(transaction, *arguments))
        if own.is_narrowed and context is not None:
            context.is_narrowed = True
        if is_waiting(result):
            transaction.is_lasting = True
            return _finish(transaction, own, result)
        waiting = transaction.apply() if transaction.has_work else None
    except BaseException:
        transaction.abort()
        transaction.close()
        raise
    finally:
        leave(token)
    if waiting is None and own.pending_commit is None and own.state.replicated_confirmation is None:
        transaction.close()
        return result
    return _committed(transaction, own, waiting, result)


async def _finish(transaction: Transaction, own: Context, awaitable: Awaitable[Any]) -> Any:
    token = enter(own)
    try:
        result = settled(await awaitable)
        waiting = transaction.apply()
    except BaseException:
        transaction.abort()
        transaction.close()
        raise
    finally:
        leave(token)
    return await _committed(transaction, own, waiting, result)


async def _committed(transaction: Transaction, own: Context, waiting: Awaitable[None] | None, result: Any) -> Any:
    try:
        if waiting is not None:
            await waiting
    finally:
        transaction.close()
    applied = own.pending_commit
    if applied is not None:
        await wait_committed(applied)
    await wait_confirmed(transaction._store, own.state.replicated_confirmation, applied)
    return result


def _expiry(given: Any) -> float | None:
    """`expires_at` of a context. Raises TypeError for what is no time in ms."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < LATEST:
        raise TypeError(f"expires_at must be a time in ms since 1970, not {given!r}")
    return float(given)


class TransactionCall:
    """What `transaction(...)` returns: `await transaction(fn)` runs `fn(txn)` in a transaction; `async with transaction() as txn` runs the block in one.

    Inside an open transaction both take part in it, and leave its commit to the code that has opened it.
    """

    __slots__ = ("_code", "_context", "_entered", "_function", "_instruction", "_store", "_token")

    def __init__(self, store: Store, context: AnyContext | None, function: Callable[[Transaction], Any] | None) -> None:
        self._store = store
        self._context = context
        self._function = function
        self._entered: tuple[Transaction, Context] | None = None
        self._token: Any = None
        frame = sys._getframe(2)  # of the application
        self._code = frame.f_code
        self._instruction = frame.f_lasti

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._run().__await__()

    async def _run(self) -> Any:
        if self._function is None:
            raise TypeError("transaction() needs a function, await transaction(fn), or is used as: async with transaction() as txn")
        async with self as transaction:
            result = settled(self._function(transaction))
            return settled(await result) if is_waiting(result) else result

    async def __aenter__(self) -> Transaction:
        context = self._context
        transaction = open_transaction(context)
        if transaction is not None:
            return transaction
        own = Context.within(context)
        own.state.transaction = transaction = Transaction(self._store, own)
        transaction.is_lasting = True
        transaction.opened_at = self._code, self._instruction
        self._entered = transaction, own
        self._token = enter(own)
        return transaction

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._entered is None:
            return
        (transaction, own), self._entered = self._entered, None
        leave(self._token)
        if error is not None:
            transaction.abort()
            transaction.close()
            return
        if transaction.is_aborted:
            transaction.close()
            return
        try:
            waiting = transaction.apply()
        except BaseException:
            transaction.abort()
            transaction.close()
            raise
        await _committed(transaction, own, waiting, None)


class TransactionFunction:
    """`await transaction(function)` runs `function(txn)` in a transaction, commits, and returns its result; `transaction(context, function)` in the name of the
    user of that context. `async with transaction() as txn` does the same with a block. What is raised undoes it. Inside of an open transaction both take
    part in that one."""

    def __init__(self, interface: Callable[[], CurrentInterface]) -> None:
        self._interface = interface

    def __call__(self, *arguments: Any) -> TransactionCall:
        if len(arguments) > 2 or (arguments and not callable(arguments[-1])):
            raise TypeError("transaction takes a function, and before it perhaps a context: transaction(fn), transaction(context, fn)")
        context = context_of(arguments[0]) if len(arguments) == 2 else current_context()
        return TransactionCall(self._interface().store, context, arguments[-1] if arguments else None)

    def commit(self, context: Any = None) -> Awaitable[None]:
        """Commit what the transaction of `context`, by default the running one, has written so far."""
        return self._open(context).commit()

    def abort(self, context: Any = None) -> None:
        """Undo what the transaction of `context`, by default the running one, has written."""
        self._open(context).abort()

    @staticmethod
    def _open(given: Any) -> Transaction:
        transaction = open_transaction(current_context() if given is None else context_of(given))
        if transaction is None:
            raise RuntimeError("there is no open transaction")
        return transaction
