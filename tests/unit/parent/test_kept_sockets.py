"""Listening sockets that several processes share, on real sockets."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from svc.connection.listening import listen_on
from svc.parent.kept_sockets import KeptSockets
from tests.support.waiting import wait_until

HOSTS = ("127.0.0.1",)


@pytest.fixture
def kept() -> Iterator[KeptSockets]:
    made = KeptSockets(2)
    yield made
    made.close()


def test_each_instance_has_a_socket_of_a_port(kept: KeptSockets) -> None:
    port = kept.open_port("a", "http.port", 0, HOSTS, 0)
    ((first, second),) = port.sockets
    assert first.getsockname() == second.getsockname() == ("127.0.0.1", port.port)
    clients = [socket.create_connection(("127.0.0.1", port.port)) for _ in range(64)]
    taken: dict[socket.socket, int] = dict.fromkeys((first, second), 0)

    def take() -> bool:
        for sock in taken:
            try:
                sock.accept()[0].close()
                taken[sock] += 1
            except BlockingIOError:
                pass
        return sum(taken.values()) == len(clients)

    wait_until(take)
    assert all(taken.values()), "the kernel spreads them"
    for client in clients:
        client.close()


def test_those_who_ask_for_the_same_get_the_same(kept: KeptSockets) -> None:
    port = kept.open_port("a", "http.port", 0, HOSTS, 0)
    assert kept.open_port("b", "http.port", 0, HOSTS, 0) is port
    assert kept.open_port("b", "other", port.port, HOSTS, 0) is port, "by its number"
    assert kept.open_port("a", "http.port", 0, HOSTS, 1) is not port
    assert kept.open_port("a", "server.http", 0, HOSTS, 0) is not port


def test_it_stays_open_until_nobody_listens_any_more(kept: KeptSockets, tmp_path: Path) -> None:
    port = kept.open_port("a", "http.port", 0, HOSTS, 0)
    path = kept.open_path("a", str(tmp_path / "socket"))
    assert kept.open_path("b", str(tmp_path / "socket")) is path
    kept.open_port("b", "http.port", port.port, HOSTS, 0)
    kept.release("a", port.port, "")
    kept.release("a", 0, str(tmp_path / "socket"))
    socket.create_connection(("127.0.0.1", port.port)).close()
    kept.release("b", port.port, "")
    kept.release("b", 0, str(tmp_path / "socket"))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port.port))
    assert not (tmp_path / "socket").exists()


def test_one_whose_user_has_ended_waits_for_the_next(kept: KeptSockets) -> None:
    port = kept.open_port("a", "http.port", 0, HOSTS, 0)
    kept.leave("a")
    with socket.create_connection(("127.0.0.1", port.port)):
        assert kept.open_port("b", "http.port", port.port, HOSTS, 0) is port
    kept.leave("b")
    kept.close_unused()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port.port))


@pytest.mark.parametrize("shares", [False, True])
def test_a_port_of_another_program_is_not_shared_with_it(kept: KeptSockets, shares: bool) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shares)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="Address already in use") as raised:
            kept.open_port("a", "http.port", taken.getsockname()[1], HOSTS, 0)
        assert raised.value.filename == "127.0.0.1"
    port = kept.open_port("a", "http.port", 0, HOSTS, 0)
    other = KeptSockets(1)
    with pytest.raises(OSError, match="Address already in use"):
        other.open_port("a", "http.port", port.port, HOSTS, 0)


def test_they_go_on_in_another_program(kept: KeptSockets, tmp_path: Path) -> None:
    port = kept.open_port("a", "http.port", 0, HOSTS, 0)
    kept.open_path("a", str(tmp_path / "socket"))
    copies = [replace(state, sockets=[[os.dup(number) for number in group] for group in state.sockets]) for state in kept.state()]
    later = KeptSockets(3)
    later.adopt(copies, [], ["a"])
    kept.give_up()
    assert (tmp_path / "socket").exists()
    found = later.open_port("b", "http.port", port.port, HOSTS, 0)
    assert [len(group) for group in found.sockets] == [3] and found.users == {"a", "b"}
    with socket.create_connection(("127.0.0.1", port.port)):
        pass
    later.close()
    assert not (tmp_path / "socket").exists()


def given(host: str) -> socket.socket:
    """As a supervisor has opened it."""
    (sock,) = listen_on(0, (host,))
    return sock


def is_served(sock: socket.socket) -> bool:
    """Whether a client that connects waits there."""
    with socket.create_connection(sock.getsockname()[:2]):
        try:
            sock.accept()[0].close()
        except BlockingIOError:
            return False
        return True


@pytest.mark.parametrize(("wanted", "opened"), [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("*", "*"), ("*", "0.0.0.0")])
def test_a_socket_of_the_supervisor_is_for_all(wanted: str, opened: str) -> None:
    with given("127.0.0.1") as other, given(opened) as sock:
        kept = KeptSockets(2, [other, sock])
        port = kept.open_port("a", "http.port", sock.getsockname()[1], (wanted,), 0)
        assert port.sockets == [[sock]] and kept.open_port("b", "http.port", port.port, (wanted,), 0) is port
        assert kept.unused == [f"127.0.0.1 port {other.getsockname()[1]}"]
        kept.release("a", port.port, "")
        kept.release("b", port.port, "")
        assert is_served(sock) and len(kept.unused) == 2, "it is the supervisor's to close"
        assert kept.open_port("b", "http.port", port.port, (wanted,), 0).sockets == [[sock]]
        kept.close()


def test_an_address_that_the_supervisor_has_not_opened_is_opened() -> None:
    with given("127.0.0.1") as sock:
        kept = KeptSockets(2, [sock])
        first, second = kept.open_port("a", "http.port", sock.getsockname()[1], ("127.0.0.1", "127.0.0.2"), 0).sockets
        assert first == [sock] and [each.getsockname()[0] for each in second] == ["127.0.0.2"] * 2
        kept.close()


def test_sockets_of_the_supervisor_go_on_in_another_program(tmp_path: Path) -> None:
    with given("127.0.0.1") as sock, given("127.0.0.1") as unused, socket.socket(socket.AF_UNIX) as path:
        path.bind(str(tmp_path / "socket"))
        path.listen()
        kept = KeptSockets(1, [sock, unused, path])
        kept.open_port("a", "http.port", sock.getsockname()[1], HOSTS, 0)
        assert kept.open_path("a", str(tmp_path / "socket")).sockets == [[path]]
        copies = {number: os.dup(number) for number in kept.given}
        ports = [replace(state, sockets=[[copies[number] for number in group] for group in state.sockets]) for state in kept.state()]
        later = KeptSockets(2)
        later.adopt(ports, list(copies.values()), ["a"])
        assert [len(group) for state in later.state() for group in state.sockets] == [1, 1] and len(later.unused) == 1
        kept.give_up()
        later.close()
        assert (tmp_path / "socket").exists()
