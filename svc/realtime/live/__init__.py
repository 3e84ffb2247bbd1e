"""Live queries: the result of any query, then every change of it. `events` documents the events."""

from svc.realtime.live.queries import LiveQueries
from svc.realtime.live.subscription import LiveSubscription

__all__ = ["LiveQueries", "LiveSubscription"]
