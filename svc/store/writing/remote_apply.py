"""Applying transactions of another node: whole, in order, once (spec: replication).

A transaction is applied in a turn like any other, in the same commit with how far its origin was applied (`replication_state`). Several small ones share a
child transaction and the commit; after TURN seconds of them others have their turn. One of more than LARGE entries is a long write (`long_write`).

What was applied before is passed over. If one cannot be applied, those before it are, and nothing of those behind it: the caller finds out why, and goes on
there when that has changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

import msgspec

from svc.errors import ClientError, Problem
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.env import Txn, WriterBusy
from svc.store.log.replicated_log import ReplicatedLog
from svc.store.writing.applied_batch import AppliedBatch
from svc.store.writing.long_write import LongWrite
from svc.store.writing.record_replay import Chains
from svc.store.writing.remote_write import MergeFigures, ReadWrite, RefusedTransaction, RemoteWriteSet, read_transaction
from svc.store.writing.write_set import WriteSet

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.replication_state import ReplicationState, StreamHint
    from svc.store.slices import Slices
    from svc.store.table import Table
    from svc.store.writing.remote_transaction import Origin, RemoteTransaction

logger = logging.getLogger("svc.store")

TURN = 0.004  # seconds of work in one turn
LARGE = 200  # entries of a transaction that takes too long for a turn: 10 ms


class AppliedUpTo(msgspec.Struct):
    """`lsn`: up to which the origin's log is applied, on disk. `refused`: why the next one could not be. `figures`: of those applied by this call."""

    lsn: int
    figures: MergeFigures
    refused: RefusedTransaction | None = None


async def apply_remote(
    database: Database,
    origin: Origin,
    transactions: Sequence[RemoteTransaction],
    stream: tuple[str, StreamHint] | None = None,
    *,
    up_to: int = 0,
) -> AppliedUpTo:
    """Apply transactions of one origin, in the order of its log. When this returns, what it says is on disk. One call at a time for each database.

    `stream`: its name, and what is to be remembered of it once all are applied. `up_to`: a later LSN than that of the last one, up to which there is no more
    of the origin. Waits behind long writes and other processes, and makes way for other work.
    Raises Overloaded, NoSpace, StoreFailure: what was committed by then is applied. Cancelled, it leaves whole transactions.
    """
    assert database.replication is not None, f"{database!r} is not replicated"
    applying = _Applying(database, database.replication, origin, stream, up_to)
    await applying.run(list(transactions))
    return applying.outcome


