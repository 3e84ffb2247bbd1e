"""From an accepted socket of a TLS port to an HTTP connection: steps in slices, deadlines, others than TLS. Fake sockets, loop and clock."""

from __future__ import annotations

import gc
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from svc.connection.http1 import Http1Connection
from svc.connection.tls_handshake import (
    HANDSHAKE_SECONDS,
    HANDSHAKE_SLICE,
    LINGER_SECONDS,
    PLAIN_ANSWER,
    TlsAcceptor,
    TlsHandshake,
    TlsPort,
)
from svc.messages import Response
from tests.support.certificates import TlsClient, client_context, server_context
from tests.support.connections import World
from tests.support.fakes import FakeSocket

GET = b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


class FakeContexts:
    certificate: Any = None

    @property
    def context(self) -> ssl.SSLContext:
        return server_context()

    def peer_certificate(self, session: ssl.SSLObject) -> Any:
        return self.certificate


class FakeLog:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def debug(self, *messages: object) -> None:
        self.lines.append(("debug", " ".join(map(str, messages))))

    def info(self, *messages: object) -> None:
        self.lines.append(("info", " ".join(map(str, messages))))


class FakeRevocations:
    """Knows nothing at once; `finish` tells those who wait."""

    longest = 60.0

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def check(self, certificate: Any, done: Callable[[], None]) -> bool:
        self.waiting.append(done)
        return False

    def finish(self) -> None:
        while self.waiting:
            self.waiting.pop()()


class TlsWorld(World):
    def __init__(self, revocations: FakeRevocations | None = None) -> None:
        super().__init__()
        self.connection.close_now()
        self.contexts, self.log = FakeContexts(), FakeLog()
        self.recorded: list[tuple[float | bool, str]] = []
        port = TlsPort(self.contexts, lambda value, metric: self.recorded.append((value, metric)), self.log, revocations)
        self.acceptor = TlsAcceptor(self.connections, port)

    def connect(self, version: ssl.TLSVersion | None = None, **options: Any) -> Wire:
        return Wire(self, TlsClient(client_context(version), **options))

    def turns(self) -> None:
        for _ in range(1000):
            if not self.turn():
                return
        raise AssertionError("the turn does not end")


class Wire:
    """A client on a fake socket."""

    def __init__(self, world: TlsWorld, client: TlsClient) -> None:
        self.world = world
        self.client = client
        self.raw = FakeSocket()
        self.handshake: TlsHandshake = world.acceptor.accept(self.raw, "10.0.0.1")  # type: ignore[arg-type]

    @property
    def connection(self) -> Any:
        return next((each for each in self.world.connections.open if each.sock is self.handshake.sock), None)

    def arrive(self, data: bytes) -> None:
        """Bytes come, and the loop says so once."""
        self.raw.incoming.append(data)
        reader = self.world.loop.readers.get(self.handshake.sock)
        if reader is not None:
            reader()

    def deliver(self) -> None:
        data, self.raw.sent = self.raw.sent, b""
        self.client.receive(data)

    def exchange(self) -> None:
        """To and fro until nobody has anything to say."""
        for _ in range(10):
            data = self.client.take()
            if data:
                self.arrive(data)
            self.world.turns()
            if not self.raw.sent and not data:
                return
            self.deliver()


@pytest.fixture
def world() -> TlsWorld:
    return TlsWorld()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_over_tls(world: TlsWorld, version: ssl.TLSVersion) -> None:
    wire = world.connect(version)
    wire.exchange()
    assert type(wire.connection) is Http1Connection
    wire.client.write(GET % 1)
    wire.exchange()
    assert wire.client.received.endswith(b"/1")
    [exchange] = world.application.done
    assert exchange.request.scheme == "https"
    assert exchange.request.peer == "10.0.0.1"
    assert exchange.request.peer_certificate is None


