"""A socket that carries another protocol than HTTP from here on: what HTTP/1.1 hands over with 101 (`svc.messages`)."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection
from math import inf
from typing import TYPE_CHECKING, Any

from svc.connection.base import READ_SIZE, SocketConnection
from svc.loop import contained
from svc.messages import Receiver

if TYPE_CHECKING:
    from svc.connection.shared import SharedState

CLOSE_SECONDS = 2.0  # for the peer to end its half after we have ended ours


class TunnelAcceptor:
    """The `Acceptor` of a port that speaks another protocol than HTTP from the beginning. `make_receiver`: of a connection; gets the certificate of its client,
    None without one."""

    def __init__(self, shared: SharedState, make_receiver: Callable[[Any], Receiver]) -> None:
        self._shared = shared
        self._make_receiver = make_receiver

    @property
    def open(self) -> Collection[object]:
        return self._shared.open

    def accept(self, sock: socket.socket, peer: str, scheme: str) -> TunnelConnection:
        """Take over a connected non-blocking socket."""
        connection = TunnelConnection(self._shared, sock, peer, scheme, self._make_receiver(None))
        connection.open()
        connection.touch()  # its receiver starts at the end of the turn, whether the client says something or not
        return connection


class TunnelConnection(SocketConnection):
    """The `Tunnel` of a socket of its own.

    While all is sent it has no deadline, the receiver watches the clock. Output the peer does not take ends it after `timeouts.request`.
    """

    __slots__ = ("_early", "_receiver", "_started", "_was_pending")

    def __init__(self, shared: SharedState, sock: socket.socket, peer: str, scheme: str, receiver: Receiver, early: bytes = b"") -> None:
        """`early`: bytes of the other protocol that came with the request. The receiver starts at the end of the turn."""
        super().__init__(shared, sock, peer, scheme, inf)
        self._receiver = receiver
        self._early = early
        self._started = False
        self._was_pending = False

    def open(self) -> None:
        super().open()
        self._shared.lasting[self._receiver] = 0.0

    # --- Tunnel --------------------------------------------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        return self._pending

    @property
    def is_overdue(self) -> bool:
        shedder = self._shared.shedder
        return shedder is not None and self._parked and shedder.is_overdue(self.peer, self.sock)

    def write(self, data: bytes) -> None:
        if not self._closing and not self.closed:
            self._out.append(data)
            self._pending += len(data)
            if not self._flush_queued:
                self._flush_queued = True
                self._shared.to_flush.append(self)

    def close(self) -> None:
        if not self._closing:
            self.close_soon()

    def abort(self) -> None:
        """At the end of the turn: the receiver is never called from inside its own call."""
        self._out.clear()
        self._pending = 0
        self._closing = self._ended = True
        self._stop_reading()
        self.touch()

    def pause_reading(self) -> None:
        self._stop_reading()

    def resume_reading(self) -> None:
        if not self._closing:
            self._read_again()

    # --- the socket ----------------------------------------------------------------------------------------------------------------

    def on_readable(self, has_turn: bool = False) -> None:
        share = self._shared.input
        if share.is_over and not has_turn:
            self._join_line()
            return
        try:
            data = self.sock.recv(READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close_now()
            return
        try:
            if not self._started:
                self._start()
            if data:
                self._shared.bytes_received += len(data)
                if not self._closing:
                    self._receiver.on_data(data)
                    share.charge()
            else:
                self._stop_reading()
                self._ended = True
                if self._closing:
                    self.touch()
                else:
                    self._receiver.on_eof()
        except BaseException as error:
            self.defect(contained(error))

    def _start(self) -> None:
        self._started = True
        self._receiver.start(self)
        early, self._early = self._early, b""
        if early and not self._closing:
            self._receiver.on_data(early)
        if self._ended and not self._closing:
            self._receiver.on_eof()

    def _on_all_sent(self, now: float) -> None:
        self._was_pending = True
        if not self._closing:
            self.deadline = inf

    def _on_flushed(self) -> None:
        try:
            if not self._started:
                self._start()
            elif self._was_pending and not self._closing:
                self._was_pending = False
                self._receiver.on_sent()
        except BaseException as error:
            self.defect(contained(error))
            return
        if self._closing and not self._out and not self.closed:
            self._end()

    def _end(self) -> None:
        """All is sent. Wait a little for the peer's FIN, so that closing does not discard output in transit."""
        if self._ended:
            self.close_now()
            return
        self.deadline = self._shared.now() + CLOSE_SECONDS
        self._read_again()
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.close_now()

    def on_deadline(self) -> None:
        self.close_now()

    def drain(self) -> None:
        """`Connections` notifies the receiver."""

    def _on_close(self) -> None:
        self._shared.lasting.pop(self._receiver, None)
        self._receiver.on_closed()

    def __repr__(self) -> str:
        return f"<TunnelConnection {self.peer} {type(self._receiver).__name__}>"
