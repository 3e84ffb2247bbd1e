"""Events, event sources and the reasons they end, as protocols see them (spec: realtime §1)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol


class Event(Protocol):
    """One event. It is shared by all subscribers with the same view of it, so it is not changed; what is derived from it, above all its encoded
    forms, is made once and kept in `memo`, under a key of the code that derives it."""

    type: str
    id: Any
    position: int | None  # in the log of its database, to resume from behind it: an LSN
    memo: dict[Any, Any]

    def members(self, native: bool) -> dict[str, Any]:
        """The members of the event as sent, in order. `native`: with Python types (dates, bytes), else as in JSON."""

    @property
    def size(self) -> int:
        """About how many bytes of memory it holds."""


class EndReason(Enum):
    """Why an event source has no more events. The value is the message for the client."""

    FINISHED = "The subscription was ended"
    REVOKED = "Access denied"  # the right to read is gone
    NO_LOGIN = "Login required"  # the user or its credentials are gone
    TOO_SLOW = "The events were not taken fast enough"
    DROPPED = "The subscribed table or attribute does not exist any more"
    FAILED = "Internal Server Error"


class EventSource(Protocol):
    """A subscription or a live query, as seen by the protocol that sends its events to a client.

    The consumer takes events while it has room. Events wait in the source, where their number is bounded.
    """

    on_ready: Callable[[], None]  # set by the consumer before its first `take`; called on the loop, never inside `take`
    ended: EndReason | None  # set: no more come once `take` has returned an empty list
    waiting: bool  # the last `take` has returned all there were: `on_ready` is called when there are more

    def take(self, limit: int) -> list[Event]:
        """The next events, at most `limit`, in order. Works for a few milliseconds at most."""

    def close(self) -> None:
        """The consumer is gone."""
