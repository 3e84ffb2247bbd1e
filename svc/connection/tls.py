"""TLS on a non-blocking socket: `TlsSocket` has the interface of the socket that it encrypts (spec: http §14).

    socket.recv -> _incoming -> SSLObject -> what recv returns
    what send gets -> SSLObject -> _outgoing -> _held -> socket.send

What a connection may rely on, as with a socket:

1. `recv` leaves nothing inside that could be decrypted, since no poll would report it. (OpenSSL reads ahead no further than the record it works on, so
   nothing is left exactly when `_incoming` is empty.) It may therefore return a record, 16 KiB, more than it was asked for.
2. `send` reports bytes as sent when the ciphertext of all of them is with the socket. A piece whose ciphertext was taken in part is reported as not
   sent at all: the caller offers the same bytes again, as for a socket that was full, and only the rest of the ciphertext goes out. At most PIECE bytes
   are encrypted ahead of the socket, so the output held for a slow peer is bounded.
3. Every fault is an OSError, as `ssl.SSLError` is one; after it the connection cannot be used.

Ciphertext of TLS itself (alerts, answers to KeyUpdate) goes out with the next `recv` or `send`. A peer that causes it and does not read it is
disconnected beyond MAX_UNASKED. Renegotiation is switched off in the context (`svc.tls.contexts`).

`_outgoing` never becomes smaller, so it gets one record at a time: an idle connection keeps no more, however large its answers were.
"""

from __future__ import annotations

import errno
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

RECORD = 16 * 1024  # bytes of plaintext in a record, at most (RFC 8446 §5.1)
PIECE = 4 * RECORD  # bytes that are encrypted before the socket is offered the ciphertext: few calls for a large body, little to hold
MOST_AT_ONCE = 16 * PIECE  # bytes that one `send` takes: about a millisecond of encryption, then others have their turn
MAX_UNASKED = 256 * 1024  # bytes of ciphertext that may wait without anything having been sent


