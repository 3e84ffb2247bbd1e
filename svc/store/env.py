"""Opens LMDB, maps its errors, and owns a turn's transactions (design §4, §6).

One `Environment` is one LMDB environment, which is one database. Within a turn of the loop it hands out at most two transactions:

- the *snapshot*, a read transaction that all reads of the turn share. It ends with the turn, because a long reader keeps LMDB from
  reusing pages;
- the *writer*, the write transaction of the turn. Each request writes in a child of it (`child`), so that one request can be undone
  alone; `commit` makes all of them durable with one fsync.

Instead of the writer there may be a *long writer*, which stays open over turns and belongs to one `Holder` (`hold`). LMDB ties a write
transaction to the thread that began it. So the long writer lives on a helper thread of its own: its work is handed there piece by piece
while the loop stands still (`run_long`), and its commit, which may write and flush many pages, runs there while the loop goes on reading
(`commit_long`). py-lmdb gives up the interpreter lock for it, and readers need nothing of a writer.

Rules that LMDB sets and this module keeps:

1. One child at a time, and its parent must not be touched while it lives. Children are therefore used synchronously.
2. While the writer is open no other process can commit. While it is not, any may: the snapshot and the writer compare LMDB's
   transaction id with the one this process has seen (`current`), and call `on_foreign_commit` first when they differ.
3. A store handle must not be used in a transaction older than the handle: opening or making one ends the snapshot.
4. A transaction that meets an error is aborted. `MDB_MAP_FULL` in a child spoils this child only; a failed commit undoes the whole turn.
5. One writer at a time. Who wants to begin one while a long writer is held by this process or another (`gate`) is told so by WriterBusy,
   or, if it cannot wait, makes the holder give it back, or stops the thread until the other process is done.

Full disks. Deleting needs pages too, for the copies of those it changes, so a disk that is full to the last byte would let nobody make
room. The file is therefore allocated ahead of what LMDB uses (`make_room`). When that is refused, `is_low` is set; who adds records then
has to ask first whether enough pages are free inside the file (`Database.require_space`), and what is left of the tail is for deleting.

No `writemap`: with it a full disk is a SIGBUS instead of an error.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Protocol, TypeVar

import lmdb

from svc.errors import NoSpace, Problem, StoreFailure
from svc.store.copying import RawCopy
from svc.store.gate import Gate
from svc.store.occupancy import Occupancy, Occupied

if TYPE_CHECKING:
    Txn = lmdb.Transaction[bytes]
    Cursor = lmdb.Cursor[bytes]
    Handle = lmdb._Database
    from lmdb import _StatDict
else:
    Txn, Cursor, Handle = lmdb.Transaction, lmdb.Cursor, object

log = logging.getLogger("svc.store")

LmdbError = lmdb.Error

MAP_BYTES = 1 << 40  # address space, not disk: the file grows as needed
MAX_STORES = 1024  # LMDB reserves about 60 bytes for each in every transaction; a child costs 0.4 us more than with 64
MAX_READERS = 1024  # snapshots open at one time, in all processes
SPARE_TRANSACTIONS = 8  # ended read transactions that are kept for reuse

BUSY_LIMIT = 10.0  # seconds to stop the thread at most until another process' long write is done
_BUSY_PAUSE = 0.002  # seconds between two looks at that

RESERVE_BYTES = 1 << 20  # how much of the file is kept allocated behind what is used; at times twice that
_PROBE_BYTES = 16 << 20  # more than a turn or a batch of a load needs
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


T = TypeVar("T")


class WriterBusy(Exception):
    """A long write is under way in this database, of this process or another: the writer of a turn cannot be opened now."""

    def __init__(self, env: Environment) -> None:
        super().__init__(f"{env.path} is being written to")
        self.env = env


class Holder(Protocol):
    """Who has the long writer."""

    def give_back(self) -> None:
        """Undo what has been written, or wait until a commit under way has ended; at once, within the call."""

    def finish(self) -> None:
        """The commit under way has just become visible: take note of it."""


def new_helper() -> Executor:
    """A thread that long writers live on."""
    return ThreadPoolExecutor(1, thread_name_prefix="writer")


def store_problem(error: lmdb.Error | OSError, path: Path) -> Problem:
    """The answer to a request that met this error: NoSpace or StoreFailure, with the remedy. The log gets the path and the cause."""
    if isinstance(error, lmdb.MapFullError):
        log.critical("database %s: its map is full (%s); open it with a larger map", path, error)
        return NoSpace("No space left for this write: the database has reached the size of its map")
    code = error.errno if isinstance(error, OSError) else getattr(error, "code", 0)  # lmdb's own errors have none if made in Python
    if code in _FULL or (code == errno.EIO and _is_full(path)):
        log.critical("database %s: no space left on its volume (%s); free space there, writing goes on by itself", path, error)
        return NoSpace("No space left for this write: the volume of the database is full")
    log.error("database %s: %s: %s", path, type(error).__name__, error)
    if isinstance(error, lmdb.ReadersFullError):
        return StoreFailure("Too many results are being read at the same time, try again later")
    if isinstance(error, lmdb.DbsFullError):
        return StoreFailure(f"The database holds {MAX_STORES} tables and indexes, which is the limit: use another database")
    if isinstance(error, (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError, lmdb.VersionMismatchError)):
        return StoreFailure("The database file is damaged or of another kind: restore a backup")
    if isinstance(error, lmdb.PanicError):
        return StoreFailure("The database stopped after a failed disk write: check its volume, then restart the service")
    return StoreFailure("The database could not be read or written: check its volume and the log of the service")


def _is_full(path: Path) -> bool:
    """Whether the data file in `path` cannot grow.

    LMDB reports a write that was cut short, which is how most disks become full, as an I/O error like any other. So ask: a file as long
    as the data file and a bit longer meets what that met, the limits of user and process included.
    """
    probe = path / "probe"
    try:
        with open(probe, "wb") as file:
            os.posix_fallocate(file.fileno(), (path / "data.mdb").stat().st_size, _PROBE_BYTES)
    except OSError as error:
        return error.errno in _FULL
    finally:
        probe.unlink(missing_ok=True)
    return False


def _pages(stat: _StatDict) -> int:
    return stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]


def store_bytes(txn: Txn, handle: Handle) -> int:
    """Bytes of the pages of a store."""
    stat = txn.stat(handle)
    return _pages(stat) * stat["psize"]


def _ignore() -> None:
    """Nobody wants to know of other processes' commits yet."""


