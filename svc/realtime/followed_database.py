"""What the hub knows of one database with subscriptions, and the delivery of its commits to them.

For each log entry the index of its table finds the groups that it may concern; each group makes one event, which is appended to the queues of its members.
That is done for the length of a slice, the rest in the next turn: a commit may have many entries, and an entry concern very many groups. Entries that wait
are few: beyond WAITING they are read from the log when their turn comes.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from svc.realtime.changes import Change, View
from svc.realtime.subscriber_group import Member, SubscriberGroup
from svc.realtime.targets import Target, TargetIndex
from svc.store import Database, LogEntry, Table
from svc.store.schema import Allow
from svc.store.slices import SLICE

logger = logging.getLogger("svc.realtime")

WAITING = 500  # entries that wait in memory
READ = 100  # entries that are read from the log at a time
LOOK = 32  # entries, or groups, between two readings of the clock


class FollowedDatabase:
    """`indexes`: by number of the table. `position`: LSN up to which the live subscriptions have got everything. `heard`: LSN up to which the entries are
    known."""

    __slots__ = (
        "_call_later",
        "_database",
        "_is_scheduled",
        "_now",
        "_on_delivered",
        "_on_rules_changed",
        "_rest",
        "_rules",
        "_tables_version",
        "_unfinished",
        "_waiting",
        "groups",
        "heard",
        "indexes",
        "position",
        "subscriptions",
        "tables",
    )

    def __init__(
        self,
        database: Database,
        position: int,
        now: Callable[[], float],
        call_later: Callable[[Callable[[], None]], object],
        on_delivered: Callable[[list[Member], list[Member]], None],
        on_rules_changed: Callable[[FollowedDatabase], None],
    ) -> None:
        """`call_later`: calls in the next turn. `on_delivered`: called with the members that wait for events and have some now, and those with too much queued
        or missed. `on_rules_changed(self)`: called before anything is delivered that was committed behind a change of rules on rows."""
        self._database = database
        self._now = now
        self._call_later = call_later
        self._on_delivered = on_delivered
        self._on_rules_changed = on_rules_changed
        self._tables_version = database.tables_version
        self._rules = rules_in(database)
        self.position = self.heard = position
        self.indexes: dict[int, TargetIndex[SubscriberGroup]] = {}
        self.tables: dict[int, Table] = {}
        self.groups: dict[tuple[Target, Any, View], SubscriberGroup] = {}
        self.subscriptions: dict[Any, None] = {}
        self._unfinished: dict[SubscriberGroup, None] = {}  # to which the end of a transaction is still to be delivered
        self._waiting: deque[LogEntry] = deque()
        self._rest: tuple[Change, Iterator[SubscriberGroup | None]] | None = None  # of the first one that waits
        self._is_scheduled = False

    # --- groups --------------------------------------------------------------------------------------------------------------------------

    def group(self, table: Table, target: Target, where: Any, view: View) -> SubscriberGroup:
        """The group for these, made if it is not there. Raises QueryError."""
        key = (target, where, view)
        group = self.groups.get(key)
        if group is None:
            group = SubscriberGroup(target, where, view)
            self.groups[key] = group
            index = self.indexes.get(table.number)
            if index is None:
                index = self.indexes[table.number] = TargetIndex()
                self.tables[table.number] = table
            index.add(target, group)
        return group

    def remove_group(self, group: SubscriberGroup, key: tuple[Target, Any, View]) -> None:
        del self.groups[key]
        number = group.view.table.number
        index = self.indexes[number]
        index.remove(group.target, group)
        if not index:
            del self.indexes[number], self.tables[number]

    def leave_in_transaction(self, before: SubscriberGroup, group: SubscriberGroup) -> None:
        """A member of a group to which the end of a transaction is still to be delivered has moved to another one."""
        if before.unfinished is not None and group.unfinished is None:
            group.unfinished = before.unfinished
            self._unfinished[group] = None

    # --- commits -------------------------------------------------------------------------------------------------------------------------

    @property
    def is_up_to_date(self) -> bool:
        """Whether all that is known was delivered."""
        return self.position == self.heard

    def committed(self, entries: list[LogEntry]) -> None:
        """The next entries of the log."""
        if entries[0].lsn != self.heard + 1 or entries[-1].lsn - entries[0].lsn >= len(entries):
            self._end_live_subscriptions()
        # Otherwise those before are to be read first.
        is_next = self._waiting[-1].lsn == self.heard if self._waiting else self.is_up_to_date
        self.heard = entries[-1].lsn
        if is_next and len(self._waiting) < WAITING:
            self._waiting.extend(entries)
        if not self._is_scheduled:
            self._deliver()

    def _end_live_subscriptions(self) -> None:
        """What a sibling had written was removed from the log before it was read: which subscriptions it concerned is unknown."""
        logger.warning("entries of the log of %s were removed before they were delivered, live subscriptions end", self._database.name)
        self._waiting.clear()
        self._rest = None
        self.position = self.heard
        for group in list(self.groups.values()):
            for subscription in list(group.live):
                subscription.finish_too_slow()

    def check_rules(self) -> None:
        """Tell of rules on rows that are others than before."""
        if self._tables_version != self._database.tables_version:
            self._tables_version = self._database.tables_version
            before, self._rules = self._rules, rules_in(self._database)
            if self._rules != before:
                self._on_rules_changed(self)

    def finish_entry(self) -> None:
        """Deliver the rest of an entry that was begun, at once."""
        if self._rest is not None:
            ready: list[Member] = []
            full: list[Member] = []
            self._deliver_to(*self._rest, ready, full, None)
            self._end_entry()
            self._on_delivered(ready, full)

    def _deliver_on(self) -> None:
        self._is_scheduled = False
        self._deliver()

    def _deliver(self) -> None:
        """Deliver for the length of a slice."""
        self.check_rules()
        end = self._now() + SLICE
        ready: list[Member] = []
        full: list[Member] = []
        number = 0
        last: LogEntry | None = None
        while self._waiting or self._read():
            entry = self._waiting[0]
            if self._rest is None:
                groups = self._groups_of(entry)
                if groups is not None:
                    change = Change(self.tables[entry.table_number], entry, self._database.snapshot())
                    self._rest = (change, iter(groups))
            if self._rest is not None and not self._deliver_to(*self._rest, ready, full, end):
                break
            last = entry
            self._end_entry()
            number += 1
            if not number % LOOK and self._now() >= end:
                break
        if self._unfinished and last is not None and self._rest is None:
            self._end_transactions(last, ready, full)
        if not self.is_up_to_date:
            self._is_scheduled = True
            self._call_later(self._deliver_on)
        self._on_delivered(ready, full)

    def _end_entry(self) -> None:
        self.position = self._waiting.popleft().lsn
        self._rest = None

    def _read(self) -> bool:
        """Read entries that did not wait in memory; False if there are none."""
        if self.is_up_to_date:
            return False
        snapshot = self._database.env.open_snapshot()  # that of the turn may be older
        try:
            self._waiting.extend(islice(self._database.log.read(snapshot, self.position + 1, self.heard + 1), READ))
        finally:
            snapshot.abort()
        if not self._waiting or self._waiting[-1].lsn != self.position + len(self._waiting):
            self._end_live_subscriptions()
        return bool(self._waiting)

    def _groups_of(self, entry: LogEntry) -> Iterable[SubscriberGroup | None] | None:
        index = self.indexes.get(entry.table_number)
        return None if index is None else index.find(entry.key) or None

    def _deliver_to(
        self, change: Change, groups: Iterator[SubscriberGroup | None], ready: list[Member], full: list[Member], end: float | None
    ) -> bool:
        """False: the clock is at `end`, and there are more. None among the groups: some time was spent on looking for the next one."""
        for number, group in enumerate(groups, 1):
            if group is not None:
                if group.view.transactions:
                    self._deliver_in_transaction(group, change, ready, full)
                    self._unfinished[group] = None
                else:
                    event = group.event(change)
                    if event is not None:
                        group.deliver(event, ready, full)
            if end is not None and (group is None or not number % LOOK) and self._now() >= end:
                return False
        return True

    @staticmethod
    def _deliver_in_transaction(group: SubscriberGroup, change: Change, ready: list[Member], full: list[Member]) -> None:
        before = group.unfinished
        begins = before is None or before.transaction != change.transaction
        event = group.event(change, begin_txn=begins)
        if event is None:
            return
        if begins and before is not None:
            group.deliver(before.end(group.view), ready, full)
        group.unfinished = change
        group.deliver(event, ready, full)

    def _end_transactions(self, last: LogEntry, ready: list[Member], full: list[Member]) -> None:
        """Deliver the ends of transactions. Of a long commit this may be a piece: the log knows whether the transaction goes on."""
        snapshot = self._database.env.open_snapshot()  # that of the turn may be older
        following = self._database.log.get(snapshot, last.lsn + 1)
        snapshot.abort()
        going_on = following is not None and following.transaction == last.transaction
        groups = self._unfinished
        for group in list(groups):
            change = group.unfinished
            if change is None:
                del groups[group]
            elif not (going_on and change.transaction == last.transaction):
                del groups[group]
                group.unfinished = None
                group.deliver(change.end(group.view), ready, full)


def rules_in(database: Database) -> list[tuple[str, tuple[Allow, ...]]]:
    """The rules on rows of the tables of a database."""
    return [(table.name, table.definition.allow) for table in list(database.tables.values()) if table.definition.allow]
