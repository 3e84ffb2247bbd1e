"""Applying transactions of another node: whole, in order, once (spec: replication).

A transaction is applied in a turn like any other, in the same commit with how far its origin was applied (`replication_state`). Several small ones share a
child transaction and the commit; after TURN seconds of them others have their turn. What is more than LARGE entries, or LARGE_BYTES, is a long write
(`long_write`), in slices: one large transaction, or many of any size, of up to TOGETHER entries, for which a commit costs little. Such a write ends early for
others that wait.

What was applied before is passed over. If one cannot be applied, those before it are, and nothing of those behind it: the caller finds out why, and goes on
there when that has changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from svc.errors import ClientError, Problem
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.env import Txn, WriterBusy
from svc.store.log.replicated_log import ReplicatedLog
from svc.store.slices import run_now
from svc.store.writing.applied_batch import AppliedBatch
from svc.store.writing.long_write import LongWrite
from svc.store.writing.record_replay import Chains
from svc.store.writing.remote_batch import RemoteBatch
from svc.store.writing.remote_transaction import value_bytes
from svc.store.writing.remote_write import MergeFigures, RefusedTransaction, RemoteWriteSet, check_transaction, read_entries
from svc.store.writing.write_set import WriteSet

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.replication_state import ReplicationState, StreamHint
    from svc.store.slices import Slices
    from svc.store.table import Table
    from svc.store.writing.remote_transaction import Origin, RemoteEntry, RemoteTransaction

logger = logging.getLogger("svc.store")

TURN = 0.004  # seconds of work in one turn
LARGE, LARGE_BYTES = 200, 1 << 18  # entries, or bytes of values, that take too long for a turn: 5 ms
TOGETHER, TOGETHER_BYTES = 4000, 1 << 23  # that share a commit: 0.1 s
READ_AT_ONCE, READ_BYTES = (
    200,
    1 << 17,
)  # that are looked at in a millisecond: of a transaction with more, a part is applied before the rest is looked at


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
        self._most = TOGETHER  # of them in the next long write
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
            await self._learn()
            if self._is_much():
                await self._long()
            else:
                await self._turn(lambda: self._in_turn(self._waiting, self._database.clock.monotonic() + TURN))

    def _is_much(self) -> bool:
        """Whether what waits is too much for a turn."""
        count = size = 0
        for transaction in self._waiting:
            count += len(transaction.entries)
            if count > LARGE:
                return True
            size += value_bytes(transaction.entries)
            if size > LARGE_BYTES:
                return True
        return False

    # -- in a turn

    async def _turn(self, attempt: Callable[[], _Batch | None]) -> None:
        """Have `attempt` write in a turn, and wait for its commit."""
        batch = await in_place(self._database, attempt)
        if batch is not None:
            problem = await batch.committed
            if problem is not None:
                raise problem
            self._count(batch.count, batch.lsn, batch.figures)

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
        rows = RemoteBatch(writes, keeps_entries=bool(database.watchers) or database.store.has_listeners(database))
        try:
            lsn = self.outcome.lsn = state.applied(writes.txn, self._origin)
            for transaction in transactions:
                if transaction.last_lsn > lsn:
                    try:
                        run_now(self._apply(transaction, lsn, rows))
                    except RefusedTransaction as refused:
                        batch.failed = refused
                        writes.rollback()
                        self._chains.clear()
                        return batch
                    lsn = transaction.last_lsn
                batch.count += 1
                if end is not None and now() >= end:
                    break
            rows.finish()
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

    def _apply(self, transaction: RemoteTransaction, lsn: int, rows: RemoteBatch) -> Iterator[None]:
        """Apply a transaction, in short steps. `lsn`: up to which its origin is applied. Raises RefusedTransaction: then a part of it may be applied."""
        database, origin = self._database, self._origin
        check_transaction(database, origin, transaction)
        if transaction.lsn <= lsn:
            raise RefusedTransaction(f"Transaction {transaction.lsn} of {origin.node} is applied in part, as it seems, up to {lsn}")
        is_begun = False
        for entries in _pieces(transaction.entries):
            reads = read_entries(database, origin, transaction, entries)
            if not is_begun:
                is_begun = True
                self._see(transaction)
                rows.begin(origin, transaction, is_heard=transaction.lsn <= self._heard)
            for read in reads:
                if rows.add(read):
                    yield

    def _see(self, transaction: RemoteTransaction) -> None:
        """Its version is one to be exceeded."""
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

    def _count(self, count: int, lsn: int, figures: MergeFigures) -> None:
        """The first of what waits is on disk."""
        del self._waiting[:count]
        self.outcome.lsn = lsn
        _add(self.outcome.figures, figures)

    async def _learn(self) -> None:
        """Dynamic tables get the attributes that they do not have: of the first transaction, and of those behind it up to one that is refused."""
        database, count = self._database, 0
        if not any(table.definition.dynamic for table in database.tables.values()):
            return
        names: dict[Table, dict[str, None]] = {}
        for transaction in self._waiting:
            if count > TOGETHER or not await self._find_names(transaction, names):
                break
            count += len(transaction.entries)
        for table, found in names.items():
            try:
                database.learn_attributes(table, found)
            except ClientError as problem:  # they are stored all the same, without indexes
                logger.error("database %s: attributes from another node are not indexed: %s", database.name, problem.message)

    async def _find_names(self, transaction: RemoteTransaction, names: dict[Table, dict[str, None]]) -> bool:
        """False: it will be refused."""
        database = self._database
        dynamic = [entry for entry in transaction.entries if (table := database.tables.get(entry.table)) and table.definition.dynamic]
        for number, entries in enumerate(_pieces(dynamic)):
            if number:
                await database.store.slices.take()
            try:
                reads = read_entries(database, self._origin, transaction, entries)
            except RefusedTransaction:
                return False  # it is said when it is to be applied
            for read in reads:
                if read.write is not None and read.write.data is not None:
                    names.setdefault(read.table, {}).update(dict.fromkeys(read.write.data))
        return True

    # -- as a long write

    async def _long(self) -> None:
        work = _ManyTransactions(self)
        try:
            await work.write.run()
        except RefusedTransaction as refused:
            if work.count:  # what is before it is right: that is written without it, and then it is refused again
                self._most = work.count
            else:
                self.outcome.refused = refused
            return
        self._most = TOGETHER
        self._count(work.count, work.lsn, work.figures)


def _pieces(entries: list[RemoteEntry]) -> Iterable[list[RemoteEntry]]:
    """What is looked at together."""
    if len(entries) == 1:
        yield entries
        return
    start = size = 0
    for end, entry in enumerate(entries, 1):
        size += len(entry.value or b"")
        if end - start >= READ_AT_ONCE or size >= READ_BYTES:
            yield entries[start:end]
            start, size = end, 0
    if start < len(entries):
        yield entries[start:]


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


class _ManyTransactions:
    """`long_write.Work`. `count`: of those that were looked at, `lsn`: up to which they are applied."""

    adds = True

    def __init__(self, applying: _Applying) -> None:
        self.database = applying._database
        self._transactions = applying._waiting[: applying._most]
        self.size = min(sum(len(transaction.entries) for transaction in self._transactions), TOGETHER)
        self.count = self.lsn = 0
        self.figures = MergeFigures(found=[])
        self.write = _RemoteLongWrite(self)
        self._applying = applying

    def steps(self, write_set: WriteSet) -> Iterator[None]:
        assert isinstance(write_set, RemoteWriteSet)
        applying = self._applying
        rows = RemoteBatch(write_set, keeps_entries=False)
        self.count = entries = size = 0
        lsn = applying._state.applied(write_set.txn, applying._origin)
        for transaction in self._transactions:
            if transaction.last_lsn > lsn:
                yield from applying._apply(transaction, lsn, rows)
                lsn = transaction.last_lsn
                entries += len(transaction.entries)
                size += value_bytes(transaction.entries)
            self.count += 1
            if entries >= TOGETHER or size >= TOGETHER_BYTES or self.write.is_over():
                break
        rows.finish()
        self.lsn = applying._finish(write_set, lsn, is_all=self.count == len(applying._waiting))
        self.figures = write_set.figures

    def forget(self, slices: Slices) -> None:
        pass


class _RemoteLongWrite(LongWrite):
    def __init__(self, work: _ManyTransactions) -> None:
        super().__init__(work.database.store, work, {}, None, 0)

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