class _Applying:
    """One call."""

    def __init__(
        self, database: Database, state: ReplicationState, origin: Origin, stream: tuple[str, StreamHint] | None, up_to: int
    ) -> None:
        self._database = database
        self._state = state
        self._origin = origin
        self._stream = stream
        self._up_to = up_to
        self._waiting: list[RemoteTransaction] = []
        self._chains: Chains = {}
        self._heard = state.heard(database.snapshot(), origin)
        self.outcome = AppliedUpTo(state.applied(database.snapshot(), origin), MergeFigures(found=[]))

    async def run(self, transactions: list[RemoteTransaction]) -> None:
        self._waiting = transactions
        if not transactions:
            await self._turn(lambda: self._in_turn([], None))
        while self._waiting and self.outcome.refused is None:
            await self._database.store.slices.take()
            first = self._waiting[0]
            if first.last_lsn <= self.outcome.lsn:
                del self._waiting[0]
                if not self._waiting and (self._stream is not None or self._up_to > self.outcome.lsn):
                    await self._turn(lambda: self._in_turn([], None))
                continue
            self._learn(first)
            if len(first.entries) > LARGE:
                await self._long(first)
            else:
                await self._turn(self._apply_small)

    # -- in a turn

    def _apply_small(self) -> _Batch | None:
        small = list(takewhile(lambda each: len(each.entries) <= LARGE, self._waiting))
        return self._in_turn(small, self._database.clock.monotonic() + TURN)

    async def _turn(self, attempt: Callable[[], _Batch | None]) -> None:
        """Have `attempt` write in a turn, and wait for its commit."""
        batch = await in_place(self._database, attempt)
        if batch is not None:
            problem = await batch.committed
            if problem is not None:
                raise problem
            self._count(batch)

    def _in_turn(self, transactions: list[RemoteTransaction], end: float | None) -> _Batch | None:
        """Apply as many as the time allows, one at least. Raises WriterBusy, Problem."""
        database = self._database
        database.store.open_writers((database,), wait=False)
        if database.env.reserve.is_low and transactions:
            database.require_space()
        batch = self._attempt(transactions, end)
        if batch.failed is not None:  # all is undone: without the one that was refused
            refused, count = batch.failed, batch.count
            if count:
                batch = self._attempt(transactions[:count], None)
            self.outcome.refused = refused
            if not count:
                return None
        return batch

    def _attempt(self, transactions: list[RemoteTransaction], end: float | None) -> _Batch:
        database, state, now = self._database, self._state, self._database.clock.monotonic
        batch = _Batch()
        writes = RemoteWriteSet(database, chains=self._chains)
        try:
            lsn = self.outcome.lsn = state.applied(writes.txn, self._origin)
            for transaction in transactions:
                if transaction.last_lsn > lsn:
                    try:
                        for read in self._read(transaction, lsn, writes):
                            writes.apply(read)
                    except RefusedTransaction as refused:
                        batch.failed = refused
                        writes.rollback()
                        self._chains.clear()
                        return batch
                    lsn = transaction.last_lsn
                batch.count += 1
                if end is not None and now() >= end:
                    break
            batch.lsn = self._finish(writes, lsn, is_all=batch.count == len(self._waiting))
            batch.figures = writes.figures
        except BaseException as error:
            writes.rollback()
            self._chains.clear()
            if isinstance(error, LmdbError):
                raise store_problem(error, database.env.path) from error
            raise
        writes.commit()
        database.store.saw_version(writes.version)  # what is written later in this turn exceeds it
        database.store.applied(AppliedBatch(database, [batch.done]))
        return batch

    def _read(self, transaction: RemoteTransaction, lsn: int, writes: RemoteWriteSet) -> list[ReadWrite]:
        """What a transaction writes, which begins with this. `lsn`: up to which its origin is applied."""
        found = read_transaction(self._database, self._origin, transaction)
        if transaction.lsn <= lsn:
            raise RefusedTransaction(f"Transaction {transaction.lsn} of {self._origin.node} is applied in part, as it seems, up to {lsn}")
        log = self._database.log
        assert isinstance(log, ReplicatedLog)
        if not log.saw(transaction.version) and (times := log.said_ahead.count(self._origin.node)) is not None:
            logger.error(
                "database %s: a transaction of %s is %.0f s ahead of the clock here: set the clocks%s",
                self._database.name,
                self._origin.node,
                transaction.version / 1000 - self._database.clock.wall(),
                f" ({times} times since it was said)" if times > 1 else "",
            )
        writes.begin(self._origin, transaction, is_heard=transaction.lsn <= self._heard)
        return found

    def _finish(self, writes: RemoteWriteSet, lsn: int, *, is_all: bool) -> int:
        """Write how far this is applied, with what was written. Returns that LSN."""
        if is_all:
            lsn = max(lsn, self._up_to)
        log = self._database.log
        assert isinstance(log, ReplicatedLog)
        writes.end()
        txn = writes.txn
        self._state.set_applied(txn, self._origin, lsn)
        if is_all and self._stream is not None:
            self._state.set_hint(txn, *self._stream)
        log.save_clock(txn)
        writes.version = log.last_version
        writes.writes_unlogged = True
        return lsn

    def _count(self, batch: _Batch) -> None:
        """What was written is on disk."""
        del self._waiting[: batch.count]
        self.outcome.lsn = batch.lsn
        _add(self.outcome.figures, batch.figures)

    def _learn(self, transaction: RemoteTransaction) -> None:
        """Dynamic tables get the attributes that they do not have."""
        database = self._database
        if not any(table.definition.dynamic for table in map(database.tables.get, {entry.table for entry in transaction.entries}) if table):
            return
        try:
            reads = read_transaction(database, self._origin, transaction)
        except RefusedTransaction:
            return  # it is said when it is to be applied
        names: dict[Table, dict[str, None]] = {}
        for read in reads:
            if read.table.definition.dynamic and read.write is not None and read.write.data is not None:
                names.setdefault(read.table, {}).update(dict.fromkeys(read.write.data))
        for table, found in names.items():
            try:
                database.learn_attributes(table, found)
            except ClientError as problem:  # they are stored all the same, without indexes
                logger.error("database %s: attributes from another node are not indexed: %s", database.name, problem.message)

    # -- as a long write

    async def _long(self, transaction: RemoteTransaction) -> None:
        work = _LargeTransaction(self, transaction)
        try:
            await _RemoteLongWrite(self._database, work).run()
        except RefusedTransaction as refused:
            self.outcome.refused = refused
            return
        self._count(work.batch)


