"""All connections of a server: accepts them, and does their work at the end of the turn."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from svc.connection import tls_handshake
from svc.connection.http1 import Http1Connection
from svc.connection.shared import SharedState

if TYPE_CHECKING:
    from svc.connection.base import SocketConnection

STREAM_SLICE = 0.004  # seconds of a turn that all streamed bodies together may take


class Connections(SharedState):
    """Accepts sockets, flushes output, pulls streamed bodies, steps TLS handshakes, applies deadlines."""

    def accept(self, sock: socket.socket, peer: str, scheme: str = "http") -> Http1Connection:
        """Take over a connected non-blocking socket."""
        connection = Http1Connection(self, sock, peer, scheme)
        connection.open()
        return connection

    def begin_http2(self, connection: SocketConnection, data: bytes) -> SocketConnection:
        """Replace a connection by one of HTTP/2: one that received HTTP/2's preface (`data`: the preface and all bytes after it), or that agreed on
        HTTP/2 with TLS. Returns the new connection."""
        from svc.connection.http2 import Http2Connection  # many servers have no such client: 10 ms, and a megabyte

        successor = Http2Connection(self, connection.sock, connection.peer, connection.scheme)
        connection.hand_over(successor)
        if data:
            successor.receive(data)
        return successor

    def end_turn(self) -> bool:
        """Serve those whose input waits, pull streams, send output, close finished connections. True if a further turn has work at once."""
        share = self.input
        if self._ends_input:
            if share.joined or share.line:
                share.serve()
                self.woken = True
            share.deadline, share.is_over = 0.0, False  # as `share.end_turn`, which would be a call of every turn
        if self.streams:
            self._pull_streams()
        flushing, self.to_flush = self.to_flush, []
        for connection in flushing:
            connection.flush()
        if self.held > self.max_held:
            self._relieve()
        if self.handshakes:
            tls_handshake.run(self)  # last: they are slow
        woken, self.woken, self.date_line = self.woken, False, b""
        return bool(woken or self.streams or self.to_flush or self.handshakes or share.line)

    def _relieve(self) -> None:
        """Close the connections that hold most unread output, until the others are within the limit."""
        closed = 0
        for connection in sorted(self.open, key=lambda each: each.held, reverse=True):
            if self.held <= self.max_held:
                break
            connection.close_now()
            closed += 1
        now = self.now()
        if now - self._complained_at >= 1.0:
            self._complained_at = now
            self.log_error(f"clients do not read their answers: closed {closed} connections to keep within {self.max_held} bytes", None)

    def _pull_streams(self) -> None:
        deadline = self.now() + STREAM_SLICE
        waiting = self.streams
        self.streams = []
        for position, stream in enumerate(waiting):
            if self.now() >= deadline:
                self.streams = waiting[position:] + self.streams  # those not served go first next time
                return
            stream.pull(deadline)

    def sweep(self, now: float) -> None:
        """Act on every deadline that has passed. Called about once a second."""
        for connection in [c for c in self.open if c.deadline <= now]:
            connection.on_deadline()
        lasting = self.lasting
        for work in [work for work, due in lasting.items() if due <= now]:
            due = work.sweep(now)
            if due is not None and work in lasting:
                lasting[work] = due

    def drain(self) -> None:
        """Graceful stop: idle connections go now, the others after their current answer; feeds and tunnels are ended first."""
        for lasting in list(self.lasting):
            lasting.drain()
        for connection in list(self.open):
            connection.drain()

    def retire(self) -> None:
        """Another process takes over: the connections stay until they have been answered."""
        for connection in list(self.open):
            connection.retire()

    def send_away(self) -> bool:
        """Feeds and tunnels are ended, for their clients to come back to another process. To be called again: a connection that is left may begin one. Returns
        whether there were any."""
        found = list(self.lasting)
        for lasting in found:
            lasting.drain(is_replaced=True)
        return bool(found)

    def give(self) -> Iterator[tuple[socket.socket, str, str]]:
        """Sockets of connections whose peer waits for nothing, with address and scheme: another process goes on with them. The caller closes them."""
        for connection in list(self.open):
            sock = connection.give()
            if sock is not None:
                yield sock, connection.peer, connection.scheme

    def close_all(self) -> None:
        for connection in list(self.open):
            connection.close_now()
