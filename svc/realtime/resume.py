"""Event ids, and where a subscription begins that names one (spec: realtime §1 rules 2 and 5, §3).

The id of an event is its position in the transaction log of its database, the LSN, the same number as `localTime` in the event. A client that connects
again sends the last id it has got, in an event stream as `Last-Event-ID`:

    subscription    everything behind this position, from the log, and no current records. If the log does not reach back that far, or has no such
                    position yet, the current records
    live query      any id means that the client has rows of an earlier connection: its events begin with `reset`, then comes a new snapshot

Current records have no id but the last one: a client that was disconnected among them has to begin again.
"""

from __future__ import annotations

from svc.realtime.history import MAX_PAST_EVENTS, CurrentRecords, LogReplay, PastEvents, Stage
from svc.realtime.subscription import Subscription
from svc.realtime.subscription_request import SubscriptionRequest
from svc.realtime.targets import Target

LIVE_QUERY_ID = 0  # the event id that a live query's stream begins with, so that a client which connects again sends one
RECONNECTED = "The client has reconnected"
_MAX_ID_LENGTH = 24  # characters


def parse_event_id(last_event_id: str | None) -> int | None:
    """The log position that a client names in `Last-Event-ID`; None if there is none or it is invalid.

    >>> parse_event_id("4711"), parse_event_id(" 12.75 "), parse_event_id("-1"), parse_event_id("x"), parse_event_id("1" * 99)
    (4711, 12, None, None, None)
    """
    if last_event_id is None or len(last_event_id) > _MAX_ID_LENGTH:
        return None
    whole, _, fraction = last_event_id.strip().partition(".")
    return int(whole) if whole.isascii() and whole.isdecimal() and (not fraction or fraction.isdecimal()) else None


def first_stage(subscription: Subscription, request: SubscriptionRequest, target: Target) -> Stage:
    """What a new subscription reads first: the log behind `request.after`, past events, or the current records."""
    table = request.table
    log, txn = table.database.log, table.database.snapshot()
    newest = log.newest_lsn(txn)
    after, since, count = request.after, request.start_time, request.previous_count
    if after is not None and not request.adds_current and max(log.first_lsn(txn), 1) <= after + 1 <= newest + 1:
        replay = LogReplay(subscription, after)
        return PastEvents(subscription, table, MAX_PAST_EVENTS, after=after, instead=replay) if target.is_record else replay
    if count:
        return PastEvents(subscription, table, count, since=since)
    if since is not None:
        first = max(log.first_since(txn, since, table.database.node) - 1, 0)
        replay = LogReplay(subscription, first, since=since, until=newest)
        return PastEvents(subscription, table, MAX_PAST_EVENTS, since=since, instead=replay) if target.is_record else replay
    if count == 0 or (request.omit_current and after is None):
        return LogReplay(subscription, newest)
    key_prefix = None if request.key is not None or not request.prefix else request.prefix
    return CurrentRecords(subscription, table, request.where, key_prefix, behind=after if request.adds_current else None)
