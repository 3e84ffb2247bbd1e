"""A connection of a TLS port during the TLS handshake; afterwards it is one of HTTP (spec: http §14, analytics §3).

A step of a handshake is up to some milliseconds of arithmetic, so steps are not taken when their bytes come: `on_readable` only puts the connection
into a queue, and the end of each turn takes as many steps as fit into HANDSHAKE_SLICE (`run`). A thousand new clients wait for each
other and do not delay the requests of connected clients. Queued handshakes are not polled meanwhile.

    bytes that are not TLS     answered with 400 if they look like HTTP, else closed silently
    nothing, or not enough     closed after HANDSHAKE_SECONDS
    a certificate to check     waits for the revocation check
"""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from svc.connection.base import SocketConnection
from svc.connection.http1 import Http1Connection
from svc.connection.tls import TlsSocket
from svc.connection.tunnel import TunnelConnection

if TYPE_CHECKING:
    from svc.connection.shared import OpenConnection, PendingHandshake, SharedState
    from svc.messages import Receiver

HANDSHAKE_SLICE = 0.003  # seconds of a turn that all handshakes together may take
HANDSHAKE_SECONDS = 10.0  # from accept to the end; a shorter `headersTimeout` counts instead
LINGER_SECONDS = 2.0  # for a client that does not speak TLS to read why it is refused
READ_SIZE = 16 * 1024  # bytes: more than any flight of a handshake, but for long chains of client certificates
_TLS_HANDSHAKE = 0x16  # first byte of a record with a ClientHello (RFC 8446 §5.1)

PLAIN_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 52\r\nConnection: close\r\n\r\n"
    b"This port speaks HTTPS: use https:// in the address\n"
)
"""The answer to a client that speaks plain HTTP."""


class HandshakeLog(Protocol):
    def debug(self, *messages: object) -> None: ...
    def info(self, *messages: object) -> None: ...


class Contexts(Protocol):
    """Of one port: `tls.contexts.ServerContexts`."""

    @property
    def context(self) -> ssl.SSLContext:
        """For a handshake that begins now."""

    def peer_certificate(self, session: ssl.SSLObject) -> Any:
        """That of the client, if it was asked for and has been verified."""


class RevocationCheck(Protocol):
    """Whether certificates of clients are revoked: `tls.revocation`."""

    @property
    def longest(self) -> float:
        """Seconds that a check may take."""

    def check(self, certificate: Any, done: Callable[[], None]) -> bool:
        """True: the result is known, in the certificate; False: `done` is called when it is."""


@dataclass(frozen=True, slots=True)
class TlsPort:
    """The context of a port's handshakes. `record(value, metric)`: metrics (spec: analytics §3). `revocations`: None if revocation is not checked.
    `make_receiver`: of a port that does not speak HTTP: makes what takes over, of the certificate of the client."""

    contexts: Contexts
    record: HandshakeRecord
    log: HandshakeLog
    revocations: RevocationCheck | None = None
    make_receiver: Callable[[Any], Receiver] | None = None


class HandshakeRecord(Protocol):
    def __call__(self, value: float | bool, metric: str, /) -> None: ...


class TlsAcceptor:
    """Used by a listener in place of `Connections`: begins a TLS handshake on each accepted socket."""

    def __init__(self, connections: SharedState, port: TlsPort) -> None:
        self._connections = connections
        self._port = port

    @property
    def open(self) -> set[OpenConnection]:
        return self._connections.open

    def accept(self, sock: socket.socket, peer: str, scheme: str = "https") -> TlsHandshake:
        handshake = TlsHandshake(self._connections, sock, peer, self._port, scheme)
        handshake.open()
        return handshake


