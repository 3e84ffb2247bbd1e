"""What a peer did (events), and what a driver hands back when another protocol takes over (`SwitchTo`).

Every driver has `receive_data(data: bytes) -> list[Event]`, `receive_eof() -> list[Event]`, `data_to_send() -> bytes`, and the three ways to answer
of `http1.Http1`. Output bytes are not a command. Flat classes, not changed after they are reported.
"""

from __future__ import annotations

from dataclasses import dataclass

from svc.errors import PeerError
from svc.messages import HeaderBlock, HeaderPairs


@dataclass(slots=True)
class RequestReceived:
    """A complete head. `body` is the complete body (`b""` if there is none), or None: `DataReceived`... and `RequestEnded` follow.

    Values derived from the head are here so that they are parsed once. `target` is in origin form (`*` for `OPTIONS *`).
    """

    stream_id: int
    method: str
    target: str
    block: HeaderBlock
    http_version: str  # "1.0", "1.1", "2"
    body: bytes | None
    expects_continue: bool = False  # the peer waits for `send_continue()` before it sends the body
    upgrade: str = (
        ""  # the protocol it asks to go on with, in lower case: of `Upgrade` (HTTP/1.1) or `:protocol` (extended CONNECT of HTTP/2)
    )


@dataclass(slots=True)
class DataReceived:
    """A piece of a request's body, transfer coding removed."""

    stream_id: int
    data: bytes


@dataclass(slots=True)
class RequestEnded:
    """The body is complete. `trailers`: lower-case names."""

    stream_id: int
    trailers: HeaderPairs


@dataclass(slots=True)
class RequestFailed:
    """One request of several is malformed or refused; it may not have been reported yet. The connection answers `error` if nothing of an answer was
    sent yet. The other requests go on. No event of this request follows."""

    stream_id: int
    error: PeerError


@dataclass(slots=True)
class RequestCancelled:
    """The peer wants no answer any more, or has lost it by breaking the protocol. No event of this request follows."""

    stream_id: int


@dataclass(slots=True)
class ProtocolFailed:
    """The peer broke the protocol. The connection answers `error` if nothing of an answer was sent yet, then closes. No event follows."""

    error: PeerError


@dataclass(slots=True)
class PeerClosed:
    """The peer will send nothing more, between two messages. It may still read (half-close)."""


@dataclass(slots=True)
class SwitchTo:
    """From here on another protocol talks on this connection; `trailing` are bytes already read that belong to it."""

    protocol: str
    trailing: bytes


RequestEvent = RequestReceived | DataReceived | RequestEnded | RequestFailed | RequestCancelled
Event = RequestEvent | ProtocolFailed | PeerClosed | SwitchTo