class _Batch:
    """Transactions that share a commit. `count`: of those that were looked at. `lsn`: up to which they are applied. `failed`: why the next was refused."""

    def __init__(self) -> None:
        self.count = 0
        self.lsn = 0
        self.figures = MergeFigures(found=[])
        self.failed: RefusedTransaction | None = None
        self.committed: asyncio.Future[Problem | None] = asyncio.get_running_loop().create_future()

    def done(self, problem: Problem | None) -> None:
        loop = self.committed.get_loop()
        loop.call_soon_threadsafe(self._set, problem)  # the turn's commit is the last thing before the loop polls

    def _set(self, problem: Problem | None) -> None:
        if not self.committed.done():
            self.committed.set_result(problem)


class _LargeTransaction:
    """`long_write.Work`."""

    adds = True

    def __init__(self, applying: _Applying, transaction: RemoteTransaction) -> None:
        self.database = applying._database
        self.size = len(transaction.entries)
        self.batch = _Batch()
        self._applying = applying
        self._transaction = transaction

    def steps(self, write_set: WriteSet) -> Iterator[None]:
        assert isinstance(write_set, RemoteWriteSet)
        applying, transaction = self._applying, self._transaction
        batch = self.batch
        lsn = applying._state.applied(write_set.txn, applying._origin)
        if transaction.last_lsn > lsn:
            for read in applying._read(transaction, lsn, write_set):
                write_set.apply(read)
                yield
            lsn = transaction.last_lsn
        batch.lsn = applying._finish(write_set, lsn, is_all=len(applying._waiting) == 1)
        batch.count, batch.figures = 1, write_set.figures

    def forget(self, slices: Slices) -> None:
        pass


class _RemoteLongWrite(LongWrite):
    def __init__(self, database: Database, work: _LargeTransaction) -> None:
        super().__init__(database.store, work, {}, None, 0)

    def _open(self, txn: Txn) -> RemoteWriteSet:
        return RemoteWriteSet(self._database, txn)


def _add(total: MergeFigures, more: MergeFigures) -> None:
    total.writes += more.writes
    total.late += more.late
    total.void += more.void
    total.conflicts += more.conflicts
    total.found += more.found


async def in_place(database: Database, attempt: Callable[[], _Batch | None]) -> _Batch | None:
    """What `attempt` returns, which is called when neither another process nor a long write is under way. Raises Overloaded, and what it raises."""
    if not database.queued_writes.has_place():
        try:
            return await _at_end(database, attempt)
        except WriterBusy:
            pass
    try:
        return await database.store.write_when_free(lambda: (database,), attempt)
    finally:
        database.env.leave_place()  # if nothing was written


async def _at_end(database: Database, attempt: Callable[[], _Batch | None]) -> _Batch | None:
    """The same at the end of a turn in which no other process writes."""
    loop = asyncio.get_running_loop()
    applied: asyncio.Future[_Batch | None] = loop.create_future()

    def end(batch: _Batch | None, error: BaseException | None) -> None:
        if applied.done():
            return
        if error is None:
            applied.set_result(batch)
        else:
            applied.set_exception(error)

    def apply() -> None:
        if applied.done():  # the caller has been cancelled
            return
        batch, error = None, None
        try:
            batch = attempt()
        except BaseException as raised:
            error = raised
        loop.call_soon_threadsafe(end, batch, error)

    database.queued_writes.add_transaction(apply)
    return await applied