class TlsHandshake(SocketConnection):
    """A connection while its TLS handshake is in progress; Http1Connection or Http2Connection replaces it."""

    __slots__ = ("_accepted", "_is_done", "_is_queued", "_port", "_tls")

    def __init__(self, shared: SharedState, raw: socket.socket, peer: str, port: TlsPort, scheme: str = "https") -> None:
        self._tls = TlsSocket(raw)
        self._accepted = shared.now()
        deadline = self._accepted + min(shared.timeouts.headers, HANDSHAKE_SECONDS)
        super().__init__(shared, cast("socket.socket", self._tls), peer, scheme, deadline)
        self._port = port
        self._is_queued = False
        self._is_done = False

    # --- steps ---------------------------------------------------------------------------------------------------------------------

    def on_readable(self, has_turn: bool = False) -> None:
        if self._closing:
            self._discard()
        elif not self._is_queued:
            self._is_queued = True
            self._shared.handshakes.append(self)

    def wait(self) -> bool:
        """Stop polling the socket until the next `step`. False if that had been done before."""
        was_reading = self._reading
        self._stop_reading()
        return was_reading

    def step(self) -> None:
        self._is_queued = False
        if self.closed or self._closing:
            return
        tls = self._tls
        try:
            data = tls.raw.recv(READ_SIZE)
            if not data:
                self.close_now()
                return
            self._shared.bytes_received += len(data)
            if not tls.has_begun:
                if data[0] != _TLS_HANDSHAKE:
                    self._refuse(data)
                    return
                tls.begin(self._port.contexts.context)
            self._is_done = tls.shake_hands(data)
            if tls.flush():
                self._go_on()
            else:
                self._stop_reading()
                self._writing = True
                self._shared.loop.add_writer(self.sock, self.on_writable)
        except (BlockingIOError, InterruptedError):
            self._read_again()
        except OSError as error:
            self._fail(error)
        except Exception as error:
            self.defect(error)

    def on_writable(self) -> None:
        try:
            if self._tls.flush():
                self._writing = False
                self._shared.loop.remove_writer(self.sock)
                self._go_on()
        except OSError as error:
            self._fail(error)
        except Exception as error:
            self.defect(error)

    def _go_on(self) -> None:
        if not self._is_done:
            self._read_again()
            return
        self._finish()

    def _finish(self) -> None:
        """The handshake is complete. A client certificate may have to be checked for revocation before the first request."""
        port, session = self._port, self._tls.session
        port.record((self._shared.now() - self._accepted) * 1000.0, "tls-handshake")
        port.record(bool(session.session_reused), "tls-reused")
        certificate = self.peer_certificate = port.contexts.peer_certificate(session)
        revocations = port.revocations
        if certificate is None or revocations is None or revocations.check(certificate, self._begin_http):
            self._begin_http()
        else:
            self._stop_reading()
            self.deadline = self._shared.now() + revocations.longest

    def _begin_http(self) -> None:
        if self.closed:
            return
        shared, tls = self._shared, self._tls
        successor: OpenConnection
        if self._port.make_receiver is not None:
            tunnel = successor = TunnelConnection(
                shared, self.sock, self.peer, self.scheme, self._port.make_receiver(self.peer_certificate)
            )
            self.hand_over(tunnel)
            tunnel.touch()
        elif tls.session.selected_alpn_protocol() == "h2":
            successor = shared.begin_http2(self, b"")
        else:
            successor = Http1Connection(shared, self.sock, self.peer, "https")
            self.hand_over(successor)
        if tls.holds_input:
            successor.on_readable()

    def _fail(self, error: OSError) -> None:
        reason = getattr(error, "verify_message", None) or getattr(error, "reason", None) or error.strerror or type(error).__name__
        log = self._port.log
        if isinstance(error, ssl.SSLCertVerificationError):
            log.info("the certificate of", self.peer, "is not accepted:", reason)
        else:
            log.debug("handshake with", self.peer, "failed:", reason)
        self.close_now()

    # --- others than TLS -----------------------------------------------------------------------------------------------------------

    def _refuse(self, data: bytes) -> None:
        self._port.log.debug(self.peer, "does not speak TLS")
        if not data[:1].isupper():  # a method
            self.close_now()
            return
        raw = self._tls.raw
        raw.send(PLAIN_ANSWER)  # which any new socket has room for
        # To close at once would reset the connection if the client has sent more, and it could lose the answer.
        raw.shutdown(socket.SHUT_WR)
        self._closing = True
        self.deadline = self._shared.now() + LINGER_SECONDS
        self._read_again()

    def _discard(self) -> None:
        try:
            if not self._tls.raw.recv(READ_SIZE):
                self.close_now()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.close_now()

    # --- end -----------------------------------------------------------------------------------------------------------------------

    def on_deadline(self) -> None:
        if not self._closing:
            self._port.log.debug("handshake with", self.peer, "took too long")
        self.close_now()

    def drain(self) -> None:
        self.close_now()

    def __repr__(self) -> str:
        return f"<TlsHandshake {self.peer} {self._tls!r}>"


def run(shared: SharedState) -> None:
    """Step the queued handshakes in order, for HANDSHAKE_SLICE."""
    queue: deque[PendingHandshake] = shared.handshakes
    now = shared.now
    deadline = now() + HANDSHAKE_SLICE
    while queue:
        queue.popleft().step()
        if now() >= deadline:
            break
    for waiting in reversed(queue):  # the newest are the only ones that may still be polled
        if not waiting.wait():
            break
