"""SocketConnection, the base of all connections: a socket, an output buffer, a deadline (architecture §1-§3).

Output is collected during a turn and sent once at its end (`flush`). Bytes that the socket does not take wait until it is writable. A connection is never
torn down inside its own call: `close_soon` marks it and the end of the turn closes it.

The socket is a non-blocking one, or has its interface (`connection.tls.TlsSocket`): `recv`, `send`, `shutdown`, `close`, `fileno`.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from svc.connection.file_range import FileCut
from svc.errors import Problem
from svc.loop import contained
from svc.messages import Request
from svc.protocol.events import RequestReceived

if TYPE_CHECKING:
    from svc.connection.exchange import Application
    from svc.connection.shared import SharedState

READ_SIZE = 64 * 1024  # bytes a recv asks for
UNSENT_MAX = 512 * 1024  # bytes of output that the socket does not take, beyond which nothing is read, since requests make more output


def report_defect(shared: SharedState, peer: str, error: Exception) -> None:
    """Log what ends an answer. A file that was changed while it was sent is no defect of code, nor is what a client would have been told: they have no
    traceback."""
    if isinstance(error, FileCut | Problem):
        shared.log_error(f"connection from {peer}: {error}", None)
    else:
        shared.log_error(f"connection from {peer}", error)


class SocketConnection:
    """Not re-entrant; everything runs on the loop."""

    __slots__ = (
        "_again", "_closing", "_ended", "_flush_queued", "_held", "_in_line", "_out", "_parked", "_pending", "_reading", "_shared", "_writing", "closed",
        "deadline", "peer", "peer_certificate", "scheme", "sock",
    )  # fmt: skip

    def __init__(self, shared: SharedState, sock: socket.socket, peer: str, scheme: str, deadline: float) -> None:
        self._shared = shared
        self.sock = sock
        self.peer = peer
        self.scheme = scheme
        self.peer_certificate: Any = None  # of a TLS client that showed one
        self.deadline = deadline  # `on_deadline` follows when it has passed
        self.closed = False
        self._out: list[bytes | memoryview] = []  # output not yet taken by the socket
        self._pending = 0  # bytes in _out
        self._held = 0  # bytes of output that `shared` knows to be in memory because the peer does not take them
        self._flush_queued = False
        self._reading = False  # registered for readability, unless it is in line
        self._in_line = False  # waits in `shared.input.line`, or has its turn
        self._parked = False  # ... since an earlier turn, and the socket is not polled meanwhile
        self._again = False  # ... and joins it again after that
        self._writing = False  # registered for writability
        self._ended = False  # the peer sent its FIN
        self._closing = False

    @property
    def application(self) -> Application:
        return self._shared.application

    def open(self) -> None:
        """Begin to read."""
        self._shared.open.add(self)
        self._read_again()

    # --- for subclasses ------------------------------------------------------------------------------------------------------------

    def on_readable(self, has_turn: bool = False) -> None:
        """The socket is readable, or may be. `has_turn`: read even if the turn's share for input is used up."""
        raise NotImplementedError

    def _serve(self) -> None:
        """Its place in line has come: take a batch of input."""
        if self._reading:
            self.on_readable(True)

    def _collect(self) -> None:
        """Move the protocol's output to `_out`."""

    def _is_deserted(self) -> bool:
        """The peer has ended its half, and a turn is over: give up what is not answered yet. True: that was all, and the connection is closed.

        A peer that has closed entirely looks the same until something is sent to it, which may be never.
        """
        return False

    def _on_all_sent(self, now: float) -> None:
        """The socket took all of `_out`."""

    def _on_unsent(self) -> None:
        """The socket did not take all of `_out`."""

    def _on_flushed(self) -> None:
        """At the end of a flush that left nothing unsent."""

    def _on_room(self) -> None:
        """The socket has become writable and has taken some of the output."""

    def _on_close(self) -> None:
        """The connection is ending; the socket is still open. Subclasses notify what waits for it."""

    def on_deadline(self) -> None:
        raise NotImplementedError

    def drain(self) -> None:
        """Graceful stop: close now if idle, else after the current requests."""
        raise NotImplementedError

    def retire(self) -> None:
        """Another process takes over: ask for no further request, without closing under one that is on its way."""

    def give(self) -> socket.socket | None:
        """The socket, for another process to go on with, if the peer waits for nothing; else None. Then this connection is closed."""
        return None

    # --- writing -------------------------------------------------------------------------------------------------------------------

    def touch(self) -> None:
        """Ask for a flush at the end of this turn."""
        if not self._flush_queued:
            self._flush_queued = True
            self._shared.to_flush.append(self)

    def flush(self) -> None:
        """Send once. What the socket does not take waits for writability."""
        self._flush_queued = False
        if self.closed or (self._ended and self._is_deserted()):
            return
        self._collect()
        if self._out and (self._writing or not self._send() or self._out):
            return
        self._on_flushed()

    def _send(self) -> bool:
        """Offer everything to the socket, once. False: that ended the connection."""
        out = self._out
        data = out[0] if len(out) == 1 else b"".join(out)
        try:
            sent = self.sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self.close_now()
            return False
        shared = self._shared
        shared.bytes_sent += sent
        if sent == len(data):
            out.clear()
            self._pending = 0
            if self._held:
                self._hold(0)
            self._on_all_sent(shared.now())
            return True
        self._wait_for_room(data, sent, shared.now())
        return True

    def _wait_for_room(self, data: bytes | memoryview, sent: int, now: float) -> None:
        """The socket has taken so many bytes of `data`, which is all that there is."""
        shared = self._shared
        self._out = [memoryview(data)[sent:]]  # no copy: of a large output the rest is offered many times
        self._pending = len(data) - sent
        if not self._writing:
            self._writing = True
            shared.loop.add_writer(self.sock, self.on_writable)
        self.deadline = now + shared.timeouts.request
        self._hold(self._pending)
        self._on_unsent()

    @property
    def held(self) -> int:
        """Bytes of output in memory that the peer does not take."""
        return self._held

    def _hold(self, size: int) -> None:
        self._shared.held += size - self._held
        self._held = size

    def on_writable(self) -> None:
        if not self._send():
            return
        if not self._out:
            self._writing = False
            self._shared.loop.remove_writer(self.sock)
            self.touch()
        self._on_room()

    # --- reading -------------------------------------------------------------------------------------------------------------------

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            if not self._parked:
                self._shared.loop.remove_reader(self.sock)

    def _read_again(self) -> None:
        if not self._reading and not self._ended:
            self._reading = True
            if not self._parked:
                self._shared.loop.add_reader(self.sock, self.on_readable)

    def _join_line(self) -> None:
        """Go on with the input when it is our turn."""
        if self._in_line:
            self._again = True
        else:
            self._in_line = True
            share = self._shared.input
            share.line.append(self)
            share.joined.append(self)

    def park(self) -> None:
        """The turn ends: if it is still in line, the socket is not polled until it has had its turn."""
        if self._in_line and not self._parked and not self.closed:
            self._parked = True
            if self._reading:
                self._shared.loop.remove_reader(self.sock)

    def take_turn(self) -> None:
        if self.closed:
            return
        self._again = False
        try:
            self._serve()
        except BaseException as error:
            self.defect(contained(error))
        if self.closed:
            return
        if self._again:
            self._shared.input.line.append(self)
            return
        self._in_line = False
        if self._parked:
            self._parked = False
            if self._reading:
                self._shared.loop.add_reader(self.sock, self.on_readable)

    def _request_of(self, head: object) -> Request | None:
        """The request with this head, for an answer to what is wrong with it; None if there is none."""
        if not isinstance(head, RequestReceived):
            return None
        request = Request(head.method, head.target, head.block, b"", head.http_version)
        request.peer, request.scheme = self.peer, self.scheme
        return request

    # --- end -----------------------------------------------------------------------------------------------------------------------

    def close_soon(self) -> None:
        """Close when everything is sent, at the end of a turn."""
        self._closing = True
        self.touch()

    def defect(self, error: Exception) -> None:
        """An unexpected exception: log it and close this connection."""
        report_defect(self._shared, self.peer, error)
        self.close_now()

    def close_now(self) -> None:
        if not self.closed:
            self._leave()
            self.sock.close()

    def _leave(self) -> None:
        """End everything but the socket."""
        self.closed = True
        try:
            self._on_close()
        except BaseException as error:
            self._shared.log_error(f"the end of a connection from {self.peer}", contained(error))
        self._detach()

    def _detach(self) -> None:
        """Unregister from the loop and from `shared` without closing the socket."""
        self._stop_reading()
        if self._writing:
            self._writing = False
            self._shared.loop.remove_writer(self.sock)
        self._hold(0)
        self._shared.open.discard(self)

    def hand_over(self, successor: SocketConnection) -> None:
        """Pass the socket and the unsent output to `successor`, which was made for it. This connection is closed without `_on_close`."""
        self._collect()
        successor._out, self._out = self._out, []
        successor._pending, self._pending = self._pending, 0
        successor.peer_certificate = self.peer_certificate
        successor._ended = self._ended
        self.closed = True
        self._detach()
        successor.open()
        successor.touch()
