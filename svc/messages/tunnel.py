"""What an upgrade hands over: connections that stop being HTTP (RFC 9110 §7.8; RFC 8441)."""

from __future__ import annotations

from typing import Protocol

from svc.messages.headers import HeaderPairs
from svc.messages.response import Response


class Tunnel(Protocol):
    """Bytes both ways, over a socket, TLS or a stream of HTTP/2."""

    peer: str  # address of the transport peer, without port
    scheme: str  # "http" or "https"

    @property
    def pending(self) -> int:
        """Bytes written and not yet taken by the socket or the peer's flow control. Bytes written while this is large are held in memory."""

    @property
    def is_overdue(self) -> bool:
        """Asked in `on_data`, of what begins a session: whether that has waited for so long that a request would be refused (spec: http §14.2)."""

    def write(self, data: bytes) -> None:
        """Queue for the end of the turn. The bytes may be shared with other tunnels. Dropped after `close`, `abort` or `on_closed`."""

    def close(self) -> None:
        """Nothing more will be written: end our half once all is sent, and the whole when the peer has ended its half, or shortly after."""

    def abort(self) -> None:
        """End it now; unsent bytes are discarded."""

    def pause_reading(self) -> None:
        """No `on_data` until `resume_reading`: the socket is not read."""

    def resume_reading(self) -> None: ...


class Receiver(Protocol):
    """The other protocol. Called on the loop, never from inside a call of its own to the tunnel."""

    def start(self, tunnel: Tunnel) -> None:
        """The upgrade is granted; `write` works from now on. What the peer has sent meanwhile follows as `on_data`."""

    def on_data(self, data: bytes) -> None: ...

    def on_eof(self) -> None:
        """The peer will send nothing more; it may still read."""

    def on_sent(self) -> None:
        """All that was written is sent: `pending` is 0 again. Called only after it was not, at the end of a turn."""

    def on_closed(self) -> None:
        """The tunnel is closed, for any reason, `abort` included. Called once, also if `start` never was; nothing follows."""

    def sweep(self, now: float) -> float | None:
        """About once a second, with `clock.monotonic()`: for deadlines. Returns the time until which that is not needed again; None: it is, each time."""

    def drain(self, is_replaced: bool = False) -> None:
        """The server is stopping: close the tunnel soon. `is_replaced`: another process serves in its place, so the peer may come back at once."""

    def login_ended(self) -> None:
        """What let the caller in has ended (`auth.logins`): close the tunnel soon."""


class Upgrade(Response):
    """The answer that makes the connection a tunnel. `protocol`: the value of `Upgrade`, one the request offered; "": the receiver itself writes the
    answer to the request, head and all (HTTP/1.1 only)."""

    __slots__ = ("protocol", "receiver")

    def __init__(self, protocol: str, receiver: Receiver, pairs: HeaderPairs | None = None) -> None:
        super().__init__(None, 101, pairs=pairs)
        self.protocol = protocol
        self.receiver = receiver
