"""The share of a turn that input may take: who is served at once, who waits in line, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svc.connection import Connections, Timeouts
from svc.connection.input_share import BATCH, SLICE, InputShare
from svc.messages import Response
from svc.protocol.http1 import Limits
from svc.protocol.http2_requests import RequestReader
from tests.support.connections import FakeApplication, World
from tests.support.fakes import FakeLoop, FakeSocket, make_reactor
from tests.support.http2 import ClientEnd

GET = b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"


class ManyClients(World):
    """Connections whose requests take as long as `takes` says, in seconds."""

    def __init__(self, count: int, takes: float = 0.0, http2: bool = False) -> None:
        super().__init__(http2=http2)
        self.sock.incoming.append(b"")
        self.takes = takes
        self.socks = [FakeSocket() for _ in range(count)]
        for sock in self.socks:
            self.connections.accept(sock, "127.0.0.1")  # type: ignore[arg-type]
        self.application.answer = self._work

    def _work(self, exchange: Any) -> Response:
        self.clock.advance(self.takes)
        return Response(exchange.request.target.encode())

    def poll(self) -> None:
        """Every readable socket is reported, in order; the turn does not end."""
        for sock in self.socks:
            if sock.incoming and sock in self.loop.readers:
                self.loop.readers[sock]()

    @staticmethod
    def bodies_of(sock: FakeSocket) -> int:
        return sock.sent.count(b"HTTP/1.1 200")

    def served(self) -> list[str]:
        found = [exchange.request.target for exchange in self.application.handled]
        self.application.handled.clear()
        return found


def test_what_others_have_asked_for_waits_when_the_slice_is_used_up() -> None:
    world = ManyClients(10, takes=SLICE * 0.4)
    for number, sock in enumerate(world.socks):
        sock.incoming.append(GET % number)
    world.poll()
    assert world.served() == ["/0", "/1", "/2", "/3"]
    assert world.turn()
    assert world.served() == ["/4", "/5", "/6"]
    world.poll()
    assert world.served() == []  # they are in line, and not polled
    assert world.turn()
    assert world.served() == ["/7", "/8", "/9"]
    assert not world.turn()
    assert all(sock.sent for sock in world.socks) and all(sock in world.loop.readers for sock in world.socks)


def test_a_client_with_one_request_is_served_before_the_rest_of_what_others_have_sent() -> None:
    world = ManyClients(2, takes=SLICE)
    flood, other = world.socks
    flood.incoming.append(b"".join(GET % number for number in range(50)))
    world.poll()
    assert world.turn()
    assert len(world.served()) < 2 * BATCH
    other.incoming.append(GET % 99)
    world.poll()
    assert world.served() == ["/99"]


def test_those_in_line_take_turns() -> None:
    world = ManyClients(3, takes=SLICE * 0.9)
    for number, sock in enumerate(world.socks):
        sock.incoming.append(b"".join(GET % number for _ in range(20)))
    served: list[str] = []
    for _ in range(60):
        world.poll()
        world.turn()
        served += world.served()
        counts = [served.count(f"/{number}") for number in range(3)]
        assert max(counts) - min(counts) <= 2 * BATCH
    assert counts == [20, 20, 20]


def http2_requests(count: int) -> bytes:
    client = ClientEnd()
    for number in range(count):
        client.request("GET", f"/{number}", None, None)
    return client.data_to_send()


def test_a_hundred_requests_on_one_http2_connection_are_a_batch_at_once() -> None:
    world = ManyClients(1, http2=True)
    world.socks[0].incoming.append(http2_requests(100))
    world.poll()
    assert len(world.served()) == BATCH
    while world.turn():
        pass
    assert world.served() == [f"/{number}" for number in range(BATCH, 100)]


def test_http2_connections_take_turns_with_each_other_and_with_http1() -> None:
    world = ManyClients(31, takes=SLICE * 0.3, http2=True)
    *floods, other = world.socks
    for sock in floods:
        sock.incoming.append(http2_requests(100))
    world.poll()
    world.turn()
    assert len(world.served()) <= 2 * (4 + BATCH)
    other.incoming.append(GET % 999)
    world.poll()
    assert world.served() == ["/999"]
    total = 0
    while world.turn():
        handled = world.served()
        assert len(handled) <= 4 + BATCH
        total += len(handled)
    assert all(sock.sent for sock in floods)
    assert total > 2900


def test_requests_that_fail_count() -> None:
    client = ClientEnd()
    for number in range(60):
        client.request("GET", f"no path {number}", None, None)
    world = ManyClients(1, http2=True)
    refused: list[int] = []
    answer = world.application.error_response
    world.application.error_response = lambda error, request: refused.append(1) or answer(error, request)  # type: ignore[func-returns-value, method-assign]
    world.socks[0].incoming.append(client.data_to_send())
    world.poll()
    assert len(refused) == BATCH
    while world.turn():
        pass
    assert len(refused) == 60


def test_many_small_frames_are_taken_apart_piece_by_piece(monkeypatch: Any) -> None:
    world = ManyClients(1, http2=True)
    client = ClientEnd()
    client.request("POST", "/", {"content-length": "5000"}, None)
    world.socks[0].incoming.append(client.data_to_send())
    world.poll()
    world.turn()
    (connection,) = (each for each in world.connections.open if each.sock is world.socks[0])  # type: ignore[attr-defined]
    pieces: list[int] = []
    parse: Callable[[bytes], Any] = connection.protocol.receive_data  # type: ignore[attr-defined]

    def receive_data(data: bytes) -> Any:
        pieces.append(len(data))
        world.clock.advance(SLICE)
        return parse(data)

    monkeypatch.setattr(type(connection.protocol), "receive_data", lambda self, data, plain=None: receive_data(data))  # type: ignore[attr-defined]
    world.socks[0].incoming.append(b"\0\0\1\0\0\0\0\0\1x" * 5000)
    world.poll()
    assert len(pieces) <= 2 and max(pieces) <= 24 * 1024
    while world.turn():
        pass
    assert sum(pieces) == 50_000
    assert not world.errors


def test_a_connection_that_closes_in_line_is_forgotten() -> None:
    world = ManyClients(2, takes=SLICE)
    for sock in world.socks:
        sock.incoming.append(GET % 1 + GET % 2)
    world.poll()
    for connection in list(world.connections.open):
        connection.close_now()
    while world.turn():
        pass
    assert not world.loop.readers and not world.connections.input.line and not world.errors


def test_keeping_alive_does_not_end_while_a_client_is_in_line() -> None:
    world = ManyClients(3)
    for _ in range(2):
        for number, sock in enumerate(world.socks):
            sock.incoming.append(GET % number)
        world.poll()
        if not world.takes:
            world.turn()
            assert world.served() == ["/0", "/1", "/2"]
            world.takes = SLICE
    assert world.served() == ["/0", "/1"]
    world.pass_time(30)
    assert world.served() == ["/2"]
    assert world.bodies_of(world.socks[2]) == 2


def test_a_stop_answers_what_waits_in_line() -> None:
    world = ManyClients(1, takes=SLICE)
    world.socks[0].incoming.append(GET % 0 + GET % 1 + GET % 2)
    world.poll()
    assert world.served() == ["/0", "/1"]
    world.connections.drain()
    while world.turn():
        pass
    assert world.served() == ["/2"]
    assert world.socks[0].closed


def test_ports_share_one_slice() -> None:
    one = ManyClients(1, takes=2 * SLICE)
    share = InputShare(one.clock.monotonic)
    loop, application = FakeLoop(), FakeApplication()

    def connections() -> Connections:
        return Connections(
            application,
            make_reactor(loop, one.clock),
            limits=Limits(),
            timeouts=Timeouts(),
            date=lambda: "",
            input=share,
        )

    ports = [connections(), connections()]
    socks = [FakeSocket(), FakeSocket()]
    application.answer = one._work
    for port, sock in zip(ports, socks, strict=True):
        for _ in range(2):
            sock.incoming.append(GET % 1)
        port.accept(sock, "127.0.0.1")  # type: ignore[arg-type]
        port_reader = loop.readers[sock]
        port_reader()
        if sock in loop.readers:
            loop.readers[sock]()
    assert len(application.handled) == 2  # the first of the turn, and the one that finds the slice used up
    assert len(share.line) == 1
    share.end_turn()
    assert len(application.handled) == 3
    assert not share.line and not share.is_over
    for port in ports:
        port.end_turn()
    assert all(sock.sent for sock in socks)


def test_heads_beyond_a_batch_are_not_even_read(monkeypatch: Any) -> None:
    world = ManyClients(1, http2=True)
    world.socks[0].incoming.append(http2_requests(100))
    begun: list[int] = []
    begin = RequestReader.begin

    def count(self: RequestReader, *given: Any) -> Any:
        begun.append(1)
        return begin(self, *given)

    monkeypatch.setattr(RequestReader, "begin", count)
    world.poll()
    assert len(begun) <= 2 * BATCH
    while world.turn():
        pass
    assert len(begun) == 100
    assert world.served() == [f"/{number}" for number in range(100)]


def test_what_those_in_line_have_made_ready_is_not_waited_for() -> None:
    """Such as a task that is to answer the last of them: the timeout of the poll was computed before."""
    share = InputShare(lambda: 0.0)
    assert share.end_turn() is False

    class Taker:
        def take_turn(self) -> None: ...

    share.line.append(Taker())
    assert share.end_turn() is True
    assert share.end_turn() is False

    world = ManyClients(4, takes=SLICE)
    world.application.answer = lambda exchange: world.clock.advance(SLICE)  # it answers later
    for number, sock in enumerate(world.socks):
        sock.incoming.append(GET % number)
    world.poll()
    while len(world.application.handled) < 4:
        assert world.turn()
    assert not world.turn()
