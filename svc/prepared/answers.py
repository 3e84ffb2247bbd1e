"""What prepared requests answer with: their connection, and pieces of heads."""

from __future__ import annotations

from typing import Any, Protocol

from svc.connection.input_share import SLICE, InputShare
from svc.http.dispatch import TIMINGS, TIMINGS_MADE, timing
from svc.messages import HeaderPairs
from svc.protocol.response_head import encode_fields, status_line

PLACE = "PLACE"
"""Stands in fields for what differs from answer to answer."""


class Carrier(Protocol):
    """A connection that is between two requests, with nothing unsent: `connection.http1.Http1Connection`."""

    peer: str
    prepared: Any
    """What has answered its last request, for `requests`."""

    def send_at_once(self, data: bytes) -> float:
        """Send an answer; what the peer does not take now, as soon as it does. The time behind it."""


def encode_head(status: int, pairs: HeaderPairs) -> list[bytes]:
    """The status line and the fields in front of `Server-Timing`, cut at PLACE."""
    return f"{status_line(status)}{encode_fields(pairs)[0]}".encode("latin-1").split(PLACE.encode())


def timing_line(hundredths: int) -> bytes:
    """For times that TIMING_LINES has not."""
    return _line(timing(hundredths))


def charge(share: InputShare, now: float) -> None:
    """As `InputShare.charge`, with a time that is at hand."""
    if now >= share.deadline:
        if share.deadline:
            share.is_over = True
        else:
            share.deadline = now + SLICE


def _line(field: tuple[str, str]) -> bytes:
    return f"{field[0]}: {field[1]}\r\n".encode()


TIMING_LINES = [_line(field) for field in TIMINGS]
"""`Server-Timing` by hundredths of a millisecond."""
HUNDREDTHS = [b"%.2f" % (hundredths / 100) for hundredths in range(TIMINGS_MADE)]
"""A duration in it, the same."""
