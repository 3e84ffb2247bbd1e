"""TlsSocket and TlsHandshake: whatever bytes come from the network, cut anywhere, into sockets that are full at any time.

Invariant, for any bytes put into what an honest client sends, any way to cut it and any room in the socket:

1. What `recv` gives is a beginning of what the client wrote: nothing forged, nothing twice, nothing left out. Without a fault it is all of it.
2. What the client reads is a beginning of what was sent; of bytes that `send` reported, those that the client got whole records of are there in order.
3. Nothing is raised but OSError. A handshake that fails closes its socket; nothing stays in the loop, in the queue or among the open connections.
4. What is held for the peer is bounded.

The input chooses: version, what is changed in the client's bytes and where, the cuts and the rooms. The keys are new each time, so an input that fails
may have to be run more than once.
"""

from __future__ import annotations

import random
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.runner import run
from svc.connection.http1 import Http1Connection
from svc.connection.tls import MAX_UNASKED, PIECE, TlsSocket
from svc.connection.tls_handshake import TlsAcceptor, TlsHandshake, TlsPort
from svc.messages import Response
from tests.support.certificates import TlsClient, client_context, server_context
from tests.support.connections import World
from tests.support.fakes import FakeSocket

CORPUS = Path(__file__).parent / "corpus" / "tls"
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
HELLO = b"\x16\x03\x01"
OVERHEAD = 4096  # of a PIECE's ciphertext


class Contexts:
    context = server_context()

    def peer_certificate(self, session: ssl.SSLObject) -> Any:
        return None


class Log:
    def debug(self, *messages: object) -> None:
        pass

    info = debug


def generate(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    if corpus and source.random() < 0.2:
        data = bytearray(source.choice(corpus))
        if data:
            data[source.randrange(len(data))] = source.randrange(256)
        return bytes(data)
    return source.randbytes(source.randint(1, 60))


def spoilt(source: random.Random, data: bytes) -> bytes:
    """`data` with something changed; the records' heads are as likely as all the rest."""
    changed = bytearray(data)
    for _ in range(source.randint(0, 2)):
        place = source.randrange(min(len(changed), 12) if source.random() < 0.5 else len(changed)) if changed else 0
        match source.randrange(4):
            case 0:
                changed[place:place] = source.choice(
                    (b"\x15\x03\x03\x00\x02\x01\x00", b"\x14\x03\x03\x00\x01\x01", HELLO, source.randbytes(20))
                )
            case 1:
                del changed[place : place + source.randint(1, 8)]
            case 2 if changed:
                changed[place] ^= 1 << source.randrange(8)
            case _:
                changed[place:place] = changed[place : place + source.randint(1, 40)]
    return bytes(changed)


def pieces(source: random.Random, data: bytes) -> list[bytes]:
    if source.random() < 0.1:
        return [data[place : place + 1] for place in range(len(data))]
    found, place = [], 0
    while place < len(data):
        size = source.choice((1, 5, 100, 20_000, 1 << 20))
        found.append(data[place : place + size])
        place += size
    return found


def check(data: bytes) -> None:
    source = random.Random(data)
    if source.random() < 0.5:
        check_handshake(source, data)
    else:
        check_socket(source)


def check_handshake(source: random.Random, data: bytes) -> None:
    """A whole connection on fake sockets. The first flight is spoilt, or is `data` itself."""
    world = World()
    world.connection.close_now()
    world.application.answer = lambda exchange: Response(b"x" * source.randint(0, 100_000))
    acceptor = TlsAcceptor(world.connections, TlsPort(Contexts(), lambda value, metric: None, Log()))
    raw = FakeSocket()
    handshake = acceptor.accept(raw, "10.0.0.1")  # type: ignore[arg-type]
    client = TlsClient(client_context(source.choice(VERSIONS)))
    honest = source.random() < 0.3
    flights = 0

    def current() -> Any:
        return next(iter(world.connections.open), handshake)

    for _ in range(400):
        if client.done and flights < 5:
            client.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        out = client.take()
        flights += bool(out)
        if not honest:
            out = spoilt(source, out) if flights > 1 or source.random() < 0.8 else source.choice((b"", HELLO)) + data
        for piece in pieces(source, out):
            if handshake.sock in world.loop.readers:
                raw.incoming.append(piece)
                world.loop.readers[handshake.sock]()
            for _ in range(100):
                if not world.turn():
                    break
            else:
                raise AssertionError("the turn does not end")
        raw.room = 1 << 30 if honest else source.choice((0, 1, 1000, 1 << 30))
        if handshake.sock in world.loop.writers:
            world.loop.writers[handshake.sock]()
        world.turn()
        held = len(handshake._tls._held)
        assert held <= PIECE + OVERHEAD + MAX_UNASKED, held
        sent, raw.sent = raw.sent, b""
        try:
            client.receive(sent)
        except ssl.SSLError:
            break
        if raw.closed or (client.done and not out and not sent and not held):
            break
    assert not world.errors, world.errors
    if honest:
        assert client.done and type(current()) is Http1Connection, current()
        assert client.received.startswith(b"HTTP/1.1 200 ")
    world.pass_time(60)
    world.pass_time(60)
    assert raw.closed or not isinstance(current(), TlsHandshake)
    world.connections.close_all()
    assert raw.closed and not world.loop.readers and not world.loop.writers and not world.connections.open
    world.turn()
    assert not world.connections.handshakes


def check_socket(source: random.Random) -> None:
    """Both directions of an established connection."""
    raw = FakeSocket()
    tls = TlsSocket(raw)  # type: ignore[arg-type]
    client = TlsClient(client_context(source.choice(VERSIONS)))
    tls.begin(server_context())
    for _ in range(4):
        if tls.shake_hands(client.take()):
            break
        client.receive(raw.sent)
        raw.sent = b""
    client.receive(raw.sent)
    raw.sent = b""
    honest = source.random() < 0.5
    written, received, offered, taken = b"", b"", b"", 0
    waiting = b""
    failed = False
    for _ in range(source.randint(1, 12)):
        if source.random() < 0.6:
            message = source.randbytes(source.choice((1, 100, 20_000, 70_000)))
            client.write(message)
            written += message
        data = client.take()
        for piece in pieces(source, data if honest else spoilt(source, data)):
            raw.incoming.append(piece)
            try:
                received += tls.recv(source.choice((1, 1 << 16)))
            except BlockingIOError:
                pass
            except OSError:
                failed = True
                break
            raw.incoming.clear()
        assert written.startswith(received)
        assert failed or not honest or received == written
        if failed:
            break
        if source.random() < 0.7:
            waiting += (more := source.randbytes(source.choice((1, 1000, 17_000, 200_000))))
            offered += more
        if waiting:
            raw.room = source.choice((0, 1, 100, 30_000, 1 << 30))
            try:
                sent = tls.send(waiting)
                assert 0 < sent <= len(waiting)
                waiting = waiting[sent:]
                taken += sent
            except BlockingIOError:
                pass
            assert len(tls._held) <= PIECE + OVERHEAD
        client.receive(raw.sent)
        raw.sent = b""
        assert offered.startswith(client.received) and len(client.received) >= taken
    assert failed is False or not honest
    raw.room = 1 << 30
    while waiting and not failed:
        waiting = waiting[tls.send(waiting) :]
        client.receive(raw.sent)
        raw.sent = b""
    assert failed or client.received == offered
    tls.close()
    assert raw.closed


if __name__ == "__main__":
    sys.exit(run("tls", generate, check, CORPUS))
