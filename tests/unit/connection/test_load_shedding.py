"""What is refused under overload, and what is not: a crowd of clients, each of whose requests takes milliseconds of a fake clock."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from svc.connection.input_share import FEW, SLICE, STANDING
from svc.connection.load_shedding import LEFT_AGE, CallerTimes, LoadShedder, PortShedder, RequestClass, look_at
from svc.connection.tls import TlsSocket
from svc.connection.tunnel import TunnelAcceptor
from svc.errors import Problem
from svc.messages import UNIX_PEER, Headers, Response
from tests.support.fakes import FakeSocket
from tests.support.http2 import ClientEnd
from tests.unit.connection.test_input_share import ManyClients

LIMIT = 0.15
WORK = 0.004  # seconds of a request
GET = b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"


def classify(method: str, target: str, content: bytes) -> RequestClass:
    kind = {"/health": RequestClass.HEALTH, "/bulk": RequestClass.BULK, "/operation": RequestClass.OPERATION}.get(target)
    return kind or (RequestClass.READ if method in ("GET", "HEAD") else RequestClass.WRITE)


class Crowd(ManyClients):
    """`ages` are those of the fake clock since each socket was sent something."""

    def __init__(self, count: int = 100, takes: float = WORK, *, limit: float = LIMIT, http2: bool = False, scheme: str = "https") -> None:
        """`scheme`: with that of TLS, requests cannot be seen before they are taken, and all that are to be served join the line."""
        super().__init__(count, takes, http2)
        share = self.connections.input
        self.sent_at: dict[Any, float] = {}
        self.left: set[Any] = set()
        self.shedder = LoadShedder(share, self.clock.monotonic, limit, self.look)
        self.counted: dict[str, int] = {}
        self.told: list[str] = []
        self.shedder.count = lambda number, kind: self.counted.update({kind.name: self.counted.get(kind.name, 0) + number})
        self.shedder.warn = self.told.append
        self.connections.shedder = PortShedder(
            self.shedder, self.application, classify, self.connections.date, self.connections.limits.max_header_size, "/own"
        )
        for connection in self.connections.open:
            connection.scheme = scheme  # type: ignore[attr-defined]

    def look(self, sock: Any) -> tuple[float, bool] | None:
        return self.clock.monotonic() - self.sent_at.get(sock, self.clock.monotonic()), sock in self.left

    def send(self, sock: Any, data: bytes) -> None:
        sock.incoming.append(data)
        self.sent_at[sock] = self.clock.monotonic()

    def all_send(self) -> None:
        for number, sock in enumerate(self.socks):
            self.send(sock, GET % number)

    def step(self) -> bool:
        self.poll()
        return self.turn()

    def settle(self) -> None:
        while self.step():
            pass

    def refusals(self) -> int:
        return sum(sock.sent.count(b"HTTP/1.1 503") for sock in self.socks)

    def make_standing(self) -> None:
        """From here on there is overload: all clients have asked, and a third of them are answered."""
        self.all_send()
        began = self.clock.monotonic()
        while not self.connections.input.is_standing:
            self.step()
            assert self.clock.monotonic() - began < LIMIT
        assert not self.refusals()


def test_what_has_waited_for_too_long_is_refused_and_the_others_are_answered() -> None:
    world = Crowd()
    world.all_send()
    world.settle()
    answered = sum(world.bodies_of(sock) for sock in world.socks)
    assert answered + world.refusals() == 100
    assert LIMIT / WORK - 2 <= answered <= LIMIT / WORK + FEW + 2
    world.shedder.sweep(world.clock.monotonic() + 1)
    assert world.counted == {"READ": world.refusals()}
    assert len(world.told) == 1 and "of read" in world.told[0]
    for sock in world.socks:
        assert sock in world.loop.readers and not sock.closed
    assert not world.errors


def test_the_refusal_is_the_usual_answer_and_the_connection_goes_on() -> None:
    world = Crowd()
    world.application.error_response = lambda error, request: Response(  # type: ignore[method-assign]
        b"too busy", error.status_code, Headers([("Content-Type", "text/plain"), *error.headers])
    )
    world.all_send()
    world.settle()
    refused = next(sock for sock in world.socks if b" 503 " in sock.sent)
    head, _, body = refused.sent.partition(b"\r\n\r\n")
    assert body == b"too busy"
    assert {b"Retry-After: 1", b"Content-Length: 8", b"Date: Thu, 01 Jan 2026 00:00:00 GMT"} <= set(head.split(b"\r\n"))
    assert b"Connection: close" not in head
    refused.sent = b""
    world.served()
    world.send(refused, GET % 7)
    world.settle()
    assert world.served() == ["/7"] and world.bodies_of(refused) == 1


def test_an_answer_to_head_has_no_body() -> None:
    world = Crowd()
    world.make_standing()
    world.clock.advance(LIMIT * 1.1)
    for sock in world.socks:
        sock.incoming = [GET.replace(b"GET", b"HEAD") % 1 for _ in sock.incoming]
    world.settle()
    refused = next(sock for sock in world.socks if b" 503 " in sock.sent)
    assert refused.sent.endswith(b"\r\n\r\n") and b"Content-Length: 0" not in refused.sent


def test_one_long_turn_is_no_overload() -> None:
    world = Crowd(takes=0.0005)
    world.step()
    world.all_send()
    world.clock.advance(5.0)  # the code of an application blocks
    world.settle()
    assert not world.refusals() and len(world.served()) == 100


def test_turns_that_are_long_again_and_again_are() -> None:
    world = Crowd(count=60, takes=0.2)
    world.all_send()
    world.settle()
    assert world.refusals() > 20


def test_some_clients_that_send_as_soon_as_they_are_answered_are_no_overload() -> None:
    world = Crowd(count=FEW, takes=0.05)
    for _ in range(5):
        world.all_send()
        world.settle()
    assert not world.refusals()


def test_a_client_that_sends_a_byte_a_second_is_no_overload() -> None:
    world = Crowd(count=1)
    (sock,) = world.socks
    for byte in GET % 1:
        world.send(sock, bytes([byte]))
        world.step()
        world.clock.advance(1.0)
    world.settle()
    assert not world.refusals() and world.served() == ["/1"]


def test_health_is_answered_throughout() -> None:
    world = Crowd()
    *others, last = world.socks
    for number, sock in enumerate(others):
        world.send(sock, GET % number)
    world.step()
    world.send(last, HEALTH)
    world.settle()
    assert world.bodies_of(last) == 1 and world.refusals() > 20


def test_what_comes_over_the_unix_socket_is_never_refused() -> None:
    world = Crowd()
    for connection in world.connections.open:
        connection.peer = UNIX_PEER  # type: ignore[attr-defined]
    world.all_send()
    world.settle()
    assert not world.refusals()


def test_classes_are_refused_in_their_order() -> None:
    world = Crowd(count=400, takes=0.001)
    requests = {
        "bulk": b"GET /bulk HTTP/1.1\r\nHost: a\r\n\r\n",
        "write": b"PUT /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
        "read": GET % 1,
        "operation": b"POST /operation HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
    }
    names = list(requests)
    for number, sock in enumerate(world.socks):
        world.send(sock, requests[names[number % 4]])
    world.settle()
    refused = [sum(b" 503 " in sock.sent for sock in world.socks[number::4]) for number in range(4)]
    assert all(first >= second for first, second in pairwise(refused)), refused
    assert refused[0] > refused[2] > refused[3] == 0, refused


def test_each_class_has_its_limit() -> None:
    world = Crowd()
    world.connections.input.is_standing = True

    def limit(kind: RequestClass) -> int:
        """In milliseconds, up to two seconds."""
        return next((ms for ms in range(2000) if world.shedder.refuses(kind, "a", ms / 1000 + 1e-9)), 2000)

    assert [limit(kind) for kind in RequestClass] == [2000, 1000, 150, 100, 50]


def test_who_would_wait_for_too_long_is_refused_at_once() -> None:
    """Over plain TCP, where a request can be seen before it is taken: nobody waits in line to be refused."""
    world = Crowd(count=300, takes=0.001, scheme="http")
    world.make_standing()
    for sock in world.socks:
        if not sock.incoming:
            world.send(sock, GET % 1)
    before = len(world.connections.input.line)
    world.poll()
    assert world.refusals()
    assert all(sock in world.loop.readers and not sock.incoming for sock in world.socks if b" 503 " in sock.sent)
    assert len(world.connections.input.line) >= before
    world.settle()
    assert not world.errors


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /own/form HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /1 HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\n\r\n",
        b"GET /1 HTTP/1.1\r\nHost: a\r\nAccept: application/cbor\r\n\r\n",
        b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"PUT /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"GET /1 HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"GET http://a/1 HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_requests_that_are_not_plain_are_refused_when_they_have_been_parsed(request_: bytes, scheme: str) -> None:
    world = Crowd(scheme=scheme)
    asked: list[Any] = []
    answer = world.application.error_response

    def error_response(error: BaseException, request: Any) -> Response:
        asked.append(request)
        return answer(error, request)

    world.application.error_response = error_response  # type: ignore[method-assign]
    world.make_standing()
    world.served()
    last = world.socks[-1]
    last.incoming.clear()
    world.send(last, request_)
    world.clock.advance(LIMIT * 1.1)
    world.settle()
    wanted = request_.count(b"Host:")
    assert last.sent.count(b"HTTP/1.1 503") == wanted and not world.bodies_of(last)
    assert len([request for request in asked if request is not None]) == wanted
    assert not last.closed or b"chunked" in request_


def test_a_refused_request_whose_body_is_not_here_ends_its_connection() -> None:
    world = Crowd()
    world.make_standing()
    last = world.socks[-1]
    last.incoming.clear()
    world.send(last, b"PUT /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{")
    world.clock.advance(LIMIT * 1.1)
    world.settle()
    assert last.sent.startswith(b"HTTP/1.1 503") and b"Connection: close" in last.sent
    assert last.half_closed  # it lingers, so that the answer is read
    assert not world.application.asked


def test_pipelined_requests_get_an_answer_each_in_order() -> None:
    world = Crowd(count=60)
    for sock in world.socks:
        world.send(sock, b"".join(GET % number for number in range(8)))
    world.settle()
    for sock in world.socks:
        assert world.bodies_of(sock) + sock.sent.count(b"HTTP/1.1 503") == 8
        assert sock in world.loop.readers
    assert world.refusals() > 60


def test_streams_of_http2_are_refused_one_by_one() -> None:
    world = Crowd(count=40, http2=True)
    clients = [ClientEnd() for _ in world.socks]
    for client, sock in zip(clients, world.socks, strict=True):
        for number in range(10):
            client.request("GET", f"/{number}", None, None)
        world.send(sock, client.data_to_send())
    world.settle()
    statuses = []
    for client, sock in zip(clients, world.socks, strict=True):
        client.receive(sock.sent)
        statuses += [answer.status for answer in client.answers.values()]
        assert all(answer.is_complete for answer in client.answers.values())
        assert not sock.closed
    assert len(statuses) == 400 and set(statuses) == {200, 503}
    assert not world.errors


def test_a_stream_is_refused_before_its_body_has_come_and_the_connection_goes_on() -> None:
    world = Crowd(count=60, http2=True)
    sock, client = world.socks[-1], ClientEnd()
    client.request("GET", "/0", None, None)
    world.send(sock, client.data_to_send())
    world.settle()
    client.receive(sock.sent)
    sock.sent = b""
    world.all_send()
    sock.incoming.clear()
    stream = client.request("PUT", "/1", {"content-length": "4"}, None, is_open=True)
    world.send(sock, client.data_to_send())
    world.settle()
    client.receive(sock.sent)
    assert client.answers[stream].status == 503 and not world.application.asked
    sock.sent = b""
    client.send_body(stream, b"body")
    other = client.request("GET", "/2", None, None)
    world.send(sock, client.data_to_send())
    world.settle()
    client.receive(sock.sent)
    assert client.answers[other].status == 200 and not sock.closed and not world.errors


class Begins:
    """A receiver that asks whether what begins is overdue."""

    def __init__(self, answers: list[bool]) -> None:
        self.answers = answers

    def start(self, tunnel: Any) -> None:
        self.tunnel = tunnel

    def on_data(self, data: bytes) -> None:
        self.answers.append(self.tunnel.is_overdue)

    def on_closed(self) -> None:
        pass


def test_what_begins_a_session_of_another_protocol_may_be_overdue() -> None:
    world = Crowd()
    answers: list[bool] = []
    acceptor = TunnelAcceptor(world.connections, lambda certificate: Begins(answers))  # type: ignore[arg-type, return-value]
    first, second = FakeSocket(), FakeSocket()
    acceptor.accept(first, "127.0.0.1", "mqtt")  # type: ignore[arg-type]
    world.socks.append(first)
    world.send(first, b"x")
    world.step()
    assert answers == [False]
    world.socks.remove(first)
    world.make_standing()
    acceptor.accept(second, "127.0.0.1", "mqtt")  # type: ignore[arg-type]
    world.socks.append(second)
    for sock in [each for each in world.socks if each.sent][:3]:
        world.send(sock, GET % 1)  # they use the slice of this turn up
    world.send(second, b"x")
    world.poll()
    world.turn()
    world.clock.advance(LIMIT * 1.1)
    world.settle()
    assert answers == [False, True]


def test_requests_of_clients_that_have_left_are_dropped() -> None:
    world = Crowd(takes=SLICE)
    world.all_send()
    world.step()
    gone = world.socks[50:60]
    world.left.update(gone)
    world.clock.advance(LEFT_AGE)
    world.settle()
    assert all(sock.closed and not sock.sent for sock in gone)
    assert not any(f"/{number}" in world.served() for number in range(50, 60))


def test_with_half_closed_clients_a_short_wait_changes_nothing() -> None:
    world = Crowd(count=5, takes=SLICE)
    world.left.update(world.socks)
    world.all_send()
    world.settle()
    assert len(world.served()) == 5


def test_pipelined_requests_of_a_client_that_has_left_are_dropped() -> None:
    world = Crowd(count=2, takes=SLICE)
    for sock in world.socks:
        world.send(sock, b"".join(GET % number for number in range(20)))
    world.step()
    world.step()
    before = len(world.served())
    world.left.add(world.socks[0])
    world.clock.advance(LEFT_AGE)
    world.settle()
    assert before and world.socks[0].closed and world.bodies_of(world.socks[1]) == 20


def test_who_takes_most_of_the_time_is_refused_first() -> None:
    world = Crowd(count=200, takes=0.001)
    greedy, modest = world.socks[:190], world.socks[190:]
    credentials = b"GET /1 HTTP/1.1\r\nHost: a\r\nAuthorization: Basic %s\r\n\r\n"
    refused: list[list[int]] = []
    for _ in range(9):
        for sock in world.socks:
            if not sock.incoming:
                world.send(sock, credentials % (b"greedy" if sock in greedy else b"modest"))
        for _ in range(10):
            world.step()
        refused.append([sum(sock.sent.count(b" 503 ") for sock in socks) for socks in (greedy, modest)])
    assert refused[3][1] == refused[-1][1], "since it is known who takes most"
    assert refused[3][0] + 100 < refused[-1][0]
    assert sum(map(world.bodies_of, modest)) >= 2 * len(modest)


def test_overload_ends_when_the_line_is_empty() -> None:
    world = Crowd()
    world.all_send()
    world.settle()
    refused = world.refusals()
    assert refused
    for sock in world.socks[:FEW]:
        world.send(sock, GET % 1)
    world.clock.advance(1.0)
    world.settle()
    assert world.refusals() == refused


def test_nothing_is_refused_without_a_shedder() -> None:
    world = Crowd()
    world.connections.shedder = None
    world.all_send()
    world.settle()
    assert len(world.served()) == 100


def test_an_answer_that_the_socket_does_not_take_is_sent_when_there_is_room() -> None:
    world = Crowd()
    world.make_standing()
    last = world.socks[-1]
    last.room = 10
    world.clock.advance(LIMIT * 1.1)
    world.settle()
    assert len(last.sent) == 10
    last.room = 1 << 20
    world.loop.writers[last]()
    world.turn()
    assert last.sent.startswith(b"HTTP/1.1 503 Service Unavailable\r\n") and last.sent.count(b"HTTP") == 1
    assert last.sent.endswith(b"limit")


def test_counts_are_told_at_once_and_then_seldom() -> None:
    world = Crowd()
    shedder = world.shedder
    share = world.connections.input
    share.is_standing = True
    assert not shedder.refuses(RequestClass.READ, "a", LIMIT)
    for _ in range(3):
        assert shedder.refuses(RequestClass.READ, "a", LIMIT * 2)
    assert world.told == ["overloaded: requests are refused with 503, which have waited for too long: 1 of read"]
    assert shedder.refuses(RequestClass.BULK, "a", LIMIT)
    shedder.sweep(world.clock.monotonic() + 1)
    assert len(world.told) == 1 and world.counted == {"READ": 3, "BULK": 1}
    shedder.sweep(world.clock.monotonic() + 20)
    assert world.told[1].endswith(": 2 of read, 1 of bulk")
    shedder.sweep(world.clock.monotonic() + 40)
    assert len(world.told) == 2


def test_callers_share_the_last_second() -> None:
    now = [100.0]
    callers = CallerTimes(lambda: now[0])

    def spend(caller: str, seconds: float) -> None:
        callers.begin(caller)
        now[0] += seconds
        callers.end()

    spend("a", 0.1)
    assert not callers.takes_most("a")  # there is no other
    spend("b", 0.05)
    assert callers.takes_most("a") and not callers.takes_most("b")
    now[0] += 0.4
    spend("b", 0.2)
    assert callers.takes_most("b")
    now[0] += 2.0
    spend("c", 0.01)
    spend("a", 0.02)
    assert callers.takes_most("a") and not callers.takes_most("b")


def test_a_flood_of_callers_takes_no_memory() -> None:
    now = [0.0]
    callers = CallerTimes(lambda: now[0])
    for number in range(5000):
        callers.begin(str(number))
        now[0] += 1e-5
    assert len(callers._times) <= 1000


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
    with client, accepted:
        yield client, accepted


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="Linux only")
def test_the_kernel_knows_the_age_and_whether_the_peer_has_left(pair: tuple[socket.socket, socket.socket]) -> None:
    client, accepted = pair
    client.sendall(b"x")
    found = look_at(accepted)
    assert found is not None and found[0] >= 0 and not found[1]
    client.shutdown(socket.SHUT_WR)
    accepted.settimeout(10)
    while accepted.recv(10):
        pass
    found = look_at(accepted)
    assert found is not None and found[1]


def test_what_is_no_socket_of_tcp_has_no_age() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert look_at(one) is None
    assert look_at(object()) is None


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="Linux only")
def test_through_tls_the_socket_below_is_asked(pair: tuple[socket.socket, socket.socket]) -> None:
    found = look_at(TlsSocket(pair[1]))
    assert found is not None and not found[1]


def test_the_application_is_asked_for_the_answer_once_a_second() -> None:
    world = Crowd()
    asked: list[Any] = []
    answer = world.application.error_response

    def error_response(error: BaseException, request: Any) -> Response:
        assert isinstance(error, Problem) and error.code == "OVERLOADED"
        asked.append(request)
        return answer(error, request)

    world.application.error_response = error_response  # type: ignore[method-assign]
    world.all_send()
    world.settle()
    assert world.refusals() > 20 and asked == [None]
    assert STANDING > 0
