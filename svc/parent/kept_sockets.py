"""The listening sockets of all instances, which the parent keeps, so that one that ends or is replaced loses no client that waits.

Each port has a socket for each instance (SO_REUSEPORT): the kernel spreads new connections over them. An instance accepts from its own, and now and
then from those of the others, whose owner may be busy or gone. A Unix socket is one for all, and so is each that a supervisor has opened (systemd, socket
activation): it belongs to another user, so no other can be opened beside it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from svc.config.addresses import EVERY_ADDRESS, LOCALHOST
from svc.connection.listening import bound_address, listen_at, listen_further, listen_on
from svc.parent.state import PortState

_INCLUDED = {EVERY_ADDRESS: frozenset((EVERY_ADDRESS, "::", "0.0.0.0")), LOCALHOST: frozenset(("127.0.0.1", "::1"))}
"""What a supervisor may have opened for an address of the configuration; for others, that."""


@dataclass(slots=True)
class KeptPort:
    """`sockets`: for each address as many as there are instances; of a path, or given, one. `users`: the instances that listen on it."""

    name: str
    port: int
    hosts: tuple[str, ...]
    path: str
    occurrence: int
    sockets: list[list[socket.socket]]
    users: set[Hashable] = field(default_factory=set)

    def close(self, given: Collection[socket.socket]) -> None:
        """All but what is `given`."""
        own = [sock for group in self.sockets for sock in group if sock not in given]
        for sock in own:
            sock.close()
        if self.path and own:
            Path(self.path).unlink(missing_ok=True)


class KeptSockets:
    """`count`: of the instances. `given`: sockets that a supervisor has opened; they stay open."""

    def __init__(self, count: int, given: Sequence[socket.socket] = ()) -> None:
        self.count = count
        self._given = list(given)
        self._kept: list[KeptPort] = []

    def open_port(self, user: Hashable, name: str, port: int, hosts: Sequence[str], occurrence: int) -> KeptPort:
        """As `listen_on`. `occurrence`: with port 0, how many this instance has opened under this name before."""
        for kept in self._kept:
            if (kept.hosts, kept.path) == (tuple(hosts), "") and (
                kept.port == port if port else (kept.name, kept.occurrence) == (name, occurrence)
            ):
                break
        else:
            first = self._given_at(port, hosts)
            rest = [host for host in hosts if not any(_is_at(sock, port, host) for sock in first)]
            first += listen_on(port, rest, is_shared=True)
            kept = KeptPort(
                name, first[0].getsockname()[1] if first else port, tuple(hosts), "", -1 if port else occurrence, [[sock] for sock in first]
            )
            self._kept.append(kept)
        kept.users.add(user)
        for group in kept.sockets:
            while len(group) < self.count and group[0] not in self._given:
                group.append(listen_further(group[0]))
        return kept

    def open_path(self, user: Hashable, path: str) -> KeptPort:
        """As `listen_at`."""
        for kept in self._kept:
            if kept.path == path:
                break
        else:
            given = next((sock for sock in self._given if sock.family == socket.AF_UNIX and sock.getsockname() == path), None)
            kept = KeptPort("", 0, (), path, -1, [[given or listen_at(Path(path))]])
            self._kept.append(kept)
        kept.users.add(user)
        return kept

    def release(self, user: Hashable, port: int, path: str) -> None:
        """One of its users does not listen any more."""
        for kept in self._kept:
            if (kept.path == path) if path else (kept.port == port and not kept.path):
                kept.users.discard(user)
        self.close_unused()

    def leave(self, user: Hashable) -> None:
        """A user has ended. What it had stays: another takes its place."""
        for kept in self._kept:
            kept.users.discard(user)

    def close_unused(self) -> None:
        for kept in [kept for kept in self._kept if not kept.users]:
            kept.close(self._given)
            self._kept.remove(kept)

    @property
    def unused(self) -> list[str]:
        """Addresses that a supervisor has opened and nobody listens on."""
        used = {sock for kept in self._kept for group in kept.sockets for sock in group}
        return [_address_of(sock) for sock in self._given if sock not in used]

    def close(self) -> None:
        for kept in self._kept:
            kept.close(self._given)
        self.give_up()

    def give_up(self) -> None:
        """In a forked child: close them, and leave the paths."""
        for sock in (*self._given, *(sock for kept in self._kept for group in kept.sockets for sock in group)):
            sock.close()
        self._kept.clear()
        self._given.clear()

    def _given_at(self, port: int, hosts: Sequence[str]) -> list[socket.socket]:
        return [sock for sock in self._given if any(_is_at(sock, port, host) for host in hosts)]

    # --- across an exec of the parent ---------------------------------------------------------------------------------------------------

    def state(self) -> list[PortState]:
        return [
            PortState(
                kept.name, kept.port, kept.hosts, kept.path, kept.occurrence, [[sock.fileno() for sock in group] for group in kept.sockets]
            )
            for kept in self._kept
        ]

    @property
    def given(self) -> list[int]:
        """Descriptors."""
        return [sock.fileno() for sock in self._given]

    def adopt(self, ports: Sequence[PortState], given: Sequence[int], users: Sequence[Hashable]) -> None:
        """`users`: instances that go on meanwhile. They may listen on any of them."""
        sockets = {
            number: _adopted(number) for number in {*given, *(number for port in ports for group in port.sockets for number in group)}
        }
        self._given += [sockets[number] for number in given]
        for port in ports:
            groups = [[sockets[number] for number in group] for group in port.sockets]
            self._kept.append(KeptPort(port.name, port.port, port.hosts, port.path, port.occurrence, groups, set(users)))


def _adopted(number: int) -> socket.socket:
    os.set_inheritable(number, False)
    sock = socket.socket(fileno=number)
    sock.setblocking(False)
    return sock


def _is_at(sock: socket.socket, port: int, host: str) -> bool:
    """Whether it is what the configuration wants at an address; no socket is at port 0."""
    return sock.family != socket.AF_UNIX and sock.getsockname()[1] == port and bound_address(sock) in _INCLUDED.get(host, (host,))


def _address_of(sock: socket.socket) -> str:
    name = sock.getsockname()
    return str(name) if sock.family == socket.AF_UNIX else f"{name[0]} port {name[1]}"
