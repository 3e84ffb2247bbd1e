"""What prepared requests answer with: their connection, and pieces of heads."""

from __future__ import annotations

from typing import Any, Protocol

from svc.connection.exchange import Exchange, WaitingRequest
from svc.connection.input_share import SLICE, InputShare
from svc.content.cbor_type import CborType
from svc.content.json_type import JsonType
from svc.content.msgpack_type import MsgpackType
from svc.http.dispatch import TIMINGS, TIMINGS_MADE, timing
from svc.messages import HeaderPairs
from svc.protocol.response_head import encode_fields, status_line
from svc.resources.table_base import UNCHECKED_KEY_LENGTH

PLACE = "PLACE"
"""Stands in fields for what differs from answer to answer."""

WRITERS = (JsonType, CborType, MsgpackType)
"""The types of content that no application has made."""

PUNCTUATION = b"-_~"
"""Of keys that stand for themselves in an address, beside letters and digits of ASCII."""


class Carrier(Protocol):
    """A connection that is between two requests, with nothing unsent: `connection.http1.Http1Connection`."""

    peer: str
    scheme: str
    prepared: Any
    """What has answered its last request, for `requests`."""

    def send_at_once(self, data: bytes) -> float:
        """Send an answer; what the peer does not take now, as soon as it does. The time behind it."""

    def wait_for(self, waiting: WaitingRequest) -> None:
        """Its request is answered later."""

    def answer_waiting(self, data: bytes) -> float:
        """`send_at_once`, for a request that has waited, without an exchange."""

    def make_exchange(self) -> Exchange:
        """The exchange of a request that waits without one."""


def encode_head(status: int, pairs: HeaderPairs, place: str = PLACE) -> list[bytes]:
    """The status line and the fields in front of `Server-Timing`, cut at `place`."""
    return f"{status_line(status)}{encode_fields(pairs)[0]}".encode("latin-1").split(place.encode())


def is_plain_key(key: bytes) -> bool:
    """Whether it stands for itself in an address, whatever the table, and is within every limit.

    >>> is_plain_key(b"a-1"), is_plain_key(b"a.b"), is_plain_key(b"")
    (True, False, False)
    """
    return (key.isalnum() or key.translate(None, PUNCTUATION).isalnum()) and len(key) <= UNCHECKED_KEY_LENGTH


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
