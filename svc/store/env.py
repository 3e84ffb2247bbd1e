"""Opens LMDB, maps its errors, and owns a turn's transactions (architecture §4, §6).

One `Environment` is one LMDB environment, which is one database. Within a turn of the loop it hands out at most two transactions:

- the *snapshot*, a read transaction that all reads of the turn share. It ends with the turn, because a long reader keeps LMDB from
  reusing pages, unless something that goes on in later turns holds it (`hold_snapshot`): then it is also the snapshot of later turns, until
  something has been committed. So there is one held transaction for each commit at most, and not one for each holder;
- the *writer*, the write transaction of the turn. Each request writes in a child of it (`child`), so that one request can be undone
  alone; `commit` makes all of them durable with one fsync.

Instead of the writer there may be a *long writer*, which stays open over turns and belongs to one `Holder` (`hold`). LMDB ties a write
transaction to the thread that began it. So the long writer lives on a helper thread of its own: its work is handed there piece by piece
while the loop is blocked (`run_long`), and its commit, which may write and flush many pages, runs there while the loop continues reading
(`commit_long`). py-lmdb gives up the interpreter lock for it, and readers need nothing of a writer.

Rules that LMDB sets and this module keeps:

1. One child at a time, and its parent must not be touched while it lives. Children are therefore used synchronously.
2. While the writer is open no other process can commit. While it is not, any may: the snapshot and the writer compare their
   transaction id with that of the commit this process has seen (`current`), and call `on_foreign_commit` first when they differ.
   Only ids of transactions count. `info()` shows a commit as soon as its meta page is written, before the other process' write has
   returned: until then transactions still begin at the commit before it.
3. A store handle must not be used in a transaction older than the handle: opening or making one ends the snapshot.
4. A transaction that meets an error is aborted. `MDB_MAP_FULL` in a child spoils this child only; a failed commit undoes the whole turn.
5. One writer at a time. To begin one while a long writer is held by this process or another (`writer_gate`) raises WriterBusy,
   or, if it cannot wait, makes the holder give it back, or stops the thread until the other process is done.
6. When LMDB could not write a meta page it does not know what of its last commit is on disk: this process can neither read nor write any
   more (`has_stopped`), only open the environment again. Too much refers to its handles for that; the server restarts.

No `writemap`: with it a full disk is a SIGBUS instead of an error.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import lmdb

from svc.errors import Problem, StoreFailure
from svc.store.disk.database_copy import RawCopy
from svc.store.disk.database_locks import DatabaseInUse, OpenLock
from svc.store.disk.descriptors import keep_from_programs
from svc.store.disk.faults import MAP_BYTES, MAX_STORES, opened, store_problem
from svc.store.disk.space_reserve import SpaceReserve
from svc.store.disk.writer_gate import WriterGate

if TYPE_CHECKING:
    Txn = lmdb.Transaction[bytes]
    Cursor = lmdb.Cursor[bytes]
    Handle = lmdb._Database
    from lmdb import _StatDict
else:
    Txn, Cursor, Handle = lmdb.Transaction, lmdb.Cursor, object

log = logging.getLogger("svc.store")


MAX_READERS = 1024  # snapshots open at one time, in all processes
SPARE_TRANSACTIONS = 8  # ended read transactions that are kept for reuse

_UNKNOWN = -1  # in place of a transaction id: none is equal to it, nor comes after it

BUSY_LIMIT = 10.0  # seconds to stop the thread at most until another process' long write is done
_BUSY_PAUSE = 0.002  # polling interval, seconds
MOST_YIELDED = 100  # times that a long writer is put off for another process, which may have been stopped
HEAD_START = (
    10  # times that it is put off behind a change of the stores, which others cannot follow while it is held: their loops would stop
)


T = TypeVar("T")


class WriterBusy(Exception):
    """A long write is under way in this database, of this process or another: the writer of a turn cannot be opened now."""

    def __init__(self, env: Environment) -> None:
        super().__init__(f"{env.path} is being written to")
        self.env = env


class Holder(Protocol):
    """The holder of the long writer. `since`: monotonic time at which its work began, s; 0: not yet. `about`: what it is, for the log."""

    since: float

    @property
    def about(self) -> str: ...

    def yield_writer(self) -> None:
        """Undo what has been written, or wait until a commit under way has ended; at once, within the call."""

    def finish(self) -> None:
        """The commit under way has just become visible: take note of it."""


def new_helper() -> Executor:
    """A thread that long writers live on."""
    return ThreadPoolExecutor(1, thread_name_prefix="writer")


def _pages(stat: _StatDict) -> int:
    return stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]


def store_bytes(txn: Txn, handle: Handle) -> int:
    """Bytes of the pages of a store."""
    stat = txn.stat(handle)
    return _pages(stat) * stat["psize"]


def _ignore() -> None:
    """Nobody wants to know of other processes' commits yet."""


