"""Subscriptions with the same target, condition and view form one group, and share their events.

A write is tested once for each group it may concern; what remains to be done for each subscription is an append to its queue.
"""

from __future__ import annotations

from typing import Protocol

from svc.errors import Problem, QueryError
from svc.query.functions import values_reader
from svc.query.matching import Matcher, compile_predicate, names_of, reads_others
from svc.query.nodes import Filter
from svc.query.plan import Predicate
from svc.query.resolve import resolve_where
from svc.realtime.changes import Change, LogEvent, View, is_object
from svc.realtime.event import EndReason
from svc.realtime.limits import MAX_MISSED, MAX_WEIGHT, MIN_EVENT_WEIGHT
from svc.realtime.targets import Target
from svc.store import Table
from svc.store.env import Txn
from svc.store.log.entries import MESSAGE, PATCH, PUT, RELOCATE
from svc.store.schema import TableDefinition
from svc.store.values.records import encode

_TESTED = frozenset((PUT, PATCH, MESSAGE, RELOCATE))  # kinds of entries with a value: the others always pass
_NOTHING = encode({}, 0.0, 0, None)  # conditions treat a message that is not an object as an empty record


def event_predicate(where: Filter, table: Table) -> Predicate:
    """The resolved condition. Raises QueryError if it cannot be tested on one record alone."""
    predicate = resolve_where(where, table)
    if reads_others(predicate):
        raise QueryError(
            "A condition through a relationship cannot be tested on single events (live() keeps the result of a whole query up to date)",
            code="UNUSABLE_OPERATOR",
        )
    return predicate


class Member(Protocol):
    """What a group and the hub need of a `Subscription`. `weight`: bytes in `queue`. `missed`: events in the log that it has not got."""

    queue: list[LogEvent]
    weight: int
    waiting: bool
    missed: int
    ended: EndReason | None

    def notify(self) -> None: ...

    def keep_within_limits(self) -> None: ...

    def finish_too_slow(self) -> None: ...


class SubscriberGroup:
    """`live`: members that get events as they are committed. `behind`: members that read them from the log; only the number of events is counted."""

    __slots__ = ("_definition", "_matches", "_names", "_values_of", "_where", "behind", "live", "members", "target", "unfinished", "view")

    def __init__(self, target: Target, where: Filter | None, view: View) -> None:
        """Raises QueryError."""
        self.target = target
        self.view = view
        self._where = where
        self.members = 0  # subscriptions
        self.live: dict[Member, None] = {}
        self.behind: dict[Member, None] = {}
        self.unfinished: Change | None = None  # the last one delivered, of a transaction whose end is still to be delivered
        self._compile()

    def _compile(self) -> None:
        table = self.view.table
        self._definition: TableDefinition = table.definition
        self._matches: Matcher | None = None
        self._names: tuple[str, ...] = ()
        if self._where is not None:
            predicate = event_predicate(self._where, table)
            self._names = names_of(predicate)
            self._matches = compile_predicate(predicate, self._names, table.primary_key)
            self._values_of = values_reader(table, self._names)

    def _follow_definition(self) -> None:
        before = self._matches
        try:
            self._compile()
        except Problem:
            self._matches = before  # an attribute is gone: records that still have it are tested as before
            self._definition = self.view.table.definition

    def admits(self, stored: bytes, raw: bytes, txn: Txn) -> bool:
        """Whether a record is there for the members, and satisfies the condition."""
        viewpoint = self.view.viewpoint
        if viewpoint is not None and not viewpoint.may_see(stored, raw, txn):
            return False
        if self._matches is None:
            return True
        if self.view.table.definition is not self._definition:
            self._follow_definition()
        return self._matches(self._values_of(raw))

    def _admits(self, change: Change) -> bool:
        """Whether a change satisfies the condition. Groups with conditions on the same attributes share the values read from it."""
        if self.view.table.definition is not self._definition:
            self._follow_definition()
        assert self._matches is not None
        values = change.values.get(self._names)
        if values is None:
            raw = change.after
            if raw is None or (change.kind == MESSAGE and not is_object(raw)):
                raw = _NOTHING
            values = change.values[self._names] = self._values_of(raw)
        return self._matches(values)

    def event(self, change: Change, *, begin_txn: bool = False, coalesced: int = 1) -> LogEvent | None:
        """The event of a change that the target may cover; None: it does not concern the group."""
        if self.target.only_children and not self.target.covers(change.key):
            return None
        if self._matches is not None and change.kind in _TESTED and not self._admits(change):
            if self.view.viewpoint is None:
                return None
            event = change.event(self.view, begin_txn=begin_txn, coalesced=coalesced)
            return event if event is not None and event.type == "delete" else None  # a record that is not there any more
        return change.event(self.view, begin_txn=begin_txn, coalesced=coalesced)

    def deliver(self, event: LogEvent, ready: list[Member], full: list[Member]) -> None:
        """Append an event to the queues of all members. `ready` gets the members that wait for events, `full` those with too much queued or missed."""
        size = event.size
        if size < MIN_EVENT_WEIGHT:
            size = MIN_EVENT_WEIGHT
        for subscription in self.live:
            subscription.queue.append(event)
            weight = subscription.weight = subscription.weight + size
            if weight > MAX_WEIGHT:
                full.append(subscription)
            if subscription.waiting:
                subscription.waiting = False
                ready.append(subscription)
        if self.behind:
            for subscription in self.behind:
                subscription.missed += 1
                if subscription.missed > MAX_MISSED:
                    full.append(subscription)
