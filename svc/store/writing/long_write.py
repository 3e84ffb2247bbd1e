"""A write of many records: carried out in slices, atomic like any other (spec: schema-and-store §8).

Its writes go into a write transaction of their own, which stays open over turns (`env`: the long writer), and are committed on a helper
thread. Readers see the old state until then and are delayed by no more than a slice. Writers of the same database wait in its queue
(`writer_queue`): LMDB allows one writer.

    stage        what holds
    WAITING      nothing is written. In the queue, or at its head while the turn's writer or another process ends
    WRITING      the long writer is open, some of the writes are in it
    COMMITTING   the commit runs on the helper thread; it cannot be undone any more
    COMMITTED    it is on the disk and readers see it; the index caches and the listeners are updated, in slices
    DONE         complete: the request can be answered

    WAITING -> WRITING -> COMMITTING -> COMMITTED -> DONE
       ^----------'            '-> WAITING, with `problem` if the commit failed

What it writes may be decided only when nobody else can commit any more: `prepare` finds that out, in as many turns as it takes, at the beginning of WRITING.

`yield_writer` is for writers that cannot wait (a schema change, code that is not a coroutine): in WRITING it undoes
everything, and the write begins again behind them. What it collected is therefore kept until it is committed. After RESTARTS of that it
gives up with 503.

If the task that awaits `run` is cancelled (the client has disconnected, a timeout): before COMMITTING everything is undone, for nothing was
acknowledged. From then on it is carried through.

Log entries are not kept in memory. Listeners get them from the log, a few at a time, before any later write of the database.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from svc.errors import NoSpace, Overloaded, Problem
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.env import Txn
from svc.store.indexes.index import IndexChange
from svc.store.log.entries import log_bytes
from svc.store.log.replicated_log import VersionBehind
from svc.store.slices import SLICE
from svc.store.writing.write_set import WriteSet

if TYPE_CHECKING:
    from svc.store.blobs import BlobFile
    from svc.store.database import Database
    from svc.store.indexes.index import Index
    from svc.store.schema import TableDefinition
    from svc.store.slices import Slices
    from svc.store.table import Table
    from svc.store.turn import Turn
    from svc.store.values.keys import Key
    from svc.store.writing.mqtt_message import MqttMessage

logger = logging.getLogger("svc.store")

T = TypeVar("T")

RESTARTS = 5
SHARE = 0.02  # seconds that a write which can end early has before it makes way for others
CACHE_CHANGES = 20_000  # index entries that are entered into caches; with more of them the caches are dropped, and loaded again on demand
_CHUNK = 200  # of them, or of log entries, between two reads of the clock
_PAUSE = 0.002  # polling interval, seconds: whether another process has ended its turn


class WriteStage(IntEnum):
    WAITING = 0
    WRITING = 1
    COMMITTING = 2
    COMMITTED = 3
    DONE = 4


_NEXT = {
    WriteStage.WAITING: (WriteStage.WRITING,),
    WriteStage.WRITING: (WriteStage.COMMITTING, WriteStage.WAITING),
    WriteStage.COMMITTING: (WriteStage.COMMITTED, WriteStage.WAITING),
    WriteStage.COMMITTED: (WriteStage.DONE,),
    WriteStage.DONE: (),
}


class Work(Protocol):
    """What a long write carries out, all in one database. `size`: number of writes; when it has ended early, of those. `adds`: whether it may store something
    new."""

    database: Database
    size: int
    adds: bool

    def steps(self, write_set: WriteSet) -> Iterator[None]:
        """Carry it out from the beginning, in short steps. May be asked for again, if all that the first ones did was undone."""

    def forget(self, slices: Slices) -> None:
        """It is over: free what is long."""


class LongWrite:
    """`work` does not change meanwhile, but for `prepare`. `tables`: the definitions by which its records were checked.

    `version`, `skipped` (see `Transaction`): after `run`.
    """

    def __init__(
        self,
        store: Turn,
        work: Work,
        tables: dict[Table, TableDefinition],
        user: str | None,
        operation: int,
        trace_id: bytes | None = None,
    ) -> None:
        self._store = store
        self._work = work
        self._tables = tables
        self._database = work.database
        self._env = self._database.env
        self._now = store.clock.monotonic
        self._user = user
        self._operation = operation
        self._trace_id = trace_id
        self.mqtt: MqttMessage | None = None  # whose message it carries out
        self.prepare: Callable[[LongWrite], Awaitable[None]] | None = None  # decides what the work is; called again if all was undone
        self.wall_ms = 0.0  # of the writes, with `version`: known to `prepare`
        self.made_wait = False  # whether other writers of this process wait at its end
        self._restarts = 0
        self._least = 0.0  # that its version has to be, if it meets a record whose version is ahead
        self._problem: Problem | None = None
        self._commit: Future[None] | None = None
        self._after: Iterator[None] = iter(())
        self.stage = WriteStage.WAITING
        self._begin_again()

    @property
    def about(self) -> str:
        """For the log."""
        user = "the service" if self._user is None else f"the user {self._user}"
        return f"a write of {self._work.size} records by {user}"

    def is_over(self) -> bool:
        """Whether work that can end early is to do so: other writers wait, of this process or another, and it has had its share."""
        if not self.since or self._now() - self.since < SHARE:
            return False
        return len(self._store.queue_of(self._database)) > 0 or self._env.is_awaited()

    def _begin_again(self) -> None:
        self._steps: Iterator[None] = iter(())
        self._has_steps = True
        self.since = 0.0
        self._entries = 0  # log entries written
        self._log_bytes = 0  # their size, of deletions
        self._changes: list[IndexChange] | None = []  # for the caches; None: there were too many
        self._changed: set[Index] = set()  # then the indexes they belong to
        self._files: list[BlobFile] = []  # of blobs, that records refer to from this on
        self._announced = False  # readers of the definitions have to read them again
        self.version = 0.0
        self.skipped: list[Key] = []

    def _enter(self, stage: WriteStage) -> None:
        assert stage in _NEXT[self.stage], f"a long write went from {self.stage.name} to {stage.name}"
        self.stage = stage

    # -- the way through

    async def run(self) -> None:
        """Returns when everything is on the disk. Raises the Problem that prevented it; then nothing is."""
        queue = self._store.queue_of(self._database)
        await queue.acquire(self._work.size)
        cancelled = False
        try:
            while self.stage is WriteStage.WAITING and self._problem is None:
                try:
                    if await self._begin() and await self._prepared() and await self._write():
                        cancelled = await self._committed()
                except VersionBehind as behind:
                    self._undo()
                    self._env.release()
                    self._restarts += 1
                    self._least = behind.version
            if self._problem is not None:
                raise self._problem
            cancelled |= await self._tell()
        except BaseException:
            self._undo()
            raise
        finally:
            if self._env.holder is self:
                self._env.release()
            self.made_wait = len(queue) > 0
            queue.release(self._work.size)
            self._work.forget(self._store.slices)
        if cancelled:
            raise asyncio.CancelledError

    async def _begin(self) -> bool:
        """Open the long writer; False if that was taken back meanwhile."""
        if self._restarts > RESTARTS:
            raise Overloaded("The database was changed again and again while many records were being written, try again later")
        env, database = self._env, self._database
        while env.has_writer:
            await self._store.slices.take()  # the turn's end commits it
        env.hold(self)
        while not env.begin_long():
            await asyncio.sleep(_PAUSE)
            if env.holder is not self:
                return False
        self._begin_again()
        self._first = database.log.last_lsn + 1
        self._enter(WriteStage.WRITING)
        self._store.check_tables(self._tables)
        store = self._store
        store.saw_version(database.log.last_version)
        if env.reserve.is_low and self._work.adds:
            database.require_space()
        self.version = max(store.next_version(), self._least)
        self.wall_ms = store.clock.wall() * 1000
        self._set = env.run_long(self._open)
        self._files = self._set.new_files
        self.skipped = self._set.skipped
        self._steps = self._work.steps(self._set)
        return True

    def _open(self, txn: Txn) -> WriteSet:
        found = WriteSet(self._database, self.version, self.wall_ms, self._user, self._operation, txn, self._trace_id)
        found.mqtt = self.mqtt
        found.keeps_row = self.mqtt is not None and self.mqtt.row is not None
        return found

    async def _prepared(self) -> bool:
        """Have it decided what to write; False if the writer was taken back meanwhile."""
        if self.prepare is not None:
            self.since = self._now()
            try:
                await self.prepare(self)
            except Exception:
                if self.stage is WriteStage.WRITING:
                    raise
                return False  # it may be no more than that the database has changed under it
            if self.stage is WriteStage.WRITING:
                self._store.queue_of(self._database).know_size(self._work.size)
        return self.stage is WriteStage.WRITING

    async def _write(self) -> bool:
        """Carry out everything; False if that was undone meanwhile."""
        slices = self._store.slices
        while self._has_steps:
            await slices.take()
            if self.stage is not WriteStage.WRITING:
                return False
            self.with_writer(self._write_slice)
            self._note_changes()
        self._announced = self.with_writer(lambda _: self._set.end_long())
        return True

    def with_writer(self, work: Callable[[Txn], T]) -> T:
        """What `work` returns of the long writer. Raises a Problem if the store fails."""
        try:
            return self._env.run_long(work)
        except LmdbError as error:
            raise self._explained(store_problem(error, self._env.path)) from error

    def _explained(self, problem: Problem) -> Problem:
        """How many deletions would fit, if that is what was too much."""
        if not isinstance(problem, NoSpace) or self._work.adds or not self._entries:
            return problem
        return self._database.too_many_deletions(self._entries, self._log_bytes, [table.name for table in self._tables])

    def _write_slice(self, txn: Txn) -> None:
        now = self._now
        end = now() + SLICE
        self.since = self.since or end
        for _ in self._steps:
            if now() >= end:
                return
        self._has_steps = False

    def _note_changes(self) -> None:
        """Keep of what was done only what is needed later."""
        found = self._set.index_changes
        self._entries = self._database.log.last_lsn + 1 - self._first
        if not self._work.adds:
            self._log_bytes += log_bytes(self._set.entries)
        self._set.entries.clear()
        if self._changes is not None and len(self._changes) + len(found) > CACHE_CHANGES:
            self._changed.update(change[0] for change in self._changes)
            self._changes = None
        if self._changes is None:
            self._changed.update(change[0] for change in found)
        else:
            self._changes += found
        found.clear()

    async def _committed(self) -> bool:
        """Commit, whatever happens; True if the caller was cancelled meanwhile."""
        if not self._entries and not self._announced and not self._set.writes_unlogged:
            self._env.abort_long()  # nothing to write: LMDB's id must not count as seen
            self._enter(WriteStage.COMMITTING)
            self._enter(WriteStage.COMMITTED)
            return False
        self._enter(WriteStage.COMMITTING)
        self._commit = self._env.commit_long()
        cancelled = await wait_uncancelled(self._commit)
        self.finish()
        return cancelled

    def finish(self) -> None:
        """The commit has ended, or is about to: take note of its outcome. For `env`, when it shows in a snapshot first."""
        if self.stage is not WriteStage.COMMITTING:
            return
        assert self._commit is not None
        database = self._database
        try:
            self._env.committed_long(self._commit)
        except Problem as problem:
            self._problem = self._explained(problem)
            self._rewind()
            self._store.count_commit(failed=True)
            return
        self._enter(WriteStage.COMMITTED)
        database.log.last_version = self.version
        self._changed |= self._set.uncached
        for index in self._changed:
            index.drop_cache()
        self._env.caches_are_behind = bool(self._changes)
        self._store.count_commit()
        self._after = self._steps_after()

    async def _tell(self) -> bool:
        """Bring caches and listeners up to date, in slices; True if the caller was cancelled meanwhile."""
        cancelled = False
        while self.stage is WriteStage.COMMITTED:
            try:
                await self._store.slices.take()
            except asyncio.CancelledError:
                cancelled = True
            if self.stage is WriteStage.COMMITTED:
                self._follow_up(self._store.slices.run)
        return cancelled

    def _follow_up(self, run: Callable[[Iterator[None]], bool]) -> None:
        """Let `run` take steps of what follows the commit."""
        try:
            done = run(self._after)
        except Exception:  # a defect; what is committed is committed
            logger.exception("what follows a commit failed in %s", self._database.name)
            for index in self._changed.union(change[0] for change in self._changes or ()):
                index.drop_cache()
            self._env.caches_are_behind = False
            done = True
        if done:
            self._enter(WriteStage.DONE)

    def _steps_after(self) -> Iterator[None]:
        for count, file in enumerate(self._files, 1):
            file.keep()
            if not count % _CHUNK:
                yield
        changes = [change for change in self._changes or () if change[0] not in self._changed]
        for start in range(0, len(changes), _CHUNK):
            self._database.enter_in_caches(changes[start : start + _CHUNK])
            yield
        self._env.caches_are_behind = False
        self._store.tell_watchers(self._database)
        if not self._store.has_listeners(self._database):
            return
        try:
            held = self._store.snapshots.hold(self._database, fresh=True, reader="the news of a long write", is_kept=True)
        except Problem:
            logger.exception("listeners are not notified of %d changes of %s", self._entries, self._database.name)
            return
        try:
            entries = self._database.log.read(held.use(), self._first, self._first + self._entries)
            while batch := list(islice(entries, _CHUNK)):
                self._store.publish(self._database, batch)
                yield
        finally:
            held.abort()

    # -- the ways back

    def yield_writer(self) -> None:
        """See the head of the module. Ends with the database free for others."""
        if self.stage is WriteStage.COMMITTING:
            self.finish()
        if self.stage is WriteStage.COMMITTED:
            self._follow_up(lambda steps: all(True for _ in steps))
        elif self.stage is WriteStage.WRITING:
            self._restarts += 1
            self._undo()
        self._env.release()

    def _undo(self) -> None:
        if self.stage is WriteStage.WRITING:
            self._env.abort_long()
            for file in self._files:
                file.unclaim()
            self._rewind()

    def _rewind(self) -> None:
        self._enter(WriteStage.WAITING)
        self._database.undo_long_write(self._first - 1, changed=self._announced)


async def wait_uncancelled(future: Future[Any]) -> bool:
    """Wait for what a thread does, whatever happens to the caller; True if it was cancelled meanwhile. Exceptions stay in `future`."""
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done() -> None:
        if not waiter.done():
            waiter.set_result(None)

    loop = asyncio.get_running_loop()
    future.add_done_callback(lambda _: loop.is_closed() or loop.call_soon_threadsafe(done))
    cancelled = False
    while not waiter.done():
        try:
            await asyncio.shield(waiter)
        except asyncio.CancelledError:
            cancelled = True
    return cancelled
