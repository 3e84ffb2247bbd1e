"""The transaction log of a database in which other nodes take part (spec: replication).

Its entries come from several nodes, so the version of the newest is not the highest. What the versions of this node have to exceed is in `$replication`
(`ReplicationState.clock`), written with all that was applied.

A version that is more than AHEAD_MS in the future does not count there: one wrong clock would else be that of all nodes for good. So local writes may have
smaller versions than records that they meet. Such a write would lose to what it replaces, with all who have not heard of it yet, so it is refused here,
before anything of it stays (`VersionBehind`), and made again with the version next to that of the record. Databases without other nodes have another log,
which does not look.
"""

from __future__ import annotations

from math import inf, nextafter
from typing import TYPE_CHECKING

from svc.errors import ServerError
from svc.seldom import Seldom
from svc.store.log.entries import EXPIRE, NOTES, LogEntry, decode_entry, decode_head
from svc.store.log.transaction_log import TransactionLog
from svc.store.values.records import version_of

if TYPE_CHECKING:
    from svc.clock import Clock
    from svc.store.env import Handle, Txn
    from svc.store.replication_state import ReplicationState

_NEXT_MS = 1.0
AHEAD_MS = 600_000.0  # by which the version of another node may be in the future and still count


class VersionBehind(ServerError):
    """A local write has a smaller version than the record that it meets. `version`: that it is to have when it is made again."""

    def __init__(self, version: float) -> None:
        super().__init__("A record was written by a node whose clock is ahead, try again", 503, "OVERLOADED")
        self.version = version


class ReplicatedLog(TransactionLog):
    """`last_version`: what versions of this node have to exceed. It only grows, and not for versions that are ahead. `highest`: of all versions.
    `said_ahead`: by node, that its versions are ahead."""

    __slots__ = ("_clock", "_clock_version", "_is_ahead", "_state", "highest", "said_ahead")

    def __init__(self, former: TransactionLog, entries: Handle, deleted: Handle, state: ReplicationState, clock: Clock) -> None:
        """In place of `former`, the log of the same database."""
        self._clock_version = self.highest = 0.0
        self._clock = clock
        self.said_ahead = Seldom(clock.monotonic)
        self._state = state
        self._is_ahead = False  # `highest` has to be stored
        super().__init__(former.env, entries, deleted)
        self.counts = former.counts
        self.last_lsn = former.last_lsn

    def take_clock(self, txn: Txn, newest: float) -> None:
        """Take over what is stored. `newest`: version of the newest entry."""
        version, highest = self._state.clock(txn)
        self._clock_version = max(self._clock_version, version)
        self.highest = max(self.highest, highest)
        self.last_version = newest

    @property
    def last_version(self) -> float:
        return self._clock_version

    @last_version.setter
    def last_version(self, version: float) -> None:
        self.saw(version)

    def saw(self, version: float) -> bool:
        """A version was applied, or used. False: it does not count, because it is ahead."""
        if version <= self._clock_version:
            return True
        self.highest = max(self.highest, version)
        # Where the clock here was set back, our own versions are ahead too: each is next to the one before.
        if version > self._clock.wall() * 1000 + AHEAD_MS and version > self._clock_version + _NEXT_MS:
            return False
        self._clock_version = version
        return True

    def save_clock(self, txn: Txn) -> None:
        """To be part of what has changed it."""
        self._state.set_clock(txn, self._clock_version, self.highest)
        self._is_ahead = False

    def catch_up(self, txn: Txn) -> None:
        newest = self.newest(txn)
        self.last_lsn = 0 if newest is None else newest.lsn
        self.take_clock(txn, 0.0 if newest is None else newest.version)

    # -- local writes

    def append(self, txn: Txn, entry: LogEntry) -> None:
        if entry.version <= self.highest:
            self._check(txn, entry)
        if self._is_ahead:
            self.save_clock(txn)
        super().append(txn, entry)

    def append_encoded(self, txn: Txn, entries: list[bytes]) -> None:
        if self.highest > self._clock_version:
            for data in entries:
                head = decode_head(0, data)
                if head.version <= self.highest:
                    self._check(txn, decode_entry(0, data))
            if self._is_ahead:
                self.save_clock(txn)
        super().append_encoded(txn, entries)

    def append_foreign(self, txn: Txn, entries: list[bytes]) -> None:
        """`append_encoded` for what other nodes have written."""
        super().append_encoded(txn, entries)

    def _check(self, txn: Txn, entry: LogEntry) -> None:
        """Raise VersionBehind if the entry would lose to the record that it changes."""
        if entry.kind in NOTES or entry.kind == EXPIRE or entry.previous >= entry.transaction:  # what the same transaction has written
            return
        met = 0.0
        if entry.image is not None:
            met = version_of(entry.image)
        elif entry.previous:
            before = self.get(txn, entry.previous)
            met = 0.0 if before is None else before.version
        if entry.version <= met:
            if entry.version > self._clock.wall() * 1000 + AHEAD_MS:
                met = self.highest  # it is made again already: there is another such record
            version = nextafter(met, inf)
            self.highest = max(self.highest, version)
            self._is_ahead = True
            raise VersionBehind(version)
