"""Snapshots that outlive their turn: of answers that are streamed, and of other work in slices (spec: schema-and-store §8.11).

    HeldSnapshot   for one reader: what it calls for each piece of work
    SharedSnapshot   the read transaction behind it: one for all readers that began at the same state of the database

LMDB has 1,024 slots for read transactions, and does not reuse a page that one of them may read: so clients that stop reading in the middle of
an answer, or read slowly, would take all slots, or make the database grow. A shared snapshot is therefore given up when

- `SnapshotLimits.most` are held of its database, one more is needed, and it was used least recently of all, or
- it has not been used for IDLE seconds, or
- it keeps more than `SnapshotLimits.growth` bytes from being reused, or
- it is older than `SnapshotLimits.age` seconds, and keeps a noticeable part of that (an old snapshot that costs little is left alone).

What a snapshot keeps from being reused is at most what the file has grown by since it was taken, and at most the free pages inside the file; the
lesser of the two is taken for it.

The next `use` raises; the reader goes on with another snapshot if the rest of the result can be found on that. A slot is free when nothing refers to
its transaction: so each reader has a function that lets go of what it has of it, which is called for a bounded number of readers in each turn.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from svc.clock import Clock
from svc.errors import SnapshotLost
from svc.seldom import SECOND, Seldom
from svc.store.env import Environment, Txn

logger = logging.getLogger("svc.store")

IDLE = 30.0  # seconds; polled about once a second, so it ends well before 60
LONG = 5.0  # seconds that a transaction is open, from which on `report_long` speaks of it
LET_GO_AT_ONCE = 256  # readers that lose their snapshot in one turn, 1-2 ms
_NOTICEABLE = 16  # a 16th of the growth that is allowed

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """`age` in seconds, `growth` in bytes. `most`: held of one database, a quarter of LMDB's reader slots: the others are for turns and other processes."""

    age: float = 600.0
    growth: int = 512 << 20
    most: int = 256


class SnapshotSource(Protocol):
    """A database whose snapshots are held: `Database`."""

    name: str
    env: Environment

    def free_bytes(self) -> int: ...


