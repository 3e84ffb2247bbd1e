"""One thing that happened, as subscribers see it, and where they get it from (contract: realtime §1, applications §9)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol


class Event(Protocol):
    """One event. It is shared by all subscribers who may see the same of it, so nobody changes it; what is derived from it, its encoded forms
    above all, is made once and kept in `memo`, under a key of whoever derives it."""

    type: str
    id: Any
    local_time: int | None  # position in the log of its database: its LSN
    memo: dict[Any, Any]

    def members(self, native: bool) -> dict[str, Any]:
        """What is sent, in order. `native`: values have types of their own (dates, bytes), else they are as in JSON."""

    @property
    def size(self) -> int:
        """About how many bytes of memory it holds."""


class EndReason(Enum):
    """Why an event source has no more. The value is the text for the client."""

    FINISHED = "The subscription was ended"
    REVOKED = "Access denied"  # the right to read is gone
    NO_LOGIN = "Login required"  # ... and with it the user, or the user's credentials
    TOO_SLOW = "The events were not taken fast enough"
    DROPPED = "What was subscribed to does not exist any more"
    FAILED = "Internal Server Error"


class EventSource(Protocol):
    """A subscription or a live query, seen by the one who sends its events to a client.

    The consumer takes while it has room, and stops when it has none: what waits, waits here, and here it is bounded. An empty list means that
    `on_ready` will be called when there is more.
    """

    on_ready: Callable[[], None]  # set by the consumer before its first `take`; called on the loop, never inside `take`
    ended: EndReason | None  # set: no more come once `take` has returned an empty list

    def take(self, limit: int) -> list[Event]:
        """The next events, at most `limit`, in order. Works for a few milliseconds at most."""

    def close(self) -> None:
        """The consumer is gone."""
