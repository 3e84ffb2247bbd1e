"""The log, read once for all subscriptions of a database that read it.

The reader goes from the earliest position to the end of the log, and each subscription gets from it what is behind its own. One whose queue is full leaves,
and comes again when it has room; what comes while the reader is further on already waits for its next round. At the end all that are left become live.
So a thousand sessions that return together cost one reading, and one with a thousand filters as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from svc.realtime.event import EndReason
from svc.realtime.history import LogReplay, Progress
from svc.realtime.targets import TargetIndex
from svc.store import Database, LogEntry, Table
from svc.store.log.entries import decode_entry

if TYPE_CHECKING:
    from svc.realtime.subscription import Subscription

BATCH = 128  # entries between two readings of the clock
LOOK = 64  # subscriptions


class ReadingHub(Protocol):
    """What it needs of the hub."""

    now: Callable[[], float]

    def change(self, table: Table, entry: LogEntry, txn: Any) -> Any: ...


class SharedReplay:
    """Of one database. `position`: LSN up to which it has been read in this round."""

    __slots__ = ("_database", "_hub", "_indexes", "_members", "_next", "_steps", "_touched", "position")

    def __init__(self, hub: ReadingHub, database: Database) -> None:
        self._hub = hub
        self._database = database
        self._members: dict[Subscription, LogReplay] = {}
        self._next: dict[Subscription, LogReplay] = {}
        self._indexes: dict[int, TargetIndex[Subscription]] = {}
        self._touched: dict[Subscription, None] = {}
        self._steps = self._rounds()
        self.position = 0

    def __contains__(self, subscription: Subscription) -> bool:
        return subscription in self._members or subscription in self._next

    def add(self, subscription: Subscription, stage: LogReplay) -> None:
        """Read for this one too."""
        stage.reader = self
        if self._members and stage.position >= self.position:
            self._enter(subscription, stage)
        else:
            self._next[subscription] = stage

    def _enter(self, subscription: Subscription, stage: LogReplay) -> None:
        self._members[subscription] = stage
        stage.is_in_round = True
        index = self._indexes.get(subscription.table.number)
        if index is None:
            index = self._indexes[subscription.table.number] = TargetIndex()
        index.add(subscription.target, subscription)

    def leave(self, subscription: Subscription, lsn: int | None = None) -> None:
        """Read no more for this one. `lsn`: of the last entry that it has got, if it is to come again."""
        stage = self._next.pop(subscription, None)
        if stage is None and subscription in self._members:
            stage = self._members.pop(subscription)
            number = subscription.table.number
            self._indexes[number].remove(subscription.target, subscription)
            if not self._indexes[number]:
                del self._indexes[number]
            stage.position = stage.position if lsn is None else lsn
            stage.is_in_round = False
        if stage is not None:
            stage.reader = None

    def fail(self) -> None:
        """A defect: end all subscriptions that it reads for."""
        for subscription in [*self._members, *self._next]:
            subscription.finish(EndReason.FAILED)
        self._steps = self._rounds()

    def read(self, end: float) -> tuple[Progress, dict[Subscription, None]]:
        """Read until the clock is at `end`. Returns the subscriptions that have got something, or have ended."""
        touched, self._touched = self._touched, {}
        for has_to_wait in self._steps:
            if has_to_wait or self._hub.now() >= end:
                touched, self._touched = self._touched, {}
                return Progress.MORE, touched
        self._steps = self._rounds()
        touched, self._touched = self._touched, {}
        return Progress.DONE, touched

    def _rounds(self) -> Iterator[bool]:
        """In short steps. True: nothing can be done before the next turn."""
        while self._next:
            self._begin_round()
            yield False
            while self._members:
                yield from self._read_batch()

    def _begin_round(self) -> None:
        following, self._next = self._next, {}
        first = self._database.log.first_lsn(self._database.snapshot())
        self.position = max(min(stage.position for stage in following.values()), first - 1)
        for subscription, stage in following.items():
            if first > stage.position + 1:
                stage.reader = None
                self._touched[subscription] = None
                subscription.finish_too_slow()  # retention has removed entries that were not read yet
            else:
                self._enter(subscription, stage)

    def _read_batch(self) -> Iterator[bool]:
        entries, last, is_all = self._database.log.scan(self._database.snapshot(), self._indexes, self.position + 1, BATCH)
        for lsn, number, key, data in entries:
            index = self._indexes.get(number)
            found = None if index is None else index.find(key)
            if found:
                yield from self._deliver(found, lsn, key, data)
            self.position = lsn
        self.position = last
        yield False
        if is_all:
            yield from self._go_live()

    def _deliver(self, found: Iterable[Subscription | None], lsn: int, key: bytes, data: bytes) -> Iterator[bool]:
        entry: LogEntry | None = None
        for number, subscription in enumerate(tuple(found), 1):
            if not number % LOOK:
                yield False
            stage = None if subscription is None else self._members.get(subscription)
            if stage is None or subscription is None or lsn <= stage.begins:
                continue
            txn = self._database.snapshot()
            if entry is None:
                entry = decode_entry(lsn, data)
            if subscription.target.covers(key) and stage.wants(entry, txn):
                subscription.put(self._hub.change(subscription.table, entry, txn))
                self._touched[subscription] = None
                if subscription.is_full:
                    self.leave(subscription, lsn)

    def _go_live(self) -> Iterator[bool]:
        """At the end of the log: all that are left become live, unless more has been written meanwhile."""
        for number, (subscription, stage) in enumerate(list(self._members.items()), 1):
            if subscription not in self._members:
                continue
            subscription.put_end_of_transaction()
            if not subscription.go_live(self.position):
                yield True
                return
            self.leave(subscription)
            subscription.end_stage(stage)
            self._touched[subscription] = None
            if not number % LOOK:
                yield False