_GIVEN_UP: list[Any] = []  # kept, so that nothing of it is ended


class _ParentsEnvironment:
    """In place of LMDB's environment in a forked child."""

    def __getattr__(self, name: str) -> Any:
        raise StoreFailure("The database is that of the parent of this process, which was forked")


class Environment:
    """One LMDB environment in the directory `path`, made if it is missing.

    `on_foreign_commit` is called, with nothing of ours waiting to be committed, when another process has committed since the last poll. `snapshot` then is
    of the commit that is being followed. It may read and open stores, not write. If it raises, it is called again at the next poll.
    `on_full`: called when all reader slots are taken; True: there is one again.
    `make_helper`: the executor of a single thread, for long writers; called when the first is begun.
    Raises StoreFailure or NoSpace if the environment cannot be opened.
    """

    __slots__ = (
        "_beginning",
        "_committing",
        "_copies",
        "_dirty",
        "_env",
        "_gate",
        "_head_start",
        "_held",
        "_held_newest",
        "_helper",
        "_is_beginning",
        "_is_behind",
        "_is_following",
        "_is_lost",
        "_last_long",
        "_long",
        "_make_helper",
        "_open_lock",
        "_snapshot",
        "_writer",
        "_yielded",
        "caches_are_behind",
        "current",
        "has_stopped",
        "holder",
        "on_foreign_commit",
        "on_full",
        "page_bytes",
        "path",
        "reserve",
    )

    def __init__(
        self, path: Path, *, map_bytes: int = MAP_BYTES, write_async: bool = False, make_helper: Callable[[], Executor] = new_helper
    ) -> None:
        self.path = path
        self._snapshot: Txn | None = None
        self._held: set[Txn] = set()
        self._held_newest: Txn | None = None  # what later turns may share
        self._writer: Txn | None = None
        self._beginning: Txn | None = None  # the writer, while what other processes committed before it is being followed
        self._is_following = False
        self._is_lost = False  # a commit of ours must not count as what memory has
        self._long: Txn | None = None
        self._committing = 0  # id of the long writer whose commit is under way
        self._is_beginning = False
        self._make_helper = make_helper
        self._helper: Executor | None = None
        self.holder: Holder | None = None  # of the long writer
        self.caches_are_behind = False  # a long write is being entered into them
        self._dirty = False
        self._head_start = 0  # how often the next long writer is still put off
        self._last_long = 0  # id of the last long writer of this process, until another begins
        self._yielded = 0  # how often that was put off
        self._is_behind = False  # the snapshot is older than a commit of ours
        self.on_foreign_commit: Callable[[], None] = _ignore
        self.on_full: Callable[[], bool] | None = None
        self._copies: set[RawCopy] = set()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._open_lock = OpenLock(path)
        except DatabaseInUse as error:
            raise StoreFailure("The database is being restored, try again later") from error
        except OSError as error:
            raise store_problem(error, path) from error
        try:
            self._env = lmdb.open(
                str(path),
                map_size=map_bytes,
                max_dbs=MAX_STORES,
                max_readers=MAX_READERS,
                max_spare_txns=SPARE_TRANSACTIONS,
                mode=0o600,
                sync=not write_async,
                metasync=not write_async,
                writemap=False,
            )
            keep_from_programs(path / "data.mdb")
            self._env.reader_check()  # forget the snapshots of processes that were killed
        except (lmdb.Error, OSError) as error:
            self._open_lock.close()
            raise store_problem(error, path) from error
        try:
            self._gate = WriterGate(path)
        except OSError as error:
            self._env.close()
            self._open_lock.close()
            raise store_problem(error, path) from error
        self.current = self.last_commit()
        try:
            self._open_lock.arrive()  # now that it is among the readers, where `has_siblings` of others looks
        except OSError as error:
            self._gate.close()
            self._env.close()
            self._open_lock.close()
            raise store_problem(error, path) from error
        self.page_bytes = self._env.stat()["psize"]
        self.reserve = SpaceReserve(self._env, path, self.page_bytes)
        self.has_stopped = False
        opened(path)
        self.reserve.refill()

    def _problem(self, error: lmdb.Error | OSError) -> Problem:
        """`store_problem`; and notes whether LMDB still works (rule 6)."""
        if not self.has_stopped:
            try:
                self._env.begin().abort()
            except lmdb.PanicError:
                self.has_stopped = True
            except lmdb.Error:
                pass
        return store_problem(error, self.path)

    # -- reading

    def snapshot(self) -> Txn:
        """The read transaction that all reads of this turn share. Valid until `end_snapshot`; a commit does not change what it sees."""
        if self._snapshot is None:
            txn = self.open_snapshot()
            held = self._held_newest
            if held is not None and held.id() == txn.id():
                txn.abort()
                txn = held
            self._snapshot = txn
            self._is_behind = False
        return self._snapshot

    def open_snapshot(self) -> Txn:
        """A read transaction of the caller's own, for work within this turn or on another thread. The caller aborts it."""
        try:
            while True:
                try:
                    txn = self._env.begin()
                except lmdb.ReadersFullError as error:
                    txn = self._begin_after(error)
                number = txn.id()
                if number == self.current or self._is_following:
                    return txn
                if number == self._committing and self.holder is not None:
                    txn.abort()
                    self.holder.finish()
                else:
                    self._catch_up(txn)
        except lmdb.Error as error:
            raise self._problem(error) from error

    def _begin_after(self, error: lmdb.ReadersFullError) -> Txn:
        if self.on_full is None or not self.on_full():
            raise error
        return self._env.begin()

    def hold_snapshot(self, *, fresh: bool = False, is_private: bool = False) -> Txn:
        """The turn's snapshot, which from now on outlives the turn: for work that goes on later. `fresh`: one of what is committed by now. The same one is
        returned to all who ask for the same state, but with `is_private`. End it with `release_snapshot`, once."""
        if is_private:
            txn = self.open_snapshot()
            self._held.add(txn)
            return txn
        if fresh:
            txn = self.open_snapshot()
            same = next((known for known in (self._snapshot, self._held_newest) if known is not None and known.id() == txn.id()), None)
            if same is not None:
                txn.abort()
                txn = same
        else:
            txn = self.snapshot()
        self._held.add(txn)
        self._held_newest = txn
        return txn

    def release_snapshot(self, txn: Txn) -> None:
        """End a held snapshot; if it is the turn's, with the turn."""
        if txn not in self._held:  # it is the parent's of this process (`give_up`)
            return
        self._held.discard(txn)
        if self._held_newest is txn:
            self._held_newest = None
        if self._snapshot is not txn:
            txn.abort()

    @property
    def copies(self) -> int:
        """Copies under way, each with a read transaction."""
        return len(self._copies)

    def end_snapshot(self) -> None:
        """Let go of the turn's snapshot, if there is one."""
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None and snapshot not in self._held:
            snapshot.abort()

    def _end_snapshots(self) -> None:
        """The same, and what is held is not shared with later turns: stores are about to be opened that it does not know (rule 3)."""
        self.end_snapshot()
        self._held_newest = None

    def last_commit(self) -> int:
        """LMDB's number of the newest commit of any process: 0.3 us."""
        try:
            try:
                txn = self._env.begin()
            except lmdb.ReadersFullError as full:
                txn = self._begin_after(full)
        except lmdb.Error as error:
            raise self._problem(error) from error
        number: int = txn.id()
        txn.abort()
        return number

    def arrivals(self) -> bytes:
        """Another value each time that a process has opened it. One that has come since is seen by `has_siblings` already."""
        return self._open_lock.arrivals()

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether no other process has it open, and none can open it within the block if so. Raises StoreFailure if it is being restored."""
        is_alone = self._open_lock.take_alone()
        try:
            yield is_alone
        finally:
            try:
                self._open_lock.share()
            except DatabaseInUse as error:
                raise StoreFailure("The database is being restored, try again later") from error

    def has_siblings(self) -> bool:
        """Whether another process has read from it and is there, as far as is known: one that was killed may be counted."""
        own = str(os.getpid())
        rows = [line.split() for line in self._env.readers().splitlines()]
        return any(len(row) == 3 and row[0].isdecimal() and row[0] != own for row in rows)

    def is_current(self, txn: Txn) -> bool:
        """Whether `txn` is this turn's snapshot and has seen all our commits: the state that caches reflect."""
        return txn is self._snapshot and not self._is_behind and not self.caches_are_behind

    def _catch_up(self, txn: Txn) -> None:
        """Follow other processes to the commit that the read transaction `txn` sees, and end that."""
        self.end_snapshot()
        self._snapshot, self._is_behind = txn, True
        number = txn.id()
        self._is_following = True
        try:
            self.on_foreign_commit()
        finally:
            self._is_following = False
            self.end_snapshot()
        self.current = number
        self._is_lost = False

    @property
    def has_position(self) -> bool:
        """Whether memory is known to have what was stored as of a commit."""
        return self.current != _UNKNOWN

    def forget_position(self) -> None:
        """What memory has of the database turned out not to be what is stored: read it again, as after a commit of another process."""
        self.current = _UNKNOWN
        self._is_lost = True

    # -- writing

    @property
    def has_writer(self) -> bool:
        """Whether the turn's write transaction is open: other processes wait for it."""
        return self._writer is not None

    def writer(self, *, wait: bool = True) -> Txn:
        """The write transaction of this turn, begun now if need be. Waits for other processes' writers.

        While a long writer is held, here or elsewhere: raises WriterBusy unless `wait`, else see rule 5.
        """
        if self._writer is None:
            assert not self._is_following, "what follows a commit of another process cannot write"
            self._enter(wait)
            try:
                self._gate.try_place()
                self._writer = self._begin_writer()
            except BaseException as error:
                self._gate.release_shared()
                if isinstance(error, lmdb.Error | OSError):
                    raise self._problem(error) from error
                raise
        return self._writer

    def try_place(self) -> bool:
        """Whether no other process is known to write in its turn. Then others wait for this one until `leave_place`, or until its writer has ended."""
        try:
            return self._gate.try_place()
        except OSError as error:
            raise self._problem(error) from error

    def leave_place(self) -> None:
        """Harmless while there is a writer."""
        self._gate.leave_place()

    def await_place(self, on_free: Callable[[], object]) -> None:
        """Have `on_free` called on another thread when no other process writes in its turn; then call `try_place`."""
        self._gate.await_place(on_free)

    def _begin_writer(self) -> Txn:
        """Begin the writer, and follow what was committed before it while it keeps others from committing more: under load from several
        processes it would else never be up to date. Only for stores that are new here it has to begin again."""
        while True:
            self._beginning = self._env.begin(write=True)
            try:
                if self._beginning.id() != self.current + 1:
                    self._catch_up(self._env.begin())
            except BaseException:
                self._end_beginning()
                raise
            writer, self._beginning = self._beginning, None
            if writer is not None:
                return writer

    def _end_beginning(self) -> None:
        """Make way for another write transaction of ours."""
        beginning, self._beginning = self._beginning, None
        if beginning is not None:
            beginning.abort()

    def _enter(self, wait: bool) -> None:
        """Pass the gate: from here on LMDB makes us wait only for the writers of other processes' turns."""
        try:
            if self.holder is not None and not self._is_beginning:
                if not wait:
                    raise WriterBusy(self)
                self.holder.yield_writer()
            if self._gate.acquire_shared():
                return
            if not wait:
                raise WriterBusy(self)
            if self._acquire_blocking():
                return
        except OSError as error:
            raise self._problem(error) from error
        raise StoreFailure("Another process has been writing to the database for too long, try again later")

    def _acquire_blocking(self) -> bool:
        """Stop the thread until another process has ended its long write, which ends early if it can; False if that takes too long."""
        announces = not self._gate.is_announced
        if announces:
            self._gate.announce()
        try:
            pause = Event()
            for _ in range(int(BUSY_LIMIT / _BUSY_PAUSE)):
                pause.wait(_BUSY_PAUSE)
                if self._gate.acquire_shared():
                    return True
        finally:
            if announces:
                self._gate.withdraw()
        return False

    def is_open_to_writers(self, *, announces: bool = False) -> bool:
        """Whether no other process holds a long writer. `announces`: if one does, its next one lets a writer of this process go first; then call `withdraw`."""
        try:
            if not self._gate.acquire_shared():
                if announces:
                    self._gate.announce()
                return False
            self._gate.release_shared()
        except OSError as error:
            raise self._problem(error) from error
        return True

    def is_awaited(self) -> bool:
        """Whether another process has announced that writers wait for the long writer of this one."""
        try:
            return self._gate.is_awaited()
        except OSError as error:
            raise self._problem(error) from error

    def withdraw(self) -> None:
        """No writer of this process waits any more."""
        self._gate.withdraw()

    def child(self) -> Txn:
        """A child of the writer, for the writes of one request. End it with `commit_child` or with its own `abort`."""
        try:
            return self._env.begin(None, self.writer(), True)
        except lmdb.Error as error:
            raise self._problem(error) from error

    def commit_child(self, child: Txn) -> None:
        """Make a child's writes part of the turn."""
        try:
            child.commit()
        except lmdb.Error as error:
            raise self._problem(error) from error
        self._dirty = True

    def touch(self) -> None:
        """The writer itself was written to, if there is one: `commit` has something to do."""
        self._dirty = self._writer is not None

    def commit(self) -> None:
        """End the turn's writer: its writes are on disk when this returns. Without any, nothing is written or flushed.

        Raises NoSpace or StoreFailure; then none of the turn's writes exists.
        """
        writer, dirty = self._writer, self._dirty
        self._writer, self._dirty = None, False
        if writer is None:
            return
        if not dirty:
            # LMDB gives the id of an empty commit to the next one: it must not count as seen.
            writer.abort()
            self._gate.release_shared()
            return
        written = writer.id()
        try:
            writer.commit()
        except lmdb.Error as error:
            self._gate.release_shared()
            problem = self._problem(error)
            self.reserve.refill()
            raise problem from error
        self._gate.release_shared()
        self.current = _UNKNOWN if self._is_lost else written
        self.reserve.refill()
        self._is_behind = True

    def abort(self) -> None:
        """Undo the writes of the turn."""
        writer, self._writer, self._dirty = self._writer, None, False
        if writer is not None:
            writer.abort()
            self._gate.release_shared()

    # -- the long writer

    def hold(self, holder: Holder) -> None:
        """From here on the writer of a turn is not begun but over `holder.yield_writer`. Not while one is open. End it with `release`."""
        assert self._writer is None and self.holder is None, "there is a writer already"
        self.holder = holder

    def begin_long(self) -> bool:
        """Begin the long writer; False if another process is writing, or is to open new stores, or to write before the second long writer in a row:
        ask again soon."""
        try:
            if self._head_start and self.has_siblings():
                self._head_start -= 1
                return False
            if self._last_long and self._yielded < MOST_YIELDED and self._gate.is_awaited() and self.last_commit() == self._last_long:
                self._yielded += 1
                return False
            self._last_long = self._yielded = self._head_start = 0
            if not self._gate.try_acquire_exclusive():
                return False
            if self._helper is None:
                self._helper = self._make_helper()
            self._is_beginning = True
            while True:
                txn = self._helper.submit(self._env.begin, write=True).result()
                if txn.id() == self.current + 1:
                    break
                self._helper.submit(txn.abort).result()
                self._catch_up(self._env.begin())
        except (lmdb.Error, OSError) as error:
            raise self._problem(error) from error
        finally:
            self._is_beginning = False
        self._long = txn
        return True

    def run_long(self, work: Callable[[Txn], T]) -> T:
        """Let `work` use the long writer, and wait for it: it may do what it may do here, for nothing else runs meanwhile."""
        assert self._long is not None and self._helper is not None
        return self._helper.submit(work, self._long).result()

    def start_long(self, work: Callable[[Txn], T]) -> Future[T]:
        """The same for one call of LMDB that takes long and needs no interpreter: the loop continues meanwhile. Other uses wait for it."""
        assert self._long is not None and self._helper is not None
        return self._helper.submit(work, self._long)

    def commit_long(self) -> Future[None]:
        """Begin to commit the long writer. When this is done, or before, call `committed_long`."""
        assert self._long is not None and self._helper is not None
        writer, self._long = self._long, None
        self._committing = writer.id()
        return self._helper.submit(writer.commit)

    def committed_long(self, commit: Future[None]) -> None:
        """Take note of the outcome of `commit_long`, and wait for it. Raises as `commit` does; then nothing has been written."""
        written, self._committing = self._committing, 0
        try:
            commit.result()
        except lmdb.Error as error:
            problem = self._problem(error)
            self.reserve.refill()
            raise problem from error
        finally:
            self._gate.release_exclusive()
        self.current = _UNKNOWN if self._is_lost else written
        self._last_long = written
        self.reserve.refill()
        self.end_snapshot()

    def abort_long(self) -> None:
        """Undo the long writer, if there is one. Quick: LMDB keeps the pages for later use."""
        writer, self._long = self._long, None
        if writer is not None:
            assert self._helper is not None
            self._helper.submit(writer.abort).result()

    def release(self) -> None:
        """End `hold`. The long writer must be committed or undone."""
        assert self._long is None and not self._committing, "the long writer is still open"
        self.holder = None
        self._gate.release_exclusive()

    # -- stores

    def open_stores(self, names: Iterable[str]) -> list[Handle | None]:
        """The handles of stores that exist; None for each that does not. Not while a writer is open (rule 3)."""
        assert self._writer is None, "a store of another transaction cannot be opened while this one is under way"
        self._end_snapshots()
        self._end_beginning()
        handles: list[Handle | None] = []
        self._enter(wait=True)
        try:
            # A handle lives on only if its transaction commits, and py-lmdb's read transactions never do: they are recycled.
            txn = self._env.begin(write=True)
            for name in names:
                try:
                    handles.append(self._env.open_db(name.encode(), txn, create=False))
                except lmdb.NotFoundError:
                    handles.append(None)
            txn.commit()
            self._head_start = HEAD_START
        except lmdb.Error as error:
            raise self._problem(error) from error
        finally:
            self._gate.release_shared()
        return handles

    def create_store(self, name: str, *, duplicates: bool = False) -> Handle:
        """The handle of a store, made by the open writer if it is missing; void unless that commits. Ends the snapshot (rule 3).

        `duplicates`: a key may have several values, which are sorted and at most 511 bytes long.
        """
        self._end_snapshots()
        try:
            handle = self._env.open_db(name.encode(), self.writer(), dupsort=duplicates)
        except lmdb.Error as error:
            raise self._problem(error) from error
        self._dirty = True
        self._head_start = HEAD_START
        return handle

    def remove_store(self, handle: Handle) -> None:
        """Remove a store with the open writer, and close its handle at once, also if the writer is aborted then: nothing may use it any more."""
        self._held_newest = None
        try:
            self.writer().drop(handle, True)
        except lmdb.Error as error:
            raise self._problem(error) from error
        self._dirty = True

    # -- space

    def free_pages(self, handles: Iterable[Handle]) -> int:
        """The pages inside the file that nothing uses, about. `handles`: of all stores. O(number of stores)."""
        txn = self._env.begin()
        try:
            used = 2 + _pages(self._env.stat())
            for handle in handles:
                used += _pages(txn.stat(handle))
        finally:
            txn.abort()
        return max(self._env.info()["last_pgno"] + 1 - used, 0)

    # -- the whole

    def free_stale_readers(self) -> int:
        """Forget the snapshots of processes that died; returns how many. They would keep pages from being reused."""
        return self._env.reader_check()

    def open_snapshots(self) -> int:
        """The number of read transactions that this process has open: each keeps the pages it may read from being reused."""
        rows = [line.split() for line in self._env.readers().splitlines()]
        return sum(len(row) == 3 and row[0] == str(os.getpid()) and row[2] != "-" for row in rows)

    def used_bytes(self) -> int:
        """Bytes of the data file that hold pages."""
        return (self._env.info()["last_pgno"] + 1) * self.page_bytes

    def file_bytes(self) -> int:
        """Length of the data file: pages in use, free pages inside, and what is allocated ahead."""
        return (self.path / "data.mdb").stat().st_size

    def flags(self) -> dict[str, bool]:
        """How LMDB was opened, for the test that pins what durability rests on."""
        return dict(self._env.flags())  # type: ignore[arg-type]

    def sync(self) -> None:
        """Flush what `write_async` left to the operating system."""
        try:
            self._env.sync(True)
        except lmdb.Error as error:
            raise self._problem(error) from error

    def open_copy(self) -> RawCopy:
        """A copy of the committed state as of now, to be read on another thread. The caller closes it; until then it pins pages."""
        while True:
            txn = self.open_snapshot()
            try:
                copy = RawCopy(self.path / "data.mdb", self.page_bytes, txn, self._copies.discard)
            except LookupError:
                txn.abort()  # another process commits all the time
                continue
            except OSError as error:
                txn.abort()
                raise self._problem(error) from error
            self._copies.add(copy)
            return copy

    def copy(self, target: Path) -> None:
        """Write a gap-free copy of the committed state into the empty directory `target`."""
        try:
            self._env.copy(str(target), compact=True)
        except (lmdb.Error, OSError) as error:
            raise store_problem(error, target) from error

    def give_up(self) -> None:
        """In a forked child. Its transactions are the parent's: to end one here would give the pages it reads to writers."""
        _GIVEN_UP.append((self._env, self._snapshot, self._writer, self._beginning, self._long, self._held, self._copies))
        self._env = _ParentsEnvironment()  # type: ignore[assignment]
        self._snapshot = self._held_newest = self._writer = self._beginning = self._long = self.holder = self._helper = None
        self._held, self._copies = set(), set()

    def close(self) -> None:
        """Undo what is not committed and close. Private snapshots become unusable; copies under way are ended."""
        for copy in list(self._copies):
            copy.stop()
        if self.holder is not None:
            self.holder.yield_writer()
        self.end_snapshot()
        self.abort()
        if self._helper is not None:
            self._helper.shutdown()
        self._env.close()
        self._gate.close()
        self._open_lock.close()
