"""How much is kept for a subscriber that is slower than its events (spec: realtime §1 rule 8).

    subscription        above MAX_WEIGHT in its queue the queue is dropped, and the log is read instead when there is room again; after MAX_MISSED events
                        it ends as too slow. While it reads the log at most MAX_REPLAY_EVENTS wait
    application events  above MAX_SENT items the subscription ends as too slow: no log has them
    live query          above MAX_QUEUED events or MAX_QUEUED_BYTES needless ones are removed; if that does not help the client is reset, after MAX_RESETS in
                        a row without a whole snapshot it ends as too slow

Below these queues at most `http.event_pump.HIGH_WATER` bytes of one client are on their way to its connection; `websocket.web_socket` and
`connection` bound what is unsent.
"""

from __future__ import annotations

from svc.realtime.event import EndReason

MIN_EVENT_WEIGHT = 1024  # bytes that an event counts as at least: so one limit bounds both bytes and number
MAX_WEIGHT = 1 << 20  # bytes of events queued for a subscription
MAX_MISSED = 10_000  # events in the log that a subscription has not got yet, after which it ends

MAX_REPLAY_EVENTS = 100  # events read from the log or the table that wait
MAX_REPLAY_WEIGHT = MAX_WEIGHT // 2  # ... and their bytes

MAX_SENT = 10_000  # items sent by application code that wait

MAX_QUEUED = 10_000  # events of a live query queued for one client
MAX_QUEUED_BYTES = 16 << 20
MAX_RESETS = 4  # one after the other without a whole snapshot taken


class BoundedSource:
    """What keeps events for a subscriber, within these limits."""

    __slots__ = ()

    def finish(self, why: EndReason) -> None:
        """End it, once."""
        raise NotImplementedError

    def finish_too_slow(self) -> None:
        """End it since more would have to be kept than the limits allow, or what is needed is not kept any more. What is queued is dropped."""
        self.finish(EndReason.TOO_SLOW)
