"""Live queries: the result of any query, and from then on every change of it. What clients hear is told in `events`."""

from svc.realtime.live.queries import LiveQueries
from svc.realtime.live.subscription import LiveSubscription

__all__ = ["LiveQueries", "LiveSubscription"]