class SharedSnapshot:
    """A read transaction and its readers, the first one first. `reason`: why it was given up."""

    __slots__ = ("began", "database", "is_reported", "readers", "reason", "size", "txn", "used")

    def __init__(self, database: SnapshotSource, txn: Txn, now: float) -> None:
        self.database = database
        self.txn: Txn | None = txn
        self.began = self.used = now
        self.size = database.env.used_bytes()
        self.reason = ""
        self.is_reported = False
        self.readers: dict[HeldSnapshot, None] = {}

    @property
    def about(self) -> str:
        """Database and readers, for the log."""
        first = next(iter(self.readers)).reader
        others = len(self.readers) - 1
        return f"database {self.database.name}: {first}" + (f" and {others} more" if others else "")

    @property
    def is_kept(self) -> bool:
        return any(reader.is_kept for reader in self.readers)

    def due(self, now: float, limits: SnapshotLimits) -> str:
        """The reason to give it up, "" if there is none."""
        if now - self.used >= IDLE:
            return f"The result was not read for {now - self.used:.0f} seconds"
        grown = self.database.env.used_bytes() - self.size
        age = now - self.began
        if grown >= (limits.growth // _NOTICEABLE if age >= limits.age else limits.growth):
            kept = min(grown, self.database.free_bytes())
            if kept >= limits.growth:
                return f"The result keeps {kept >> 20} MB of the database from being used again"
            if age >= limits.age and kept >= limits.growth // _NOTICEABLE:
                return f"The result is being read for {age:.0f} seconds"
        return ""


class HeldSnapshot:
    """The share of one reader, who calls `use` for each piece of work, and `abort` at the end."""

    __slots__ = ("_shared", "_snapshots", "is_kept", "on_lost", "reader")

    is_replaceable = True  # its reader may go on with another one

    def __init__(
        self, snapshots: Snapshots, shared: SharedSnapshot, reader: str, on_lost: Callable[[], object] | None, is_kept: bool
    ) -> None:
        self._snapshots = snapshots
        self._shared: SharedSnapshot | None = shared
        self.on_lost = on_lost
        self.is_kept = is_kept
        self.reader = reader  # for the log
        shared.readers[self] = None

    def use(self) -> Txn:
        """The read transaction, for some work now. Raises SnapshotLost if it was taken away."""
        shared = self._shared
        if shared is None or shared.txn is None:
            self.let_go()
            reason = "" if shared is None else shared.reason
            raise SnapshotLost(f"{reason or 'The result has ended'}, its snapshot was given up")
        shared.used = self._snapshots.now()
        return shared.txn

    def share(self, *, on_lost: Callable[[], object] | None = None) -> HeldSnapshot:
        """The same snapshot for another reader. Raises SnapshotLost."""
        self.use()
        assert self._shared is not None
        return HeldSnapshot(self._snapshots, self._shared, self.reader, on_lost, self.is_kept)

    def read(self, start: Callable[[Txn], Iterator[T]]) -> Iterator[T]:
        """What an iterator that `start` makes of the transaction gives. Raises SnapshotLost; then, and at the end, the iterator is closed."""
        items = start(self.use())
        self.on_lost = getattr(items, "close", None)
        try:
            for item in items:
                yield item
                self.use()
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Have the reader drop what it has of a transaction that has ended."""
        on_lost, self.on_lost = self.on_lost, None
        if on_lost is not None:
            on_lost()

    def abort(self) -> None:
        """Its reader has ended. Harmless when done."""
        shared, self._shared, self.on_lost = self._shared, None, None
        if shared is not None:
            shared.readers.pop(self, None)
            if not shared.readers:
                self._snapshots.forget(shared)


class Snapshots:
    """All held snapshots of a store."""

    def __init__(self, clock: Clock, limits: SnapshotLimits) -> None:
        self.now = clock.monotonic
        self.limits = limits
        self._held: dict[Txn, SharedSnapshot] = {}
        self.lost: deque[SharedSnapshot] = deque()  # with readers that still have something of it
        self._seldom = Seldom(clock.monotonic, SECOND)

    def __len__(self) -> int:
        """The number of read transactions."""
        return len(self._held)

    @property
    def readers(self) -> int:
        """The number of those who hold one."""
        return sum([len(shared.readers) for shared in (*self._held.values(), *self.lost)])

    def hold(
        self,
        database: SnapshotSource,
        *,
        fresh: bool = False,
        reader: str = "a result",
        on_lost: Callable[[], object] | None = None,
        is_kept: bool = False,
        is_private: bool = False,
    ) -> HeldSnapshot:
        """The turn's snapshot of this database for a reader who goes on in later turns. `fresh`: one of what is committed by now. `reader`: its name in the
        log. `on_lost`: lets go of all that refers to the transaction, when it has been given up. `is_kept`: it is not given up; for work of the server itself,
        of which there is little. `is_private`: nobody else has it, so another thread may read it while `is_kept`."""
        txn = database.env.hold_snapshot(fresh=fresh, is_private=is_private)
        shared = self._held.get(txn)
        if shared is None:
            self._make_room(database)
            shared = self._held[txn] = SharedSnapshot(database, txn, self.now())
        return HeldSnapshot(self, shared, reader, on_lost, is_kept)

    def _make_room(self, database: SnapshotSource) -> None:
        most = self.limits.most - database.env.copies
        if len(self._held) >= most and sum([shared.database is database for shared in self._held.values()]) >= most:
            self.give_up_oldest(database)

    def free_slot(self, database: SnapshotSource) -> bool:
        """All reader slots of this database are taken: give one back at once; False if there is none to be given."""
        found = self.give_up_oldest(database)
        while self.lost:
            self.let_go()
        return found

    def give_up_oldest(self, database: SnapshotSource) -> bool:
        """Give up the snapshot of this database that was used least recently; False if there is none."""
        found = [shared for shared in self._held.values() if shared.database is database and not shared.is_kept]
        if not found:
            return False
        self._give_up(min(found, key=lambda shared: shared.used), "Very many results are being read", ("many", database.name))
        return True

    def _give_up(self, shared: SharedSnapshot, reason: str, line: object) -> None:
        """`line`: what it is in the log, where one of a kind is written in a second."""
        times = self._seldom.count(line)
        if times is not None:
            more = f" (and {times - 1} others before)" if times > 1 else ""
            logger.warning("%s: %s, the snapshot is given up%s", shared.about, reason, more)
        shared.reason = reason
        self.lost.append(shared)
        self._end(shared)

    def let_go(self) -> None:
        """Have readers drop the snapshots that were given up, a bounded number; to be called once a turn."""
        lost, left = self.lost, LET_GO_AT_ONCE
        while lost and left:
            readers = lost[0].readers
            while readers and left:
                left -= 1
                readers.popitem()[0].let_go()
            if not readers:
                lost.popleft()

    def forget(self, shared: SharedSnapshot) -> None:
        """Its last reader has ended."""
        self._end(shared)

    def _end(self, shared: SharedSnapshot) -> None:
        txn, shared.txn = shared.txn, None
        if txn is not None:
            del self._held[txn]
            shared.database.env.release_snapshot(txn)

    def report_moved(self, database: SnapshotSource, reader: str) -> None:
        """A reader has lost its snapshot and goes on with another one."""
        if self._seldom.count(("moved", database.name)) is not None:
            logger.info("database %s: %s continues with the current data", database.name, reader)

    def report_long(self) -> None:
        """Log those that are open for LONG, each once; to be called about once a second."""
        now = self.now()
        for shared in self._held.values():
            if not shared.is_reported and now - shared.began >= LONG:
                shared.is_reported = True
                logger.warning("%s has a read transaction open for %.0f s", shared.about, now - shared.began)

    def abort_due(self) -> int:
        """Give up those that are idle or cost too much; to be called about once a second. Returns how many."""
        now = self.now()
        given_up = 0
        for shared in list(self._held.values()):
            reason = "" if shared.is_kept else shared.due(now, self.limits)
            if reason:
                self._give_up(shared, reason, ("due", shared.database.name))
                given_up += 1
        return given_up
