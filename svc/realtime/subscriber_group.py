"""Those who see the same of the same: all subscriptions with one target, one condition and one view share their events.

A write is looked at once for each audience it may concern, and what is left for each subscription is an append.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svc.errors import Problem, QueryError
from svc.query.functions import values_reader
from svc.query.matching import Matcher, compile_predicate, names_of, reads_others
from svc.query.nodes import Filter
from svc.query.plan import Predicate
from svc.query.resolve import resolve_where
from svc.realtime.changes import Change, LogEvent, View, is_object
from svc.realtime.targets import Target
from svc.store import Table
from svc.store.log.entries import MESSAGE, PATCH, PUT, RELOCATE
from svc.store.schema import TableDefinition
from svc.store.values.records import encode

if TYPE_CHECKING:
    from svc.realtime.subscription import Subscription

MIN_EVENT_WEIGHT = 1024  # that an event counts as, in bytes: so one limit bounds both bytes and number
MAX_WEIGHT = 1 << 20  # of events that wait for a subscription
MAX_MISSED = 10_000  # events, after which a subscription ends (realtime §1 rule 8)

_TESTED = frozenset((PUT, PATCH, MESSAGE, RELOCATE))  # the others have no value, and always pass
_NOTHING = encode({}, 0.0, 0, None)  # what a message that is no object is to a condition


def event_predicate(where: Filter, table: Table) -> Predicate:
    """The condition, if one record can tell whether it holds. Raises QueryError."""
    predicate = resolve_where(where, table)
    if reads_others(predicate):
        raise QueryError(
            "A condition through a relationship cannot be tested on single events (live() keeps the result of a whole query up to date)",
            code="UNUSABLE_OPERATOR",
        )
    return predicate


class SubscriberGroup:
    """`live`: gets events as they are committed. `behind`: reads them from the log, and is only told that there is one more."""

    __slots__ = ("_definition", "_matches", "_names", "_values_of", "_where", "behind", "live", "members", "target", "unfinished", "view")

    def __init__(self, target: Target, where: Filter | None, view: View) -> None:
        """Raises QueryError."""
        self.target = target
        self.view = view
        self._where = where
        self.members = 0  # subscriptions
        self.live: dict[Subscription, None] = {}
        self.behind: dict[Subscription, None] = {}
        self.unfinished: Change | None = None  # the last one told, of a transaction whose end is still to be told
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
            self._matches = before  # an attribute is gone: records that still have it are judged as before
            self._definition = self.view.table.definition

    def admits(self, raw: bytes) -> bool:
        """Whether a record satisfies the condition."""
        if self._matches is None:
            return True
        if self.view.table.definition is not self._definition:
            self._follow_definition()
        return self._matches(self._values_of(raw))

    def _admits(self, change: Change) -> bool:
        """The same of a change: others have read the same values of it."""
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
        """What is to be told of a change of a record that the target may cover; None: nothing."""
        if self.target.only_children and not self.target.covers(change.key):
            return None
        if self._matches is not None and change.kind in _TESTED and not self._admits(change):
            return None
        return change.event(self.view, begin_txn=begin_txn, coalesced=coalesced)

    def spread(self, event: LogEvent, ready: list[Subscription], full: list[Subscription]) -> None:
        """Give it to all. `ready` gets those who wait for something to come, `full` those who have, or have missed, too much."""
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