def test_a_request_that_came_with_the_last_flight_is_answered(world: TlsWorld) -> None:
    wire = world.connect(ssl.TLSVersion.TLSv1_3)
    wire.arrive(wire.client.take())
    world.turns()
    wire.deliver()
    wire.client.write(GET % 7)
    wire.arrive(wire.client.take())
    world.turns()
    wire.deliver()
    assert wire.client.received.endswith(b"/7")


def test_what_is_recorded(world: TlsWorld) -> None:
    first = world.connect(ssl.TLSVersion.TLSv1_2)
    world.clock.advance(0.25)
    first.exchange()
    assert world.recorded == [(250.0, "tls-handshake"), (False, "tls-reused")]
    world.recorded.clear()
    context = client_context(ssl.TLSVersion.TLSv1_2)
    one = Wire(world, TlsClient(context))
    one.exchange()
    other = Wire(world, TlsClient(context, session=one.client.session.session))
    other.exchange()
    assert [value for value, metric in world.recorded if metric == "tls-reused"] == [False, True]


def test_the_certificate_of_the_client_is_on_its_requests(world: TlsWorld) -> None:
    world.contexts.certificate = "a certificate"
    wire = world.connect()
    wire.exchange()
    wire.client.write(GET % 1)
    wire.exchange()
    assert world.application.done[0].request.peer_certificate == "a certificate"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_that_sends_byte_by_byte(world: TlsWorld, version: ssl.TLSVersion) -> None:
    wire = world.connect(version)
    for _ in range(4):
        for byte in wire.client.take():
            wire.arrive(bytes([byte]))
            world.turns()
        wire.deliver()
    assert wire.client.done
    assert type(wire.connection) is Http1Connection


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_that_reads_byte_by_byte(world: TlsWorld, version: ssl.TLSVersion) -> None:
    wire = world.connect(version)
    for _ in range(10_000):
        data = wire.client.take()
        if data:
            wire.arrive(data)
        wire.raw.room = 7
        world.turns()
        writer = world.loop.writers.get(wire.handshake.sock)
        if writer is not None:
            writer()
            world.turns()
        wire.deliver()
        if wire.client.done and wire.handshake.closed:
            break
    assert wire.client.done
    assert type(wire.connection) is Http1Connection
    assert not world.loop.writers


# --- certificates that are looked up ---------------------------------------------------------------------------------------------------


@pytest.fixture
def looking() -> tuple[TlsWorld, FakeRevocations]:
    revocations = FakeRevocations()
    world = TlsWorld(revocations)
    world.contexts.certificate = "a certificate"
    return world, revocations


def test_requests_wait_for_what_becomes_of_the_certificate(looking: tuple[TlsWorld, FakeRevocations]) -> None:
    world, revocations = looking
    wire = world.connect()
    wire.exchange()
    assert wire.client.done
    wire.client.write(GET % 1)
    wire.exchange()
    assert not world.application.handled
    assert wire.handshake.sock not in world.loop.readers
    revocations.finish()
    assert type(wire.connection) is Http1Connection
    world.loop.readers[wire.handshake.sock]()
    world.turns()
    wire.deliver()
    assert wire.client.received.endswith(b"/1")


def test_a_request_behind_the_last_flight_waits_too(looking: tuple[TlsWorld, FakeRevocations]) -> None:
    world, revocations = looking
    wire = world.connect(ssl.TLSVersion.TLSv1_3)
    wire.arrive(wire.client.take())
    world.turns()
    wire.deliver()
    wire.client.write(GET % 7)
    wire.arrive(wire.client.take())
    world.turns()
    assert not world.application.handled
    revocations.finish()
    world.turns()
    wire.deliver()
    assert wire.client.received.endswith(b"/7")


def test_nobody_waits_for_ever(looking: tuple[TlsWorld, FakeRevocations]) -> None:
    world, revocations = looking
    wire = world.connect()
    wire.exchange()
    world.pass_time(revocations.longest - 1)
    assert not wire.raw.closed
    world.pass_time(2)
    assert wire.raw.closed
    revocations.finish()
    assert not world.connections.open and not world.loop.readers