class TlsSocket:
    """The server's end. Until `begin` it is the plain socket."""

    __slots__ = ("_goodbye_said", "_held", "_incoming", "_object", "_outgoing", "_piece", "raw")

    def __init__(self, raw: socket.socket) -> None:
        """`raw`: connected and non-blocking; closed with this one."""
        self.raw = raw
        self._incoming: ssl.MemoryBIO
        self._outgoing: ssl.MemoryBIO
        self._object: ssl.SSLObject | None = None  # large, so not made before the peer has said something
        self._held = b""  # ciphertext that the socket has not taken
        self._piece = 0  # bytes of plaintext that are not reported as sent although they are encrypted
        self._goodbye_said = False  # close_notify is sent, or never will be

    # --- handshake -----------------------------------------------------------------------------------------------------------------

    def begin(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    @property
    def has_begun(self) -> bool:
        return self._object is not None

    @property
    def session(self) -> ssl.SSLObject:
        """What was agreed on. Only after `begin`."""
        assert self._object is not None
        return self._object

    def shake_hands(self, data: bytes) -> bool:
        """Continue the handshake with bytes from the raw socket. True: complete, but output may still be held (`flush`). Raises OSError."""
        self._incoming.write(data)
        try:
            self.session.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self.flush()  # also the alert with the reason
        return True

    def flush(self) -> bool:
        """Offer the socket the ciphertext that waits, once. True: nothing waits any more. Raises OSError."""
        held = self._held
        if self._outgoing.pending:
            held += self._outgoing.read()
        if not held:
            return True
        self._held = held
        try:
            taken = self.raw.send(held)
        except (BlockingIOError, InterruptedError):
            return False
        self._held = held[taken:]
        return not self._held

    @property
    def holds_input(self) -> bool:
        """Whether bytes have been read that `recv` has not decrypted: bytes that came right after the handshake."""
        return self._incoming.pending > 0

    # --- as a socket ---------------------------------------------------------------------------------------------------------------

    def recv(self, size: int) -> bytes:
        """What the peer has sent; b"" after its end. Raises BlockingIOError if nothing can be decrypted yet."""
        try:
            data = self.raw.recv(size)
        except (BlockingIOError, InterruptedError):
            if not self._incoming.pending:
                raise
            return self._decrypt()
        if data:
            self._incoming.write(data)
            return self._decrypt()
        if self._incoming.pending:
            try:
                return self._decrypt()  # the end is found again by the next call
            except BlockingIOError:
                pass  # part of a record, whose rest will never come
        return b""

    def _decrypt(self) -> bytes:
        session, incoming = self.session, self._incoming
        read = session.read
        try:
            data = read(RECORD)
            if incoming.pending:
                pieces = [data]
                try:
                    while incoming.pending and data:
                        data = read(RECORD)
                        pieces.append(data)
                except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                    pass  # return the data before them; the next call finds the end again
                data = b"".join(pieces)
        except ssl.SSLWantReadError:
            raise BlockingIOError(errno.EAGAIN, "no complete record") from None
        except ssl.SSLZeroReturnError:
            return b""
        finally:
            if self._outgoing.pending:
                self._send_unasked()
        return data

    def _send_unasked(self) -> None:
        if not self.flush() and len(self._held) > MAX_UNASKED:
            raise ConnectionAbortedError(errno.ECONNABORTED, "the peer does not read what it makes us send")

    def send(self, data: bytes) -> int:
        """How many bytes of `data` are with the socket. Raises BlockingIOError for none; then the next call has to begin with the same bytes."""
        size = len(data)
        if size <= RECORD and not self._held and size:
            # What the rest would do, for the usual answer: one record, taken at once.
            assert self._object is not None
            offset = self._object.write(data)
            while offset < size:  # a client may ask for smaller records (RFC 6066 §4)
                offset += self._object.write(data[offset:])
            ciphertext = self._outgoing.read()
            try:
                taken = self.raw.send(ciphertext)
            except (BlockingIOError, InterruptedError):
                taken = 0
            if taken == len(ciphertext):
                return size
            self._held = ciphertext[taken:]
            self._piece = size
            raise BlockingIOError(errno.EAGAIN, "the socket is full")
        sent = 0
        if self._held:
            if not self.flush():
                raise BlockingIOError(errno.EAGAIN, "the socket is full")
            sent, self._piece = self._piece, 0
        assert sent <= size, "what was offered before is not offered again"
        most = min(size, MOST_AT_ONCE)
        write, read = self.session.write, self._outgoing.read
        view = memoryview(data)
        while sent < most:
            end = min(sent + PIECE, most)
            offset = sent
            records: list[bytes] = []
            while offset < end:
                offset += write(view[offset : min(offset + RECORD, end)])
                records.append(read())
            self._held = b"".join(records)
            if not self.flush():
                self._piece = end - sent
                break
            sent = end
        if not sent and most:
            raise BlockingIOError(errno.EAGAIN, "the socket is full")
        return sent

    def shutdown(self, how: int) -> None:
        """Close the socket, after close_notify, which tells the peer that the data is complete."""
        self._say_goodbye()
        self.raw.shutdown(how)

    def _say_goodbye(self) -> None:
        if self._goodbye_said or self._object is None:
            return
        self._goodbye_said = True
        if self._held:
            return  # cut off in the middle of a record
        try:
            try:
                self._object.unwrap()
            except ssl.SSLError:  # the peer's own is still to come; or there is nothing to say goodbye to, as after a failed handshake
                pass
            self.flush()
        except OSError:
            pass

    def close(self) -> None:
        self._say_goodbye()
        self.raw.close()

    def fileno(self) -> int:
        return self.raw.fileno()

    def __repr__(self) -> str:
        return f"<TlsSocket {self._object.version() if self._object is not None else 'not begun'}>"