class Environment:
    """One LMDB environment in the directory `path`, made if it is missing.

    `on_foreign_commit` is called, with neither snapshot nor writer open, when another process has committed since the last look.
    `make_helper`: the executor of a single thread, for long writers; called when the first is begun.
    Raises StoreFailure or NoSpace if the environment cannot be opened.
    """

    __slots__ = (
        "_allocated",
        "_committing",
        "_copies",
        "_dirty",
        "_env",
        "_gate",
        "_helper",
        "_is_beginning",
        "_is_behind",
        "_long",
        "_make_helper",
        "_occupancy",
        "_page",
        "_snapshot",
        "_writer",
        "caches_are_behind",
        "current",
        "holder",
        "is_low",
        "on_foreign_commit",
        "path",
    )

    def __init__(
        self, path: Path, *, map_bytes: int = MAP_BYTES, write_async: bool = False, make_helper: Callable[[], Executor] = new_helper
    ) -> None:
        self.path = path
        self._snapshot: Txn | None = None
        self._writer: Txn | None = None
        self._long: Txn | None = None
        self._committing = 0  # id of the long writer whose commit is under way
        self._is_beginning = False
        self._make_helper = make_helper
        self._helper: Executor | None = None
        self.holder: Holder | None = None  # of the long writer
        self.caches_are_behind = False  # a long write is being entered into them
        self._dirty = False
        self._is_behind = False  # the snapshot is older than a commit of ours
        self.on_foreign_commit: Callable[[], None] = _ignore
        self._copies: set[RawCopy] = set()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._occupancy = Occupancy(path)
        except Occupied as error:
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
            self._env.reader_check()  # forget the snapshots of processes that were killed
        except (lmdb.Error, OSError) as error:
            self._occupancy.close()
            raise store_problem(error, path) from error
        try:
            self._gate = Gate(path)
        except OSError as error:
            self._env.close()
            self._occupancy.close()
            raise store_problem(error, path) from error
        self.current = self._env.info()["last_txnid"]
        self._page = self._env.stat()["psize"]
        self._allocated = 0  # bytes of the data file that have their place on the volume, as far as we know
        self.is_low = False
        self.make_room()

    # -- reading

    def snapshot(self) -> Txn:
        """The read transaction that all reads of this turn share. Valid until `end_snapshot`; a commit does not change what it sees."""
        if self._snapshot is None:
            self._snapshot = self.open_snapshot()
            self._is_behind = False
        return self._snapshot

    def open_snapshot(self) -> Txn:
        """A read transaction of the caller's own, for results that outlive a turn. The caller aborts it."""
        try:
            while True:
                txn = self._env.begin()
                number = txn.id()
                if number == self.current:
                    return txn
                txn.abort()
                if number == self._committing and self.holder is not None:
                    self.holder.finish()
                else:
                    self._catch_up()
        except lmdb.Error as error:
            raise store_problem(error, self.path) from error

    def take_snapshot(self) -> Txn:
        """The turn's snapshot, given away: for a result that turns out to outlive the turn it was begun in. The caller aborts it."""
        txn, self._snapshot = self.snapshot(), None
        return txn

    def end_snapshot(self) -> None:
        """Drop the turn's snapshot, if there is one."""
        if self._snapshot is not None:
            self._snapshot.abort()
            self._snapshot = None

    def last_commit(self) -> int:
        """LMDB's number of the newest commit, whoever made it: 0.3 us."""
        try:
            txn = self._env.begin()
        except lmdb.Error as error:
            raise store_problem(error, self.path) from error
        number: int = txn.id()
        txn.abort()
        return number

    def has_siblings(self) -> bool:
        """Whether another process has read from it and is there, as far as is known: one that was killed may be counted."""
        own = str(os.getpid())
        rows = [line.split() for line in self._env.readers().splitlines()]
        return any(len(row) == 3 and row[0].isdecimal() and row[0] != own for row in rows)

    def is_current(self, txn: Txn) -> bool:
        """Whether `txn` is this turn's snapshot and has seen all our commits: the state that caches reflect."""
        return txn is self._snapshot and not self._is_behind and not self.caches_are_behind

    def _catch_up(self) -> None:
        # First the id, then what it stands for: a commit in between is noticed at the next look.
        self.end_snapshot()
        self.current = self._env.info()["last_txnid"]
        self.on_foreign_commit()
        self.end_snapshot()

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
            self._enter(wait)
            try:
                while True:
                    writer = self._env.begin(write=True)
                    if writer.id() == self.current + 1:
                        break
                    writer.abort()
                    self._catch_up()
            except BaseException as error:
                self._gate.leave()
                if isinstance(error, lmdb.Error):
                    raise store_problem(error, self.path) from error
                raise
            self._writer = writer
        return self._writer

    def _enter(self, wait: bool) -> None:
        """Pass the gate: from here on LMDB makes us wait only for the writers of other processes' turns."""
        try:
            if self.holder is not None and not self._is_beginning:
                if not wait:
                    raise WriterBusy(self)
                self.holder.give_back()
            if self._gate.enter():
                return
            if not wait:
                raise WriterBusy(self)
            pause = Event()
            for _ in range(int(BUSY_LIMIT / _BUSY_PAUSE)):
                pause.wait(_BUSY_PAUSE)
                if self._gate.enter():
                    return
        except OSError as error:
            raise store_problem(error, self.path) from error
        raise StoreFailure("Another process has been writing to the database for too long, try again later")

    def is_open_to_writers(self) -> bool:
        """Whether no other process holds a long writer."""
        try:
            if not self._gate.enter():
                return False
            self._gate.leave()
        except OSError as error:
            raise store_problem(error, self.path) from error
        return True

    def child(self) -> Txn:
        """A child of the writer, for the writes of one request. End it with `keep` or with its own `abort`."""
        try:
            return self._env.begin(None, self.writer(), True)
        except lmdb.Error as error:
            raise store_problem(error, self.path) from error

    def keep(self, child: Txn) -> None:
        """Make a child's writes part of the turn."""
        try:
            child.commit()
        except lmdb.Error as error:
            raise store_problem(error, self.path) from error
        self._dirty = True

    def touch(self) -> None:
        """The writer itself was written to, if there is one: `commit` has something to do."""
        self._dirty = self._writer is not None

    @property
    def is_dirty(self) -> bool:
        return self._dirty

    def commit(self) -> None:
        """End the turn's writer: its writes are on disk when this returns. Without any, nothing is written and nobody waits.

        Raises NoSpace or StoreFailure; then none of the turn's writes exists.
        """
        writer, dirty = self._writer, self._dirty
        self._writer, self._dirty = None, False
        if writer is None:
            return
        if not dirty:
            # LMDB gives the id of an empty commit to the next one: it must not count as seen.
            writer.abort()
            self._gate.leave()
            return
        written = writer.id()
        try:
            writer.commit()
        except lmdb.Error as error:
            self._gate.leave()
            problem = store_problem(error, self.path)
            self.make_room()
            raise problem from error
        self._gate.leave()
        self.current = written
        self.make_room()
        self._is_behind = True

    def abort(self) -> None:
        """Undo the writes of the turn."""
        writer, self._writer, self._dirty = self._writer, None, False
        if writer is not None:
            writer.abort()
            self._gate.leave()

    # -- the long writer

    def hold(self, holder: Holder) -> None:
        """From here on the writer of a turn is not begun but over `holder.give_back`. Not while one is open. End it with `release`."""
        assert self._writer is None and self.holder is None, "there is a writer already"
        self.holder = holder

    def begin_long(self) -> bool:
        """Begin the long writer; False if another process is writing: ask again soon."""
        try:
            if not self._gate.try_close():
                return False
            if self._helper is None:
                self._helper = self._make_helper()
            self._is_beginning = True
            while True:
                txn = self._helper.submit(self._env.begin, write=True).result()
                if txn.id() == self.current + 1:
                    break
                self._helper.submit(txn.abort).result()
                self._catch_up()
        except (lmdb.Error, OSError) as error:
            raise store_problem(error, self.path) from error
        finally:
            self._is_beginning = False
        self._long = txn
        return True

    @property
    def has_long(self) -> bool:
        """Whether the long writer is begun, and its commit not."""
        return self._long is not None

    def run_long(self, work: Callable[[Txn], T]) -> T:
        """Let `work` use the long writer, and wait for it: it may do what it may do here, for nothing else runs meanwhile."""
        assert self._long is not None and self._helper is not None
        return self._helper.submit(work, self._long).result()

    def start_long(self, work: Callable[[Txn], T]) -> Future[T]:
        """The same for one call of LMDB that takes long and needs no interpreter: the loop goes on meanwhile. Other uses wait for it."""
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
            problem = store_problem(error, self.path)
            self.make_room()
            raise problem from error
        finally:
            self._gate.open()
        self.current = written
        self.make_room()
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
        self._gate.open()

    # -- stores

    def open_stores(self, names: Iterable[str]) -> list[Handle | None]:
        """The handles of stores that exist; None for each that does not. Not while a writer is open (rule 3)."""
        assert self._writer is None, "a store of another transaction cannot be opened while this one is under way"
        self.end_snapshot()
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
        except lmdb.Error as error:
            raise store_problem(error, self.path) from error
        finally:
            self._gate.leave()
        return handles

    def create_store(self, name: str, *, duplicates: bool = False) -> Handle:
        """The handle of a store, made by the open writer if it is missing; void unless that commits. Ends the snapshot (rule 3).

        `duplicates`: a key may have several values, which are sorted and at most 511 bytes long.
        """
        self.end_snapshot()
        try:
            handle = self._env.open_db(name.encode(), self.writer(), dupsort=duplicates)
        except lmdb.Error as error:
            raise store_problem(error, self.path) from error
        self._dirty = True
        return handle

    # -- space

    def make_room(self) -> None:
        """Keep RESERVE_BYTES of the file allocated behind the pages in use; set `is_low` if the volume or the map has no more."""
        info = self._env.info()
        used = (info["last_pgno"] + 1) * self._page
        if self._allocated - used >= RESERVE_BYTES:
            self.is_low = False
            return
        wanted = used + 2 * RESERVE_BYTES
        if wanted > info["map_size"]:
            self.is_low = used + RESERVE_BYTES > info["map_size"]
            return
        try:
            with open(self.path / "data.mdb", "r+b") as file:
                os.posix_fallocate(file.fileno(), 0, wanted)
        except OSError as error:
            was_low, self.is_low = self.is_low, error.errno in _FULL
            if self.is_low and not was_low:
                log.critical("database %s: no space left on its volume for %d more bytes; free space there", self.path, wanted - used)
            return
        self._allocated = wanted
        self.is_low = False

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
        return (self._env.info()["last_pgno"] + 1) * self._page

    def flags(self) -> dict[str, bool]:
        """How LMDB was opened, for the test that pins what durability rests on."""
        return dict(self._env.flags())  # type: ignore[arg-type]

    def sync(self) -> None:
        """Flush what `write_async` left to the operating system."""
        try:
            self._env.sync(True)
        except lmdb.Error as error:
            raise store_problem(error, self.path) from error

    def open_copy(self) -> RawCopy:
        """A copy of the committed state as of now, to be read on another thread. The caller closes it; until then it pins pages."""
        while True:
            txn = self.open_snapshot()
            try:
                copy = RawCopy(self.path / "data.mdb", self._page, txn, self._copies.discard)
            except LookupError:
                txn.abort()  # another process commits all the time
                continue
            except OSError as error:
                txn.abort()
                raise store_problem(error, self.path) from error
            self._copies.add(copy)
            return copy

    def copy(self, target: Path) -> None:
        """Write a gap-free copy of the committed state into the empty directory `target`."""
        try:
            self._env.copy(str(target), compact=True)
        except (lmdb.Error, OSError) as error:
            raise store_problem(error, target) from error

    def close(self) -> None:
        """Undo what is not committed and close. Private snapshots become unusable; copies under way are ended."""
        for copy in list(self._copies):
            copy.stop()
        if self.holder is not None:
            self.holder.give_back()
        self.end_snapshot()
        self.abort()
        if self._helper is not None:
            self._helper.shutdown()
        self._env.close()
        self._gate.close()
        self._occupancy.close()