def test_clients_without_a_certificate_do_not_wait(looking: tuple[TlsWorld, FakeRevocations]) -> None:
    world, _ = looking
    world.contexts.certificate = None
    wire = world.connect()
    wire.exchange()
    assert type(wire.connection) is Http1Connection


# --- slices ----------------------------------------------------------------------------------------------------------------------------


def test_a_storm_of_handshakes_is_spread_over_turns(world: TlsWorld) -> None:
    """A step takes 2/5 of the slice on this clock: a turn takes three of them and leaves the others, and nobody polls for these."""
    wires = [world.connect() for _ in range(20)]
    clock = world.clock.monotonic
    world.connections.now = lambda: (world.clock.advance(HANDSHAKE_SLICE * 2 / 5), clock())[1]
    for wire in wires:
        wire.arrive(wire.client.take())
    assert not any(wire.raw.sent for wire in wires), "no step is taken where bytes come in"
    answered = []
    while world.turn():
        answered.append(sum(bool(wire.raw.sent) for wire in wires))
        for wire in wires:
            waiting = not wire.raw.sent
            assert (wire.handshake.sock not in world.loop.readers) == waiting
    assert answered[:3] == [3, 6, 9]
    assert all(wire.raw.sent for wire in wires)


def test_those_who_wait_are_served_in_their_order(world: TlsWorld) -> None:
    wires = [world.connect() for _ in range(6)]
    clock = world.clock.monotonic
    world.connections.now = lambda: (world.clock.advance(HANDSHAKE_SLICE), clock())[1]
    for wire in reversed(wires):
        wire.arrive(wire.client.take())
    for wire in reversed(wires):
        assert not wire.raw.sent
        world.turn()
        assert wire.raw.sent


def test_requests_of_others_go_on_during_a_storm(world: TlsWorld) -> None:
    old = world.connect()
    old.exchange()
    wires = [world.connect() for _ in range(20)]
    clock = world.clock.monotonic
    world.connections.now = lambda: (world.clock.advance(HANDSHAKE_SLICE), clock())[1]
    for wire in wires:
        wire.arrive(wire.client.take())
    old.client.write(GET % 1)
    old.arrive(old.client.take())
    world.turn()
    old.deliver()
    assert old.client.received.endswith(b"/1")
    assert sum(bool(wire.raw.sent) for wire in wires) == 1


# --- what is wrong ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [GET % 1, b"POST / HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
def test_plain_http_is_told_to_use_https(world: TlsWorld, data: bytes) -> None:
    wire = world.connect()
    wire.arrive(data)
    world.turns()
    assert wire.raw.sent == PLAIN_ANSWER
    assert wire.raw.half_closed and not wire.raw.closed
    wire.arrive(b"more of the request")
    world.turns()
    assert not wire.raw.closed
    wire.arrive(b"")
    assert wire.raw.closed
    assert not world.connections.open and not world.loop.readers and not world.errors


def test_a_plain_client_that_stays_is_closed(world: TlsWorld) -> None:
    wire = world.connect()
    wire.arrive(GET % 1)
    world.turns()
    world.pass_time(LINGER_SECONDS - 0.1)
    assert not wire.raw.closed
    world.pass_time(0.2)
    assert wire.raw.closed


@pytest.mark.parametrize(
    "data", [b"\x16", b"\x16\x03\x01\x00\x05hello", b"\x16" + b"G" * 5000, b"\0", b"\x80\x2e\x01", b"\r\n", b"get", b"\xff" * 9000]
)
def test_garbage_is_closed_without_a_word_in_the_log(world: TlsWorld, data: bytes) -> None:
    wire = world.connect()
    wire.arrive(data)
    world.turns()
    wire.arrive(b"")
    world.turns()
    assert wire.raw.closed
    assert not world.connections.open and not world.loop.readers and not world.errors
    assert not wire.raw.sent or wire.raw.sent[:1] == b"\x15", "nothing but an alert"
    assert all(level == "debug" for level, _ in world.log.lines)


