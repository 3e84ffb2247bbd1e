"""What a subscription reads before it is live: current records, events from the log (spec: realtime §1 rules 2 and 8).

A subscription goes through stages, each of which puts events into its queue while there is room:

    CurrentRecords  the records as they are, in key order, on one snapshot; or
    PastEvents      some of the last events, found by reading the log backwards; then
    LogReplay       the log from there on. At its end the subscription becomes live, or live again after it fell behind.

No commits are queued for a subscription that is not live: the log has them. So a slow reader holds no memory, and from the LSN of the snapshot on
no event can be missing or come twice.

A snapshot that is not read for half a minute, or least recently of very many, is given up (`store.snapshots`). The rest is then read on another
snapshot, and the stage records up to which key which snapshot was read: of each record only what is later than its snapshot follows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from enum import IntEnum
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol

from svc.errors import SnapshotLost
from svc.query.execution import execute
from svc.query.nodes import Filter, Query
from svc.query.plan import KeyRange
from svc.query.planner import plan_query
from svc.realtime.changes import Change
from svc.store import LogEntry, Table
from svc.store.env import Txn
from svc.store.log.entries import MESSAGE, NOTES
from svc.store.snapshots import HeldSnapshot
from svc.store.values.keys import encode_key, is_hashed, storage_key
from svc.store.values.records import encode_payload, is_partial, lsn_of, raw_payload, version_of

if TYPE_CHECKING:
    from svc.query.plan import AnyRows
    from svc.realtime.subscriber_group import SubscriberGroup
    from svc.realtime.targets import Target

STEP = 16  # records or entries between two readings of the clock
LOG_BATCH = 200  # log entries read at a time
COALESCE_ENTRIES = 2000  # log entries within which events of one record are coalesced
MAX_SORTED_KEYS = 100_000  # keys found through an index that are sorted; if there are more, the table is scanned in key order
NOTHING = encode_payload(None)
MAX_PAST_EVENTS = 1000  # events found by reading backwards (spec: realtime §1 rule 5)

Pairs = Iterator[tuple[bytes, bytes]]  # stored key, raw record


class Progress(IntEnum):
    DONE = 0
    MORE = 1  # time was up
    FULL = 2  # the queue is full
    URGENT = 3  # time was up, and it holds a scarce resource: it goes on before others begin


class ChangeCache(Protocol):
    def change(self, table: Table, entry: LogEntry, txn: Txn) -> Change: ...


class LogReader(Protocol):
    """What reads the log for several subscriptions: `shared_replay.SharedReplay`."""

    position: int

    def leave(self, subscription: Any) -> None: ...


class ReplayingSubscription(Protocol):
    """What stages need of a `Subscription`."""

    table: Table
    target: Target
    group: SubscriberGroup
    now: Callable[[], float]
    stages: list[Stage]

    @property
    def hub(self) -> ChangeCache: ...

    @property
    def is_full(self) -> bool: ...

    @property
    def room(self) -> int: ...

    def put(self, change: Change, coalesced: int = 1) -> None: ...

    def put_current(self, change: Change, position: int | None) -> None: ...

    def put_end_of_transaction(self) -> None: ...

    def go_live(self, position: int) -> bool: ...

    def finish_too_slow(self) -> None: ...


class Stage(Protocol):
    def read(self, end: float) -> Progress:
        """Put events into the queue of the subscription, until it is full or the clock is at `end`."""

    def close(self) -> None:
        """Release what it holds. Harmless when done."""


class CurrentRecords:
    """The current records of the target. Leads to `LogReplay`, of what is later than they are.

    `behind`: only the records as they were at this LSN already; all that has happened behind it follows.
    """

    __slots__ = (
        "_began",
        "_behind",
        "_held",
        "_kept",
        "_keys",
        "_last",
        "_lsn",
        "_pairs",
        "_parts",
        "_rows",
        "_subscription",
        "_table",
        "_where",
    )

    def __init__(
        self, subscription: ReplayingSubscription, table: Table, where: Filter | None, key_prefix: str | None, *, behind: int | None = None
    ) -> None:
        self._subscription = subscription
        self._behind = behind
        self._table = table
        self._where = None if where is None else (where, key_prefix)
        self._held: HeldSnapshot | None = None
        self._began = False
        self._pairs: Pairs | None = None
        self._rows: AnyRows | None = None  # a query that finds keys through an index
        self._keys: list[bytes] = []
        self._last = b""  # stored key of the last record that was read
        self._kept: Change | None = None  # the record read last, not queued yet: the last one of all gets a position
        self._lsn = 0  # of the snapshot
        self._parts: list[tuple[bytes, int]] = []  # of earlier snapshots: (the stored key up to which it was read, LSN)

    def read(self, end: float) -> Progress:
        database = self._table.database
        txn = self._transaction()
        progress = self._gather(txn, end) if self._rows is not None else Progress.DONE
        if progress is Progress.DONE:
            progress = self._put(txn, end)
        if progress is Progress.DONE:
            self._finish()
            return progress
        if self._held is None:
            self._held = database.store.snapshots.hold(database, reader="the beginning of a subscription", on_lost=self._release_snapshot)
        return Progress.URGENT if self._rows is not None else progress

    def close(self) -> None:
        self._pairs = None
        if self._rows is not None:
            self._rows.close()
            self._rows = None
        if self._held is not None:
            self._held.abort()
            self._held = None

    def _transaction(self) -> Txn:
        if self._held is not None:
            try:
                return self._held.use()
            except SnapshotLost:
                pass  # and released
        txn = self._table.database.snapshot()
        if not self._began:
            self._began = True
            self._lsn = self._table.database.log.newest_lsn(txn)
            self._begin(txn)
        return txn

    def _release_snapshot(self) -> None:
        """Close the snapshot: the rest is read on another one."""
        self.close()
        self._began = False
        if not self._last:
            return
        if self._parts and self._parts[-1][1] == self._lsn:
            self._parts.pop()
        self._parts.append((self._last, self._lsn))

    def _begin(self, txn: Txn) -> None:
        target = self._subscription.target
        viewpoint = self._subscription.group.view.viewpoint
        where, key_prefix = self._where or (None, None)
        if (where is None and (viewpoint is None or viewpoint.shows_all)) or not (target.is_table or key_prefix):
            self._pairs = self._scan(txn)
            return
        table = self._table if viewpoint is None else viewpoint.view(txn)
        plan = plan_query(Query(where), table, txn, key_prefix=key_prefix)
        if isinstance(plan.access, KeyRange):
            self._pairs = self._scan(txn)  # reads the table in key order anyway
        else:
            self._rows = execute(plan, txn)
            self._keys = []

    def _scan(self, txn: Txn) -> Pairs:
        table, behind = self._table, self._last or None
        ranges = self._subscription.target.ranges()
        return chain.from_iterable(table.scan(txn, low, high, behind=behind) for low, high in ranges)

    def _gather(self, txn: Txn, end: float) -> Progress:
        """Find the keys of all matching records: an index has them in its own order."""
        now, rows, keys = self._subscription.now, self._rows, self._keys
        assert rows is not None
        while not rows.done:
            keys += [stored for stored, _ in rows.step_pairs(LOG_BATCH) if stored > self._last]
            if len(keys) > MAX_SORTED_KEYS:
                keys.clear()
                self._pairs = self._scan(txn)
                break
            if now() >= end:
                return Progress.MORE
        rows.close()
        self._rows = None
        if self._pairs is None:
            keys.sort()
            table = self._table
            self._pairs = ((stored, raw) for stored in keys if (raw := table.get_by(stored, txn)) is not None)
        return Progress.DONE

    def _put(self, txn: Txn, end: float) -> Progress:
        subscription, table = self._subscription, self._table
        group = subscription.group
        assert self._pairs is not None
        for count, (stored, raw) in enumerate(self._pairs, 1):
            self._last = stored
            key = encode_key(table.key_of(raw)) if is_hashed(stored) else stored
            is_wanted = self._behind is None or lsn_of(raw) <= self._behind
            if (
                is_wanted
                and not is_partial(raw)
                and group.admits(stored, raw, txn)
                and (not group.target.is_within_ranges or group.target.covers(key))
            ):
                if self._kept is not None:
                    subscription.put_current(self._kept, None)
                self._kept = Change.of_record(table, key, raw, version_of(raw), lsn_of(raw))
            if subscription.is_full:
                return Progress.FULL
            if not count % STEP and subscription.now() >= end:
                return Progress.MORE
        return Progress.DONE

    def _finish(self) -> None:
        """The last record gets a position: a client that has it can resume from the log."""
        self.close()
        if self._behind is None:
            first = self._parts[0][1] if self._parts else self._lsn
            replay = LogReplay(self._subscription, first, parts=self._parts, last_part=self._lsn)
        else:
            replay = LogReplay(self._subscription, self._behind)
        if self._kept is not None:
            self._subscription.put_current(self._kept, replay.position)
            self._kept = None
        self._subscription.stages.append(replay)


class PastEvents:
    """The last `count` events of the target, oldest first, as far as they are behind the LSN `after` and later than `since`, in ms.

    `instead`: the stage that replaces this one if there are more than `count`; None: the last ones are read. Leads to `LogReplay`.
    """

    __slots__ = ("_after", "_at", "_chain", "_count", "_found", "_instead", "_next", "_since", "_start", "_subscription", "_table")

    def __init__(
        self,
        subscription: ReplayingSubscription,
        table: Table,
        count: int,
        *,
        after: int = 0,
        since: float | None = None,
        instead: LogReplay | None = None,
    ) -> None:
        self._subscription = subscription
        self._table = table
        self._count = count
        self._after = after
        self._since = since
        self._instead = instead
        self._found: list[int] | None = None  # LSNs, newest first; None: not started
        self._start = 0  # newest LSN at the start
        self._at = 0  # reading the log backwards: entries from here on have been read
        self._chain = (0, 0)  # reading the history of a record backwards: LSNs to read next
        self._next: list[int] | None = None  # LSNs to queue, the next one last

    def read(self, end: float) -> Progress:
        table, subscription = self._table, self._subscription
        txn = table.database.snapshot()
        if self._found is None:
            self._begin(txn)
        if self._next is None:
            if not (self._follow_chains(txn, end) if subscription.target.is_record else self._search_backwards(txn, end)):
                return Progress.MORE
            found = self._found
            assert found is not None
            if len(found) > self._count and self._instead is not None:
                subscription.stages.append(self._instead)
                return Progress.DONE
            self._next = found
        log = table.database.log
        while self._next:
            entry = log.get(txn, self._next.pop())
            if entry is not None:
                subscription.put(subscription.hub.change(table, entry, txn))
            if subscription.is_full:
                return Progress.FULL
            if subscription.now() >= end:
                return Progress.MORE
        subscription.stages.append(LogReplay(subscription, self._start))
        return Progress.DONE

    def close(self) -> None:
        """Holds no resources."""

    def _begin(self, txn: Txn) -> None:
        self._found = []
        table, log = self._table, self._table.database.log
        self._start = log.newest_lsn(txn)
        self._at = self._start + 1
        key = self._subscription.target.key
        if key is not None:
            raw = table.read(storage_key(key), txn)
            self._chain = log.chain_ends(txn, table.number, key, None if raw is None else lsn_of(raw))

    def _follow_chains(self, txn: Txn, end: float) -> bool:
        """Follow both chains of the record backwards; False if time was up."""
        log = self._table.database.log
        while True:
            changed, noted = self._chain
            lsn = max(changed, noted)
            entry = log.get(txn, lsn) if lsn > self._after else None
            if entry is None:
                if min(changed, noted) <= self._after:
                    return True
                self._chain = (min(changed, noted), 0)  # one of them ends here
                continue
            self._chain = (entry.previous, noted) if lsn == changed else (changed, entry.previous)
            if self._take(entry, txn):
                return True
            if self._subscription.now() >= end:
                return False

    def _search_backwards(self, txn: Txn, end: float) -> bool:
        """Read the log backwards; False if time was up."""
        table = self._table
        while True:
            entries, self._at, is_all = table.database.log.read_some(txn, table.number, self._at, LOG_BATCH, reverse=True)
            for entry in entries:
                if entry.lsn <= self._after or self._take(entry, txn):
                    return True
            if is_all or self._at <= self._after:
                return True
            if self._subscription.now() >= end:
                return False

    def _take(self, entry: LogEntry, txn: Txn) -> bool:
        """Note an entry if it makes an event; True if enough are found."""
        found = self._found
        assert found is not None
        if self._since is not None and entry.version <= self._since:
            return True
        if self._subscription.target.covers(entry.key) and self._subscription.group.event(
            self._subscription.hub.change(self._table, entry, txn)
        ):
            found.append(entry.lsn)
        return len(found) >= self._count + (self._instead is not None)


class LogReplay:
    """The log behind the LSN `position`, up to its end, where the subscription becomes live.

    `parts`: snapshots the records were read on, as (stored key up to which, LSN); `last_part`: LSN for the keys behind these. `since`: events up to the
    LSN `until` are sent only if they are later than this, in ms. `coalesces`: of several events of a record only the last is sent. `reader`: what reads for
    it, if it `is_in_round` entries behind `begins`.
    """

    __slots__ = (
        "_coalesces",
        "_last_part",
        "_parts",
        "_position",
        "_since",
        "_subscription",
        "_until",
        "begins",
        "is_in_round",
        "reader",
    )

    def __init__(
        self,
        subscription: ReplayingSubscription,
        position: int,
        *,
        parts: list[tuple[bytes, int]] | None = None,
        last_part: int = 0,
        since: float | None = None,
        until: int = 0,
        coalesces: bool = False,
    ) -> None:
        self._subscription = subscription
        self._position = self.begins = position
        self.reader: LogReader | None = None
        self.is_in_round = False
        self._parts = parts or []
        self._last_part = last_part
        self._since = since
        self._until = until
        self._coalesces = coalesces and not subscription.group.view.raw and not subscription.group.view.transactions

    @property
    def position(self) -> int:
        """LSN up to which it has been read."""
        reader = self.reader
        return max(self._position, reader.position) if reader is not None and self.is_in_round else self._position

    @position.setter
    def position(self, lsn: int) -> None:
        self._position = self.begins = lsn

    @property
    def is_shared(self) -> bool:
        """Whether it is read together with others (`shared_replay`)."""
        return not self._coalesces and self._since is None and not self._subscription.target.is_record

    def read(self, end: float) -> Progress:
        subscription = self._subscription
        table = subscription.table
        database = table.database
        txn = database.snapshot()
        first = database.log.first_lsn(txn)
        if self._since is not None:
            self.position = max(self.position, min(first - 1, self._until))  # as far back as the log reaches
        if first > self.position + 1:
            subscription.finish_too_slow()  # retention has removed entries that were not read yet
            return Progress.DONE
        key = subscription.target.key if subscription.target.is_record else None
        while True:
            events: list[tuple[Change, int] | None] = []
            is_all = self._collect(txn, key, events, end)
            for each in events:
                if each is not None:
                    subscription.put(each[0], each[1])
            if is_all:
                subscription.put_end_of_transaction()
                return Progress.DONE if subscription.go_live(self.position) else Progress.MORE
            if subscription.is_full:
                return Progress.FULL
            if subscription.now() >= end:
                return Progress.MORE

    def close(self) -> None:
        if self.reader is not None:
            self.reader.leave(self._subscription)

    def wants(self, entry: LogEntry, txn: Txn) -> bool:
        """Whether an entry that the target covers is later than what was sent."""
        return self._is_new(entry) and not self._is_overtaken(entry, txn)

    def _collect(self, txn: Txn, key: bytes | None, events: list[tuple[Change, int] | None], end: float) -> bool:
        """Read the next entries, and append (change, number of events it replaces) to `events`; True at the end of the log."""
        subscription = self._subscription
        hub, table, group = subscription.hub, subscription.table, subscription.group
        covers = group.target.covers
        log = table.database.log
        last: dict[bytes, int] = {}  # key -> index in `events`
        room = subscription.room
        for _ in range(COALESCE_ENTRIES // LOG_BATCH if self._coalesces else 1):
            entries, following, is_all = log.read_some(txn, table.number, self.position + 1, LOG_BATCH, key=key)
            for entry in entries:
                if not covers(entry.key) or not self.wants(entry, txn):
                    continue
                change = hub.change(table, entry, txn)
                if group.event(change) is None:
                    continue
                coalesced = 1
                if self._coalesces and entry.kind not in NOTES:
                    before = last.get(entry.key)
                    if before is not None:
                        earlier = events[before]
                        assert earlier is not None
                        coalesced += earlier[1]
                        room += earlier[0].size
                        events[before] = None
                    last[entry.key] = len(events)
                events.append((change, coalesced))
                room -= change.size
            self.position = following - 1
            if is_all:
                return True
            if room <= 0 or subscription.now() >= end:
                break
        return False

    def _is_overtaken(self, entry: LogEntry, txn: Txn) -> bool:
        """Whether it says that nothing is there, where a record has come since: that may have been sent as a current one."""
        if entry.kind != MESSAGE or not self._parts or entry.value is None or raw_payload(entry.value) != NOTHING:
            return False
        raw = self._subscription.table.read(storage_key(entry.key), txn)
        return raw is not None and lsn_of(raw) > entry.lsn

    def _is_new(self, entry: LogEntry) -> bool:
        if self._since is not None and entry.lsn <= self._until:
            return entry.version > self._since
        if self._parts and entry.kind not in NOTES:
            at = bisect_left(self._parts, storage_key(entry.key), key=itemgetter(0))
            return entry.lsn > (self._parts[at][1] if at < len(self._parts) else self._last_part)
        return True
