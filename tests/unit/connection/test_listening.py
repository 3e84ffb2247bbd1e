"""Which sockets a port is opened with, on a fake `socket` module."""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

import pytest

from svc.connection import listening
from svc.connection.listening import FREE_PORT_TRIES, bound_address, listen_on


class FakeListening:
    def __init__(self, address: tuple[Any, ...], v6only: bool) -> None:
        self.address = address
        self.v6only = v6only
        self.closed = False

    def getsockname(self) -> tuple[Any, ...]:
        return self.address

    def getsockopt(self, *option: int) -> int:
        return int(self.v6only)

    def setblocking(self, flag: bool) -> None:
        assert flag is False

    def close(self) -> None:
        self.closed = True


class FakeNetwork:
    """`refused`: address -> number of the error. `taken`: pairs of address and port."""

    def __init__(self) -> None:
        self.opened: list[FakeListening] = []
        self.refused: dict[str, int] = {}
        self.taken: set[tuple[str, int]] = set()
        self._next = 50_000

    def create(self, family: int, address: tuple[Any, ...], is_shared: bool, *, everywhere: bool = False) -> Any:
        host = address[0] or ("::" if family == socket.AF_INET6 else "0.0.0.0")
        number = self.refused.get("*" if everywhere else host)
        if (host, address[1]) in self.taken:
            number = errno.EADDRINUSE
        if number is not None:
            raise OSError(number, os.strerror(number))
        port = address[1] or self._next
        self._next += not address[1]
        self.opened.append(FakeListening((host, port), v6only=not everywhere))
        return self.opened[-1]


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> FakeNetwork:
    fake = FakeNetwork()
    monkeypatch.setattr(listening, "_create", fake.create)
    monkeypatch.setattr(listening.socket, "has_dualstack_ipv6", lambda: True)
    return fake


def addresses(sockets: list[socket.socket]) -> list[tuple[str, int]]:
    return [(bound_address(sock), sock.getsockname()[1]) for sock in sockets]


def test_every_address(network: FakeNetwork) -> None:
    assert addresses(listen_on(9926)) == [("*", 9926)]
    network.refused["*"] = errno.EAFNOSUPPORT
    assert addresses(listen_on(9926)) == [("0.0.0.0", 9926)]
    network.refused["*"] = errno.EADDRINUSE
    with pytest.raises(OSError, match="Address already in use: '\\*'"):
        listen_on(9926)


def test_several_addresses(network: FakeNetwork) -> None:
    assert addresses(listen_on(9926, ("127.0.0.2", "::1"))) == [("127.0.0.2", 9926), ("::1", 9926)]
    assert addresses(listen_on(9926, ("0.0.0.0", "::"))) == [("0.0.0.0", 9926), ("::", 9926)]


def test_localhost_is_the_loopback_of_ipv4_and_of_ipv6_if_there_is_one(network: FakeNetwork) -> None:
    assert addresses(listen_on(9926, ("localhost", "127.0.0.1"))) == [("127.0.0.1", 9926), ("::1", 9926)]
    network.refused["::1"] = errno.EADDRNOTAVAIL
    assert addresses(listen_on(9926, ("localhost",))) == [("127.0.0.1", 9926)]
    network.refused["::1"] = errno.EADDRINUSE
    with pytest.raises(OSError, match="Address already in use: 'localhost'"):
        listen_on(9926, ("localhost",))


def test_when_one_address_cannot_be_opened_none_is(network: FakeNetwork) -> None:
    network.refused["10.9.9.9"] = errno.EADDRNOTAVAIL
    with pytest.raises(OSError, match=r"Cannot assign requested address: '10\.9\.9\.9'"):
        listen_on(9926, ("127.0.0.1", "10.9.9.9"))
    assert [sock.closed for sock in network.opened] == [True]


def test_any_free_port_is_the_same_at_all_addresses(network: FakeNetwork) -> None:
    network.taken.add(("::1", 50_000))
    assert addresses(listen_on(0, ("127.0.0.1", "::1"))) == [("127.0.0.1", 50_001), ("::1", 50_001)]
    assert [sock.closed for sock in network.opened] == [True, False, False]
    network.refused["::1"] = errno.EADDRINUSE
    with pytest.raises(OSError, match="already in use"):
        listen_on(0, ("127.0.0.1", "::1"))
    assert len(network.opened) == 3 + FREE_PORT_TRIES
