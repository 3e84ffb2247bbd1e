"""A stream of HTTP/2 that carries another protocol: what an extended CONNECT becomes (RFC 8441, `svc.messages`)."""

from __future__ import annotations

from typing import Protocol

from svc.connection.shared import SharedState
from svc.messages import Receiver
from svc.protocol.http2 import Http2
from svc.protocol.http2_frames import CANCEL


class TunnelCarrier(Protocol):
    """The connection of a tunnel: `http2.Http2Connection`."""

    shared: SharedState
    protocol: Http2
    peer: str
    scheme: str

    @property
    def unsent_bytes(self) -> int: ...
    def touch(self) -> None: ...
    def lose_soon(self, stream_id: int) -> None: ...


class StreamTunnel:
    """The `Tunnel` of one stream. Its receiver starts at the end of the turn."""

    __slots__ = (
        "_early",
        "_has_ended",
        "_has_started",
        "_has_written",
        "_http2",
        "_is_closing",
        "_receiver",
        "_stream_id",
        "peer",
        "scheme",
    )

    def __init__(self, http2: TunnelCarrier, stream_id: int, receiver: Receiver) -> None:
        self._http2 = http2
        self._stream_id = stream_id
        self._receiver = receiver
        self.peer = http2.peer
        self.scheme = http2.scheme
        self._early: list[bytes] = []  # came before the start
        self._has_started = False
        self._has_ended = False  # the peer's half
        self._has_written = False  # since `on_sent`
        self._is_closing = False
        http2.shared.lasting[receiver] = 0.0
        http2.touch()

    # --- Tunnel --------------------------------------------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        return self._http2.protocol.pending(self._stream_id) + self._http2.unsent_bytes

    def write(self, data: bytes) -> None:
        if not self._is_closing and data:
            self._has_written = True
            self._http2.protocol.send_body(self._stream_id, data)
            self._http2.touch()

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._http2.protocol.end_response(self._stream_id)
            self._http2.touch()

    def abort(self) -> None:
        """At the end of the turn: the receiver is never called from inside its own call."""
        self._is_closing = True
        self._http2.protocol.reset(self._stream_id, CANCEL)
        self._http2.lose_soon(self._stream_id)

    @property
    def is_overdue(self) -> bool:
        return False  # that was asked of its handshake

    def pause_reading(self) -> None:
        self._http2.protocol.pause(self._stream_id)

    def resume_reading(self) -> None:
        self._http2.protocol.resume(self._stream_id)
        self._http2.touch()

    # --- the stream ----------------------------------------------------------------------------------------------------------------

    def on_data(self, data: bytes) -> None:
        if not self._has_started:
            self._early.append(data)
        elif not self._is_closing:
            self._receiver.on_data(data)

    def on_eof(self) -> None:
        self._has_ended = True
        if self._has_started and not self._is_closing:
            self._receiver.on_eof()

    def on_flushed(self) -> None:
        receiver = self._receiver
        if not self._has_started:
            self._has_started = True
            receiver.start(self)
            early, self._early = self._early, []
            for data in early:
                if not self._is_closing:
                    receiver.on_data(data)
            if self._has_ended and not self._is_closing:
                receiver.on_eof()
        elif self._has_written and not self._is_closing and not self.pending:
            self._has_written = False
            receiver.on_sent()

    def on_closed(self) -> None:
        """The stream is gone."""
        self._is_closing = True
        self._http2.shared.lasting.pop(self._receiver, None)
        self._receiver.on_closed()