@pytest.mark.parametrize("said", [0, 1, 100])
def test_a_client_that_says_too_little_is_closed(world: TlsWorld, said: int) -> None:
    wire = world.connect()
    if said:
        wire.arrive(wire.client.take()[:said])
        world.turns()
    world.pass_time(HANDSHAKE_SECONDS - 0.1)
    assert not wire.raw.closed
    world.pass_time(0.2)
    assert wire.raw.closed
    assert not world.connections.open and not world.loop.readers


def test_bytes_now_and_then_do_not_buy_time(world: TlsWorld) -> None:
    wire = world.connect()
    data = wire.client.take()
    for byte in data[:11]:
        wire.arrive(bytes([byte]))
        world.turns()
        world.pass_time(HANDSHAKE_SECONDS / 10)
    assert wire.raw.closed


@pytest.mark.parametrize("end", [b"", ConnectionResetError()])
def test_a_client_that_goes_away_leaves_nothing(world: TlsWorld, end: Any) -> None:
    for said in (False, True):
        wire = world.connect()
        if said:
            wire.arrive(wire.client.take())
            world.turns()
        wire.arrive(end)
        world.turns()
        assert wire.raw.closed
    assert not world.connections.open and not world.loop.readers and not world.errors


def test_a_client_that_trusts_somebody_else_is_closed_quietly(world: TlsWorld) -> None:
    wire = Wire(world, TlsClient(ssl.create_default_context()))
    wire.arrive(wire.client.take())
    world.turns()
    with pytest.raises(ssl.SSLCertVerificationError):
        wire.deliver()
    wire.arrive(wire.client.take())
    world.turns()
    assert wire.raw.closed
    [(level, line)] = world.log.lines
    assert level == "debug" and "10.0.0.1" in line


def test_stopping_ends_handshakes(world: TlsWorld) -> None:
    wires = [world.connect() for _ in range(3)]
    wires[0].arrive(wires[0].client.take())  # queued
    wires[1].arrive(wires[1].client.take()[:5])
    world.connections.drain()
    world.turns()
    assert all(wire.raw.closed for wire in wires)
    assert not world.connections.open


def test_a_large_answer_to_a_slow_reader(world: TlsWorld) -> None:
    world.application.answer = lambda exchange: Response(b"x" * 1_000_000)
    wire = world.connect()
    wire.exchange()
    wire.client.write(GET % 1)
    wire.raw.room = 0
    wire.arrive(wire.client.take())
    world.turns()
    for _ in range(10_000):
        if wire.handshake.sock not in world.loop.writers:
            break
        wire.raw.room = 10_000
        world.loop.writers[wire.handshake.sock]()
        world.turns()
        wire.deliver()
    assert wire.client.received.endswith(b"\r\n\r\n" + b"x" * 1_000_000)
    wire.raw.room = 1 << 30
    wire.client.received = b""
    world.application.answer = lambda exchange: Response(b"small")
    wire.client.write(GET % 2)
    wire.exchange()
    assert wire.client.received.endswith(b"small")


@pytest.mark.parametrize("data", [b"", b"\x16\x03\x01\x00\x05hello", GET % 1])
def test_what_a_connection_leaves_behind_is_freed_with_it(world: TlsWorld, data: bytes) -> None:
    """Cycles would wait for the garbage collector, which stops the loop to find them."""

    def connect() -> None:
        wire = world.connect()
        if data:
            wire.arrive(data)
        else:
            wire.exchange()
            wire.client.write(GET % 1)
            wire.exchange()
        world.turns()
        wire.arrive(b"")
        world.turns()
        assert wire.raw.closed
        world.application.handled.clear()
        world.application.done.clear()
        world.recorded.clear()

    connect()
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            connect()
        assert gc.collect() < 20
    finally:
        gc.enable()
