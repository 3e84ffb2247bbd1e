"""What prepared requests answer with: their connection, and pieces of heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from svc.connection.exchange import Exchange, WaitingRequest
from svc.connection.input_share import BATCH, SLICE, InputShare
from svc.content.cbor_type import CborType
from svc.content.json_type import JsonType
from svc.content.msgpack_type import MsgpackType
from svc.http.dispatch import TIMINGS, TIMINGS_MADE, timing
from svc.messages import HeaderPairs
from svc.protocol.response_head import encode_fields, status_line
from svc.resources.table_base import UNCHECKED_KEY_LENGTH

if TYPE_CHECKING:
    from svc.connection.http2 import PreparedAnswer
    from svc.connection.shared import SharedState
    from svc.protocol.http2 import Http2
    from svc.protocol.response_head import RepeatedHead

Record = Callable[[float, int, int, float], None]
"""Takes what is recorded of an answer: milliseconds that it took, its status, bytes of its body, milliseconds until it was sent."""

PLACE = "PLACE"
"""Stands in fields for what differs from answer to answer."""

WRITERS = (JsonType, CborType, MsgpackType)
"""The types of content that no application has made."""

PUNCTUATION = b"-_~"
"""Of keys that stand for themselves in an address, beside letters and digits of ASCII."""

TAG_LENGTH = 11
"""Of the entity tag of a record."""


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


class StreamCarrier(Protocol):
    """A connection whose protocol asks about a request: `connection.http2.Http2Connection`."""

    peer: str
    prepared: Any
    """What has answered its last request, for `streams`."""

    protocol: Http2
    answered: list[PreparedAnswer]
    """Those that it will send."""


def encode_head(status: int, pairs: HeaderPairs, place: str = PLACE) -> list[bytes]:
    """The status line and the fields in front of `Server-Timing`, cut at `place`."""
    return f"{status_line(status)}{encode_fields(pairs)[0]}".encode("latin-1").split(place.encode())


def answer_stream(
    carrier: StreamCarrier,
    shared: SharedState,
    record: Record,
    head: RepeatedHead,
    tag: bytes,
    arrived: float,
    answered: float,
    body: bytes,
) -> bool:
    """Answer the request with this head, entity tag and body. `record`: of `Recorder.request_bucket`. False: the peer has no room for it, and nothing has
    happened."""
    taken = answered - arrived
    hundredths = int(taken * 100_000.0)
    told = TIMINGS[hundredths] if hundredths < TIMINGS_MADE else timing(hundredths)
    if not carrier.protocol.answer_plain(head, tag, told, shared.date(), body):
        return False
    carrier.answered.append((record, taken * 1000.0, head.status, len(body), answered))
    share = shared.input
    if arrived >= share.deadline:  # else it is nothing to call for
        charge(share, arrived)
    if share.is_over or len(carrier.answered) >= BATCH:
        carrier.protocol.is_behind = True
    return True


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
